/*
 * waiters.c - the mutexes that contenders of one client wait for. Owns the list of them and the
 * times of the polls; must not know statements.
 */
#include "backend/sql/waiters.h"

#include "backend/sql/repository.h"
#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/text.h"
#include "base/time.h"

#include <pthread.h>
#include <string.h>

#define SLOTS 1024
#define POLL_MIN_MS 10

/* With queues: the longest interval of the first where wake-ups do not arrive, shorter than the
 * usual reservation; how much longer the interval of the others is where they do; and for how long
 * they are not relied on after a poll has found what no wake-up had told. */
#define FIRST_MAX_MS 40
#define RARELY 5
#define DISTRUST_MS 30000

#define AGAIN_MS 200 /* at most, until a poll that has failed is made again */

struct waited {
    struct waited *next; /* in its slot */
    struct waited *left; /* in the ring of mutexes that are waited for */
    struct waited *right;
    unsigned contenders; /* that have come and not gone */
    unsigned observers;  /* the same; they are told of what the polls for the contenders find */
    bool waits;          /* is in the ring */
    bool first;          /* of its queue is a waiter of this client, as far as is known: */
    char first_id[SIMBA_ID_MAX + 1];
    char mutex[SIMBA_MUTEX_MAX + 1];
    char owner[SIMBA_ID_MAX + 1]; /* that the last poll found while it had observers */
};

struct sb_sql_waiters {
    struct sb_sql_waiters_config config;
    pthread_mutex_t lock; /* guards all but what is the worker's own */
    struct waited *slots[SLOTS];
    struct waited ring; /* its head */
    size_t waiting;
    bool push;
    int64_t interval_ms;
    int64_t due_ms;

    /* With queues: */
    bool queues;         /* the last poll read them */
    bool woken;          /* since the last poll */
    size_t urgent;       /* mutexes in the ring that are: see is_urgent */
    int64_t all_due_ms;  /* the poll for all; due_ms is that for the urgent */
    int64_t distrust_ms; /* wake-ups are not relied on until then */

    /* The worker's own: */
    uint64_t random;
    bool news; /* the poll has found a mutex that is free, or another owner */
    struct sb_sql_item items[SB_SQL_WAITERS_POLL_MAX];
    struct sb_sql_item *pointers[SB_SQL_WAITERS_POLL_MAX];
    char names[SB_SQL_WAITERS_POLL_MAX][SIMBA_MUTEX_MAX + 1];
};

/* ---- The mutexes ----------------------------------------------------------------------------- */

static struct waited **find(struct sb_sql_waiters *w, const char *mutex)
{
    struct waited **link = &w->slots[sb_hash(mutex) % SLOTS];

    while (*link != NULL && strcmp((*link)->mutex, mutex) != 0)
        link = &(*link)->next;
    return link;
}

/* With queues: whether the poll for some looks at it, too. */
static bool is_urgent(const struct waited *waited)
{
    return waited->first || waited->observers > 0;
}

/* With the lock held, like all that follow which do not take it. */
static void enter_ring(struct sb_sql_waiters *w, struct waited *waited)
{
    SB_CHECK(!waited->waits && waited->contenders > 0, "a mutex waits once, for its contenders");
    waited->waits = true;
    w->urgent += is_urgent(waited);
    waited->left = w->ring.left;
    waited->right = &w->ring;
    waited->left->right = waited;
    w->ring.left = waited;
    w->waiting++;
}

static void leave_ring(struct sb_sql_waiters *w, struct waited *waited)
{
    if (!waited->waits)
        return;
    SB_CHECK(w->waiting > 0, "the ring counts its mutexes");
    waited->waits = false;
    waited->left->right = waited->right;
    waited->right->left = waited->left;
    w->waiting--;
    w->urgent -= is_urgent(waited);
    SB_CHECK((w->waiting == 0) == (w->ring.right == &w->ring), "the ring is empty at 0");
}

static void set_urgent(struct sb_sql_waiters *w, struct waited *waited, bool first,
                       unsigned observers)
{
    if (waited->waits)
        w->urgent -= is_urgent(waited);
    waited->first = first;
    waited->observers = observers;
    if (waited->waits)
        w->urgent += is_urgent(waited);
}

static void add_listener(struct sb_sql_waiters *w, const char *mutex, bool observer)
{
    struct waited **link = find(w, mutex);

    if (*link == NULL) {
        *link = sb_alloc_zero(sizeof **link);
        if (*link == NULL)
            return; /* there are no polls for it; its own attempts find out */
        sb_text_copy((*link)->mutex, sizeof(*link)->mutex, mutex);
    }
    (*link)->contenders += !observer;
    set_urgent(w, *link, (*link)->first, (*link)->observers + observer);
}

/* A count is 0 here if there was no memory when the listener came. */
static void remove_listener(struct sb_sql_waiters *w, const char *mutex, bool observer)
{
    struct waited **link = find(w, mutex);
    struct waited *waited = *link;

    if (waited == NULL)
        return;
    if (observer)
        set_urgent(w, waited, waited->first, waited->observers - (waited->observers > 0));
    else
        waited->contenders -= waited->contenders > 0;
    if (waited->contenders == 0)
        leave_ring(w, waited);
    if (waited->contenders > 0 || waited->observers > 0)
        return;
    SB_CHECK(!waited->waits, "a mutex without contenders does not wait");
    *link = waited->next;
    sb_free(waited);
}

void sb_sql_waiters_listen(struct sb_sql_waiters *w, const char *mutex, bool observer, bool on)
{
    pthread_mutex_lock(&w->lock);
    if (on)
        add_listener(w, mutex, observer);
    else
        remove_listener(w, mutex, observer);
    pthread_mutex_unlock(&w->lock);
}

static void poll_soon(struct sb_sql_waiters *w)
{
    w->interval_ms = POLL_MIN_MS;
    w->due_ms = simba_now_ms() + w->interval_ms;
    w->all_due_ms = w->due_ms;
}

/* The one that won does not wait; where this client has more contenders of the mutex, the others
 * do. */
void sb_sql_waiters_note(struct sb_sql_waiters *w, const char *mutex, bool waits)
{
    struct waited *waited;
    bool first = false;

    pthread_mutex_lock(&w->lock);
    waited = *find(w, mutex);
    if (waited != NULL && waits && !waited->waits && waited->contenders > 0) {
        first = w->waiting == 0;
        waited->first = false;
        enter_ring(w, waited);
        poll_soon(w);
    } else if (waited != NULL && !waits && waited->contenders == 1) {
        leave_ring(w, waited);
    }
    pthread_mutex_unlock(&w->lock);
    if (first && w->config.first != NULL)
        w->config.first(w->config.user);
}

void sb_sql_waiters_set_push(struct sb_sql_waiters *w, bool on)
{
    pthread_mutex_lock(&w->lock);
    w->push = on;
    if (!on)
        poll_soon(w);
    pthread_mutex_unlock(&w->lock);
}

/* Where it can concern but one contender, and that is the first of its queue, it is told at once. A
 * wake-up that was for nothing costs it an attempt; the worker's next poll finds that out. */
bool sb_sql_waiters_wake(struct sb_sql_waiters *w)
{
    const struct simba_backend_host *host = w->config.host;
    struct waited *only = NULL;
    char mutex[SIMBA_MUTEX_MAX + 1];
    char id[SIMBA_ID_MAX + 1];

    pthread_mutex_lock(&w->lock);
    if (w->push && w->waiting == 1 && w->ring.right->first && w->ring.right->contenders == 1) {
        only = w->ring.right;
        set_urgent(w, only, false, only->observers);
        poll_soon(w);
        sb_text_copy(mutex, sizeof mutex, only->mutex);
        sb_text_copy(id, sizeof id, only->first_id);
    } else {
        w->woken = true;
    }
    pthread_mutex_unlock(&w->lock);
    if (only == NULL)
        return false;
    host->notice(host, SIMBA_NOTICE_RELEASED, mutex, id);
    return true;
}

/* ---- Polls ----------------------------------------------------------------------------------- */

static int64_t due_with_queues_ms(const struct sb_sql_waiters *w)
{
    if (w->woken)
        return 0;
    if (w->waiting == 0)
        return SIMBA_INFINITE;
    return w->urgent > 0 && w->due_ms < w->all_due_ms ? w->due_ms : w->all_due_ms;
}

int64_t sb_sql_waiters_due_ms(struct sb_sql_waiters *w)
{
    int64_t due_ms;

    pthread_mutex_lock(&w->lock);
    if (w->push && (w->config.client == NULL || w->config.trusts_push))
        due_ms = SIMBA_INFINITE;
    else if (w->config.client != NULL)
        due_ms = due_with_queues_ms(w);
    else
        due_ms = w->waiting > 0 ? w->due_ms : SIMBA_INFINITE;
    pthread_mutex_unlock(&w->lock);
    return due_ms;
}

/* Takes names from the beginning of the ring and moves them to its end, so that the next call goes
 * on behind them. *left is how many of the ring are still to be looked at. */
static size_t take_names(struct sb_sql_waiters *w, bool all, size_t *left)
{
    size_t count = 0;

    pthread_mutex_lock(&w->lock);
    if (*left > w->waiting)
        *left = w->waiting;
    for (; *left > 0 && count < SB_SQL_WAITERS_POLL_MAX; --*left) {
        struct waited *waited = w->ring.right;
        struct sb_sql_item *item = &w->items[count];

        SB_CHECK(waited != &w->ring && waited->waits, "the ring has as many as it counts");
        leave_ring(w, waited);
        enter_ring(w, waited);
        if (!all && !is_urgent(waited))
            continue;
        sb_text_copy(w->names[count], sizeof w->names[count], waited->mutex);
        item->statement = SB_SQL_SELECT;
        item->values.mutex = w->names[count];
        item->hit = false;
        w->pointers[count++] = item;
    }
    pthread_mutex_unlock(&w->lock);
    return count;
}

/* Whether there are observers, and the owner is another than the last poll found. "": there is
 * none. */
static bool is_new_owner(struct sb_sql_waiters *w, const char *mutex, const char *owner)
{
    struct waited *waited;
    bool is_new;

    pthread_mutex_lock(&w->lock);
    waited = *find(w, mutex);
    is_new = waited != NULL && waited->observers > 0 && strcmp(waited->owner, owner) != 0;
    if (is_new)
        sb_text_copy(waited->owner, sizeof waited->owner, owner);
    pthread_mutex_unlock(&w->lock);
    return is_new;
}

static void give_notice(struct sb_sql_waiters *w, size_t count)
{
    const struct simba_backend_host *host = w->config.host;

    for (size_t i = 0; i < count; i++) {
        const struct sb_sql_item *item = &w->items[i];
        bool is_owned = item->hit && sb_sql_record_is_owned(&item->record);
        bool is_new = is_new_owner(w, w->names[i], is_owned ? item->record.owner_id : "");

        if (is_owned && !is_new)
            continue;
        w->news = true;
        host->notice(host, is_owned ? SIMBA_NOTICE_CHANGED : SIMBA_NOTICE_RELEASED, w->names[i],
                     NULL);
    }
}

/* ---- Lines ----------------------------------------------------------------------------------- */

static bool is_mine(const struct sb_sql_waiters *w, const struct sb_sql_waiter *waiter)
{
    return waiter->id[0] != '\0' && strcmp(waiter->client, w->config.client) == 0;
}

static void note_first(struct sb_sql_waiters *w, const char *mutex, const struct sb_sql_item *item)
{
    bool is_called = is_mine(w, &item->next[0]);
    bool first = is_called || is_mine(w, &item->next[1]);
    struct waited *waited;

    pthread_mutex_lock(&w->lock);
    waited = *find(w, mutex);
    if (waited != NULL) {
        set_urgent(w, waited, first, waited->observers);
        if (first)
            sb_text_copy(waited->first_id, sizeof waited->first_id, item->next[!is_called].id);
    }
    pthread_mutex_unlock(&w->lock);
}

/* Tells the waiter that is to try now, and the one that is next. Where the queue is empty, its rows
 * were lost, and every waiter may try. */
static void give_notice_of_line(struct sb_sql_waiters *w, size_t index)
{
    const struct simba_backend_host *host = w->config.host;
    const struct sb_sql_item *item = &w->items[index];
    const struct sb_sql_waiter *next = item->next;
    const char *mutex = w->names[index];
    bool is_owned = item->hit && sb_sql_record_is_owned(&item->record);
    bool is_reserved = next[0].id[0] != '\0';
    const struct sb_sql_waiter *called = is_reserved ? &next[0] : &next[1];

    note_first(w, mutex, item);
    if (is_new_owner(w, mutex, is_owned ? item->record.owner_id : ""))
        host->notice(host, SIMBA_NOTICE_CHANGED, mutex, NULL);
    if (is_owned)
        return;
    if (called->id[0] == '\0' || is_mine(w, called)) {
        host->notice(host, SIMBA_NOTICE_RELEASED, mutex, called->id[0] != '\0' ? called->id : NULL);
        w->news = true;
    }
    if (is_reserved && is_mine(w, &next[1]))
        host->notice(host, SIMBA_NOTICE_RESERVED, mutex, next[1].id);
}

/* ---- The whole ------------------------------------------------------------------------------- */

/* What a poll found that nobody had woken it for was not pushed. */
static int64_t interval_max_ms(struct sb_sql_waiters *w, bool was_woken, int64_t now_ms)
{
    if (!w->queues)
        return w->config.poll_max_ms;
    if (w->news && !was_woken)
        w->distrust_ms = now_ms + DISTRUST_MS;
    if ((w->push && now_ms >= w->distrust_ms) || w->config.poll_max_ms < FIRST_MAX_MS)
        return w->config.poll_max_ms;
    return FIRST_MAX_MS;
}

/* Doubles while nothing happens. The jitter keeps clients that began together apart. */
static void plan_next(struct sb_sql_waiters *w, bool all, bool was_woken, bool failed)
{
    int64_t now_ms = simba_now_ms();
    int64_t max_ms;
    int64_t jitter_ms;

    pthread_mutex_lock(&w->lock);
    max_ms = interval_max_ms(w, was_woken, now_ms);
    w->interval_ms = w->news ? POLL_MIN_MS : w->interval_ms * 2;
    if (w->interval_ms > max_ms)
        w->interval_ms = max_ms;
    jitter_ms = sb_random_between(sb_random_next(&w->random), 0, w->interval_ms / 4 + 1);
    w->due_ms = now_ms + w->interval_ms - jitter_ms;
    if (!w->queues)
        w->all_due_ms = w->due_ms;
    else if (failed)
        w->all_due_ms = now_ms + sb_earlier(w->config.poll_max_ms, AGAIN_MS);
    else if (all)
        w->all_due_ms = now_ms + w->config.poll_max_ms * (max_ms > FIRST_MAX_MS ? RARELY : 1);
    pthread_mutex_unlock(&w->lock);
}

/* Whether the poll reads all mutexes, or only the urgent ones. */
static bool begin_poll(struct sb_sql_waiters *w, size_t *ret_left, bool *ret_woken)
{
    bool all;

    pthread_mutex_lock(&w->lock);
    all = !w->queues || w->woken || w->all_due_ms <= simba_now_ms();
    *ret_left = w->waiting;
    *ret_woken = w->woken;
    w->woken = false;
    pthread_mutex_unlock(&w->lock);
    w->news = false;
    return all;
}

static int read_some(struct sb_sql_waiters *w, struct sb_sql_connection *connection, size_t count,
                     struct sb_sql_failure *failure)
{
    int code = w->queues ? connection->driver->read_queues(connection, w->pointers, count, failure)
                         : connection->driver->run_all(connection, w->pointers, count, failure);

    if (code != SIMBA_OK)
        return code;
    if (!w->queues)
        give_notice(w, count);
    for (size_t i = 0; i < count && w->queues; i++)
        give_notice_of_line(w, i);
    return SIMBA_OK;
}

/* A wake-up without waiters may be a trial of the store's. */
int sb_sql_waiters_poll(struct sb_sql_waiters *w, struct sb_sql_connection *connection,
                        struct sb_sql_failure *failure)
{
    size_t left;
    bool woken;
    bool all;
    int code = SIMBA_OK;

    pthread_mutex_lock(&w->lock);
    w->queues = w->config.client != NULL && connection->has_queue;
    pthread_mutex_unlock(&w->lock);
    all = begin_poll(w, &left, &woken);
    if (left == 0 && woken && w->queues)
        code = read_some(w, connection, 0, failure);
    while (left > 0 && code == SIMBA_OK) {
        size_t count = take_names(w, all, &left);

        if (count > 0)
            code = read_some(w, connection, count, failure);
    }
    plan_next(w, all, woken, code != SIMBA_OK);
    return code;
}

void sb_sql_waiters_skip(struct sb_sql_waiters *w)
{
    bool woken;
    size_t left;

    begin_poll(w, &left, &woken);
    plan_next(w, true, false, true);
}

/* ---- Creating and destroying ----------------------------------------------------------------- */

int sb_sql_waiters_create(const struct sb_sql_waiters_config *config,
                          struct sb_sql_waiters **ret_waiters, struct simba_error *error)
{
    struct sb_sql_waiters *w = sb_alloc_zero(sizeof *w);

    if (w == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    w->config = *config;
    w->ring.left = &w->ring;
    w->ring.right = &w->ring;
    w->random = sb_random_seed();
    pthread_mutex_init(&w->lock, NULL);
    *ret_waiters = w;
    return SIMBA_OK;
}

void sb_sql_waiters_destroy(struct sb_sql_waiters *w)
{
    if (w == NULL)
        return;
    for (size_t slot = 0; slot < SLOTS; slot++) {
        while (w->slots[slot] != NULL) {
            struct waited *waited = w->slots[slot];

            w->slots[slot] = waited->next;
            sb_free(waited);
        }
    }
    pthread_mutex_destroy(&w->lock);
    sb_free(w);
}
