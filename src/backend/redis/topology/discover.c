/*
 * discover.c - the first questions of a client, on a loop of their own.
 */
#include "backend/redis/topology/discover.h"

#include "backend/redis/wire/hosts.h"
#include "backend/redis/wire/probe.h"
#include "backend/redis/topology/sentinel_query.h"
#include "base/alloc.h"
#include "base/descriptors.h"
#include "base/error.h"

#include <uv.h>

/* ---- Sentinels ------------------------------------------------------------------------------ */

struct search;

struct asked {
    struct search *search;
    size_t index;
    bool begun;
    struct sb_redis_connection *connection; /* NULL: none */
    struct sb_redis_sentinel_query question;
};

struct search {
    const struct sb_redis_options *options;
    const struct sb_redis_tls *tls;
    uv_loop_t loop;
    struct sb_redis_votes *votes;
    struct asked asked[SB_REDIS_SENTINELS_MAX];
    size_t open;             /* questions without an answer */
    struct simba_error most; /* the most telling reason of those that failed */
};

/* An answer tells more than silence does. */
static void note_failure(struct search *s, const struct simba_error *error)
{
    if (s->most.code == SIMBA_OK ||
        (s->most.code == SIMBA_EUNAVAILABLE && error->code != SIMBA_EUNAVAILABLE))
        s->most = *error;
}

static void on_answered(struct sb_redis_sentinel_query *question)
{
    struct asked *a = question->user;
    struct search *s = a->search;

    s->open--;
    if (question->code == SIMBA_OK)
        sb_redis_votes_take(s->votes, a->index, &question->word, question->asked_ms);
    else
        note_failure(s, &question->error);
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
    struct sb_redis_endpoint endpoint;
    int code = sb_redis_endpoint_find(o, &o->sentinel_credentials, &s->votes->votes[a->index].place,
                                      &endpoint, error);

    if (code != SIMBA_OK)
        return code;
    config.login = sb_redis_login_create(o, &o->sentinel_credentials, s->tls);
    uv_update_time(&s->loop); /* the above may have taken long */
    a->connection = sb_redis_connection_open(&config, &endpoint);
    if (a->connection == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    a->question.options = o;
    a->question.answered = on_answered;
    a->question.user = a;
    return sb_redis_sentinel_query_start(
        &a->question, send_on_connection, a->connection,
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

/* Those that the URL does not name are asked when all that it names have answered or failed: by then it is known
 * which of them are the same. */
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

int sb_redis_ask_sentinels(const struct sb_redis_options *o, const struct sb_redis_tls *tls,
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
