/*
 * eviction.c - INFO memory, asked and judged.
 *
 * Every lease has an expiry, so each policy but noeviction, also those that spare keys without one,
 * may end a lease that somebody believes in.
 */
#include "backend/redis/ops/ops.h"

#include "base/alloc.h"

#include <hiredis/hiredis.h>
#include <string.h>

struct question {
    struct sb_redis_command command; /* first: INFO */
    simba_backend *store;
};

/* What stands behind "NAME:" in the text, up to the end of the line; its length is 0 where nothing
 * does. */
static struct sb_redis_argument field(const char *text, const char *name)
{
    const char *found = strstr(text, name);

    if (found == NULL)
        return (struct sb_redis_argument){"", 0};
    found += strlen(name);
    return (struct sb_redis_argument){found, strcspn(found, "\r\n")};
}

static bool is_text(const struct sb_redis_argument *value, const char *text)
{
    return value->length == strlen(text) && memcmp(value->bytes, text, value->length) == 0;
}

static void judge(simba_backend *store, const struct sb_redis_place *place, const char *info)
{
    struct sb_redis_argument limit = field(info, "\nmaxmemory:");
    struct sb_redis_argument policy = field(info, "\nmaxmemory_policy:");
    char where[SB_REDIS_PLACE_TEXT_MAX];

    if (limit.length == 0 || is_text(&limit, "0") || policy.length == 0 ||
        is_text(&policy, "noeviction"))
        return;
    store->host->log(store->host, SIMBA_LOG_WARN,
                     "redis: the server at %.80s evicts keys when its memory is short "
                     "(maxmemory-policy %.*s), leases among them: a mutex can get two owners. Use "
                     "noeviction",
                     sb_redis_place_text(place, where), (int)policy.length, policy.bytes);
}

static void on_answered(struct sb_redis_command *command, const struct sb_redis_answer *answer)
{
    struct question *question = (struct question *)command;

    if (answer->reply != NULL && answer->reply->type == REDIS_REPLY_STRING)
        judge(question->store, answer->place, answer->reply->str);
    sb_free(question);
}

void sb_redis_eviction_check(simba_backend *store, struct sb_redis_node *node)
{
    const struct sb_redis_argument arguments[2] = {{"INFO", 4}, {"memory", 6}};
    struct question *question = sb_alloc_zero(sizeof *question);
    struct simba_error error;

    if (question == NULL)
        return; /* the warning is a courtesy */
    question->store = store;
    question->command.answered = on_answered;
    question->command.deadline_ms = simba_now_ms() + store->options.command_timeout_ms;
    if (sb_redis_reconnecting_send(node->commands, &question->command, arguments, 2, &error) !=
        SIMBA_OK)
        sb_free(question);
}
