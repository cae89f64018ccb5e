/*
 * stop.h - stops another process where that holds nobody else up.
 */
#ifndef SIMBA_TEST_STOP_H
#define SIMBA_TEST_STOP_H

#include <stdbool.h>
#include <sys/types.h>

/* Stops a child of this process (SIGSTOP), and returns when all its threads stand still, at a
 * moment when it is not writing to an SQLite file: a process stopped there keeps the file from all
 * others until it goes on. Returns whether such a moment came. */
bool test_stop_child(pid_t pid);

#endif
