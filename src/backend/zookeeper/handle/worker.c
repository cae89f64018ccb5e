/*
 * worker.c - a thread with a queue. Must not know what it runs.
 */
#include "backend/zookeeper/handle/handle.h"

#include "base/check.h"
#include "base/error.h"
#include "base/thread.h"

#include <string.h>

/* NULL when the thread should end. */
static struct sb_zk_work *next_work(struct sb_zk_worker *h)
{
    struct sb_zk_work *work;

    pthread_mutex_lock(&h->lock);
    while (h->queue == NULL && !h->stopping)
        pthread_cond_wait(&h->changed, &h->lock);
    work = h->queue;
    if (work != NULL) {
        h->queue = work->next;
        if (h->queue == NULL)
            h->end = &h->queue;
    }
    pthread_mutex_unlock(&h->lock);
    return work;
}

static void *run_thread(void *argument)
{
    struct sb_zk_worker *h = argument;
    struct sb_zk_work *work;

    while ((work = next_work(h)) != NULL)
        work->run(work);
    return NULL;
}

int sb_zk_worker_start(struct sb_zk_worker *h, struct simba_error *error)
{
    int code;

    h->queue = NULL;
    h->end = &h->queue;
    h->stopping = false;
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->changed, NULL);
    code = sb_thread_start(&h->thread, "simba-zookeeper", run_thread, h);
    if (code == 0)
        return SIMBA_OK;
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
    return sb_error_set_backend(error, SIMBA_ENOMEM, code, "cannot start a thread: %s",
                                strerror(code));
}

void sb_zk_worker_send(struct sb_zk_worker *h, struct sb_zk_work *work)
{
    pthread_mutex_lock(&h->lock);
    work->next = NULL;
    *h->end = work;
    h->end = &work->next;
    pthread_cond_signal(&h->changed);
    pthread_mutex_unlock(&h->lock);
}

void sb_zk_worker_stop(struct sb_zk_worker *h)
{
    SB_CHECK(!h->stopping, "a worker is stopped once");
    pthread_mutex_lock(&h->lock);
    h->stopping = true;
    pthread_cond_signal(&h->changed);
    pthread_mutex_unlock(&h->lock);
    pthread_join(h->thread, NULL);
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
}
