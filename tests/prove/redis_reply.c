/*
 * redis_reply.c - the reply of a script, as hiredis hands it over: any array of a few elements of
 * any type is read within its bytes, and nobody else's name comes out as that of the contender.
 */
#include "prove.h"

#include "backend/redis/request/request.h"

#include <hiredis/hiredis.h>
#include <string.h>

#ifndef PROVE_BYTES
#define PROVE_BYTES 3 /* of a string in the reply */
#endif
#define ELEMENTS_MAX 6
#define OUR_ID "me"

/* hiredis gives each string an end behind its bytes. */
struct element {
    redisReply reply;
    char bytes[PROVE_BYTES + 1];
};

static const redisReply *any_element(struct element *element)
{
    redisReply *reply = &element->reply;

    reply->type = (int)prove_between(REDIS_REPLY_STRING, REDIS_REPLY_ERROR);
    reply->integer = nondet_int64();
    reply->len = (size_t)prove_between(0, PROVE_BYTES);
    element->bytes[reply->len] = '\0';
    reply->str = reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_ERROR
                     ? element->bytes
                     : NULL;
    reply->elements = 0;
    return reply;
}

static void check_record(const struct sb_redis_record *record, const redisReply *owner,
                         enum simba_op op)
{
    bool ours = owner->type == REDIS_REPLY_STRING && owner->len == strlen(OUR_ID) &&
                memcmp(owner->str, OUR_ID, strlen(OUR_ID)) == 0;

    PROVE_THAT(record->waiters >= -1 && record->since_us >= 0 && record->place >= 0 &&
                   record->reserved_left_ms >= 0,
               "a queue has no negative numbers");
    PROVE_THAT(record->owned == (owner->type == REDIS_REPLY_STRING), "an owner is told, or none");
    PROVE_THAT(record->revision <= (uint64_t)1 << 53, "a token is one that a script can count");
    if (!record->owned)
        return;
    PROVE_THAT(record->owner[0] != '\0' && record->owner[SIMBA_ID_MAX] == '\0',
               "an owner has a name, with an end");
    PROVE_THAT((strcmp(record->owner, OUR_ID) == 0) == ours, "only our own name is ours");
    PROVE_THAT(record->left_ms >= 0, "time left is not negative");
    PROVE_THAT(op == SIMBA_OP_READ || record->waiters == -1, "only a READ counts the waiters");
}

int main(void)
{
    struct element elements[ELEMENTS_MAX];
    redisReply *list[ELEMENTS_MAX];
    redisReply reply;
    struct sb_redis_options options;
    struct sb_redis_record record;
    enum simba_op op = (enum simba_op)prove_between(SIMBA_OP_NONE, SIMBA_OP_RAISE);

    options.lease_ms = prove_between(1, PROVE_YEAR_MS);
    for (size_t i = 0; i < ELEMENTS_MAX; i++) {
        any_element(&elements[i]);
        list[i] = &elements[i].reply;
    }
    reply.type = (int)prove_between(REDIS_REPLY_STRING, REDIS_REPLY_ERROR);
    reply.elements = (size_t)prove_between(0, ELEMENTS_MAX);
    reply.element = list;
    reply.integer = nondet_int64();
    if (sb_redis_record_read(&record, &reply, op, OUR_ID, &options))
        check_record(&record, list[0], op);
    PROVE_END();
    return 0;
}
