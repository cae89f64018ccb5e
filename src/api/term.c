/*
 * term.c - terms without an object: a lease that outlives its client is renewed and released by
 * mutex, id and token.
 */
#include "api/question.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/text.h"
#include "base/time.h"

#include <string.h>

#define RELEASES_MAX 5 /* attempts, against renewals of the same term meanwhile */

/* What names a term, and who owns by the last answer. */
struct term {
    struct sb_client *client;
    const char *mutex;
    const char *id;
    uint64_t fence;
    int64_t until_ms;
    struct simba_owner owner;
    uint64_t revision;
    bool missed; /* the release found no such record */
};

/* On success the caller leaves the client. */
static int enter(struct term *t, simba_client *handle, const char *call, struct simba_error *error)
{
    if (handle == NULL || t->mutex == NULL)
        return sb_error_set(error, SIMBA_EMISUSE, "%s needs a client and a mutex", call);
    return sb_client_enter(handle, call, &t->client, error);
}

static int check(struct term *t, int64_t timeout_ms, struct simba_error *error)
{
    int code = sb_question_check(t->client, t->mutex, timeout_ms, error);

    if (code == SIMBA_OK)
        code = simba_id_validate(t->id, error);
    if (code == SIMBA_OK && t->fence == 0)
        code = sb_error_set(error, SIMBA_EINVAL, "a token of 0 names no term of '%s'", t->mutex);
    t->until_ms = sb_later(simba_now_ms(), timeout_ms);
    return code;
}

static int ask(struct term *t, struct simba_request *wire, struct simba_error *error)
{
    struct sb_question_answer answer = {.list = NULL};
    int code;

    wire->mutex = t->mutex;
    wire->id = wire->op == SIMBA_OP_READ ? NULL : t->id; /* it asks as an observer */
    wire->timeout_ms = sb_time_left(t->until_ms, simba_now_ms());
    code = sb_question_ask(t->client, wire, &answer, error);
    if (code != SIMBA_OK)
        return code;
    SB_CHECK(answer.count == 1, "a question about one mutex has one answer");
    t->owner = answer.list[0].owner;
    t->revision = answer.revision;
    t->missed = answer.missed;
    sb_free(answer.list);
    return SIMBA_OK;
}

/* A store that keeps no tokens counts revisions: a term never has a smaller one than its token. */
static bool is_there(const struct term *t)
{
    return strcmp(t->owner.id, t->id) == 0 &&
           (t->owner.fence != 0 ? t->owner.fence == t->fence : t->revision >= t->fence);
}

static int fail_gone(const struct term *t, struct simba_error *error)
{
    if (t->owner.id[0] == '\0')
        return sb_error_set(error, SIMBA_ELOST,
                            "the term of '%s' with token %llu is gone: nobody owns it now",
                            t->mutex, (unsigned long long)t->fence);
    return sb_error_set(error, SIMBA_ELOST,
                        "the term of '%s' with token %llu is gone: it is owned by %s now", t->mutex,
                        (unsigned long long)t->fence, t->owner.id);
}

/* Of a lease that nobody renews all is ttl, but for the shortest transition that is allowed. */
static int64_t transition_of(int64_t lease_ms)
{
    return 2 * simba_drift_margin_ms(lease_ms);
}

/* Not every store checks the token of a GUARD, or answers with it: so the term is read first. The
 * lease counts from the sending of the GUARD, as for every owner. */
static int renew(struct term *t, int64_t lease_ms, int64_t timeout_ms, int64_t *ret_deadline_ms,
                 struct simba_error *error)
{
    struct simba_request read = {.op = SIMBA_OP_READ};
    struct simba_request wire = {.op = SIMBA_OP_GUARD, .fence = t->fence, .outlives_client = true};
    int64_t sent_ms;
    int code = check(t, timeout_ms, error);

    if (code == SIMBA_OK && ret_deadline_ms == NULL)
        code = sb_error_set(error, SIMBA_EMISUSE, "simba_client_renew needs ret_deadline_ms");
    if (code == SIMBA_OK && (lease_ms < SIMBA_LEASE_MIN_MS || lease_ms > SIMBA_LEASE_MAX_MS))
        code = sb_error_set(
            error, SIMBA_EINVAL, "a lease of %lld ms: it can have from %d ms to %d days",
            (long long)lease_ms, SIMBA_LEASE_MIN_MS, (int)(SIMBA_LEASE_MAX_MS / 86400000));
    if (code == SIMBA_OK && sb_engine_has_sessions(t->client->engine))
        code = sb_error_set(error, SIMBA_EUNSUPPORTED,
                            "this store has no leases that could be renewed: the session of the "
                            "owner is the lease");
    if (code != SIMBA_OK)
        return code;
    wire.transition_ms = transition_of(lease_ms);
    wire.ttl_ms = lease_ms - wire.transition_ms;
    code = ask(t, &read, error);
    if (code == SIMBA_OK && !is_there(t))
        return fail_gone(t, error);
    sent_ms = simba_now_ms();
    if (code == SIMBA_OK)
        code = ask(t, &wire, error);
    if (code != SIMBA_OK)
        return code;
    if (!is_there(t))
        return fail_gone(t, error);
    *ret_deadline_ms = sent_ms + lease_ms - simba_drift_margin_ms(lease_ms);
    return SIMBA_OK;
}

int simba_client_renew(simba_client *handle, const char *mutex, const char *id, uint64_t fence,
                       int64_t lease_ms, int64_t timeout_ms, int64_t *ret_deadline_ms,
                       struct simba_error *error)
{
    struct term t = {.mutex = mutex, .id = id, .fence = fence};
    int code = enter(&t, handle, "simba_client_renew", error);

    if (code != SIMBA_OK)
        return code;
    code = renew(&t, lease_ms, timeout_ms, ret_deadline_ms, error);
    sb_client_leave(t.client);
    return code;
}

/* A release names the revision, which a renewal of the same term may change between the two
 * requests: it is read again then. */
static int end(struct term *t, int64_t timeout_ms, struct simba_error *error)
{
    int code = check(t, timeout_ms, error);

    for (int i = 0; i < RELEASES_MAX && code == SIMBA_OK; i++) {
        struct simba_request read = {.op = SIMBA_OP_READ};
        struct simba_request release = {.op = SIMBA_OP_RELEASE};

        code = ask(t, &read, error);
        if (code == SIMBA_OK && !is_there(t))
            return fail_gone(t, error);
        release.revision = t->revision;
        release.reserve_ms = sb_engine_timing(t->client->engine)->reserve_ms;
        if (code == SIMBA_OK)
            code = ask(t, &release, error);
        if (code == SIMBA_OK && !t->missed)
            return SIMBA_OK;
    }
    if (code == SIMBA_OK)
        code = sb_error_set(error, SIMBA_ECONTENDED,
                            "'%s' was renewed whenever it was being released", t->mutex);
    return code;
}

int simba_client_end(simba_client *handle, const char *mutex, const char *id, uint64_t fence,
                     int64_t timeout_ms, struct simba_error *error)
{
    struct term t = {.mutex = mutex, .id = id, .fence = fence};
    int code = enter(&t, handle, "simba_client_end", error);

    if (code != SIMBA_OK)
        return code;
    code = end(&t, timeout_ms, error);
    sb_client_leave(t.client);
    return code;
}
