/*
 * record.c - reads the reply of a script. It comes from outside: anybody can write the keys.
 */
#include "backend/redis/request/record.h"

#include "base/text.h"

#include <hiredis/hiredis.h>
#include <string.h>

#define TOKEN_END ((int64_t)1 << 53) /* no script counts so far */

/* Whatever the key holds becomes a printable name of the length of an id. */
static void read_owner(struct sb_redis_record *record, const redisReply *text, const char *id)
{
    size_t length = text->len < SIMBA_ID_MAX ? text->len : SIMBA_ID_MAX;
    char *owner = record->owner;

    memcpy(owner, text->str, length);
    owner[length] = '\0';
    if (id != NULL && text->len == strlen(id) && memcmp(text->str, id, text->len) == 0)
        return;
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)owner[i] < 0x20 || owner[i] == 0x7f)
            owner[i] = '?';
    if (length == 0)
        memcpy(owner, "?", 2);
    if (id != NULL && strcmp(owner, id) == 0)
        owner[0] = owner[0] == '?' ? '!' : '?'; /* cut or replaced until it looked like ours */
}

static bool is_token(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_INTEGER && reply->integer >= 0 && reply->integer < TOKEN_END;
}

static bool is_record(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements >= 3 &&
           (reply->element[0]->type == REDIS_REPLY_STRING ||
            reply->element[0]->type == REDIS_REPLY_NIL) &&
           reply->element[1]->type == REDIS_REPLY_INTEGER && is_token(reply->element[2]);
}

/* What stands behind the token; -1 where there is nothing. */
static int64_t read_number(const redisReply *reply, size_t index)
{
    if (reply->elements <= index || reply->element[index]->type != REDIS_REPLY_INTEGER ||
        reply->element[index]->integer < 0)
        return -1;
    return reply->element[index]->integer;
}

static void read_queue(struct sb_redis_record *record, const redisReply *reply, enum simba_op op)
{
    int64_t since_us = op == SIMBA_OP_ACQUIRE ? read_number(reply, 3) : 0;
    int64_t place = op == SIMBA_OP_ACQUIRE ? read_number(reply, 4) : 0;

    record->since_us = since_us > 0 ? since_us : 0;
    record->place = place > 0 ? place : 0;
    record->waiters = op == SIMBA_OP_READ ? read_number(reply, 3) : -1;
}

/* A key without an expiry is somebody's mistake: it is looked at again after a lease. */
bool sb_redis_record_read(struct sb_redis_record *record, const redisReply *reply, enum simba_op op,
                          const char *id, const struct sb_redis_options *options)
{
    if (!is_record(reply))
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
    read_queue(record, reply, op);
    return true;
}

/* What the scripts promise: a new term has a larger token than the contender knows, a term that was
 * renewed or given back the very same. A READ has nothing to get done. So a number that belongs to
 * another command is not taken for a lease. */
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

/* A release that has woken a waiter says whom behind the token. */
static bool has_woken(enum simba_op op, const redisReply *reply)
{
    return op == SIMBA_OP_RELEASE && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
           reply->element[1]->type == REDIS_REPLY_STRING;
}

bool sb_redis_record_done(struct sb_redis_record *record, const redisReply *reply, enum simba_op op,
                          uint64_t known, const struct simba_request *request)
{
    bool owned = op == SIMBA_OP_ACQUIRE || op == SIMBA_OP_GUARD;
    bool woke = has_woken(op, reply);
    const redisReply *token = woke ? reply->element[0] : reply;

    if (!is_token(token) || token->integer == 0 ||
        !is_promised(op, (uint64_t)token->integer, known))
        return false;
    memset(record, 0, sizeof *record);
    record->owned = owned;
    record->revision = (uint64_t)token->integer;
    record->waiters = -1;
    record->woke = woke;
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
