/*
 * mysql_switch_test.c - a server that becomes read-only while clients are connected, as the old
 * primary of a planned switch-over does. It grants and renews nothing from then on, also for a user
 * who may write there.
 */
#include "server.h"

#include "backend/host.h"
#include "lib/locker.h"
#include "redis/journal.h"

#include <simba/simba.h>
#include <simba/sql.h>

#define BATCH_MAX 2

static struct server replica;

/* The first user may write to a read-only server. */
static const char *const users[] = {"root", "plain:secret"};

/* The replica takes over what follows the set-up, statement by statement. */
static int start_servers(void **state)
{
    char position[128];
    struct host host;

    server.logs_statements = true;
    server_create(&server, false);
    server_create(&replica, false);
    snprintf(position, sizeof position, "%s", server_sql(&server, "SELECT @@gtid_binlog_pos"));
    server_sql(
        &replica,
        "SET GLOBAL gtid_slave_pos = '%s'; SET GLOBAL read_only = 1;"
        "CHANGE MASTER TO master_host = '127.0.0.1', master_port = %d, master_user = 'admin',"
        " master_use_gtid = slave_pos; START SLAVE",
        position, server.port);
    if (host_open(&host, server.url) != SIMBA_OK || !host_close(&host))
        return -1;
    server_sql(&server, "%s", dialect_create_user);
    server_sql(&server, "%s", dialect_grant_use);
    return 0;
}

static int stop_servers(void **state)
{
    server_destroy(&replica);
    return server_teardown(state);
}

static int make_writable(void **state)
{
    server_sql(&server, "%s", dialect_read_write);
    return 0;
}

/* ---- Requests of a connected client ---------------------------------------------------------- */

struct change {
    enum simba_op op;
    const char *mutex;
};

/* Alone, and together with others of its kind or of another. */
static const struct change batches[][BATCH_MAX] = {
    {{SIMBA_OP_GUARD, "m"}},
    {{SIMBA_OP_ACQUIRE, "m"}},
    {{SIMBA_OP_ACQUIRE, "free"}},
    {{SIMBA_OP_ACQUIRE, "new"}},
    {{SIMBA_OP_RELEASE, "m"}},
    {{SIMBA_OP_GUARD, "m"}, {SIMBA_OP_GUARD, "n"}},
    {{SIMBA_OP_ACQUIRE, "free"}, {SIMBA_OP_ACQUIRE, "m"}},
    {{SIMBA_OP_ACQUIRE, "new"}, {SIMBA_OP_ACQUIRE, "newer"}},
    {{SIMBA_OP_RELEASE, "m"}, {SIMBA_OP_RELEASE, "n"}},
    {{SIMBA_OP_GUARD, "m"}, {SIMBA_OP_ACQUIRE, "free"}},
};

/* All that is in the table. */
static const char *rows(void)
{
    return server_sql(&server, "SELECT group_concat(mutex, ' ', owner_id, ' ', version, ' ',"
                               " transition_at ORDER BY mutex) FROM simba_mutex");
}

/* "m" and "n" are owned, and "free" was released last, at a version that the connection knows. */
static void open_with_rows(struct host *host, const char *user, uint64_t ret_revisions[BATCH_MAX])
{
    struct call call;

    server_sql(&server, "DELETE FROM simba_mutex");
    assert_int_equal(host_open(host, server_url(&server, user, "")), SIMBA_OK);
    ret_revisions[0] = host_do(host, SIMBA_OP_ACQUIRE, "m", "a", 0).revision;
    ret_revisions[1] = host_do(host, SIMBA_OP_ACQUIRE, "n", "a", 0).revision;
    call = host_do(host, SIMBA_OP_ACQUIRE, "free", "a", 0);
    assert_string_equal(call.owner, "a");
    assert_int_equal(host_do(host, SIMBA_OP_RELEASE, "free", "a", call.revision).code, SIMBA_OK);
}

static void assert_refused(const char *user, const struct change batch[BATCH_MAX])
{
    struct call calls[BATCH_MAX];
    uint64_t revisions[BATCH_MAX];
    char before[512];
    struct host host;
    size_t count = 0;

    open_with_rows(&host, user, revisions);
    server_sql(&server, "%s", dialect_read_only);
    snprintf(before, sizeof before, "%s", rows());
    for (; count < BATCH_MAX && batch[count].mutex != NULL; count++)
        calls[count] = host_call(batch[count].op, batch[count].mutex, "a",
                                 batch[count].op == SIMBA_OP_ACQUIRE ? 0 : revisions[count]);
    host_submit(&host, calls, count);
    assert_true(host_wait(&host, calls, count));
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(calls[i].code, SIMBA_ESTORE);
        assert_non_null(strstr(calls[i].error.text, "read-only"));
    }
    assert_string_equal(rows(), before);
    assert_string_equal(host_do(&host, SIMBA_OP_READ, "m", NULL, 0).owner, "a");
    assert_true(host_close(&host));
    server_sql(&server, "%s", dialect_read_write);
}

static void no_request_of_a_connected_client_changes_anything(void **state)
{
    for (size_t u = 0; u < TEST_COUNT(users); u++)
        for (size_t i = 0; i < TEST_COUNT(batches); i++)
            assert_refused(users[u], batches[i]);
}

static bool renews(void *user)
{
    return host_do(user, SIMBA_OP_GUARD, "m", "a", 0).code == SIMBA_OK;
}

/* The server comes back, as after a switch-over that was called off. */
static void a_client_goes_on_when_it_may_write_again(void **state)
{
    uint64_t revisions[BATCH_MAX];
    struct host host;

    open_with_rows(&host, users[0], revisions);
    server_sql(&server, "%s", dialect_read_only);
    assert_false(renews(&host));
    server_sql(&server, "%s", dialect_read_write);
    assert_true(test_wait(renews, &host));
    assert_true(host_close(&host));
}

static void nor_do_rows_change_by_hand(void **state)
{
    simba_repository *repository = NULL;
    struct simba_record record;
    uint64_t revisions[BATCH_MAX];
    char before[512];
    struct host host;
    bool done = false;

    open_with_rows(&host, users[0], revisions);
    assert_true(host_close(&host));
    for (int i = 0; i < 5; i++) {
        assert_int_equal(simba_repository_open(server.url, &repository, NULL), SIMBA_OK);
        assert_int_equal(simba_repository_get_owner(repository, "m", &record, NULL), SIMBA_OK);
        server_sql(&server, "%s", dialect_read_only);
        snprintf(before, sizeof before, "%s", rows());
        switch (i) {
        case 0:
            assert_int_equal(
                simba_repository_acquire(repository, "free", "b", 1000, 0, &done, NULL),
                SIMBA_ESTORE);
            break;
        case 1:
            assert_int_equal(simba_repository_acquire_and_get_owner(repository, "free", "b", 1000,
                                                                    0, &done, &record, NULL),
                             SIMBA_ESTORE);
            break;
        case 2:
            assert_int_equal(simba_repository_release(repository, "m", "a", &done, NULL),
                             SIMBA_ESTORE);
            break;
        case 3:
            assert_int_equal(simba_repository_init_mutex(repository, "new", NULL), SIMBA_ESTORE);
            break;
        default:
            assert_int_equal(simba_repository_try_init_mutex(repository, "new", &done, NULL),
                             SIMBA_ESTORE);
        }
        assert_string_equal(rows(), before);
        assert_int_equal(simba_repository_get_owner(repository, "m", &record, NULL), SIMBA_OK);
        simba_repository_close(repository);
        server_sql(&server, "%s", dialect_read_write);
    }
}

/* ---- The switch-over ------------------------------------------------------------------------- */

struct contender {
    simba_client *client;
    simba_locker *locker;
};

static void contender_open(struct contender *contender, const struct server *s,
                           const struct simba_client_options *options)
{
    const char *url = server_url(s, dialect_admin, "ttl=2s&transition=1s");

    assert_int_equal(simba_client_open(url, options, &contender->client, NULL), SIMBA_OK);
    assert_int_equal(
        test_locker_create(contender->client, "leader", NULL, &contender->locker, NULL), SIMBA_OK);
}

static void contender_close(struct contender *contender)
{
    simba_locker_close(contender->locker);
    assert_int_equal(simba_client_close(contender->client, NULL), SIMBA_OK);
}

static int64_t version_on(const struct server *s)
{
    return server_number(s, "SELECT version FROM simba_mutex WHERE mutex = 'leader'");
}

static bool has_renewed(void *user)
{
    return version_on(&server) > *(const int64_t *)user;
}

/* What the old primary has granted until it became read-only is on the new one when that takes
 * over, and nothing comes behind. */
static void after_a_switch_over_there_is_one_owner(void **state)
{
    struct contender old;
    struct contender new;
    struct journal journal;
    struct simba_client_options options;
    char position[128];
    int64_t version;

    journal_init(&journal);
    options = journal_options(&journal);
    contender_open(&old, &server, &options);
    assert_int_equal(simba_locker_acquire(old.locker, NULL), SIMBA_OK);
    version = version_on(&server);
    assert_true(test_wait(has_renewed, &version));
    server_sql(&server, "%s", dialect_read_only);
    version = version_on(&server);
    snprintf(position, sizeof position, "%s", server_sql(&server, "SELECT @@gtid_binlog_pos"));
    assert_string_equal(server_sql(&replica, "SELECT master_gtid_wait('%s', 30)", position), "0");
    assert_int_equal(version_on(&replica), version);
    server_sql(&replica, "STOP SLAVE; SET GLOBAL read_only = 0");
    contender_open(&new, &replica, NULL);
    assert_int_equal(simba_locker_acquire(new.locker, NULL), SIMBA_OK);
    assert_false(simba_locker_is_held(old.locker));
    assert_int_equal(version_on(&server), version);
    assert_true(journal_count(&journal, SIMBA_LOG_WARN, "read-only") > 0);
    contender_close(&new);
    make_writable(NULL); /* so that the stop can ask for what it has left */
    contender_close(&old);
    journal_free(&journal);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(no_request_of_a_connected_client_changes_anything, make_writable),
        cmocka_unit_test_teardown(a_client_goes_on_when_it_may_write_again, make_writable),
        cmocka_unit_test_teardown(nor_do_rows_change_by_hand, make_writable),
        cmocka_unit_test_teardown(after_a_switch_over_there_is_one_owner, make_writable),
    };

    if (!server_is_installed())
        return 77;
    return cmocka_run_group_tests_name("switch", tests, start_servers, stop_servers);
}
