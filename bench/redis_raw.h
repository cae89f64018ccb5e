/*
 * redis_raw.h - Redis as a blocking hiredis client uses it: what the library is measured against.
 *
 * Two things are compared with: round trips of a trivial script, and the library's own scripts called in the
 * library's own order. The first is what no client can beat, the second what its protocol costs by itself.
 */
#ifndef SIMBA_BENCH_REDIS_RAW_H
#define SIMBA_BENCH_REDIS_RAW_H

#include <hiredis/hiredis.h>

/* Ends the program, and the server with it. */
void end(const char *why);

double now_us(void);
void pause_ms(long ms);

/* A server of our own. */
void server_start(void);
void server_stop(void);
const char *server_url(void);
redisContext *server_connect(void);

/* Deletes all that is on it. */
void server_forget(void);

/* Sends a command; anything but a good answer ends the program. */
void ask(redisContext *raw, const char *format, ...);

/* Learns the names of the library's scripts by listening to it, and loads a trivial one. */
void scripts_learn(redisContext *raw);

void trivial_call(redisContext *raw);

/* A contender by hand. Acquire returns the token, or 0 when another one owns. */
long long script_acquire(redisContext *raw, const char *mutex, const char *id);
void script_release(redisContext *raw, const char *mutex, const char *id, long long token);

/* How long both take. */
double script_cycle_us(redisContext *raw, const char *mutex, const char *id);

/* How long the least that a hand-over needs takes after a rest: PUBLISH to a subscriber and a call of the
 * trivial script; and a release and the acquire of the waiter that it wakes. */
void handover_open(void);
double handover_trivial_us(redisContext *raw);
double handover_script_us(redisContext *raw);
void handover_close(redisContext *raw);

/* How many mutexes one client holds and what they cost: one line of a table for each number of them. */
void measure_many(const int *counts, size_t size);

/* As rested as a waiter is when the owner releases. */
void rest(void);

#endif
