/*
 * toolkit_test.c - what the stores share: the arithmetic of instants, the back-off, waits with a
 * limit and the hash table.
 */
#include "base/alloc.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/thread.h"
#include "base/time.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

/* ---- Time ------------------------------------------------------------------------------------ */

static void sums_of_instants_do_not_overflow(void **state)
{
    assert_int_equal(sb_later(5, 7), 12);
    assert_int_equal(sb_later(5, SIMBA_INFINITE), SIMBA_INFINITE);
    assert_int_equal(sb_later(SIMBA_INFINITE, 1), SIMBA_INFINITE);
    assert_int_equal(sb_later(INT64_MIN, -1), INT64_MIN);
    assert_int_equal(sb_earlier(3, SIMBA_INFINITE), 3);
    assert_int_equal(sb_max(3, -4), 3);
}

static void time_left_ends_at_zero(void **state)
{
    assert_int_equal(sb_time_left(10, 4), 6);
    assert_int_equal(sb_time_left(4, 4), 0);
    assert_int_equal(sb_time_left(4, 10), 0);
    assert_int_equal(sb_time_left(SIMBA_INFINITE, 10), SIMBA_INFINITE);
}

/* ---- Back-off -------------------------------------------------------------------------------- */

static void back_off_doubles_up_to_its_limit(void **state)
{
    static const int64_t whole[] = {10, 10, 20, 40, 50, 50};
    uint64_t random = 7;

    for (unsigned failures = 0; failures < 6; failures++) {
        int64_t least = INT64_MAX;
        int64_t most = 0;

        for (int i = 0; i < 2000; i++) {
            int64_t delay = sb_random_backoff(&random, 10, 50, failures);

            least = sb_earlier(least, delay);
            most = sb_max(most, delay);
        }
        assert_int_equal(least, whole[failures] / 2);
        assert_int_equal(most, whole[failures]);
    }
    assert_in_range(sb_random_backoff(&random, 1, 1000, UINT32_MAX), 500, 1000);
}

/* ---- Waits ----------------------------------------------------------------------------------- */

struct signalled {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
};

static void *signal_it(void *argument)
{
    struct signalled *s = argument;

    pthread_mutex_lock(&s->lock);
    s->done = true;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static bool wait_for(struct signalled *s, int64_t until_ms)
{
    bool done;

    pthread_mutex_lock(&s->lock);
    while (!s->done && sb_cond_wait(&s->changed, &s->lock, until_ms))
        continue;
    done = s->done;
    pthread_mutex_unlock(&s->lock);
    return done;
}

static void a_wait_ends_at_its_instant(void **state)
{
    struct signalled s = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
    int64_t until_ms = simba_now_ms() + 20;

    assert_false(wait_for(&s, simba_now_ms()));
    assert_false(wait_for(&s, until_ms));
    assert_true(simba_now_ms() >= until_ms);
}

static void a_signal_ends_a_wait(void **state)
{
    struct signalled s = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
    pthread_t thread;

    assert_int_equal(sb_thread_start(&thread, "test-signal", signal_it, &s), 0);
    assert_true(wait_for(&s, SIMBA_INFINITE));
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* ---- The hash table -------------------------------------------------------------------------- */

#define ENTRIES 1000

struct entry {
    char name[16];
    struct sb_hash_node node; /* not first: what embeds it decides where it is */
};

static struct entry entries[ENTRIES];

static struct entry *entry_of(struct sb_hash_node *node)
{
    return (struct entry *)(void *)((char *)node - offsetof(struct entry, node));
}

static struct entry *find(const struct sb_hash_table *table, const char *name)
{
    struct sb_hash_node *node = NULL;

    do {
        node = sb_hash_table_find(table, node, sb_hash(name));
    } while (node != NULL && strcmp(entry_of(node)->name, name) != 0);
    return node != NULL ? entry_of(node) : NULL;
}

static void fill(struct sb_hash_table *table)
{
    assert_int_equal(sb_hash_table_init(table), SIMBA_OK);
    for (int i = 0; i < ENTRIES; i++) {
        snprintf(entries[i].name, sizeof entries[i].name, "m%d", i);
        sb_hash_table_add(table, &entries[i].node, sb_hash(entries[i].name));
    }
}

static void a_table_finds_what_is_in_it(void **state)
{
    struct sb_hash_table table;

    fill(&table);
    assert_int_equal(table.count, ENTRIES);
    for (int i = 0; i < ENTRIES; i++)
        assert_ptr_equal(find(&table, entries[i].name), &entries[i]);
    assert_null(find(&table, "another"));
    for (int i = 0; i < ENTRIES; i += 2)
        sb_hash_table_remove(&table, &entries[i].node);
    for (int i = 0; i < ENTRIES; i++)
        assert_ptr_equal(find(&table, entries[i].name), i % 2 == 0 ? NULL : &entries[i]);
    sb_hash_table_free(&table);
}

/* Names with one hash are all found, whatever the number of buckets. */
static void entries_may_have_the_same_hash(void **state)
{
    struct sb_hash_table table;
    struct sb_hash_node *node = NULL;
    size_t count = 0;

    assert_int_equal(sb_hash_table_init(&table), SIMBA_OK);
    for (int i = 0; i < ENTRIES; i++)
        sb_hash_table_add(&table, &entries[i].node, i % 2 == 0 ? 7 : 7 + 64);
    while ((node = sb_hash_table_find(&table, node, 7)) != NULL)
        count++;
    assert_int_equal(count, ENTRIES / 2);
    sb_hash_table_free(&table);
}

static void all_entries_are_visited_once_and_may_be_removed(void **state)
{
    struct sb_hash_table table;
    struct sb_hash_node *next;
    size_t count = 0;

    fill(&table);
    for (struct sb_hash_node *node = sb_hash_table_next(&table, NULL); node != NULL; node = next) {
        next = sb_hash_table_next(&table, node);
        sb_hash_table_remove(&table, node);
        count++;
    }
    assert_int_equal(count, ENTRIES);
    assert_int_equal(table.count, 0);
    assert_null(sb_hash_table_next(&table, NULL));
    sb_hash_table_free(&table);
    sb_hash_table_free(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_of_instants_do_not_overflow),
        cmocka_unit_test(time_left_ends_at_zero),
        cmocka_unit_test(back_off_doubles_up_to_its_limit),
        cmocka_unit_test(a_wait_ends_at_its_instant),
        cmocka_unit_test(a_signal_ends_a_wait),
        cmocka_unit_test(a_table_finds_what_is_in_it),
        cmocka_unit_test(entries_may_have_the_same_hash),
        cmocka_unit_test(all_entries_are_visited_once_and_may_be_removed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
