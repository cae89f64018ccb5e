/*
 * quorum.c - WAIT and its reply. Owns how long replicas have; must not know what becomes of a lease
 * that too few of them have acknowledged.
 */
#include "backend/redis/request/nodes.h"

#include "backend/redis/wire/resp.h"
#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/time.h"

#include <hiredis/hiredis.h>

#define GIVE_BACK_SHARE 4 /* what part of a request's time is left for giving a lease back */

struct sb_redis_quorum {
    struct sb_redis_command command; /* first: WAIT */
    const struct sb_redis_options *options;
    unsigned references; /* of the node or the WAIT, and of each member */
    enum sb_redis_verdict verdict;
    struct simba_error reason;           /* unless it is ENOUGH */
    struct sb_redis_quorum_member *held; /* leases that wait for the verdict */
};

static void release(struct sb_redis_quorum *quorum)
{
    SB_CHECK(quorum->references > 0, "a quorum is released once per reference");
    if (--quorum->references == 0)
        sb_free(quorum);
}

/* ---- Verdict --------------------------------------------------------------------------------- */

static void decide(struct sb_redis_quorum *quorum, enum sb_redis_verdict verdict)
{
    SB_CHECK(quorum->verdict == SB_REDIS_VERDICT_OPEN, "a quorum is decided once");
    quorum->verdict = verdict;
    while (quorum->held != NULL) {
        struct sb_redis_quorum_member *member = quorum->held;

        quorum->held = member->next;
        member->next = NULL;
        member->settled(member, verdict);
    }
}

static void lose(struct sb_redis_quorum *quorum)
{
    sb_error_set(&quorum->reason, SIMBA_EUNKNOWN,
                 "it is not known whether %lld replicas have the lease",
                 (long long)quorum->options->wait_replicas);
    decide(quorum, SB_REDIS_VERDICT_UNKNOWN);
}

static void on_answered(struct sb_redis_command *command, const struct sb_redis_answer *answer)
{
    struct sb_redis_quorum *quorum = (struct sb_redis_quorum *)command;
    const redisReply *reply = answer->reply;
    long long wanted = quorum->options->wait_replicas;

    if (reply == NULL) {
        lose(quorum);
    } else if (reply->type == REDIS_REPLY_ERROR) {
        sb_redis_fail(answer->place, reply->str, &quorum->reason);
        decide(quorum, SB_REDIS_VERDICT_REFUSED);
    } else {
        long long replicas = reply->type == REDIS_REPLY_INTEGER ? reply->integer : 0;

        sb_error_set(&quorum->reason, SIMBA_EUNAVAILABLE,
                     "%lld of %lld replicas have acknowledged the lease", replicas, wanted);
        decide(quorum, replicas >= wanted ? SB_REDIS_VERDICT_ENOUGH : SB_REDIS_VERDICT_REFUSED);
    }
    release(quorum);
}

const struct simba_error *sb_redis_quorum_reason(const struct sb_redis_quorum_member *member)
{
    return &member->quorum->reason;
}

void sb_redis_quorum_hold(struct sb_redis_quorum_member *member)
{
    struct sb_redis_quorum *quorum = member->quorum;

    SB_CHECK(quorum != NULL, "only a member of a quorum is held");
    if (quorum->verdict != SB_REDIS_VERDICT_OPEN) {
        member->settled(member, quorum->verdict);
        return;
    }
    member->next = quorum->held;
    quorum->held = member;
}

/* ---- Asking ---------------------------------------------------------------------------------- */

/* The latest end of a command, however often its deadline is put off. */
static int64_t end_of(const struct sb_redis_command *command)
{
    return sb_max(command->until_ms, command->deadline_ms);
}

bool sb_redis_quorum_prepare(struct sb_redis_quorum **open, const struct sb_redis_options *options,
                             const struct sb_redis_command *command)
{
    struct sb_redis_quorum *quorum;

    if (*open != NULL)
        return true;
    quorum = sb_alloc_zero(sizeof *quorum);
    if (quorum == NULL)
        return false;
    quorum->options = options;
    quorum->references = 1;
    quorum->command.answered = on_answered;
    quorum->command.waits = true;
    quorum->command.deadline_ms = command->deadline_ms;
    quorum->command.until_ms = end_of(command);
    *open = quorum;
    return true;
}

void sb_redis_quorum_join(struct sb_redis_quorum *open, struct sb_redis_quorum_member *member,
                          const struct sb_redis_command *command)
{
    struct sb_redis_command *wait = &open->command;

    SB_CHECK(member->quorum == NULL, "a request is a member of one quorum");
    open->references++;
    member->quorum = open;
    wait->deadline_ms = sb_earlier(wait->deadline_ms, command->deadline_ms);
    wait->until_ms = sb_earlier(wait->until_ms, end_of(command));
}

void sb_redis_quorum_leave(struct sb_redis_quorum_member *member)
{
    SB_CHECK(member->next == NULL, "a member that is held stays");
    if (member->quorum != NULL)
        release(member->quorum);
    member->quorum = NULL;
}

/* Waits no longer than the members have, with some time to give back what they got. */
void sb_redis_quorum_ask(struct sb_redis_quorum **open, struct sb_redis_reconnecting *commands)
{
    struct sb_redis_quorum *quorum = *open;
    struct sb_redis_digits replicas;
    struct sb_redis_digits timeout;
    struct sb_redis_argument arguments[3] = {{"WAIT", 4}};
    struct simba_error error;
    int64_t left_ms;
    int64_t wait_ms;

    if (quorum == NULL)
        return;
    left_ms = sb_time_left(quorum->command.deadline_ms, simba_now_ms());
    wait_ms = sb_earlier(left_ms - left_ms / GIVE_BACK_SHARE, quorum->options->wait_timeout_ms);
    arguments[1] = sb_redis_argument_number(quorum->options->wait_replicas, &replicas);
    arguments[2] = sb_redis_argument_number(sb_max(wait_ms, 1), &timeout); /* 0 would be for ever */
    if (quorum->references > 1 &&
        sb_redis_reconnecting_send(commands, &quorum->command, arguments, 3, &error) == SIMBA_OK)
        *open = NULL;
    else
        sb_redis_quorum_abandon(open);
}

void sb_redis_quorum_abandon(struct sb_redis_quorum **open)
{
    struct sb_redis_quorum *quorum = *open;

    if (quorum == NULL)
        return;
    *open = NULL;
    lose(quorum);
    release(quorum);
}
