/*
 * votes.h - what the sentinels of a master have said last, and what a majority of them confirms.
 *
 * Why a majority bounds the time of two owners by one lease: two majorities have a sentinel in
 * common. Say that it has named the old master to client A, which A had asked at `asked`, and the
 * new one to client B:
 *
 *     A          asked --.                        belief ends: asked + lease, at the latest
 *     sentinel            `--> "old"  ...  "new" --.
 *     B                                             `--> may own from here on
 *
 * A sentinel goes from the old master to the new one and not back, unless another fail-over
 * follows, and then the two clients have changed places. So B begins after `asked`, and A ends
 * within a lease of it. That holds in every partition, as long as all clients count the same
 * sentinels: so the number of all of them is the largest that any of them tells, or what the URL
 * names where that is more; and each counts once, by its own id.
 *
 * Knows no connections. All times are on simba_now_ms().
 */
#ifndef SB_REDIS_VOTES_H
#define SB_REDIS_VOTES_H

#include "backend/redis/options.h"

#define SB_REDIS_SENTINELS_MAX 32
#define SB_REDIS_SENTINEL_ID_MAX 41 /* with the NUL */

/* Another sentinel of the same master. */
struct sb_redis_sentinel_peer {
    char id[SB_REDIS_SENTINEL_ID_MAX];
    struct sb_redis_place place;
};

/* What one sentinel answers. With sentinel-quorum=any only the master is asked for. */
struct sb_redis_sentinel_answer {
    char id[SB_REDIS_SENTINEL_ID_MAX]; /* its own */
    struct sb_redis_place master;
    size_t known; /* sentinels of that master, with itself */
    struct sb_redis_sentinel_peer peers[SB_REDIS_SENTINELS_MAX];
    size_t peer_count;
};

struct sb_redis_vote {
    bool used; /* there is a sentinel at this index */
    struct sb_redis_place place;
    char id[SB_REDIS_SENTINEL_ID_MAX]; /* "": not known */
    struct sb_redis_place master;
    int64_t asked_ms; /* when it was asked for that; 0: it has not answered yet */
    size_t known;
};

struct sb_redis_votes {
    bool any; /* sentinel-quorum=any */
    size_t named;
    struct sb_redis_vote votes[SB_REDIS_SENTINELS_MAX]; /* those that the URL names come first */
    struct sb_redis_sentinel_peer peers[SB_REDIS_SENTINELS_MAX];
    int64_t listed_ms[SB_REDIS_SENTINELS_MAX];  /* when a peer was last told of; 0: there is none */
    uint32_t listed_by[SB_REDIS_SENTINELS_MAX]; /* a bit for each sentinel of the URL that did */
};

/* Those of the URL, none of which has answered. */
void sb_redis_votes_init(struct sb_redis_votes *votes, const struct sb_redis_options *options);

/* The sentinel at `index` has answered what it was asked at `asked_ms`. */
void sb_redis_votes_take(struct sb_redis_votes *votes, size_t index,
                         const struct sb_redis_sentinel_answer *answer, int64_t asked_ms);

/* Adds those that at least half of the sentinels of the URL tell of, under the same address, and
 * that have not answered under another one. So one of three that lies cannot win a vote by
 * inventing sentinels. */
void sb_redis_votes_add_peers(struct sb_redis_votes *votes, int64_t now_ms);

/* Whether the sentinel at `index` is one that the URL does not name, that no other sentinel
 * tells of any more and that does not answer. */
bool sb_redis_votes_may_forget(const struct sb_redis_votes *votes, size_t index, int64_t now_ms);
void sb_redis_votes_forget(struct sb_redis_votes *votes, size_t index);

/* How many sentinels there are, and how many must name the same master. */
size_t sb_redis_votes_count(const struct sb_redis_votes *votes);
size_t sb_redis_votes_needed(const struct sb_redis_votes *votes);

/* How many name it, in answers to what they were asked since `since_ms`. */
size_t sb_redis_votes_for(const struct sb_redis_votes *votes, const struct sb_redis_place *master,
                          int64_t since_ms);

/* The instant that the confirmation of a master counts from: each sentinel of a majority was asked
 * then or later, and has named it. 0: there is none. */
int64_t sb_redis_votes_confirmed_ms(const struct sb_redis_votes *votes,
                                    const struct sb_redis_place *master);

/* The master that a majority names; with `any`, that most of those name that were asked since
 * `since_ms`, and `current` rather than another. NULL: none. */
const struct sb_redis_place *sb_redis_votes_master(const struct sb_redis_votes *votes,
                                                   const struct sb_redis_place *current,
                                                   int64_t since_ms);

#endif
