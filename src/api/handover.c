/*
 * handover.c - a request to hand a mutex over, as the property "handover" of the mutex:
 *
 *     1 FENCE VALID_MS PRIORITY LENGTH LENGTH OWNERTOBY
 *
 * The lengths are those of OWNER and TO, in bytes: an id may have spaces. The store tells when it
 * was written, by its own clock, and so until when it holds.
 */
#include "api/handover.h"

#include "base/check.h"
#include "base/error.h"
#include "base/text.h"
#include "base/time.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define FORM "1"

void sb_handover_write(const struct simba_handover *request,
                       char value[SIMBA_PROPERTY_VALUE_MAX + 1])
{
    struct sb_text text;

    sb_text_init(&text, value, SIMBA_PROPERTY_VALUE_MAX + 1);
    sb_text_add(&text, FORM " %" PRIu64 " %" PRId64 " %d %zu %zu %s%s%s", request->fence,
                request->left_ms, request->priority, strlen(request->owner), strlen(request->to),
                request->owner, request->to, request->by);
    SB_CHECK(!text.cut, "a request fits into a property");
}

/* A number with a space behind it. */
static bool take_number(const char **text, int64_t low, int64_t high, int64_t *ret_number)
{
    char *end;

    if ((**text < '0' || **text > '9') && **text != '-')
        return false;
    errno = 0;
    *ret_number = strtoll(*text, &end, 10);
    if (errno != 0 || *end != ' ')
        return false;
    *text = end + 1;
    return *ret_number >= low && *ret_number <= high;
}

/* Tokens of ZooKeeper use all 64 bits. */
static bool take_fence(const char **text, uint64_t *ret_fence)
{
    char *end;

    if (**text < '0' || **text > '9')
        return false;
    errno = 0;
    *ret_fence = strtoull(*text, &end, 10);
    if (errno != 0 || *end != ' ')
        return false;
    *text = end + 1;
    return true;
}

/* An id of that length; 0: none. */
static bool take_id(const char **text, size_t length, char id[SIMBA_ID_MAX + 1])
{
    if (length > SIMBA_ID_MAX || strlen(*text) < length)
        return false;
    memcpy(id, *text, length);
    id[length] = '\0';
    *text += length;
    return length == 0 || simba_id_validate(id, NULL) == SIMBA_OK;
}

static bool read_value(const char *text, struct simba_handover *request)
{
    int64_t priority = 0;
    int64_t owner_length = 0;
    int64_t to_length = 0;

    if (strncmp(text, FORM " ", strlen(FORM " ")) != 0)
        return false;
    text += strlen(FORM " ");
    if (!take_fence(&text, &request->fence) ||
        !take_number(&text, 1, SB_HANDOVER_VALID_MAX_MS, &request->left_ms) ||
        !take_number(&text, -1, INT_MAX, &priority) ||
        !take_number(&text, 1, SIMBA_ID_MAX, &owner_length) ||
        !take_number(&text, 0, SIMBA_ID_MAX, &to_length))
        return false;
    request->priority = (int)priority;
    return take_id(&text, (size_t)owner_length, request->owner) &&
           take_id(&text, (size_t)to_length, request->to) &&
           take_id(&text, strlen(text), request->by);
}

/* The store's clock may have been set back. */
void sb_handover_read(const struct simba_property *property, struct simba_handover *ret_request)
{
    const struct simba_handover none = SIMBA_HANDOVER_NONE;
    struct simba_handover request = SIMBA_HANDOVER_NONE;
    int64_t age_ms = sb_time_between(property->store_ms, property->written_ms);

    *ret_request = none;
    if (property->written_ms <= 0 || !read_value(property->value, &request) ||
        age_ms <= -request.left_ms || age_ms >= request.left_ms)
        return;
    request.asked_ms = property->written_ms;
    request.left_ms -= sb_max(age_ms, 0);
    *ret_request = request;
}

/* ---- The public surface ---------------------------------------------------------------------- */

static int check(const struct simba_handover *request, struct simba_error *error)
{
    int code = simba_id_validate(request->owner, error);

    if (code == SIMBA_OK && request->to[0] != '\0')
        code = simba_id_validate(request->to, error);
    if (code == SIMBA_OK && request->by[0] != '\0')
        code = simba_id_validate(request->by, error);
    if (code == SIMBA_OK && (request->left_ms < 1 || request->left_ms > SB_HANDOVER_VALID_MAX_MS))
        code = sb_error_set(error, SIMBA_EINVAL,
                            "a request to hand over holds from 1 ms to a day, not %lld ms",
                            (long long)request->left_ms);
    if (code == SIMBA_OK && request->priority < -1)
        code = sb_error_set(error, SIMBA_EINVAL, "the priority %d of a request is below -1",
                            request->priority);
    return code;
}

int simba_client_handover_ask(simba_client *client, const char *mutex,
                              const struct simba_handover *request, int64_t timeout_ms,
                              struct simba_error *error)
{
    char value[SIMBA_PROPERTY_VALUE_MAX + 1];
    int code;

    if (request == NULL)
        return sb_error_set(error, SIMBA_EMISUSE, "simba_client_handover_ask needs a request");
    code = check(request, error);
    if (code != SIMBA_OK)
        return code;
    sb_handover_write(request, value);
    return simba_client_property_set(client, mutex, SB_HANDOVER_PROPERTY, value, NULL, timeout_ms,
                                     error);
}

int simba_client_handover_get(simba_client *client, const char *mutex, int64_t timeout_ms,
                              struct simba_handover *ret_request, struct simba_error *error)
{
    struct simba_property property;
    int code;

    if (ret_request == NULL)
        return sb_error_set(error, SIMBA_EMISUSE, "simba_client_handover_get needs ret_request");
    code = simba_client_property_get(client, mutex, SB_HANDOVER_PROPERTY, timeout_ms, &property,
                                     error);
    if (code == SIMBA_OK)
        sb_handover_read(&property, ret_request);
    return code;
}
