/*
 * semaphore.c - the names and the size of a semaphore. The size is a property of its gate, which is
 * the mutex that has the name of the semaphore.
 */
#include "api/semaphore.h"

#include "api/question.h"
#include "base/error.h"
#include "base/time.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROPERTY "slots"

/* "a#1" is the slot of another semaphore. */
static bool is_slot(const char *name)
{
    const char *mark = strrchr(name, '#');

    return mark != NULL && mark[1] != '\0' && strspn(mark + 1, "0123456789") == strlen(mark + 1);
}

static int check_name(const char *name, struct simba_error *error)
{
    int code = simba_mutex_validate(name, error);

    if (code == SIMBA_OK && is_slot(name))
        code = sb_error_set(error, SIMBA_EINVAL,
                            "'%s' cannot be a semaphore: it is the name of a slot of another one",
                            name);
    return code;
}

int sb_semaphore_check(const char *name, int slots, struct simba_error *error)
{
    char last[SIMBA_MUTEX_MAX + 1];
    int code;

    if (slots < 1 || slots > SIMBA_SLOTS_MAX)
        return sb_error_set(error, SIMBA_EINVAL, "a semaphore has 1 to %d slots, not %d",
                            SIMBA_SLOTS_MAX, slots);
    code = check_name(name, error);
    return code == SIMBA_OK ? sb_semaphore_slot_name(name, (size_t)slots - 1, last, error) : code;
}

int sb_semaphore_slot_name(const char *name, size_t slot, char ret_name[SIMBA_MUTEX_MAX + 1],
                           struct simba_error *error)
{
    int length = snprintf(ret_name, SIMBA_MUTEX_MAX + 1, "%s#%zu", name, slot);

    if (length > SIMBA_MUTEX_MAX)
        return sb_error_set(error, SIMBA_EINVAL,
                            "the name of a semaphore is too long: that of its slot %zu would have "
                            "%d bytes; the limit is %d",
                            slot, length, SIMBA_MUTEX_MAX);
    return SIMBA_OK;
}

/* *ret_slots is 0 where the property was never written. */
static int read_slots(struct sb_client *client, const char *name, int64_t timeout_ms,
                      int *ret_slots, struct simba_error *error)
{
    struct simba_property property;
    char *end;
    long slots;
    int code = sb_property_get(client, name, PROPERTY, timeout_ms, &property, error);

    if (code != SIMBA_OK)
        return code;
    if (property.value[0] == '\0') {
        *ret_slots = 0;
        return SIMBA_OK;
    }
    slots = strtol(property.value, &end, 10);
    if (*end != '\0' || slots < 1 || slots > SIMBA_SLOTS_MAX)
        return sb_error_set(error, SIMBA_ECONFIG,
                            "the property \"" PROPERTY "\" of '%s' is \"%s\", and not a number of "
                            "slots: simba semaphore resize writes it anew",
                            name, property.value);
    *ret_slots = (int)slots;
    return SIMBA_OK;
}

static int write_slots(struct sb_client *client, const char *name, int slots, const char *owner_id,
                       int64_t timeout_ms, struct simba_error *error)
{
    char value[16];

    snprintf(value, sizeof value, "%d", slots);
    return sb_property_set(client, name, PROPERTY, value, owner_id, timeout_ms, error);
}

static int64_t timeout_of(int64_t until_ms)
{
    return sb_max(sb_time_left(until_ms, simba_now_ms()), 1);
}

int sb_semaphore_agree(struct sb_client *client, const char *name, const char *gate_id, int slots,
                       int64_t until_ms, int *ret_slots, struct simba_error *error)
{
    int known = 0;
    int code = read_slots(client, name, timeout_of(until_ms), &known, error);

    if (code == SIMBA_OK && known == 0 && gate_id != NULL) {
        code = write_slots(client, name, slots, gate_id, timeout_of(until_ms), error);
        known = code == SIMBA_OK ? slots : 0;
        if (code == SIMBA_ELOST)
            code = SIMBA_OK;
    }
    if (code == SIMBA_OK)
        *ret_slots = known;
    return code;
}

int simba_semaphore_slots(simba_client *handle, const char *name, int64_t timeout_ms,
                          int *ret_slots, struct simba_error *error)
{
    struct sb_client *client;
    int code;

    if (handle == NULL || name == NULL || ret_slots == NULL)
        return sb_error_set(error, SIMBA_EMISUSE,
                            "simba_semaphore_slots needs a client, a name and ret_slots");
    code = sb_client_enter(handle, "simba_semaphore_slots", &client, error);
    if (code != SIMBA_OK)
        return code;
    code = check_name(name, error);
    if (code == SIMBA_OK)
        code = read_slots(client, name, timeout_ms, ret_slots, error);
    sb_client_leave(client);
    return code;
}

static int resize(struct sb_client *client, const char *name, int slots, int64_t timeout_ms,
                  struct simba_error *error)
{
    int known = 0;
    int code = sb_semaphore_check(name, slots, error);

    if (code == SIMBA_OK)
        code = read_slots(client, name, timeout_ms, &known, error);
    if (code == SIMBA_OK && known == 0)
        code = sb_error_set(error, SIMBA_ENOTFOUND, "the store knows no semaphore '%s'", name);
    if (code != SIMBA_OK && code != SIMBA_ECONFIG)
        return code;
    return write_slots(client, name, slots, NULL, timeout_ms, error);
}

int simba_semaphore_resize(simba_client *handle, const char *name, int slots, int64_t timeout_ms,
                           struct simba_error *error)
{
    struct sb_client *client;
    int code;

    if (handle == NULL || name == NULL)
        return sb_error_set(error, SIMBA_EMISUSE,
                            "simba_semaphore_resize needs a client and a name");
    code = sb_client_enter(handle, "simba_semaphore_resize", &client, error);
    if (code != SIMBA_OK)
        return code;
    code = resize(client, name, slots, timeout_ms, error);
    sb_client_leave(client);
    return code;
}
