/*
 * test.h - what the tests of all suites share: cmocka with what it needs, a bounded wait for a
 * condition, and temporary folders.
 */
#ifndef SIMBA_TEST_H
#define SIMBA_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TEST_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* How long a test waits for what should happen soon. Long, because machines can be slow. */
#define TEST_PATIENCE_MS 20000

static inline int64_t test_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static inline void test_pause_ms(int64_t ms)
{
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&pause, NULL);
}

/* Waits until `condition(user)` is true; returns whether it became so within `patience_ms`. */
static inline bool test_wait_within(int64_t patience_ms, bool (*condition)(void *user), void *user)
{
    int64_t end = test_now_ms() + patience_ms;

    while (!condition(user)) {
        if (test_now_ms() >= end)
            return false;
        test_pause_ms(1);
    }
    return true;
}

static inline bool test_wait(bool (*condition)(void *user), void *user)
{
    return test_wait_within(TEST_PATIENCE_MS, condition, user);
}

/* Creates an empty folder; `ret_path` needs TEST_PATH_MAX bytes. */
#define TEST_PATH_MAX 512

static inline void test_folder_create(char ret_path[TEST_PATH_MAX])
{
    const char *parent = getenv("TMPDIR");

    snprintf(ret_path, TEST_PATH_MAX, "%s/simba-test-XXXXXX", parent != NULL ? parent : "/tmp");
    if (mkdtemp(ret_path) == NULL)
        fail_msg("cannot create a folder like %s", ret_path);
}

static inline int test_remove_entry(const char *path, const struct stat *status, int type,
                                    struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    return remove(path);
}

/* Removes a folder with all that is in it. */
static inline void test_folder_remove(const char *path)
{
    if (nftw(path, test_remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0)
        fail_msg("cannot remove %s", path);
}

/* Setup and teardown of a group whose cases write files by their plain names: in a folder that
 * nobody else may write, wherever the tests were built. */
static inline int test_enter_folder(void **state)
{
    static char folder[TEST_PATH_MAX];

    test_folder_create(folder);
    *state = folder;
    return chdir(folder);
}

static inline int test_leave_folder(void **state)
{
    int code = chdir("/");

    test_folder_remove(*state);
    return code;
}

#endif
