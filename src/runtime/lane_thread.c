/*
 * lane_thread.c - the life of a thread that serves one lane.
 *
 * Nobody waits for such a thread while it works, so nobody could join it in time. Each thread that ends joins the
 * one that ended before it: at most one is left, and the end of the dispatcher joins that.
 */
#include "runtime/lane_thread.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/text.h"
#include "base/thread.h"

struct sb_lane_thread {
    struct sb_lane_threads *threads;
    pthread_cond_t told;
    struct sb_lane *lane; /* to run; NULL: none */
    bool ending;
    char name[SB_LANE_THREAD_NAME_SIZE];
};

/* With the lock held, and without it when it returns. */
static void leave(struct sb_lane_threads *threads)
{
    pthread_t before = threads->last;
    bool has_before = threads->has_last;

    threads->last = pthread_self();
    threads->has_last = true;
    threads->count--;
    pthread_cond_signal(&threads->ended);
    pthread_mutex_unlock(&threads->lock);
    if (has_before)
        pthread_join(before, NULL);
}

static void *run_thread(void *argument)
{
    struct sb_lane_thread *t = argument;
    struct sb_lane_threads *threads = t->threads;

    pthread_mutex_lock(&threads->lock);
    for (;;) {
        struct sb_lane *lane;

        while (t->lane == NULL && !t->ending)
            pthread_cond_wait(&t->told, &threads->lock);
        lane = t->lane;
        if (lane == NULL)
            break;
        t->lane = NULL;
        pthread_mutex_unlock(&threads->lock);
        while (threads->run(lane))
            continue;
        pthread_mutex_lock(&threads->lock);
    }
    pthread_cond_destroy(&t->told);
    sb_free(t);
    leave(threads);
    return NULL;
}

struct sb_lane_thread *sb_lane_thread_start(struct sb_lane_threads *threads, const char *name)
{
    struct sb_lane_thread *t = sb_alloc_zero(sizeof *t);
    pthread_t thread;
    int code;

    if (t == NULL)
        return NULL;
    t->threads = threads;
    pthread_cond_init(&t->told, NULL);
    sb_text_copy(t->name, sizeof t->name, name);
    pthread_mutex_lock(&threads->lock);
    code = sb_thread_start(&thread, t->name, run_thread, t);
    if (code == 0)
        threads->count++;
    pthread_mutex_unlock(&threads->lock);
    if (code == 0)
        return t;
    pthread_cond_destroy(&t->told);
    sb_free(t);
    return NULL;
}

void sb_lane_thread_give(struct sb_lane_thread *t, struct sb_lane *lane)
{
    pthread_mutex_lock(&t->threads->lock);
    SB_CHECK(t->lane == NULL && !t->ending,
             "a thread is given one lane at a time, and none at its end");
    t->lane = lane;
    pthread_cond_signal(&t->told);
    pthread_mutex_unlock(&t->threads->lock);
}

/* The lock outlives the thread, and the thread cannot free itself before the lock is free. */
void sb_lane_thread_end(struct sb_lane_thread *t)
{
    struct sb_lane_threads *threads = t->threads;

    pthread_mutex_lock(&threads->lock);
    t->ending = true;
    pthread_cond_signal(&t->told);
    pthread_mutex_unlock(&threads->lock);
}

void sb_lane_threads_init(struct sb_lane_threads *threads, bool (*run)(struct sb_lane *lane))
{
    threads->run = run;
    pthread_mutex_init(&threads->lock, NULL);
    pthread_cond_init(&threads->ended, NULL);
}

void sb_lane_threads_destroy(struct sb_lane_threads *threads)
{
    pthread_mutex_lock(&threads->lock);
    while (threads->count > 0)
        pthread_cond_wait(&threads->ended, &threads->lock);
    pthread_mutex_unlock(&threads->lock);
    if (threads->has_last)
        pthread_join(threads->last, NULL);
    pthread_cond_destroy(&threads->ended);
    pthread_mutex_destroy(&threads->lock);
}
