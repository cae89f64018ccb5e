/*
 * mysql_server.c - how the tests set up, start and speak to MariaDB.
 */
#include "server.h"

#include <mysql.h>

#define PROGRAM "/usr/sbin/mariadbd"
#define INSTALLER "/usr/bin/mariadb-install-db"

const char *const dialect_user = "mysql";
const char *const dialect_scheme = "mysql";
const char *const dialect_admin = "root";
const char *const dialect_database = "simba";
const bool dialect_pushes = false;
#define NOW "timestampdiff(microsecond, '1970-01-01', utc_timestamp(3)) DIV 1000"
const char *const dialect_now_ms = NOW;
const int dialect_marks = 1;
const char *const dialect_counts = " AND (reserved_until = 0 OR reserved_until > " NOW ")";
/* Those that have slept for a while: their trial is over. */
const char *const dialect_count_listeners =
    "SELECT count(*) FROM information_schema.processlist WHERE state = 'User lock' AND time_ms >"
    " 50";

/* The administrator's sessions are of the user `admin`, those of the library of others. */
#define CLIENTS "FROM information_schema.processlist WHERE user IN ('root', 'plain')"

const char *const dialect_count_clients = "SELECT count(*) " CLIENTS;
const char *const dialect_count_commits =
    "SELECT count FROM information_schema.innodb_metrics WHERE name = 'trx_rw_commits'";
const char *const dialect_create_user = "CREATE USER plain IDENTIFIED BY 'secret'";
const char *const dialect_set_password = "IDENTIFIED BY";
const char *const dialect_reload_certificate = "FLUSH SSL";
const char *const dialect_widen_mutex =
    "ALTER TABLE simba_mutex MODIFY mutex varchar(255) NOT NULL";
const char *const dialect_grant_use = "GRANT SELECT, INSERT, UPDATE ON simba.simba_mutex TO plain;"
                                      "GRANT SELECT, INSERT, UPDATE, DELETE ON simba.simba_waiter"
                                      " TO plain";
const char *const dialect_revoke_use = "REVOKE ALL ON simba.simba_mutex FROM plain;"
                                       "REVOKE ALL ON simba.simba_waiter FROM plain";
const char *const dialect_read_only = "SET GLOBAL read_only = 1";
const char *const dialect_read_write = "SET GLOBAL read_only = 0";
#define SET_LEVEL "SET GLOBAL TRANSACTION ISOLATION LEVEL "
const char *const dialect_isolations[] = {
    SET_LEVEL "READ COMMITTED",
    SET_LEVEL "REPEATABLE READ",
    SET_LEVEL "SERIALIZABLE",
    NULL,
};

const char *const dialect_describe =
    "SELECT concat_ws(' ', engine, table_collation, group_concat(concat_ws(' ', column_name,"
    " column_type, is_nullable, column_key, collation_name) ORDER BY ordinal_position))"
    " FROM information_schema.tables JOIN information_schema.columns"
    " USING (table_schema, table_name) WHERE table_name = 'simba_mutex'"
    " GROUP BY engine, table_collation";

/* With the server's own collation, which does not tell a from A. */
const char *const dialect_old_table =
    "CREATE TABLE simba_mutex (mutex varchar(66) NOT NULL PRIMARY KEY COMMENT 'mutex name',"
    " acquired_at bigint unsigned NOT NULL, ttl_at bigint unsigned NOT NULL,"
    " transition_at bigint unsigned NOT NULL, owner_id char(32) NOT NULL,"
    " version int unsigned NOT NULL)";
const char *const dialect_wide_table =
    "INSERT INTO simba_mutex (mutex, acquired_at, ttl_at, transition_at, owner_id, version)"
    " SELECT concat('row-', seq), 0, 0, 0, '', 0 FROM seq_1_to_20000;"
    "ANALYZE TABLE simba_mutex";

const char *const dialect_trigger =
    "CREATE TRIGGER hold_up BEFORE UPDATE ON simba_mutex FOR EACH ROW BEGIN"
    " IF NEW.mutex = 'slow' OR NEW.owner_id = 'poison' THEN DO sleep(0.3); END IF;"
    " IF NEW.owner_id = 'poison' THEN SIGNAL SQLSTATE '45000'; END IF; END";
const char *const dialect_count_updates = "SELECT sum(variable_value) FROM"
                                          " information_schema.global_status"
                                          " WHERE variable_name IN ('com_update',"
                                          " 'com_update_multi')";
const char *const dialect_odd_sessions = "SET GLOBAL init_connect = 'SET NAMES latin1'";
const char *const dialect_count_connects = "SELECT variable_value FROM"
                                           " information_schema.global_status"
                                           " WHERE variable_name = 'connections'";
const bool dialect_drops_spaces = true;
const char *const dialect_show_isolation = "SELECT @@tx_isolation";

const char *dialect_socket(const struct server *s)
{
    (void)s;
    return "sock";
}

const char *const dialect_hold_late =
    "CREATE TRIGGER hold_late AFTER INSERT ON simba_waiter FOR EACH ROW"
    " SET @held = IF(NEW.id = 'late', GET_LOCK('late', 30) + RELEASE_LOCK('late'), 0);"
    "SELECT GET_LOCK('late', 30)";
const char *const dialect_let_late_go = "DROP TRIGGER hold_late";
const char *const dialect_count_late =
    "SELECT count(*) FROM information_schema.processlist WHERE state = 'User lock'";

const char *const dialect_count_sleepers =
    "SELECT count(*) FROM information_schema.processlist WHERE state = 'User sleep'";

/* Servers that share a folder for temporary tables delete those of each other. */
static char data[TEST_PATH_MAX + 32];
static char temporary[TEST_PATH_MAX + 32];

const char *dialect_program(void)
{
    return access(PROGRAM, X_OK) == 0 && access(INSTALLER, X_OK) == 0 ? PROGRAM : NULL;
}

/* Nobody needs these files after a power cut. */
void dialect_create(const struct server *s, const char *arguments[SERVER_ARGUMENTS_MAX])
{
    const char *const list[] = {INSTALLER,
                                "--no-defaults",
                                data,
                                temporary,
                                "--auth-root-authentication-method=normal",
                                "--skip-test-db",
                                "--skip-name-resolve",
                                "--innodb-flush-method=nosync",
                                "--innodb-doublewrite=0",
                                "--innodb-log-file-size=8M"};

    snprintf(data, sizeof data, "--datadir=%s/data", s->folder);
    snprintf(temporary, sizeof temporary, "--tmpdir=%s", s->folder);
    memcpy(arguments, list, sizeof list);
}

void dialect_start(const struct server *s, const char *arguments[SERVER_ARGUMENTS_MAX])
{
    static char port[32];
    static char socket[TEST_PATH_MAX + 32];
    static char pid_file[TEST_PATH_MAX + 32];
    static char certificate[TEST_PATH_MAX + 32];
    static char key[TEST_PATH_MAX + 32];
    static char id[32];
    size_t count;
    const char *const list[] = {PROGRAM,
                                "--no-defaults",
                                data,
                                temporary,
                                port,
                                socket,
                                pid_file,
                                id,
                                "--bind-address=127.0.0.1",
                                "--skip-name-resolve",
                                "--innodb-log-file-size=8M",
                                "--innodb-buffer-pool-size=32M",
                                "--innodb-monitor-enable=trx_rw_commits"};

    snprintf(data, sizeof data, "--datadir=%s/data", s->folder);
    snprintf(temporary, sizeof temporary, "--tmpdir=%s", s->folder);
    snprintf(port, sizeof port, "--port=%d", s->port);
    snprintf(socket, sizeof socket, "--socket=%s/sock", s->folder);
    snprintf(pid_file, sizeof pid_file, "--pid-file=%s/pid", s->folder);
    snprintf(id, sizeof id, "--server-id=%d", s->port);
    memcpy(arguments, list, sizeof list);
    count = TEST_COUNT(list);
    if (s->logs_statements) {
        arguments[count++] = "--log-bin=log-bin";
        arguments[count++] = "--binlog-format=STATEMENT";
    }
    if (s->without_tls)
        arguments[count++] = "--skip-ssl";
    if (!s->tls)
        return;
    snprintf(certificate, sizeof certificate, "--ssl-cert=%s/cert.pem", s->folder);
    snprintf(key, sizeof key, "--ssl-key=%s/key.pem", s->folder);
    arguments[count++] = certificate;
    arguments[count] = key;
}

static MYSQL *connect_as(const struct server *s, const char *user)
{
    MYSQL *mysql = mysql_init(NULL);
    const unsigned seconds = 5;
    const my_bool no = 0; /* newer versions of the library want TLS of every server */

    mysql_optionsv(mysql, MYSQL_OPT_CONNECT_TIMEOUT, &seconds);
    mysql_optionsv(mysql, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &no);
    if (mysql_real_connect(mysql, "127.0.0.1", user, NULL, NULL, (unsigned)s->port, NULL,
                           CLIENT_MULTI_STATEMENTS) != NULL)
        return mysql;
    mysql_close(mysql);
    return NULL;
}

static const char *const first_statements[] = {
    "CREATE DATABASE simba",
    "CREATE USER admin@'%'",
    "GRANT ALL ON *.* TO admin@'%' WITH GRANT OPTION",
};

void dialect_set_up(const struct server *s)
{
    MYSQL *mysql = connect_as(s, dialect_admin);
    char text[SERVER_TEXT_MAX];

    for (size_t i = 0; i < TEST_COUNT(first_statements); i++)
        if (mysql == NULL ||
            !dialect_run((struct session *)mysql, first_statements[i], text, sizeof text))
            fail_msg("%s: %s", first_statements[i], text);
    mysql_close(mysql);
}

/* Before the set-up there is root alone. */
struct session *dialect_connect(const struct server *s)
{
    MYSQL *mysql = connect_as(s, "admin");

    if (mysql == NULL)
        mysql = connect_as(s, dialect_admin);
    else
        mysql_select_db(mysql, dialect_database);
    return (struct session *)mysql;
}

static void read_rows(MYSQL *mysql, char *ret_text, size_t size)
{
    MYSQL_RES *result = mysql_store_result(mysql);
    size_t used = 0;
    MYSQL_ROW row;

    ret_text[0] = '\0';
    while (result != NULL && used < size && (row = mysql_fetch_row(result)) != NULL)
        used += (size_t)snprintf(ret_text + used, size - used, "%s%s", used > 0 ? "\n" : "",
                                 row[0] != NULL ? row[0] : "");
    mysql_free_result(result);
}

bool dialect_run(struct session *session, const char *sql, char *ret_text, size_t size)
{
    MYSQL *mysql = (MYSQL *)session;

    if (mysql_query(mysql, sql) != 0) {
        snprintf(ret_text, size, "%s", mysql_error(mysql));
        return false;
    }
    read_rows(mysql, ret_text, size);
    while (mysql_next_result(mysql) == 0)
        mysql_free_result(mysql_store_result(mysql));
    return true;
}

void dialect_disconnect(struct session *session)
{
    mysql_close((MYSQL *)session);
}

/* One that has just gone by itself is as good as killed. */
void dialect_kill_clients(const struct server *s)
{
    struct session *admin = session_open(s);
    char ids[SERVER_TEXT_MAX];
    char ignored[SERVER_TEXT_MAX];
    char kill[64];

    snprintf(ids, sizeof ids, "%s", session_sql(admin, "SELECT id " CLIENTS));
    for (char *place = ids, *id; (id = strtok_r(place, "\n", &place)) != NULL;) {
        snprintf(kill, sizeof kill, "KILL %s", id);
        dialect_run(admin, kill, ignored, sizeof ignored);
    }
    session_close(admin);
}
