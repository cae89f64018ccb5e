/*
 * schema.c - the tables on a PostgreSQL server: in which schema they are, whose they are, and their
 * creation.
 *
 * The owner of a table decides what its triggers, rules and indexes call, and that runs with the
 * rights of every user of the table. So a table is used only if its owner could do harm anyway: the
 * user itself, a superuser, or the owner of the database or of the schema, which can replace a
 * table at any time.
 */
#include "backend/postgres/connection.h"

#include "backend/postgres/tables.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define NAME "simba_mutex"
#define OWNER_MAX 64

/* Half-empty pages let an update stay on its page and leave the index alone. */
#define CREATE "CREATE TABLE IF NOT EXISTS "
#define DEFINITION                                                                                 \
    " (mutex varchar(66) PRIMARY KEY, acquired_at bigint"                                          \
    " NOT NULL, ttl_at bigint NOT NULL, transition_at bigint NOT NULL, owner_id varchar(128)"      \
    " NOT NULL, version bigint NOT NULL, term_fence bigint DEFAULT 0, term_since bigint"           \
    " DEFAULT 0, term_version bigint DEFAULT 0) WITH (fillfactor = 50)"

/* A crash of the server may empty the table of waiters: they join again. So it is unlogged, and a
 * change of it writes nothing to the disk. */
#define CREATE_WAITERS "CREATE UNLOGGED TABLE IF NOT EXISTS "
#define WAITERS_DEFINITION                                                                         \
    " (mutex varchar NOT NULL, id varchar COLLATE \"C\" NOT NULL, since bigint NOT NULL,"          \
    " client varchar(64) NOT NULL, reserved_until bigint NOT NULL, note varchar(256) NOT NULL,"    \
    " PRIMARY KEY (mutex, id))"
#define CREATE_ORDER "CREATE INDEX IF NOT EXISTS " ORDER " ON "
#define ORDER_DEFINITION " (mutex COLLATE \"C\", reserved_until, since)"

#define ORDER "simba_waiter_order"

const char sb_postgres_schema[] = CREATE NAME DEFINITION
    ";\n" CREATE_WAITERS SB_POSTGRES_WAITERS WAITERS_DEFINITION
    ";\n" CREATE_ORDER SB_POSTGRES_WAITERS ORDER_DEFINITION ";\n" SB_POSTGRES_CREATE_PROPERTIES("");

#define IS SB_POSTGRES_IS

/* The requests of a session run without a path. */
static const char restore_path[] = "SELECT pg_catalog.set_config('search_path', $1, true)";

/* The schema is that in which a new table goes. */
static const char find_path[] = "SELECT pg_catalog.current_setting('search_path'),"
                                " pg_catalog.quote_ident(pg_catalog.current_schema())";

/* The first name whose type is neither varchar nor text; NULL: none is. A char(n) comes back with
 * spaces behind it, so an owner would not know itself. */
#define UNFIT_COLUMN                                                                               \
    "(SELECT x.attname FROM pg_catalog.pg_attribute x WHERE x.attrelid" IS "c.oid"                 \
    " AND (x.attname" IS "'mutex' OR x.attname" IS "'owner_id') AND NOT (x.atttypid" IS            \
    "'pg_catalog.varchar'::pg_catalog.regtype OR x.atttypid" IS                                    \
    "'pg_catalog.text'::pg_catalog.regtype) LIMIT 1)"

/* A type's modifier is its width and 4; -1: without a limit. */
static const char find_table[] =
    "SELECT pg_catalog.quote_ident(n.nspname), o.rolname, " SB_POSTGRES_IS_TRUSTED ","
    " m.atttypmod OPERATOR(pg_catalog.-) 4, a.atttypmod "
    "OPERATOR(pg_catalog.-) 4, "
    "c.relpersistence, " SB_POSTGRES_MISSING_COLUMN(
        "'mutex', 'acquired_at', 'ttl_at', 'transition_at', "
        "'owner_id', 'version'") ", " UNFIT_COLUMN
                                 ", " SB_POSTGRES_MISSING_COLUMN(
                                     "'term_fence', 'term_since', 'term_version'") " IS NULL FROM "
                                                                                   "pg_catalog.pg_"
                                                                                   "class c"
                                                                                   " JOIN "
                                                                                   "pg_catalog.pg_"
                                                                                   "namespace n ON "
                                                                                   "n.oid" IS
                                                                                   "c.relnamespace"
                                                                                   " JOIN "
                                                                                   "pg_catalog.pg_"
                                                                                   "roles o ON "
                                                                                   "o.oid" IS
                                                                                   "c.relowner"
                                                                                   " JOIN "
                                                                                   "pg_catalog.pg_"
                                                                                   "database d ON "
                                                                                   "d.datname" IS
                                                                                   "pg_catalog."
                                                                                   "current_"
                                                                                   "database()"
                                                                                   " LEFT JOIN "
                                                                                   "pg_catalog.pg_"
                                                                                   "attribute "
                                                                                   "m ON "
                                                                                   "m.attrelid" IS
                                                                                   "c.oid AND "
                                                                                   "m.attname" IS
                                                                                   "'mutex'"
                                                                                   " LEFT JOIN "
                                                                                   "pg_catalog.pg_"
                                                                                   "attribute "
                                                                                   "a ON "
                                                                                   "a.attrelid" IS
                                                                                   "c.oid AND "
                                                                                   "a.attname" IS
                                                                                   "'owner_id'"
                                                                                   " WHERE c.oid" IS
                                                                                   "pg_catalog.to_"
                                                                                   "regclass('" NAME
                                                                                   "')";

/* Of the same name in another schema, where users with another path find it; temporary tables are
 * nobody else's. */
static const char find_other[] =
    "SELECT pg_catalog.quote_ident(n.nspname) FROM pg_catalog.pg_class c"
    " JOIN pg_catalog.pg_namespace n ON n.oid" IS "c.relnamespace"
    " WHERE c.relname" IS "'" NAME "' AND (c.relkind" IS "'r' OR c.relkind" IS "'p')"
    " AND c.relpersistence OPERATOR(pg_catalog.<>) 't'"
    " AND c.oid OPERATOR(pg_catalog.<>) pg_catalog.to_regclass('" NAME "') LIMIT 1";

#define MAY(right) "pg_catalog.has_table_privilege(c.oid, '" right "')"
#define HAS_ORDER                                                                                  \
    "EXISTS (SELECT 1 FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class x ON x.oid" IS           \
    "i.indexrelid WHERE i.indrelid" IS "c.oid AND x.relname" IS "'" ORDER "')"
/* clang-format off */
static const char find_waiters[] =
    "SELECT o.rolname, " SB_POSTGRES_IS_TRUSTED ", "
    MAY("SELECT") " AND " MAY("INSERT") " AND " MAY("UPDATE") " AND " MAY("DELETE") ", "
    SB_POSTGRES_MISSING_COLUMN("'mutex', 'id', 'since', 'client', 'reserved_until', 'note'") ", "
    HAS_ORDER ", pg_catalog.pg_has_role(c.relowner, 'USAGE')"
    " FROM pg_catalog.pg_class c"
    " JOIN pg_catalog.pg_namespace n ON n.oid" IS "c.relnamespace"
    " JOIN pg_catalog.pg_roles o ON o.oid" IS "c.relowner"
    " JOIN pg_catalog.pg_database d ON d.datname" IS "pg_catalog.current_database()"
    " WHERE c.oid" IS "pg_catalog.to_regclass($1)";
/* clang-format on */

/* What was found. */
struct look {
    struct sb_postgres_connection *connection;
    size_t skip;                        /* results before that of the path */
    char schema[SB_POSTGRES_TABLE_MAX]; /* for a new table; empty: there is none */
    bool found;
    bool trusted;
    char table[SB_POSTGRES_TABLE_MAX];
    char owner[OWNER_MAX];
    long mutex_width; /* of the columns; not more than 0: without a limit */
    long owner_id_width;
    char missing[OWNER_MAX]; /* a column; empty: none */
    char unfit[OWNER_MAX];   /* a column of another type; empty: none */
    bool has_terms;          /* has SB_SQL_TERM_COLUMNS */
    char persistence;        /* 'p': for all and for good, 't': temporary, 'u': unlogged */
    char other[SB_POSTGRES_TABLE_MAX]; /* the schema of another table; empty: there is none */
};

static int take_path(struct look *look, const PGresult *result)
{
    struct sb_postgres_connection *c = look->connection;

    sb_text_copy(look->schema, sizeof look->schema, PQgetvalue(result, 0, 1));
    if (c->search_path == NULL)
        c->search_path = sb_strdup(PQgetvalue(result, 0, 0));
    return c->search_path != NULL ? SIMBA_OK : SIMBA_ENOMEM;
}

static void take_table(struct look *look, const PGresult *result)
{
    struct sb_text text;

    look->found = PQntuples(result) > 0;
    if (!look->found)
        return;
    sb_text_init(&text, look->table, sizeof look->table);
    sb_text_add(&text, "%s." NAME, PQgetvalue(result, 0, 0));
    sb_text_copy(look->owner, sizeof look->owner, PQgetvalue(result, 0, 1));
    look->trusted = strcmp(PQgetvalue(result, 0, 2), "t") == 0;
    look->mutex_width = strtol(PQgetvalue(result, 0, 3), NULL, 10);
    look->owner_id_width = strtol(PQgetvalue(result, 0, 4), NULL, 10);
    look->persistence = PQgetvalue(result, 0, 5)[0];
    sb_text_copy(look->missing, sizeof look->missing, PQgetvalue(result, 0, 6));
    sb_text_copy(look->unfit, sizeof look->unfit, PQgetvalue(result, 0, 7));
    look->has_terms = strcmp(PQgetvalue(result, 0, 8), "t") == 0;
}

static int take_look(void *user, size_t index, const PGresult *result)
{
    struct look *look = user;

    if (index < look->skip)
        return SIMBA_OK;
    if (index == look->skip)
        return take_path(look, result);
    if (index == look->skip + 1)
        take_table(look, result);
    else if (PQntuples(result) > 0)
        sb_text_copy(look->other, sizeof look->other, PQgetvalue(result, 0, 0));
    return SIMBA_OK;
}

static int look_for_table(struct sb_postgres_connection *c, struct look *ret_look,
                          struct sb_sql_failure *failure)
{
    struct sb_postgres_exchange exchange = {.take = take_look, .user = ret_look};
    int code = sb_postgres_exchange_begin(&exchange, c, failure);

    if (code != SIMBA_OK)
        return code;
    *ret_look = (struct look){.connection = c, .skip = c->search_path != NULL ? 1 : 0};
    if (c->search_path != NULL)
        sb_postgres_exchange_send_text(&exchange, restore_path, c->search_path,
                                       (struct sb_postgres_shape){1, SB_POSTGRES_ROW});
    sb_postgres_exchange_send_text(&exchange, find_path, NULL,
                                   (struct sb_postgres_shape){2, SB_POSTGRES_ROW});
    sb_postgres_exchange_send_text(&exchange, find_table, NULL,
                                   (struct sb_postgres_shape){9, SB_POSTGRES_ROW_OR_NONE});
    sb_postgres_exchange_send_text(&exchange, find_other, NULL,
                                   (struct sb_postgres_shape){1, SB_POSTGRES_ROW_OR_NONE});
    return sb_postgres_exchange_end(&exchange, failure);
}

/* Runs statements that yield nothing, in one transaction. `second` may be NULL. They wait for other
 * clients that do the same. */
static int execute(struct sb_postgres_connection *c, const char *first, const char *second,
                   struct sb_sql_failure *failure)
{
    const struct sb_postgres_shape none = {.columns = 0};
    struct sb_postgres_exchange exchange = {.take = NULL};
    int code = sb_postgres_exchange_begin(&exchange, c, failure);

    if (code != SIMBA_OK)
        return code;
    sb_postgres_exchange_limit(&exchange);
    sb_postgres_exchange_send_text(&exchange, first, NULL, none);
    if (second != NULL)
        sb_postgres_exchange_send_text(&exchange, second, NULL, none);
    return sb_postgres_exchange_end(&exchange, failure);
}

/* PostgreSQL reports a client that creates it at the same time as a duplicate. Without a schema to
 * create it in, the server says so. */
static int create(struct sb_postgres_connection *c, const char *schema,
                  struct sb_sql_failure *failure)
{
    char sql[SB_POSTGRES_TEXT_MAX];
    struct sb_text text;
    int code;

    sb_text_init(&text, sql, sizeof sql);
    sb_text_add(&text, CREATE "%s%s" NAME DEFINITION, schema, schema[0] != '\0' ? "." : "");
    code = execute(c, sql, NULL, failure);
    if (code == SIMBA_EDENIED)
        return sb_error_set(
            &failure->error, SIMBA_EDENIED,
            "the user %s may not create a table in the current schema of the database %s; "
            "an administrator has to run: %s",
            PQuser(c->pg), PQdb(c->pg), CREATE NAME DEFINITION);
    return code == SIMBA_EEXISTS ? SIMBA_OK : code;
}

static int fail_temporary(struct sb_sql_failure *failure)
{
    failure->remedy = SB_SQL_GIVE_UP;
    return sb_error_set(&failure->error, SIMBA_ECONFIG,
                        "PostgreSQL: " NAME " is, or would be, a temporary table, of which each "
                        "session has its own: name a schema before pg_temp on the user's "
                        "search_path, and drop the temporary table");
}

/* A crash of the server empties an unlogged table, and so does a fail-over: leases are gone, and
 * tokens begin again. */
static int check(struct sb_postgres_connection *c, const struct look *look,
                 struct sb_sql_failure *failure)
{
    failure->remedy = look->found ? SB_SQL_GIVE_UP : SB_SQL_RETRY;
    if (!look->found)
        return sb_error_set(&failure->error, SIMBA_EUNAVAILABLE,
                            "PostgreSQL: the table " NAME " has gone again");
    if (look->persistence == 't')
        return fail_temporary(failure);
    if (!look->trusted) {
        c->distrusted = true;
        return sb_error_set(&failure->error, SIMBA_EDENIED,
                            "PostgreSQL: the table %s belongs to the role %s, which is neither the "
                            "user, nor the owner of the database or of the schema, nor a "
                            "superuser: what it has the table call would run with the user's "
                            "rights",
                            look->table, look->owner);
    }
    if (look->persistence == 'u')
        return sb_error_set(&failure->error, SIMBA_ECONFIG,
                            "PostgreSQL: the table %s is unlogged, so that a crash of the server "
                            "would lose all leases; run: ALTER TABLE %s SET LOGGED",
                            look->table, look->table);
    if (look->missing[0] != '\0')
        return sb_error_set(&failure->error, SIMBA_ECONFIG,
                            "PostgreSQL: the table %s has no column %s: rename a table that is not "
                            "Simba's, and run simba init",
                            look->table, look->missing);
    if (look->unfit[0] != '\0')
        return sb_error_set(&failure->error, SIMBA_ECONFIG,
                            "PostgreSQL: the column %s of the table %s is neither varchar nor "
                            "text; run: ALTER TABLE %s ALTER COLUMN %s TYPE varchar(%d)",
                            look->unfit, look->table, look->table, look->unfit,
                            strcmp(look->unfit, "mutex") == 0 ? 66 : SIMBA_ID_MAX);
    return SIMBA_OK;
}

/* Users that find the other table contend apart from those that find this one. Once in a client's
 * life. */
static void warn_of_other(struct sb_postgres_connection *c, const struct look *look)
{
    const struct simba_backend_host *host = c->settings->host;

    if (look->other[0] == '\0' || atomic_exchange(&c->settings->warned_of_other, true))
        return;
    host->log(host, SIMBA_LOG_WARN,
              "PostgreSQL: the table is %s, and there is %s." NAME " as well: users whose "
              "search_path leads there own the same mutexes at the same time. Drop one of the "
              "tables, or let all users find the same: ALTER ROLE ... SET search_path = ...",
              look->table, look->other);
}

static void take_note(struct sb_postgres_connection *c, const struct look *look)
{
    c->base.mutex_max = look->mutex_width > 0 ? (size_t)look->mutex_width : SIMBA_MUTEX_MAX;
    c->base.owner_id_max = look->owner_id_width > 0 ? (size_t)look->owner_id_width : SIMBA_ID_MAX;
    sb_text_copy(c->table, sizeof c->table, look->table);
    c->has_terms = look->has_terms;
    for (int i = 0; i < SB_POSTGRES_STATEMENTS; i++)
        sb_postgres_statement_name(i, c->table, c->has_terms, c->names[i]);
}

/* ---- The table of waiters -------------------------------------------------------------------- */

struct waiters_look {
    bool found;
    bool trusted;
    bool usable;
    bool ordered; /* has its index */
    bool ours;    /* the user may create it */
    char owner[OWNER_MAX];
    char missing[OWNER_MAX]; /* a column; empty: none */
};

static int take_waiters(void *user, size_t index, const PGresult *result)
{
    struct waiters_look *look = user;

    (void)index;
    look->found = PQntuples(result) > 0;
    if (!look->found)
        return SIMBA_OK;
    sb_text_copy(look->owner, sizeof look->owner, PQgetvalue(result, 0, 0));
    look->trusted = strcmp(PQgetvalue(result, 0, 1), "t") == 0;
    look->usable = strcmp(PQgetvalue(result, 0, 2), "t") == 0;
    sb_text_copy(look->missing, sizeof look->missing, PQgetvalue(result, 0, 3));
    look->ordered = strcmp(PQgetvalue(result, 0, 4), "t") == 0;
    look->ours = strcmp(PQgetvalue(result, 0, 5), "t") == 0;
    return SIMBA_OK;
}

static int look_for_waiters(struct sb_postgres_connection *c, const char *name,
                            struct waiters_look *ret_look, struct sb_sql_failure *failure)
{
    struct sb_postgres_exchange exchange = {.take = take_waiters, .user = ret_look};
    int code = sb_postgres_exchange_begin(&exchange, c, failure);

    if (code != SIMBA_OK)
        return code;
    *ret_look = (struct waiters_look){.found = false};
    sb_postgres_exchange_send_text(&exchange, find_waiters, name,
                                   (struct sb_postgres_shape){6, SB_POSTGRES_ROW_OR_NONE});
    return sb_postgres_exchange_end(&exchange, failure);
}

static void write_order(const char *name, char ret_sql[SB_POSTGRES_TEXT_MAX])
{
    struct sb_text text;

    sb_text_init(&text, ret_sql, SB_POSTGRES_TEXT_MAX);
    sb_text_add(&text, CREATE_ORDER "%s" ORDER_DEFINITION, name);
}

static int create_waiters(struct sb_postgres_connection *c, const char *name,
                          struct sb_sql_failure *failure)
{
    char table[SB_POSTGRES_TEXT_MAX];
    char order[SB_POSTGRES_TEXT_MAX];
    struct sb_text text;

    sb_text_init(&text, table, sizeof table);
    sb_text_add(&text, CREATE_WAITERS "%s" WAITERS_DEFINITION, name);
    write_order(name, order);
    return execute(c, table, order, failure);
}

/* Without its index the table works, only more slowly the more waiters there are. So it is not
 * waited for, nor is its failure one of the connection, unless that is lost. */
static int create_order(struct sb_postgres_connection *c, const char *name, bool may,
                        struct sb_sql_failure *failure)
{
    const struct simba_backend_host *host = c->settings->host;
    char sql[SB_POSTGRES_TEXT_MAX];

    write_order(name, sql);
    if (may && execute(c, sql, NULL, failure) == SIMBA_OK)
        return SIMBA_OK;
    if (may && failure->remedy == SB_SQL_RECONNECT)
        return failure->error.code;
    if (host != NULL && !atomic_exchange(&c->settings->warned_of_order, true))
        host->log(host, SIMBA_LOG_WARN,
                  "PostgreSQL: the table %s has no index " ORDER ", so that each request reads all "
                  "waiters; the owner of the table has to run: %s",
                  name, sql);
    return SIMBA_OK;
}

/* Once in a client's life. */
static void tell_no_queue(struct sb_postgres_connection *c, const char *why)
{
    const struct simba_backend_host *host = c->settings->host;

    if (host == NULL || atomic_exchange(&c->settings->warned_of_queue, true))
        return;
    host->log(host, SIMBA_LOG_WARN,
              "PostgreSQL: contenders do not wait in line, and a release wakes all of them: %s. "
              "simba init --print shows the table " SB_POSTGRES_WAITERS,
              why);
}

/* Whatever is wrong with it: mutexes work without it. Only a connection that is lost is a
 * failure. */
static int init_waiters(struct sb_postgres_connection *c, struct sb_sql_failure *failure)
{
    char name[SB_POSTGRES_TABLE_MAX];
    char why[512];
    struct waiters_look look;
    struct sb_text text;
    int code;

    c->base.has_queue = false;
    sb_text_init(&text, name, sizeof name);
    sb_text_add(&text, "%.*s" SB_POSTGRES_WAITERS, (int)(strrchr(c->table, '.') + 1 - c->table),
                c->table);
    code = look_for_waiters(c, name, &look, failure);
    if (code == SIMBA_OK && !look.found) {
        code = create_waiters(c, name, failure);
        if (code == SIMBA_OK || code == SIMBA_EEXISTS)
            code = look_for_waiters(c, name, &look, failure);
    }
    sb_text_init(&text, why, sizeof why);
    if (code != SIMBA_OK)
        sb_text_add(&text, "%s", failure->error.text);
    else if (!look.found)
        sb_text_add(&text, "the table %s has gone again", name);
    else if (!look.trusted)
        sb_text_add(&text, "the table %s belongs to the role %s, which is not trusted", name,
                    look.owner);
    else if (look.missing[0] != '\0')
        sb_text_add(&text, "the table %s has no column %s", name, look.missing);
    else if (!look.usable)
        sb_text_add(&text, "the user %s may not SELECT, INSERT, UPDATE and DELETE in the table %s",
                    PQuser(c->pg), name);
    if (code != SIMBA_OK && failure->remedy == SB_SQL_RECONNECT)
        return code;
    c->base.has_queue = why[0] == '\0';
    if (!c->base.has_queue)
        tell_no_queue(c, why);
    return c->base.has_queue && !look.ordered ? create_order(c, name, look.ours, failure)
                                              : SIMBA_OK;
}

/* ---- The whole ------------------------------------------------------------------------------- */

int sb_postgres_init_schema(struct sb_postgres_connection *c, struct sb_sql_failure *failure)
{
    struct look look;
    int code = look_for_table(c, &look, failure);

    if (code == SIMBA_OK && !look.found && strncmp(look.schema, "pg_temp", 7) == 0)
        return fail_temporary(failure); /* the server keeps such names for temporary tables */
    if (code == SIMBA_OK && !look.found) {
        code = create(c, look.schema, failure);
        c->base.created_table = c->base.created_table || code == SIMBA_OK;
        if (code == SIMBA_OK)
            code = look_for_table(c, &look, failure);
    }
    if (code == SIMBA_OK)
        code = check(c, &look, failure);
    if (code != SIMBA_OK)
        return code;
    take_note(c, &look);
    warn_of_other(c, &look);
    return init_waiters(c, failure);
}
