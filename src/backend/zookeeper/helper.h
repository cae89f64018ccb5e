/*
 * helper.h - one thread of a client for calls of the client library that may wait: it resolves names when a
 * handle is made, and joins threads when one is closed.
 */
#ifndef SB_BACKEND_ZOOKEEPER_HELPER_H
#define SB_BACKEND_ZOOKEEPER_HELPER_H

#include <simba/simba.h>

#include <pthread.h>

/* Something to do on the thread. The memory is the giver's again from when `run` is called. */
struct sb_zk_errand {
    void (*run)(struct sb_zk_errand *errand);
    struct sb_zk_errand *next;
};

struct sb_zk_helper {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct sb_zk_errand *errands;
    struct sb_zk_errand **end;
    bool stopping;
};

int sb_zk_helper_start(struct sb_zk_helper *helper, struct simba_error *error);

/* Errands are run one by one, in order. */
void sb_zk_helper_send(struct sb_zk_helper *helper, struct sb_zk_errand *errand);

/* Waits for the thread, which finishes its errands first. */
void sb_zk_helper_stop(struct sb_zk_helper *helper);

#endif
