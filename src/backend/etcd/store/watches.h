/*
 * watches.h - the one stream of watches that a client has, and its watchers.
 *
 * What a watcher is told are hints. A watch begins with the present, because a server looks for
 * what lies in the past every 100 ms only. When it has begun, at first or after a reconnect, the
 * watcher is told that something may have happened before.
 */
#ifndef SB_ETCD_WATCHES_H
#define SB_ETCD_WATCHES_H

#include "backend/etcd/rpc/link.h"

enum sb_etcd_change {
    SB_ETCD_PUT,
    SB_ETCD_DELETED,
    SB_ETCD_MISSED, /* something may have happened */
    SB_ETCD_REFUSED /* the same, and the server has ended the watch: it begins again later */
};

struct sb_etcd_watch_event {
    enum sb_etcd_change change;
    int64_t lease;    /* of the key that has changed, if its name ends in one */
    int64_t revision; /* of that change; 0: none is told */
};

struct sb_etcd_watcher {
    struct sb_etcd_watcher *next;
    struct sb_etcd_watcher **back;
    int64_t id;
    bool begun; /* the server has said so */
    /* It may begin and end watchers, also this one. */
    void (*changed)(void *user, const struct sb_etcd_watch_event *event);
    void *user;
    char key[];
};

struct sb_etcd_watches {
    /* Set by the owner. */
    struct sb_etcd_link *link;
    void (*tend_at)(void *user, int64_t at_ms); /* sb_etcd_watches_tend is due then */
    void *user;
    /* Its own. */
    struct sb_etcd_watcher *first;
    struct sb_etcd_call stream;
    bool streaming;
    bool refused;      /* a watch: the stream is of no use any more */
    unsigned refusals; /* in a row */
    size_t unanswered; /* watches that have been asked for on this stream */
    int64_t last_id;
    int64_t restart_ms; /* not before: the stream has just ended */
};

/* Begins to watch all keys below one that ends in a slash; of another key, only whether it is
 * deleted. NULL when memory is short. */
struct sb_etcd_watcher *
sb_etcd_watch(struct sb_etcd_watches *watches, const char *key,
              void (*changed)(void *user, const struct sb_etcd_watch_event *event), void *user);

/* Ends it and makes it NULL, where it is not. */
void sb_etcd_unwatch(struct sb_etcd_watches *watches, struct sb_etcd_watcher **watcher);

/* Begins the stream again where it has ended, and returns when that is due. */
int64_t sb_etcd_watches_tend(struct sb_etcd_watches *watches);

/* Frees what the stream has; no watcher is left. */
void sb_etcd_watches_free(struct sb_etcd_watches *watches);

#endif
