/*
 * machine.h - what the system tells of time and of this process.
 */
#ifndef BENCH_MACHINE_H
#define BENCH_MACHINE_H

#include <stdint.h>

/* Microseconds on the clock of simba_now_ms, which all processes of the host share. */
double bench_now_us(void);

void bench_sleep_ms(int64_t ms);

/* Sleeps for `ms`, or up to twice as long: a store that is asked at regular intervals would
 * otherwise be met at always the same moment of one. */
void bench_rest_ms(int64_t ms);

/* Processor time in microseconds: of the whole process, and of this thread alone. */
double bench_process_cpu_us(void);
double bench_thread_cpu_us(void);

/* A field of /proc/self/status, such as "Threads:" or "VmRSS:"; 0 where there is none. */
int64_t bench_status_field(const char *name);

/* The sockets that this process has open. */
int bench_socket_count(void);

#endif
