/*
 * shared_reads.c - a small table of the mutexes that are being read, or were shortly before.
 *
 * The rate is a bucket of hints, kept as the time at which it will be full again: each hint moves
 * that time by a gap, and may move it at most SB_READS_AT_ONCE gaps into the future.
 */
#include "runtime/shared_reads.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/hash.h"

#include <string.h>

#define BUCKETS 1024

struct sb_mutex_reads {
    struct sb_reads *table;
    struct sb_mutex_reads *next; /* in its bucket */
    struct sb_timer timer;
    struct sb_request *unsent; /* a READ that others may join in this turn */
    uint64_t turn;             /* of `unsent` */
    unsigned under_way;        /* READs without an answer */
    bool hinted;               /* and not told yet */
    int64_t full_at_ms;
    uint32_t hash;
    char mutex[];
};

struct sb_reads {
    struct sb_loop *loop;
    void (*tell)(void *argument, const char *mutex);
    void *argument;
    uint64_t turn;
    struct sb_mutex_reads *buckets[BUCKETS];
};

static void on_timer(struct sb_timer *timer);

static struct sb_mutex_reads *find(struct sb_reads *reads, const char *mutex, uint32_t hash)
{
    struct sb_mutex_reads *entry = reads->buckets[hash % BUCKETS];

    while (entry != NULL && (entry->hash != hash || strcmp(entry->mutex, mutex) != 0))
        entry = entry->next;
    return entry;
}

/* NULL when memory is short. */
static struct sb_mutex_reads *find_or_make(struct sb_reads *reads, const char *mutex)
{
    uint32_t hash = sb_hash(mutex);
    struct sb_mutex_reads *entry = find(reads, mutex, hash);
    size_t size = strlen(mutex) + 1;

    SB_CHECK(sb_loop_is_current(reads->loop), "reads are shared on the loop thread");
    if (entry != NULL)
        return entry;
    entry = sb_alloc_zero(sizeof *entry + size);
    if (entry == NULL)
        return NULL;
    entry->table = reads;
    entry->timer.fire = on_timer;
    entry->hash = hash;
    memcpy(entry->mutex, mutex, size);
    entry->next = reads->buckets[hash % BUCKETS];
    reads->buckets[hash % BUCKETS] = entry;
    return entry;
}

static void forget(struct sb_mutex_reads *entry)
{
    struct sb_mutex_reads **at = &entry->table->buckets[entry->hash % BUCKETS];

    SB_CHECK(entry->under_way == 0, "no READ of a mutex that is forgotten is under way");
    while (*at != NULL && *at != entry)
        at = &(*at)->next;
    SB_CHECK(*at == entry, "a mutex that is forgotten stands in its bucket");
    *at = entry->next;
    sb_loop_cancel(entry->table->loop, &entry->timer);
    sb_free(entry);
}

/* When the next hint may be told. */
static int64_t free_at(const struct sb_mutex_reads *entry)
{
    return entry->full_at_ms - (SB_READS_AT_ONCE - 1) * SB_READS_GAP_MS;
}

/* The timer tells what is left to be told, or forgets the entry. While a READ is under way its
 * answer comes back here. */
static void plan(struct sb_mutex_reads *entry)
{
    SB_CHECK(sb_loop_is_current(entry->table->loop), "reads are planned on the loop thread");
    if (entry->under_way > 0)
        return;
    if (!entry->hinted && entry->full_at_ms == 0)
        forget(entry); /* it was not hinted at */
    else
        sb_loop_arm(entry->table->loop, &entry->timer,
                    entry->hinted ? free_at(entry) : entry->full_at_ms);
}

static void tell(struct sb_mutex_reads *entry, int64_t now_ms)
{
    SB_CHECK(entry->under_way == 0, "a hint is told when the READ before it is answered");
    entry->hinted = false;
    entry->full_at_ms = (entry->full_at_ms > now_ms ? entry->full_at_ms : now_ms) + SB_READS_GAP_MS;
    entry->table->tell(entry->table->argument, entry->mutex);
}

static void on_timer(struct sb_timer *timer)
{
    struct sb_mutex_reads *entry = SB_CONTAINER(struct sb_mutex_reads, timer, timer);

    if (entry->under_way > 0)
        return;
    if (!entry->hinted) {
        forget(entry);
        return;
    }
    tell(entry, simba_now_ms());
    plan(entry);
}

void sb_reads_hint(struct sb_reads *reads, const char *mutex)
{
    struct sb_mutex_reads *entry = find_or_make(reads, mutex);
    int64_t now_ms = simba_now_ms();

    SB_CHECK(sb_loop_is_current(reads->loop), "hints are told on the loop thread");
    if (entry == NULL) {
        reads->tell(reads->argument, mutex);
        return;
    }
    entry->hinted = true;
    if (entry->under_way == 0 && free_at(entry) <= now_ms)
        tell(entry, now_ms);
    plan(entry);
}

/* The earliest of their time limits holds for all. */
bool sb_reads_join(struct sb_reads *reads, struct sb_request *request)
{
    struct sb_mutex_reads *entry = find_or_make(reads, request->wire.mutex);
    struct sb_request *first;

    SB_CHECK(request->wire.op == SIMBA_OP_READ && request->wire.id == NULL,
             "only a READ that names no contender is shared");
    if (entry == NULL)
        return false;
    first = entry->turn == reads->turn ? entry->unsent : NULL;
    if (first == NULL) {
        entry->unsent = request;
        entry->turn = reads->turn;
        entry->under_way++;
        request->shared = entry;
        return false;
    }
    SB_CHECK(first != request && request->sharers == NULL, "a request joins one READ, once");
    request->sent_at_ms = first->sent_at_ms;
    request->sharers = first->sharers;
    first->sharers = request;
    if (first->wire.timeout_ms > request->wire.timeout_ms)
        first->wire.timeout_ms = request->wire.timeout_ms;
    return true;
}

void sb_reads_end_turn(struct sb_reads *reads)
{
    SB_CHECK(sb_loop_is_current(reads->loop), "a turn ends on the loop thread");
    reads->turn++;
}

void sb_reads_end(struct sb_mutex_reads *entry)
{
    SB_CHECK(entry->under_way > 0, "a READ is answered once");
    entry->under_way--;
    plan(entry);
}

int sb_reads_create(struct sb_loop *loop, void (*tell_followers)(void *argument, const char *mutex),
                    void *argument, struct sb_reads **ret_reads)
{
    struct sb_reads *reads = sb_alloc_zero(sizeof *reads);

    if (reads == NULL)
        return SIMBA_ENOMEM;
    reads->loop = loop;
    reads->tell = tell_followers;
    reads->argument = argument;
    reads->turn = 1;
    *ret_reads = reads;
    return SIMBA_OK;
}

void sb_reads_destroy(struct sb_reads *reads)
{
    if (reads == NULL)
        return;
    for (size_t i = 0; i < BUCKETS; i++) {
        while (reads->buckets[i] != NULL) {
            struct sb_mutex_reads *entry = reads->buckets[i];

            SB_CHECK(entry->under_way == 0, "reads are freed when all are answered");
            reads->buckets[i] = entry->next;
            sb_free(entry);
        }
    }
    sb_free(reads);
}
