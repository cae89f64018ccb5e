/*
 * leases.h - the leases of a client on the cluster, and when they were proved to live.
 *
 * One lease carries all keys of the client. A contender's key is named after its lease, so a second
 * contender of the same client for the same mutex has its key under a second lease.
 *
 * Proof. An owner may believe in a lease for its ttl from a proof on:
 *  1. The answer to the grant: the cluster agreed on the lease after the grant was sent.
 *  2. An answered keep-alive, once it is confirmed. The leader of the cluster renews a lease in its
 *     own memory, and a leader that was replaced without noticing answers keep-alives, too: for up
 *     to an election timeout, or after it stood still. The new leader has given every lease its
 *     full ttl at its election, and knows nothing of that renewal.
 *
 *         keep-alive sent      answered, term 7      read sent         answered, term 7
 *              |-------------------->|                    |------------------->|
 *              the proof counts from here                 and is one from here
 *
 *     The answer to a keep-alive tells the term that its member was in before it passed the
 *     keep-alive on. A linearizable read or a write that is sent later, and is answered in the same
 *     term, shows that no leader of a later term had been elected when it was carried out. So the
 *     leader of this term renewed the lease, and any later leader begins with the full ttl, later.
 *     Both may be answered by different members: terms are the cluster's.
 */
#ifndef SB_ETCD_LEASES_H
#define SB_ETCD_LEASES_H

#include "backend/etcd/rpc/link.h"

enum sb_etcd_lease_event {
    SB_ETCD_LEASE_ANSWERED, /* it has been granted, or a keep-alive has been answered */
    SB_ETCD_LEASE_FAILED,   /* the grant or the keep-alive was not answered: `error` says why */
    SB_ETCD_LEASE_LOST      /* the cluster does not have it any more */
};

struct sb_etcd_lease {
    struct sb_etcd_lease *next;
    struct sb_etcd_leases *leases;
    int64_t id;               /* 0: not granted yet */
    int64_t ttl_ms;           /* granted */
    int64_t sent_ms;          /* of the grant or keep-alive that is under way; 0: none */
    int64_t answered_ms;      /* of the sending of the last one that was answered */
    uint64_t answer_sequence; /* a number of sb_etcd_leases_sequence */
    uint64_t term;            /* that the answer told */
    int64_t proved_ms;        /* 0: never */
    unsigned users;           /* contenders */
    bool granting;
    struct sb_etcd_call grant; /* also the one that gives it back */
};

struct sb_etcd_leases {
    /* Set by the owner. */
    struct sb_etcd_link *link;
    const struct sb_etcd_options *options;
    /* Jobs that begin within it may end others; leases stay. */
    void (*tell)(void *user, struct sb_etcd_lease *lease, enum sb_etcd_lease_event event,
                 const struct simba_error *error);
    void *user;
    /* Its own. */
    struct sb_etcd_lease *first;
    struct sb_etcd_call alive; /* the stream of keep-alives */
    bool streaming;
    uint64_t sequence;
    int64_t restart_ms; /* not before: the stream has just ended */
    size_t revoking;
    void (*revoked)(void *user);
};

/* The lease for a contender when `skip` of them are taken; perhaps not granted yet. NULL when
 * memory is short. */
struct sb_etcd_lease *sb_etcd_lease_take(struct sb_etcd_leases *leases, size_t skip);

/* Whether a proof of it, once it is confirmed, is new enough for a request now. */
bool sb_etcd_lease_is_fresh(const struct sb_etcd_lease *lease);

/* Asks for the next event of it: a grant where it has none, and else a keep-alive. */
void sb_etcd_lease_ask(struct sb_etcd_lease *lease);

/* A number for the sending of a request, and what its answer, which is linearizable, proves. */
uint64_t sb_etcd_leases_sequence(struct sb_etcd_leases *leases);
void sb_etcd_leases_confirm(struct sb_etcd_leases *leases, const Etcd__Header *header,
                            uint64_t sequence);

/* Does what is due, and returns when the next is: on simba_now_ms(). */
int64_t sb_etcd_leases_tend(struct sb_etcd_leases *leases);

/* Gives all leases back, and calls `revoked` when that has been answered or has failed. */
void sb_etcd_leases_revoke(struct sb_etcd_leases *leases, void (*revoked)(void *user));

/* Frees them; the link is closed. */
void sb_etcd_leases_free(struct sb_etcd_leases *leases);

#endif
