/*
 * helper.c - a thread with a queue. Must not know what its errands are.
 */
#include "backend/zookeeper/helper.h"

#include "base/error.h"
#include "base/thread.h"

#include <string.h>

/* NULL when the thread should end. */
static struct sb_zk_errand *next_errand(struct sb_zk_helper *h)
{
    struct sb_zk_errand *errand;

    pthread_mutex_lock(&h->lock);
    while (h->errands == NULL && !h->stopping)
        pthread_cond_wait(&h->changed, &h->lock);
    errand = h->errands;
    if (errand != NULL) {
        h->errands = errand->next;
        if (h->errands == NULL)
            h->end = &h->errands;
    }
    pthread_mutex_unlock(&h->lock);
    return errand;
}

static void *run_thread(void *argument)
{
    struct sb_zk_helper *h = argument;
    struct sb_zk_errand *errand;

    while ((errand = next_errand(h)) != NULL)
        errand->run(errand);
    return NULL;
}

int sb_zk_helper_start(struct sb_zk_helper *h, struct simba_error *error)
{
    int code;

    h->errands = NULL;
    h->end = &h->errands;
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

void sb_zk_helper_send(struct sb_zk_helper *h, struct sb_zk_errand *errand)
{
    pthread_mutex_lock(&h->lock);
    errand->next = NULL;
    *h->end = errand;
    h->end = &errand->next;
    pthread_cond_signal(&h->changed);
    pthread_mutex_unlock(&h->lock);
}

void sb_zk_helper_stop(struct sb_zk_helper *h)
{
    pthread_mutex_lock(&h->lock);
    h->stopping = true;
    pthread_cond_signal(&h->changed);
    pthread_mutex_unlock(&h->lock);
    pthread_join(h->thread, NULL);
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
}
