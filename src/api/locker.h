/*
 * locker.h - what is behind a simba_locker: one mutex, or several as one.
 */
#ifndef SB_API_LOCKER_H
#define SB_API_LOCKER_H

#include "api/handover.h"
#include "core/group.h"

/* What locker.c asks each kind for. All are given a locker that is pinned, in its own process where
 * the answer is a code. */
struct sb_locker_ops {
    void (*unpin)(struct sb_locker *locker);
    bool (*begin_close)(struct sb_locker *locker);
    int (*acquire)(struct sb_locker *locker, int64_t timeout_ms, bool once,
                   struct simba_error *error);
    void (*cancel)(struct sb_locker *locker);
    int (*release)(struct sb_locker *locker, struct simba_error *error);
    int (*detach)(struct sb_locker *locker, struct simba_error *error);
    void (*close)(struct sb_locker *locker);
    void (*owner)(struct sb_locker *locker, struct simba_owner *ret_owner);

    /* Without a lock. */
    bool (*is_held)(const struct sb_locker *locker);
    uint64_t (*fence)(const struct sb_locker *locker, const char *mutex); /* NULL: the first */
    int64_t (*deadline_ms)(const struct sb_locker *locker);
    int64_t (*window_ms)(const struct sb_locker *locker);
    int64_t (*place)(const struct sb_locker *locker);
    int (*slot)(const struct sb_locker *locker);
    bool (*is_asked)(struct sb_locker *locker, struct simba_handover *ret_request);
    const char *(*id)(const struct sb_locker *locker);
    const char *(*mutex)(const struct sb_locker *locker);
};

struct sb_locker {
    const struct sb_locker_ops *ops;
    struct sb_engine *engine;
};

/* ---- mutex_locker.c: one mutex, which may be a part of a group ------------------------------- */

struct sb_mutex_locker;

/* The group that it is a part of. Its thread decides when to compete, and waits for all parts. */
struct sb_mutex_locker_group {
    void (*changed)(void *group); /* on the loop thread, after every step */
    void (*gone)(void *group);    /* nothing of the part calls the group any more */
    void *group;
    size_t *party; /* as of a service; valid until then */
};

int sb_mutex_locker_create(struct sb_client *client, const struct simba_locker_options *options,
                           const struct sb_mutex_locker_group *group,
                           struct sb_mutex_locker **ret_locker, struct simba_error *error);
void sb_mutex_locker_close(struct sb_mutex_locker *locker);
struct sb_service *sb_mutex_locker_service(const struct sb_mutex_locker *locker);
bool sb_mutex_locker_is_asked(const struct sb_mutex_locker *locker,
                              struct simba_handover *ret_request);
void sb_mutex_locker_owner(struct sb_mutex_locker *locker, struct simba_owner *ret_owner);

/* For the thread of the group. Begin: only what looks idle. Look: *ret_code is why it will not be
 * acquired, SIMBA_OK where it may be. Take: false where it is not believed any more. Withdraw ends
 * the contest or the term, and does not wait for that. */
int sb_mutex_locker_begin(struct sb_mutex_locker *locker, bool once, struct simba_error *error);
enum sb_part_sight sb_mutex_locker_look(struct sb_mutex_locker *locker, int *ret_code);
bool sb_mutex_locker_take(struct sb_mutex_locker *locker);
void sb_mutex_locker_withdraw(struct sb_mutex_locker *locker);

/* A withdrawal that waits for its end, not longer than until then. */
void sb_mutex_locker_give_back(struct sb_mutex_locker *locker, int64_t until_ms);
int sb_mutex_locker_explain(struct sb_mutex_locker *locker, int code, int64_t timeout_ms,
                            struct simba_error *error);

/* As simba_locker_release. */
int sb_mutex_locker_release(struct sb_mutex_locker *locker, struct simba_error *error);

/* How much longer than its time-out an acquire may take to leave the store clean behind it. */
#define SB_LOCKER_CLEAN_UP_MS 200

#endif
