/*
 * store_test.c - a database server as a store, through the backend's table of operations.
 */
#include "server.h"

#include "backend/host.h"

static struct host host;

static int open_host(void **state)
{
    server_sql(&server, "DROP TABLE IF EXISTS simba_mutex");
    return host_open(&host, server.url);
}

static int close_host(void **state)
{
    return host_close(&host) ? 0 : -1;
}

static void assert_owner(struct host *at, const char *mutex, const char *owner)
{
    struct call call = host_do(at, SIMBA_OP_READ, mutex, NULL, 0);

    if (call.code != SIMBA_OK)
        fail_msg("%s", call.error.text);
    assert_string_equal(call.owner, owner);
}

static struct call acquire(struct host *at, const char *mutex, const char *id)
{
    struct call call = host_do(at, SIMBA_OP_ACQUIRE, mutex, id, 0);

    if (call.code != SIMBA_OK)
        fail_msg("%s: %s", mutex, call.error.text);
    return call;
}

/* ---- Names ----------------------------------------------------------------------------------- */

#define TEN "0123456789"
#define SIXTY TEN TEN TEN TEN TEN TEN

static const char *const odd_names[] = {
    "it's",
    "\"double\"",
    "back\\slash",
    "a; DROP TABLE simba_mutex; --",
    "%s%n$1?:name",
    "{braces}",
    "Gr\xc3\xb6\xc3\x9f"
    "e \xe2\x9c\x93 \xf0\x9f\xa6\x81",
    SIXTY "123456",
    "a b",
    "null",
    "`tick`",
};

static void names_of_all_kinds_are_names(void **state)
{
    for (size_t i = 0; i < TEST_COUNT(odd_names); i++) {
        const char *name = odd_names[i];
        struct call held = acquire(&host, name, name);

        assert_string_equal(held.owner, name);
        assert_owner(&host, name, name);
        held = host_do(&host, SIMBA_OP_GUARD, name, name, 0);
        assert_string_equal(held.owner, name);
        held = host_do(&host, SIMBA_OP_RELEASE, name, name, held.revision);
        assert_string_equal(held.owner, "");
    }
    assert_int_equal(server_number(&server, "SELECT count(*) FROM simba_mutex"),
                     TEST_COUNT(odd_names));
}

static void the_longest_id_fits(void **state)
{
    assert_string_equal(acquire(&host, "m", SIXTY SIXTY "12345678").owner, SIXTY SIXTY "12345678");
}

static void names_and_ids_that_differ_in_case_are_different(void **state)
{
    assert_string_equal(acquire(&host, "m", "a").owner, "a");
    assert_string_equal(acquire(&host, "m", "A").owner, "a");
    assert_string_equal(acquire(&host, "M", "A").owner, "A");
    assert_string_equal(host_do(&host, SIMBA_OP_GUARD, "m", "A", 0).owner, "a");
}

static void a_list_is_in_the_order_of_bytes(void **state)
{
    static const char *const names[] = {"b", "B", "a", "_", "\xc3\xa4"};
    static const char *const sorted[] = {"B", "_", "a", "b", "\xc3\xa4"};
    struct call list;

    for (size_t i = 0; i < TEST_COUNT(names); i++)
        acquire(&host, names[i], "x");
    list = host_do(&host, SIMBA_OP_LIST, NULL, NULL, 0);
    assert_int_equal(list.list_count, TEST_COUNT(names));
    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        assert_string_equal(list.list[i].mutex, sorted[i]);
        assert_string_equal(list.list[i].owner.id, "x");
        assert_true(list.list[i].owner.fence > 0 && list.list[i].since_ms > 0);
    }
}

/* Where the database does not see a space at the end, two names would be one mutex. */
static void a_space_at_the_end_is_kept_or_refused(void **state)
{
    struct call call;

    acquire(&host, "m", "a");
    call = host_do(&host, SIMBA_OP_ACQUIRE, "m ", "a ", 0);
    assert_int_equal(call.code, dialect_drops_spaces ? SIMBA_EINVAL : SIMBA_OK);
    call = host_do(&host, SIMBA_OP_ACQUIRE, "n", "a ", 0);
    assert_int_equal(call.code, dialect_drops_spaces ? SIMBA_EINVAL : SIMBA_OK);
    call = host_do(&host, SIMBA_OP_READ, "m ", NULL, 0);
    assert_int_equal(call.code, dialect_drops_spaces ? SIMBA_EINVAL : SIMBA_OK);
    assert_string_equal(call.owner, dialect_drops_spaces ? "" : "a ");
}

/* It would be refused each time, so it must not look like a store that is down. */
static void what_is_not_utf8_is_refused_as_invalid(void **state)
{
    static const char *const bad[] = {
        "bad\xff", "\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "a\xe2\x82\x62"};
    struct call call;

    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        call = host_do(&host, SIMBA_OP_ACQUIRE, bad[i], "a", 0);
        assert_int_equal(call.code, SIMBA_EINVAL);
        assert_non_null(strstr(call.error.text, "is not valid UTF-8, which this database needs"));
        call = host_do(&host, SIMBA_OP_ACQUIRE, "m", bad[i], 0);
        assert_int_equal(call.code, SIMBA_EINVAL);
        call = host_do(&host, SIMBA_OP_READ, bad[i], NULL, 0);
        assert_int_equal(call.code, SIMBA_EINVAL);
    }
    acquire(&host, "\u00e9\u65e5\U0001f512", "\u00e9");
}

/* An observer and two contenders of one mutex ask in one batch. */
static void several_questions_about_one_mutex_get_one_answer(void **state)
{
    struct call calls[4];

    acquire(&host, "m", "a");
    calls[0] = host_call(SIMBA_OP_READ, "m", NULL, 0);
    calls[1] = host_call(SIMBA_OP_GUARD, "m", "b", 0);
    calls[2] = host_call(SIMBA_OP_READ, "m", NULL, 0);
    calls[3] = host_call(SIMBA_OP_GUARD, "m", "a", 0);
    host_submit(&host, calls, 4);
    assert_true(host_wait(&host, calls, 4));
    for (size_t i = 0; i < TEST_COUNT(calls); i++)
        assert_string_equal(calls[i].owner, "a");
}

/* ---- Tables of other installations ----------------------------------------------------------- */

/* Replaces the table and connects anew. */
static void use_old_table(void)
{
    assert_true(host_close(&host));
    server_sql(&server, "DROP TABLE simba_mutex");
    server_sql(&server, "%s", dialect_old_table);
    assert_int_equal(host_open(&host, server.url), SIMBA_OK);
}

static void an_older_table_works_unchanged(void **state)
{
    const char *id = TEN TEN TEN "12";
    struct call held;

    use_old_table();
    held = acquire(&host, "m", id);
    assert_string_equal(held.owner, id);
    assert_string_equal(acquire(&host, "m", "short").owner, id);
    held = host_do(&host, SIMBA_OP_GUARD, "m", id, 0);
    assert_string_equal(held.owner, id);
    host_do(&host, SIMBA_OP_RELEASE, "m", id, held.revision);
    held = acquire(&host, "m", "short");
    assert_string_equal(held.owner, "short");
    assert_string_equal(acquire(&host, "m", "SHORT").owner, "short");
    assert_string_equal(host_do(&host, SIMBA_OP_RELEASE, "m", "SHORT", held.revision).owner,
                        "short");
}

static void an_id_that_does_not_fit_is_refused_before_it_is_sent(void **state)
{
    struct call call;

    use_old_table();
    call = host_do(&host, SIMBA_OP_ACQUIRE, "m", TEN TEN TEN "123", 0);
    assert_int_equal(call.code, SIMBA_EINVAL);
    assert_non_null(strstr(call.error.text, "33 characters"));
    assert_non_null(strstr(call.error.text, "32"));
    assert_int_equal(server_number(&server, "SELECT count(*) FROM simba_mutex"), 0);
}

/* 66 characters of 3 bytes each, and one more. */
static void a_name_has_as_many_characters_as_the_column_takes(void **state)
{
    char name[67 * 3 + 1] = "";
    struct call call;

    for (int i = 0; i < 67; i++)
        strcat(name, "\xe9\x94\x81");
    call = host_do(&host, SIMBA_OP_ACQUIRE, name, "a", 0);
    assert_int_equal(call.code, SIMBA_EINVAL);
    assert_non_null(strstr(call.error.text, "67 characters"));
    assert_non_null(strstr(call.error.text, "the column mutex of the table simba_mutex takes 66"));
    assert_int_equal(server_number(&server, "SELECT count(*) FROM simba_mutex"), 0);
    name[66 * 3] = '\0';
    call = acquire(&host, name, "a");
    assert_string_equal(call.owner, "a");
    assert_owner(&host, name, "a");
    call = host_do(&host, SIMBA_OP_RELEASE, name, "a", call.revision);
    assert_string_equal(call.owner, "");
}

/* Runs the whole course of a lease. */
static void use_name(const char *name)
{
    struct call call = acquire(&host, name, "a");

    assert_string_equal(call.owner, "a");
    assert_string_equal(acquire(&host, name, "b").owner, "a");
    call = host_do(&host, SIMBA_OP_GUARD, name, "a", 0);
    assert_string_equal(call.owner, "a");
    assert_owner(&host, name, "a");
    call = host_do(&host, SIMBA_OP_RELEASE, name, "a", call.revision);
    assert_string_equal(call.owner, "");
    assert_string_equal(acquire(&host, name, "b").owner, "b");
}

static void a_wider_column_takes_longer_names(void **state)
{
    char plain[257];
    char wide[88 * 3 + 1] = ""; /* characters of 3 bytes: as many bytes as a name can have */
    struct call calls[2];
    struct call call;

    assert_true(host_close(&host));
    server_sql(&server, "%s", dialect_widen_mutex);
    assert_int_equal(host_open(&host, server.url), SIMBA_OK);
    memset(plain, 'x', 256);
    plain[256] = '\0';
    for (int i = 0; i < 88; i++)
        strcat(wide, "\xe9\x94\x81");
    call = host_do(&host, SIMBA_OP_ACQUIRE, plain, "a", 0);
    assert_int_equal(call.code, SIMBA_EINVAL);
    assert_non_null(strstr(call.error.text, "256 characters"));
    assert_non_null(strstr(call.error.text, "takes 255"));
    plain[255] = '\0';
    use_name(plain);
    use_name(wide);
    calls[0] = host_call(SIMBA_OP_ACQUIRE, plain, "b", 0);
    calls[1] = host_call(SIMBA_OP_ACQUIRE, wide, "b", 0);
    host_submit(&host, calls, 2);
    assert_true(host_wait(&host, calls, 2));
    assert_string_equal(calls[0].owner, "b");
    assert_string_equal(calls[1].owner, "b");
    call = host_do(&host, SIMBA_OP_LIST, NULL, NULL, 0);
    assert_int_equal(call.list_count, 2);
    assert_string_equal(call.list[0].mutex, plain);
    assert_string_equal(call.list[1].mutex, wide);
}

static void many_names_at_once_work_on_an_older_table(void **state)
{
    struct call calls[3];

    use_old_table();
    calls[0] = host_call(SIMBA_OP_ACQUIRE, "one", "a", 0);
    calls[1] = host_call(SIMBA_OP_ACQUIRE, "two", "b", 0);
    calls[2] = host_call(SIMBA_OP_ACQUIRE, "Two", "c", 0); /* the same row to some collations */
    host_submit(&host, calls, 3);
    assert_true(host_wait(&host, calls, 3));
    assert_string_equal(calls[0].owner, "a");
    assert_int_equal(calls[1].code, SIMBA_OK);
    assert_int_equal(calls[2].code, SIMBA_OK);
    if (server_number(&server, "SELECT count(*) FROM simba_mutex") == 2) {
        assert_string_equal(calls[1].owner, calls[2].owner); /* one row has one owner */
    } else {
        assert_string_equal(calls[1].owner, "b");
        assert_string_equal(calls[2].owner, "c");
    }
}

/* ---- The version ----------------------------------------------------------------------------- */

/* The last one that a column of the table's own kind can hold. */
#define LAST_VERSION 9223372036854775807

static void set_version(uint64_t version)
{
    server_sql(&server, "UPDATE simba_mutex SET version = %llu, owner_id = '', transition_at = 0",
               (unsigned long long)version);
}

/* The end of 32 bits is none. */
static void versions_have_64_bits(void **state)
{
    struct call call;

    acquire(&host, "m", "a");
    set_version(4294967294);
    for (uint64_t i = 0; i < 4; i++) {
        call = acquire(&host, "m", "a");
        assert_true(call.revision == 4294967295 + 3 * i);
        call = host_do(&host, SIMBA_OP_GUARD, "m", "a", 0);
        assert_true(call.revision == 4294967296 + 3 * i);
        call = host_do(&host, SIMBA_OP_RELEASE, "m", "a", call.revision);
        assert_true(call.revision == 4294967297 + 3 * i);
        assert_string_equal(call.owner, "");
    }
}

static void at_the_last_version_there_is_no_new_term(void **state)
{
    struct call call;

    acquire(&host, "m", "a");
    set_version(LAST_VERSION - 2);
    call = acquire(&host, "m", "a");
    assert_true(call.revision == LAST_VERSION - 1);
    call = host_do(&host, SIMBA_OP_GUARD, "m", "a", 0);
    assert_true(call.revision == LAST_VERSION);
    call = host_do(&host, SIMBA_OP_GUARD, "m", "a", 0);
    assert_int_equal(call.code, SIMBA_ECONFIG);
    assert_non_null(strstr(call.error.text, "maximum"));
    call = host_do(&host, SIMBA_OP_RELEASE, "m", "a", LAST_VERSION);
    assert_int_equal(call.code, SIMBA_OK);
    assert_string_equal(call.owner, "");
    call = host_do(&host, SIMBA_OP_ACQUIRE, "m", "b", 0);
    assert_int_equal(call.code, SIMBA_ECONFIG);
    assert_non_null(strstr(call.error.text, "maximum"));
    assert_true(server_number(&server, "SELECT version FROM simba_mutex") == LAST_VERSION);
}

/* ---- Leases ---------------------------------------------------------------------------------- */

static bool has_ended(void *user)
{
    struct call call = host_do(user, SIMBA_OP_READ, "m", NULL, 0);

    return call.owner[0] == '\0';
}

static void clients_with_different_leases_keep_to_their_own(void **state)
{
    struct host other;
    struct call call = host_call(SIMBA_OP_ACQUIRE, "m", "short", 0);

    assert_int_equal(host_open(&other, server.url), SIMBA_OK);
    call.request.ttl_ms = 200;
    call.request.transition_ms = 300;
    host_submit(&host, &call, 1);
    assert_true(host_wait(&host, &call, 1));
    assert_true(call.ttl_left_ms <= 200 && call.transition_left_ms <= 500);
    assert_string_equal(acquire(&other, "m", "long").owner, "short");
    assert_true(test_wait(has_ended, &other));
    call = acquire(&other, "m", "long");
    assert_string_equal(call.owner, "long");
    assert_true(call.ttl_left_ms > HOST_TTL_MS - 5000);
    assert_string_equal(acquire(&host, "m", "short").owner, "long");
    assert_true(host_close(&other));
}

/* ---- Batches --------------------------------------------------------------------------------- */

#define MIXED 200

static int64_t end_of_lease(const char *mutex)
{
    char sql[128];

    snprintf(sql, sizeof sql, "SELECT transition_at FROM simba_mutex WHERE mutex = '%s'", mutex);
    return server_number(&server, sql);
}

static void ask_for_little(struct call *calls, enum simba_op op, size_t count)
{
    static const char *const names[] = {"m", "n"};

    for (size_t i = 0; i < count; i++) {
        calls[i] = host_call(op, names[i], "a", 0);
        calls[i].request.ttl_ms = calls[i].request.transition_ms = 1000;
    }
    host_submit(&host, calls, count);
    assert_true(host_wait(&host, calls, count));
}

/* Whatever the same owner asks for. It is told no more than it has asked for. */
static void no_request_shortens_a_lease_of_its_owner(void **state)
{
    static const enum simba_op ops[] = {SIMBA_OP_ACQUIRE, SIMBA_OP_GUARD};
    struct call calls[2];
    int64_t ends_ms[2];

    acquire(&host, "m", "a");
    acquire(&host, "n", "a");
    ends_ms[0] = end_of_lease("m");
    ends_ms[1] = end_of_lease("n");
    for (size_t op = 0; op < TEST_COUNT(ops); op++)
        for (size_t count = 1; count <= 2; count++) {
            ask_for_little(calls, ops[op], count);
            for (size_t i = 0; i < count; i++) {
                assert_string_equal(calls[i].owner, "a");
                assert_true(calls[i].ttl_left_ms <= 1000);
                assert_true(calls[i].transition_left_ms <= 2000);
            }
            assert_int_equal(end_of_lease("m"), ends_ms[0]);
            assert_int_equal(end_of_lease("n"), ends_ms[1]);
        }
}

static void prepare_mixed(struct call *calls, char names[][16], enum simba_op op)
{
    for (size_t i = 0; i < MIXED; i++) {
        snprintf(names[i], 16, "mixed-%zu", i);
        calls[i] = host_call(i % 4 == 0 ? SIMBA_OP_READ : op, names[i], "a", calls[i].revision);
    }
}

static void submit_mixed(struct call *calls, const char *owner)
{
    host_submit(&host, calls, MIXED);
    assert_true(host_wait(&host, calls, MIXED));
    for (size_t i = 0; i < MIXED; i++) {
        assert_int_equal(calls[i].code, SIMBA_OK);
        assert_int_equal(calls[i].answers, 1);
        if (i % 4 != 0)
            assert_string_equal(calls[i].owner, owner);
    }
}

/* Most of the work of the first batch is to create the rows. */
static void requests_that_come_together_share_their_commits(void **state)
{
    static struct call calls[MIXED];
    static char names[MIXED][16];
    int64_t before;

    prepare_mixed(calls, names, SIMBA_OP_ACQUIRE);
    submit_mixed(calls, "a");
    assert_int_equal(server_number(&server, "SELECT count(*) FROM simba_mutex"), MIXED * 3 / 4);
    before = server_number(&server, dialect_count_commits);
    prepare_mixed(calls, names, SIMBA_OP_GUARD);
    submit_mixed(calls, "a");
    assert_true(server_number(&server, dialect_count_commits) - before < 30);
    prepare_mixed(calls, names, SIMBA_OP_RELEASE);
    submit_mixed(calls, "");
}

static void several_requests_for_one_mutex_in_a_batch_exclude_each_other(void **state)
{
    struct call calls[5];
    char ids[5][8];
    int owners = 0;

    for (size_t i = 0; i < TEST_COUNT(calls); i++) {
        snprintf(ids[i], sizeof ids[i], "id-%zu", i);
        calls[i] = host_call(SIMBA_OP_ACQUIRE, "m", ids[i], 0);
    }
    host_submit(&host, calls, TEST_COUNT(calls));
    assert_true(host_wait(&host, calls, TEST_COUNT(calls)));
    for (size_t i = 0; i < TEST_COUNT(calls); i++) {
        assert_int_equal(calls[i].code, SIMBA_OK);
        owners += strcmp(calls[i].owner, ids[i]) == 0;
        assert_string_equal(calls[i].owner, calls[0].owner);
    }
    assert_int_equal(owners, 1);
}

#define CROWD 50

/* The administrator has two rows; the others must not wait for them. */
static void a_blocked_row_delays_no_other(void **state)
{
    static struct call calls[CROWD];
    static char names[CROWD][16];
    struct session *admin;
    int64_t began_ms;

    for (size_t i = 0; i < CROWD; i++) {
        snprintf(names[i], sizeof names[i], "crowd-%02zu", i);
        calls[i] = acquire(&host, names[i], "a");
    }
    admin = session_open(&server);
    session_sql(admin, "BEGIN");
    session_sql(admin, "SELECT * FROM simba_mutex WHERE mutex IN ('crowd-00', 'crowd-20')"
                       " ORDER BY mutex FOR UPDATE");
    for (size_t i = 0; i < CROWD; i++)
        calls[i] = host_call(SIMBA_OP_GUARD, names[i], "a", 0);
    began_ms = test_now_ms();
    host_submit(&host, calls, CROWD);
    assert_true(host_wait(&host, calls + 1, 19));
    assert_true(host_wait(&host, calls + 21, CROWD - 21));
    assert_true(test_now_ms() - began_ms < 2000);
    assert_false(calls[0].answered);
    assert_false(calls[20].answered);
    assert_string_equal(host_do(&host, SIMBA_OP_GUARD, "crowd-10", "a", 0).owner, "a");
    session_sql(admin, "COMMIT");
    session_close(admin);
    assert_true(host_wait(&host, calls, CROWD));
    for (size_t i = 0; i < CROWD; i++)
        assert_string_equal(calls[i].owner, "a");
}

static void a_row_that_stays_blocked_is_answered_in_time(void **state)
{
    struct session *admin = session_open(&server);
    struct call call;
    int64_t began_ms;

    acquire(&host, "m", "a");
    session_sql(admin, "BEGIN");
    session_sql(admin, "SELECT * FROM simba_mutex WHERE mutex = 'm' FOR UPDATE");
    call = host_call(SIMBA_OP_GUARD, "m", "a", 0);
    call.request.timeout_ms = 500;
    began_ms = test_now_ms();
    host_submit(&host, &call, 1);
    assert_true(host_wait(&host, &call, 1));
    assert_int_equal(call.code, SIMBA_EUNAVAILABLE);
    assert_true(test_now_ms() - began_ms < 3000);
    session_sql(admin, "ROLLBACK");
    session_close(admin);
    assert_string_equal(host_do(&host, SIMBA_OP_GUARD, "m", "a", 0).owner, "a");
}

/* ---- Wake-ups -------------------------------------------------------------------------------- */

#define SOON_MS 800
#define TRIES 5 /* of which one must be as soon: the machine may be slow for a while */

/* Lets a second client wait for the mutex until it is told of the release; returns how long that
 * took. */
static int64_t time_of_notice(const char *url)
{
    struct host other;
    struct call held = acquire(&host, "told", "a");
    int64_t released_ms;

    assert_int_equal(host_open(&other, url), SIMBA_OK);
    other.ops->listen(other.backend, "told", "b", true);
    assert_string_equal(acquire(&other, "told", "b").owner, "a");
    if (dialect_pushes) /* it says so when it has begun to hear */
        assert_true(host_wait_notice(&other, SIMBA_NOTICE_RELEASED, "", NULL));
    host_forget_notices(&other);
    held = host_do(&host, SIMBA_OP_RELEASE, "told", "a", held.revision);
    released_ms = test_now_ms();
    assert_string_equal(held.owner, "");
    assert_true(
        host_wait_notice(&other, SIMBA_NOTICE_RELEASED, "told", dialect_pushes ? "b" : NULL));
    released_ms = test_now_ms() - released_ms;
    held = acquire(&other, "told", "b");
    assert_string_equal(held.owner, "b");
    host_do(&other, SIMBA_OP_RELEASE, "told", "b", held.revision);
    other.ops->listen(other.backend, "told", "b", false);
    assert_true(host_close(&other));
    return released_ms;
}

static void a_release_is_noticed_by_another_client_in_well_under_a_second(void **state)
{
    int64_t took_ms = SOON_MS;

    for (int i = 0; i < TRIES && took_ms >= SOON_MS; i++) {
        took_ms = time_of_notice(server.url);
        print_message("# noticed after %d ms\n", (int)took_ms);
    }
    assert_true(took_ms < SOON_MS);
}

#define ON_STORE(test) cmocka_unit_test_setup_teardown(test, open_host, close_host)

/* ---- Equal ids ------------------------------------------------------------------------------- */

#define TOGETHER 4
#define ROUNDS 200

static const char *const together[TOGETHER] = {"t0", "t1", "t2", "t3"};

static void submit_together(struct host *at, struct call *calls)
{
    for (size_t i = 0; i < TOGETHER; i++)
        calls[i] = host_call(SIMBA_OP_ACQUIRE, together[i], "equal", 0);
    host_submit(at, calls, TOGETHER);
}

/* Each of them owns for a moment, but never with the token of the other. */
static void contenders_with_one_id_have_tokens_of_their_own(void **state)
{
    struct call calls[2][TOGETHER];
    struct host other;

    assert_int_equal(host_open(&other, server.url), SIMBA_OK);
    for (int round = 0; round < ROUNDS; round++) {
        submit_together(&host, calls[0]);
        submit_together(&other, calls[1]);
        assert_true(host_wait(&host, calls[0], TOGETHER));
        assert_true(host_wait(&other, calls[1], TOGETHER));
        for (size_t i = 0; i < TOGETHER; i++) {
            const struct call *a = &calls[0][i];
            const struct call *b = &calls[1][i];

            if (a->code == SIMBA_OK && b->code == SIMBA_OK && a->revision == b->revision)
                fail_msg("round %d: both have the token %llu of %s", round,
                         (unsigned long long)a->revision, together[i]);
        }
    }
    assert_true(host_close(&other));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_STORE(contenders_with_one_id_have_tokens_of_their_own),
        ON_STORE(names_of_all_kinds_are_names),
        ON_STORE(the_longest_id_fits),
        ON_STORE(names_and_ids_that_differ_in_case_are_different),
        ON_STORE(a_list_is_in_the_order_of_bytes),
        ON_STORE(a_space_at_the_end_is_kept_or_refused),
        ON_STORE(what_is_not_utf8_is_refused_as_invalid),
        ON_STORE(a_name_has_as_many_characters_as_the_column_takes),
        ON_STORE(a_wider_column_takes_longer_names),
        ON_STORE(several_questions_about_one_mutex_get_one_answer),
        ON_STORE(an_older_table_works_unchanged),
        ON_STORE(an_id_that_does_not_fit_is_refused_before_it_is_sent),
        ON_STORE(many_names_at_once_work_on_an_older_table),
        ON_STORE(versions_have_64_bits),
        ON_STORE(at_the_last_version_there_is_no_new_term),
        ON_STORE(clients_with_different_leases_keep_to_their_own),
        ON_STORE(no_request_shortens_a_lease_of_its_owner),
        ON_STORE(requests_that_come_together_share_their_commits),
        ON_STORE(several_requests_for_one_mutex_in_a_batch_exclude_each_other),
        ON_STORE(a_blocked_row_delays_no_other),
        ON_STORE(a_row_that_stays_blocked_is_answered_in_time),
        ON_STORE(a_release_is_noticed_by_another_client_in_well_under_a_second),
    };

    return server_run_tests("store", tests);
}
