/*
 * raw_redis.c - Redis as a blocking hiredis client uses it.
 *
 * Two ways are measured: round trips of a trivial script, which no client can beat, and the
 * library's own scripts in its own order, which is what its protocol costs by itself.
 */
#include "bench/raw_store.h"

#include "backend/redis/scripts/script.h"
#include "base/error.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORT 6379
#define PATIENCE_S 10
#define LEASE "60000"
#define TRIVIAL                                                                                    \
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], "         \
    "ARGV[2]) end return 0"
#define NAME_MAX 64
#define SHA_MAX 64
#define SCAN_COUNT "1000"

struct redis {
    redisContext *context;
    redisContext *subscription; /* a waiter's */
    bool listens;
    char prefix[NAME_MAX];
    char trivial[SHA_MAX];
    char key[NAME_MAX * 2]; /* what the trivial script looks at */
    char keys[3][NAME_MAX * 2];
    char channel[NAME_MAX * 2]; /* of the waiter */
    char token[32];             /* of the owner by hand */
};

/* ---- Commands -------------------------------------------------------------------------------- */

static int code_of(const char *refusal)
{
    static const char *const denials[] = {"NOPERM", "NOAUTH", "WRONGPASS"};

    for (size_t i = 0; i < sizeof denials / sizeof denials[0]; i++)
        if (strncmp(refusal, denials[i], strlen(denials[i])) == 0)
            return SIMBA_EDENIED;
    return SIMBA_ESTORE;
}

/* Checks a reply. Where it is good and `ret_reply` is not NULL it becomes the caller's. */
static int check_reply(redisContext *context, redisReply *reply, redisReply **ret_reply,
                       struct simba_error *error)
{
    int code = SIMBA_OK;

    if (reply == NULL)
        code = sb_error_set(error, SIMBA_EUNAVAILABLE, "Redis by hand: %s", context->errstr);
    else if (reply->type == REDIS_REPLY_ERROR)
        code = sb_error_set(error, code_of(reply->str), "Redis by hand: %s", reply->str);
    if (code == SIMBA_OK && ret_reply != NULL)
        *ret_reply = reply;
    else
        freeReplyObject(reply);
    return code;
}

static int ask(redisContext *context, struct simba_error *error, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    redisReply *reply = redisvCommand(context, format, arguments);
    va_end(arguments);
    return check_reply(context, reply, NULL, error);
}

/* The next answer, or message. */
static int hear(redisContext *context, redisReply **ret_reply, struct simba_error *error)
{
    void *reply = NULL;

    if (redisGetReply(context, &reply) != REDIS_OK)
        reply = NULL;
    return check_reply(context, reply, ret_reply, error);
}

static int load(redisContext *context, const char *script, char sha[SHA_MAX],
                struct simba_error *error)
{
    redisReply *reply = NULL;
    int code = check_reply(context, redisCommand(context, "SCRIPT LOAD %s", script), &reply, error);

    if (code == SIMBA_OK && sha != NULL)
        snprintf(sha, SHA_MAX, "%s", reply->str);
    if (code == SIMBA_OK)
        freeReplyObject(reply);
    return code;
}

/* ---- Connections ----------------------------------------------------------------------------- */

static redisContext *connect_plainly(simba_url *url)
{
    bool unix_socket = strstr(simba_url_scheme(url), "+unix") != NULL;
    struct timeval patience = {.tv_sec = PATIENCE_S};

    if (unix_socket)
        return redisConnectUnixWithTimeout(simba_url_path(url), patience);
    int port = simba_url_port(url, 0);
    return redisConnectWithTimeout(simba_url_host(url, 0), port != 0 ? port : PORT, patience);
}

static int log_in(redisContext *context, simba_url *url, struct simba_error *error)
{
    const char *user = simba_url_user(url);
    const char *password = simba_url_password(url);

    if (password == NULL)
        return SIMBA_OK;
    if (user != NULL && user[0] != 0)
        return ask(context, error, "AUTH %s %s", user, password);
    return ask(context, error, "AUTH %s", password);
}

static int choose_database(redisContext *context, simba_url *url, struct simba_error *error)
{
    bool unix_socket = strstr(simba_url_scheme(url), "+unix") != NULL;
    const char *path = simba_url_path(url);
    const char *database = simba_url_param(url, "db");

    if (database == NULL && !unix_socket && path[0] == '/' && path[1] != 0)
        database = path + 1;
    return database != NULL ? ask(context, error, "SELECT %s", database) : SIMBA_OK;
}

static int connect_to(simba_url *url, redisContext **ret_context, struct simba_error *error)
{
    struct timeval patience = {.tv_sec = PATIENCE_S};
    redisContext *context = connect_plainly(url);

    *ret_context = context; /* also on failure, for who closes */
    if (context == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    if (context->err != 0)
        return sb_error_set(error, SIMBA_EUNAVAILABLE, "Redis by hand: %s", context->errstr);
    redisSetTimeout(context, patience);
    int code = log_in(context, url, error);
    return code == SIMBA_OK ? choose_database(context, url, error) : code;
}

static void close_raw(void *handle)
{
    struct redis *raw = handle;

    redisFree(raw->context);
    redisFree(raw->subscription);
    free(raw);
}

/* ---- Preparation ----------------------------------------------------------------------------- */

static void make_names(struct redis *raw, const char *prefix)
{
    snprintf(raw->prefix, sizeof raw->prefix, "%s", prefix);
    snprintf(raw->key, sizeof raw->key, "simba:{%s}raw", prefix);
    snprintf(raw->keys[0], sizeof raw->keys[0], "simba:{%sraw}", prefix);
    snprintf(raw->keys[1], sizeof raw->keys[1], "simba:{%sraw}:contender", prefix);
    snprintf(raw->keys[2], sizeof raw->keys[2], "simba:{%sraw}:fence", prefix);
    snprintf(raw->channel, sizeof raw->channel, "simba:{%sraw}:waiter", prefix);
}

/* What a hand-over and the end need, while nothing is there yet. */
static int check_rights(struct redis *raw, struct simba_error *error)
{
    int code = ask(raw->context, error, "SCAN 0 COUNT 1");

    if (code == SIMBA_OK)
        code = ask(raw->context, error, "DEL %s", raw->key);
    if (code == SIMBA_OK)
        code = ask(raw->subscription, error, "SUBSCRIBE %s", raw->channel);
    return code == SIMBA_OK ? ask(raw->subscription, error, "UNSUBSCRIBE") : code;
}

/* The key is the last, so that nothing stays where a right is missing. */
static int prepare_server(struct redis *raw, struct simba_error *error)
{
    int code = check_rights(raw, error);

    if (code == SIMBA_OK)
        code = load(raw->context, TRIVIAL, raw->trivial, error);

    if (code == SIMBA_OK)
        code = load(raw->context, sb_redis_scripts[SB_REDIS_SCRIPT_ACQUIRE].text, NULL, error);
    if (code == SIMBA_OK)
        code = load(raw->context, sb_redis_scripts[SB_REDIS_SCRIPT_RELEASE].text, NULL, error);
    if (code == SIMBA_OK)
        code = ask(raw->context, error, "SET %s id PX 600000", raw->key);
    return code;
}

static int open_raw(simba_url *url, const char *prefix, void **ret_raw, struct simba_error *error)
{
    const char *scheme = simba_url_scheme(url);

    if (strncmp(scheme, "rediss", 6) == 0 || strncmp(scheme, "valkeys", 7) == 0 ||
        strstr(scheme, "+sentinel") != NULL || strstr(scheme, "+cluster") != NULL)
        return sb_error_set(error, SIMBA_EUNSUPPORTED, "by hand only one server without TLS");
    struct redis *raw = calloc(1, sizeof *raw);
    if (raw == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    make_names(raw, prefix);
    int code = connect_to(url, &raw->context, error);
    if (code == SIMBA_OK)
        code = connect_to(url, &raw->subscription, error);
    if (code == SIMBA_OK)
        code = prepare_server(raw, error);
    if (code != SIMBA_OK)
        close_raw(raw);
    else
        *ret_raw = raw;
    return code;
}

/* ---- A trivial script ------------------------------------------------------------------------ */

static int call_trivial(struct redis *raw, struct simba_error *error)
{
    return ask(raw->context, error, "EVALSHA %s 1 %s id " LEASE, raw->trivial, raw->key);
}

static int cycle_trivial(void *handle, struct simba_error *error)
{
    struct redis *raw = handle;
    int code = call_trivial(raw, error);

    return code == SIMBA_OK ? call_trivial(raw, error) : code;
}

static int publish(void *handle, struct simba_error *error)
{
    struct redis *raw = handle;

    return ask(raw->context, error, "PUBLISH %s text", raw->channel);
}

static int listen_once(void *handle, struct simba_error *error)
{
    struct redis *raw = handle;

    if (raw->listens)
        return SIMBA_OK;
    int code = ask(raw->subscription, error, "SUBSCRIBE %s", raw->channel);
    raw->listens = code == SIMBA_OK;
    return code;
}

static int hear_and_call(void *handle, struct simba_error *error)
{
    struct redis *raw = handle;
    int code = hear(raw->subscription, NULL, error);

    return code == SIMBA_OK ? call_trivial(raw, error) : code;
}

/* ---- The library's scripts ------------------------------------------------------------------- */

/* The winner is told the token alone, others the owner, what is left of its lease and the token. */
static long long token_of(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements >= 3 ? reply->element[2]->integer
                                                                    : reply->integer;
}

/* Keeps the token of the owner afterwards. */
static int call_acquire(struct redis *raw, const char *id, struct simba_error *error)
{
    redisReply *reply = NULL;
    int code = check_reply(raw->context,
                           redisCommand(raw->context, "EVALSHA %s 3 %s %s %s %s " LEASE " 0",
                                        sb_redis_scripts[SB_REDIS_SCRIPT_ACQUIRE].sha1,
                                        raw->keys[0], raw->keys[1], raw->keys[2], id),
                           &reply, error);

    if (code != SIMBA_OK)
        return code;
    snprintf(raw->token, sizeof raw->token, "%lld", token_of(reply));
    freeReplyObject(reply);
    return SIMBA_OK;
}

static int call_release(struct redis *raw, const char *id, struct simba_error *error)
{
    return ask(raw->context, error, "EVALSHA %s 3 %s %s %s %s %s",
               sb_redis_scripts[SB_REDIS_SCRIPT_RELEASE].sha1, raw->keys[0], raw->keys[1],
               raw->keys[2], id, raw->token);
}

static int cycle_scripts(void *handle, struct simba_error *error)
{
    struct redis *raw = handle;
    int code = call_acquire(raw, "owner", error);

    return code == SIMBA_OK ? call_release(raw, "owner", error) : code;
}

static int own(void *handle, struct simba_error *error)
{
    return call_acquire(handle, "owner", error);
}

static int release(void *handle, struct simba_error *error)
{
    return call_release(handle, "owner", error);
}

/* It is in the queue then. */
static int join(void *handle, struct simba_error *error)
{
    int code = listen_once(handle, error);

    return code == SIMBA_OK ? call_acquire(handle, "waiter", error) : code;
}

static int leave(void *handle, struct simba_error *error)
{
    return call_release(handle, "waiter", error);
}

static int hear_and_acquire(void *handle, struct simba_error *error)
{
    struct redis *raw = handle;
    int code = hear(raw->subscription, NULL, error);

    return code == SIMBA_OK ? call_acquire(raw, "waiter", error) : code;
}

/* ---- Many, counters, the end ----------------------------------------------------------------- */

static int renew(void *handle, int count, struct simba_error *error)
{
    struct redis *raw = handle;
    int code = SIMBA_OK;

    for (int i = 0; i < count; i++)
        redisAppendCommand(raw->context, "EVALSHA %s 1 %s id " LEASE, raw->trivial, raw->key);
    for (int i = 0; i < count && code == SIMBA_OK; i++)
        code = hear(raw->context, NULL, error);
    return code;
}

/* What clients send themselves; the commands in scripts are counted there as well. */
static int counter(void *handle, double *ret_value, struct simba_error *error)
{
    static const char *const names[] = {
        "cmdstat_evalsha:calls=", "cmdstat_eval:calls=", "cmdstat_subscribe:calls=",
        "cmdstat_unsubscribe:calls=", "cmdstat_ping:calls="};
    struct redis *raw = handle;
    redisReply *reply = NULL;
    int code =
        check_reply(raw->context, redisCommand(raw->context, "INFO commandstats"), &reply, error);

    if (code != SIMBA_OK)
        return code;
    *ret_value = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *found = strstr(reply->str, names[i]);
        *ret_value += found != NULL ? strtod(found + strlen(names[i]), NULL) : 0;
    }
    freeReplyObject(reply);
    return SIMBA_OK;
}

static int delete_keys(struct redis *raw, const redisReply *keys, struct simba_error *error)
{
    int code = SIMBA_OK;

    for (size_t i = 0; i < keys->elements; i++)
        redisAppendCommand(raw->context, "DEL %s", keys->element[i]->str);
    for (size_t i = 0; i < keys->elements && code == SIMBA_OK; i++)
        code = hear(raw->context, NULL, error);
    return code;
}

static int forget(void *handle, struct simba_error *error)
{
    struct redis *raw = handle;
    char cursor[32] = "0";
    int code = SIMBA_OK;

    do {
        redisReply *reply = NULL;
        code = check_reply(raw->context,
                           redisCommand(raw->context, "SCAN %s MATCH simba:{%s* COUNT " SCAN_COUNT,
                                        cursor, raw->prefix),
                           &reply, error);
        if (code != SIMBA_OK)
            return code;
        snprintf(cursor, sizeof cursor, "%s", reply->element[0]->str);
        code = delete_keys(raw, reply->element[1], error);
        freeReplyObject(reply);
    } while (code == SIMBA_OK && strcmp(cursor, "0") != 0);
    return code;
}

static const struct bench_way ways[] = {
    {.key = "raw",
     .cycle_label = "two round trips of a trivial script",
     .handover_label = "PUBLISH heard + a trivial script",
     .cycle = cycle_trivial,
     .owner = {.release = publish},
     .waiter = {.join = listen_once, .take = hear_and_call}},
    {.key = "scripts",
     .cycle_label = "the same scripts by hand",
     .handover_label = "the same scripts by hand",
     .cycle = cycle_scripts,
     .owner = {.own = own, .release = release},
     .waiter = {.join = join, .take = hear_and_acquire, .leave = leave}},
    {.key = NULL},
};

const struct bench_raw_ops bench_raw_redis = {
    .open = open_raw,
    .close = close_raw,
    .ways = ways,
    .rest_ms = 20,
    .renew_label = "calls of a trivial script in a pipeline",
    .renew = renew,
    .counter_name = "commands",
    .counter = counter,
    .forget = forget,
};
