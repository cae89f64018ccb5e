/*
 * votes_test.c - what a majority of the sentinels confirms, and since when.
 */
#include "backend/redis/topology/sentinels.h"

#include "test.h"

static const struct sb_wire_place old_master = {"10.0.0.1", 6379};
static const struct sb_wire_place new_master = {"10.0.0.2", 6379};

static struct sb_redis_votes votes;

static void name_sentinels(size_t count, bool any)
{
    struct sb_redis_options options = {.place_count = count, .sentinel_any = any};

    for (size_t i = 0; i < count; i++) {
        snprintf(options.places[i].host, sizeof options.places[i].host, "s%zu", i);
        options.places[i].port = 26379;
    }
    sb_redis_votes_init(&votes, &options);
}

static void answer(size_t index, const char *id, const struct sb_wire_place *master, size_t known,
                   int64_t asked_ms)
{
    struct sb_redis_sentinel_answer word = {.master = *master, .known = known};

    snprintf(word.id, sizeof word.id, "%s", id);
    sb_redis_votes_take(&votes, index, &word, asked_ms);
}

static void list_peer(size_t index, const char *id, const char *host, int64_t asked_ms)
{
    struct sb_redis_sentinel_answer word = {.id = "first", .master = old_master, .known = 3};

    snprintf(word.peers[0].id, sizeof word.peers[0].id, "%s", id);
    snprintf(word.peers[0].place.host, sizeof word.peers[0].place.host, "%s", host);
    word.peers[0].place.port = 26379;
    word.peer_count = 1;
    sb_redis_votes_take(&votes, index, &word, asked_ms);
}

static size_t used(void)
{
    size_t count = 0;

    for (size_t i = 0; i < SB_REDIS_SENTINELS_MAX; i++)
        count += votes.votes[i].used;
    return count;
}

static void one_of_three_confirms_nothing(void **state)
{
    name_sentinels(3, false);
    assert_null(sb_redis_votes_master(&votes, NULL, 0));
    answer(0, "a", &old_master, 3, 100);
    assert_null(sb_redis_votes_master(&votes, NULL, 0));
    assert_int_equal(sb_redis_votes_confirmed_ms(&votes, &old_master), 0);
    assert_int_equal(sb_redis_votes_needed(&votes), 2);
}

/* The oldest of the newest majority counts. */
static void a_confirmation_is_as_old_as_the_question_that_completes_it(void **state)
{
    name_sentinels(3, false);
    answer(0, "a", &old_master, 3, 100);
    answer(1, "b", &old_master, 3, 70);
    assert_int_equal(sb_redis_votes_confirmed_ms(&votes, &old_master), 70);
    answer(2, "c", &old_master, 3, 90);
    assert_int_equal(sb_redis_votes_confirmed_ms(&votes, &old_master), 90);
    answer(0, "a", &old_master, 3, 500); /* the others are silent by now */
    assert_int_equal(sb_redis_votes_confirmed_ms(&votes, &old_master), 90);
}

static void the_last_word_of_a_sentinel_counts(void **state)
{
    name_sentinels(3, false);
    for (size_t i = 0; i < 3; i++)
        answer(i, (const char *[]){"a", "b", "c"}[i], &old_master, 3, 100);
    answer(0, "a", &new_master, 3, 200);
    assert_int_equal(sb_redis_votes_confirmed_ms(&votes, &old_master), 100);
    assert_true(sb_wire_place_equals(sb_redis_votes_master(&votes, &old_master, 0), &old_master));
    answer(1, "b", &new_master, 3, 210);
    assert_int_equal(sb_redis_votes_confirmed_ms(&votes, &old_master), 0);
    assert_int_equal(sb_redis_votes_confirmed_ms(&votes, &new_master), 200);
    assert_true(sb_wire_place_equals(sb_redis_votes_master(&votes, &old_master, 0), &new_master));
}

static void the_number_that_sentinels_tell_counts_where_it_is_larger(void **state)
{
    name_sentinels(2, false);
    answer(0, "a", &old_master, 2, 100);
    answer(1, "b", &old_master, 5, 100);
    assert_int_equal(sb_redis_votes_count(&votes), 5);
    assert_int_equal(sb_redis_votes_needed(&votes), 3);
    assert_null(sb_redis_votes_master(&votes, NULL, 0));
    name_sentinels(4, false);
    answer(0, "a", &old_master, 1, 100);
    assert_int_equal(sb_redis_votes_needed(&votes), 3);
}

static void a_sentinel_with_two_addresses_counts_once(void **state)
{
    name_sentinels(3, false);
    answer(0, "a", &old_master, 3, 100);
    answer(1, "a", &old_master, 3, 100);
    assert_null(sb_redis_votes_master(&votes, NULL, 0));
    answer(1, "a", &new_master, 3, 110); /* its newest word */
    assert_int_equal(sb_redis_votes_for(&votes, &old_master, 0), 0);
    assert_int_equal(sb_redis_votes_for(&votes, &new_master, 0), 1);
}

static void sentinels_that_others_tell_of_are_added_once(void **state)
{
    name_sentinels(2, false);
    answer(1, "second", &old_master, 3, 1000);
    list_peer(0, "second", "10.0.0.8", 1000); /* the URL has it under a name */
    list_peer(0, "third", "10.0.0.9", 1000);
    sb_redis_votes_add_peers(&votes, 1000);
    sb_redis_votes_add_peers(&votes, 1000);
    assert_int_equal(used(), 3);
    assert_string_equal(votes.votes[2].place.host, "10.0.0.9");
}

/* One of three tells of sentinels of its own; or tells another address of one that the others tell
 * of. */
static void what_one_of_three_tells_of_is_not_asked(void **state)
{
    name_sentinels(3, false);
    list_peer(0, "invented", "10.6.6.6", 1000);
    sb_redis_votes_add_peers(&votes, 1000);
    assert_int_equal(used(), 3);
    list_peer(0, "fourth", "10.6.6.6", 1000);
    list_peer(1, "fourth", "10.0.0.9", 1000);
    sb_redis_votes_add_peers(&votes, 1000);
    assert_int_equal(used(), 3);
    list_peer(2, "fourth", "10.0.0.9", 1000);
    sb_redis_votes_add_peers(&votes, 1000);
    assert_int_equal(used(), 4);
    assert_string_equal(votes.votes[3].place.host, "10.0.0.9");
    list_peer(3, "fifth", "10.0.0.10", 1000); /* one that the URL does not name has no word in it */
    sb_redis_votes_add_peers(&votes, 1000);
    assert_int_equal(used(), 4);
}

static void a_sentinel_that_is_gone_is_forgotten(void **state)
{
    name_sentinels(1, false);
    list_peer(0, "third", "10.0.0.9", 1000);
    sb_redis_votes_add_peers(&votes, 1000);
    answer(1, "third", &old_master, 3, 1000);
    assert_false(sb_redis_votes_may_forget(&votes, 1, 2000));
    assert_true(sb_redis_votes_may_forget(&votes, 1, 100000));
    assert_false(sb_redis_votes_may_forget(&votes, 0, 100000)); /* the URL names it */
    list_peer(0, "third", "10.0.0.9", 90000);
    assert_false(sb_redis_votes_may_forget(&votes, 1, 100000));
    sb_redis_votes_forget(&votes, 1);
    assert_int_equal(used(), 1);
}

/* As many as there may be, and more. */
static void a_list_without_end_is_cut(void **state)
{
    name_sentinels(1, false);
    for (int i = 0; i < 3 * SB_REDIS_SENTINELS_MAX; i++) {
        char text[32];

        snprintf(text, sizeof text, "10.0.1.%d", i);
        list_peer(0, text, text, 1000 + i);
        sb_redis_votes_add_peers(&votes, 1000 + i);
    }
    assert_int_equal(used(), SB_REDIS_SENTINELS_MAX);
}

static void with_any_one_is_enough_and_most_of_those_that_answer_are_followed(void **state)
{
    name_sentinels(3, true);
    answer(0, "", &old_master, 0, 100);
    assert_true(sb_wire_place_equals(sb_redis_votes_master(&votes, NULL, 0), &old_master));
    answer(1, "", &new_master, 0, 200);
    assert_true(sb_wire_place_equals(sb_redis_votes_master(&votes, &old_master, 0), &old_master));
    assert_true(sb_wire_place_equals(sb_redis_votes_master(&votes, &old_master, 150), &new_master));
    assert_null(sb_redis_votes_master(&votes, &old_master, 300));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_of_three_confirms_nothing),
        cmocka_unit_test(a_confirmation_is_as_old_as_the_question_that_completes_it),
        cmocka_unit_test(the_last_word_of_a_sentinel_counts),
        cmocka_unit_test(the_number_that_sentinels_tell_counts_where_it_is_larger),
        cmocka_unit_test(a_sentinel_with_two_addresses_counts_once),
        cmocka_unit_test(sentinels_that_others_tell_of_are_added_once),
        cmocka_unit_test(what_one_of_three_tells_of_is_not_asked),
        cmocka_unit_test(a_sentinel_that_is_gone_is_forgotten),
        cmocka_unit_test(a_list_without_end_is_cut),
        cmocka_unit_test(with_any_one_is_enough_and_most_of_those_that_answer_are_followed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
