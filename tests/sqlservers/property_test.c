/*
 * property_test.c - a property that another client has locked holds up nobody else: neither the
 * owners of the same client nor other properties.
 */
#include "server.h"

#include "backend/host.h"

#include <simba/simba.h>

#define LOCKED 4 /* requests for the property that is locked */
#define RENEWALS 5

static struct call set_call(const char *mutex, const char *value)
{
    struct call call = host_call(SIMBA_OP_SET_PROPERTY, mutex, NULL, 0);

    call.request.property = "last-run";
    call.request.value = value;
    return call;
}

static void set_property(struct host *host, const char *mutex)
{
    struct call call = set_call(mutex, "begun");

    host_submit(host, &call, 1);
    assert_true(host_wait(host, &call, 1));
    assert_int_equal(call.code, SIMBA_OK);
}

/* As a user may who has no right but SELECT on a server of MySQL's. */
static struct session *lock_property(void)
{
    struct session *session = session_open(&server);

    session_sql(session, "BEGIN");
    session_sql(session, "SELECT * FROM simba_property WHERE mutex = 'locked'"
                         " AND name = 'last-run' FOR UPDATE");
    return session;
}

static void expect_waiting(struct host *host, const struct call *calls)
{
    for (size_t i = 0; i < LOCKED; i++)
        assert_false(host_is_answered(host, &calls[i]));
}

static void end_lock(struct session *session, struct host *host, struct call *calls)
{
    session_sql(session, "COMMIT");
    session_close(session);
    assert_true(host_wait(host, calls, LOCKED));
    for (size_t i = 0; i < LOCKED; i++) {
        assert_int_equal(calls[i].code, SIMBA_OK);
        assert_int_equal(calls[i].answers, 1);
    }
    assert_string_equal(
        server_sql(&server, "SELECT value FROM simba_property WHERE mutex = 'locked'"), "ended");
}

static void renew(struct host *host, struct call *owned)
{
    struct call call = host_do(host, SIMBA_OP_GUARD, "mine", "me", owned->revision);

    assert_int_equal(call.code, SIMBA_OK);
    assert_string_equal(call.owner, "me");
}

static void owners_are_renewed_while_a_property_is_locked(void **state)
{
    struct host host;
    struct call owned;
    struct call calls[LOCKED + 1];
    struct session *session;

    assert_int_equal(host_open(&host, server.url), SIMBA_OK);
    set_property(&host, "locked");
    owned = host_do(&host, SIMBA_OP_ACQUIRE, "mine", "me", 0);
    assert_string_equal(owned.owner, "me");
    session = lock_property();
    for (size_t i = 0; i < LOCKED; i++)
        calls[i] = set_call("locked", "ended");
    calls[LOCKED] = host_call(SIMBA_OP_GUARD, "mine", "me", owned.revision);
    host_submit(&host, calls, LOCKED + 1);
    assert_true(host_wait(&host, &calls[LOCKED], 1));
    assert_int_equal(calls[LOCKED].code, SIMBA_OK);
    assert_string_equal(calls[LOCKED].owner, "me");
    for (int i = 0; i < RENEWALS; i++)
        renew(&host, &owned);
    expect_waiting(&host, calls);
    end_lock(session, &host, calls);
    assert_true(host_close(&host));
}

static void other_properties_are_written_while_one_is_locked(void **state)
{
    struct host host;
    struct call calls[LOCKED + 1];
    struct session *session;

    assert_int_equal(host_open(&host, server.url), SIMBA_OK);
    set_property(&host, "locked");
    set_property(&host, "free");
    session = lock_property();
    for (size_t i = 0; i < LOCKED; i++)
        calls[i] = set_call("locked", "ended");
    calls[LOCKED] = set_call("free", "ended");
    host_submit(&host, calls, LOCKED + 1);
    assert_true(host_wait(&host, &calls[LOCKED], 1));
    assert_int_equal(calls[LOCKED].code, SIMBA_OK);
    expect_waiting(&host, calls);
    end_lock(session, &host, calls);
    assert_true(host_close(&host));
}

static void a_property_that_stays_locked_fails_alone_and_in_time(void **state)
{
    struct host host;
    struct call owned, call = set_call("locked", "ended");
    struct session *session;

    assert_int_equal(host_open(&host, server.url), SIMBA_OK);
    set_property(&host, "locked");
    owned = host_do(&host, SIMBA_OP_ACQUIRE, "mine", "me", 0);
    session = lock_property();
    call.request.timeout_ms = 1500;
    host_submit(&host, &call, 1);
    renew(&host, &owned);
    assert_true(host_wait(&host, &call, 1));
    assert_int_equal(call.code, SIMBA_EUNAVAILABLE);
    renew(&host, &owned);
    session_sql(session, "COMMIT");
    session_close(session);
    assert_true(host_close(&host));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(owners_are_renewed_while_a_property_is_locked),
        cmocka_unit_test(other_properties_are_written_while_one_is_locked),
        cmocka_unit_test(a_property_that_stays_locked_fails_alone_and_in_time),
    };

    return server_run_tests("property", tests);
}
