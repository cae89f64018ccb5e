/*
 * fleet_test.c - contenders of ours and of the JVM library on one mutex. The JVM's is a stand-in
 * that sends what the JVM library sends: it knows neither line nor reservation nor wake-up, and
 * tries again when the lease that it has seen is over.
 */
#include "server.h"

#include "lib/fleet.h"

#include "base/random.h"

#define TTL_MS 400
#define LEASE_MS 600
#define LEASE "ttl=400ms&transition=200ms"
#define JITTER_MS 20 /* behind the end of a lease */

/* Of the JVM contender nobody knows that it waits, so ours leaves it the time until it tries. */
#define TERM_MS 300
#define PAUSE_MS 600
#define FLEET_MS 8000

struct fleet_stand_in {
    struct session *session;
    char id[16];
    char answer[64];
    uint64_t random;
};

static struct fleet_stand_in *jvm_open(const char *id)
{
    struct fleet_stand_in *jvm = calloc(1, sizeof *jvm);

    assert_non_null(jvm);
    jvm->session = session_open(&server);
    snprintf(jvm->id, sizeof jvm->id, "%s", id);
    jvm->random = sb_random_seed();
    return jvm;
}

static void jvm_close(struct fleet_stand_in *jvm)
{
    session_close(jvm->session);
    free(jvm);
}

static void jvm_send(struct fleet_stand_in *jvm, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void jvm_send(struct fleet_stand_in *jvm, const char *format, ...)
{
    char sql[1024];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(sql, sizeof sql, format, arguments);
    va_end(arguments);
    if (!dialect_run(jvm->session, sql, jvm->answer, sizeof jvm->answer))
        fail_msg("'%s': %s", sql, jvm->answer);
}

/* What is left of the lease of another, in ms; -1: it owns. */
static int64_t jvm_try(struct fleet_stand_in *jvm)
{
    const char *now = dialect_now_ms;

    jvm_send(jvm,
             "UPDATE simba_mutex SET acquired_at = %s, ttl_at = %s + %d, transition_at = %s + %d,"
             " owner_id = '%s', version = version + 1 WHERE mutex = 'm' AND"
             " (transition_at < %s OR (owner_id = '%s' AND transition_at > %s))",
             now, now, TTL_MS, now, LEASE_MS, jvm->id, now, jvm->id, now);
    jvm_send(jvm,
             "SELECT CASE WHEN owner_id = '%s' THEN -1 WHEN transition_at > %s"
             " THEN transition_at - (%s) ELSE 0 END FROM simba_mutex WHERE mutex = 'm'",
             jvm->id, now, now);
    return strtoll(jvm->answer, NULL, 10);
}

static void jvm_acquire(struct fleet_stand_in *jvm)
{
    int64_t left_ms;

    while ((left_ms = jvm_try(jvm)) >= 0)
        test_pause_ms(left_ms + sb_random_between(sb_random_next(&jvm->random), 0, JITTER_MS));
}

static void jvm_release(struct fleet_stand_in *jvm)
{
    jvm_send(jvm,
             "UPDATE simba_mutex SET acquired_at = 0, ttl_at = 0, transition_at = 0, owner_id ="
             " '', version = version + 1 WHERE mutex = 'm' AND owner_id = '%s'",
             jvm->id);
}

static void a_mixed_fleet_shares_the_mutex(void **state)
{
    struct fleet fleet = {.url = server_url(&server, dialect_admin, LEASE),
                          .size = 1,
                          .ms = FLEET_MS,
                          .term_ms = TERM_MS,
                          .pause_ms = PAUSE_MS,
                          .open = jvm_open,
                          .acquire = jvm_acquire,
                          .release = jvm_release,
                          .close = jvm_close};

    fleet_run(&fleet);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mixed_fleet_shares_the_mutex),
    };

    return server_run_tests("fleet", tests);
}
