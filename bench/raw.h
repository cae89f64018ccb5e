/*
 * raw.h - a database as its own client library uses it: what the library is measured against.
 */
#ifndef SIMBA_BENCH_RAW_H
#define SIMBA_BENCH_RAW_H

struct raw;

/* NULL: this store cannot be spoken to directly. The table must be there. */
struct raw *raw_open(const char *url);
void raw_close(struct raw *raw);

/* One UPDATE of one row by a prepared statement, committed. Ends the program when it fails. */
void raw_update(struct raw *raw);

/* How long the least that a hand-over needs takes, and what that is. */
double raw_handover_us(struct raw *raw);
const char *raw_handover_name(const struct raw *raw);

/* The server's counters. */
long long raw_commits(struct raw *raw);
long long raw_connections(struct raw *raw);

#endif
