/*
 * sentinels.c - two connections to each sentinel: one for questions, one for +switch-master. Owns
 * when to ask; must not know what the answers are used for.
 *
 * A message is a hint and nothing more: all are asked again, and their answers count.
 */
#include "backend/redis/topology/sentinels.h"

#include "backend/redis/wire/reconnecting.h"
#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/time.h"

#include <hiredis/hiredis.h>
#include <string.h>
#include <uv.h>

#define PERIOD_MIN_MS 100
#define PERIOD_MAX_MS 1000
#define PERIOD_SHARE 4   /* of a ttl */
#define ANSWER_PERIODS 4 /* periods that a sentinel has for its answer */
#define SETTLED 3 /* rounds after which those that the URL names have told their ids, if they can */
#define CHANNEL "+switch-master"

/* One of them. */
struct sentinel {
    struct sb_redis_sentinels *all;
    size_t index; /* among the votes */
    struct sb_wire_place place;
    struct sb_redis_reconnecting *commands;
    struct sb_redis_reconnecting *announcements;
    unsigned connections; /* of these two: not closed yet */
    unsigned outage;      /* and: down */
    struct sb_redis_sentinel_query query;
    bool is_asked;            /* its answer is to come */
    bool ask_again;           /* something may have changed since it was asked */
    bool is_subscribed;       /* a refusal of its announcements is news */
    struct simba_error error; /* why it has not answered; its code is SIMBA_OK when it has */
};

struct sb_redis_sentinels {
    const struct simba_backend_host *host;
    const struct sb_redis_options *options;
    const struct sb_wire_tls *tls;
    const struct sb_redis_sentinels_events *events;
    void *user;
    struct sb_redis_votes votes;
    struct sb_wire_place master;
    int64_t confirmed_ms; /* sb_redis_votes_confirmed_ms of it: every lease asks */
    struct sentinel *sentinels[SB_REDIS_SENTINELS_MAX];
    unsigned sentinel_count; /* with those that are being closed */
    uv_timer_t timer;
    bool has_timer;  /* the timer is open */
    unsigned rounds; /* up to SETTLED */
    bool closing;
    bool is_lost; /* the master is not confirmed, and that has been told */
};

static void ask(struct sentinel *one);

/* ---- What is known --------------------------------------------------------------------------- */

static int64_t period_ms(const struct sb_redis_sentinels *s)
{
    int64_t period = (s->options->lease_ms - s->options->transition_ms) / PERIOD_SHARE;

    return sb_earlier(sb_max(period, PERIOD_MIN_MS), PERIOD_MAX_MS);
}

const struct sb_wire_place *sb_redis_sentinels_master(const struct sb_redis_sentinels *s)
{
    return &s->master;
}

int64_t sb_redis_sentinels_as_of(const struct sb_redis_sentinels *s,
                                 const struct sb_wire_place *place, int64_t made_ms)
{
    if (!sb_wire_place_equals(place, &s->master))
        return 0;
    return s->votes.any ? made_ms : sb_earlier(made_ms, s->confirmed_ms);
}

int sb_redis_sentinels_check(const struct sb_redis_sentinels *s, int64_t age_ms,
                             struct simba_error *error)
{
    int64_t since_ms = simba_now_ms() - age_ms;
    char where[SB_WIRE_PLACE_TEXT_MAX];
    const char *why = ""; /* one of them does not answer */

    if (s->votes.any || s->confirmed_ms >= since_ms)
        return SIMBA_OK;
    for (size_t i = 0; i < SB_REDIS_SENTINELS_MAX && why[0] == '\0'; i++)
        if (s->sentinels[i] != NULL && s->sentinels[i]->error.code != SIMBA_OK)
            why = s->sentinels[i]->error.text;
    return sb_error_set(error, SIMBA_EUNAVAILABLE,
                        "%zu of %zu sentinels confirm the master at %.60s, %zu must "
                        "(sentinel-quorum)%s%.120s",
                        sb_redis_votes_for(&s->votes, &s->master, since_ms),
                        sb_redis_votes_count(&s->votes), sb_wire_place_text(&s->master, where),
                        sb_redis_votes_needed(&s->votes), why[0] != '\0' ? ": " : "", why);
}

/* One warning for an outage, however long it lasts. */
static void log_whether_lost(struct sb_redis_sentinels *s)
{
    struct simba_error error;
    bool is_lost = sb_redis_sentinels_check(s, s->options->lease_ms - s->options->transition_ms,
                                            &error) != SIMBA_OK;

    if (is_lost && !s->is_lost)
        s->host->log(s->host, SIMBA_LOG_WARN, "redis: %s", error.text);
    else if (!is_lost && s->is_lost)
        s->host->log(s->host, SIMBA_LOG_INFO, "redis: the sentinels confirm the master again");
    s->is_lost = is_lost;
}

/* What they have said has changed. */
static void look_for_master(struct sb_redis_sentinels *s)
{
    int64_t since_ms = simba_now_ms() - 2 * ANSWER_PERIODS * period_ms(s);
    const struct sb_wire_place *master = sb_redis_votes_master(&s->votes, &s->master, since_ms);
    bool moves = master != NULL && !sb_wire_place_equals(master, &s->master);

    if (moves)
        s->master = *master;
    s->confirmed_ms = sb_redis_votes_confirmed_ms(&s->votes, &s->master);
    if (moves)
        s->events->moved(s->user);
}

/* ---- Asking ---------------------------------------------------------------------------------- */

static void on_answered(struct sb_redis_sentinel_query *query)
{
    struct sentinel *one = query->user;
    struct sb_redis_sentinels *s = one->all;

    SB_CHECK(one->is_asked, "a query is answered once");
    one->is_asked = false;
    one->error.code = SIMBA_OK;
    if (query->code != SIMBA_OK)
        one->error = query->error;
    if (s->closing)
        return;
    if (query->code == SIMBA_OK) {
        sb_redis_votes_take(&s->votes, one->index, &query->answer, query->asked_ms);
        look_for_master(s);
    }
    if (one->ask_again)
        ask(one);
}

static int send_on_connection(void *via, struct sb_redis_command *command,
                              const struct sb_redis_argument *arguments, size_t count,
                              struct simba_error *error)
{
    return sb_redis_reconnecting_send(via, command, arguments, count, error);
}

static void ask(struct sentinel *one)
{
    int64_t answer_ms =
        sb_earlier(ANSWER_PERIODS * period_ms(one->all), one->all->options->command_timeout_ms);

    one->ask_again = one->is_asked;
    if (one->is_asked)
        return;
    sb_redis_reconnecting_start(one->commands, NULL);
    one->is_asked =
        sb_redis_sentinel_query_start(&one->query, send_on_connection, one->commands,
                                      simba_now_ms() + answer_ms, &one->error) == SIMBA_OK;
    sb_redis_reconnecting_flush(one->commands);
    if (one->is_asked && one->error.code == SIMBA_OK)
        sb_redis_reconnecting_start(one->announcements, NULL);
}

static void ask_all(struct sb_redis_sentinels *s)
{
    for (size_t i = 0; i < SB_REDIS_SENTINELS_MAX && !s->closing; i++)
        if (s->sentinels[i] != NULL)
            ask(s->sentinels[i]);
}

/* ---- Announcements --------------------------------------------------------------------------- */

static void on_announcements_ready(void *user)
{
    const struct sb_redis_argument arguments[2] = {{"SUBSCRIBE", 9}, {CHANNEL, sizeof CHANNEL - 1}};
    struct sentinel *one = user;

    one->is_subscribed = true;
    sb_redis_reconnecting_push(one->announcements, arguments,
                               2); /* where it fails the queries do */
    sb_redis_reconnecting_flush(one->announcements);
}

/* It goes on without them. */
static void on_refused(struct sentinel *one, const char *text)
{
    char where[SB_WIRE_PLACE_TEXT_MAX];

    if (one->is_subscribed)
        one->all->host->log(one->all->host, SIMBA_LOG_WARN,
                            "redis: the sentinel at %.80s does not let this client subscribe to "
                            "%s, so a fail-over is noticed up to %lld ms later: %.100s",
                            sb_wire_place_text(&one->place, where), CHANNEL,
                            (long long)period_ms(one->all), text);
    one->is_subscribed = false;
}

static void on_announced(void *user, const redisReply *reply)
{
    struct sentinel *one = user;

    if (reply->type == REDIS_REPLY_ERROR)
        on_refused(one, reply->str);
    else if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 3 &&
             reply->element[0]->type == REDIS_REPLY_STRING &&
             strcmp(reply->element[0]->str, "message") == 0)
        ask_all(one->all);
}

/* ---- Sentinels ------------------------------------------------------------------------------- */

static void finish_close(struct sb_redis_sentinels *s)
{
    void (*closed)(void *user) = s->events->closed;
    void *user = s->user;

    if (!s->closing || s->sentinel_count > 0 || s->has_timer)
        return;
    sb_free(s);
    closed(user);
}

static int where(void *user, struct sb_wire_place *ret_place, struct simba_error *error)
{
    const struct sentinel *one = user;

    (void)error;
    *ret_place = one->place;
    return SIMBA_OK;
}

static void on_connection_closed(void *user)
{
    struct sentinel *one = user;
    struct sb_redis_sentinels *s = one->all;

    SB_CHECK(one->connections > 0 && s->sentinel_count > 0, "a connection is closed once");
    if (--one->connections > 0)
        return;
    sb_free(one);
    s->sentinel_count--;
    finish_close(s);
}

static const struct sb_redis_reconnecting_events command_events = {NULL, NULL, on_connection_closed,
                                                                   NULL};
static const struct sb_redis_reconnecting_events announcement_events = {
    on_announcements_ready, on_announced, on_connection_closed, NULL};

static struct sb_redis_reconnecting_config
connection_config(struct sentinel *one, const struct sb_redis_reconnecting_events *events)
{
    return (struct sb_redis_reconnecting_config){
        .host = one->all->host,
        .options = one->all->options,
        .tls = one->all->tls,
        .credentials = &one->all->options->sentinel_credentials,
        .where = where,
        .outage = &one->outage,
        .events = events,
        .user = one,
    };
}

/* At once, where a connection was never started; one that could not be created counts as closed. */
static void close_sentinel(struct sb_redis_sentinels *s, size_t index)
{
    struct sentinel *one = s->sentinels[index];
    struct sb_redis_reconnecting *connections[2] = {one->commands, one->announcements};

    s->sentinels[index] = NULL;
    for (size_t i = 0; i < 2; i++) {
        if (connections[i] != NULL)
            sb_redis_reconnecting_close(connections[i]); /* a query under way is answered */
        else
            on_connection_closed(one);
    }
}

/* Not when memory is short: it is tried again at the next round. */
static void add_sentinel(struct sb_redis_sentinels *s, size_t index)
{
    struct sentinel *one = sb_alloc_zero(sizeof *one);
    struct sb_redis_reconnecting_config config;

    if (one == NULL)
        return;
    one->all = s;
    one->index = index;
    one->place = s->votes.votes[index].place;
    one->query.options = s->options;
    one->query.answered = on_answered;
    one->query.user = one;
    config = connection_config(one, &command_events);
    one->commands = sb_redis_reconnecting_create(&config);
    config = connection_config(one, &announcement_events);
    one->announcements = sb_redis_reconnecting_create(&config);
    SB_CHECK(s->sentinels[index] == NULL && !s->closing, "a sentinel is added once");
    s->sentinel_count++;
    one->connections = 2;
    s->sentinels[index] = one;
    if (one->commands == NULL || one->announcements == NULL)
        close_sentinel(s, index);
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

static void forget_gone(struct sb_redis_sentinels *s, int64_t now_ms)
{
    for (size_t i = 0; i < SB_REDIS_SENTINELS_MAX; i++) {
        if (!sb_redis_votes_may_forget(&s->votes, i, now_ms))
            continue;
        sb_redis_votes_forget(&s->votes, i);
        if (s->sentinels[i] != NULL)
            close_sentinel(s, i);
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct sb_redis_sentinels *s = timer->data;
    int64_t now_ms = simba_now_ms();

    forget_gone(s, now_ms);
    if (s->rounds < SETTLED)
        s->rounds++;
    else
        sb_redis_votes_add_peers(&s->votes, now_ms);
    for (size_t i = 0; i < SB_REDIS_SENTINELS_MAX; i++)
        if (s->votes.votes[i].used && s->sentinels[i] == NULL)
            add_sentinel(s, i);
    ask_all(s);
    log_whether_lost(s);
}

/* ---- Opening and closing --------------------------------------------------------------------- */

struct sb_redis_sentinels *sb_redis_sentinels_create(const struct simba_backend_host *host,
                                                     const struct sb_redis_options *options,
                                                     const struct sb_wire_tls *tls,
                                                     const struct sb_redis_votes *votes,
                                                     const struct sb_redis_sentinels_events *events,
                                                     void *user)
{
    struct sb_redis_sentinels *s = sb_alloc_zero(sizeof *s);

    if (s == NULL)
        return NULL;
    s->host = host;
    s->options = options;
    s->tls = tls;
    s->votes = *votes;
    s->master = *sb_redis_votes_master(votes, NULL, 0);
    s->confirmed_ms = sb_redis_votes_confirmed_ms(votes, &s->master);
    s->events = events;
    s->user = user;
    return s;
}

void sb_redis_sentinels_free(struct sb_redis_sentinels *s)
{
    SB_CHECK(!s->has_timer, "sentinels that were started are closed, not freed");
    sb_free(s);
}

void sb_redis_sentinels_start(struct sb_redis_sentinels *s)
{
    uv_timer_init(s->host->loop, &s->timer);
    s->timer.data = s;
    s->has_timer = true;
    uv_timer_start(&s->timer, on_timer, (uint64_t)period_ms(s), (uint64_t)period_ms(s));
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct sb_redis_sentinels *s = handle->data;

    s->has_timer = false;
    finish_close(s);
}

void sb_redis_sentinels_close(struct sb_redis_sentinels *s)
{
    SB_CHECK(!s->closing && s->has_timer, "sentinels that were started are closed once");
    s->closing = true;
    for (size_t i = 0; i < SB_REDIS_SENTINELS_MAX; i++)
        if (s->sentinels[i] != NULL)
            close_sentinel(s, i);
    uv_close((uv_handle_t *)&s->timer, on_timer_closed);
}
