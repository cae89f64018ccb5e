/*
 * reply.c - fuzzes what a Redis server may answer: any bytes are read as replies, and each reply is
 * taken for a record, a greeting, a key, the word of a sentinel and an error.
 */
#include "fuzz.h"

#include "backend/redis/wire/resp.h"
#include "backend/redis/keys.h"
#include "backend/redis/request/request.h"
#include "backend/redis/topology/sentinels.h"
#include "backend/redis/wire/connection.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#define OUR_ID "me"

static const struct sb_wire_place place = {"localhost", 6379};

/* Nobody else's name may come out as ours: that would be a belief. */
static void take_for_record(const redisReply *reply, enum simba_op op)
{
    struct sb_redis_options options = {.lease_ms = 16000};
    struct sb_redis_record record;
    bool ours;

    if (!sb_redis_record_read(&record, reply, op, OUR_ID, &options))
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
    for (int step = SB_REDIS_GREETING_AUTH; step <= SB_REDIS_GREETING_ROLE; step++) {
        struct sb_redis_greeting greeting = {.steps = {(enum sb_redis_greeting_step)step},
                                             .count = 1};
        struct simba_error error = {0};
        bool done = false;

        if (sb_redis_greeting_take(&greeting, &place, reply, &done, &error) == SIMBA_OK)
            fuzz_demand(done, "the last reply ends the greeting");
        else
            fuzz_demand(error.text[0] != '\0', "a refusal says why");
    }
}

static void take_for_key(const redisReply *reply)
{
    char mutex[SIMBA_MUTEX_MAX + 1];

    if (reply->type == REDIS_REPLY_STRING && sb_redis_key_mutex(reply->str, reply->len, mutex))
        fuzz_demand(simba_mutex_validate(mutex, NULL) == SIMBA_OK, "a mutex has a valid name");
}

static int keep_command(void *via, struct sb_redis_command *command,
                        const struct sb_redis_argument *arguments, size_t count,
                        struct simba_error *error)
{
    struct sb_redis_command ***next = via;

    (void)arguments;
    (void)count;
    (void)error;
    *(*next)++ = command;
    return SIMBA_OK;
}

static void count_answer(struct sb_redis_sentinel_query *query)
{
    ++*(int *)query->user;
}

/* What it takes for good has an end, and does not count for more than one sentinel. */
static void check_answer(const struct sb_redis_sentinel_query *query)
{
    const struct sb_redis_options options = {.place_count = 3};
    const struct sb_redis_sentinel_answer *said = &query->answer;
    static struct sb_redis_votes votes;

    fuzz_demand(said->peer_count <= SB_REDIS_SENTINELS_MAX && said->peer_count < said->known,
                "nobody tells of more than it knows");
    fuzz_demand(said->master.port > 0 && said->master.host[0] != '\0', "a master has an address");
    sb_redis_votes_init(&votes, &options);
    sb_redis_votes_take(&votes, 0, said, 1);
    sb_redis_votes_add_peers(&votes, 1);
    fuzz_demand(sb_redis_votes_master(&votes, NULL, 0) == NULL, "one of three makes no master");
}

/* A sentinel that answers two of three steps as it should, and one with the reply. */
static void take_for_sentinel(const redisReply *reply, size_t tried)
{
    static redisReply host = {.type = REDIS_REPLY_STRING, .str = (char *)"10.0.0.1", .len = 8};
    static redisReply port = {.type = REDIS_REPLY_STRING, .str = (char *)"6379", .len = 4};
    static redisReply *pair[2] = {&host, &port};
    static redisReply master = {.type = REDIS_REPLY_ARRAY, .elements = 2, .element = pair};
    static redisReply nobody = {.type = REDIS_REPLY_ARRAY};
    static char name[] = "main";
    const redisReply *replies[SB_REDIS_SENTINEL_QUERY_STEPS] = {&master, &host, &nobody};
    const struct sb_redis_options options = {.master_name = name};
    struct sb_redis_command *commands[SB_REDIS_SENTINEL_QUERY_STEPS];
    struct sb_redis_command **next = commands;
    static struct sb_redis_sentinel_query query;
    int answers = 0;

    replies[tried] = reply;
    memset(&query, 0, sizeof query);
    query.options = &options;
    query.answered = count_answer;
    query.user = &answers;
    fuzz_demand(sb_redis_sentinel_query_start(&query, keep_command, &next, 1, NULL) == SIMBA_OK,
                "it is sent");
    for (size_t i = 0; i < SB_REDIS_SENTINEL_QUERY_STEPS; i++) {
        const struct sb_redis_answer answer = {.reply = replies[i], .place = &place};

        commands[i]->answered(commands[i], &answer);
    }
    fuzz_demand(answers == 1, "a query is answered once");
    if (query.code == SIMBA_OK)
        check_answer(&query);
    else
        fuzz_demand(query.error.text[0] != '\0', "a failure says why");
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
    take_for_record(reply, SIMBA_OP_GET_PROPERTY);
    take_for_greeting(reply);
    take_for_key(reply);
    for (size_t step = 0; step < SB_REDIS_SENTINEL_QUERY_STEPS; step++)
        take_for_sentinel(reply, step);
    take_for_error(reply);
}

/* hiredis reserves what a server announces, and the machine has no room for a thousand million
 * replies. */
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
