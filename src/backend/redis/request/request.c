/*
 * request.c - a request is sent when it is its turn, and its reply becomes an answer. Owns what is known when a
 * reply is missing or is an error; must not know connections, nor what a script is told (send.c).
 *
 *     EVALSHA --> record         answered, or held back until replicas have it (quorum.c)
 *             --> NOSCRIPT       sent again with the script's text
 *             --> MOVED, ASK     sent again to another node of the cluster
 *             --> other errors   not carried out
 *             --> nothing        unknown, unless it never left or changes nothing
 */
#include "backend/redis/request/request.h"

#include "backend/redis/request/backlog.h"
#include "backend/redis/topology/cluster.h"
#include "backend/redis/failure.h"
#include "backend/redis/request/call.h"
#include "backend/redis/request/leave.h"
#include "backend/redis/request/quorum.h"
#include "backend/redis/topology/sentinels.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/time.h"

#include <hiredis/hiredis.h>
#include <string.h>

#define ATTEMPTS_MAX 8 /* of one request, by scripts that are missing and nodes that moved */

/* ---- Answers -------------------------------------------------------------------------------- */

static void reply_error(simba_backend *store, struct simba_request *request,
                        const struct simba_error *error)
{
    struct simba_reply reply = SIMBA_REPLY_INIT;

    reply.code = error->code;
    reply.error = error;
    store->host->reply(store->host, request, &reply);
}

void sb_redis_request_reply(simba_backend *store, struct simba_request *request,
                            const struct sb_redis_record *record, const struct simba_error *error)
{
    struct simba_reply reply = SIMBA_REPLY_INIT;
    bool knows_its_times = request->op == SIMBA_OP_ACQUIRE || request->op == SIMBA_OP_GUARD;
    int64_t transition_ms = knows_its_times ? request->transition_ms : store->options.transition_ms;

    if (record == NULL) {
        reply_error(store, request, error);
        return;
    }
    reply.revision = record->revision;
    reply.waiters = record->waiters;
    reply.place = record->place;
    reply.as_of_ms = record->as_of_ms;
    if (record->owned) {
        reply.fence = record->revision;
        reply.owner = record->owner;
        reply.transition_left_ms = record->left_ms;
        reply.ttl_left_ms = record->left_ms - transition_ms;
    }
    store->host->reply(store->host, request, &reply);
}

static void end_job(struct sb_redis_call *job, const struct sb_redis_record *record,
                    const struct simba_error *error)
{
    job->take(job->store, job->request, record, error);
    sb_redis_quorum_leave(job);
    sb_redis_quorum_forget(job);
    sb_free(job->record);
    sb_free(job);
}

/* It may or may not have been carried out; a READ changes nothing in either case. */
void sb_redis_call_lose(struct sb_redis_call *job, const struct simba_error *why)
{
    struct simba_error error = *why;

    if (job->request->op != SIMBA_OP_READ)
        error.code = SIMBA_EUNKNOWN;
    end_job(job, NULL, &error);
}

void sb_redis_call_fail(struct sb_redis_call *job, const struct simba_error *error)
{
    if (job->refused_by != NULL) {
        sb_redis_call_lose(job, error); /* the lease is still there */
        return;
    }
    end_job(job, NULL, error);
}

static bool is_mine(const struct sb_redis_call *job, const struct sb_redis_record *record)
{
    return record->owned && job->request->id != NULL &&
           strcmp(record->owner, job->request->id) == 0;
}

/* What the release has left decides whether the lease was given back. */
static void end_giving_back(struct sb_redis_call *job, const struct sb_redis_record *record)
{
    const struct simba_error *why = sb_redis_quorum_reason(job->refused_by);
    bool is_left = is_mine(job, record);
    struct simba_error error;

    sb_error_set_backend(&error, why->code, why->backend_code, "the lease %s given back: %.200s",
                         is_left ? "could not be" : "was", why->text);
    if (is_left)
        sb_redis_call_lose(job, &error);
    else
        end_job(job, NULL, &error);
}

void sb_redis_call_succeed(struct sb_redis_call *job, const struct sb_redis_record *record)
{
    if (job->refused_by != NULL)
        end_giving_back(job, record);
    else
        end_job(job, record, NULL);
}

/* ---- Records -------------------------------------------------------------------------------- */

/* Who has lost waits, and listens, from now on: before, nobody had a reason to wake it. Who has gone meanwhile must
 * not stand in the queue, where the subscription that lingers makes it look alive. */
static void begin_wait(struct sb_redis_call *job, const struct sb_redis_record *record)
{
    struct sb_redis_listener *listener = sb_redis_call_listener(job);

    if (listener == NULL)
        return;
    if (listener->lingers) {
        sb_redis_leave_queue(job->store, listener);
        return;
    }
    sb_redis_listeners_begin_wait(&job->store->listeners, listener, record->since_us);
    sb_redis_store_subscribe(job->store, listener);
}

/* Where nobody waits nobody is looked up. */
static void end_wait(struct sb_redis_call *job)
{
    struct sb_redis_listeners *listeners = &job->store->listeners;
    struct sb_redis_listener *listener =
        listeners->waiting > 0 ? sb_redis_call_listener(job) : NULL;

    if (listener != NULL)
        sb_redis_listeners_end_wait(listeners, listener);
}

static void note_attempt(struct sb_redis_call *job, const struct sb_redis_record *record)
{
    if (is_mine(job, record))
        end_wait(job);
    else if (record->owned)
        begin_wait(job, record);
}

/* A release that has told a waiter says whom behind the token. */
static bool has_told(const struct sb_redis_call *job, const redisReply *reply)
{
    return job->op == SIMBA_OP_RELEASE && reply->type == REDIS_REPLY_ARRAY &&
           reply->elements == 2 && reply->element[1]->type == REDIS_REPLY_STRING;
}

/* A lease on a server counts from when the sentinels confirmed that it is the master, where that is earlier. False:
 * they do not. */
static bool is_vouched_for(const struct sb_redis_call *job, const struct sb_redis_place *place,
                           struct sb_redis_record *record)
{
    const struct sb_redis_sentinels *sentinels = job->store->sentinels;

    if (sentinels == NULL || !is_mine(job, record))
        return true;
    record->as_of_ms = sb_redis_sentinels_as_of(sentinels, place, job->made_ms);
    return record->as_of_ms != 0;
}

static void take_record(struct sb_redis_call *job, const struct sb_redis_place *place,
                        const redisReply *reply)
{
    const redisReply *token = has_told(job, reply) ? reply->element[0] : reply;
    struct simba_error error;
    struct sb_redis_record record;
    bool done = sb_redis_record_done(&record, token, job->op, job->revision, job->request);

    if (!done &&
        !sb_redis_record_read(&record, reply, job->op, job->request->id, &job->store->options)) {
        sb_error_set(&error, SIMBA_ESTORE, "the server sent a reply that makes no sense");
        sb_redis_call_lose(job, &error);
        return;
    }
    if (!is_vouched_for(job, place, &record)) {
        sb_error_set(&error, SIMBA_EUNAVAILABLE, "the server that has answered is not the master");
        sb_redis_call_lose(job, &error);
        return;
    }
    if (record.revision > job->store->seen)
        job->store->seen = record.revision;
    if (has_told(job, reply))
        sb_redis_yield_note(&job->store->told, job->request->mutex, job->request->id);
    if (job->op == SIMBA_OP_ACQUIRE)
        note_attempt(job, &record);
    if (job->quorum != NULL && done && is_mine(job, &record))
        sb_redis_quorum_hold(job, &record);
    else
        sb_redis_call_succeed(job, &record);
}

/* ---- Error replies -------------------------------------------------------------------------- */

static void send_again(struct sb_redis_call *job, struct sb_redis_node *node)
{
    struct simba_error error;
    int code;

    job->node = node;
    sb_redis_quorum_leave(job);
    sb_redis_reconnecting_start(node->commands, NULL);
    if (sb_redis_reconnecting_is_starting(node->commands)) {
        sb_redis_backlog_add(node->backlog, job);
        return;
    }
    if (job->once)
        code = sb_error_set(&error, SIMBA_EUNAVAILABLE, "it would come behind later requests");
    else if (++job->attempts > ATTEMPTS_MAX)
        code = sb_error_set(&error, SIMBA_EUNAVAILABLE,
                            "the store sent a request away again and again");
    else
        code = sb_redis_call_send(job, &error);
    if (code != SIMBA_OK)
        sb_redis_call_fail(job, &error);
    sb_redis_quorum_ask(node); /* also for those that had joined before the failure */
    sb_redis_reconnecting_flush(node->commands);
}

static void redirect(struct sb_redis_call *job, const struct sb_redis_place *from, const char *text)
{
    struct simba_error error;
    struct sb_redis_node *node =
        sb_redis_cluster_redirect(job->store->cluster, text, from, &job->asking, &error);

    if (node == NULL)
        sb_redis_call_fail(job, &error);
    else
        send_again(job, node);
}

static bool is_replica(const char *text)
{
    return sb_redis_failed_with(text, "READONLY") || sb_redis_failed_with(text, "MASTERDOWN");
}

/* The server is a replica by now, or has lost its place in the cluster. What a single URL leads to may be
 * another server when it is connected to again. */
static void look_elsewhere(struct sb_redis_node *node, const char *text,
                           const struct simba_error *error)
{
    if (node->store->cluster == NULL && is_replica(text))
        sb_redis_node_drop(node, error);
    else if (node->store->cluster != NULL &&
             (is_replica(text) || sb_redis_failed_with(text, "CLUSTERDOWN")))
        sb_redis_cluster_doubt(node->store->cluster, &node->place);
}

/* Sentinels and clusters lead to the master. Where the URL names one server, that one is there and of no use. */
static void fail_by_reply(struct sb_redis_call *job, const struct sb_redis_place *place,
                          const char *text, struct simba_error *error)
{
    sb_redis_fail(place, text, error);
    if (job->store->options.mode == SB_REDIS_SINGLE && is_replica(text))
        error->code = SIMBA_ESTORE;
}

static void take_failure(struct sb_redis_call *job, const struct sb_redis_place *place,
                         const char *text)
{
    struct sb_redis_node *node = job->node;
    struct simba_error error;

    if (sb_redis_failed_with(text, "NOSCRIPT")) {
        job->needs_text = true;
        send_again(job, node);
    } else if (job->store->cluster != NULL && sb_redis_is_redirection(text)) {
        redirect(job, place, text);
    } else {
        fail_by_reply(job, place, text, &error);
        sb_redis_call_fail(job, &error);
        look_elsewhere(node, text, &error);
    }
}

/* A master of a cluster that does not answer may have been replaced. */
static void suspect(simba_backend *store)
{
    if (store->cluster != NULL)
        sb_redis_cluster_refresh(store->cluster);
}

static void on_answered(struct sb_redis_command *command, const struct sb_redis_answer *answer)
{
    struct sb_redis_call *job = (struct sb_redis_call *)command;

    if (answer->reply == NULL)
        suspect(job->store);
    if (answer->reply == NULL && answer->sent)
        sb_redis_call_lose(job, answer->error);
    else if (answer->reply == NULL)
        sb_redis_call_fail(job, answer->error);
    else if (answer->reply->type == REDIS_REPLY_ERROR)
        take_failure(job, answer->place, answer->reply->str);
    else
        take_record(job, answer->place, answer->reply);
}

/* ---- Beginning ------------------------------------------------------------------------------ */

void sb_redis_call_give_back(struct sb_redis_call *job)
{
    job->refused_by = job->quorum;
    job->quorum = NULL;
    job->op = SIMBA_OP_RELEASE;
    job->revision = job->record->revision;
    send_again(job, job->node);
}

/* For who keeps its turn beyond its time limit the limit begins with the turn. */
static void begin_limit(struct sb_redis_call *job)
{
    struct sb_redis_command *command = &job->command;

    if (command->until_ms == 0)
        return;
    command->deadline_ms = sb_later(simba_now_ms(), job->request->timeout_ms);
    if (command->deadline_ms > command->until_ms)
        command->deadline_ms = command->until_ms;
}

/* The first time: what is sent again has had its turn. A LIST does the rest by itself. */
static void begin(struct sb_redis_call *job)
{
    struct simba_error error;

    if (job->op == SIMBA_OP_LIST) {
        end_job(job, NULL, NULL);
        return;
    }
    begin_limit(job);
    if (sb_redis_call_send(job, &error) == SIMBA_OK)
        return;
    suspect(job->store);
    sb_redis_call_fail(job, &error);
}

/* Now, when it is its turn, or when whoever its contender has told to try had the time for it. */
static void schedule(struct sb_redis_call *job, int64_t now_ms)
{
    struct sb_redis_backlog *backlog = job->node->backlog;
    int64_t until_ms = job->op == SIMBA_OP_ACQUIRE
                           ? sb_redis_yield_until(&job->store->told, job->request, now_ms)
                           : 0;

    sb_redis_reconnecting_start(job->node->commands, NULL); /* where this is its first use */
    if (until_ms > now_ms)
        sb_redis_backlog_hold(backlog, job, until_ms);
    else if (sb_redis_backlog_is_empty(backlog) &&
             sb_redis_reconnecting_has_room(job->node->commands))
        begin(job);
    else
        sb_redis_backlog_add(backlog, job);
}

/* A renewal is of use until its lease is over, but a stop waits for it and needs what is left for the release. One
 * whose limit is that of a stop has no more time. */
static int64_t until_ms(const struct simba_request *request, int64_t now_ms)
{
    int64_t third_ms = request->transition_ms / 3;

    if (request->op != SIMBA_OP_GUARD || request->timeout_ms < third_ms ||
        request->timeout_ms >= 2 * third_ms)
        return 0;
    return sb_later(now_ms, 2 * third_ms);
}

/* The token that a request names: of the term to renew, or of the record to give back. */
static uint64_t token_of(const struct simba_request *request)
{
    return request->op == SIMBA_OP_GUARD ? request->fence : request->revision;
}

/* NULL when memory is short: then the request has been answered. */
static struct sb_redis_call *create_job(simba_backend *store, struct simba_request *request,
                                        sb_redis_request_take *take, int64_t now_ms)
{
    struct sb_redis_call *job = sb_alloc_zero(sizeof *job);
    struct simba_error error;

    if (job == NULL) {
        sb_error_plain(&error, SIMBA_ENOMEM);
        take(store, request, NULL, &error);
        return NULL;
    }
    job->command.answered = on_answered;
    job->command.deadline_ms = sb_later(now_ms, request->timeout_ms);
    job->command.until_ms = until_ms(request, now_ms);
    job->made_ms = now_ms;
    job->store = store;
    job->request = request;
    job->take = take;
    job->op = request->op;
    job->revision = token_of(request);
    return job;
}

static void start(simba_backend *store, struct simba_request *request, sb_redis_request_take *take,
                  bool once)
{
    int64_t now_ms = simba_now_ms();
    struct sb_redis_call *job = create_job(store, request, take, now_ms);
    struct simba_error error;

    if (job == NULL)
        return;
    job->once = once;
    job->node = sb_redis_store_route(store, request->mutex, &error);
    if (job->node == NULL) {
        suspect(store);
        sb_redis_call_fail(job, &error);
    } else {
        schedule(job, now_ms);
    }
}

/* Whether the store may be asked for it. On a master that the sentinels have not confirmed for long a term would be
 * short, and perhaps one of two. */
static int may_begin(const simba_backend *store, const struct simba_request *request,
                     struct simba_error *error)
{
    if (store->sentinels == NULL || request->op != SIMBA_OP_ACQUIRE)
        return SIMBA_OK;
    return sb_redis_sentinels_check(store->sentinels, request->ttl_ms, error);
}

void sb_redis_request_start(simba_backend *store, struct simba_request *request,
                            sb_redis_request_take *take)
{
    struct simba_error error;

    if (may_begin(store, request, &error) == SIMBA_OK)
        start(store, request, take, false);
    else
        take(store, request, NULL, &error);
}

void sb_redis_request_start_once(simba_backend *store, struct simba_request *request,
                                 sb_redis_request_take *take)
{
    start(store, request, take, true);
}

void sb_redis_request_await_turn(struct sb_redis_node *node, struct simba_request *request,
                                 sb_redis_request_take *take)
{
    int64_t now_ms = simba_now_ms();
    struct sb_redis_call *job = create_job(node->store, request, take, now_ms);

    if (job == NULL)
        return;
    job->node = node;
    schedule(job, now_ms);
}

void sb_redis_request_go_on(struct sb_redis_node *node)
{
    struct sb_redis_call *job;

    while (sb_redis_reconnecting_has_room(node->commands) &&
           (job = sb_redis_backlog_take(node->backlog)) != NULL)
        begin(job);
    sb_redis_quorum_ask(node);
}

void sb_redis_request_batch_end(simba_backend *store)
{
    for (struct sb_redis_node *node = store->nodes; node != NULL; node = node->next)
        sb_redis_quorum_ask(node);
    sb_redis_store_flush(store);
}
