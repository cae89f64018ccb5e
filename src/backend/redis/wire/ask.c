/*
 * ask.c - a connection, a command, its reply and the end, on a loop of their own.
 */
#include "backend/redis/wire/reconnecting.h"

#include "backend/redis/wire/resp.h"
#include "base/check.h"
#include "base/error.h"
#include "base/thread.h"

#include <hiredis/hiredis.h>
#include <uv.h>

struct question {
    struct sb_redis_command command; /* first */
    sb_redis_ask_take *take;
    void *user;
    bool answered;
    int code;
    struct simba_error error;
};

static void on_answered(struct sb_redis_command *command, const struct sb_redis_answer *answer)
{
    struct question *q = (struct question *)command;
    const redisReply *reply = answer->reply;

    SB_CHECK(!q->answered, "a question is answered once");
    q->answered = true;
    if (reply == NULL) {
        q->error = *answer->error;
        q->code = q->error.code;
    } else if (reply->type == REDIS_REPLY_ERROR) {
        q->code = sb_redis_fail(answer->place, reply->str, &q->error);
    } else {
        q->code = q->take != NULL ? q->take(q->user, reply, &q->error) : SIMBA_OK;
    }
}

static void ignore(void *user)
{
    (void)user;
}

/* The command has been answered with the error. */
static void ignore_down(void *user, const struct simba_error *error)
{
    (void)user;
    (void)error;
}

const struct sb_redis_connection_events sb_redis_ask_events = {ignore, NULL, ignore_down, ignore,
                                                               NULL};

static int64_t connect_timeout_of(const struct sb_redis_ask_config *config)
{
    return config->connect_timeout_ms > 0 ? config->connect_timeout_ms
                                          : config->options->connect_timeout_ms;
}

static int ask_on(uv_loop_t *loop, const struct sb_redis_ask_config *config,
                  const struct sb_wire_endpoint *endpoint, struct question *q,
                  const struct sb_redis_argument *arguments, size_t count)
{
    const struct sb_redis_connection_config connection_config = {
        .loop = loop,
        .options = config->options,
        .login = sb_redis_login_create(config->options, config->credentials, config->tls),
        .database = config->database,
        .connect_timeout_ms = connect_timeout_of(config),
        .master_only = config->master_only,
        .events = &sb_redis_ask_events,
    };
    struct sb_redis_connection *connection = sb_redis_connection_open(&connection_config, endpoint);
    int code;

    if (connection == NULL)
        return sb_error_plain(&q->error, SIMBA_ENOMEM);
    code = sb_redis_connection_send(connection, &q->command, arguments, count);
    if (code == SIMBA_OK) {
        while (!q->answered)
            uv_run(loop, UV_RUN_ONCE);
        code = q->code;
    } else {
        sb_error_plain(&q->error, code);
    }
    sb_redis_connection_close(connection);
    uv_run(loop, UV_RUN_DEFAULT);
    return code;
}

int sb_redis_ask(const struct sb_redis_ask_config *config, const struct sb_wire_endpoint *endpoint,
                 const struct sb_redis_argument *arguments, size_t count, sb_redis_ask_take *take,
                 void *user, struct simba_error *error)
{
    struct question q = {.take = take, .user = user};
    uv_loop_t loop;
    int code = sb_descriptors_check(SB_DESCRIPTORS_OF_LOOP);

    if (code == 0) /* otherwise libuv would leak one */
        code = uv_loop_init(&loop);
    if (code < 0)
        return sb_error_set_backend(error, SIMBA_ENOMEM, code, "cannot create an event loop: %s",
                                    uv_strerror(code));
    q.command.answered = on_answered;
    q.command.deadline_ms =
        simba_now_ms() + connect_timeout_of(config) + config->options->command_timeout_ms;
    code = ask_on(&loop, config, endpoint, &q, arguments, count);
    uv_loop_close(&loop);
    if (code != SIMBA_OK && error != NULL)
        *error = q.error;
    return code;
}
