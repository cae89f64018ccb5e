/*
 * statement.c - the statements of the MySQL dialect. Owns their text and parameters; must not know
 * connections.
 *
 * Clock: utc_timestamp(3) is the start of the statement, later than the request, even when the
 * statement then waits for a row. So the lease that is recorded ends no earlier than the client
 * believes; and what is decided by an older time is decided the careful way. Unlike sysdate() it
 * replicates statement by statement, and unlike current_timestamp() it knows no summer time. The
 * JVM library's expression has the same value.
 *
 * Owners are compared byte by byte: to the collation of an existing table "a" and "A" may be one.
 */
#include "backend/mysql/statement.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define NOW SB_MYSQL_NOW
#define COLUMNS SB_MYSQL_COLUMNS
#define IS_OWNER SB_MYSQL_OWNER " = cast(? AS binary)"
#define INSERT SB_MYSQL_INSERT SB_MYSQL_FREE_ROW

/* last_insert_id() sends the version back with the answer, so that no SELECT has to follow. */
#define SET_LEASE                                                                                  \
    "UPDATE simba_mutex SET owner_id = ?, " SB_MYSQL_SET_TIMES                                     \
    ", version = last_insert_id(version + 1)"

/* A release goes through at the last version, too; after it no contender can acquire. */
#define CLEAR_LEASE                                                                                \
    "UPDATE simba_mutex SET owner_id = '', acquired_at = 0, ttl_at = 0, transition_at = 0,"        \
    " version = ?"

/* Which value stands for each question mark: (m)utex, (i)d, (t)tl, (l)ease, (v)ersion, the (n)ext
 * version, the last one that the column can hold (x). */
struct statement {
    const char *text;
    const char *parameters;
};

static const struct statement statements[SB_MYSQL_STATEMENTS] = {
    [SB_SQL_INSERT] = {INSERT, "m"},
    [SB_SQL_INSERT_IF_MISSING] = {INSERT SB_MYSQL_UNLESS_THERE, "m"},
    [SB_SQL_SELECT] = {"SELECT " COLUMNS " FROM simba_mutex WHERE mutex = ?", "m"},
    [SB_MYSQL_SELECT_LATEST] = {"SELECT " COLUMNS " FROM simba_mutex WHERE mutex = ? FOR UPDATE",
                                "m"},
    [SB_SQL_SELECT_ALL] = {"SELECT " COLUMNS " FROM simba_mutex ORDER BY mutex", ""},
    [SB_SQL_ACQUIRE] = {SET_LEASE " WHERE mutex = ? AND (transition_at < " NOW " OR " IS_OWNER
                                  ") AND version < ?",
                        "itlmix"},
    [SB_SQL_GUARD] = {SET_LEASE " WHERE mutex = ? AND " IS_OWNER " AND transition_at > " NOW
                                " AND version < ?",
                      "itlmix"},
    [SB_SQL_RELEASE] = {CLEAR_LEASE " WHERE mutex = ? AND version = ? AND " IS_OWNER, "nmvi"},
};

const char *sb_mysql_statement_text(size_t which)
{
    return statements[which].text;
}

bool sb_mysql_writes(size_t which)
{
    return which != SB_SQL_SELECT && which != SB_SQL_SELECT_ALL && which != SB_MYSQL_SELECT_LATEST;
}

bool sb_mysql_updates(size_t which)
{
    return sb_mysql_writes(which) && which != SB_SQL_INSERT && which != SB_SQL_INSERT_IF_MISSING;
}

bool sb_mysql_is_off(const char *read_only)
{
    return strcmp(read_only, "0") == 0 || strcasecmp(read_only, "OFF") == 0;
}

/* As a number every word is 0; to compare all as texts, and to ask for the id, takes the server
 * longer. */
void sb_mysql_write_condition(const char *read_only, const char *server_id,
                              char ret_condition[SB_MYSQL_CONDITION_MAX])
{
    bool is_number = strcmp(read_only, "0") == 0 || strcmp(read_only, "1") == 0;
    struct sb_text text;

    sb_text_init(&text, ret_condition, SB_MYSQL_CONDITION_MAX);
    sb_text_add(&text, " AND (@@global.read_only = %s", is_number ? "0" : "'OFF'");
    if (server_id[0] != '\0')
        sb_text_add(&text, " OR @@global.server_id <> %llu", strtoull(server_id, NULL, 10));
    sb_text_add(&text, ")");
}

uint64_t sb_mysql_next_version(uint64_t version, uint64_t version_max)
{
    return version < version_max ? version + 1 : version;
}

/* ---- Parameters ------------------------------------------------------------------------------ */

void sb_mysql_bind_text(MYSQL_BIND *bind, const char *text)
{
    bind->buffer_type = MYSQL_TYPE_STRING;
    bind->buffer = (void *)(uintptr_t)text;
    bind->buffer_length = strlen(text);
}

void sb_mysql_bind_number(MYSQL_BIND *bind, const void *number)
{
    bind->buffer_type = MYSQL_TYPE_LONGLONG;
    bind->buffer = (void *)(uintptr_t)number;
    bind->is_unsigned = 1; /* none of them is negative */
}

static const void *number_of(char parameter, const struct sb_sql_values *values,
                             const struct sb_mysql_parameters *p)
{
    switch (parameter) {
    case 't':
        return &values->ttl_ms;
    case 'l':
        return &values->lease_ms;
    case 'v':
        return &values->version;
    case 'x':
        return &p->version_max;
    default:
        return &p->next_version;
    }
}

void sb_mysql_bind_values(size_t which, const struct sb_sql_values *values, uint64_t version_max,
                          struct sb_mysql_parameters *p)
{
    memset(p, 0, sizeof *p);
    p->version_max = version_max;
    p->next_version = sb_mysql_next_version(values->version, version_max);
    for (const char *c = statements[which].parameters; *c != '\0'; c++) {
        MYSQL_BIND *bind = &p->binds[p->count++];

        if (*c == 'm')
            sb_mysql_bind_text(bind, values->mutex);
        else if (*c == 'i')
            sb_mysql_bind_text(bind, values->id);
        else
            sb_mysql_bind_number(bind, number_of(*c, values, p));
    }
}

bool sb_mysql_bind_parameters(MYSQL_STMT *statement, MYSQL_BIND *binds, size_t count)
{
    return mysql_stmt_param_count(statement) == count &&
           mysql_stmt_bind_param(statement, binds) == 0;
}
