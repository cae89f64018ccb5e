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

#include <pthread.h>
#include <string.h>

#define SLOTS 1024
#define POLL_MIN_MS 10

struct waited {
    struct waited *next; /* in its slot */
    struct waited *left; /* in the ring of mutexes that are waited for */
    struct waited *right;
    unsigned contenders; /* that have come and not gone */
    unsigned observers;  /* the same; they are told of what the polls for the contenders find */
    bool waits;          /* is in the ring */
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

/* With the lock held, like all that follow which do not take it. */
static void enter_ring(struct sb_sql_waiters *w, struct waited *waited)
{
    SB_CHECK(!waited->waits && waited->contenders > 0, "a mutex waits once, for its contenders");
    waited->waits = true;
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
    SB_CHECK((w->waiting == 0) == (w->ring.right == &w->ring), "the ring is empty at 0");
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
    (*link)->observers += observer;
}

/* A count is 0 here if there was no memory when the listener came. */
static void remove_listener(struct sb_sql_waiters *w, const char *mutex, bool observer)
{
    struct waited **link = find(w, mutex);
    struct waited *waited = *link;
    unsigned *count;

    if (waited == NULL)
        return;
    count = observer ? &waited->observers : &waited->contenders;
    *count -= *count > 0;
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

/* ---- Polls ----------------------------------------------------------------------------------- */

int64_t sb_sql_waiters_due_ms(struct sb_sql_waiters *w)
{
    int64_t due_ms;

    pthread_mutex_lock(&w->lock);
    due_ms = w->waiting > 0 && !w->push ? w->due_ms : SIMBA_INFINITE;
    pthread_mutex_unlock(&w->lock);
    return due_ms;
}

/* Takes the first ones and moves them to the end, so that the next call goes on behind them. */
static size_t take_names(struct sb_sql_waiters *w, size_t most)
{
    size_t count = 0;

    pthread_mutex_lock(&w->lock);
    while (count < most && count < SB_SQL_WAITERS_POLL_MAX && count < w->waiting) {
        struct waited *waited = w->ring.right;
        struct sb_sql_item *item = &w->items[count];

        SB_CHECK(waited != &w->ring && waited->waits, "the ring has as many as it counts");
        sb_text_copy(w->names[count], sizeof w->names[count], waited->mutex);
        item->statement = SB_SQL_SELECT;
        item->values.mutex = w->names[count];
        item->hit = false;
        w->pointers[count++] = item;
        leave_ring(w, waited);
        enter_ring(w, waited);
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

/* Doubles while nothing happens. The jitter keeps clients that began together apart. */
static void plan_next(struct sb_sql_waiters *w)
{
    int64_t jitter_ms;

    pthread_mutex_lock(&w->lock);
    w->interval_ms = w->news ? POLL_MIN_MS : w->interval_ms * 2;
    if (w->interval_ms > w->config.poll_max_ms)
        w->interval_ms = w->config.poll_max_ms;
    jitter_ms = sb_random_between(sb_random_next(&w->random), 0, w->interval_ms / 4 + 1);
    w->due_ms = simba_now_ms() + w->interval_ms - jitter_ms;
    pthread_mutex_unlock(&w->lock);
}

int sb_sql_waiters_poll(struct sb_sql_waiters *w, struct sb_sql_connection *connection,
                        struct sb_sql_failure *failure)
{
    size_t left;
    int code = SIMBA_OK;

    pthread_mutex_lock(&w->lock);
    left = w->waiting;
    pthread_mutex_unlock(&w->lock);
    w->news = false;
    while (left > 0 && code == SIMBA_OK) {
        size_t count = take_names(w, left);

        if (count == 0)
            break;
        code = connection->driver->run_all(connection, w->pointers, count, failure);
        if (code == SIMBA_OK)
            give_notice(w, count);
        left -= count;
    }
    plan_next(w);
    return code;
}

void sb_sql_waiters_skip(struct sb_sql_waiters *w)
{
    w->news = false;
    plan_next(w);
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
