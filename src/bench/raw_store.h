/*
 * raw_store.h - a store as its own client library uses it: what the library is measured beside.
 *
 * One file for each kind of store. Like the backends, and for the same reason, those of servers are
 * modules that are loaded when they are needed; they are beside the backends' own. A way is one
 * manner of doing by hand what the library does; the first way of a store is the least that any
 * client needs.
 */
#ifndef BENCH_RAW_STORE_H
#define BENCH_RAW_STORE_H

#include "bench/waiter_process.h"

#include <simba/backend.h>

struct bench_way {
    const char *key; /* NULL ends a list */
    const char *cycle_label;
    const char *handover_label; /* NULL: it cannot hand over, nor can the ways behind it */

    /* What stands for acquire + release. */
    int (*cycle)(void *raw, struct simba_error *error);

    /* What stands for a hand-over, between two plain clients in two processes. Nothing to take: the
     * store tells nobody of a change, and the cycle stands for it. */
    struct bench_owner owner;
    struct bench_waiter waiter;
};

struct bench_raw_ops {
    /* Connects; `prefix` begins all names that are used. SIMBA_EUNSUPPORTED: not with this URL. */
    int (*open)(simba_url *url, const char *prefix, void **ret_raw, struct simba_error *error);
    void (*close)(void *raw);

    const struct bench_way *ways;

    /* How long a waiter waits before a hand-over is measured, so that it has come to rest. */
    int64_t rest_ms;

    /* Both may be NULL: writes as many records as if they were renewed together. */
    const char *renew_label;
    int (*renew)(void *raw, int count, struct simba_error *error);

    /* Both may be NULL: what the server has done so far for anybody, and what that is called. */
    const char *counter_name;
    int (*counter)(void *raw, double *ret_value, struct simba_error *error);

    /* Removes all that is left of mutexes whose names begin with the prefix. */
    int (*forget)(void *raw, struct simba_error *error);
};

struct bench_raw {
    const struct bench_raw_ops *ops;
    void *handle;
};

/* SIMBA_EUNSUPPORTED: only the library can talk to this store. */
int bench_raw_open(struct bench_raw *raw, const char *url, const char *prefix,
                   struct simba_error *error);
void bench_raw_close(struct bench_raw *raw); /* harmless where it is not open */

/* The server's counter, NAN where it has none. */
double bench_raw_counter(const struct bench_raw *raw);

/* Each is looked up by its name, bench_raw_ and that of the backend. */
extern const struct bench_raw_ops bench_raw_redis;
extern const struct bench_raw_ops bench_raw_sqlite;
extern const struct bench_raw_ops bench_raw_postgres;
extern const struct bench_raw_ops bench_raw_mysql;
extern const struct bench_raw_ops bench_raw_zookeeper;
extern const struct bench_raw_ops bench_raw_etcd;

#endif
