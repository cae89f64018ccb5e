/*
 * status.c - questions to the store: owners, waiters, its settings; and the forced release of
 * a mutex.
 */
#include "api/question.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/text.h"
#include "base/time.h"

#include <string.h>

#define RELEASES_MAX 5 /* attempts of a forced release, against an owner that renews meanwhile */

/* ---- Status and queue ------------------------------------------------------------------------ */

static int status(struct sb_client *client, const char *mutex, int64_t timeout_ms,
                  struct simba_mutex_status **ret_list, size_t *ret_count,
                  struct simba_error *error)
{
    const struct simba_request wire = {
        .op = mutex != NULL ? SIMBA_OP_READ : SIMBA_OP_LIST,
        .mutex = mutex,
        .timeout_ms = timeout_ms,
    };
    struct sb_question_answer answer;
    int code = sb_question_check(client, mutex, timeout_ms, error);

    if (code == SIMBA_OK)
        code = sb_question_ask(client, &wire, &answer, error);
    if (code != SIMBA_OK)
        return code;
    *ret_list = answer.list;
    *ret_count = answer.count;
    return SIMBA_OK;
}

int simba_client_status(simba_client *handle, const char *mutex, int64_t timeout_ms,
                        struct simba_mutex_status **ret_list, size_t *ret_count,
                        struct simba_error *error)
{
    struct sb_client *client;
    int code;

    if (handle == NULL || ret_list == NULL || ret_count == NULL)
        return sb_error_set(error, SIMBA_EMISUSE,
                            "simba_client_status needs a client, ret_list and ret_count");
    code = sb_client_enter(handle, "simba_client_status", &client, error);
    if (code != SIMBA_OK)
        return code;
    code = status(client, mutex, timeout_ms, ret_list, ret_count, error);
    sb_client_leave(client);
    return code;
}

static int queue(struct sb_client *client, const char *mutex, int64_t timeout_ms,
                 struct simba_waiter **ret_list, size_t *ret_count, struct simba_error *error)
{
    const struct simba_request wire = {
        .op = SIMBA_OP_QUEUE, .mutex = mutex, .timeout_ms = timeout_ms};
    struct sb_question_answer answer = {.list = NULL};
    struct simba_waiter *waiters;
    int code = sb_question_check(client, mutex, timeout_ms, error);

    if (code == SIMBA_OK && !sb_engine_has_queue(client->engine))
        code = sb_error_set(error, SIMBA_EUNSUPPORTED, "this store keeps no queue of waiters");
    if (code == SIMBA_OK)
        code = sb_question_ask(client, &wire, &answer, error);
    if (code != SIMBA_OK)
        return code;
    waiters = sb_alloc_zero((answer.count + 1) * sizeof *waiters);
    for (size_t i = 0; waiters != NULL && i < answer.count; i++) {
        sb_text_copy(waiters[i].id, sizeof waiters[i].id, answer.list[i].owner.id);
        waiters[i].since_ms = answer.list[i].owner.acquired_at_ms;
    }
    sb_free(answer.list);
    if (waiters == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    *ret_list = waiters;
    *ret_count = answer.count;
    return SIMBA_OK;
}

int simba_client_queue(simba_client *handle, const char *mutex, int64_t timeout_ms,
                       struct simba_waiter **ret_list, size_t *ret_count, struct simba_error *error)
{
    struct sb_client *client;
    int code;

    if (handle == NULL || mutex == NULL || ret_list == NULL || ret_count == NULL)
        return sb_error_set(error, SIMBA_EMISUSE,
                            "simba_client_queue needs a client, a mutex, ret_list and ret_count");
    code = sb_client_enter(handle, "simba_client_queue", &client, error);
    if (code != SIMBA_OK)
        return code;
    code = queue(client, mutex, timeout_ms, ret_list, ret_count, error);
    sb_client_leave(client);
    return code;
}

/* ---- Inspection ------------------------------------------------------------------------------ */

static int inspect(struct sb_client *client, int64_t timeout_ms, struct simba_finding **ret_list,
                   size_t *ret_count, struct simba_error *error)
{
    struct simba_request wire = {.op = SIMBA_OP_INSPECT, .timeout_ms = timeout_ms};
    struct sb_question_answer answer;
    int code = sb_question_check(client, NULL, timeout_ms, error);

    if (code == SIMBA_OK && !sb_engine_can_inspect(client->engine))
        code = sb_error_set(error, SIMBA_EUNSUPPORTED, "this store cannot be inspected");
    wire.ttl_ms = sb_engine_timing(client->engine)->ttl_ms;
    wire.transition_ms = sb_engine_timing(client->engine)->transition_ms;
    if (code == SIMBA_OK)
        code = sb_question_ask(client, &wire, &answer, error);
    if (code != SIMBA_OK)
        return code;
    *ret_list = answer.findings;
    *ret_count = answer.findings_count;
    return SIMBA_OK;
}

int simba_client_inspect(simba_client *handle, int64_t timeout_ms, struct simba_finding **ret_list,
                         size_t *ret_count, struct simba_error *error)
{
    struct sb_client *client;
    int code;

    if (handle == NULL || ret_list == NULL || ret_count == NULL)
        return sb_error_set(error, SIMBA_EMISUSE,
                            "simba_client_inspect needs a client, ret_list and ret_count");
    code = sb_client_enter(handle, "simba_client_inspect", &client, error);
    if (code != SIMBA_OK)
        return code;
    code = inspect(client, timeout_ms, ret_list, ret_count, error);
    sb_client_leave(client);
    return code;
}

/* ---- The environment ------------------------------------------------------------------------- */

static int environment(struct sb_client *client, const char *mutex, const char *owner_id,
                       int64_t timeout_ms, char **ret_environment, struct simba_error *error)
{
    const struct simba_request wire = {
        .op = SIMBA_OP_ENVIRONMENT, .mutex = mutex, .id = owner_id, .timeout_ms = timeout_ms};
    struct sb_question_answer answer = {.environment = NULL};
    int code = sb_question_check(client, mutex, timeout_ms, error);

    if (code == SIMBA_OK)
        code = simba_id_validate(owner_id, error);
    if (code == SIMBA_OK && sb_engine_has_environment(client->engine))
        code = sb_question_ask(client, &wire, &answer, error);
    else if (code == SIMBA_OK && (answer.environment = sb_alloc_zero(1)) == NULL)
        code = sb_error_plain(error, SIMBA_ENOMEM);
    if (code == SIMBA_OK)
        *ret_environment = answer.environment;
    return code;
}

int simba_client_environment(simba_client *handle, const char *mutex, const char *owner_id,
                             int64_t timeout_ms, char **ret_environment, struct simba_error *error)
{
    struct sb_client *client;
    int code;

    if (handle == NULL || mutex == NULL || owner_id == NULL || ret_environment == NULL)
        return sb_error_set(
            error, SIMBA_EMISUSE,
            "simba_client_environment needs a client, a mutex, owner_id and ret_environment");
    code = sb_client_enter(handle, "simba_client_environment", &client, error);
    if (code != SIMBA_OK)
        return code;
    code = environment(client, mutex, owner_id, timeout_ms, ret_environment, error);
    sb_client_leave(client);
    return code;
}

/* ---- Forced release -------------------------------------------------------------------------- */

/*
 * The release that the owner itself would send: for its id and the revision of its record. So it
 * ends the term that was seen and no other.
 *
 *     read: owner A, revision 7 --> release A, 7 --> nobody owns, the next waiter is woken
 *                                   A has renewed meanwhile (revision 8): read again
 *                                   B owns by now: nothing is taken
 */
struct target {
    struct sb_client *client;
    const char *mutex;
    int64_t until_ms;
    struct simba_owner owner; /* as the store told it last; an empty id: nobody */
    uint64_t revision;
};

/* Sends a READ, or the RELEASE of the owner that was seen, and takes over the answer. A record that
 * another library has written may have no revision; for it any number but 0 will do. */
static int ask_owner(struct target *t, enum simba_op op, struct simba_error *error)
{
    int64_t left_ms = t->until_ms - simba_now_ms();
    struct simba_request wire = {
        .op = op, .mutex = t->mutex, .timeout_ms = left_ms > 0 ? left_ms : 0};
    struct sb_question_answer answer = {.list = NULL};
    int code;

    if (op == SIMBA_OP_RELEASE) {
        wire.id = t->owner.id;
        wire.revision = t->revision > 0 ? t->revision : 1;
    }
    code = sb_question_ask(t->client, &wire, &answer, error);
    if (code != SIMBA_OK)
        return code;
    SB_CHECK(answer.count == 1, "a question about one mutex has one answer");
    t->owner = answer.list[0].owner;
    t->revision = answer.revision;
    sb_free(answer.list);
    return SIMBA_OK;
}

static bool is_same_term(const struct simba_owner *one, const struct simba_owner *other)
{
    if (strcmp(one->id, other->id) != 0)
        return false;
    return one->fence == other->fence || one->fence == 0 || other->fence == 0;
}

/* One attempt. The answer names the owner after the release; but a store that knows only its own
 * contenders may say that nobody does, so the store is read once more. */
static int take_once(struct target *t, const struct simba_owner *owner, bool *ret_taken,
                     struct simba_error *error)
{
    uint64_t tried = t->revision;
    bool taken;
    int code = ask_owner(t, SIMBA_OP_RELEASE, error);

    if (code != SIMBA_OK)
        return code;
    taken = t->owner.id[0] == '\0';
    code = ask_owner(t, SIMBA_OP_READ, error);
    if (code != SIMBA_OK)
        return code;
    if (strcmp(t->owner.id, owner->id) == 0 && t->revision == tried)
        return sb_error_set(error, SIMBA_EUNSUPPORTED, "the store lets only the owner release '%s'",
                            t->mutex);
    if (!taken && t->owner.id[0] == '\0')
        return sb_error_set(error, SIMBA_ECONTENDED,
                            "the owner of '%s' has released it meanwhile; nothing was taken",
                            t->mutex);
    if (!taken && !is_same_term(&t->owner, owner))
        return sb_error_set(error, SIMBA_ECONTENDED,
                            "the owner of '%s' is now %s; nothing was taken: try again", t->mutex,
                            t->owner.id);
    *ret_taken = taken;
    return SIMBA_OK;
}

static int force_release(struct sb_client *client, const char *mutex, int64_t timeout_ms,
                         struct simba_owner *ret_owner, struct simba_error *error)
{
    struct target t = {.client = client, .mutex = mutex};
    struct simba_owner owner;
    bool taken;
    int code = sb_question_check(client, mutex, timeout_ms, error);

    if (code != SIMBA_OK)
        return code;
    t.until_ms = sb_later(simba_now_ms(), timeout_ms);
    code = ask_owner(&t, SIMBA_OP_READ, error);
    if (code != SIMBA_OK)
        return code;
    owner = t.owner;
    taken = owner.id[0] == '\0';
    for (int i = 0; i < RELEASES_MAX && !taken; i++) {
        code = take_once(&t, &owner, &taken, error);
        if (code != SIMBA_OK)
            return code;
    }
    if (!taken)
        return sb_error_set(error, SIMBA_ECONTENDED,
                            "cannot take '%s': %s renewed it during each attempt; try again", mutex,
                            owner.id);
    *ret_owner = owner;
    return SIMBA_OK;
}

int simba_client_force_release(simba_client *handle, const char *mutex, int64_t timeout_ms,
                               struct simba_owner *ret_owner, struct simba_error *error)
{
    struct sb_client *client;
    int code;

    if (handle == NULL || mutex == NULL || ret_owner == NULL)
        return sb_error_set(error, SIMBA_EMISUSE,
                            "simba_client_force_release needs a client, a mutex and ret_owner");
    code = sb_client_enter(handle, "simba_client_force_release", &client, error);
    if (code != SIMBA_OK)
        return code;
    code = force_release(client, mutex, timeout_ms, ret_owner, error);
    sb_client_leave(client);
    return code;
}
