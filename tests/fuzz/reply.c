/*
 * reply.c - fuzzes what a Redis server may answer: any bytes are read as replies, and each reply is taken
 * for a record, a greeting, a key and an error.
 */
#include "fuzz.h"

#include "backend/redis/failure.h"
#include "backend/redis/greeting.h"
#include "backend/redis/request.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#define OUR_ID "me"

static const struct sb_redis_place place = {"localhost", 6379};

/* Nobody else's name may come out as ours: that would be a belief. */
static void take_for_record(const redisReply *reply, enum simba_op op)
{
    struct sb_redis_options options = {.lease_ms = 16000};
    struct sb_record record;
    bool ours;

    if (!sb_record_read(&record, reply, op, OUR_ID, &options))
        return;
    fuzz_demand(record.waiters >= -1 && record.since_us >= 0 && record.place >= 0,
                "a queue has no negative numbers");
    fuzz_demand(memchr(record.owner, '\0', sizeof record.owner) != NULL, "an owner has an end");
    if (!record.owned)
        return;
    ours = reply->element[0]->len == strlen(OUR_ID) &&
           memcmp(reply->element[0]->str, OUR_ID, strlen(OUR_ID)) == 0;
    fuzz_demand(record.owner[0] != '\0', "an owner has a name");
    fuzz_demand((strcmp(record.owner, OUR_ID) == 0) == ours, "only our own name is ours");
    fuzz_demand(record.left_ms >= 0, "time left is not negative");
}

static void take_for_greeting(const redisReply *reply)
{
    for (int step = SB_GREETING_AUTH; step <= SB_GREETING_ROLE; step++) {
        struct sb_greeting greeting = {.steps = {(enum sb_greeting_step)step}, .count = 1};
        struct simba_error error = {0};
        bool done = false;

        if (sb_greeting_take(&greeting, &place, reply, &done, &error) == SIMBA_OK)
            fuzz_demand(done, "the last reply ends the greeting");
        else
            fuzz_demand(error.text[0] != '\0', "a refusal says why");
    }
}

static void take_for_key(const redisReply *reply)
{
    char mutex[SIMBA_MUTEX_MAX + 1];

    if (reply->type == REDIS_REPLY_STRING && sb_key_mutex(reply->str, reply->len, mutex))
        fuzz_demand(simba_mutex_validate(mutex, NULL) == SIMBA_OK, "a mutex has a valid name");
}

static void take_for_error(const redisReply *reply)
{
    struct simba_error error = {0};

    if (reply->type == REDIS_REPLY_ERROR)
        fuzz_demand(sb_redis_fail(&place, reply->str, &error) != SIMBA_OK && error.text[0] != '\0',
                    "an error reply is an error");
}

static void take(const redisReply *reply)
{
    take_for_record(reply, SIMBA_OP_READ);
    take_for_record(reply, SIMBA_OP_ACQUIRE);
    take_for_greeting(reply);
    take_for_key(reply);
    take_for_error(reply);
}

/* hiredis reserves what a server announces, and the machine has no room for a thousand million replies. */
static bool announces_too_much(const char *bytes, size_t size)
{
    const char *end = bytes + size;
    const char *array = memchr(bytes, '*', size);

    while (array != NULL) {
        if (strspn(array + 1, "0123456789") > 5)
            return true;
        array = memchr(array + 1, '*', (size_t)(end - array - 1));
    }
    return false;
}

static void read_replies(const char *bytes, size_t size)
{
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;

    fuzz_demand(reader != NULL, "there is memory");
    redisReaderFeed(reader, bytes, size);
    while (redisReaderGetReply(reader, &reply) == REDIS_OK && reply != NULL) {
        take(reply);
        freeReplyObject(reply);
        reply = NULL;
    }
    redisReaderFree(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);

    if (!announces_too_much(text, size))
        read_replies(text, size);
    free(text);
    return 0;
}
