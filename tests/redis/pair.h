/*
 * pair.h - two clients of one server: that of an owner, "a", and that of a waiter, "b", of the mutex "m".
 *
 * Each has a loop of its own, which stands still unless a test turns it: so a message can be kept waiting. A step that
 * fails fails the test.
 */
#ifndef SIMBA_TEST_REDIS_PAIR_H
#define SIMBA_TEST_REDIS_PAIR_H

#include "backend/host.h"
#include "server.h"

#define ACQUIRE SIMBA_OP_ACQUIRE
#define GUARD SIMBA_OP_GUARD
#define RELEASE SIMBA_OP_RELEASE
#define READ SIMBA_OP_READ

struct pair {
    struct server server; /* started and stopped by whoever runs the tests */
    struct host owner;
    struct host waiter;
    redisContext *ear; /* a subscriber that is not ours */
};

extern struct pair pair;

/* Set-up and teardown of a test. */
int pair_begin(void **state);
int pair_end(void **state);

/* Makes a request and waits for its answer, a success. */
struct call pair_ask(struct host *host, enum simba_op op, const char *id, uint64_t revision);
struct call pair_ask_for(struct host *host, enum simba_op op, const char *id, uint64_t revision,
                         int64_t ttl_ms);

/* "a" owns, and "b" has lost to it and listens; then what the server has counted begins at 0. What is answered is how
 * "a" acquired. */
struct call pair_own_and_have_b_wait(void);

/* Another contender of the waiter's client does the same as "b". */
void pair_wait_as(const char *id);

/* After that "a" has released: "b" is the owner on the store, and has the message. */
struct call pair_hand_over(void);

/* The waiter's client has heard what was said to "b", or all that was said before. */
void pair_await_message(void);
void pair_hear_all(void);

/* "b" listens no more. */
void pair_stop_listening(void);

/* Ends a connection of the waiter's client: "normal" or "pubsub". */
void pair_kill_connection(const char *type);

/* The ear hears what "b" is told; and the next that it has heard. */
void pair_hear_b(void);
void pair_overhear(char *text, size_t size);

/* Lets time pass while both loops stand still. */
void pair_let_pass(int64_t ms);

/* What the server tells: the calls of a command and of all scripts, the token of the mutex, its owner. */
int pair_calls(const char *command);
int pair_script_calls(void);
uint64_t pair_fence(void);
void pair_assert_owner(const char *id);

/* Conditions to wait for: the mutex is free, a channel (`user`) has a subscriber, it is so late (an int64_t). */
bool pair_is_free(void *user);
bool pair_has_subscriber(void *user);
bool pair_is_past(void *user);

#endif
