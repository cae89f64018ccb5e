/*
 * store.c - the records of one memory store. Owns their memory; must not know locks, clocks or
 * hosts.
 */
#include "backend/memory/store.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/time.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

static size_t bucket_of(const char *mutex)
{
    return sb_hash(mutex) % SB_MEMORY_BUCKETS;
}

/* A client that is closed has left all queues and watches. */
void sb_memory_records_free(struct sb_memory_records *records)
{
    for (size_t i = 0; i < SB_MEMORY_BUCKETS; i++) {
        while (records->buckets[i] != NULL) {
            struct sb_memory_record *record = records->buckets[i];

            SB_CHECK(record->waiters == NULL && record->reserved == NULL &&
                         record->watchers == NULL,
                     "a store ends behind its last client");
            records->buckets[i] = record->next;
            sb_memory_properties_free(record);
            sb_free(record);
        }
    }
}

/* ---- Records --------------------------------------------------------------------------------- */

struct sb_memory_record *sb_memory_find(struct sb_memory_records *records, const char *mutex)
{
    struct sb_memory_record *record = records->buckets[bucket_of(mutex)];

    while (record != NULL && strcmp(record->mutex, mutex) != 0)
        record = record->next;
    return record;
}

struct sb_memory_record *sb_memory_ensure(struct sb_memory_records *records, const char *mutex)
{
    struct sb_memory_record *record = sb_memory_find(records, mutex);
    struct sb_memory_record **bucket;

    if (record != NULL)
        return record;
    record = sb_alloc_zero(sizeof *record);
    if (record == NULL)
        return NULL;
    sb_text_copy(record->mutex, sizeof record->mutex, mutex);
    bucket = &records->buckets[bucket_of(mutex)];
    record->next = *bucket;
    *bucket = record;
    records->count++;
    return record;
}

bool sb_memory_is_owned(const struct sb_memory_record *record, int64_t now_ms)
{
    return record->owner.id[0] != '\0' && record->owner.transition_at_ms >= now_ms;
}

/* Another contender with the same id may have been granted more. */
void sb_memory_renew(struct sb_memory_record *record, const struct simba_request *request,
                     int64_t now_ms)
{
    struct simba_owner *owner = &record->owner;
    int64_t ttl_at_ms = sb_later(now_ms, request->ttl_ms);

    owner->acquired_at_ms = now_ms;
    owner->ttl_at_ms = sb_max(owner->ttl_at_ms, ttl_at_ms);
    owner->transition_at_ms =
        sb_max(owner->transition_at_ms, sb_later(ttl_at_ms, request->transition_ms));
}

void sb_memory_clear(struct sb_memory_record *record)
{
    uint64_t revision = record->owner.fence;

    record->owner = (struct simba_owner)SIMBA_OWNER_NONE;
    record->owner.fence = revision;
}

void sb_memory_grant(struct sb_memory_records *records, struct sb_memory_record *record,
                     const struct simba_request *request, int64_t now_ms)
{
    if (strcmp(record->owner.id, request->id) != 0)
        sb_memory_clear(record);
    sb_text_copy(record->owner.id, sizeof record->owner.id, request->id);
    record->owner.fence = ++records->revision;
    sb_memory_renew(record, request, now_ms);
    SB_CHECK(sb_memory_is_owned(record, now_ms), "a mutex that is granted has an owner");
}

/* ---- Wait queue ------------------------------------------------------------------------------ */

/* The link that points to the waiter, or the one at the end of the queue. */
static struct sb_memory_waiter **find_waiter(struct sb_memory_record *record,
                                             const simba_backend *client, const char *id)
{
    struct sb_memory_waiter **link = &record->waiters;

    while (*link != NULL && ((*link)->client != client || strcmp((*link)->id, id) != 0))
        link = &(*link)->next;
    return link;
}

static bool is_waiter(const struct sb_memory_waiter *waiter, const simba_backend *client,
                      const char *id)
{
    return waiter != NULL && waiter->client == client && strcmp(waiter->id, id) == 0;
}

static void end_reservation(struct sb_memory_record *record)
{
    sb_free(record->reserved);
    record->reserved = NULL;
}

/* One that the mutex was kept for, and that came too late, has its old place back. */
void sb_memory_join(struct sb_memory_record *record, simba_backend *client, const char *id,
                    int64_t now_ms)
{
    struct sb_memory_waiter **link = find_waiter(record, client, id);

    if (*link != NULL)
        return;
    if (is_waiter(record->reserved, client, id)) {
        record->reserved->next = record->waiters;
        record->waiters = record->reserved;
        record->reserved = NULL;
        return;
    }
    *link = sb_alloc_zero(sizeof **link);
    if (*link == NULL)
        return;
    (*link)->client = client;
    (*link)->since_ms = now_ms;
    sb_text_copy((*link)->id, sizeof(*link)->id, id);
}

void sb_memory_leave(struct sb_memory_record *record, const simba_backend *client, const char *id)
{
    struct sb_memory_waiter **link = find_waiter(record, client, id);
    struct sb_memory_waiter *waiter = *link;

    if (is_waiter(record->reserved, client, id))
        end_reservation(record);
    if (waiter == NULL)
        return;
    *link = waiter->next;
    sb_free(waiter);
}

void sb_memory_reserve(struct sb_memory_record *record, int64_t until_ms)
{
    end_reservation(record);
    record->reserved = record->waiters;
    record->reserved_until_ms = until_ms;
    if (record->reserved != NULL)
        record->waiters = record->reserved->next;
}

int64_t sb_memory_reserved_ms(const struct sb_memory_record *record, const simba_backend *client,
                              const char *id, int64_t now_ms)
{
    if (record->reserved == NULL || is_waiter(record->reserved, client, id))
        return 0;
    return sb_max(record->reserved_until_ms - now_ms, 0);
}

int64_t sb_memory_place(const struct sb_memory_record *record, const simba_backend *client,
                        const char *id)
{
    int64_t place = 1;

    for (const struct sb_memory_waiter *waiter = record->waiters; waiter != NULL;
         waiter = waiter->next, place++)
        if (waiter->client == client && strcmp(waiter->id, id) == 0)
            return place;
    return 0;
}

size_t sb_memory_waiters(const struct sb_memory_record *record)
{
    size_t count = 0;

    for (const struct sb_memory_waiter *waiter = record->waiters; waiter != NULL;
         waiter = waiter->next)
        count++;
    return count;
}

/* ---- Watchers -------------------------------------------------------------------------------- */

static struct sb_memory_watcher **find_watcher(struct sb_memory_record *record,
                                               const simba_backend *client)
{
    struct sb_memory_watcher **link = &record->watchers;

    while (*link != NULL && (*link)->client != client)
        link = &(*link)->next;
    return link;
}

void sb_memory_watch(struct sb_memory_record *record, simba_backend *client)
{
    struct sb_memory_watcher **link = find_watcher(record, client);

    if (*link == NULL) {
        *link = sb_alloc_zero(sizeof **link);
        if (*link == NULL)
            return;
        (*link)->client = client;
    }
    (*link)->count++;
}

void sb_memory_unwatch(struct sb_memory_record *record, const simba_backend *client)
{
    struct sb_memory_watcher **link = find_watcher(record, client);
    struct sb_memory_watcher *watcher = *link;

    if (watcher == NULL || --watcher->count > 0)
        return;
    *link = watcher->next;
    sb_free(watcher);
}

static void forget_in_record(struct sb_memory_record *record, const simba_backend *client)
{
    struct sb_memory_waiter **link = &record->waiters;
    struct sb_memory_watcher **watch = find_watcher(record, client);
    struct sb_memory_watcher *watcher = *watch;

    if (record->reserved != NULL && record->reserved->client == client)
        end_reservation(record);
    while (*link != NULL) {
        struct sb_memory_waiter *waiter = *link;

        if (waiter->client != client) {
            link = &waiter->next;
            continue;
        }
        *link = waiter->next;
        sb_free(waiter);
    }
    if (watcher != NULL) {
        *watch = watcher->next;
        sb_free(watcher);
    }
}

void sb_memory_forget(struct sb_memory_records *records, const simba_backend *client)
{
    for (size_t i = 0; i < SB_MEMORY_BUCKETS; i++)
        for (struct sb_memory_record *record = records->buckets[i]; record != NULL;
             record = record->next)
            forget_in_record(record, client);
}

/* ---- List ------------------------------------------------------------------------------------ */

static int compare_names(const void *left, const void *right)
{
    const struct simba_mutex_status *a = left;
    const struct simba_mutex_status *b = right;

    return strcmp(a->mutex, b->mutex);
}

int sb_memory_list(const struct sb_memory_records *records, int64_t now_ms,
                   struct simba_mutex_status **ret_list, size_t *ret_count)
{
    struct simba_mutex_status *list = sb_alloc_zero((records->count + 1) * sizeof *list);
    size_t count = 0;

    if (list == NULL)
        return SIMBA_ENOMEM;
    for (size_t i = 0; i < SB_MEMORY_BUCKETS; i++)
        for (const struct sb_memory_record *record = records->buckets[i]; record != NULL;
             record = record->next) {
            if (record->owner.fence == 0)
                continue;
            sb_text_copy(list[count].mutex, sizeof list->mutex, record->mutex);
            list[count].waiters = (int64_t)sb_memory_waiters(record);
            if (sb_memory_is_owned(record, now_ms))
                list[count].owner = record->owner;
            count++;
        }
    SB_CHECK(count <= records->count, "a list has room for all records");
    qsort(list, count, sizeof *list, compare_names);
    *ret_list = list;
    *ret_count = count;
    return SIMBA_OK;
}

int sb_memory_queue(const struct sb_memory_record *record, struct simba_mutex_status **ret_list,
                    size_t *ret_count)
{
    size_t most = record != NULL ? sb_memory_waiters(record) : 0;
    struct simba_mutex_status *list = sb_alloc_zero((most + 1) * sizeof *list);
    size_t count = 0;

    if (list == NULL)
        return SIMBA_ENOMEM;
    for (const struct sb_memory_waiter *waiter = record != NULL ? record->waiters : NULL;
         waiter != NULL; waiter = waiter->next) {
        list[count].owner.acquired_at_ms = waiter->since_ms;
        sb_text_copy(list[count++].owner.id, sizeof list->owner.id, waiter->id);
    }
    *ret_list = list;
    *ret_count = count;
    return SIMBA_OK;
}
