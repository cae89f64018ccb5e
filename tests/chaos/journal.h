/*
 * journal.h - what a process under test writes down: one line for each thing that it knows, with
 * the instant on the boot clock, which all processes of a host share. Lines are appended whole, so
 * that a process which is killed leaves nothing half told, and they need no memory.
 */
#ifndef SIMBA_CHAOS_JOURNAL_H
#define SIMBA_CHAOS_JOURNAL_H

#include <stdint.h>

/* Creates the file, to be appended to by this process and those that it forks. Ends the process on
 * failure. */
void journal_open(const char *path);

/* The clock itself, past any library that pretends another time. */
int64_t journal_now_ns(void);

/* Writes "NANOSECONDS event ..." with the instant of now, or with another one. */
void journal_write(const char *format, ...) __attribute__((format(printf, 1, 2)));
void journal_write_at(int64_t at_ns, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
