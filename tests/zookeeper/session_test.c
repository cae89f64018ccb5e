/*
 * session_test.c - what becomes of contenders when connections break, sessions end and servers
 * forget, seen through the library.
 */
#include "hooks.h"
#include "lib/process.h"
#include "redis/party.h"
#include "stage.h"

#include "base/random.h"
#include "lib/locker.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>

#define MUTEX "m"

static int enter(void **state)
{
    (void)state;
    hooks_reset();
    witness_open(&witness, &server, NULL);
    return 0;
}

static int leave(void **state)
{
    (void)state;
    witness_close(&witness);
    return 0;
}

/* Short leases, which the session does not make any shorter. */
static const char *url_of(const char *options)
{
    char rest[256];

    snprintf(rest, sizeof rest, "?ttl=2s&transition=2s&jitter=0ms..50ms%s", options);
    return server_url(&server, rest);
}

/* ---- Expiry ---------------------------------------------------------------------------------- */

static void an_expired_session_is_a_loss_and_a_new_contest_with_a_new_token(void **state)
{
    struct party party;

    (void)state;
    party_join(&party, url_of(""), MUTEX, "me");
    party_await_acquired(&party, 1);
    for (unsigned term = 1; term <= 3; term++) {
        uint64_t fence = atomic_load(&party.fence);
        clientid_t session = hooks_session();

        witness_expire(&server, &session);
        party_await_released(&party, term);
        party_await_acquired(&party, term + 1);
        assert_int_equal(atomic_load(&party.released), term);
        assert_true(atomic_load(&party.fence) > fence);
        assert_true(hooks_session().client_id != session.client_id);
        assert_int_equal(witness_count(&witness, MUTEX), 1);
    }
    party_leave(&party);
    assert_int_equal(witness_count(&witness, MUTEX), 0);
}

static bool has_two(void *user)
{
    (void)user;
    return witness_count(&witness, MUTEX) == 2;
}

static bool waits_in_another_session(void *user)
{
    const clientid_t *before = user;
    clientid_t now = hooks_session();

    return now.client_id != 0 && now.client_id != before->client_id && has_two(NULL);
}

/* Of every owner that the last notice named. */
struct told {
    _Atomic unsigned notices;
    _Atomic unsigned finite;
};

static struct told told;

static void note_times(const struct simba_owner *owner)
{
    bool endless = owner->ttl_at_ms == SIMBA_INFINITE && owner->transition_at_ms == SIMBA_INFINITE;

    if (owner->id[0] != '\0' && !endless)
        atomic_fetch_add(&told.finite, 1);
}

static void note_notice(void *user, const struct simba_state *state)
{
    (void)user;
    note_times(&state->before);
    note_times(&state->after);
    atomic_fetch_add(&told.notices, 1);
}

static bool has_two_notices(void *user)
{
    (void)user;
    return atomic_load(&told.notices) >= 2;
}

static void no_end_is_told_of_what_has_none(void **state)
{
    struct party owner;
    struct party waiter;
    struct simba_state known;

    (void)state;
    atomic_store(&told.notices, 0);
    atomic_store(&told.finite, 0);
    party_join_notified(&owner, note_notice, url_of(""), MUTEX, "the-owner");
    party_await_acquired(&owner, 1);
    party_join_notified(&waiter, note_notice, url_of(""), MUTEX, "the-waiter");
    assert_true(test_wait(has_two_notices, NULL));
    simba_contender_state(owner.contender, &known);
    assert_string_equal(known.after.id, "the-owner");
    note_times(&known.after);
    simba_contender_state(waiter.contender, &known);
    assert_string_equal(known.after.id, "the-owner");
    note_times(&known.after);
    assert_int_equal(atomic_load(&told.finite), 0);
    /* The belief has its own end, and is renewed. */
    assert_in_range(simba_contender_deadline_ms(owner.contender) - simba_now_ms(), 1, 4000);
    party_leave(&waiter);
    party_leave(&owner);
    assert_int_equal(atomic_load(&told.finite), 0);
}

static void a_waiter_whose_session_expires_waits_again(void **state)
{
    struct party party;
    char node[256];
    clientid_t session;

    (void)state;
    snprintf(node, sizeof node, "%s", witness_join(&witness, MUTEX, "first"));
    party_join(&party, url_of(""), MUTEX, "me");
    assert_true(test_wait(has_two, NULL));
    session = hooks_session();
    witness_expire(&server, &session);
    assert_true(test_wait(waits_in_another_session, &session));
    assert_int_equal(atomic_load(&party.acquired), 0);
    witness_delete(&witness, MUTEX, node);
    party_await_acquired(&party, 1);
    party_leave(&party);
}

/* ---- Disconnects ----------------------------------------------------------------------------- */

/* Restarts the server; its clients' sessions are in its data. */
static void restart(void)
{
    server_kill(&server);
    server_start_again(&server);
}

static uint64_t renewals;

static bool has_renewed(void *user)
{
    return party_metrics(user).renewals >= renewals + 2;
}

/* The lease is as long as the longest session allows: a busy machine takes its time to start the
 * server again. */
static void an_owner_keeps_leading_through_a_disconnect(void **state)
{
    struct party party;
    uint64_t fence;

    (void)state;
    party_join(&party, server_url(&server, "?ttl=1s&transition=23s&on-disconnect=keep"), MUTEX,
               "me");
    party_await_acquired(&party, 1);
    fence = atomic_load(&party.fence);
    restart();
    renewals = party_metrics(&party).renewals;
    assert_true(test_wait(has_renewed, &party));
    assert_true(party_is_owner(&party));
    assert_int_equal(atomic_load(&party.released), 0);
    assert_true(simba_contender_fence(party.contender) == fence);
    party_leave(&party);
}

static void an_owner_lets_go_at_once_on_a_disconnect_where_it_is_told_to(void **state)
{
    struct party party;
    uint64_t fence;
    int64_t killed_ms;

    (void)state;
    party_join(&party, server_url(&server, "?ttl=5s&transition=8s&on-disconnect=release"), MUTEX,
               "me");
    party_await_acquired(&party, 1);
    fence = atomic_load(&party.fence);
    killed_ms = test_now_ms();
    server_kill(&server);
    party_await_released(&party, 1);
    assert_true(test_now_ms() - killed_ms < 3000);
    assert_false(party_is_owner(&party));
    server_start_again(&server);
    party_await_acquired(&party, 2);
    assert_true(atomic_load(&party.fence) > fence);
    assert_int_equal(atomic_load(&party.released), 1);
    party_leave(&party);
}

struct letting_go {
    const struct party *party;
    int64_t believed_ms; /* when it last did */
};

/* The time is read before the question, so that a slow machine cannot make a true "no" look
 * late. */
static bool has_let_go(void *user)
{
    struct letting_go *end = user;
    int64_t now_ms = test_now_ms();

    if (party_is_owner(end->party))
        end->believed_ms = now_ms;
    return !party_is_owner(end->party);
}

static void an_owner_lets_go_by_its_own_clock_before_its_session_can_end(void **state)
{
    struct party party;
    struct party rival;
    struct letting_go end = {.party = &party};
    int64_t paused_ms;

    (void)state;
    party_join(&party, url_of(""), MUTEX, "me");
    party_await_acquired(&party, 1);
    paused_ms = test_now_ms();
    server_pause(&server);
    assert_true(test_wait(has_let_go, &end));
    /* It believes for 4 s from the last renewal, which came before the pause; its session has 9.6
     * s. */
    print_message("# let go %lld ms after the pause\n", (long long)(end.believed_ms - paused_ms));
    assert_true(end.believed_ms - paused_ms < 4000);
    party_await_released(&party, 1);
    assert_false(party_is_owner(&party));
    server_go_on(&server);
    party_await_acquired(&party, 2);
    party_join(&rival, url_of(""), MUTEX, "you");
    party_leave(&party);
    party_await_acquired(&rival, 1);
    party_leave(&rival);
}

/* ---- Lines ----------------------------------------------------------------------------------- */

static void names_are_not_resolved_again_and_again(void **state)
{
    struct party party;
    int before;

    (void)state;
    party_join(&party, server_url(&server, "?ttl=100ms&transition=5s"), MUTEX, "me");
    party_await_acquired(&party, 1);
    before = atomic_load(&hooks.resolutions);
    assert_true(before > 0);
    for (int i = 0; i < 5; i++) {
        renewals = party_metrics(&party).renewals;
        assert_true(test_wait(has_renewed, &party));
    }
    assert_in_range(atomic_load(&hooks.resolutions) - before, 0, 1);
    party_leave(&party);
}

static void a_session_is_made_anew_however_long_names_take(void **state)
{
    struct party party;
    clientid_t session;

    (void)state;
    party_join(&party, server_url(&server, "?ttl=500ms&transition=1s&session-timeout=2s"), MUTEX,
               "me");
    party_await_acquired(&party, 1);
    session = hooks_session();
    atomic_store(&hooks.resolve_ms, 700);
    witness_expire(&server, &session);
    party_await_acquired(&party, 2);
    atomic_store(&hooks.resolve_ms, 0);
    party_leave(&party);
}

static bool has_close_waiting(void *user)
{
    (void)user;
    return atomic_load(&hooks.closes_waiting) > 0;
}

/* It is to be replaced because it was down for too long, and comes up before that. */
static void a_line_that_comes_up_while_it_is_replaced_keeps_its_session(void **state)
{
    struct party party;
    clientid_t session;

    (void)state;
    party_join(&party, server_url(&server, "?ttl=500ms&transition=1s&session-timeout=4s"), MUTEX,
               "me");
    party_await_acquired(&party, 1);
    session = hooks_session();
    atomic_store(&hooks.hold_closes, true);
    server_kill(&server);
    assert_true(test_wait(has_close_waiting, NULL));
    server_start_again(&server);
    assert_true(test_wait(hooks_is_connected, NULL));
    atomic_store(&hooks.hold_closes, false);
    renewals = party_metrics(&party).renewals;
    assert_true(test_wait(has_renewed, &party)); /* this term, or the next one */
    assert_true(hooks_session().client_id == session.client_id);
    party_leave(&party);
}

static struct party *believer;
static atomic_int closes;
static atomic_int closes_believed;

static void note_close(void)
{
    atomic_fetch_add(&closes, 1);
    if (party_is_owner(believer))
        atomic_fetch_add(&closes_believed, 1);
}

static bool has_closed(void *user)
{
    (void)user;
    return atomic_load(&closes) > 0;
}

/* A handle that comes up at the very moment at which it is closed takes its session with it. */
static void no_line_is_closed_while_an_owner_believes(void **state)
{
    struct party party;

    (void)state;
    party_join(&party, server_url(&server, "?ttl=500ms&transition=3s&session-timeout=8s"), MUTEX,
               "me");
    party_await_acquired(&party, 1);
    believer = &party;
    hooks.before_close = note_close;
    server_kill(&server);
    assert_true(test_wait(has_closed, NULL));
    assert_int_equal(atomic_load(&closes_believed), 0);
    hooks.before_close = NULL;
    server_start_again(&server);
    party_leave(&party);
}

struct load {
    int threads;
    int descriptors;
};

static struct load load_now(void)
{
    struct load load = {test_thread_count(), test_descriptor_count()};

    assert_true(load.threads > 0 && load.descriptors > 0);
    return load;
}

/* An old line may be about to end. */
static bool has_no_more(void *user)
{
    const struct load *before = user;
    struct load now = load_now();

    return now.threads <= before->threads && now.descriptors <= before->descriptors;
}

static void many_sessions_leave_neither_threads_nor_descriptors(void **state)
{
    struct party party;
    struct load before;

    (void)state;
    party_join(&party, server_url(&server, "?ttl=500ms&transition=1s&session-timeout=2s"), MUTEX,
               "me");
    party_await_acquired(&party, 1);
    before = load_now();
    for (unsigned term = 2; term <= 12; term++) {
        clientid_t session = hooks_session();

        witness_expire(&server, &session);
        party_await_acquired(&party, term);
    }
    assert_true(test_wait(has_no_more, &before));
    party_leave(&party);
}

/* Connections to it are made, and never answered. */
static int listen_in_vain(int *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 64), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    *ret_port = ntohs(address.sin_port);
    return fd;
}

static void a_server_that_hangs_does_not_keep_others_from_being_found(void **state)
{
    struct simba_error error = {0};
    char url[256];
    int port;
    int fd = listen_in_vain(&port);

    (void)state;
    snprintf(url, sizeof url,
             "zookeeper://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d?connect-timeout=15s", port,
             server.port, server.port);
    for (int i = 0; i < 6; i++) {
        simba_client *client;

        if (simba_client_open(url, NULL, &client, &error) != SIMBA_OK)
            fail_msg("%s", error.text);
        simba_client_close(client, NULL);
    }
    close(fd);
}

/* ---- Servers that forget --------------------------------------------------------------------- */

static void contenders_begin_anew_on_a_server_that_came_back_without_data(void **state)
{
    struct party party;

    (void)state;
    party_join(&party, url_of(""), MUTEX, "me");
    party_await_acquired(&party, 1);
    witness_close(&witness);
    server_kill(&server);
    server_wipe(&server);
    server_start_again(&server);
    party_await_acquired(&party, 2);
    assert_int_equal(atomic_load(&party.released), 1);
    witness_open(&witness, &server, NULL);
    assert_int_equal(witness_count(&witness, MUTEX), 1);
    party_leave(&party);
    assert_int_equal(witness_count(&witness, MUTEX), 0);
}

/* ---- Stops that race ------------------------------------------------------------------------- */

static void *leave_party(void *argument)
{
    party_leave(argument);
    return NULL;
}

static void a_stop_that_races_a_wake_up_leaves_no_node(void **state)
{
    uint64_t random = sb_random_seed();

    (void)state;
    print_message("# seed %llu\n", (unsigned long long)random);
    for (int i = 0; i < 25; i++) {
        struct party first;
        struct party second;
        pthread_t thread;
        struct timespec pause = {0, sb_random_between(sb_random_next(&random), 0, 3000000)};

        party_join(&first, url_of(""), MUTEX, "first");
        party_await_acquired(&first, 1);
        party_join(&second, url_of(""), MUTEX, "second");
        assert_true(test_wait(has_two, NULL));
        assert_int_equal(pthread_create(&thread, NULL, leave_party, &first), 0);
        nanosleep(&pause, NULL);
        party_leave(&second);
        pthread_join(thread, NULL);
        assert_int_equal(witness_count(&witness, MUTEX), 0);
    }
    assert_int_equal(server_watches(&server), 0);
}

/* ---- Rights ---------------------------------------------------------------------------------- */

static int denied_with(const char *url)
{
    struct simba_error error = {0};
    simba_client *client;
    simba_locker *locker;
    int code;

    assert_int_equal(simba_client_open(url, NULL, &client, &error), SIMBA_OK);
    assert_int_equal(test_locker_create(client, MUTEX, NULL, &locker, &error), SIMBA_OK);
    code = simba_locker_try_acquire(locker, &error);
    simba_locker_close(locker);
    simba_client_close(client, NULL);
    return code;
}

static int status_with(const char *url, struct simba_mutex_status *ret_status)
{
    struct simba_mutex_status *list = NULL;
    struct simba_error error = {0};
    simba_client *client;
    size_t count = 0;
    int code;

    assert_int_equal(simba_client_open(url, NULL, &client, &error), SIMBA_OK);
    code = simba_client_status(client, MUTEX, 5000, &list, &count, &error);
    if (code == SIMBA_OK)
        *ret_status = list[0];
    simba_free(list);
    simba_client_close(client, NULL);
    return code;
}

static const char *user_url(const char *user, const char *folder, const char *rest)
{
    static char url[4][256];
    static unsigned turn;
    char *text = url[turn++ % 4];

    snprintf(text, sizeof url[0], "zookeeper://%s127.0.0.1:%d%s?ttl=2s&transition=2s%s", user,
             server.port, folder, rest);
    return text;
}

static void nodes_have_the_rights_that_were_asked_for(void **state)
{
    struct simba_mutex_status status;
    struct party party;

    (void)state;
    party_join(&party, user_url("ann:secret@", "/rights", "&acl=creator"), MUTEX, "ann");
    party_await_acquired(&party, 1);
    assert_int_equal(denied_with(user_url("ann:secret@", "/rights", "&acl=creator")),
                     SIMBA_ECONTENDED);
    assert_int_equal(denied_with(user_url("", "/rights", "")), SIMBA_EDENIED);
    assert_int_equal(denied_with(user_url("ann:wrong@", "/rights", "")), SIMBA_EDENIED);
    assert_int_equal(status_with(user_url("", "/rights", ""), &status), SIMBA_EDENIED);
    party_leave(&party);
}

static void everybody_may_look_where_that_was_asked_for(void **state)
{
    struct simba_mutex_status status;
    struct party party;

    (void)state;
    party_join(&party, user_url("ann:secret@", "/looks", "&acl=creator-read"), MUTEX, "ann");
    party_await_acquired(&party, 1);
    assert_int_equal(denied_with(user_url("bob:secret@", "/looks", "")), SIMBA_EDENIED);
    assert_int_equal(status_with(user_url("", "/looks", ""), &status), SIMBA_OK);
    assert_string_equal(status.owner.id, "ann");
    assert_true(status.owner.ttl_at_ms == SIMBA_INFINITE);
    party_leave(&party);
}

/* ---- URLs ------------------------------------------------------------------------------------ */

static void urls_that_make_no_sense_are_refused(void **state)
{
    static const struct {
        const char *url;
        int code;
        const char *part;
    } urls[] = {
        {"zookeeper://h?nonsense=1", SIMBA_ECONFIG, "nonsense"},
        {"zookeeper://h/a//b", SIMBA_EINVAL, "/a//b"},
        {"zookeeper://h/a/../b", SIMBA_EINVAL, "/a/../b"},
        {"zookeeper://h/a/%F0%9F%98%80", SIMBA_EINVAL, "U+1F600"},
        {"zookeeper://h/%FF", SIMBA_EINVAL, "not UTF-8"},
        {"zookeeper://h?acl=mine", SIMBA_EINVAL, "mine"},
        {"zookeeper://h?acl=creator", SIMBA_EINVAL, "password"},
        {"zookeeper://user@h", SIMBA_EINVAL, "password"},
        {"zookeeper://h?on-disconnect=panic", SIMBA_EINVAL, "panic"},
        {"zookeeper://h?session-timeout=0s", SIMBA_EINVAL, "session-timeout"},
        {"zookeepers://h", SIMBA_EINVAL, "tls-ca"},
        {"zookeepers://h?tls-ca=a&tls-cert=b&tls-key=c", SIMBA_ECONFIG,
         "does not check host names"},
        {"zookeepers://h?tls-ca=a&tls-cert=b&tls-key=c&tls-verify=yes", SIMBA_EINVAL, "yes"},
        {"zookeeper://h?tls-verify=ca", SIMBA_ECONFIG, "tls-verify"},
        {"zookeeper://no-such-host.invalid", SIMBA_EUNAVAILABLE, "cannot be resolved"},
        {"zookeeper://127.0.0.1:1/a/?connect-timeout=300ms", SIMBA_EUNAVAILABLE, "127.0.0.1:1"},
        {"zookeeper://127.0.0.1:1?connect-timeout=300ms", SIMBA_EUNAVAILABLE, "127.0.0.1:1"},
    };

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(urls); i++) {
        struct simba_error error = {0};
        simba_client *client = NULL;
        int code = simba_client_open(urls[i].url, NULL, &client, &error);

        if (code != urls[i].code || strstr(error.text, urls[i].part) == NULL)
            fail_msg("%s: %d, %s", urls[i].url, code, error.text);
        assert_null(client);
    }
}

#ifndef SIMBA_HAVE_ZOOKEEPER_TLS
static void tls_is_refused_with_a_reason_where_the_library_has_none(void **state)
{
    struct simba_error error = {0};
    simba_client *client = NULL;

    (void)state;
    assert_int_equal(simba_client_open("zookeepers://h?tls-ca=a&tls-cert=b&tls-key=c&tls-verify=ca",
                                       NULL, &client, &error),
                     SIMBA_ECONFIG);
    assert_non_null(strstr(error.text, "TLS"));
}
#endif

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, enter, leave)
    const struct CMUnitTest tests[] = {
        CASE(an_expired_session_is_a_loss_and_a_new_contest_with_a_new_token),
        CASE(no_end_is_told_of_what_has_none),
        CASE(a_waiter_whose_session_expires_waits_again),
        CASE(an_owner_keeps_leading_through_a_disconnect),
        CASE(an_owner_lets_go_at_once_on_a_disconnect_where_it_is_told_to),
        CASE(an_owner_lets_go_by_its_own_clock_before_its_session_can_end),
        CASE(names_are_not_resolved_again_and_again),
        CASE(a_session_is_made_anew_however_long_names_take),
        CASE(a_line_that_comes_up_while_it_is_replaced_keeps_its_session),
        CASE(no_line_is_closed_while_an_owner_believes),
        CASE(many_sessions_leave_neither_threads_nor_descriptors),
        CASE(a_server_that_hangs_does_not_keep_others_from_being_found),
        CASE(contenders_begin_anew_on_a_server_that_came_back_without_data),
        CASE(a_stop_that_races_a_wake_up_leaves_no_node),
        CASE(nodes_have_the_rights_that_were_asked_for),
        CASE(everybody_may_look_where_that_was_asked_for),
        cmocka_unit_test(urls_that_make_no_sense_are_refused),
#ifndef SIMBA_HAVE_ZOOKEEPER_TLS
        cmocka_unit_test(tls_is_refused_with_a_reason_where_the_library_has_none),
#endif
    };

    return cmocka_run_group_tests(tests, stage_start, stage_stop);
}
