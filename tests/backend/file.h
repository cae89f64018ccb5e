/*
 * file.h - a database file in a folder of its own, and SQL on it past the library.
 */
#ifndef SIMBA_TEST_BACKEND_FILE_H
#define SIMBA_TEST_BACKEND_FILE_H

#include "test.h"

#include <sqlite3.h>

struct file {
    char folder[TEST_PATH_MAX];
    char path[TEST_PATH_MAX + 16];
    char url[TEST_PATH_MAX + 32];
};

void file_create(struct file *file);
void file_remove(struct file *file);

/* cmocka's setup and teardown around a struct file. */
int file_setup(void **state);
int file_teardown(void **state);

/* A connection of its own; NULL when it cannot be had. */
sqlite3 *file_open(const struct file *file);

/* Runs SQL on a connection of its own; returns whether it went well. */
bool file_sql(const struct file *file, const char *sql);

/* The first column of the first row; -1 when there is none. */
int64_t file_number(const struct file *file, const char *sql);

/* How many transactions the write-ahead log holds. */
int file_commits(const struct file *file);

/* Makes the records those of clients that told nothing of their lives: leases end by the clock. */
bool file_forget_lives(const struct file *file);

/* Removes one of the file's parts: "", "-wal", "-shm", "-wake" or "-life". */
void file_unlink(const struct file *file, const char *suffix);

/* The first three, as an administrator does who begins anew; who has the files open goes on with
 * them. */
void file_unlink_store(const struct file *file);

/* Waits until the date of the file's folder lies so far behind that another change would show;
 * returns whether it does. */
bool file_settle(struct file *file);

/* Forks and runs a function in the new process, as another user where `other_user` says so and we
 * may; returns the process id. The function's result is the exit code. No threads may be
 * running. */
pid_t file_fork(int (*function)(struct file *file), struct file *file, bool other_user);

/* Gives the folder to that other user, where we are root. */
bool file_give_folder(const struct file *file);

/* Waits for the process; returns its exit code, -1 when it was killed. */
int file_wait(pid_t pid);

#endif
