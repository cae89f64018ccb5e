/*
 * queue.c - see queue.h.
 */
#include "queue.h"

struct host one, two, three;

static int listening; /* clients */

int open_clients(void **state)
{
    listening = 0;
    return host_open(&one, server.url) == SIMBA_OK && host_open(&two, server.url) == SIMBA_OK &&
                   host_open(&three, server.url) == SIMBA_OK
               ? 0
               : -1;
}

int close_clients(void **state)
{
    return host_close(&one) && host_close(&two) && host_close(&three) ? 0 : -1;
}

struct call acquire(struct host *host, const char *mutex, const char *id)
{
    struct call call = host_reserve(host, SIMBA_OP_ACQUIRE, mutex, id, 0, RESERVE_MS);

    assert_int_equal(call.code, SIMBA_OK);
    return call;
}

struct call wins(struct host *host, const char *mutex, const char *id)
{
    struct call call = acquire(host, mutex, id);

    assert_string_equal(call.owner, id);
    return call;
}

struct attempt {
    struct host *host;
    const char *mutex;
    const char *id;
    struct call call;
};

static bool has_won(void *user)
{
    struct attempt *attempt = user;

    attempt->call = acquire(attempt->host, attempt->mutex, attempt->id);
    return strcmp(attempt->call.owner, attempt->id) == 0;
}

/* When the reservation for another is over. */
struct call wins_at_last(struct host *host, const char *mutex, const char *id)
{
    struct attempt attempt = {.host = host, .mutex = mutex, .id = id};

    assert_true(test_wait(has_won, &attempt));
    return attempt.call;
}

void gives_back(struct host *host, const struct call *held)
{
    struct call call = host_reserve(host, SIMBA_OP_RELEASE, held->request.mutex, held->request.id,
                                    held->revision, RESERVE_MS);

    assert_int_equal(call.code, SIMBA_OK);
}

void waits(struct host *host, const char *mutex, const char *id, const char *owner)
{
    assert_string_equal(acquire(host, mutex, id).owner, owner);
}

int64_t rows_of(const char *mutex)
{
    char sql[256];

    snprintf(sql, sizeof sql, "SELECT count(*) FROM simba_waiter WHERE mutex = '%s'%s", mutex,
             dialect_counts);
    return server_number(&server, sql);
}

bool is_back(void *host)
{
    return strcmp(host_do(host, SIMBA_OP_ACQUIRE, "back", "a", 0).owner, "a") == 0;
}

/* ---- Hearing --------------------------------------------------------------------------------- */

void hears(struct host *host, const char *mutex, const char *id)
{
    listening++;
    host->ops->listen(host->backend, mutex, id, true);
}

static bool all_sleep(void *argument)
{
    (void)argument;
    return server_number(&server, dialect_count_listeners) >= listening;
}

void hear_by_now(struct host *host)
{
    if (dialect_pushes)
        assert_true(host_wait_notice(host, SIMBA_NOTICE_RELEASED, "", NULL));
    else
        assert_true(test_wait(all_sleep, NULL));
    host_forget_notices(host);
}

/* ---- The other library ----------------------------------------------------------------------- */

bool jvm_acquires(const char *mutex)
{
    const char *now = dialect_now_ms;

    server_sql(&server,
               "UPDATE simba_mutex SET acquired_at = %s, ttl_at = %s + 10000, transition_at = %s +"
               " 20000, owner_id = 'jvm', version = version + 1 WHERE mutex = '%s' AND"
               " (transition_at < %s OR (owner_id = 'jvm' AND transition_at > %s))",
               now, now, now, mutex, now, now);
    return strcmp(server_sql(&server, "SELECT owner_id FROM simba_mutex WHERE mutex = '%s'", mutex),
                  "jvm") == 0;
}

void jvm_releases(const char *mutex)
{
    server_sql(&server,
               "UPDATE simba_mutex SET acquired_at = 0, ttl_at = 0, transition_at = 0, owner_id ="
               " '', version = version + 1 WHERE mutex = '%s' AND owner_id = 'jvm'",
               mutex);
}
