/*
 * sentinel_query.c - the words of a question, and what the replies mean. They come from outside.
 */
#include "backend/redis/topology/sentinel_query.h"

#include "backend/redis/failure.h"
#include "base/error.h"
#include "base/text.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

enum step { MASTER, MY_ID, PEERS }; /* the first failure is told: that of the master says most */

static bool is_text(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING;
}

static bool read_place(struct sb_redis_place *place, const char *host, const char *port)
{
    long number = strtol(port, NULL, 10);

    if (number < 1 || number > 65535 || host[0] == '\0' ||
        !sb_text_copy(place->host, sizeof place->host, host))
        return false;
    place->port = (int)number;
    return true;
}

/* The reply is the address and the port, both as strings, or nothing. */
static int take_master(struct sb_redis_sentinel_query *q, const struct sb_redis_place *from,
                       const redisReply *reply)
{
    char where[SB_REDIS_PLACE_TEXT_MAX];

    sb_redis_place_text(from, where);
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 || !is_text(reply->element[0]) ||
        !is_text(reply->element[1]))
        return sb_error_set(&q->error, SIMBA_EUNAVAILABLE,
                            "the sentinel at %.80s knows no master named '%.100s'", where,
                            q->options->master_name);
    if (!read_place(&q->word.master, reply->element[0]->str, reply->element[1]->str))
        return sb_error_set(&q->error, SIMBA_ESTORE,
                            "the sentinel at %.80s gave an address that is none", where);
    return SIMBA_OK;
}

static int take_id(struct sb_redis_sentinel_query *q, const struct sb_redis_place *from,
                   const redisReply *reply)
{
    char where[SB_REDIS_PLACE_TEXT_MAX];

    if (is_text(reply) && reply->len > 0 && sb_text_copy(q->word.id, sizeof q->word.id, reply->str))
        return SIMBA_OK;
    return sb_error_set(&q->error, SIMBA_ESTORE, "the sentinel at %.80s gave an id that is none",
                        sb_redis_place_text(from, where));
}

/* The value of a field in a flat list of names and values; "" where there is none. */
static const char *field(const redisReply *fields, const char *name)
{
    if (fields->type != REDIS_REPLY_ARRAY)
        return "";
    for (size_t i = 0; i + 1 < fields->elements; i += 2)
        if (is_text(fields->element[i]) && is_text(fields->element[i + 1]) &&
            strcmp(fields->element[i]->str, name) == 0)
            return fields->element[i + 1]->str;
    return "";
}

/* One that cannot be asked counts all the same. */
static int take_peers(struct sb_redis_sentinel_query *q, const struct sb_redis_place *from,
                      const redisReply *reply)
{
    char where[SB_REDIS_PLACE_TEXT_MAX];

    if (reply->type != REDIS_REPLY_ARRAY)
        return sb_error_set(&q->error, SIMBA_ESTORE,
                            "the sentinel at %.80s gave a list of sentinels that is none",
                            sb_redis_place_text(from, where));
    q->word.known = reply->elements + 1;
    for (size_t i = 0; i < reply->elements && q->word.peer_count < SB_REDIS_SENTINELS_MAX; i++) {
        struct sb_redis_sentinel_peer *peer = &q->word.peers[q->word.peer_count];
        const char *id = field(reply->element[i], "runid");

        if (id[0] != '\0' && sb_text_copy(peer->id, sizeof peer->id, id) &&
            read_place(&peer->place, field(reply->element[i], "ip"),
                       field(reply->element[i], "port")))
            q->word.peer_count++;
    }
    return SIMBA_OK;
}

/* Sentinels have ids to tell since 6.2. */
static int fail(struct sb_redis_sentinel_query *q, enum step step,
                const struct sb_redis_place *from, const char *text)
{
    char where[SB_REDIS_PLACE_TEXT_MAX];

    if (step == MY_ID && strncmp(text, "ERR Unknown s", 13) == 0)
        return sb_error_set(&q->error, SIMBA_ECONFIG,
                            "the sentinel at %.80s cannot tell its id; use sentinels of 6.2 or "
                            "later, or sentinel-quorum=any",
                            sb_redis_place_text(from, where));
    return sb_redis_fail(from, text, &q->error);
}

static int take(struct sb_redis_sentinel_query *q, enum step step,
                const struct sb_redis_answer *answer)
{
    if (answer->reply == NULL) {
        q->error = *answer->error;
        return q->error.code;
    }
    if (answer->reply->type == REDIS_REPLY_ERROR)
        return fail(q, step, answer->place, answer->reply->str);
    switch (step) {
    case MASTER:
        return take_master(q, answer->place, answer->reply);
    case MY_ID:
        return take_id(q, answer->place, answer->reply);
    default:
        return take_peers(q, answer->place, answer->reply);
    }
}

static void on_answered(struct sb_redis_command *command, const struct sb_redis_answer *answer)
{
    struct sb_redis_sentinel_query_step *step = (struct sb_redis_sentinel_query_step *)command;
    struct sb_redis_sentinel_query *q = step->question;

    if (q->code == SIMBA_OK)
        q->code = take(q, (enum step)(step - q->steps), answer);
    if (--q->open == 0)
        q->answered(q);
}

int sb_redis_sentinel_query_start(struct sb_redis_sentinel_query *q,
                                  sb_redis_sentinel_query_send *send, void *via,
                                  int64_t deadline_ms, struct simba_error *error)
{
    const struct sb_redis_argument name = sb_redis_argument_text(q->options->master_name);
    const struct sb_redis_argument words[SB_REDIS_SENTINEL_QUERY_STEPS][3] = {
        [MASTER] = {{"SENTINEL", 8}, {"get-master-addr-by-name", 23}, name},
        [MY_ID] = {{"SENTINEL", 8}, {"myid", 4}, {NULL, 0}},
        [PEERS] = {{"SENTINEL", 8}, {"sentinels", 9}, name},
    };
    size_t steps = q->options->sentinel_any ? 1 : SB_REDIS_SENTINEL_QUERY_STEPS;

    memset(&q->word, 0, sizeof q->word);
    q->code = SIMBA_OK;
    q->open = 0;
    q->asked_ms = simba_now_ms();
    for (size_t i = 0; i < steps && q->code == SIMBA_OK; i++) {
        struct sb_redis_sentinel_query_step *step = &q->steps[i];

        memset(step, 0, sizeof *step);
        step->question = q;
        step->command.answered = on_answered;
        step->command.deadline_ms = deadline_ms;
        q->code = send(via, &step->command, words[i], i == MY_ID ? 2 : 3, &q->error);
        q->open += q->code == SIMBA_OK;
    }
    if (q->open > 0)
        return SIMBA_OK; /* where a later one was not taken the question has failed, and says so then */
    *error = q->error;
    return q->code;
}
