/*
 * fenced_sql.c - a row that refuses late writes, here in SQLite; the statement is the same
 * elsewhere.
 *
 *     fenced_sql [URL [DATABASE]]
 *
 * The row has a column for the largest token that has written. The UPDATE compares and writes in
 * one step; when it changes no row, the token was too small: somebody has owned the mutex since,
 * and the work must end.
 */
#include <simba/simba.h>

#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>

/* Tokens are compared as signed numbers here, which is right up to 2^63. */
static const char schema[] =
    "CREATE TABLE IF NOT EXISTS report (name TEXT PRIMARY KEY, text TEXT, fence INTEGER NOT NULL);"
    "INSERT OR IGNORE INTO report (name, text, fence) VALUES ('daily', '', 0);";

static const char fenced_update[] =
    "UPDATE report SET text = ?1, fence = ?2 WHERE name = 'daily' AND fence <= ?2";

/* Returns how many rows were changed: 1, 0 for a token that is too old, -1 for an error. */
static int fenced_write(sqlite3 *database, uint64_t token, const char *text)
{
    sqlite3_stmt *statement = NULL;
    int changed = -1;

    if (sqlite3_prepare_v2(database, fenced_update, -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_bind_text(statement, 1, text, -1, SQLITE_STATIC) == SQLITE_OK &&
        sqlite3_bind_int64(statement, 2, (sqlite3_int64)token) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_DONE)
        changed = sqlite3_changes(database);
    sqlite3_finalize(statement);
    return changed;
}

static int report(const char *who, uint64_t token, int changed, int expected)
{
    printf("%s, token %" PRIu64 ": %d rows changed\n", who, token, changed);
    return changed == expected ? SIMBA_OK : SIMBA_ESTORE;
}

/* Acquires, and returns the token in *ret_token. */
static int begin(simba_client *client, simba_locker **lock, uint64_t *ret_token,
                 struct simba_error *error)
{
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    int code;

    options.mutex = "example-fenced-sql";
    code = simba_locker_create(client, &options, lock, error);
    if (code == SIMBA_OK)
        code = simba_locker_acquire_timeout(*lock, 5000, error);
    if (code == SIMBA_OK)
        *ret_token = simba_locker_fence(*lock);
    return code;
}

static int run(const char *url, sqlite3 *database, struct simba_error *error)
{
    SIMBA_SCOPED(client) simba_client *client = NULL;
    SIMBA_SCOPED(locker) simba_locker *first = NULL;
    SIMBA_SCOPED(locker) simba_locker *second = NULL;
    uint64_t old_token = 0, token = 0;
    int code = simba_client_open(url, NULL, &client, error);

    if (code == SIMBA_OK)
        code = begin(client, &first, &old_token, error);
    if (code == SIMBA_OK)
        code = report("the first owner", old_token, fenced_write(database, old_token, "first"), 1);
    if (code == SIMBA_OK)
        code = simba_locker_release(first, error);
    if (code == SIMBA_OK)
        code = begin(client, &second, &token, error);
    if (code == SIMBA_OK)
        code = report("the second owner", token, fenced_write(database, token, "second"), 1);
    /* As if the first one had slept since it asked, and woke up now. */
    if (code == SIMBA_OK)
        code = report("the first owner, late", old_token, fenced_write(database, old_token, "late"),
                      0);
    return code;
}

int main(int argc, char **argv)
{
    struct simba_error error = {0};
    sqlite3 *database = NULL;
    int code = SIMBA_ESTORE;

    if (sqlite3_open(argc > 2 ? argv[2] : "fenced.db", &database) == SQLITE_OK &&
        sqlite3_busy_timeout(database, 5000) == SQLITE_OK &&
        sqlite3_exec(database, schema, NULL, NULL, NULL) == SQLITE_OK)
        code = run(argc > 1 ? argv[1] : "sqlite:example.db", database, &error);
    if (code != SIMBA_OK)
        fprintf(stderr, "fenced_sql: %s\n",
                error.code != SIMBA_OK ? error.text : simba_strerror(code));
    sqlite3_close(database);
    return code == SIMBA_OK ? 0 : 1;
}
