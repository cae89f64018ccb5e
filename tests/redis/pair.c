/*
 * pair.c - two clients, and the steps of a hand-over from one to the other.
 */
#include "pair.h"

struct pair pair;

bool pair_has_subscriber(void *user)
{
    redisReply *reply = server_ask(&pair.server, "PUBSUB NUMSUB %s", (const char *)user);
    bool has = reply->element[1]->integer > 0;

    freeReplyObject(reply);
    return has;
}

int pair_begin(void **state)
{
    (void)state;
    server_do(&pair.server, "FLUSHALL");
    pair.ear = redisConnect("127.0.0.1", pair.server.port);
    if (pair.ear->err != 0 || host_open(&pair.owner, server_url(&pair.server, "")) != SIMBA_OK ||
        host_open(&pair.waiter, server_url(&pair.server, "?client-name=waiter")) != SIMBA_OK)
        return -1;
    host_do(&pair.owner, RELEASE, "m", "a", 0); /* by now the server knows the script */
    pair.waiter.ops->listen(pair.waiter.backend, "barrier", NULL, true);
    return host_run_until(&pair.waiter, pair_has_subscriber, (void *)"simba:{barrier}") ? 0 : -1;
}

int pair_end(void **state)
{
    (void)state;
    redisFree(pair.ear);
    pair.waiter.ops->listen(pair.waiter.backend, "barrier", NULL, false);
    return host_close(&pair.owner) && host_close(&pair.waiter) ? 0 : -1;
}

/* ---- Steps ---------------------------------------------------------------------------------- */

struct call pair_ask_for(struct host *host, enum simba_op op, const char *id, uint64_t revision,
                         int64_t ttl_ms)
{
    struct call call = host_call(op, "m", id, revision);

    call.request.ttl_ms = ttl_ms;
    host_submit(host, &call, 1);
    assert_true(host_wait(host, &call, 1));
    if (call.code != SIMBA_OK)
        fail_msg("operation %d: %d: %s", (int)op, call.code, call.error.text);
    return call;
}

struct call pair_ask(struct host *host, enum simba_op op, const char *id, uint64_t revision)
{
    return pair_ask_for(host, op, id, revision, HOST_TTL_MS);
}

int pair_calls(const char *command)
{
    const char *stats = server_text(&pair.server, "INFO commandstats");
    char name[64];
    const char *found;

    snprintf(name, sizeof name, "cmdstat_%s:calls=", command);
    found = strstr(stats, name);
    return found != NULL ? atoi(found + strlen(name)) : 0;
}

int pair_script_calls(void)
{
    return pair_calls("evalsha") + pair_calls("eval");
}

uint64_t pair_fence(void)
{
    return strtoull(server_text(&pair.server, "GET simba:{m}:fence"), NULL, 10);
}

void pair_assert_owner(const char *id)
{
    assert_string_equal(server_text(&pair.server, "GET simba:{m}"), id);
}

/* The waiter has heard all that was said to it before: messages come in their order. */
void pair_hear_all(void)
{
    server_do(&pair.server, "PUBLISH simba:{barrier} acquired@@nobody");
    assert_true(host_wait_notice(&pair.waiter, SIMBA_NOTICE_CHANGED, "barrier", ""));
    host_forget_notices(&pair.waiter);
}

/* The contender of the waiter's client has lost to "a" and listens. */
void pair_wait_as(const char *id)
{
    char channel[64];

    pair.waiter.ops->listen(pair.waiter.backend, "m", id, true);
    assert_string_equal(pair_ask(&pair.waiter, ACQUIRE, id, 0).owner, "a");
    snprintf(channel, sizeof channel, "simba:{m}:%s", id);
    assert_true(host_run_until(&pair.waiter, pair_has_subscriber, channel));
    pair_hear_all();
    server_do(&pair.server, "CONFIG RESETSTAT");
}

struct call pair_own_and_have_b_wait(void)
{
    struct call call = pair_ask(&pair.owner, ACQUIRE, "a", 0);

    pair_wait_as("b");
    return call;
}

void pair_await_message(void)
{
    assert_true(host_wait_notice(&pair.waiter, SIMBA_NOTICE_RELEASED, "m", "b"));
}

/* "b" is the owner on the store, and has the message. */
struct call pair_hand_over(void)
{
    struct call call = pair_own_and_have_b_wait();

    pair_ask(&pair.owner, RELEASE, "a", call.revision);
    pair_assert_owner("b");
    pair_await_message();
    return call;
}

bool pair_is_past(void *user)
{
    return simba_now_ms() >= *(const int64_t *)user;
}

void pair_let_pass(int64_t ms)
{
    int64_t end_ms = simba_now_ms() + ms;

    assert_true(test_wait(pair_is_past, &end_ms));
}

void pair_stop_listening(void)
{
    pair.waiter.ops->listen(pair.waiter.backend, "m", "b", false);
}

bool pair_is_free(void *user)
{
    (void)user;
    return server_number(&pair.server, "EXISTS simba:{m}") == 0;
}

/* The next message to "b", as the ear has it. */
void pair_overhear(char *text, size_t size)
{
    void *next = NULL;
    redisReply *reply;

    redisSetTimeout(pair.ear, (struct timeval){5, 0});
    assert_int_equal(redisGetReply(pair.ear, &next), REDIS_OK);
    reply = next;
    assert_int_equal(reply->elements, 3);
    snprintf(text, size, "%s", reply->element[2]->str);
    freeReplyObject(reply);
}

void pair_hear_b(void)
{
    redisReply *reply = redisCommand(pair.ear, "SUBSCRIBE simba:{m}:b");

    assert_non_null(reply);
    freeReplyObject(reply);
}

void pair_kill_connection(const char *type)
{
    char list[8192];
    char *line = list;

    snprintf(list, sizeof list, "%s", server_text(&pair.server, "CLIENT LIST TYPE %s", type));
    for (line = strtok(list, "\n"); line != NULL; line = strtok(NULL, "\n"))
        if (strstr(line, " name=waiter ") != NULL)
            break;
    assert_non_null(line);
    assert_int_equal(
        server_number(&pair.server, "CLIENT KILL ID %lld", atoll(line + strlen("id="))), 1);
}
