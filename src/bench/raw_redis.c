/*
 * raw_redis.c - Redis as a blocking hiredis client uses it.
 *
 * Two ways are measured: round trips of a trivial script, which no client can beat, and the
 * library's own scripts in its own order, which is what its protocol costs by itself.
 */
#include "bench/raw_store.h"

#include "backend/redis/scripts/script.h"
#include "backend/redis/wire/resp.h"
#include "base/error.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define PORT 6379
#define PATIENCE_S 10 /* for one reply */
#define FORGET_MS 20000
#define ANY_TYPE 0
#define LEASE "60000"
#define TRIVIAL                                                                                    \
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], "         \
    "ARGV[2]) end return 0"
#define NAME_MAX_BYTES 64
#define SHA_MAX 64
#define SCAN_COUNT "1000"

/* hiredis writes, and its replies are read within the library's limits. */
struct wire {
    redisContext *context;
    struct sb_redis_reader *reader;
    struct sb_wire_place place;
    bool logs_in; /* what a server says about a password is not quoted */
};

struct redis {
    struct wire commands;
    struct wire subscription; /* a waiter's */
    bool listens;
    char prefix[NAME_MAX_BYTES];
    char trivial[SHA_MAX];
    char key[NAME_MAX_BYTES * 2]; /* what the trivial script looks at */
    char keys[3][NAME_MAX_BYTES * 2];
    char channel[NAME_MAX_BYTES * 2]; /* of the waiter */
    char token[32];                   /* of the owner by hand */
};

/* ---- Commands -------------------------------------------------------------------------------- */

static int fail(struct simba_error *error, int code, const char *why)
{
    return sb_error_set(error, code, "Redis by hand: %s", why);
}

/* Replies have the library's limits, and each must come within PATIENCE_S. */
static int receive(struct wire *wire, redisReply **ret_reply, struct simba_error *error)
{
    int64_t end_ms = simba_now_ms() + PATIENCE_S * 1000;
    enum sb_redis_reader_verdict verdict;
    char bytes[16384];

    while ((verdict = sb_redis_reader_next(wire->reader, ret_reply)) == SB_REDIS_READER_MORE) {
        ssize_t count = recv(wire->context->fd, bytes, sizeof bytes, 0);

        if (count == 0)
            return fail(error, SIMBA_EUNAVAILABLE, "the server closed the connection");
        if (count < 0 && errno != EINTR && errno != EAGAIN)
            return fail(error, SIMBA_EUNAVAILABLE, strerror(errno));
        if (simba_now_ms() >= end_ms)
            return fail(error, SIMBA_EUNAVAILABLE, "the server did not answer in time");
        if (count > 0 && !sb_redis_reader_feed(wire->reader, bytes, (size_t)count))
            return sb_error_plain(error, SIMBA_ENOMEM);
    }
    return verdict == SB_REDIS_READER_REPLY
               ? SIMBA_OK
               : fail(error, SIMBA_ESTORE, "the server sent a reply that is too long or malformed");
}

/* The next answer or message, which must be of this type. Where `ret_reply` is not NULL it becomes
 * the caller's. */
static int hear(struct wire *wire, int type, redisReply **ret_reply, struct simba_error *error)
{
    redisReply *reply = NULL;
    struct simba_error why;
    int code = receive(wire, &reply, error);

    if (code != SIMBA_OK)
        return code;
    if (reply->type == REDIS_REPLY_ERROR) {
        code = wire->logs_in ? sb_redis_fail_quietly(&wire->place, reply->str, &why)
                             : sb_redis_fail(&wire->place, reply->str, &why);
        fail(error, code, why.text);
    } else if (type != ANY_TYPE && reply->type != type) {
        code = fail(error, SIMBA_ESTORE, "the server answers something else than it was asked");
    }
    if (code == SIMBA_OK && ret_reply != NULL)
        *ret_reply = reply;
    else
        freeReplyObject(reply);
    return code;
}

static int flush(struct wire *wire, struct simba_error *error)
{
    int done = 0;

    while (done == 0)
        if (redisBufferWrite(wire->context, &done) != REDIS_OK)
            return fail(error, SIMBA_EUNAVAILABLE, wire->context->errstr);
    return SIMBA_OK;
}

static int ask(struct wire *wire, int type, redisReply **ret_reply, struct simba_error *error,
               const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    int appended = redisvAppendCommand(wire->context, format, arguments);
    va_end(arguments);
    if (appended != REDIS_OK)
        return fail(error, SIMBA_EUNAVAILABLE, wire->context->errstr);
    int code = flush(wire, error);
    return code == SIMBA_OK ? hear(wire, type, ret_reply, error) : code;
}

static int load(struct wire *wire, const char *script, char sha[SHA_MAX], struct simba_error *error)
{
    redisReply *reply = NULL;
    int code = ask(wire, REDIS_REPLY_STRING, &reply, error, "SCRIPT LOAD %s", script);

    if (code == SIMBA_OK && sha != NULL)
        snprintf(sha, SHA_MAX, "%s", reply->str);
    if (code == SIMBA_OK)
        freeReplyObject(reply);
    return code;
}

/* ---- Connections ----------------------------------------------------------------------------- */

static redisContext *connect_plainly(simba_url *url, struct sb_wire_place *ret_place)
{
    bool unix_socket = strstr(simba_url_scheme(url), "+unix") != NULL;
    struct timeval patience = {.tv_sec = PATIENCE_S};
    int port = simba_url_port(url, 0);

    ret_place->port = unix_socket ? 0 : port != 0 ? port : PORT;
    snprintf(ret_place->host, sizeof ret_place->host, "%s",
             unix_socket ? simba_url_path(url) : simba_url_host(url, 0));
    if (unix_socket)
        return redisConnectUnixWithTimeout(simba_url_path(url), patience);
    return redisConnectWithTimeout(simba_url_host(url, 0), ret_place->port, patience);
}

static int log_in(struct wire *wire, simba_url *url, struct simba_error *error)
{
    const char *user = simba_url_user(url);
    const char *password = simba_url_password(url);
    int code = SIMBA_OK;

    wire->logs_in = true;
    if (password != NULL && user != NULL && user[0] != 0)
        code = ask(wire, REDIS_REPLY_STATUS, NULL, error, "AUTH %s %s", user, password);
    else if (password != NULL)
        code = ask(wire, REDIS_REPLY_STATUS, NULL, error, "AUTH %s", password);
    wire->logs_in = false;
    return code;
}

static int choose_database(struct wire *wire, simba_url *url, struct simba_error *error)
{
    bool unix_socket = strstr(simba_url_scheme(url), "+unix") != NULL;
    const char *path = simba_url_path(url);
    const char *database = simba_url_param(url, "db");

    if (database == NULL && !unix_socket && path[0] == '/' && path[1] != 0)
        database = path + 1;
    return database != NULL ? ask(wire, REDIS_REPLY_STATUS, NULL, error, "SELECT %s", database)
                            : SIMBA_OK;
}

static int connect_to(simba_url *url, struct wire *wire, struct simba_error *error)
{
    struct timeval patience = {.tv_sec = PATIENCE_S};

    wire->context = connect_plainly(url, &wire->place);
    wire->reader = sb_redis_reader_create();
    if (wire->context == NULL || wire->reader == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    if (wire->context->err != 0)
        return fail(error, SIMBA_EUNAVAILABLE, wire->context->errstr);
    redisSetTimeout(wire->context, patience);
    int code = log_in(wire, url, error);
    return code == SIMBA_OK ? choose_database(wire, url, error) : code;
}

static void disconnect(struct wire *wire)
{
    redisFree(wire->context);
    sb_redis_reader_free(wire->reader);
}

static void close_raw(void *handle)
{
    struct redis *raw = handle;

    disconnect(&raw->commands);
    disconnect(&raw->subscription);
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
    int code = ask(&raw->commands, ANY_TYPE, NULL, error, "SCAN 0 COUNT 1");

    if (code == SIMBA_OK)
        code = ask(&raw->commands, ANY_TYPE, NULL, error, "DEL %s", raw->key);
    if (code == SIMBA_OK)
        code = ask(&raw->subscription, ANY_TYPE, NULL, error, "SUBSCRIBE %s", raw->channel);
    return code == SIMBA_OK ? ask(&raw->subscription, ANY_TYPE, NULL, error, "UNSUBSCRIBE") : code;
}

/* The key is the last, so that nothing stays where a right is missing. */
static int prepare_server(struct redis *raw, struct simba_error *error)
{
    int code = check_rights(raw, error);

    if (code == SIMBA_OK)
        code = load(&raw->commands, TRIVIAL, raw->trivial, error);

    if (code == SIMBA_OK)
        code = load(&raw->commands, sb_redis_scripts[SB_REDIS_SCRIPT_ACQUIRE].text, NULL, error);
    if (code == SIMBA_OK)
        code = load(&raw->commands, sb_redis_scripts[SB_REDIS_SCRIPT_RELEASE].text, NULL, error);
    if (code == SIMBA_OK)
        code = ask(&raw->commands, ANY_TYPE, NULL, error, "SET %s id PX 600000", raw->key);
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
    int code = connect_to(url, &raw->commands, error);
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
    return ask(&raw->commands, ANY_TYPE, NULL, error, "EVALSHA %s 1 %s id " LEASE, raw->trivial,
               raw->key);
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

    return ask(&raw->commands, ANY_TYPE, NULL, error, "PUBLISH %s text", raw->channel);
}

static int listen_once(void *handle, struct simba_error *error)
{
    struct redis *raw = handle;

    if (raw->listens)
        return SIMBA_OK;
    int code = ask(&raw->subscription, ANY_TYPE, NULL, error, "SUBSCRIBE %s", raw->channel);
    raw->listens = code == SIMBA_OK;
    return code;
}

static int hear_and_call(void *handle, struct simba_error *error)
{
    struct redis *raw = handle;
    int code = hear(&raw->subscription, ANY_TYPE, NULL, error);

    return code == SIMBA_OK ? call_trivial(raw, error) : code;
}

/* ---- The library's scripts ------------------------------------------------------------------- */

/* The winner is told the token alone, others the owner, what is left of its lease and the token.
 * Keeps the token of the owner afterwards. */
static int call_acquire(struct redis *raw, const char *id, struct simba_error *error)
{
    redisReply *reply = NULL;
    int code = ask(&raw->commands, ANY_TYPE, &reply, error, "EVALSHA %s 3 %s %s %s %s " LEASE " 0",
                   sb_redis_scripts[SB_REDIS_SCRIPT_ACQUIRE].sha1, raw->keys[0], raw->keys[1],
                   raw->keys[2], id);

    if (code != SIMBA_OK)
        return code;
    bool has_three = reply->type == REDIS_REPLY_ARRAY && reply->elements >= 3;
    const redisReply *token = has_three ? reply->element[2] : reply;
    if (token->type == REDIS_REPLY_INTEGER)
        snprintf(raw->token, sizeof raw->token, "%lld", token->integer);
    else
        code = fail(error, SIMBA_ESTORE, "the server tells no token");
    freeReplyObject(reply);
    return code;
}

static int call_release(struct redis *raw, const char *id, struct simba_error *error)
{
    return ask(&raw->commands, ANY_TYPE, NULL, error, "EVALSHA %s 3 %s %s %s %s %s",
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
    int code = hear(&raw->subscription, ANY_TYPE, NULL, error);

    return code == SIMBA_OK ? call_acquire(raw, "waiter", error) : code;
}

/* ---- Many, counters, the end ----------------------------------------------------------------- */

static int renew(void *handle, int count, struct simba_error *error)
{
    struct redis *raw = handle;
    int code = SIMBA_OK;

    for (int i = 0; i < count; i++)
        redisAppendCommand(raw->commands.context, "EVALSHA %s 1 %s id " LEASE, raw->trivial,
                           raw->key);
    code = flush(&raw->commands, error);
    for (int i = 0; i < count && code == SIMBA_OK; i++)
        code = hear(&raw->commands, ANY_TYPE, NULL, error);
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
    int code = ask(&raw->commands, REDIS_REPLY_STRING, &reply, error, "INFO commandstats");

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

static int delete_keys(struct redis *raw, const redisReply *keys, int64_t end_ms,
                       struct simba_error *error)
{
    int code = SIMBA_OK;

    for (size_t i = 0; i < keys->elements && code == SIMBA_OK && simba_now_ms() < end_ms; i++)
        if (keys->element[i]->type == REDIS_REPLY_STRING)
            code = ask(&raw->commands, REDIS_REPLY_INTEGER, NULL, error, "DEL %b",
                       keys->element[i]->str, (size_t)keys->element[i]->len);
    return code;
}

static int forget(void *handle, struct simba_error *error)
{
    struct redis *raw = handle;
    int64_t end_ms = simba_now_ms() + FORGET_MS;
    char cursor[32] = "0";
    int code = SIMBA_OK;

    do {
        redisReply *reply = NULL;
        code = ask(&raw->commands, REDIS_REPLY_ARRAY, &reply, error,
                   "SCAN %s MATCH simba:{%s* COUNT " SCAN_COUNT, cursor, raw->prefix);
        if (code != SIMBA_OK)
            return code;
        if (reply->elements == 2 && reply->element[0]->type == REDIS_REPLY_STRING &&
            reply->element[1]->type == REDIS_REPLY_ARRAY) {
            snprintf(cursor, sizeof cursor, "%s", reply->element[0]->str);
            code = delete_keys(raw, reply->element[1], end_ms, error);
        } else {
            code = fail(error, SIMBA_ESTORE, "the server answers something else than it was asked");
        }
        freeReplyObject(reply);
        if (code == SIMBA_OK && simba_now_ms() >= end_ms)
            code = fail(error, SIMBA_ETIMEDOUT, "SCAN does not end; keys may be left");
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
