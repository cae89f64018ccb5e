/*
 * request.c - a request is sent when it is its turn, and its reply becomes an answer. Owns what is
 * known when a reply is missing or is an error; must not know what a script is told (call.c).
 *
 *     EVALSHA --> record         answered, or held back until replicas have it (quorum.c)
 *             --> NOSCRIPT       sent again with the script's text
 *             --> MOVED, ASK     sent again to another node of the cluster
 *             --> other errors   not carried out
 *             --> nothing        unknown, unless it never left or changes nothing
 */
#include "backend/redis/request/request.h"

#include "backend/redis/wire/resp.h"
#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/time.h"

#include <hiredis/hiredis.h>

/* ---- Answers --------------------------------------------------------------------------------- */

void sb_redis_request_reply(simba_backend *store, struct simba_request *request,
                            const struct sb_redis_record *record, const struct simba_error *error)
{
    struct simba_reply reply = SIMBA_REPLY_INIT;
    bool has_times = request->op == SIMBA_OP_ACQUIRE || request->op == SIMBA_OP_GUARD;
    int64_t transition_ms = has_times ? request->transition_ms : store->options.transition_ms;

    if (record == NULL) {
        reply.code = error->code;
        reply.error = error;
        store->host->reply(store->host, request, &reply);
        return;
    }
    reply.revision = record->revision;
    reply.waiters = record->waiters;
    reply.place = record->place;
    reply.as_of_ms = record->as_of_ms;
    reply.missed = record->missed;
    reply.reserved_left_ms = record->reserved_left_ms;
    if (record->owned) {
        reply.held_ms = record->held_ms;
        reply.fence = record->revision;
        reply.owner = record->owner;
        reply.transition_left_ms = record->left_ms;
        reply.ttl_left_ms = record->left_ms - transition_ms;
    }
    store->host->reply(store->host, request, &reply);
}

static bool is_own(const struct sb_redis_call *call, const struct sb_redis_record *record)
{
    return sb_redis_record_is_owned_by(record, call->request->id);
}

/* The lease of an acquire that its quorum has refused: the record after the release tells whether
 * it was released. */
static void end_giving_back(struct sb_redis_call *call, const struct sb_redis_record *record)
{
    const struct simba_error *why = sb_redis_quorum_reason(&call->member);
    bool is_left = is_own(call, record);
    struct simba_error error;

    sb_error_set_backend(&error, why->code, why->backend_code, "the lease %s released: %.200s",
                         is_left ? "could not be" : "was", why->text);
    if (is_left)
        sb_redis_call_lose(call, &error);
    else
        sb_redis_call_end(call, NULL, &error);
}

/* A lease that too few replicas have. An acquire is released and fails. A guard is not undone, but
 * the owner must not count on it: a replica that takes over may know only the older end of the
 * lease. */
static void on_settled(struct sb_redis_quorum_member *member, enum sb_redis_verdict verdict)
{
    struct sb_redis_call *call = SB_CONTAINER(struct sb_redis_call, member, member);

    SB_CHECK(sb_redis_call_needs_quorum(call), "only leases are held back");
    if (verdict == SB_REDIS_VERDICT_ENOUGH) {
        sb_redis_call_end(call, call->record, NULL);
    } else if (verdict == SB_REDIS_VERDICT_REFUSED && call->op == SIMBA_OP_ACQUIRE) {
        call->gives_back = true;
        call->op = SIMBA_OP_RELEASE;
        call->revision = call->record->revision;
        sb_redis_call_send_again(call, call->node);
    } else {
        sb_redis_call_lose(call, sb_redis_quorum_reason(member));
    }
}

/* ---- Records --------------------------------------------------------------------------------- */

/* A contender that has lost waits from now on; before, it had nothing to wait for. */
static void note_attempt(struct sb_redis_call *call, const struct sb_redis_record *record)
{
    if (is_own(call, record))
        sb_redis_waiting_won(call->store, call->request);
    else if (record->owned || record->reserved_left_ms > 0)
        sb_redis_waiting_lost(call->store, call->request, record->since_us);
}

/* A lease on a server counts from when the sentinels confirmed that it is the master, where that is
 * earlier. False: they do not. */
static bool is_confirmed(const struct sb_redis_call *call, const struct sb_wire_place *place,
                         struct sb_redis_record *record)
{
    const struct sb_redis_sentinels *sentinels = call->store->nodes.sentinels;

    if (sentinels == NULL || !is_own(call, record))
        return true;
    record->as_of_ms = sb_redis_sentinels_as_of(sentinels, place, call->made_ms);
    return record->as_of_ms != 0;
}

static void take_record(struct sb_redis_call *call, const struct sb_wire_place *place,
                        const redisReply *reply)
{
    simba_backend *store = call->store;
    const struct simba_request *request = call->request;
    struct sb_redis_record record;
    struct simba_error error;
    bool done = sb_redis_record_done(&record, reply, call->op, call->revision, request);

    if (!done && !sb_redis_record_read(&record, reply, call->op, request->id, &store->options)) {
        sb_error_set(&error, SIMBA_ESTORE, "the server sent an invalid reply");
        sb_redis_call_lose(call, &error);
        return;
    }
    if (call->op == SIMBA_OP_RELEASE)
        record.missed = !done && call->revision > 0;
    if (!is_confirmed(call, place, &record)) {
        sb_error_set(&error, SIMBA_EUNAVAILABLE, "the server that has answered is not the master");
        sb_redis_call_lose(call, &error);
        return;
    }
    if (record.revision > store->largest_token)
        store->largest_token = record.revision;
    if (call->op == SIMBA_OP_ACQUIRE)
        note_attempt(call, &record);
    if (call->gives_back) {
        end_giving_back(call, &record);
    } else if (call->member.quorum != NULL && done && is_own(call, &record)) {
        *call->record = record;
        sb_redis_quorum_hold(&call->member);
    } else {
        sb_redis_call_end(call, &record, NULL);
    }
}

/* ---- Error replies --------------------------------------------------------------------------- */

static void redirect(struct sb_redis_call *call, const struct sb_wire_place *from, const char *text)
{
    struct simba_error error;
    struct sb_redis_node *node =
        sb_redis_cluster_redirect(call->store->nodes.cluster, text, from, &call->asking, &error);

    if (node == NULL)
        sb_redis_call_fail(call, &error);
    else
        sb_redis_call_send_again(call, node);
}

static bool is_replica(const char *text)
{
    return sb_redis_failed_with(text, "READONLY") || sb_redis_failed_with(text, "MASTERDOWN");
}

/* The server is a replica by now, or has lost its place in the cluster. What a single URL leads to
 * may be another server when it is connected to again. */
static void look_elsewhere(struct sb_redis_node *node, const char *text,
                           const struct simba_error *error)
{
    struct sb_redis_cluster *cluster = node->nodes->cluster;

    if (cluster == NULL && is_replica(text))
        sb_redis_node_drop(node, error);
    else if (cluster != NULL && (is_replica(text) || sb_redis_failed_with(text, "CLUSTERDOWN")))
        sb_redis_cluster_doubt(cluster, &node->place);
}

/* The server does not say which of the keys it is. */
static void name_keys(const struct sb_wire_place *place, const char *mutex,
                      struct simba_error *error)
{
    char where[SB_WIRE_PLACE_TEXT_MAX];

    sb_wire_place_text(place, where);
    sb_error_set(error, SIMBA_ESTORE,
                 "the server at %.80s holds other data under one of the keys of the mutex '%s': "
                 "simba:{%s}, simba:{%s}:contender, simba:{%s}:fence, simba:{%s}:reserved, "
                 "simba:{%s}:property (WRONGTYPE)",
                 where, mutex, mutex, mutex, mutex, mutex, mutex);
}

/* With sentinels or a cluster the client can find the master. If the URL names one server, that
 * server is there but cannot be used. */
static void take_failure(struct sb_redis_call *call, const struct sb_wire_place *place,
                         const char *text)
{
    struct sb_redis_node *node = call->node;
    struct simba_error error;

    if (sb_redis_failed_with(text, "NOSCRIPT")) {
        call->needs_text = true;
        sb_redis_call_send_again(call, node);
    } else if (node->nodes->cluster != NULL && sb_redis_is_redirection(text)) {
        redirect(call, place, text);
    } else {
        sb_redis_fail(place, text, &error);
        if (call->store->options.mode == SB_REDIS_SINGLE && is_replica(text))
            error.code = SIMBA_ESTORE;
        if (sb_redis_failed_with(text, "WRONGTYPE"))
            name_keys(place, call->request->mutex, &error);
        sb_redis_call_fail(call, &error);
        look_elsewhere(node, text, &error);
    }
}

static void on_answered(struct sb_redis_command *command, const struct sb_redis_answer *answer)
{
    struct sb_redis_call *call = (struct sb_redis_call *)command;

    if (answer->reply == NULL)
        sb_redis_nodes_suspect(&call->store->nodes);
    if (answer->reply == NULL && answer->sent)
        sb_redis_call_lose(call, answer->error);
    else if (answer->reply == NULL)
        sb_redis_call_fail(call, answer->error);
    else if (answer->reply->type == REDIS_REPLY_ERROR)
        take_failure(call, answer->place, answer->reply->str);
    else
        take_record(call, answer->place, answer->reply);
}

/* ---- Beginning ------------------------------------------------------------------------------- */

/* The first turn of a call; a call that is sent again does not wait for a turn. LIST goes on by
 * itself. A call that may exceed its time limit gets that later limit from now on. */
static void begin(struct sb_redis_call *call)
{
    struct sb_redis_command *command = &call->command;
    struct simba_error error;

    if (call->op == SIMBA_OP_LIST) {
        sb_redis_call_end(call, NULL, NULL);
        return;
    }
    if (command->until_ms != 0)
        command->deadline_ms =
            sb_earlier(sb_later(simba_now_ms(), call->request->timeout_ms), command->until_ms);
    if (sb_redis_call_send(call, &error) == SIMBA_OK)
        return;
    sb_redis_nodes_suspect(&call->store->nodes);
    sb_redis_call_fail(call, &error);
}

static void on_expired(struct sb_redis_backlog_entry *entry, const struct simba_error *error)
{
    sb_redis_call_fail(SB_CONTAINER(struct sb_redis_call, entry, entry), error);
}

/* Begins now, or when it is its turn. */
static void schedule(struct sb_redis_call *call)
{
    struct sb_redis_backlog *backlog = call->node->backlog;

    sb_redis_reconnecting_start(call->node->commands, NULL); /* where this is its first use */
    if (sb_redis_backlog_is_empty(backlog) && sb_redis_reconnecting_has_room(call->node->commands))
        begin(call);
    else
        sb_redis_backlog_add(backlog, &call->entry, call->op, call->command.deadline_ms);
}

/* A renewal is of use until its lease is over, but a stop waits for it and needs what is left for
 * the release. One whose limit is that of a stop has no more time. */
static int64_t until_ms(const struct simba_request *request, int64_t now_ms)
{
    int64_t third_ms = request->transition_ms / 3;

    if (request->op != SIMBA_OP_GUARD || request->timeout_ms < third_ms ||
        request->timeout_ms >= 2 * third_ms)
        return 0;
    return sb_later(now_ms, 2 * third_ms);
}

/* NULL when memory is short: then the request has been answered. */
static struct sb_redis_call *create_call(simba_backend *store, struct simba_request *request,
                                         sb_redis_call_take *take)
{
    int64_t now_ms = simba_now_ms();
    struct sb_redis_call *call = sb_alloc_zero(sizeof *call);
    struct simba_error error;

    if (call == NULL) {
        sb_error_plain(&error, SIMBA_ENOMEM);
        take(store, request, NULL, &error);
        return NULL;
    }
    call->command.answered = on_answered;
    call->command.deadline_ms = sb_later(now_ms, request->timeout_ms);
    call->command.until_ms = until_ms(request, now_ms);
    call->entry.expired = on_expired;
    call->member.settled = on_settled;
    call->made_ms = now_ms;
    call->store = store;
    call->request = request;
    call->take = take;
    call->op = request->op;
    call->revision = request->op == SIMBA_OP_GUARD ? request->fence : request->revision;
    return call;
}

/* On a master that the sentinels have not confirmed for long a term would be short, and perhaps one
 * of two. */
void sb_redis_request_start(simba_backend *store, struct simba_request *request,
                            sb_redis_call_take *take)
{
    const struct sb_redis_sentinels *sentinels = store->nodes.sentinels;
    struct sb_redis_call *call;
    struct simba_error error;

    if (sentinels != NULL && request->op == SIMBA_OP_ACQUIRE &&
        sb_redis_sentinels_check(sentinels, request->ttl_ms, &error) != SIMBA_OK) {
        take(store, request, NULL, &error);
        return;
    }
    call = create_call(store, request, take);
    if (call == NULL)
        return;
    call->node = sb_redis_nodes_route(&store->nodes, request->mutex, &error);
    if (call->node == NULL) {
        sb_redis_nodes_suspect(&store->nodes);
        sb_redis_call_fail(call, &error);
    } else {
        schedule(call);
    }
}

void sb_redis_request_await_turn(struct sb_redis_node *node, simba_backend *store,
                                 struct simba_request *request, sb_redis_call_take *take)
{
    struct sb_redis_call *call = create_call(store, request, take);

    if (call == NULL)
        return;
    call->node = node;
    schedule(call);
}

void sb_redis_request_send_waiting(void *user, struct sb_redis_node *node)
{
    struct sb_redis_backlog_entry *entry;

    (void)user;
    while (sb_redis_reconnecting_has_room(node->commands) &&
           (entry = sb_redis_backlog_take(node->backlog)) != NULL)
        begin(SB_CONTAINER(struct sb_redis_call, entry, entry));
    sb_redis_quorum_ask(&node->quorum, node->commands);
}
