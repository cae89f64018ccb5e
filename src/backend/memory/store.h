/*
 * store.h - the records of one memory store: owners, wait queues and who watches.
 *
 * Plain data. Knows no lock, no clock and no host: the caller holds the store's lock, brings the
 * time, and tells the clients whatever these functions say should be told.
 */
#ifndef SB_BACKEND_MEMORY_STORE_H
#define SB_BACKEND_MEMORY_STORE_H

#include <simba/backend.h>

/* A contender that tried and lost; the oldest is first. */
struct sb_memory_waiter {
    struct sb_memory_waiter *next;
    simba_backend *client;
    int64_t since_ms;
    char id[SIMBA_ID_MAX + 1];
};

/* A client with observers of the mutex. */
struct sb_memory_watcher {
    struct sb_memory_watcher *next;
    simba_backend *client;
    unsigned count;
};

struct sb_memory_property {
    struct sb_memory_property *next;
    int64_t written_ms; /* on the wall clock */
    char name[SIMBA_PROPERTY_NAME_MAX + 1];
    char value[SIMBA_PROPERTY_VALUE_MAX + 1];
};

/* Kept when nobody owns, so that its revision never goes back. */
struct sb_memory_record {
    struct sb_memory_record *next; /* in its bucket */
    struct sb_memory_waiter *waiters;
    struct sb_memory_waiter *reserved; /* the waiter that the free mutex is kept for; NULL: none */
    int64_t reserved_until_ms;
    struct sb_memory_watcher *watchers;
    struct sb_memory_property *properties;
    struct simba_owner owner; /* `fence` is the revision; 0: it has only been watched so far */
    char mutex[SIMBA_MUTEX_MAX + 1];
};

#define SB_MEMORY_BUCKETS 1024

struct sb_memory_records {
    struct sb_memory_record *buckets[SB_MEMORY_BUCKETS];
    size_t count;
    uint64_t revision; /* the last one given out */
};

void sb_memory_records_free(struct sb_memory_records *records);

/* NULL where there is none. */
struct sb_memory_record *sb_memory_find(struct sb_memory_records *records, const char *mutex);

/* The same, created where it is missing; NULL when memory is short. */
struct sb_memory_record *sb_memory_ensure(struct sb_memory_records *records, const char *mutex);

/* Whether the mutex has an owner at that instant. */
bool sb_memory_is_owned(const struct sb_memory_record *record, int64_t now_ms);

/* Makes the request's id the owner with a full lease and a new revision. */
void sb_memory_grant(struct sb_memory_records *records, struct sb_memory_record *record,
                     const struct simba_request *request, int64_t now_ms);

/* Gives the owner a full lease again. */
void sb_memory_renew(struct sb_memory_record *record, const struct simba_request *request,
                     int64_t now_ms);

/* Nobody owns afterwards. */
void sb_memory_clear(struct sb_memory_record *record);

/* The wait queue. Joining twice keeps the older place. Where memory is short the contender does not
 * join the queue: it is not woken, and tries again by its own clock. */
void sb_memory_join(struct sb_memory_record *record, simba_backend *client, const char *id,
                    int64_t now_ms);
void sb_memory_leave(struct sb_memory_record *record, const simba_backend *client, const char *id);
size_t sb_memory_waiters(const struct sb_memory_record *record);

/* Moves the first of the queue into the reservation, if there is one and the reservation is over.
 * The one that it was for has lost its place. */
void sb_memory_reserve(struct sb_memory_record *record, int64_t until_ms);

/* How long the mutex is still kept for another waiter than this one; 0: it is not. */
int64_t sb_memory_reserved_ms(const struct sb_memory_record *record, const simba_backend *client,
                              const char *id, int64_t now_ms);

/* Counted from 1; 0: it does not wait. */
int64_t sb_memory_place(const struct sb_memory_record *record, const simba_backend *client,
                        const char *id);

/* The waiters, the oldest first, as the reply to a QUEUE tells them; a record of NULL has none. As
 * below. */
int sb_memory_queue(const struct sb_memory_record *record, struct simba_mutex_status **ret_list,
                    size_t *ret_count);

/* Adds or removes one observer of the client. Where memory is short the client is not told of
 * changes. */
void sb_memory_watch(struct sb_memory_record *record, simba_backend *client);
void sb_memory_unwatch(struct sb_memory_record *record, const simba_backend *client);

/* Takes a client out of all queues and watches. */
void sb_memory_forget(struct sb_memory_records *records, const simba_backend *client);

/* All mutexes that were ever owned, in the order of their names. *ret_list is the caller's, to be
 * given to sb_free. SIMBA_ENOMEM when memory is short. */
int sb_memory_list(const struct sb_memory_records *records, int64_t now_ms,
                   struct simba_mutex_status **ret_list, size_t *ret_count);

/* ---- property.c: the properties of a mutex --------------------------------------------------- */

/* An empty one without a time where there is none; a record of NULL has none. */
void sb_memory_property_get(const struct sb_memory_record *record, const char *name,
                            int64_t wall_ms, struct simba_property *ret_property);

/* SIMBA_ENOMEM when memory is short. */
int sb_memory_property_set(struct sb_memory_record *record, const char *name, const char *value,
                           int64_t wall_ms);

void sb_memory_properties_free(struct sb_memory_record *record);

#endif
