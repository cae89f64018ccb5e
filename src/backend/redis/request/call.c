/*
 * call.c - a job becomes a call of a script. Owns the words of that; must not know answers, nor when it is a job's
 * turn.
 */
#include "backend/redis/request/call.h"
#include "backend/redis/request/quorum.h"
#include "base/alloc.h"
#include "base/error.h"

struct sb_redis_listener *sb_redis_call_listener(const struct sb_redis_call *job)
{
    return sb_redis_listeners_find(&job->store->listeners, job->request->mutex, job->request->id);
}

static enum sb_redis_script_name script_of(enum simba_op op)
{
    switch (op) {
    case SIMBA_OP_ACQUIRE:
        return SB_REDIS_SCRIPT_ACQUIRE;
    case SIMBA_OP_GUARD:
        return SB_REDIS_SCRIPT_GUARD;
    case SIMBA_OP_RELEASE:
        return SB_REDIS_SCRIPT_RELEASE;
    default:
        return SB_REDIS_SCRIPT_READ;
    }
}

/* EVALSHA, or EVAL when the server has said that it does not know the script, and the text has not been
 * sent since: many may be told so at once. */
static void name_script(struct sb_redis_call *job, struct sb_redis_argument arguments[2])
{
    enum sb_redis_script_name name = script_of(job->op);
    struct sb_redis_node *node = job->node;

    node->sent++;
    if (job->needs_text && node->loaded[name] <= job->sent_as) {
        arguments[0] = (struct sb_redis_argument){"EVAL", 4};
        arguments[1] = sb_redis_argument_text(sb_redis_scripts[name].text);
        node->loaded[name] = node->sent;
    } else {
        arguments[0] = (struct sb_redis_argument){"EVALSHA", 7};
        arguments[1] = (struct sb_redis_argument){sb_redis_scripts[name].sha1, 40};
    }
    job->needs_text = false;
    job->sent_as = node->sent;
}

static int64_t waits_since(const struct sb_redis_call *job)
{
    const struct sb_redis_listeners *listeners = &job->store->listeners;
    const struct sb_redis_listener *listener =
        listeners->waiting > 0 ? sb_redis_call_listener(job) : NULL;

    return listener != NULL ? listener->waits_since_us : 0;
}

/* What only some acquires need; a later one needs those before it as well. */
static size_t add_rest(const struct sb_redis_call *job, struct sb_redis_argument *arguments,
                       struct sb_redis_digits digits[2])
{
    bool asks_place = job->request->asks_place;
    int64_t since_us = waits_since(job);
    size_t count = 0;

    if (job->revision > 0 || since_us > 0 || asks_place)
        arguments[count++] = sb_redis_argument_number((int64_t)job->revision, &digits[0]);
    if (since_us > 0 || asks_place)
        arguments[count++] = sb_redis_argument_number(since_us, &digits[1]);
    if (asks_place)
        arguments[count++] = (struct sb_redis_argument){"place", 5};
    return count;
}

/* Behind the keys: what each script documents as its ARGV. */
static size_t add_values(const struct sb_redis_call *job, struct sb_redis_argument *arguments,
                         struct sb_redis_digits digits[4])
{
    const struct simba_request *r = job->request;
    size_t count = 0;

    if (job->op == SIMBA_OP_READ)
        return 0;
    arguments[count++] = sb_redis_argument_text(r->id);
    if (job->op != SIMBA_OP_RELEASE)
        arguments[count++] = sb_redis_argument_number(r->ttl_ms + r->transition_ms, &digits[0]);
    if (job->op != SIMBA_OP_ACQUIRE)
        arguments[count++] = sb_redis_argument_number((int64_t)job->revision, &digits[1]);
    if (job->op != SIMBA_OP_ACQUIRE)
        return count;
    arguments[count++] = sb_redis_argument_number((int64_t)job->store->seen, &digits[1]);
    return count + add_rest(job, arguments + count, digits + 2);
}

static void on_asked(struct sb_redis_command *command, const struct sb_redis_answer *answer)
{
    (void)answer; /* the command behind it tells how it went */
    sb_free(command);
}

int sb_redis_request_send_asking(struct sb_redis_node *node, int64_t deadline_ms,
                                 struct simba_error *error)
{
    const struct sb_redis_argument word = {"ASKING", 6};
    struct sb_redis_command *command = sb_alloc_zero(sizeof *command);
    int code;

    if (command == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    command->answered = on_asked;
    command->deadline_ms = deadline_ms;
    code = sb_redis_reconnecting_send(node->commands, command, &word, 1, error);
    if (code != SIMBA_OK)
        sb_free(command);
    return code;
}

int sb_redis_call_send(struct sb_redis_call *job, struct simba_error *error)
{
    struct sb_redis_argument arguments[12];
    struct sb_redis_digits digits[4];
    struct sb_redis_keys keys;
    size_t count = 3;
    int code = SIMBA_OK;

    if (!sb_redis_quorum_prepare(job))
        return sb_error_plain(error, SIMBA_ENOMEM);
    name_script(job, arguments);
    arguments[2] = (struct sb_redis_argument){"3", 1};
    sb_redis_keys_make(&keys, job->request->mutex);
    for (size_t i = 0; i < 3; i++)
        arguments[count++] = keys.arguments[i];
    count += add_values(job, arguments + count, digits);
    if (job->asking)
        code = sb_redis_request_send_asking(job->node, job->command.deadline_ms, error);
    if (code == SIMBA_OK)
        code =
            sb_redis_reconnecting_send(job->node->commands, &job->command, arguments, count, error);
    if (code == SIMBA_OK)
        sb_redis_quorum_join(job);
    return code;
}
