/*
 * property.c - the table simba_property: small facts kept with a mutex. Owns its creation, which
 * waits for the first write, and its statements; they are rare, so nothing is prepared. Every name
 * in them has its schema, see statement.c.
 */
#include "backend/postgres/connection.h"

#include "backend/postgres/tables.h"
#include "base/check.h"
#include "base/error.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define IS SB_POSTGRES_IS
#define NOW SB_POSTGRES_NOW "::bigint"

/* Where the name of a table goes, or its schema. */
#define TABLE "%s"
#define SCHEMA "%.*s"
#define PROPERTIES SCHEMA "simba_property"
#define OWNER_MAX 64

/* One row in any case, for the sake of the clock. */
static const char read_property[] =
    "SELECT pg_catalog.left(p.value, 512), p.written_at, " NOW
    " FROM (SELECT 1) one LEFT JOIN " PROPERTIES " p ON p.mutex COLLATE pg_catalog.\"C\"" IS
    "$1::pg_catalog.text AND p.name COLLATE pg_catalog.\"C\"" IS "$2::pg_catalog.text";

/* Where there is no table yet. */
static const char read_clock[] = "SELECT '', 0, " NOW;

enum { COLUMN_VALUE, COLUMN_WRITTEN_AT, COLUMN_NOW, COLUMNS };

#define WRITE                                                                                      \
    "INSERT INTO " PROPERTIES " AS p (mutex, name, value, written_at)"                             \
    " SELECT $1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.text, " NOW
#define OVERWRITE                                                                                  \
    " ON CONFLICT (mutex, name) DO UPDATE SET value = excluded.value,"                             \
    " written_at = excluded.written_at"

/* What others write for the owner is told to all clients that listen: it is rare. */
static const char write_property[] =
    WRITE OVERWRITE " RETURNING pg_catalog.pg_notify('" SB_POSTGRES_CHANNEL
                    "'::pg_catalog.text, mutex::pg_catalog.text)";

static const char write_as_owner[] =
    WRITE " FROM " TABLE " m WHERE m.mutex" IS "$1 AND m.owner_id COLLATE pg_catalog.\"C\"" IS
          "$4 AND m.transition_at OPERATOR(pg_catalog.>=) " NOW OVERWRITE;

/* ---- The table ------------------------------------------------------------------------------- */

static const char create_table[] = SB_POSTGRES_CREATE_PROPERTIES(SCHEMA);

static const char find_table[] =
    "SELECT o.rolname, " SB_POSTGRES_IS_TRUSTED ", " SB_POSTGRES_MISSING_COLUMN(
        "'mutex', 'name', 'value', 'written_at'") " FROM pg_catalog.pg_class c"
                                                  " JOIN pg_catalog.pg_namespace n ON n.oid" IS
                                                  "c.relnamespace"
                                                  " JOIN pg_catalog.pg_roles o ON o.oid" IS
                                                  "c.relowner"
                                                  " JOIN pg_catalog.pg_database d ON d.datname" IS
                                                  "pg_catalog.current_database()"
                                                  " WHERE c.oid" IS "pg_catalog.to_regclass($1)";

struct look {
    bool found;
    bool trusted;
    char owner[OWNER_MAX];
    char missing[OWNER_MAX]; /* a column; empty: none */
};

int sb_postgres_schema_length(const struct sb_postgres_connection *c)
{
    const char *point = strrchr(c->table, '.');

    return point != NULL ? (int)(point + 1 - c->table) : 0;
}

static int take_look(void *user, size_t index, const PGresult *result)
{
    struct look *look = user;

    (void)index;
    look->found = PQntuples(result) > 0;
    if (!look->found)
        return SIMBA_OK;
    sb_text_copy(look->owner, sizeof look->owner, PQgetvalue(result, 0, 0));
    look->trusted = strcmp(PQgetvalue(result, 0, 1), "t") == 0;
    sb_text_copy(look->missing, sizeof look->missing, PQgetvalue(result, 0, 2));
    return SIMBA_OK;
}

static int look_for_table(struct sb_postgres_connection *c, struct look *ret_look,
                          struct sb_sql_failure *failure)
{
    struct sb_postgres_exchange exchange = {.take = take_look, .user = ret_look};
    char name[SB_POSTGRES_TABLE_MAX];
    struct sb_text text;
    int code = sb_postgres_exchange_begin(&exchange, c, failure);

    if (code != SIMBA_OK)
        return code;
    *ret_look = (struct look){.found = false};
    sb_text_init(&text, name, sizeof name);
    sb_text_add(&text, PROPERTIES, sb_postgres_schema_length(c), c->table);
    sb_postgres_exchange_send_text(&exchange, find_table, name,
                                   (struct sb_postgres_shape){3, SB_POSTGRES_ROW_OR_NONE});
    return sb_postgres_exchange_end(&exchange, failure);
}

/* PostgreSQL reports a client that creates it at the same time as a duplicate. */
static int create(struct sb_postgres_connection *c, struct sb_sql_failure *failure)
{
    struct sb_postgres_exchange exchange = {.take = NULL};
    char sql[SB_POSTGRES_TEXT_MAX];
    struct sb_text text;
    int code = sb_postgres_exchange_begin(&exchange, c, failure);

    if (code != SIMBA_OK)
        return code;
    sb_text_init(&text, sql, sizeof sql);
    sb_text_add(&text, create_table, sb_postgres_schema_length(c), c->table);
    sb_postgres_exchange_send(&exchange, SB_POSTGRES_LIMIT_WAIT, NULL);
    sb_postgres_exchange_send_text(&exchange, sql, NULL, (struct sb_postgres_shape){.columns = 0});
    code = sb_postgres_exchange_end(&exchange, failure);
    if (code == SIMBA_EDENIED)
        return sb_error_set(&failure->error, SIMBA_EDENIED,
                            "the user %s may not create the table that keeps the properties of "
                            "mutexes; an administrator has to run: %s",
                            PQuser(c->pg), sql);
    return code == SIMBA_EEXISTS ? SIMBA_OK : code;
}

/* Where it is missing and the caller does not create it, that is no failure. */
static int init_table(struct sb_postgres_connection *c, bool creates,
                      struct sb_sql_failure *failure)
{
    struct look look;
    int code;

    if (c->has_properties)
        return SIMBA_OK;
    code = look_for_table(c, &look, failure);
    if (code == SIMBA_OK && !look.found && creates) {
        code = create(c, failure);
        if (code == SIMBA_OK)
            code = look_for_table(c, &look, failure);
    }
    if (code != SIMBA_OK || (!look.found && !creates))
        return code;
    failure->remedy = look.found ? SB_SQL_GIVE_UP : SB_SQL_RETRY;
    if (!look.found)
        return sb_error_set(
            &failure->error, SIMBA_EUNAVAILABLE,
            "PostgreSQL: the table simba_property was dropped while the client used it");
    if (!look.trusted)
        return sb_error_set(&failure->error, SIMBA_EDENIED,
                            "PostgreSQL: the table simba_property belongs to the role %s, which is "
                            "not trusted: what it has the table call would run with the user's "
                            "rights",
                            look.owner);
    if (look.missing[0] != '\0')
        return sb_error_set(&failure->error, SIMBA_ECONFIG,
                            "PostgreSQL: the table simba_property has no column %s", look.missing);
    c->has_properties = true;
    return SIMBA_OK;
}

int sb_postgres_find_properties(struct sb_postgres_connection *c, struct sb_sql_failure *failure)
{
    return init_table(c, false, failure);
}

/* ---- Reading and writing --------------------------------------------------------------------- */

struct answer {
    size_t index; /* of the result that counts */
    bool writes;
    struct simba_property *property;
    bool hit;
};

static int take(void *user, size_t index, const PGresult *result)
{
    struct answer *answer = user;
    struct simba_property *property = answer->property;

    if (index != answer->index)
        return SIMBA_OK;
    if (answer->writes) {
        answer->hit = strcmp(PQcmdTuples((PGresult *)(uintptr_t)result), "0") != 0;
        return SIMBA_OK;
    }
    sb_text_copy(property->value, sizeof property->value, PQgetvalue(result, 0, COLUMN_VALUE));
    property->written_ms = strtoll(PQgetvalue(result, 0, COLUMN_WRITTEN_AT), NULL, 10);
    property->store_ms = strtoll(PQgetvalue(result, 0, COLUMN_NOW), NULL, 10);
    return SIMBA_OK;
}

static void write_text(const struct sb_postgres_connection *c,
                       const struct sb_sql_property *property, char ret_text[SB_POSTGRES_TEXT_MAX])
{
    int length = sb_postgres_schema_length(c);
    struct sb_text text;

    sb_text_init(&text, ret_text, SB_POSTGRES_TEXT_MAX);
    if (!c->has_properties)
        sb_text_add(&text, "%s", read_clock);
    else if (property->value == NULL)
        sb_text_add(&text, read_property, length, c->table);
    else if (property->id == NULL)
        sb_text_add(&text, write_property, length, c->table);
    else
        sb_text_add(&text, write_as_owner, length, c->table, c->table);
    SB_CHECK(!text.cut, "a statement fits into its buffer");
}

/* A table that was dropped meanwhile is looked for again. */
int sb_postgres_property(struct sb_sql_connection *connection,
                         const struct sb_sql_property *property,
                         struct simba_property *ret_property, struct sb_sql_failure *failure)
{
    struct sb_postgres_connection *c = (struct sb_postgres_connection *)connection;
    const char *values[] = {property->mutex, property->name, property->value, property->id};
    bool writes = property->value != NULL;
    bool notifies = writes && property->id == NULL;
    struct sb_postgres_shape shape = {notifies ? 1 : writes ? 0 : COLUMNS, SB_POSTGRES_ROW};
    int count;
    struct answer answer = {.index = 1, .writes = writes, .property = ret_property};
    struct sb_postgres_exchange exchange = {.take = take, .user = &answer};
    char text[SB_POSTGRES_TEXT_MAX];
    int code = init_table(c, writes, failure);

    if (code == SIMBA_OK)
        code = sb_postgres_exchange_begin(&exchange, c, failure);
    if (code != SIMBA_OK)
        return code;
    count = !c->has_properties ? 0 : !writes ? 2 : notifies ? 3 : 4;
    write_text(c, property, text);
    sb_postgres_exchange_send(&exchange, SB_POSTGRES_LIMIT_WAIT, NULL);
    sb_postgres_exchange_send_values(&exchange, text, values, count, writes, shape);
    code = sb_postgres_exchange_end(&exchange, failure);
    if (code != SIMBA_OK)
        c->has_properties = false;
    if (code != SIMBA_OK || !writes || answer.hit)
        return code;
    failure->remedy = SB_SQL_GIVE_UP;
    return sb_error_set(&failure->error, SIMBA_ELOST, "%s does not own the mutex \"%s\"",
                        property->id, property->mutex);
}
