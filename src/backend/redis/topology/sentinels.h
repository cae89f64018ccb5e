/*
 * sentinels.h - which server is the master, by what the sentinels say: queries to them
 * (sentinel_query.c), the counting of their answers (votes.c), and the watch over them while a
 * client lives (sentinels.c).
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
 * All times are on simba_now_ms().
 */
#ifndef SB_REDIS_SENTINELS_H
#define SB_REDIS_SENTINELS_H

#include "backend/redis/options.h"
#include "backend/redis/wire/connection.h"
#include "backend/redis/wire/endpoint.h"

/* ---- Votes ----------------------------------------------------------------------------------- */

#define SB_REDIS_SENTINELS_MAX 32
#define SB_REDIS_SENTINEL_ID_MAX 41 /* with the NUL */

/* Another sentinel of the same master. */
struct sb_redis_sentinel_peer {
    char id[SB_REDIS_SENTINEL_ID_MAX];
    struct sb_wire_place place;
};

/* What one sentinel answers. With sentinel-quorum=any only the master is asked for. */
struct sb_redis_sentinel_answer {
    char id[SB_REDIS_SENTINEL_ID_MAX]; /* its own */
    struct sb_wire_place master;
    size_t known; /* sentinels of that master, with itself */
    struct sb_redis_sentinel_peer peers[SB_REDIS_SENTINELS_MAX];
    size_t peer_count;
};

struct sb_redis_vote {
    bool used; /* there is a sentinel at this index */
    struct sb_wire_place place;
    char id[SB_REDIS_SENTINEL_ID_MAX]; /* "": not known */
    struct sb_wire_place master;
    int64_t asked_ms; /* when it was asked for that; 0: it has not answered yet */
    size_t known;
};

/* What the sentinels of a master have said last. */
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
size_t sb_redis_votes_for(const struct sb_redis_votes *votes, const struct sb_wire_place *master,
                          int64_t since_ms);

/* The instant that the confirmation of a master counts from: each sentinel of a majority was asked
 * then or later, and has named it. 0: there is none. */
int64_t sb_redis_votes_confirmed_ms(const struct sb_redis_votes *votes,
                                    const struct sb_wire_place *master);

/* The master that a majority names; with `any`, that most of those name that were asked since
 * `since_ms`, and `current` rather than another. NULL: none. */
const struct sb_wire_place *sb_redis_votes_master(const struct sb_redis_votes *votes,
                                                  const struct sb_wire_place *current,
                                                  int64_t since_ms);

/* ---- Queries --------------------------------------------------------------------------------- */

#define SB_REDIS_SENTINEL_QUERY_STEPS 3

struct sb_redis_sentinel_query;

/* Takes a command, as sb_redis_reconnecting_send and sb_redis_connection_send do. */
typedef int sb_redis_sentinel_query_send(void *via, struct sb_redis_command *command,
                                         const struct sb_redis_argument *arguments, size_t count,
                                         struct simba_error *error);

struct sb_redis_sentinel_query_step {
    struct sb_redis_command command; /* first */
    struct sb_redis_sentinel_query *query;
};

/* Asks one sentinel for the master, for its id, and for the other sentinels that it knows, all at
 * once on one connection: what an address leads to may change between two connections. Embedded by
 * the asker; stays where it is until `answered` is called. */
struct sb_redis_sentinel_query {
    const struct sb_redis_options *options;
    void (*answered)(struct sb_redis_sentinel_query *query);
    void *user;

    struct sb_redis_sentinel_query_step steps[SB_REDIS_SENTINEL_QUERY_STEPS];
    size_t open;      /* steps without a reply */
    int64_t asked_ms; /* before it was sent */
    int code; /* SIMBA_OK: `answer` is what the sentinel said; otherwise `error` says why not */
    struct simba_error error;
    struct sb_redis_sentinel_answer answer;
};

/* SIMBA_OK: `answered` will be called once, not from within. Otherwise it will not, and *error says
 * why. */
int sb_redis_sentinel_query_start(struct sb_redis_sentinel_query *query,
                                  sb_redis_sentinel_query_send *send, void *via,
                                  int64_t deadline_ms, struct simba_error *error);

/* Asks all sentinels of the URL at once, and those that they tell of where these are needed, until
 * enough of them name the same master. Fills in what they said. */
int sb_redis_sentinel_query_all(const struct sb_redis_options *options,
                                const struct sb_wire_tls *tls, struct sb_redis_votes *ret_votes,
                                struct simba_error *error);

/* ---- The watch ------------------------------------------------------------------------------- */

/* Asks each sentinel every quarter of a ttl (100 ms to 1 s), and at once when one of them announces
 * a fail-over. The first queries have been made before: a client that lives for a moment asks once
 * only. All on the loop. */
struct sb_redis_sentinels;

struct sb_redis_sentinels_events {
    void (*moved)(void *user);  /* another master than before is the one to use */
    void (*closed)(void *user); /* after sb_redis_sentinels_close; it is gone */
};

/* Creates it, with nothing on the loop. `votes` is copied and has a master. NULL when memory is
 * short. */
struct sb_redis_sentinels *sb_redis_sentinels_create(const struct simba_backend_host *host,
                                                     const struct sb_redis_options *options,
                                                     const struct sb_wire_tls *tls,
                                                     const struct sb_redis_votes *votes,
                                                     const struct sb_redis_sentinels_events *events,
                                                     void *user);

/* Frees one that was not started. */
void sb_redis_sentinels_free(struct sb_redis_sentinels *sentinels);

void sb_redis_sentinels_start(struct sb_redis_sentinels *sentinels);

/* The master to use. */
const struct sb_wire_place *sb_redis_sentinels_master(const struct sb_redis_sentinels *sentinels);

/* SIMBA_OK when the master has been confirmed within `age_ms`; otherwise *error says what is
 * missing. */
int sb_redis_sentinels_check(const struct sb_redis_sentinels *sentinels, int64_t age_ms,
                             struct simba_error *error);

/* The instant that a lease on this server may count from, which was asked for at `made_ms`: that,
 * or when the server was last confirmed, where that is earlier. 0: it is not the master. */
int64_t sb_redis_sentinels_as_of(const struct sb_redis_sentinels *sentinels,
                                 const struct sb_wire_place *place, int64_t made_ms);

/* Destroys it. */
void sb_redis_sentinels_close(struct sb_redis_sentinels *sentinels);

#endif
