/*
 * handle.h - one handle of the client library, with its two threads and its connection.
 *
 * A handle is opened and closed on the worker's thread. What the library's threads have to tell
 * becomes a task on the loop; nothing is decided on them.
 */
#ifndef SB_ZK_HANDLE_H
#define SB_ZK_HANDLE_H

#include "backend/zookeeper/options.h"

#include <pthread.h>
#include <stdatomic.h>

/* The header of the client library, as its multi-threaded variant needs it. */
#define THREADED
#ifdef SIMBA_HAVE_ZOOKEEPER_TLS
#define HAVE_OPENSSL_H
#endif
#include <zookeeper/zookeeper.h>

struct sb_zk_call;

/* ---- worker.c --------------------------------------------------------------------------------
 *
 * One thread of a client for calls of the client library that may wait: it resolves names when a
 * handle is made, and joins threads when one is closed. */

/* Something to do on the thread. The memory is the giver's again from when `run` is called. */
struct sb_zk_work {
    void (*run)(struct sb_zk_work *work);
    struct sb_zk_work *next;
};

struct sb_zk_worker {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct sb_zk_work *queue;
    struct sb_zk_work **end;
    bool stopping;
};

int sb_zk_worker_start(struct sb_zk_worker *worker, struct simba_error *error);

/* Waits for the thread, which finishes its queue first. */
void sb_zk_worker_stop(struct sb_zk_worker *worker);

/* ---- handle.c -------------------------------------------------------------------------------- */

struct sb_zk_handle {
    const struct simba_backend_host *host;
    const struct sb_zk_options *options;
    struct sb_zk_worker *worker;
    void *user;
    void (*changed)(struct sb_zk_handle *handle); /* on the loop */
    /* On the loop: a watch fired, because the node was deleted or for another reason. */
    void (*watched)(struct sb_zk_handle *handle, const char *path, bool deleted);
    void (*closed)(struct sb_zk_handle *handle);   /* on the loop; frees it */
    void (*returned)(struct sb_zk_handle *handle); /* on the loop: it was not closed, see replace */
    clientid_t resume; /* the session to go on with; an id of 0: a new one */
    struct sb_zk_work open_work;
    struct sb_zk_work close_work;
    struct simba_task closed_task;
    _Atomic bool missed_event; /* an event was dropped: nodes may have changed unnoticed */
    bool made;                 /* the loop has seen the handle */
    bool replaced;             /* another one is to go on with its session */
    bool spared;               /* it was not closed, because it came up */
    struct sb_zk_call *calls;  /* that were made on it and have not ended */

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t progress;
    bool silent; /* nothing is posted: the client is being opened, or was not */
    bool posted;
    bool unwanted; /* it need not be opened any more */
    struct simba_task changed_task;
    zhandle_t *zk;     /* NULL until it has been made */
    int64_t begin_ms;  /* when it did not exist yet */
    int64_t making_ms; /* how long it took to be made */
    int failure;       /* an errno: it cannot be made */
    int state;         /* ZOO_..._STATE */
    unsigned drops;    /* how often the connection broke */
};

/* NULL when memory is short. `worker` and the rest are the caller's to fill in before
 * sb_zk_handle_open. */
struct sb_zk_handle *sb_zk_handle_create(void);

/* Makes the handle, in the background. */
void sb_zk_handle_open(struct sb_zk_handle *handle);

/* Waits until it is connected, or cannot be, or the time is over; says which. The time counts from
 * when the handle was made, unless that takes until `end_ms`. */
int sb_zk_handle_wait(struct sb_zk_handle *handle, int64_t timeout_ms, int64_t end_ms,
                      struct simba_error *error);

/* Whether it cannot be opened: trying again at once would not help. */
bool sb_zk_handle_has_failed(struct sb_zk_handle *handle);

/* From now on changes are reported; those so far are reported as one. */
void sb_zk_handle_speak(struct sb_zk_handle *handle);

/* Closes the handle in the background; then `closed` is called. A session that is connected ends
 * with it. */
void sb_zk_handle_close(struct sb_zk_handle *handle);

/* The same for one whose session is to live: if it is connected by then, `returned` is called
 * instead. */
void sb_zk_handle_replace(struct sb_zk_handle *handle);

/* The same, waiting, for a handle that was silent all the time. Frees it. */
void sb_zk_handle_close_now(struct sb_zk_handle *handle);

void sb_zk_handle_free(struct sb_zk_handle *handle);

/* What the library calls for each watch on a node, with the handle as its context. */
void sb_zk_handle_on_node(zhandle_t *zk, int type, int state, const char *path, void *context);

/* ---- cloexec.c -------------------------------------------------------------------------------
 *
 * Makes the descriptors of the client library close-on-exec. The library as Debian builds it opens
 * its pipe and its sockets without, and does not tell their numbers. */

/* The pipes of the process that are not close-on-exec, before a handle is made. */
#define SB_ZK_PIPES_MAX 256
struct sb_zk_pipes {
    int fds[SB_ZK_PIPES_MAX];
    int count;
};

void sb_zk_pipes_note(struct sb_zk_pipes *pipes);

/* Marks the non-blocking pipes that have come since. */
void sb_zk_pipes_close_on_exec(const struct sb_zk_pipes *pipes);

/* Marks the connection of a handle: every socket to that very server that is not marked. */
void sb_zk_close_on_exec(zhandle_t *zk);

#endif
