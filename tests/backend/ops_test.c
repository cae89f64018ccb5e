/*
 * ops_test.c - what every backend must do with every operation: the same tables for all that are
 * built.
 */
#include "host.h"

/* ---- The stores ------------------------------------------------------------------------------ */

struct store {
    const char *scheme;
    char folder[TEST_PATH_MAX];
    char url[TEST_PATH_MAX + 32];
    struct host host;
};

static int open_store(void **state, const char *scheme)
{
    struct store *store = calloc(1, sizeof *store);

    store->scheme = scheme;
    test_folder_create(store->folder);
    if (strcmp(scheme, "memory") == 0)
        snprintf(store->url, sizeof store->url, "memory:ops");
    else
        snprintf(store->url, sizeof store->url, "%s:%s/simba.db", scheme, store->folder);
    *state = store;
    return host_open(&store->host, store->url) == SIMBA_OK ? 0 : -1;
}

static int open_memory(void **state)
{
    return open_store(state, "memory");
}

#ifdef SIMBA_HAVE_SQLITE
static int open_sqlite(void **state)
{
    return open_store(state, "sqlite");
}
#endif

static int close_store(void **state)
{
    struct store *store = *state;
    bool closed = host_close(&store->host);

    test_folder_remove(store->folder);
    free(store);
    return closed ? 0 : -1;
}

/* ---- Scripts --------------------------------------------------------------------------------- */

#define STEPS_MAX 6
#define NONE (-1)  /* revision 0 */
#define STALE (-2) /* a revision that the record never had */

/* One request and who must own afterwards; NULL: the store need not say. */
struct step {
    enum simba_op op;
    const char *id;
    int revision_of; /* the step whose answer has it, or NONE or STALE */
    const char *owner;
};

struct script {
    const char *name;
    struct step steps[STEPS_MAX];
};

#define ACQUIRE SIMBA_OP_ACQUIRE
#define GUARD SIMBA_OP_GUARD
#define RELEASE SIMBA_OP_RELEASE
#define READ SIMBA_OP_READ

static const struct script scripts[] = {
    {"a free mutex is acquired", {{ACQUIRE, "a", NONE, "a"}, {READ, NULL, NONE, "a"}}},
    {"an owned mutex is not acquired by another",
     {{ACQUIRE, "a", NONE, "a"}, {ACQUIRE, "b", NONE, "a"}, {READ, NULL, NONE, "a"}}},
    {"the owner acquires again", {{ACQUIRE, "a", NONE, "a"}, {ACQUIRE, "a", NONE, "a"}}},
    {"the owner guards", {{ACQUIRE, "a", NONE, "a"}, {GUARD, "a", 0, "a"}}},
    {"another guards in vain", {{ACQUIRE, "a", NONE, "a"}, {GUARD, "b", 0, "a"}}},
    {"a guard creates nothing", {{GUARD, "a", NONE, ""}, {READ, NULL, NONE, ""}}},
    {"a guard does not take back what was released",
     {{ACQUIRE, "a", NONE, "a"}, {RELEASE, "a", 0, ""}, {GUARD, "a", 0, ""}}},
    {"a released mutex is free for another",
     {{ACQUIRE, "a", NONE, "a"}, {RELEASE, "a", 0, ""}, {ACQUIRE, "b", NONE, "b"}}},
    {"a release of an earlier revision gives nothing back",
     {{ACQUIRE, "a", NONE, "a"},
      {ACQUIRE, "a", NONE, "a"},
      {RELEASE, "a", 0, "a"},
      {READ, NULL, NONE, "a"}}},
    {"a release of another revision gives nothing back",
     {{ACQUIRE, "a", NONE, "a"}, {RELEASE, "a", STALE, "a"}, {READ, NULL, NONE, "a"}}},
    {"a release without a revision gives nothing back",
     {{ACQUIRE, "a", NONE, "a"}, {RELEASE, "a", NONE, NULL}, {READ, NULL, NONE, "a"}}},
    {"a release by another gives nothing back",
     {{ACQUIRE, "a", NONE, "a"}, {RELEASE, "b", 0, "a"}, {READ, NULL, NONE, "a"}}},
    {"a release after the guard needs the guard's revision",
     {{ACQUIRE, "a", NONE, "a"}, {GUARD, "a", 0, "a"}, {RELEASE, "a", 1, ""}}},
    {"a release of a mutex that never was is answered", {{RELEASE, "a", STALE, ""}}},
    {"a mutex that never was has no owner", {{READ, NULL, NONE, ""}}},
};

static uint64_t revision_for(const struct step *step, const struct call *calls)
{
    if (step->revision_of == NONE)
        return 0;
    return step->revision_of == STALE ? 987654321 : calls[step->revision_of].revision;
}

static void run_script(struct store *store, const struct script *script)
{
    struct call calls[STEPS_MAX];

    for (size_t i = 0; i < STEPS_MAX && script->steps[i].op != SIMBA_OP_NONE; i++) {
        const struct step *step = &script->steps[i];

        calls[i] =
            host_do(&store->host, step->op, script->name, step->id, revision_for(step, calls));
        if (calls[i].code != SIMBA_OK)
            fail_msg("%s: step %zu: code %d: %s", script->name, i, calls[i].code,
                     calls[i].error.text);
        if (step->owner != NULL && strcmp(calls[i].owner, step->owner) != 0)
            fail_msg("%s: step %zu: owner \"%s\", not \"%s\"", script->name, i, calls[i].owner,
                     step->owner);
    }
}

static void every_operation_does_what_the_list_says(void **state)
{
    for (size_t i = 0; i < TEST_COUNT(scripts); i++)
        run_script(*state, &scripts[i]);
}

/* ---- Leases and revisions -------------------------------------------------------------------- */

static void assert_full_lease(const struct call *call)
{
    assert_in_range(call->ttl_left_ms, HOST_TTL_MS - 1000, HOST_TTL_MS);
    assert_int_equal(call->transition_left_ms - call->ttl_left_ms, HOST_TRANSITION_MS);
}

static void an_acquire_and_a_guard_give_a_full_lease(void **state)
{
    struct store *store = *state;
    struct call call = host_do(&store->host, ACQUIRE, "full", "a", 0);

    assert_full_lease(&call);
    call = host_call(ACQUIRE, "short", "a", 0);
    call.request.ttl_ms = 5000;
    host_submit(&store->host, &call, 1);
    assert_true(host_wait(&store->host, &call, 1));
    assert_in_range(call.ttl_left_ms, 4000, 5000);
    call = host_do(&store->host, GUARD, "short", "a", call.revision);
    assert_full_lease(&call);
    call = host_do(&store->host, ACQUIRE, "full", "b", 0);
    assert_full_lease(&call);
}

static void every_term_has_a_larger_revision(void **state)
{
    struct store *store = *state;
    uint64_t last = 0;

    for (int i = 0; i < 20; i++) {
        const char *id = i % 2 == 0 ? "a" : "b";
        struct call call = host_do(&store->host, ACQUIRE, "growing", id, 0);

        assert_string_equal(call.owner, id);
        assert_true(call.revision > last);
        last = call.revision;
        call = host_do(&store->host, GUARD, "growing", id, last);
        assert_true(call.revision >= last);
        last = call.revision;
        call = host_do(&store->host, RELEASE, "growing", id, last);
        assert_string_equal(call.owner, "");
        assert_true(call.revision >= last);
    }
}

struct expiry {
    struct store *store;
    const char *mutex;
};

static bool has_no_owner(void *user)
{
    const struct expiry *expiry = user;
    struct call call = host_do(&expiry->store->host, READ, expiry->mutex, NULL, 0);

    return call.code == SIMBA_OK && call.owner[0] == '\0';
}

static void a_lease_that_ended_is_free_and_cannot_be_guarded(void **state)
{
    struct store *store = *state;
    struct expiry expiry = {store, "ending"};
    struct call first = host_call(ACQUIRE, "ending", "a", 0);
    struct call call;

    first.request.ttl_ms = 20;
    first.request.transition_ms = 20;
    host_submit(&store->host, &first, 1);
    assert_true(host_wait(&store->host, &first, 1));
    assert_true(test_wait(has_no_owner, &expiry));
    call = host_do(&store->host, GUARD, "ending", "a", first.revision);
    assert_string_equal(call.owner, "");
    call = host_do(&store->host, ACQUIRE, "ending", "b", 0);
    assert_string_equal(call.owner, "b");
    assert_true(call.revision > first.revision);
}

static void the_transition_is_not_acquired_by_another_but_guarded(void **state)
{
    struct store *store = *state;
    struct call call = host_call(ACQUIRE, "between", "a", 0);

    call.request.ttl_ms = 0;
    host_submit(&store->host, &call, 1);
    assert_true(host_wait(&store->host, &call, 1));
    call = host_do(&store->host, ACQUIRE, "between", "b", 0);
    assert_string_equal(call.owner, "a");
    assert_true(call.ttl_left_ms <= 0);
    assert_true(call.transition_left_ms > 0);
    call = host_do(&store->host, GUARD, "between", "a", call.revision);
    assert_full_lease(&call);
}

static void others_are_told_the_token_with_which_the_term_began(void **state)
{
    struct store *store = *state;
    struct call call = host_do(&store->host, ACQUIRE, "token", "a", 0);
    uint64_t token = call.revision;

    call = host_do(&store->host, GUARD, "token", "a", call.revision);
    call = host_do(&store->host, GUARD, "token", "a", call.revision);
    assert_int_equal(host_do(&store->host, READ, "token", NULL, 0).fence, token);
    call = host_do(&store->host, SIMBA_OP_LIST, NULL, NULL, 0);
    assert_int_equal(call.list[0].owner.fence, token);
}

/* ---- Many ------------------------------------------------------------------------------------ */

#define BATCH 600 /* more than any backend carries out at once */

static void a_batch_is_answered_exactly_once_each(void **state)
{
    struct store *store = *state;
    struct call *calls = calloc(BATCH, sizeof *calls);
    char(*names)[16] = calloc(BATCH, sizeof *names);

    for (size_t i = 0; i < BATCH; i++) {
        snprintf(names[i], sizeof names[i], "batch-%zu", i / 3);
        calls[i] = host_call(i % 3 == 1 ? READ : ACQUIRE, names[i], i % 3 == 2 ? "b" : "a", 0);
        calls[i].request.timeout_ms = TEST_PATIENCE_MS;
    }
    host_submit(&store->host, calls, BATCH);
    assert_true(host_wait(&store->host, calls, BATCH));
    for (size_t i = 0; i < BATCH; i++) {
        assert_int_equal(calls[i].code, SIMBA_OK);
        assert_int_equal(calls[i].answers, 1);
        if (i % 3 == 0)
            assert_true(strcmp(calls[i].owner, "a") == 0 || strcmp(calls[i].owner, "b") == 0);
        if (i % 3 == 2)
            assert_string_equal(calls[i].owner, calls[i - 2].owner);
    }
    free(names);
    free(calls);
}

static void the_list_tells_all_in_the_order_of_their_names(void **state)
{
    struct store *store = *state;
    struct call call = host_do(&store->host, ACQUIRE, "list-b", "b", 0);
    int64_t now = simba_now_ms();

    call = host_do(&store->host, ACQUIRE, "list-a", "a", 0);
    call = host_do(&store->host, RELEASE, "list-a", "a", call.revision);
    host_do(&store->host, GUARD, "list-c", "c", 1);
    call = host_do(&store->host, SIMBA_OP_LIST, NULL, NULL, 0);
    assert_int_equal(call.code, SIMBA_OK);
    assert_int_equal(call.list_count, 2);
    assert_string_equal(call.list[0].mutex, "list-a");
    assert_string_equal(call.list[0].owner.id, "");
    assert_string_equal(call.list[1].mutex, "list-b");
    assert_string_equal(call.list[1].owner.id, "b");
    assert_true(call.list[1].owner.fence > 0);
    assert_in_range(call.list[1].owner.transition_at_ms - now, HOST_LEASE_MS - 1000,
                    HOST_LEASE_MS + 1000);
}

/* Another contender with the same id has begun a term: a guard of the older one tells of it and
 * renews nothing. A term that is shorter does not shorten the lease. */
static void a_guard_renews_its_own_term_only(void **state)
{
    struct store *store = *state;
    struct call first = host_do(&store->host, ACQUIRE, "twin", "a", 0);
    struct call second = host_do(&store->host, ACQUIRE, "twin", "a", 0);
    struct call call = host_call(GUARD, "twin", "a", first.revision);

    call.request.ttl_ms = 10 * HOST_TTL_MS;
    host_submit(&store->host, &call, 1);
    assert_true(host_wait(&store->host, &call, 1));
    assert_string_equal(call.owner, "a");
    assert_int_equal(call.fence, second.fence);
    assert_int_equal(call.revision, second.revision);
    assert_in_range(call.transition_left_ms, 0, HOST_TTL_MS + HOST_TRANSITION_MS);
    call = host_call(GUARD, "twin", "a", second.revision);
    call.request.ttl_ms = 1;
    call.request.transition_ms = 1;
    host_submit(&store->host, &call, 1);
    assert_true(host_wait(&store->host, &call, 1));
    assert_int_equal(call.fence, second.fence);
    assert_true(host_do(&store->host, READ, "twin", NULL, 0).transition_left_ms >
                HOST_TRANSITION_MS);
}

static void two_clients_share_the_store(void **state)
{
    struct store *store = *state;
    struct host other;
    struct call call;

    assert_int_equal(host_open(&other, store->url), SIMBA_OK);
    call = host_do(&store->host, ACQUIRE, "shared", "a", 0);
    assert_string_equal(host_do(&other, ACQUIRE, "shared", "b", 0).owner, "a");
    assert_string_equal(host_do(&other, RELEASE, "shared", "b", call.revision).owner, "a");
    host_do(&store->host, RELEASE, "shared", "a", call.revision);
    assert_string_equal(host_do(&other, ACQUIRE, "shared", "b", 0).owner, "b");
    assert_true(host_close(&other));
}

#define ON(open_function, test) cmocka_unit_test_setup_teardown(test, open_function, close_store)
#define CASES(open_function)                                                                       \
    ON(open_function, every_operation_does_what_the_list_says),                                    \
        ON(open_function, an_acquire_and_a_guard_give_a_full_lease),                               \
        ON(open_function, every_term_has_a_larger_revision),                                       \
        ON(open_function, others_are_told_the_token_with_which_the_term_began),                    \
        ON(open_function, a_lease_that_ended_is_free_and_cannot_be_guarded),                       \
        ON(open_function, the_transition_is_not_acquired_by_another_but_guarded),                  \
        ON(open_function, a_batch_is_answered_exactly_once_each),                                  \
        ON(open_function, the_list_tells_all_in_the_order_of_their_names),                         \
        ON(open_function, a_guard_renews_its_own_term_only),                                       \
        ON(open_function, two_clients_share_the_store)

int main(void)
{
    const struct CMUnitTest on_memory[] = {CASES(open_memory)};
    int failed = cmocka_run_group_tests_name("memory", on_memory, NULL, NULL);

#ifdef SIMBA_HAVE_SQLITE
    const struct CMUnitTest on_sqlite[] = {CASES(open_sqlite)};

    failed += cmocka_run_group_tests_name("sqlite", on_sqlite, NULL, NULL);
#endif
    return failed;
}
