/*
 * sentinel_query.c - the commands of a query to a sentinel, and its replies, which are checked; and
 * the first queries of a client to all sentinels, on a loop of their own.
 */
#include "backend/redis/topology/sentinels.h"

#include "backend/redis/wire/resp.h"
#include "backend/redis/wire/reconnecting.h"
#include "backend/redis/wire/endpoint.h"
#include "base/alloc.h"
#include "base/check.h"
#include "base/thread.h"
#include "base/error.h"
#include "base/text.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

/* ---- One sentinel ---------------------------------------------------------------------------- */

enum step { MASTER, MY_ID, PEERS }; /* the first failure is told: that of the master says most */

static bool is_text(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING;
}

static bool read_place(struct sb_wire_place *place, const char *host, const char *port)
{
    long number = strtol(port, NULL, 10);

    if (number < 1 || number > 65535 || host[0] == '\0' ||
        !sb_text_copy(place->host, sizeof place->host, host))
        return false;
    place->port = (int)number;
    return true;
}

/* The reply is the address and the port, both as strings, or nothing. */
static int take_master(struct sb_redis_sentinel_query *q, const struct sb_wire_place *from,
                       const redisReply *reply)
{
    char where[SB_WIRE_PLACE_TEXT_MAX];

    sb_wire_place_text(from, where);
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 || !is_text(reply->element[0]) ||
        !is_text(reply->element[1]))
        return sb_error_set(&q->error, SIMBA_EUNAVAILABLE,
                            "the sentinel at %.80s knows no master named '%.100s'", where,
                            q->options->master_name);
    if (!read_place(&q->answer.master, reply->element[0]->str, reply->element[1]->str))
        return sb_error_set(&q->error, SIMBA_ESTORE,
                            "the sentinel at %.80s gave an invalid address", where);
    return SIMBA_OK;
}

static int take_id(struct sb_redis_sentinel_query *q, const struct sb_wire_place *from,
                   const redisReply *reply)
{
    char where[SB_WIRE_PLACE_TEXT_MAX];

    if (is_text(reply) && reply->len > 0 &&
        sb_text_copy(q->answer.id, sizeof q->answer.id, reply->str))
        return SIMBA_OK;
    return sb_error_set(&q->error, SIMBA_ESTORE, "the sentinel at %.80s gave an invalid id",
                        sb_wire_place_text(from, where));
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
static int take_peers(struct sb_redis_sentinel_query *q, const struct sb_wire_place *from,
                      const redisReply *reply)
{
    char where[SB_WIRE_PLACE_TEXT_MAX];

    if (reply->type != REDIS_REPLY_ARRAY)
        return sb_error_set(&q->error, SIMBA_ESTORE,
                            "the sentinel at %.80s gave an invalid list of sentinels",
                            sb_wire_place_text(from, where));
    q->answer.known = reply->elements + 1;
    for (size_t i = 0; i < reply->elements && q->answer.peer_count < SB_REDIS_SENTINELS_MAX; i++) {
        struct sb_redis_sentinel_peer *peer = &q->answer.peers[q->answer.peer_count];
        const char *id = field(reply->element[i], "runid");

        if (id[0] != '\0' && sb_text_copy(peer->id, sizeof peer->id, id) &&
            read_place(&peer->place, field(reply->element[i], "ip"),
                       field(reply->element[i], "port")))
            q->answer.peer_count++;
    }
    return SIMBA_OK;
}

/* Sentinels have ids to tell since 6.2. */
static int fail(struct sb_redis_sentinel_query *q, enum step step, const struct sb_wire_place *from,
                const char *text)
{
    char where[SB_WIRE_PLACE_TEXT_MAX];

    if (step == MY_ID && strncmp(text, "ERR Unknown s", 13) == 0)
        return sb_error_set(&q->error, SIMBA_ECONFIG,
                            "the sentinel at %.80s cannot tell its id; use sentinels of 6.2 or "
                            "later, or sentinel-quorum=any",
                            sb_wire_place_text(from, where));
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

static void on_step_answered(struct sb_redis_command *command, const struct sb_redis_answer *answer)
{
    struct sb_redis_sentinel_query_step *step = (struct sb_redis_sentinel_query_step *)command;
    struct sb_redis_sentinel_query *q = step->query;

    if (q->code == SIMBA_OK)
        q->code = take(q, (enum step)(step - q->steps), answer);
    SB_CHECK(q->open > 0, "each step of a query is answered once");
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

    memset(&q->answer, 0, sizeof q->answer);
    q->code = SIMBA_OK;
    q->open = 0;
    q->asked_ms = simba_now_ms();
    for (size_t i = 0; i < steps && q->code == SIMBA_OK; i++) {
        struct sb_redis_sentinel_query_step *step = &q->steps[i];

        memset(step, 0, sizeof *step);
        step->query = q;
        step->command.answered = on_step_answered;
        step->command.deadline_ms = deadline_ms;
        q->code = send(via, &step->command, words[i], i == MY_ID ? 2 : 3, &q->error);
        q->open += q->code == SIMBA_OK;
    }
    if (q->open > 0)
        return SIMBA_OK; /* where a later step was not taken the query fails then */
    *error = q->error;
    return q->code;
}

/* ---- All sentinels --------------------------------------------------------------------------- */

struct search;

struct asked {
    struct search *search;
    size_t index;
    bool begun;
    struct sb_redis_connection *connection; /* NULL: none */
    struct sb_redis_sentinel_query query;
};

struct search {
    const struct sb_redis_options *options;
    const struct sb_wire_tls *tls;
    uv_loop_t loop;
    struct sb_redis_votes *votes;
    struct asked asked[SB_REDIS_SENTINELS_MAX];
    size_t open;             /* queries without an answer */
    struct simba_error most; /* the most telling reason of those that failed */
};

/* A failure with an answer says more than one without. */
static void note_failure(struct search *s, const struct simba_error *error)
{
    if (s->most.code == SIMBA_OK ||
        (s->most.code == SIMBA_EUNAVAILABLE && error->code != SIMBA_EUNAVAILABLE))
        s->most = *error;
}

static void on_query_answered(struct sb_redis_sentinel_query *query)
{
    struct asked *a = query->user;
    struct search *s = a->search;

    SB_CHECK(s->open > 0, "a query is answered once");
    s->open--;
    if (query->code == SIMBA_OK)
        sb_redis_votes_take(s->votes, a->index, &query->answer, query->asked_ms);
    else
        note_failure(s, &query->error);
}

static int send_on_connection(void *via, struct sb_redis_command *command,
                              const struct sb_redis_argument *arguments, size_t count,
                              struct simba_error *error)
{
    int code = sb_redis_connection_send(via, command, arguments, count);

    return code == SIMBA_OK ? code : sb_error_plain(error, code);
}

static int ask(struct asked *a, struct simba_error *error)
{
    struct search *s = a->search;
    const struct sb_redis_options *o = s->options;
    struct sb_redis_connection_config config = {
        .loop = &s->loop,
        .options = o,
        .connect_timeout_ms = o->connect_timeout_ms,
        .events = &sb_redis_ask_events,
    };
    struct sb_wire_endpoint endpoint;
    int code = sb_redis_endpoint_find(o, &o->sentinel_credentials, &s->votes->votes[a->index].place,
                                      &endpoint, error);

    if (code != SIMBA_OK)
        return code;
    config.login = sb_redis_login_create(o, &o->sentinel_credentials, s->tls);
    uv_update_time(&s->loop); /* the above may have taken long */
    a->connection = sb_redis_connection_open(&config, &endpoint);
    if (a->connection == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    a->query.options = o;
    a->query.answered = on_query_answered;
    a->query.user = a;
    return sb_redis_sentinel_query_start(
        &a->query, send_on_connection, a->connection,
        simba_now_ms() + o->connect_timeout_ms + o->command_timeout_ms, error);
}

/* Asks those that have not been asked. */
static void ask_new(struct search *s)
{
    for (size_t i = 0; i < SB_REDIS_SENTINELS_MAX; i++) {
        struct asked *a = &s->asked[i];
        struct simba_error error;

        if (a->begun || !s->votes->votes[i].used)
            continue;
        a->begun = true;
        a->search = s;
        a->index = i;
        if (ask(a, &error) == SIMBA_OK)
            s->open++;
        else
            note_failure(s, &error);
    }
}

static bool has_master(const struct search *s)
{
    return sb_redis_votes_master(s->votes, NULL, 0) != NULL;
}

/* Those that the URL does not name are asked when all that it names have answered or failed: by
 * then it is known which of them are the same. */
static void run(struct search *s)
{
    ask_new(s);
    while (!has_master(s)) {
        if (s->open == 0) {
            sb_redis_votes_add_peers(s->votes, simba_now_ms());
            ask_new(s);
        }
        if (s->open == 0)
            break;
        uv_run(&s->loop, UV_RUN_ONCE);
    }
    for (size_t i = 0; i < SB_REDIS_SENTINELS_MAX; i++)
        if (s->asked[i].connection != NULL)
            sb_redis_connection_close(s->asked[i].connection);
    uv_run(&s->loop, UV_RUN_DEFAULT);
}

/* Most of what is told depends on whether any of them has answered. */
static int tell_missing(const struct search *s, struct simba_error *error)
{
    size_t count = sb_redis_votes_count(s->votes);
    int code = s->most.code != SIMBA_OK ? s->most.code : SIMBA_EUNAVAILABLE;
    size_t answered = 0;

    for (size_t i = 0; i < SB_REDIS_SENTINELS_MAX; i++)
        answered += s->votes->votes[i].used && s->votes->votes[i].asked_ms != 0;
    if (answered == 0 && count == 1)
        return sb_error_set_backend(error, code, s->most.backend_code, "%s", s->most.text);
    if (answered == 0)
        return sb_error_set_backend(error, code, s->most.backend_code,
                                    "none of the %zu sentinels names a master; one of them: %.180s",
                                    count, s->most.text);
    return sb_error_set(error, code,
                        "no master is named by %zu of %zu sentinels (sentinel-quorum); %zu "
                        "answered%s%.140s",
                        sb_redis_votes_needed(s->votes), count, answered,
                        s->most.code != SIMBA_OK ? "; another one: " : "", s->most.text);
}

int sb_redis_sentinel_query_all(const struct sb_redis_options *o, const struct sb_wire_tls *tls,
                                struct sb_redis_votes *ret_votes, struct simba_error *error)
{
    struct search *s = sb_alloc_zero(sizeof *s);
    int code = sb_descriptors_check(SB_DESCRIPTORS_OF_LOOP);

    if (s == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    if (code == 0) /* otherwise libuv would leak one */
        code = uv_loop_init(&s->loop);
    if (code < 0) {
        sb_free(s);
        return sb_error_set_backend(error, SIMBA_ENOMEM, code, "cannot create an event loop: %s",
                                    uv_strerror(code));
    }
    s->options = o;
    s->tls = tls;
    s->votes = ret_votes;
    sb_redis_votes_init(ret_votes, o);
    run(s);
    uv_loop_close(&s->loop);
    code = has_master(s) ? SIMBA_OK : tell_missing(s, error);
    sb_free(s);
    return code;
}
