/*
 * turn_test.c - the second in the queue leads when it hears that the first has gone, without
 * reading the list again; and reads it whenever what it heard could be wrong.
 */
#include "hooks.h"
#include "stage.h"

#include <pthread.h>

#define MUTEX "m"

static pthread_t test_thread;
static atomic_bool starved;       /* other threads get no memory */
static atomic_int starved_so_far; /* that often */

/* ---- Memory ---------------------------------------------------------------------------------- */

static void *get_memory(void *user, size_t size)
{
    (void)user;
    if (atomic_load(&starved) && !pthread_equal(pthread_self(), test_thread)) {
        atomic_fetch_add(&starved_so_far, 1);
        return NULL;
    }
    return malloc(size);
}

static void *get_more_memory(void *user, void *memory, size_t size)
{
    (void)user;
    return realloc(memory, size);
}

static void give_memory_back(void *user, void *memory)
{
    (void)user;
    free(memory);
}

/* ---- The queue ------------------------------------------------------------------------------- */

static int start(void **state)
{
    const struct simba_allocator allocator = {get_memory, get_more_memory, give_memory_back, NULL};

    test_thread = pthread_self();
    assert_int_equal(simba_set_allocator(&allocator), SIMBA_OK);
    return stage_start_watched(state);
}

/* A session whose proofs stay young for seconds. */
static int enter(void **state)
{
    hooks_reset();
    stage_open_host("?session-timeout=40s");
    return 0;
}

static int leave(void **state)
{
    struct witness_nodes nodes = witness_list(&witness, MUTEX);

    for (int i = 0; i < nodes.count; i++)
        witness_delete(&witness, MUTEX, nodes.names[i]);
    return stage_close_host(state);
}

static char first[256]; /* the node of a participant that is not ours */

static void join_first(void)
{
    snprintf(first, sizeof first, "%s", witness_join(&witness, MUTEX, "first"));
}

static struct call acquire(const char *id)
{
    struct call call = host_do(&host, SIMBA_OP_ACQUIRE, MUTEX, id, 0);

    if (call.code != SIMBA_OK)
        fail_msg("%d: %s", call.code, call.error.text);
    return call;
}

/* Behind the first one. */
static void join_second(void)
{
    assert_string_equal(acquire("second").owner, "first");
    host_forget_notices(&host);
}

/* Its wake-up comes, and it asks. Returns how often the list was read for the answer. */
static int take_turn(struct call *ret_call)
{
    assert_true(host_wait_notice(&host, SIMBA_NOTICE_RELEASED, MUTEX, "second"));
    atomic_store(&hooks.lists, 0);
    *ret_call = acquire("second");
    return atomic_load(&hooks.lists);
}

static const char *node_of_second(void)
{
    static char name[256];
    struct witness_nodes nodes = witness_list(&witness, MUTEX);

    snprintf(name, sizeof name, "%s", nodes.names[1]);
    return name;
}

/* ---- Turns ----------------------------------------------------------------------------------- */

static void the_second_leads_without_a_look(void **state)
{
    struct call call;

    join_first();
    join_second();
    witness_delete(&witness, MUTEX, first);
    assert_int_equal(take_turn(&call), 0);
    assert_string_equal(call.owner, "second");
    struct witness_nodes nodes = witness_list(&witness, MUTEX);
    assert_int_equal(nodes.count, 1);
    assert_true(call.revision == (uint64_t)witness_stat(&witness, MUTEX, nodes.names[0]).czxid);
    struct call guard = host_do(&host, SIMBA_OP_GUARD, MUTEX, "second", call.revision);
    assert_string_equal(guard.owner, "second");
}

static void who_stands_further_back_looks(void **state)
{
    struct call call;
    char before[256];

    join_first();
    snprintf(before, sizeof before, "%s", witness_join(&witness, MUTEX, "between"));
    join_second();
    witness_delete(&witness, MUTEX, before);
    assert_true(take_turn(&call) > 0);
    assert_string_equal(call.owner, "first");
    host_forget_notices(&host);
    witness_delete(&witness, MUTEX, first);
    assert_int_equal(take_turn(&call), 0); /* by now it was the second */
    assert_string_equal(call.owner, "second");
}

/* A node that was named by hand, and sorts right behind that of the first. */
static void squeeze_in(char squeezed[512], const char *name)
{
    char path[1024];

    snprintf(squeezed, 512, "x-latch-%s5", strrchr(name, '-') + 1);
    snprintf(path, sizeof path, "/simba/%s/%s", MUTEX, squeezed);
    assert_int_equal(zoo_create(witness.handle, path, "squeezed", 8, &ZOO_OPEN_ACL_UNSAFE,
                                ZOO_EPHEMERAL, NULL, 0),
                     ZOK);
}

/* It was the second once, and is no more. */
static void who_somebody_squeezed_in_before_looks(void **state)
{
    struct call call;
    char squeezed[512];

    join_first();
    join_second();
    squeeze_in(squeezed, first);
    assert_string_equal(acquire("second").owner, "first");
    witness_delete(&witness, MUTEX, squeezed);
    assert_true(take_turn(&call) > 0);
    assert_string_equal(call.owner, "first");
    host_forget_notices(&host);
    witness_delete(&witness, MUTEX, first);
    assert_int_equal(take_turn(&call), 0); /* by now it is the second again */
    assert_string_equal(call.owner, "second");
}

/* Both happen before it hears of either. */
static void who_was_taken_away_does_not_lead_when_the_first_leaves(void **state)
{
    struct call call;

    join_first();
    join_second();
    witness_join(&witness, MUTEX, "third");
    witness_delete(&witness, MUTEX, node_of_second());
    witness_delete(&witness, MUTEX, first);
    take_turn(&call);
    assert_string_equal(call.owner, "third");
}

static bool has_starved(void *user)
{
    (void)user;
    return atomic_load(&starved_so_far) > 0;
}

static void who_could_not_hear_that_it_was_taken_away_looks(void **state)
{
    struct call call;

    join_first();
    join_second();
    witness_join(&witness, MUTEX, "third");
    atomic_store(&starved, true);
    witness_delete(&witness, MUTEX, node_of_second());
    assert_true(test_wait(has_starved, NULL));
    atomic_store(&starved, false);
    witness_delete(&witness, MUTEX, first);
    take_turn(&call);
    assert_string_equal(call.owner, "third");
}

static void a_first_that_only_changes_is_still_the_first(void **state)
{
    struct call call;
    char path[512];

    join_first();
    join_second();
    snprintf(path, sizeof path, "/simba/%s/%s", MUTEX, first);
    assert_int_equal(zoo_set(witness.handle, path, "changed", 7, -1), ZOK);
    take_turn(&call);
    assert_string_equal(call.owner, "changed");
    host_forget_notices(&host);
    witness_delete(&witness, MUTEX, first);
    take_turn(&call);
    assert_string_equal(call.owner, "second");
}

/* A session that ends takes all of its nodes at once, so that their order says nothing. */
static void who_follows_a_node_of_its_own_session_looks(void **state)
{
    struct call mine;
    struct call call;

    mine = acquire("first");
    assert_string_equal(mine.owner, "first");
    join_second();
    host_do(&host, SIMBA_OP_RELEASE, MUTEX, "first", mine.revision);
    assert_true(take_turn(&call) > 0);
    assert_string_equal(call.owner, "second");
}

static bool is_up(void *user)
{
    (void)user;
    return host_notices(&host, SIMBA_NOTICE_RELEASED, "", NULL) > 0;
}

static bool has_deleted_first(void *user)
{
    (void)user;
    return witness_try_delete(&witness, MUTEX, first);
}

/* A new connection hears of what happened meanwhile in any order. */
static void who_was_disconnected_looks(void **state)
{
    join_first();
    join_second();
    server_kill(&server);
    server_start_again(&server);
    assert_true(host_run_until(&host, is_up, NULL));
    assert_true(host_run_until(&host, has_deleted_first, NULL));
    atomic_store(&hooks.lists, 0);
    assert_string_equal(acquire("second").owner, "second");
    assert_true(atomic_load(&hooks.lists) > 0);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, enter, leave)
    const struct CMUnitTest tests[] = {
        CASE(the_second_leads_without_a_look),
        CASE(who_stands_further_back_looks),
        CASE(who_somebody_squeezed_in_before_looks),
        CASE(who_was_taken_away_does_not_lead_when_the_first_leaves),
        CASE(who_could_not_hear_that_it_was_taken_away_looks),
        CASE(a_first_that_only_changes_is_still_the_first),
        CASE(who_follows_a_node_of_its_own_session_looks),
        CASE(who_was_disconnected_looks),
    };

    return cmocka_run_group_tests(tests, start, stage_stop_watched);
}
