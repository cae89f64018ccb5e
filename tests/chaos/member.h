/*
 * member.h - one contender, locker or scheduler of a worker, and how what it believes is written
 * down. A locker may be one of several mutexes: then its belief is one for each of them.
 *
 * A thread of the worker's asks every member every few milliseconds. What it writes down is
 * certain: `believe` has an instant after the question and the deadline that was answered, `doubt`
 * an instant before the question. A member that is about to stop says `yield` first, and is not
 * asked until it may own again: its belief ends somewhere inside the stop, and only its beginning
 * is certain.
 */
#ifndef SIMBA_CHAOS_MEMBER_H
#define SIMBA_CHAOS_MEMBER_H

#include "vault.h"

#include <simba/simba.h>

#include <pthread.h>
#include <stdatomic.h>

#define MEMBER_NAME_MAX 64
#define OWNED_MAX 3 /* mutexes of one member */

struct member;

struct owned {
    char mutex[MEMBER_NAME_MAX];
    uint64_t fence; /* 0: it says that it does not own this one */
};

/* What differs between the kinds. */
struct member_kind {
    const char *letter;
    const char *mutex;
    void *(*run)(void *member); /* the thread of it: lives until `*stopping` */
    bool (*is_owner)(const struct member *member);
    uint64_t (*fence)(const struct member *member);
    int64_t (*deadline_ms)(const struct member *member); /* NULL: it cannot be asked */
    int (*owned)(const struct member *member, struct owned ret_owned[OWNED_MAX]); /* how many;
                                                             NULL: `mutex`, with that token */
};

extern const struct member_kind member_contender;
extern const struct member_kind member_locker;
extern const struct member_kind member_scheduler;
extern const struct member_kind member_slot; /* of a semaphore */
extern const struct member_kind member_set;

struct belief {
    struct owned of;
    bool believed;
    int64_t told_deadline_ms;
    int64_t told_at_ns;
};

struct member {
    const struct member_kind *kind;
    simba_client *client;
    simba_contender *contender; /* one of the three is set */
    simba_locker *locker;
    simba_scheduler *scheduler;
    const atomic_bool *stopping; /* the worker's */
    char who[MEMBER_NAME_MAX];
    const char *id; /* NULL: the library makes one */
    struct vault vault;
    unsigned seed;
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows */
    bool yielded;
    struct belief beliefs[OWNED_MAX];
};

/* Starts its thread, which creates what the kind says. `argv` is that of the worker. */
void member_start(struct member *member, const struct member_kind *kind, simba_client *client,
                  char **argv, const atomic_bool *stopping);

/* When the worker is stopping: ends a wait without limit, then the thread. */
void member_join(struct member *member);

/* Asks it once, and writes down what is new. */
void member_sample(struct member *member);

void member_yield(struct member *member);   /* says that it is about to give the mutex back */
void member_contend(struct member *member); /* it may own from now on */

/* Uses the fenced resource, when it owns. */
void member_use(struct member *member);

/* A number from [least, most), the same ones for the same name. */
int member_draw(struct member *member, int least, int most);

void member_pause_ms(int ms);

#endif
