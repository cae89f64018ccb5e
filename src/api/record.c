/*
 * record.c - questions to the store by programs that tend it.
 */
#include "api/question.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"

static int ask(struct sb_client *client, const struct simba_request *wire,
               struct sb_question_answer *ret_answer, struct simba_error *error)
{
    int code = sb_question_check(client, wire->mutex, wire->timeout_ms, error);

    if (code == SIMBA_OK && wire->op != SIMBA_OP_READ && !sb_engine_can_forget(client->engine))
        code = sb_error_set(error, SIMBA_EUNSUPPORTED,
                            "the store removes what it keeps of a mutex by itself, and its tokens "
                            "are numbers of its own");
    if (code == SIMBA_OK)
        code = sb_question_ask(client, wire, ret_answer, error);
    SB_CHECK(code != SIMBA_OK || ret_answer->count == 1, "one mutex has one answer");
    return code;
}

static int revision(struct sb_client *client, const char *mutex, int64_t timeout_ms,
                    struct simba_owner *ret_owner, uint64_t *ret_revision,
                    struct simba_error *error)
{
    const struct simba_request wire = {
        .op = SIMBA_OP_READ, .mutex = mutex, .timeout_ms = timeout_ms};
    struct sb_question_answer answer;
    int code = ask(client, &wire, &answer, error);

    if (code != SIMBA_OK)
        return code;
    *ret_owner = answer.list[0].owner;
    *ret_revision = answer.revision;
    sb_free(answer.list);
    return SIMBA_OK;
}

int simba_client_revision(simba_client *handle, const char *mutex, int64_t timeout_ms,
                          struct simba_owner *ret_owner, uint64_t *ret_revision,
                          struct simba_error *error)
{
    struct sb_client *client;
    int code;

    if (handle == NULL || mutex == NULL || ret_owner == NULL || ret_revision == NULL)
        return sb_error_set(error, SIMBA_EMISUSE,
                            "simba_client_revision needs a client, a mutex, ret_owner and "
                            "ret_revision");
    code = sb_client_enter(handle, "simba_client_revision", &client, error);
    if (code != SIMBA_OK)
        return code;
    code = revision(client, mutex, timeout_ms, ret_owner, ret_revision, error);
    sb_client_leave(client);
    return code;
}

static int change(struct sb_client *client, const struct simba_request *wire, bool *ret_done,
                  struct simba_error *error)
{
    struct sb_question_answer answer;
    int code = wire->id != NULL ? simba_id_validate(wire->id, error) : SIMBA_OK;

    if (code == SIMBA_OK)
        code = ask(client, wire, &answer, error);
    if (code != SIMBA_OK)
        return code;
    *ret_done = !answer.missed;
    sb_free(answer.list);
    return SIMBA_OK;
}

static int enter_and_change(simba_client *handle, const char *call,
                            const struct simba_request *wire, bool *ret_done,
                            struct simba_error *error)
{
    struct sb_client *client;
    int code;

    if (handle == NULL || wire->mutex == NULL || ret_done == NULL)
        return sb_error_set(error, SIMBA_EMISUSE, "%s needs a client, a mutex and ret_done", call);
    code = sb_client_enter(handle, call, &client, error);
    if (code != SIMBA_OK)
        return code;
    code = change(client, wire, ret_done, error);
    sb_client_leave(client);
    return code;
}

int simba_client_forget(simba_client *client, const char *mutex, uint64_t revision,
                        int64_t timeout_ms, bool *ret_done, struct simba_error *error)
{
    const struct simba_request wire = {
        .op = SIMBA_OP_FORGET, .mutex = mutex, .revision = revision, .timeout_ms = timeout_ms};

    return enter_and_change(client, "simba_client_forget", &wire, ret_done, error);
}

int simba_client_raise_fence(simba_client *client, const char *mutex, const char *id,
                             uint64_t fence, int64_t timeout_ms, bool *ret_done,
                             struct simba_error *error)
{
    const struct simba_request wire = {.op = SIMBA_OP_RAISE,
                                       .mutex = mutex,
                                       .id = id,
                                       .revision = fence,
                                       .timeout_ms = timeout_ms};

    return enter_and_change(client, "simba_client_raise_fence", &wire, ret_done, error);
}
