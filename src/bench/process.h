/*
 * process.h - processes that take part in a question, and the memory that they share.
 *
 * They are forked before this process has opened a client, and die with it.
 */
#ifndef BENCH_PROCESS_H
#define BENCH_PROCESS_H

#include <simba/simba.h>

#include <semaphore.h>
#include <sys/types.h>

struct bench_process {
    pid_t pid;                 /* 0: none */
    struct simba_error *error; /* shared: what it ended with */
};

/* Zeroed memory that processes started from now on share. Freed with bench_shared_free. */
int bench_shared_create(size_t size, void **ret_memory, struct simba_error *error);
void bench_shared_free(void *memory, size_t size); /* takes NULL */

/* Starts run(argument) in a process of its own. */
int bench_process_start(struct bench_process *process,
                        int (*run)(void *argument, struct simba_error *error), void *argument,
                        struct simba_error *error);

/* Waits for its end and returns what it ended with. SIMBA_ECONTENDED: a signal to this process came
 * first. */
int bench_process_wait(struct bench_process *process, struct simba_error *error);

/* Fails when it has ended, by itself or otherwise, with what it ended with. */
int bench_process_check(struct bench_process *process, struct simba_error *error);

/* Waits until one of the processes has posted. Fails when one ends, whichever it is, and after a
 * minute. */
int bench_process_await(struct bench_process *processes, int count, sem_t *posted,
                        struct simba_error *error);

/* kill -9, where it runs. */
void bench_process_kill(struct bench_process *process);

#endif
