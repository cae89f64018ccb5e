/*
 * release.c - takes a mutex away from its owner, from outside.
 *
 * It is the release that the owner itself would send: for its id and the revision of its record. So
 * it ends the term that was seen and no other, and the owner learns of it at its next renewal.
 *
 *     read: owner A, revision 7 --> release A, 7 --> nobody owns, the next waiter is woken
 *                                   A has renewed meanwhile (revision 8): read again
 *                                   B owns by now: nothing is taken
 */
#include "api/question.h"

#include "base/alloc.h"
#include "base/error.h"

#include <string.h>

#define ATTEMPTS 5

struct target {
    simba_client *client;
    const char *mutex;
    int64_t until_ms;
    struct simba_mutex_status seen; /* what the store said last */
    uint64_t revision;
};

static int64_t time_left(const struct target *t)
{
    int64_t left_ms = t->until_ms - simba_now_ms();

    return left_ms > 0 ? left_ms : 0;
}

/* Asks, and takes the answer for what is seen now. */
static int ask(struct target *t, struct simba_request *wire, struct simba_error *error)
{
    struct sb_store_answer answer = {.list = NULL};
    int code;

    wire->mutex = t->mutex;
    wire->timeout_ms = time_left(t);
    code = sb_client_ask(t->client, wire, &answer, error);
    if (code != SIMBA_OK)
        return code;
    t->seen = answer.list[0];
    t->revision = answer.revision;
    sb_free(answer.list);
    return SIMBA_OK;
}

static int look(struct target *t, struct simba_error *error)
{
    struct simba_request wire = {.op = SIMBA_OP_READ};

    return ask(t, &wire, error);
}

/* A record that another library has written may have no revision; any will do for it, only not
 * 0. */
static int take(struct target *t, struct simba_error *error)
{
    char id[SIMBA_ID_MAX + 1];
    struct simba_request wire = {
        .op = SIMBA_OP_RELEASE,
        .id = id,
        .revision = t->revision > 0 ? t->revision : 1,
    };

    memcpy(id, t->seen.owner.id, sizeof id);
    return ask(t, &wire, error);
}

static bool is_same_term(const struct simba_owner *one, const struct simba_owner *other)
{
    if (strcmp(one->id, other->id) != 0)
        return false;
    return one->fence == other->fence || one->fence == 0 || other->fence == 0;
}

static int fail_changed(const struct target *t, struct simba_error *error)
{
    const char *owner = t->seen.owner.id;

    if (owner[0] == '\0')
        return sb_error_set(error, SIMBA_ECONTENDED,
                            "the owner of '%s' let go by itself; nothing was taken", t->mutex);
    return sb_error_set(error, SIMBA_ECONTENDED,
                        "'%s' is owned by %s by now, from whom nothing was taken", t->mutex, owner);
}

static int fail_refused(const struct target *t, struct simba_error *error)
{
    return sb_error_set(error, SIMBA_EUNSUPPORTED,
                        "the store lets nobody but the owner release '%s'", t->mutex);
}

/* One attempt. The answer tells who owns after the release; but a store that knows only its own
 * contenders may say that nobody does, so it is looked at once more. */
static int take_once(struct target *t, const struct simba_owner *owner, bool *ret_taken,
                     struct simba_error *error)
{
    uint64_t tried = t->revision;
    bool taken;
    int code = take(t, error);

    if (code != SIMBA_OK)
        return code;
    taken = t->seen.owner.id[0] == '\0';
    code = look(t, error);
    if (code != SIMBA_OK)
        return code;
    if (strcmp(t->seen.owner.id, owner->id) == 0 && t->revision == tried)
        return fail_refused(t, error);
    if (!taken && !is_same_term(&t->seen.owner, owner))
        return fail_changed(t, error);
    *ret_taken = taken;
    return SIMBA_OK;
}

/* Each renewal may give the record another revision, so that the release of an owner that renews
 * may miss. */
static int take_from(struct target *t, const struct simba_owner *owner, struct simba_error *error)
{
    bool taken = false;

    for (int i = 0; i < ATTEMPTS && !taken; i++) {
        int code = take_once(t, owner, &taken, error);

        if (code != SIMBA_OK)
            return code;
    }
    if (taken)
        return SIMBA_OK;
    return sb_error_set(error, SIMBA_ECONTENDED, "%s renewed '%s' whenever it was being taken",
                        owner->id, t->mutex);
}

int simba_client_force_release(simba_client *client, const char *mutex, int64_t timeout_ms,
                               struct simba_owner *ret_owner, struct simba_error *error)
{
    struct target t = {.client = client, .mutex = mutex};
    struct simba_owner owner;
    int64_t now_ms = simba_now_ms();
    int code;

    if (client == NULL || mutex == NULL || ret_owner == NULL)
        return sb_error_set(error, SIMBA_EMISUSE,
                            "simba_client_force_release needs a client, a mutex and ret_owner");
    code = sb_client_check_question(client, mutex, timeout_ms, error);
    if (code != SIMBA_OK)
        return code;
    t.until_ms = timeout_ms < SIMBA_INFINITE - now_ms ? now_ms + timeout_ms : SIMBA_INFINITE;
    code = look(&t, error);
    if (code != SIMBA_OK)
        return code;
    owner = t.seen.owner;
    if (owner.id[0] != '\0')
        code = take_from(&t, &owner, error);
    if (code == SIMBA_OK)
        *ret_owner = owner;
    return code;
}
