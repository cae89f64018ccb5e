/*
 * list.c - LIST and QUEUE.
 *
 * LIST reads all keys below the prefix, page by page and as they were at one revision, and takes
 * those for contenders whose name ends in the lease that holds them. QUEUE reads the contenders of
 * one mutex in the order of their creation.
 */
#include "backend/etcd/ops/ops.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define PAGE 1000
#define PAGE_OF_ALL 200 /* without a prefix there may be anything, and of any size */
#define MUTEXES_MAX 1000000
#define QUEUE_MAX 100000

/* ---- All mutexes ----------------------------------------------------------------------------- */

struct entry {
    struct sb_hash_node node;
    struct entry *next;
    struct simba_mutex_status status;
    int64_t created; /* of the first key */
};

struct listing {
    struct sb_hash_table table;
    struct entry *entries;
    int64_t revision; /* that all pages are of */
    char *from;       /* the next page begins here */
    size_t from_length;
};

static void ask_for_page(struct sb_etcd_job *job);

static void free_listing(void *more)
{
    struct listing *l = more;

    while (l->entries != NULL) {
        struct entry *entry = l->entries;

        l->entries = entry->next;
        sb_free(entry);
    }
    sb_hash_table_free(&l->table);
    sb_free(l->from);
}

static struct entry *entry_of(struct sb_hash_node *node)
{
    return node != NULL ? SB_CONTAINER(struct entry, node, node) : NULL;
}

static struct entry *ensure_entry(struct listing *l, const char *mutex)
{
    uint32_t hash = sb_hash(mutex);
    struct sb_hash_node *node = sb_hash_table_find(&l->table, NULL, hash);
    struct entry *entry;

    while (node != NULL && strcmp(entry_of(node)->status.mutex, mutex) != 0)
        node = sb_hash_table_find(&l->table, node, hash);
    if (node != NULL)
        return entry_of(node);
    entry = l->table.count < MUTEXES_MAX ? sb_alloc_zero(sizeof *entry) : NULL;
    if (entry == NULL)
        return NULL;
    sb_text_copy(entry->status.mutex, sizeof entry->status.mutex, mutex);
    entry->status.waiters = -1;
    entry->created = INT64_MAX;
    entry->next = l->entries;
    l->entries = entry;
    sb_hash_table_add(&l->table, &entry->node, hash);
    return entry;
}

/* False when memory is short. */
static bool take_key(struct listing *l, const char *prefix, const Etcd__KeyValue *kv)
{
    char mutex[SIMBA_MUTEX_MAX + 1];
    struct entry *entry;

    if (!sb_etcd_mutex_of(mutex, prefix, kv->key.data, kv->key.len, kv->lease))
        return true;
    entry = ensure_entry(l, mutex);
    if (entry == NULL)
        return false;
    entry->status.waiters++;
    if (kv->create_revision < entry->created) {
        entry->created = kv->create_revision;
        sb_etcd_id_of(entry->status.owner.id, kv->value.data, kv->value.len, kv->lease);
        entry->status.owner.acquired_at_ms = simba_now_ms();
        entry->status.owner.ttl_at_ms = SIMBA_INFINITE;
        entry->status.owner.transition_at_ms = SIMBA_INFINITE;
    }
    return true;
}

static int compare_names(const void *a, const void *b)
{
    const struct simba_mutex_status *one = a;
    const struct simba_mutex_status *other = b;

    return strcmp(one->mutex, other->mutex);
}

static void fail(struct sb_etcd_job *job, int code)
{
    struct simba_error error;

    sb_error_plain(&error, code);
    sb_etcd_job_fail(job, &error, false);
}

static void answer_list(struct sb_etcd_job *job)
{
    struct listing *l = job->more;
    size_t count = l->table.count;
    struct simba_mutex_status *list = sb_alloc((count + 1) * sizeof *list);
    struct simba_reply reply = SIMBA_REPLY_INIT;
    size_t index = 0;

    if (list == NULL) {
        fail(job, SIMBA_ENOMEM);
        return;
    }
    for (const struct entry *entry = l->entries; entry != NULL; entry = entry->next)
        list[index++] = entry->status;
    qsort(list, count, sizeof *list, compare_names);
    reply.list = list;
    reply.list_count = count;
    sb_etcd_job_answer(job, &reply);
    sb_free(list);
}

static bool note_next_page(struct listing *l, const Etcd__RangeAnswer *answer)
{
    const ProtobufCBinaryData *last = &answer->kvs[answer->n_kvs - 1]->key;

    sb_free(l->from);
    l->from = sb_alloc(last->len + 1);
    if (l->from == NULL)
        return false;
    memcpy(l->from, last->data, last->len);
    l->from[last->len] = '\0'; /* the first key behind the last one */
    l->from_length = last->len + 1;
    l->revision = l->revision != 0 ? l->revision : answer->header->revision;
    return true;
}

static void on_page(struct sb_etcd_job *job)
{
    struct listing *l = job->more;
    Etcd__RangeAnswer *answer = sb_etcd_job_range_answer(job);
    bool taken = true;

    if (answer == NULL)
        return;
    for (size_t i = 0; i < answer->n_kvs && taken; i++)
        taken = take_key(l, job->store->options.prefix, answer->kvs[i]);
    if (taken && answer->more && answer->n_kvs > 0)
        taken = note_next_page(l, answer);
    if (!taken)
        fail(job, SIMBA_ENOMEM);
    else if (answer->more && answer->n_kvs > 0 && job->request != NULL)
        ask_for_page(job);
    else
        answer_list(job);
    sb_etcd_free_message(answer);
}

/* From the prefix, or from behind the last page; without a prefix from the first key to the last,
 * both of which etcd writes as a zero byte. */
static void ask_for_page(struct sb_etcd_job *job)
{
    struct listing *l = job->more;
    const char *prefix = job->store->options.prefix;
    Etcd__Range message = ETCD__RANGE__INIT;
    char end[SB_ETCD_KEY_SIZE] = "";

    if (prefix[0] != '\0')
        sb_etcd_range_end(end, prefix);
    message.key = (ProtobufCBinaryData){prefix[0] != '\0' ? strlen(prefix) : 1, (uint8_t *)prefix};
    if (l->from != NULL)
        message.key = (ProtobufCBinaryData){l->from_length, (uint8_t *)l->from};
    message.range_end = (ProtobufCBinaryData){end[0] != '\0' ? strlen(end) : 1, (uint8_t *)end};
    message.limit = prefix[0] != '\0' ? PAGE : PAGE_OF_ALL;
    message.revision = l->revision;
    sb_etcd_job_call(job, "/etcdserverpb.KV/Range", &message.base, on_page);
}

void sb_etcd_list_start(simba_backend *store, struct simba_request *request)
{
    struct sb_etcd_job *job = sb_etcd_job_for(store, request, NULL, NULL, sizeof(struct listing));
    struct listing *l;

    if (job == NULL)
        return;
    l = job->more;
    job->free_more = free_listing;
    if (sb_hash_table_init(&l->table) == SIMBA_OK)
        ask_for_page(job);
    else
        fail(job, SIMBA_ENOMEM);
}

/* ---- The queue of one mutex ------------------------------------------------------------------ */

static void on_queue(struct sb_etcd_job *job)
{
    Etcd__RangeAnswer *answer = sb_etcd_job_range_answer(job);
    size_t count = answer != NULL && answer->n_kvs > 1 ? answer->n_kvs - 1 : 0;
    struct simba_reply reply = SIMBA_REPLY_INIT;
    struct simba_mutex_status *list;

    if (answer == NULL)
        return;
    list = sb_alloc_zero((count + 1) * sizeof *list);
    for (size_t i = 0; list != NULL && i < count; i++) {
        const Etcd__KeyValue *kv = answer->kvs[i + 1];

        sb_etcd_id_of(list[i].owner.id, kv->value.data, kv->value.len, kv->lease);
    }
    reply.list = list;
    reply.list_count = count;
    if (list != NULL)
        sb_etcd_job_answer(job, &reply);
    else
        fail(job, SIMBA_ENOMEM);
    sb_free(list);
    sb_etcd_free_message(answer);
}

void sb_etcd_queue_start(simba_backend *store, struct simba_request *request)
{
    struct sb_etcd_job *job = sb_etcd_job_for(store, request, NULL, NULL, 0);
    struct sb_etcd_range range;

    if (job == NULL)
        return;
    sb_etcd_range_first(&range, store->options.prefix, request->mutex);
    range.message.limit = QUEUE_MAX;
    sb_etcd_job_call(job, "/etcdserverpb.KV/Range", &range.message.base, on_queue);
}
