/*
 * looks.c - a small table of the mutexes that are being looked at, or were a moment ago.
 *
 * The rate is a bucket of hints, kept as the time at which it will be full again: each hint moves
 * that time by a gap, and may move it at most SB_LOOKS_AT_ONCE gaps into the future.
 */
#include "runtime/looks.h"

#include "base/alloc.h"
#include "base/container.h"
#include "base/hash.h"

#include <string.h>

#define BUCKETS 1024

struct sb_look {
    struct sb_looks *looks;
    struct sb_look *next; /* in its bucket */
    struct sb_timer timer;
    struct sb_request *unsent; /* a READ that others may join in this turn */
    uint64_t turn;             /* of `unsent` */
    unsigned under_way;        /* READs without an answer */
    bool hinted;               /* and not told yet */
    int64_t full_at_ms;
    uint32_t hash;
    char mutex[];
};

struct sb_looks {
    struct sb_loop *loop;
    void (*tell)(void *argument, const char *mutex);
    void *argument;
    uint64_t turn;
    struct sb_look *buckets[BUCKETS];
};

static void on_timer(struct sb_timer *timer);

static struct sb_look *find(struct sb_looks *looks, const char *mutex, uint32_t hash)
{
    struct sb_look *look = looks->buckets[hash % BUCKETS];

    while (look != NULL && (look->hash != hash || strcmp(look->mutex, mutex) != 0))
        look = look->next;
    return look;
}

/* NULL when memory is short. */
static struct sb_look *find_or_make(struct sb_looks *looks, const char *mutex)
{
    uint32_t hash = sb_hash(mutex);
    struct sb_look *look = find(looks, mutex, hash);
    size_t size = strlen(mutex) + 1;

    if (look != NULL)
        return look;
    look = sb_alloc_zero(sizeof *look + size);
    if (look == NULL)
        return NULL;
    look->looks = looks;
    look->timer.fire = on_timer;
    look->hash = hash;
    memcpy(look->mutex, mutex, size);
    look->next = looks->buckets[hash % BUCKETS];
    looks->buckets[hash % BUCKETS] = look;
    return look;
}

static void forget(struct sb_look *look)
{
    struct sb_look **at = &look->looks->buckets[look->hash % BUCKETS];

    while (*at != look)
        at = &(*at)->next;
    *at = look->next;
    sb_loop_cancel(look->looks->loop, &look->timer);
    sb_free(look);
}

/* When the next hint may be told. */
static int64_t free_at(const struct sb_look *look)
{
    return look->full_at_ms - (SB_LOOKS_AT_ONCE - 1) * SB_LOOKS_GAP_MS;
}

/* The timer tells what is left to be told, or forgets the look. While a READ is under way its
 * answer comes back here. */
static void plan(struct sb_look *look)
{
    if (look->under_way > 0)
        return;
    if (!look->hinted && look->full_at_ms == 0)
        forget(look); /* it was not hinted at */
    else
        sb_loop_arm(look->looks->loop, &look->timer,
                    look->hinted ? free_at(look) : look->full_at_ms);
}

static void tell(struct sb_look *look, int64_t now_ms)
{
    look->hinted = false;
    look->full_at_ms = (look->full_at_ms > now_ms ? look->full_at_ms : now_ms) + SB_LOOKS_GAP_MS;
    look->looks->tell(look->looks->argument, look->mutex);
}

static void on_timer(struct sb_timer *timer)
{
    struct sb_look *look = SB_CONTAINER(struct sb_look, timer, timer);

    if (look->under_way > 0)
        return;
    if (!look->hinted) {
        forget(look);
        return;
    }
    tell(look, simba_now_ms());
    plan(look);
}

void sb_looks_hint(struct sb_looks *looks, const char *mutex)
{
    struct sb_look *look = find_or_make(looks, mutex);
    int64_t now_ms = simba_now_ms();

    if (look == NULL) {
        looks->tell(looks->argument, mutex);
        return;
    }
    look->hinted = true;
    if (look->under_way == 0 && free_at(look) <= now_ms)
        tell(look, now_ms);
    plan(look);
}

/* The earliest of their time limits holds for all. */
bool sb_looks_join(struct sb_looks *looks, struct sb_request *request)
{
    struct sb_look *look = find_or_make(looks, request->wire.mutex);
    struct sb_request *first;

    if (look == NULL)
        return false;
    first = look->turn == looks->turn ? look->unsent : NULL;
    if (first == NULL) {
        look->unsent = request;
        look->turn = looks->turn;
        look->under_way++;
        request->look = look;
        return false;
    }
    request->sent_at_ms = first->sent_at_ms;
    request->sharers = first->sharers;
    first->sharers = request;
    if (first->wire.timeout_ms > request->wire.timeout_ms)
        first->wire.timeout_ms = request->wire.timeout_ms;
    return true;
}

void sb_looks_end_turn(struct sb_looks *looks)
{
    looks->turn++;
}

void sb_looks_end(struct sb_look *look)
{
    look->under_way--;
    plan(look);
}

int sb_looks_create(struct sb_loop *loop, void (*tell_followers)(void *argument, const char *mutex),
                    void *argument, struct sb_looks **ret_looks)
{
    struct sb_looks *looks = sb_alloc_zero(sizeof *looks);

    if (looks == NULL)
        return SIMBA_ENOMEM;
    looks->loop = loop;
    looks->tell = tell_followers;
    looks->argument = argument;
    looks->turn = 1;
    *ret_looks = looks;
    return SIMBA_OK;
}

void sb_looks_destroy(struct sb_looks *looks)
{
    if (looks == NULL)
        return;
    for (size_t i = 0; i < BUCKETS; i++) {
        while (looks->buckets[i] != NULL) {
            struct sb_look *look = looks->buckets[i];

            looks->buckets[i] = look->next;
            sb_free(look);
        }
    }
    sb_free(looks);
}
