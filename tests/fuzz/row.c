/*
 * row.c - fuzzes the rows of an SQLite file, which anybody may have written: read through the
 * library from a real file, they must never make a contender believe in a lease that the file does
 * not give it.
 *
 * An input is our id and a value of any kind for each column.
 */
#include "fuzz.h"

#include <simba/simba.h>

#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MUTEX "m"
#define PATIENCE_MS 20000
#define COLUMNS                                                                                    \
    6 /* that are written: owner_id, acquired_at, ttl_at, transition_at, version, fence */

static char folder[PATH_MAX / 2];
static simba_client *client;
static sqlite3 *db;
static sqlite3_stmt *writing;
static sqlite3_stmt *asking;

/* ---- The file -------------------------------------------------------------------------------- */

static void remove_folder(void)
{
    static const char *const files[] = {"/db", "/db-wal", "/db-shm", "/db-wake", "/db-life"};
    char path[PATH_MAX];

    sqlite3_finalize(writing);
    sqlite3_finalize(asking);
    sqlite3_close(db);
    simba_client_close(client, NULL);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        snprintf(path, sizeof path, "%s%s", folder, files[i]);
        unlink(path);
    }
    rmdir(folder);
}

static void prepare(const char *sql, sqlite3_stmt **statement)
{
    fuzz_demand(sqlite3_prepare_v2(db, sql, -1, statement, NULL) == SQLITE_OK,
                "the schema is known");
}

/* Once for the process: a file for each input would take milliseconds. */
static void open_file(void)
{
    const char *parent = getenv("TMPDIR");
    struct simba_error error = {0};
    char path[sizeof folder + 8];
    char url[sizeof path + 64];

    if (client != NULL)
        return;
    snprintf(folder, sizeof folder, "%s/simba-fuzz-XXXXXX", parent != NULL ? parent : "/tmp");
    fuzz_demand(mkdtemp(folder) != NULL, "there is a folder for the file");
    snprintf(path, sizeof path, "%s/db", folder);
    snprintf(url, sizeof url, "sqlite:%s?stop-timeout=50ms", path); /* some cannot be released */
    if (simba_client_open(url, NULL, &client, &error) != SIMBA_OK)
        fuzz_demand(false, error.text);
    fuzz_demand(sqlite3_open(path, &db) == SQLITE_OK, "the file can be opened");
    sqlite3_busy_timeout(db, PATIENCE_MS);
    sqlite3_exec(db, "PRAGMA synchronous = OFF", NULL, NULL, NULL);
    prepare("INSERT OR REPLACE INTO simba_mutex"
            " (mutex, owner_id, acquired_at, ttl_at, transition_at, version, fence)"
            " VALUES ('" MUTEX "', ?1, ?2, ?3, ?4, ?5, ?6)",
            &writing);
    prepare("SELECT count(*) FROM simba_mutex WHERE mutex = '" MUTEX "' AND owner_id = ?1",
            &asking);
    atexit(remove_folder);
}

/* ---- The row --------------------------------------------------------------------------------- */

/* Any kind of value; texts and blobs may begin with our id, so that they differ from it in the end
 * only. */
static void bind_value(struct fuzz_bytes *bytes, int column, const char *id)
{
    uint8_t kind = fuzz_byte(bytes);
    char value[512];
    size_t length = 0;
    size_t taken;
    const uint8_t *more;

    if ((kind & 4) != 0) {
        length = strlen(id);
        memcpy(value, id, length);
    }
    switch (kind & 3) {
    case 0:
        sqlite3_bind_int64(writing, column, fuzz_number(bytes));
        return;
    case 1:
        sqlite3_bind_double(writing, column, (double)fuzz_number(bytes) / 3);
        return;
    default:
        more = fuzz_take(bytes, fuzz_byte(bytes), &taken);
        if (taken > 0)
            memcpy(value + length, more, taken);
        length += taken;
    }
    if ((kind & 3) == 2)
        sqlite3_bind_text(writing, column, value, (int)length, SQLITE_TRANSIENT);
    else
        sqlite3_bind_blob(writing, column, value, (int)length, SQLITE_TRANSIENT);
}

static void write_row(struct fuzz_bytes *bytes, const char *id)
{
    for (int column = 1; column <= COLUMNS; column++)
        bind_value(bytes, column, id);
    sqlite3_step(writing);
    sqlite3_reset(writing);
}

static bool is_owned_by(const char *id)
{
    bool owned;

    sqlite3_bind_text(asking, 1, id, -1, SQLITE_STATIC);
    owned = sqlite3_step(asking) == SQLITE_ROW && sqlite3_column_int(asking, 0) == 1;
    sqlite3_reset(asking);
    return owned;
}

/* ---- What the library makes of it ------------------------------------------------------------ */

static void ask_status(const char *mutex)
{
    struct simba_mutex_status *list = NULL;
    struct simba_error error = {0};
    size_t count = 0;
    int code = simba_client_status(client, mutex, PATIENCE_MS, &list, &count, &error);

    if (code != SIMBA_OK)
        fuzz_demand(error.text[0] != '\0', "a failure says why");
    for (size_t i = 0; i < count; i++) {
        fuzz_demand(memchr(list[i].mutex, 0, sizeof list[i].mutex) != NULL, "a name ends");
        fuzz_demand(memchr(list[i].owner.id, 0, sizeof list[i].owner.id) != NULL, "an id ends");
    }
    simba_free(list);
}

static void contend(const char *id)
{
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *locker = NULL;

    options.mutex = MUTEX;
    options.id = id;
    if (simba_locker_create(client, &options, &locker, NULL) != SIMBA_OK)
        return;
    if (simba_locker_try_acquire(locker, NULL) == SIMBA_OK) {
        fuzz_demand(is_owned_by(id), "whoever believes owns");
        fuzz_demand(simba_locker_fence(locker) != 0, "whoever believes has a token");
        simba_locker_release(locker, NULL);
    }
    simba_locker_close(locker);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_bytes bytes = {data, size};
    size_t length;
    const uint8_t *taken;
    char *id;

    open_file();
    taken = fuzz_take(&bytes, fuzz_byte(&bytes) % (SIMBA_ID_MAX + 1), &length);
    id = fuzz_text(taken, length);
    write_row(&bytes, id);
    ask_status(NULL);
    ask_status(MUTEX);
    contend(simba_id_validate(id, NULL) == SIMBA_OK ? id : "me");
    free(id);
    return 0;
}
