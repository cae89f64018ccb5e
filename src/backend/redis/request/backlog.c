/*
 * backlog.c - pairing heaps of requests. Owns which request is next and which has waited too long;
 * must not know when there is room on the connection.
 */
#include "backend/redis/request/nodes.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/time.h"

#include <uv.h>

#define NEVER SIMBA_INFINITE

/* The first rank with a request in it is next. */
enum rank { GUARDS, RELEASES, PATIENT, RANKS };

struct sb_redis_backlog {
    struct sb_redis_backlog_entry *first[RANKS]; /* the roots */
    uv_timer_t timer;                            /* at the first deadline, or before */
    int64_t timer_at_ms;                         /* NEVER: it is not set */
    void (*closed)(void *user);
    void *user;
};

/* ---- Heaps ----------------------------------------------------------------------------------- */

/* Both are roots, and either may be NULL. Among equals `older` is first. */
static struct sb_redis_backlog_entry *meld(struct sb_redis_backlog_entry *older,
                                           struct sb_redis_backlog_entry *newer)
{
    struct sb_redis_backlog_entry *root = older;
    struct sb_redis_backlog_entry *child = newer;

    if (older == NULL || newer == NULL)
        return older != NULL ? older : newer;
    if (newer->deadline_ms < older->deadline_ms) {
        root = newer;
        child = older;
    }
    SB_CHECK(child->next == NULL, "only the root of a heap is put below another");
    child->next = root->child;
    root->child = child;
    return root;
}

/* Takes the first one off a list. */
static struct sb_redis_backlog_entry *detach(struct sb_redis_backlog_entry **list)
{
    struct sb_redis_backlog_entry *entry = *list;

    if (entry != NULL) {
        *list = entry->next;
        entry->next = NULL;
    }
    return entry;
}

/* Pairs first and then one by one: that is what keeps the next calls cheap. */
static struct sb_redis_backlog_entry *meld_list(struct sb_redis_backlog_entry *list)
{
    struct sb_redis_backlog_entry *pairs = NULL;
    struct sb_redis_backlog_entry *root = NULL;

    while (list != NULL) {
        struct sb_redis_backlog_entry *newer = detach(&list);
        struct sb_redis_backlog_entry *pair = meld(detach(&list), newer);

        pair->next = pairs;
        pairs = pair;
    }
    while (pairs != NULL)
        root = meld(root, detach(&pairs));
    return root;
}

static struct sb_redis_backlog_entry *take_first(struct sb_redis_backlog *b, enum rank rank)
{
    struct sb_redis_backlog_entry *entry = b->first[rank];

    b->first[rank] = meld_list(entry->child);
    entry->child = NULL;
    SB_CHECK(b->first[rank] == NULL || b->first[rank]->deadline_ms >= entry->deadline_ms,
             "the first of a heap expires before the others");
    return entry;
}

/* ---- Time ------------------------------------------------------------------------------------ */

static void on_timer(uv_timer_t *timer);

/* Moves the timer forward only: when it fires too early it is set again. */
static void set_timer(struct sb_redis_backlog *b, int64_t at_ms)
{
    if (at_ms >= b->timer_at_ms)
        return;
    b->timer_at_ms = at_ms;
    uv_timer_start(&b->timer, on_timer, (uint64_t)sb_time_left(at_ms, simba_now_ms()), 0);
}

/* Ends the wait of those of a rank whose deadline has come by then. */
static void expire(struct sb_redis_backlog *b, enum rank rank, int64_t until_ms, const char *why)
{
    struct simba_error error;

    sb_error_set(&error, SIMBA_EUNAVAILABLE, "%s", why);
    while (b->first[rank] != NULL && b->first[rank]->deadline_ms <= until_ms) {
        struct sb_redis_backlog_entry *entry = take_first(b, rank);

        entry->expired(entry, &error);
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct sb_redis_backlog *b = timer->data;
    int64_t now_ms = simba_now_ms();

    b->timer_at_ms = NEVER;
    for (enum rank rank = GUARDS; rank < RANKS; rank++) {
        expire(b, rank, now_ms, "the server has too much to do: the request was not sent in time");
        if (b->first[rank] != NULL)
            set_timer(b, b->first[rank]->deadline_ms);
    }
}

/* ---- Use ------------------------------------------------------------------------------------- */

bool sb_redis_backlog_is_empty(const struct sb_redis_backlog *b)
{
    return b->first[GUARDS] == NULL && b->first[RELEASES] == NULL && b->first[PATIENT] == NULL;
}

/* A late release makes others wait; a late guard costs the lease. */
static enum rank rank_of(enum simba_op op)
{
    switch (op) {
    case SIMBA_OP_GUARD:
        return GUARDS;
    case SIMBA_OP_RELEASE:
        return RELEASES;
    default:
        return PATIENT;
    }
}

void sb_redis_backlog_add(struct sb_redis_backlog *b, struct sb_redis_backlog_entry *entry,
                          enum simba_op op, int64_t deadline_ms)
{
    enum rank rank = rank_of(op);

    SB_CHECK(entry->next == NULL && entry->child == NULL, "a request waits in one place only");
    entry->deadline_ms = deadline_ms;
    b->first[rank] = meld(b->first[rank], entry);
    set_timer(b, deadline_ms);
}

struct sb_redis_backlog_entry *sb_redis_backlog_take(struct sb_redis_backlog *b)
{
    for (enum rank rank = GUARDS; rank < RANKS; rank++)
        if (b->first[rank] != NULL)
            return take_first(b, rank);
    return NULL;
}

/* ---- Opening and closing --------------------------------------------------------------------- */

struct sb_redis_backlog *sb_redis_backlog_create(struct uv_loop_s *loop, void (*closed)(void *user),
                                                 void *user)
{
    struct sb_redis_backlog *b = sb_alloc_zero(sizeof *b);

    if (b == NULL)
        return NULL;
    uv_timer_init(loop, &b->timer);
    b->timer.data = b;
    b->timer_at_ms = NEVER;
    b->closed = closed;
    b->user = user;
    return b;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct sb_redis_backlog *b = handle->data;
    void (*closed)(void *user) = b->closed;
    void *user = b->user;

    sb_free(b);
    closed(user);
}

void sb_redis_backlog_close(struct sb_redis_backlog *b)
{
    for (enum rank rank = GUARDS; rank < RANKS; rank++)
        expire(b, rank, NEVER, "the server is not used any more");
    uv_close((uv_handle_t *)&b->timer, on_timer_closed);
}
