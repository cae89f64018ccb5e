/*
 * backlog.c - two pairing heaps of jobs, which live in the jobs: to wait needs no memory and cannot fail. Owns
 * who is next and who has waited too long; must not know when there is room.
 */
#include "backend/redis/backlog.h"

#include "backend/redis/job.h"
#include "base/alloc.h"
#include "base/error.h"

#include <uv.h>

enum rank { URGENT, PATIENT, RANKS }; /* the first one with a job in it is next */

struct sb_backlog {
    struct sb_job *first[RANKS]; /* the roots */
    uv_timer_t timer;            /* at the earliest deadline, or before */
    int64_t timer_at_ms;         /* SB_NEVER: it is not set */
    void (*closed)(void *user);
    void *user;
};

/* ---- Heaps ---------------------------------------------------------------------------------- */

/* Both are roots, and either may be NULL. Among equals `older` is first. */
static struct sb_job *meld(struct sb_job *older, struct sb_job *newer)
{
    struct sb_job *root = older;
    struct sb_job *child = newer;

    if (older == NULL || newer == NULL)
        return older != NULL ? older : newer;
    if (newer->command.deadline_ms < older->command.deadline_ms) {
        root = newer;
        child = older;
    }
    child->next = root->child;
    root->child = child;
    return root;
}

/* Takes the first one off a list. */
static struct sb_job *detach(struct sb_job **list)
{
    struct sb_job *job = *list;

    if (job != NULL) {
        *list = job->next;
        job->next = NULL;
    }
    return job;
}

/* Pairs first and then one by one: that is what keeps the next calls cheap. */
static struct sb_job *meld_list(struct sb_job *list)
{
    struct sb_job *pairs = NULL;
    struct sb_job *root = NULL;

    while (list != NULL) {
        struct sb_job *newer = detach(&list);
        struct sb_job *pair = meld(detach(&list), newer);

        pair->next = pairs;
        pairs = pair;
    }
    while (pairs != NULL)
        root = meld(root, detach(&pairs));
    return root;
}

static struct sb_job *take_first(struct sb_backlog *b, enum rank rank)
{
    struct sb_job *job = b->first[rank];

    b->first[rank] = meld_list(job->child);
    job->child = NULL;
    return job;
}

/* ---- Time ----------------------------------------------------------------------------------- */

static void on_timer(uv_timer_t *timer);

/* Moves the timer forward only: when it fires too early it is set again. */
static void set_timer(struct sb_backlog *b, int64_t at_ms)
{
    int64_t now_ms;

    if (at_ms >= b->timer_at_ms)
        return;
    now_ms = simba_now_ms();
    b->timer_at_ms = at_ms;
    uv_timer_start(&b->timer, on_timer, at_ms > now_ms ? (uint64_t)(at_ms - now_ms) : 0, 0);
}

/* Answers those of a rank whose deadline is not later than that. */
static void give_up(struct sb_backlog *b, enum rank rank, int64_t until_ms, const char *why)
{
    struct simba_error error;

    sb_error_set(&error, SIMBA_EUNAVAILABLE, "%s", why);
    while (b->first[rank] != NULL && b->first[rank]->command.deadline_ms <= until_ms)
        sb_job_fail(take_first(b, rank), &error);
}

static void on_timer(uv_timer_t *timer)
{
    struct sb_backlog *b = timer->data;
    int64_t now_ms = simba_now_ms();

    b->timer_at_ms = SB_NEVER;
    for (enum rank rank = URGENT; rank < RANKS; rank++) {
        give_up(b, rank, now_ms, "the server has too much to do: the request was not sent in time");
        if (b->first[rank] != NULL)
            set_timer(b, b->first[rank]->command.deadline_ms);
    }
}

/* ---- Use ------------------------------------------------------------------------------------ */

bool sb_backlog_is_empty(const struct sb_backlog *b)
{
    return b->first[URGENT] == NULL && b->first[PATIENT] == NULL;
}

void sb_backlog_add(struct sb_backlog *b, struct sb_job *job)
{
    bool keeps = job->op == SIMBA_OP_GUARD || job->op == SIMBA_OP_RELEASE;
    enum rank rank = keeps ? URGENT : PATIENT;

    b->first[rank] = meld(b->first[rank], job);
    set_timer(b, job->command.deadline_ms);
}

struct sb_job *sb_backlog_take(struct sb_backlog *b)
{
    if (sb_backlog_is_empty(b))
        return NULL;
    return take_first(b, b->first[URGENT] != NULL ? URGENT : PATIENT);
}

/* ---- Life ----------------------------------------------------------------------------------- */

struct sb_backlog *sb_backlog_create(struct uv_loop_s *loop, void (*closed)(void *user), void *user)
{
    struct sb_backlog *b = sb_alloc_zero(sizeof *b);

    if (b == NULL)
        return NULL;
    uv_timer_init(loop, &b->timer);
    b->timer.data = b;
    b->timer_at_ms = SB_NEVER;
    b->closed = closed;
    b->user = user;
    return b;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct sb_backlog *b = handle->data;
    void (*closed)(void *user) = b->closed;
    void *user = b->user;

    sb_free(b);
    closed(user);
}

void sb_backlog_close(struct sb_backlog *b)
{
    for (enum rank rank = URGENT; rank < RANKS; rank++)
        give_up(b, rank, SB_NEVER, "the server is not used any more");
    uv_close((uv_handle_t *)&b->timer, on_timer_closed);
}
