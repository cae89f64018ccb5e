/*
 * postgres_server.c - how the tests set up, start and speak to PostgreSQL.
 */
#include "server.h"

#include <glob.h>
#include <libpq-fe.h>

const char *const dialect_user = "postgres";
const char *const dialect_scheme = "postgres";
const char *const dialect_admin = "simba";
const char *const dialect_database = "simba";
const bool dialect_pushes = true;
#define NOW "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
const char *const dialect_now_ms = NOW;
const int dialect_marks = 0;
const char *const dialect_counts = " AND (reserved_until = 0 OR reserved_until > " NOW ")";
const char *const dialect_count_listeners = NULL;

/* The administrator's own sessions name themselves, so that they are left alone. */
#define CLIENTS "FROM pg_stat_activity WHERE application_name = 'simba'"

const char *const dialect_count_clients = "SELECT count(*) " CLIENTS;
const char *const dialect_count_commits =
    "SELECT xact_commit FROM pg_stat_database WHERE datname = 'simba'";
const char *const dialect_create_user = "CREATE ROLE plain LOGIN PASSWORD 'secret';"
                                        "REVOKE CREATE ON SCHEMA public FROM PUBLIC";
const char *const dialect_set_password = "PASSWORD";
const char *const dialect_reload_certificate = "SELECT pg_reload_conf()";
const char *const dialect_widen_mutex =
    "ALTER TABLE simba_mutex ALTER COLUMN mutex TYPE varchar(255)";
const char *const dialect_grant_use = "GRANT SELECT, INSERT, UPDATE ON simba_mutex TO plain;"
                                      "GRANT SELECT, INSERT, UPDATE, DELETE ON simba_waiter TO"
                                      " plain";
const char *const dialect_revoke_use = "REVOKE ALL ON simba_mutex, simba_waiter FROM plain";
const char *const dialect_read_only = "ALTER ROLE plain SET default_transaction_read_only = on";
const char *const dialect_read_write = "ALTER ROLE plain RESET default_transaction_read_only";
#define SET_LEVEL "ALTER DATABASE simba SET default_transaction_isolation = "
const char *const dialect_isolations[] = {
    SET_LEVEL "'read committed'",
    SET_LEVEL "'repeatable read'",
    SET_LEVEL "'serializable'",
    NULL,
};
const char *const dialect_describe =
    "SELECT concat_ws(' ', reloptions::text, string_agg(concat_ws(' ', attname,"
    " format_type(atttypid, atttypmod), attnotnull::text), ',' ORDER BY attnum))"
    " FROM pg_class c JOIN pg_attribute ON attrelid = c.oid AND attnum > 0"
    " WHERE c.oid = to_regclass('simba_mutex') GROUP BY reloptions::text";
const char *const dialect_old_table =
    "CREATE TABLE simba_mutex (mutex varchar(66) NOT NULL PRIMARY KEY, acquired_at bigint NOT NULL,"
    " ttl_at bigint NOT NULL, transition_at bigint NOT NULL, owner_id varchar(32) NOT NULL,"
    " version bigint NOT NULL)";
const char *const dialect_wide_table =
    "INSERT INTO simba_mutex (mutex, acquired_at, ttl_at, transition_at, owner_id, version)"
    " SELECT 'row-' || i, 0, 0, 0, '', 0 FROM generate_series(1, 20000) i;"
    "ANALYZE simba_mutex";

const char *const dialect_trigger =
    "CREATE FUNCTION hold_up() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " IF NEW.mutex = 'slow' OR NEW.owner_id = 'poison' THEN PERFORM pg_sleep(0.3); END IF;"
    " IF NEW.owner_id = 'poison' THEN RAISE EXCEPTION 'poison'; END IF; RETURN NEW; END $$;"
    "CREATE TRIGGER hold_up BEFORE UPDATE ON simba_mutex FOR EACH ROW EXECUTE FUNCTION hold_up();"
    "CREATE SEQUENCE updates;"
    "CREATE FUNCTION count_update() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " PERFORM nextval('public.updates'); RETURN NULL; END $$;"
    "CREATE TRIGGER count_update AFTER UPDATE ON simba_mutex FOR EACH STATEMENT"
    " EXECUTE FUNCTION count_update()";
const char *const dialect_count_updates = "SELECT last_value FROM updates";
const char *const dialect_odd_sessions = "ALTER ROLE plain SET client_encoding = 'LATIN1'";
const char *const dialect_count_connects =
    "SELECT sessions FROM pg_stat_database WHERE datname = 'simba'";
const bool dialect_drops_spaces = false;
const char *const dialect_show_isolation = "SHOW transaction_isolation";

const char *dialect_socket(const struct server *s)
{
    static char name[32];

    snprintf(name, sizeof name, ".s.PGSQL.%d", s->port);
    return name;
}

const char *const dialect_hold_late =
    "CREATE FUNCTION hold_late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " WHILE NOT pg_try_advisory_xact_lock(1) LOOP PERFORM pg_sleep(0.01); END LOOP;"
    " RETURN NULL; END $$;"
    "CREATE TRIGGER hold_late AFTER INSERT ON simba_waiter FOR EACH ROW WHEN (NEW.id = 'late' AND"
    " NEW.client <> '') EXECUTE FUNCTION hold_late();"
    "SELECT pg_advisory_lock(1)";
const char *const dialect_let_late_go = "DROP FUNCTION hold_late CASCADE";
const char *const dialect_count_late =
    "SELECT count(*) " CLIENTS " AND state = 'active' AND query LIKE 'INSERT INTO%simba_waiter%'";

const char *const dialect_count_sleepers =
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";

static char folder[TEST_PATH_MAX]; /* of the programs */
static char program[TEST_PATH_MAX + 16];
static char initdb[TEST_PATH_MAX + 16];
static char data[TEST_PATH_MAX + 16];
static char port[16];

/* Debian keeps them apart by their version. */
const char *dialect_program(void)
{
    glob_t found;

    if (glob("/usr/lib/postgresql/*/bin/postgres", 0, NULL, &found) != 0)
        return NULL;
    snprintf(program, sizeof program, "%s", found.gl_pathv[found.gl_pathc - 1]);
    globfree(&found);
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(program, '/') - program), program);
    return program;
}

void dialect_create(const struct server *s, const char *arguments[SERVER_ARGUMENTS_MAX])
{
    const char *const list[] = {initdb,  "-D", data, "-U",   dialect_admin,     "-A",
                                "trust", "-N", "-E", "UTF8", "--locale=C.UTF-8"};

    dialect_program();
    snprintf(initdb, sizeof initdb, "%s/initdb", folder);
    snprintf(data, sizeof data, "%s/data", s->folder);
    memcpy(arguments, list, sizeof list);
}

/* Who is called `plain` needs a password; everybody else is let in. */
static void restrict_plain(const struct server *s)
{
    char path[TEST_PATH_MAX + 32];
    FILE *file;

    snprintf(path, sizeof path, "%s/data/pg_hba.conf", s->folder);
    file = fopen(path, "we");
    if (file == NULL ||
        fputs("host all plain 127.0.0.1/32 scram-sha-256\n"
              "host all all 127.0.0.1/32 trust\n"
              "local all all trust\n",
              file) < 0 ||
        fclose(file) != 0)
        fail_msg("cannot write %s", path);
}

/* Its shared memory is in its folder, where a server that is killed leaves it behind to be
 * removed. */
void dialect_start(const struct server *s, const char *arguments[SERVER_ARGUMENTS_MAX])
{
    static char sockets[TEST_PATH_MAX + 32];
    static const char *const tls[] = {
        "-c", "ssl=on", "-c", "ssl_cert_file=../cert.pem", "-c", "ssl_key_file=../key.pem"};
    const char *const list[] = {program,
                                "-D",
                                data,
                                "-p",
                                port,
                                "-c",
                                "listen_addresses=127.0.0.1",
                                "-c",
                                sockets,
                                "-c",
                                "max_connections=200",
                                "-c",
                                "dynamic_shared_memory_type=mmap"};

    restrict_plain(s);
    snprintf(data, sizeof data, "%s/data", s->folder);
    snprintf(port, sizeof port, "%d", s->port);
    snprintf(sockets, sizeof sockets, "unix_socket_directories=%s", s->folder);
    memcpy(arguments, list, sizeof list);
    for (size_t i = 0; s->tls && i < TEST_COUNT(tls); i++)
        arguments[TEST_COUNT(list) + i] = tls[i];
}

void dialect_set_up(const struct server *s)
{
    (void)s; /* dialect_connect creates the database when it is missing */
}

static PGconn *connect_to(const struct server *s, const char *database)
{
    char info[256];
    PGconn *pg;

    snprintf(info, sizeof info,
             "host=127.0.0.1 port=%d user=%s dbname=%s application_name=admin connect_timeout=5",
             s->port, dialect_admin, database);
    pg = PQconnectdb(info);
    if (PQstatus(pg) == CONNECTION_OK)
        return pg;
    PQfinish(pg);
    return NULL;
}

static void create_database(const struct server *s)
{
    PGconn *pg = connect_to(s, "postgres");

    if (pg != NULL)
        PQclear(PQexec(pg, "CREATE DATABASE simba"));
    PQfinish(pg);
}

struct session *dialect_connect(const struct server *s)
{
    PGconn *pg = connect_to(s, dialect_database);

    if (pg == NULL) {
        create_database(s);
        pg = connect_to(s, dialect_database);
    }
    return (struct session *)pg;
}

bool dialect_run(struct session *session, const char *sql, char *ret_text, size_t size)
{
    PGresult *result = PQexec((PGconn *)session, sql);
    ExecStatusType status = PQresultStatus(result);
    size_t used = 0;

    ret_text[0] = '\0';
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
        snprintf(ret_text, size, "%s", PQresultErrorMessage(result));
    for (int row = 0; row < PQntuples(result) && used < size; row++)
        used += (size_t)snprintf(ret_text + used, size - used, "%s%s", row > 0 ? "\n" : "",
                                 PQgetvalue(result, row, 0));
    PQclear(result);
    return status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
}

void dialect_disconnect(struct session *session)
{
    PQfinish((PGconn *)session);
}

void dialect_kill_clients(const struct server *s)
{
    server_sql(s, "SELECT pg_terminate_backend(pid) " CLIENTS);
}
