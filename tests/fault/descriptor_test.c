/*
 * descriptor_test.c - a process that has no descriptor left, or few: a client says that it cannot
 * be opened and leaves nothing behind; one that is open goes on.
 */
#include "census.h"
#include "heap.h"
#include "lib/locker.h"
#include "test.h"

#include <simba/backend.h>

#include <sys/resource.h>
#include <sys/wait.h>

#define SPARE_MAX 64 /* descriptors that are more than enough for any client */

static struct shortage none = {.piece = "allocation"};

/* ---- The limit ------------------------------------------------------------------------------- */

#define LIMIT 256

static struct rlimit normal_limit;
static int fillers[LIMIT];
static size_t fillers_count;

/* Leaves `count` descriptors to be had. The limit is on the numbers of descriptors, and the process
 * may have been born with gaps in them, so all are filled and `count` given back. */
static void spare(size_t count)
{
    struct rlimit limit = {LIMIT, normal_limit.rlim_max};
    int fd;

    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    while ((fd = dup(STDIN_FILENO)) >= 0)
        fillers[fillers_count++] = fd;
    assert_true(fillers_count > count);
    while (count-- > 0)
        close(fillers[--fillers_count]);
}

static void spare_normally(void)
{
    while (fillers_count > 0)
        close(fillers[--fillers_count]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &normal_limit), 0);
}

/* ---- Stores ---------------------------------------------------------------------------------- */

struct store {
    const char *scheme;
    char folder[TEST_PATH_MAX];
    char url[TEST_PATH_MAX + 64];
};

static int set_up(void **state)
{
    static struct store store;

    store.scheme = *state;
    test_folder_create(store.folder);
    snprintf(store.url, sizeof store.url, "%s:%s/db?ttl=10s&transition=2s", store.scheme,
             store.folder);
    *state = &store;
    return 0;
}

static int tear_down(void **state)
{
    struct store *store = *state;

    test_folder_remove(store->folder);
    *state = (void *)store->scheme;
    return 0;
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* Whether the client could be opened with so many spare descriptors. If not, it must say why. */
static bool can_open(const struct store *store, size_t count)
{
    simba_client *client = NULL;
    struct simba_error error = {0};
    int code;

    spare(count);
    code = simba_client_open(store->url, NULL, &client, &error);
    spare_normally();
    if (code == SIMBA_OK)
        assert_int_equal(simba_client_close(client, NULL), SIMBA_OK);
    else if (code != SIMBA_ENOMEM || error.code != code || error.text[0] == '\0')
        fail_msg("with %zu descriptors: %d, '%s'", count, code, error.text);
    return code == SIMBA_OK;
}

/* The first loop of a process needs descriptors that later ones share, hence the children. */
static void the_first_client_of_a_process_survives(void **state)
{
    const struct store *store = *state;

    for (size_t count = 0; count < SPARE_MAX; count++) {
        pid_t pid = fork();
        int status = 0;

        if (pid == 0) {
            can_open(store, count);
            _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            fail_msg("the process ends with status %d, with %zu descriptors", status, count);
    }
}

static void a_client_that_cannot_be_opened_leaves_nothing(void **state)
{
    const struct store *store = *state;
    struct census before;
    size_t count = 0;
    bool opened;

    assert_true(can_open(store, SPARE_MAX)); /* after this the process has what stays */
    before = census_take();
    do {
        opened = can_open(store, count++);
        census_check(&before, "opening without descriptors");
    } while (!opened && count < SPARE_MAX);
    assert_true(opened);
    assert_true(count > 1);
}

/* ---- An open client -------------------------------------------------------------------------- */

static void take_turns(simba_locker *first, simba_locker *second)
{
    struct simba_error error = {0};

    assert_int_equal(simba_locker_try_acquire(first, &error), SIMBA_OK);
    assert_int_equal(simba_locker_try_acquire(second, &error), SIMBA_ECONTENDED);
    assert_int_equal(simba_locker_acquire_timeout(second, 5, &error), SIMBA_ETIMEDOUT);
    assert_int_equal(simba_locker_release(first, &error), SIMBA_OK);
    assert_int_equal(simba_locker_acquire_timeout(second, TEST_PATIENCE_MS, &error), SIMBA_OK);
    assert_int_equal(simba_locker_release(second, &error), SIMBA_OK);
}

static void an_open_client_needs_no_more(void **state)
{
    const struct store *store = *state;
    struct simba_mutex_status *list = NULL;
    struct census before = census_take();
    simba_client *client = NULL;
    simba_locker *first = NULL;
    simba_locker *second = NULL;
    size_t count = 0;

    assert_int_equal(simba_client_open(store->url, NULL, &client, NULL), SIMBA_OK);
    spare(0);
    assert_int_equal(test_locker_create(client, "m", NULL, &first, NULL), SIMBA_OK);
    assert_int_equal(test_locker_create(client, "m", NULL, &second, NULL), SIMBA_OK);
    take_turns(first, second);
    take_turns(second, first);
    assert_int_equal(simba_client_status(client, NULL, TEST_PATIENCE_MS, &list, &count, NULL),
                     SIMBA_OK);
    assert_int_equal(count, 1);
    spare_normally();
    simba_free(list);
    simba_locker_close(first);
    simba_locker_close(second);
    assert_int_equal(simba_client_close(client, NULL), SIMBA_OK);
    census_check(&before, "working without descriptors");
}

/* ---- All of them ----------------------------------------------------------------------------- */

#define ON(store, test)                                                                            \
    {                                                                                              \
#test " on " store, test, set_up, tear_down, store                                         \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON("memory", the_first_client_of_a_process_survives),
        ON("sqlite", the_first_client_of_a_process_survives),
        ON("memory", a_client_that_cannot_be_opened_leaves_nothing),
        ON("sqlite", a_client_that_cannot_be_opened_leaves_nothing),
        ON("memory", an_open_client_needs_no_more),
        ON("sqlite", an_open_client_needs_no_more),
    };

    if (heap_install(&none) != SIMBA_OK || getrlimit(RLIMIT_NOFILE, &normal_limit) != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
