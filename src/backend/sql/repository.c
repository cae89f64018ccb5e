/*
 * repository.c - the mutexes of an SQL database. Owns the order of statements; must not know their
 * text, nor requests.
 */
#include "backend/sql/repository.h"

#include "base/check.h"
#include "base/error.h"
#include "base/text.h"
#include "base/time.h"

#include <string.h>

/* Longer leases are cut, so that no database has to add what does not fit into its integers. */
#define LEASE_MAX_MS (INT64_MAX / 4)

bool sb_sql_record_is_owned(const struct sb_sql_record *record)
{
    return record->owner_id[0] != '\0' && record->transition_at_ms >= record->current_db_at_ms;
}

/* ---- Names ----------------------------------------------------------------------------------- */

/* Columns count characters: bytes that go on with a character of UTF-8 do not count. */
static int check_text(const struct sb_sql_names *names, const char *what, const char *text,
                      const char *column, size_t most, struct simba_error *error)
{
    size_t bytes = text != NULL ? strlen(text) : 0;
    size_t length = 0;

    if (bytes == 0)
        return SIMBA_OK;
    if (names->drops_spaces && text[bytes - 1] == ' ')
        return sb_error_set(error, SIMBA_EINVAL,
                            "the %s \"%s\" ends with a space, which this database may drop", what,
                            text);
    if (names->needs_utf8 && !sb_utf8_is_valid(text))
        return sb_error_set(error, SIMBA_EINVAL,
                            "the %s \"%s\" is not valid UTF-8, which this database needs", what,
                            text);
    for (const char *c = text; *c != '\0'; c++)
        length += ((unsigned char)*c & 0xc0) != 0x80;
    if (length <= most)
        return SIMBA_OK;
    return sb_error_set(error, SIMBA_EINVAL,
                        "the %s \"%.60s\" has %zu characters and the column %s of the table "
                        "simba_mutex takes %zu",
                        what, text, length, column, most);
}

struct sb_sql_names sb_sql_names_of(const struct sb_sql_connection *connection)
{
    return (struct sb_sql_names){connection->mutex_max, connection->owner_id_max,
                                 connection->drops_spaces, connection->needs_utf8};
}

int sb_sql_names_check(const struct sb_sql_names *names, const char *mutex, const char *id,
                       struct simba_error *error)
{
    int code = check_text(names, "name", mutex, "mutex", names->mutex_max, error);

    return code == SIMBA_OK ? check_text(names, "id", id, "owner_id", names->id_max, error) : code;
}

int sb_sql_repository_check_names(struct sb_sql_repository *r, const char *mutex, const char *id,
                                  struct sb_sql_failure *failure)
{
    const struct sb_sql_names names = sb_sql_names_of(r->connection);
    int code = sb_sql_names_check(&names, mutex, id, &failure->error);

    if (code != SIMBA_OK)
        failure->remedy = SB_SQL_GIVE_UP;
    return code;
}

int sb_sql_repository_check_version(struct sb_sql_repository *r, const struct sb_sql_record *record,
                                    struct sb_sql_failure *failure)
{
    uint64_t most = r->connection->version_max;

    if (record->version < most)
        return SIMBA_OK;
    failure->remedy = SB_SQL_GIVE_UP;
    r->connection->outdated = true;
    return sb_error_set(&failure->error, SIMBA_ECONFIG,
                        "the version of the mutex \"%s\" is at its maximum of %llu, and nobody can "
                        "own it any more%s%s",
                        record->mutex, (unsigned long long)most,
                        r->connection->widen_version != NULL ? "; run: " : "",
                        r->connection->widen_version != NULL ? r->connection->widen_version : "");
}

/* ---- Statements ------------------------------------------------------------------------------ */

/* What a statement yields. */
struct yield {
    struct sb_sql_record record;
    bool read; /* there was a row */
    struct sb_sql_waiter *next;
};

static int keep_row(void *user, const struct sb_sql_record *record)
{
    struct yield *yield = user;

    yield->record = *record;
    yield->read = true;
    return SIMBA_OK;
}

static int run(struct sb_sql_repository *r, enum sb_sql_statement statement,
               const struct sb_sql_values *values, struct yield *yield, int64_t *ret_count,
               struct sb_sql_failure *failure)
{
    const struct sb_sql_sink sink = {keep_row, yield, yield != NULL ? yield->next : NULL};
    int code = sb_sql_repository_check_names(r, values->mutex, values->id, failure);

    if (code != SIMBA_OK)
        return code;
    return r->connection->driver->run(r->connection, statement, values,
                                      yield != NULL ? &sink : NULL, ret_count, failure);
}

struct sb_sql_values sb_sql_claim_values(const struct sb_sql_claim *claim)
{
    struct sb_sql_values values = {.mutex = claim->mutex,
                                   .id = claim->id,
                                   .fence = claim->fence,
                                   .outlives_client = claim->outlives_client,
                                   .reserve_ms = claim->reserve_ms,
                                   .client = claim->client,
                                   .queued = claim->queued};

    values.ttl_ms = sb_earlier(claim->ttl_ms, LEASE_MAX_MS);
    values.lease_ms = values.ttl_ms + sb_earlier(claim->transition_ms, LEASE_MAX_MS);
    return values;
}

void sb_sql_record_limit(struct sb_sql_record *record, const struct sb_sql_claim *claim)
{
    const struct sb_sql_values values = sb_sql_claim_values(claim);

    record->ttl_at_ms =
        sb_earlier(record->ttl_at_ms, sb_later(record->current_db_at_ms, values.ttl_ms));
    record->transition_at_ms =
        sb_earlier(record->transition_at_ms, sb_later(record->current_db_at_ms, values.lease_ms));
}

/* ---- Transactions ---------------------------------------------------------------------------- */

int sb_sql_repository_begin(struct sb_sql_repository *r, struct sb_sql_failure *failure)
{
    int code;

    SB_CHECK(!r->in_transaction, "a transaction begins outside of another");
    code = r->connection->driver->begin(r->connection, failure);
    r->in_transaction = code == SIMBA_OK;
    return code;
}

void sb_sql_repository_rollback(struct sb_sql_repository *r)
{
    if (r->in_transaction)
        r->connection->driver->rollback(r->connection);
    r->in_transaction = false;
}

int sb_sql_repository_commit(struct sb_sql_repository *r, struct sb_sql_failure *failure)
{
    int code;

    SB_CHECK(r->in_transaction, "only an open transaction is committed");
    code = r->connection->driver->commit(r->connection, failure);
    if (code != SIMBA_OK)
        r->connection->driver->rollback(r->connection);
    r->in_transaction = false;
    return code;
}

int sb_sql_repository_check(struct sb_sql_repository *r, bool *ret_moved,
                            struct sb_sql_failure *failure)
{
    const struct sb_sql_driver *driver = r->connection->driver;

    return driver->check != NULL ? driver->check(r->connection, ret_moved, failure) : SIMBA_OK;
}

/* ---- Creating -------------------------------------------------------------------------------- */

int sb_sql_repository_init_schema(struct sb_sql_repository *r, struct sb_sql_failure *failure)
{
    return r->connection->driver->init_schema(r->connection, failure);
}

int sb_sql_repository_init_mutex(struct sb_sql_repository *r, const char *mutex,
                                 struct sb_sql_failure *failure)
{
    const struct sb_sql_values values = {.mutex = mutex};

    return run(r, SB_SQL_INSERT, &values, NULL, NULL, failure);
}

int sb_sql_repository_try_init_mutex(struct sb_sql_repository *r, const char *mutex,
                                     bool *ret_created, struct sb_sql_failure *failure)
{
    const struct sb_sql_values values = {.mutex = mutex};
    int64_t count = 0;
    int code = run(r, SB_SQL_INSERT_IF_MISSING, &values, NULL, &count, failure);

    if (code == SIMBA_OK)
        *ret_created = count > 0;
    return code;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static int read_record(struct sb_sql_repository *r, enum sb_sql_statement statement,
                       const struct sb_sql_values *values, struct sb_sql_record *ret_record,
                       struct sb_sql_failure *failure)
{
    struct yield yield = {.read = false};
    int code = run(r, statement, values, &yield, NULL, failure);

    if (code != SIMBA_OK)
        return code;
    if (!yield.read) {
        failure->remedy = SB_SQL_GIVE_UP;
        return sb_error_set(&failure->error, SIMBA_ENOTFOUND,
                            "there is no mutex \"%s\" on the store", values->mutex);
    }
    *ret_record = yield.record;
    return SIMBA_OK;
}

int sb_sql_repository_get_owner(struct sb_sql_repository *r, const char *mutex,
                                struct sb_sql_record *ret_record, struct sb_sql_failure *failure)
{
    const struct sb_sql_values values = {.mutex = mutex};

    return read_record(r, SB_SQL_SELECT, &values, ret_record, failure);
}

int sb_sql_repository_get_place(struct sb_sql_repository *r, const char *mutex, const char *id,
                                struct sb_sql_record *ret_record, struct sb_sql_failure *failure)
{
    const struct sb_sql_values values = {.mutex = mutex, .id = id};

    return read_record(r, SB_SQL_SELECT_PLACE, &values, ret_record, failure);
}

int sb_sql_repository_ensure_owner(struct sb_sql_repository *r, const char *mutex,
                                   struct sb_sql_record *ret_record, struct sb_sql_failure *failure)
{
    bool created;
    int code = sb_sql_repository_get_owner(r, mutex, ret_record, failure);

    if (code != SIMBA_ENOTFOUND)
        return code;
    code = sb_sql_repository_try_init_mutex(r, mutex, &created, failure);
    if (code != SIMBA_OK)
        return code;
    return sb_sql_repository_get_owner(r, mutex, ret_record, failure);
}

int sb_sql_repository_list(struct sb_sql_repository *r, const struct sb_sql_sink *sink,
                           struct sb_sql_failure *failure)
{
    const struct sb_sql_values none = {0};

    return r->connection->driver->run(r->connection, SB_SQL_SELECT_ALL, &none, sink, NULL, failure);
}

int sb_sql_repository_queue(struct sb_sql_repository *r, const char *mutex,
                            const struct sb_sql_sink *sink, struct sb_sql_failure *failure)
{
    const struct sb_sql_values values = {.mutex = mutex};
    int code = sb_sql_repository_check_names(r, mutex, NULL, failure);

    if (code != SIMBA_OK)
        return code;
    return r->connection->driver->run(r->connection, SB_SQL_QUEUE, &values, sink, NULL, failure);
}

/* ---- Changing -------------------------------------------------------------------------------- */

/* Runs a conditional update and tells the record afterwards. An ACQUIRE that joins has read it
 * itself. */
static int change(struct sb_sql_repository *r, enum sb_sql_statement statement,
                  const struct sb_sql_values *values, bool *ret_changed, struct yield *yield,
                  struct sb_sql_failure *failure)
{
    int64_t count = 0;
    int code;

    yield->read = false;
    code = run(r, statement, values, yield, &count, failure);
    if (code == SIMBA_OK && !yield->read)
        code = sb_sql_repository_get_owner(r, values->mutex, &yield->record, failure);
    if (code == SIMBA_OK)
        *ret_changed = count > 0;
    return code;
}

/* The same in one transaction; an acquire adds a mutex that is missing. Where the update itself
 * yields the row it is atomic alone, and a transaction would only cost. Elsewhere the SELECT that
 * follows must not fail behind an update that has been applied: that would be reported as not
 * applied. */
static int change_at_once(struct sb_sql_repository *r, enum sb_sql_statement statement,
                          const struct sb_sql_values *values, bool *ret_changed,
                          struct sb_sql_record *ret_record, struct sb_sql_waiter *next,
                          struct sb_sql_failure *failure)
{
    struct yield yield = {.next = next};
    bool changed = false;
    bool created;
    bool alone = !r->in_transaction && !r->connection->driver->returns_rows;
    int code = alone ? sb_sql_repository_begin(r, failure) : SIMBA_OK;

    if (code == SIMBA_OK)
        code = change(r, statement, values, &changed, &yield, failure);
    if (code == SIMBA_ENOTFOUND && statement == SB_SQL_ACQUIRE) {
        code = sb_sql_repository_try_init_mutex(r, values->mutex, &created, failure);
        if (code == SIMBA_OK)
            code = change(r, statement, values, &changed, &yield, failure);
    }
    if (alone && code == SIMBA_OK)
        code = sb_sql_repository_commit(r, failure);
    else if (alone)
        sb_sql_repository_rollback(r);
    if (code != SIMBA_OK)
        return code;
    *ret_changed = changed;
    *ret_record = yield.record;
    return SIMBA_OK;
}

/* A claim that could have won and has not has met the last version; any other had an owner in its
 * way. */
static int check_loser(struct sb_sql_repository *r, const struct sb_sql_claim *claim,
                       const struct sb_sql_record *record, struct sb_sql_failure *failure)
{
    if (sb_sql_record_is_owned(record) && strcmp(record->owner_id, claim->id) != 0)
        return SIMBA_OK;
    return sb_sql_repository_check_version(r, record, failure);
}

int sb_sql_repository_acquire(struct sb_sql_repository *r, const struct sb_sql_claim *claim,
                              bool *ret_acquired, struct sb_sql_failure *failure)
{
    const struct sb_sql_values values = sb_sql_claim_values(claim);
    struct sb_sql_record record;
    int64_t count = 0;
    int code = run(r, SB_SQL_ACQUIRE, &values, NULL, &count, failure);

    if (code == SIMBA_OK && count == 0) {
        code = sb_sql_repository_get_owner(r, claim->mutex, &record, failure);
        code = code == SIMBA_OK          ? check_loser(r, claim, &record, failure)
               : code == SIMBA_ENOTFOUND ? SIMBA_OK
                                         : code;
    }
    if (code == SIMBA_OK)
        *ret_acquired = count > 0;
    return code;
}

int sb_sql_repository_acquire_and_get_owner(struct sb_sql_repository *r,
                                            const struct sb_sql_claim *claim, bool *ret_acquired,
                                            struct sb_sql_record *ret_record,
                                            struct sb_sql_failure *failure)
{
    const struct sb_sql_values values = sb_sql_claim_values(claim);
    struct sb_sql_record record;
    bool acquired = false;
    int code = change_at_once(r, SB_SQL_ACQUIRE, &values, &acquired, &record, NULL, failure);

    if (code == SIMBA_OK && !acquired)
        code = check_loser(r, claim, &record, failure);
    if (code != SIMBA_OK)
        return code;
    *ret_acquired = acquired;
    *ret_record = record;
    return SIMBA_OK;
}

int sb_sql_repository_guard(struct sb_sql_repository *r, const struct sb_sql_claim *claim,
                            bool *ret_renewed, struct sb_sql_record *ret_record,
                            struct sb_sql_failure *failure)
{
    const struct sb_sql_values values = sb_sql_claim_values(claim);

    return change_at_once(r, SB_SQL_GUARD, &values, ret_renewed, ret_record, NULL, failure);
}

int sb_sql_repository_release(struct sb_sql_repository *r, const char *mutex, const char *id,
                              uint64_t version, bool *ret_released,
                              struct sb_sql_record *ret_record, struct sb_sql_failure *failure)
{
    const struct sb_sql_values values = {.mutex = mutex, .id = id, .version = version};

    SB_CHECK(version > 0, "a release names the version that it ends");
    return change_at_once(r, SB_SQL_RELEASE, &values, ret_released, ret_record, NULL, failure);
}

int sb_sql_repository_hand_on(struct sb_sql_repository *r, const struct sb_sql_claim *claim,
                              uint64_t version, bool *ret_released,
                              struct sb_sql_record *ret_record,
                              struct sb_sql_waiter next[SB_SQL_TOLD],
                              struct sb_sql_failure *failure)
{
    struct sb_sql_values values = sb_sql_claim_values(claim);

    SB_CHECK(version > 0, "a release names the version that it ends");
    values.version = version;
    return change_at_once(r, SB_SQL_RELEASE, &values, ret_released, ret_record, next, failure);
}

int sb_sql_repository_leave(struct sb_sql_repository *r, const struct sb_sql_claim *claim,
                            struct sb_sql_waiter next[SB_SQL_TOLD], struct sb_sql_failure *failure)
{
    const struct sb_sql_values values = sb_sql_claim_values(claim);
    struct yield yield = {.next = next};

    return run(r, SB_SQL_LEAVE, &values, &yield, NULL, failure);
}

/* The statement decides whether the id owns: not every database compares ids as strcmp does. */
int sb_sql_repository_release_read(struct sb_sql_repository *r, const char *mutex, const char *id,
                                   bool *ret_released, struct sb_sql_record *ret_record,
                                   struct sb_sql_failure *failure)
{
    struct sb_sql_values values = {.mutex = mutex, .id = id};
    struct sb_sql_record record;
    bool released = false;
    int code = sb_sql_repository_get_owner(r, mutex, &record, failure);

    if (code != SIMBA_OK)
        return code;
    values.version = record.version;
    code = change_at_once(r, SB_SQL_RELEASE, &values, &released, &record, NULL, failure);
    if (code != SIMBA_OK)
        return code;
    if (!released && record.version != values.version) {
        failure->remedy = SB_SQL_RETRY;
        return sb_error_set(&failure->error, SIMBA_EUNAVAILABLE,
                            "the mutex \"%s\" was changed by another client at the same time",
                            mutex);
    }
    *ret_released = released;
    *ret_record = record;
    return SIMBA_OK;
}

/* Its times count from the change on. */
void sb_sql_item_set_record(struct sb_sql_item *item, uint64_t version)
{
    const struct sb_sql_values *values = &item->values;
    struct sb_sql_record *record = &item->record;

    memset(record, 0, sizeof *record);
    sb_text_copy(record->mutex, sizeof record->mutex, values->mutex);
    record->version = version;
    if (item->statement != SB_SQL_ACQUIRE && item->statement != SB_SQL_GUARD)
        return;
    sb_text_copy(record->owner_id, sizeof record->owner_id, values->id);
    record->ttl_at_ms = values->ttl_ms;
    record->transition_at_ms = values->lease_ms;
}
