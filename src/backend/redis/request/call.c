/*
 * call.c - the call of a script: what it says, what its reply means, and its end. Owns the
 * arguments and the parsing of replies; must not know when a call may be sent, nor what follows
 * from a reply. Any client can write the keys, so replies are checked.
 */
#include "backend/redis/request/request.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/text.h"
#include "base/time.h"

#include <hiredis/hiredis.h>
#include <string.h>

#define ATTEMPTS_MAX 8 /* of one request, by scripts that are missing and nodes that moved */
#define TOKEN_END ((int64_t)1 << 53) /* no script counts so far */

/* ---- Replies --------------------------------------------------------------------------------- */

/* Whatever the key holds becomes a printable name of the length of an id. One that was cut or
 * replaced until it looks like ours is changed once more. */
static void read_owner(struct sb_redis_record *record, const redisReply *text, const char *id)
{
    char *owner = record->owner;

    sb_text_printable(owner, sizeof record->owner, text->str, text->len);
    if (id == NULL)
        return;
    if (text->len == strlen(id) && memcmp(text->str, id, text->len) == 0)
        sb_text_copy(owner, sizeof record->owner, id);
    else if (strcmp(owner, id) == 0)
        owner[0] = owner[0] == '?' ? '!' : '?';
}

static bool is_token(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_INTEGER && reply->integer >= 0 && reply->integer < TOKEN_END;
}

/* The number behind the token; -1 if there is none. */
static int64_t read_number(const redisReply *reply, size_t index)
{
    if (reply->elements <= index || reply->element[index]->type != REDIS_REPLY_INTEGER ||
        reply->element[index]->integer < 0)
        return -1;
    return reply->element[index]->integer;
}

static bool is_property(enum simba_op op)
{
    return op == SIMBA_OP_GET_PROPERTY || op == SIMBA_OP_SET_PROPERTY;
}

static bool is_tending(enum simba_op op)
{
    return op == SIMBA_OP_FORGET || op == SIMBA_OP_RAISE;
}

/* What stands behind the token of a property. */
static bool read_property(struct sb_redis_record *record, const redisReply *reply)
{
    if (reply->elements < 6 || (reply->element[3]->type != REDIS_REPLY_STRING &&
                                reply->element[3]->type != REDIS_REPLY_NIL))
        return false;
    record->property = reply->element[3];
    record->store_ms = read_number(reply, 4);
    record->written = read_number(reply, 5) > 0;
    return record->store_ms > 0;
}

/* A key without an expiry is a mistake of another client: it is read again after a lease. */
bool sb_redis_record_read(struct sb_redis_record *record, const redisReply *reply, enum simba_op op,
                          const char *id, const struct sb_redis_options *options)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 3 ||
        (reply->element[0]->type != REDIS_REPLY_STRING &&
         reply->element[0]->type != REDIS_REPLY_NIL) ||
        reply->element[1]->type != REDIS_REPLY_INTEGER || !is_token(reply->element[2]))
        return false;
    memset(record, 0, sizeof *record);
    record->owned = reply->element[0]->type == REDIS_REPLY_STRING;
    if (record->owned) {
        read_owner(record, reply->element[0], id);
        record->left_ms = reply->element[1]->integer;
        if (record->left_ms < 0)
            record->left_ms = options->lease_ms;
    }
    record->revision = (uint64_t)reply->element[2]->integer;
    if (op == SIMBA_OP_ACQUIRE) {
        if (!record->owned)
            record->reserved_left_ms = sb_max(reply->element[1]->integer, 0);
        record->since_us = sb_max(read_number(reply, 3), 0);
        record->place = sb_max(read_number(reply, 4), 0);
    }
    record->waiters = op == SIMBA_OP_READ ? read_number(reply, 3) : -1;
    record->held_ms = op == SIMBA_OP_READ ? read_number(reply, 4) : -1;
    if (op == SIMBA_OP_QUEUE) {
        record->since_us = sb_max(read_number(reply, 4), 0);
        record->queue = reply->elements > 5 ? reply->element[5] : NULL;
        return record->queue != NULL && record->queue->type == REDIS_REPLY_ARRAY;
    }
    if (is_property(op))
        return read_property(record, reply);
    if (is_tending(op))
        record->missed = read_number(reply, 3) != 1;
    return true;
}

/* What the scripts promise: a new term has a larger token than the contender knows, and a renewed
 * or released term has the same token. A READ promises nothing. So the reply to another command is
 * not taken for a lease. */
static bool is_promised(enum simba_op op, uint64_t token, uint64_t known)
{
    switch (op) {
    case SIMBA_OP_ACQUIRE:
        return token > known;
    case SIMBA_OP_GUARD:
        return known == 0 || token == known;
    case SIMBA_OP_RELEASE:
        return token == known;
    default:
        return false;
    }
}

bool sb_redis_record_done(struct sb_redis_record *record, const redisReply *reply, enum simba_op op,
                          uint64_t known, const struct simba_request *request)
{
    bool owned = op == SIMBA_OP_ACQUIRE || op == SIMBA_OP_GUARD;

    if (!is_token(reply) || reply->integer == 0 ||
        !is_promised(op, (uint64_t)reply->integer, known))
        return false;
    memset(record, 0, sizeof *record);
    record->owned = owned;
    record->revision = (uint64_t)reply->integer;
    record->waiters = -1;
    record->held_ms = -1;
    if (owned) {
        sb_text_copy(record->owner, sizeof record->owner, request->id);
        record->left_ms = request->ttl_ms + request->transition_ms;
    }
    return true;
}

bool sb_redis_record_is_owned_by(const struct sb_redis_record *record, const char *id)
{
    return record->owned && id != NULL && strcmp(record->owner, id) == 0;
}

/* ---- The end --------------------------------------------------------------------------------- */

void sb_redis_call_end(struct sb_redis_call *call, const struct sb_redis_record *record,
                       const struct simba_error *error)
{
    SB_CHECK(call->entry.next == NULL && call->entry.child == NULL,
             "a call that waits for its turn does not end");
    SB_CHECK(call->member.next == NULL, "a call that is held back by its quorum does not end");
    call->take(call->store, call->request, record, error);
    sb_redis_quorum_leave(&call->member);
    sb_free(call->record);
    sb_free(call);
}

static bool changes(enum simba_op op)
{
    return op != SIMBA_OP_READ && op != SIMBA_OP_QUEUE && op != SIMBA_OP_GET_PROPERTY;
}

void sb_redis_call_lose(struct sb_redis_call *call, const struct simba_error *why)
{
    struct simba_error error = *why;

    if (changes(call->request->op))
        error.code = SIMBA_EUNKNOWN;
    sb_redis_call_end(call, NULL, &error);
}

void sb_redis_call_fail(struct sb_redis_call *call, const struct simba_error *error)
{
    if (call->gives_back)
        sb_redis_call_lose(call, error); /* the lease is still there */
    else
        sb_redis_call_end(call, NULL, error);
}

/* ---- Arguments ------------------------------------------------------------------------------- */

static enum sb_redis_script_name script_of(enum simba_op op)
{
    switch (op) {
    case SIMBA_OP_ACQUIRE:
        return SB_REDIS_SCRIPT_ACQUIRE;
    case SIMBA_OP_GUARD:
        return SB_REDIS_SCRIPT_GUARD;
    case SIMBA_OP_RELEASE:
        return SB_REDIS_SCRIPT_RELEASE;
    case SIMBA_OP_GET_PROPERTY:
    case SIMBA_OP_SET_PROPERTY:
        return SB_REDIS_SCRIPT_PROPERTY;
    case SIMBA_OP_FORGET:
    case SIMBA_OP_RAISE:
        return SB_REDIS_SCRIPT_TEND;
    default:
        return SB_REDIS_SCRIPT_READ;
    }
}

/* EVALSHA, or EVAL when the server has said that it does not know the script and the text has not
 * been sent since: many calls may be told so at once. */
static void name_script(struct sb_redis_call *call, struct sb_redis_argument arguments[2])
{
    enum sb_redis_script_name name = script_of(call->op);
    struct sb_redis_loaded_scripts *scripts = &call->node->scripts;

    scripts->calls++;
    if (call->needs_text && scripts->sent_at[name] <= call->sent_as) {
        arguments[0] = (struct sb_redis_argument){"EVAL", 4};
        arguments[1] = sb_redis_argument_text(sb_redis_scripts[name].text);
        scripts->sent_at[name] = scripts->calls;
    } else {
        arguments[0] = (struct sb_redis_argument){"EVALSHA", 7};
        arguments[1] = (struct sb_redis_argument){sb_redis_scripts[name].sha1, 40};
    }
    call->needs_text = false;
    call->sent_as = scripts->calls;
}

/* An ACQUIRE or RELEASE that heeds and makes reservations has the fourth key. */
static bool has_reservations(const struct sb_redis_call *call)
{
    return call->request->reserve_ms > 0 &&
           (call->op == SIMBA_OP_ACQUIRE || call->op == SIMBA_OP_RELEASE);
}

/* The key behind the first three; 0: the script has none. */
static size_t fourth_key(const struct sb_redis_call *call)
{
    if (is_property(call->op) || is_tending(call->op))
        return SB_REDIS_KEY_PROPERTY;
    return has_reservations(call) ? SB_REDIS_KEY_RESERVED : 0;
}

static size_t add_property(const struct simba_request *request, struct sb_redis_argument *arguments)
{
    size_t count = 0;

    arguments[count++] = sb_redis_argument_text(request->property);
    if (request->op == SIMBA_OP_SET_PROPERTY)
        arguments[count++] = sb_redis_argument_text(request->value);
    if (request->op == SIMBA_OP_SET_PROPERTY && request->id != NULL)
        arguments[count++] = sb_redis_argument_text(request->id);
    return count;
}

/* What only some acquires need. The position of a value says what it is, so a later one needs those
 * before it as well. */
static size_t add_optional_values(const struct sb_redis_call *call,
                                  struct sb_redis_argument *arguments,
                                  struct sb_redis_digits digits[2])
{
    bool asks_place = call->request->asks_place && !has_reservations(call);
    int64_t since_us = sb_redis_waiting_since_us(call->store, call->request);
    size_t count = 0;

    if (call->revision > 0 || since_us > 0 || asks_place)
        arguments[count++] = sb_redis_argument_number((int64_t)call->revision, &digits[0]);
    if (since_us > 0 || asks_place)
        arguments[count++] = sb_redis_argument_number(since_us, &digits[1]);
    if (asks_place)
        arguments[count++] = (struct sb_redis_argument){"place", 5};
    return count;
}

/* Behind the keys: what each script documents as its ARGV. */
static size_t add_values(const struct sb_redis_call *call, struct sb_redis_argument *arguments,
                         struct sb_redis_digits digits[4])
{
    const struct simba_request *r = call->request;
    size_t count = 0;

    if (call->op == SIMBA_OP_QUEUE)
        arguments[count++] = (struct sb_redis_argument){"queue", 5};
    if (call->op == SIMBA_OP_READ || call->op == SIMBA_OP_QUEUE)
        return count;
    if (is_property(call->op))
        return add_property(r, arguments);
    if (is_tending(call->op)) {
        arguments[count++] = sb_redis_argument_text(r->op == SIMBA_OP_FORGET ? "forget" : "raise");
        arguments[count++] = sb_redis_argument_number((int64_t)r->revision, &digits[0]);
        arguments[count++] = sb_redis_argument_text(r->id != NULL ? r->id : "");
        return count;
    }
    arguments[count++] = sb_redis_argument_text(r->id);
    if (call->op != SIMBA_OP_RELEASE)
        arguments[count++] = sb_redis_argument_number(r->ttl_ms + r->transition_ms, &digits[0]);
    if (call->op != SIMBA_OP_ACQUIRE) {
        arguments[count++] = sb_redis_argument_number((int64_t)call->revision, &digits[1]);
        if (has_reservations(call))
            arguments[count++] = sb_redis_argument_number(r->reserve_ms, &digits[2]);
        return count;
    }
    arguments[count++] = sb_redis_argument_number((int64_t)call->store->largest_token, &digits[1]);
    return count + add_optional_values(call, arguments + count, digits + 2);
}

/* ---- Sending --------------------------------------------------------------------------------- */

static void on_asked(struct sb_redis_command *command, const struct sb_redis_answer *answer)
{
    (void)answer; /* the command behind it tells how it went */
    sb_free(command);
}

/* Lets the next command into a slot that is on its way to the node. */
static int send_asking(struct sb_redis_node *node, int64_t deadline_ms, struct simba_error *error)
{
    const struct sb_redis_argument word = {"ASKING", 6};
    struct sb_redis_command *command = sb_alloc_zero(sizeof *command);
    int code;

    if (command == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    command->answered = on_asked;
    command->deadline_ms = deadline_ms;
    code = sb_redis_reconnecting_send(node->commands, command, &word, 1, error);
    if (code != SIMBA_OK)
        sb_free(command);
    return code;
}

bool sb_redis_call_needs_quorum(const struct sb_redis_call *call)
{
    return call->store->options.wait_replicas > 0 &&
           (call->op == SIMBA_OP_ACQUIRE || call->op == SIMBA_OP_GUARD);
}

int sb_redis_call_send(struct sb_redis_call *call, struct simba_error *error)
{
    struct sb_redis_argument arguments[13]; /* 3, 4 keys, 6 values */
    struct sb_redis_digits digits[4];
    struct sb_redis_keys keys;
    bool needs_quorum = sb_redis_call_needs_quorum(call);
    size_t fourth = fourth_key(call);
    size_t count = 3;
    int code = SIMBA_OK;

    SB_CHECK(call->node != NULL && call->op != SIMBA_OP_LIST, "a script is called on a node");
    SB_CHECK(call->member.quorum == NULL || call->gives_back, "a call is sent for one quorum");
    if (needs_quorum && call->record == NULL)
        call->record = sb_alloc(sizeof *call->record);
    if (needs_quorum &&
        (call->record == NULL ||
         !sb_redis_quorum_prepare(&call->node->quorum, &call->store->options, &call->command)))
        return sb_error_plain(error, SIMBA_ENOMEM);
    name_script(call, arguments);
    arguments[2] = (struct sb_redis_argument){fourth != 0 ? "4" : "3", 1};
    sb_redis_keys_make(&keys, call->request->mutex);
    for (size_t i = 0; i < SB_REDIS_KEY_RESERVED; i++)
        arguments[count++] = keys.arguments[i];
    if (fourth != 0)
        arguments[count++] = keys.arguments[fourth];
    count += add_values(call, arguments + count, digits);
    if (call->asking)
        code = send_asking(call->node, call->command.deadline_ms, error);
    if (code == SIMBA_OK)
        code = sb_redis_reconnecting_send(call->node->commands, &call->command, arguments, count,
                                          error);
    if (code == SIMBA_OK && needs_quorum)
        sb_redis_quorum_join(call->node->quorum, &call->member, &call->command);
    return code;
}

/* A call that releases a lease keeps its quorum, which knows the reason. */
void sb_redis_call_send_again(struct sb_redis_call *call, struct sb_redis_node *node)
{
    struct simba_error error;
    int code;

    call->node = node;
    if (!call->gives_back)
        sb_redis_quorum_leave(&call->member);
    sb_redis_reconnecting_start(node->commands, NULL);
    if (sb_redis_reconnecting_is_starting(node->commands)) {
        sb_redis_backlog_add(node->backlog, &call->entry, call->op, call->command.deadline_ms);
        return;
    }
    if (++call->attempts > ATTEMPTS_MAX)
        code = sb_error_set(&error, SIMBA_EUNAVAILABLE,
                            "the servers redirected the request too often");
    else
        code = sb_redis_call_send(call, &error);
    if (code != SIMBA_OK)
        sb_redis_call_fail(call, &error);
    sb_redis_node_flush(node); /* also for those that had joined a quorum before the failure */
}
