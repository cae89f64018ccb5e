/*
 * property.c - reads and writes the properties of a mutex. Owns what names and values may be.
 */
#include "api/question.h"

#include "base/error.h"
#include "base/text.h"

#include <string.h>

static const char name_characters[] = "abcdefghijklmnopqrstuvwxyz0123456789.-_";

static int check_name(const char *name, struct simba_error *error)
{
    size_t length = name != NULL ? strlen(name) : 0;

    if (length > 0 && length <= SIMBA_PROPERTY_NAME_MAX && strspn(name, name_characters) == length)
        return SIMBA_OK;
    return sb_error_set(error, SIMBA_EINVAL,
                        "the name of a property has 1 to %d lower-case letters, digits, '.', '-' "
                        "and '_'",
                        SIMBA_PROPERTY_NAME_MAX);
}

static int check_value(const char *name, const char *value, struct simba_error *error)
{
    if (value == NULL)
        return sb_error_set(error, SIMBA_EINVAL, "the property \"%s\" needs a value", name);
    if (strlen(value) > SIMBA_PROPERTY_VALUE_MAX)
        return sb_error_set(error, SIMBA_EINVAL,
                            "the value of the property \"%s\" has more than %d bytes", name,
                            SIMBA_PROPERTY_VALUE_MAX);
    for (const char *c = value; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return sb_error_set(error, SIMBA_EINVAL,
                                "the value of the property \"%s\" has a control character", name);
    return SIMBA_OK;
}

static int check(struct sb_client *client, const char *mutex, const char *name, int64_t timeout_ms,
                 struct simba_error *error)
{
    int code = sb_question_check(client, mutex, timeout_ms, error);

    if (code == SIMBA_OK)
        code = check_name(name, error);
    if (code == SIMBA_OK && !sb_engine_has_properties(client->engine))
        code = sb_error_set(error, SIMBA_EUNSUPPORTED, "the store keeps no properties of mutexes");
    return code;
}

/* Anybody may write what a store keeps. */
static void make_printable(struct simba_property *property)
{
    char value[sizeof property->value];

    if (property->value[0] == '\0')
        return;
    sb_text_copy(value, sizeof value, property->value);
    sb_text_printable(property->value, sizeof property->value, value, strlen(value));
}

int sb_property_get(struct sb_client *client, const char *mutex, const char *name,
                    int64_t timeout_ms, struct simba_property *ret_property,
                    struct simba_error *error)
{
    const struct simba_request wire = {
        .op = SIMBA_OP_GET_PROPERTY, .mutex = mutex, .property = name, .timeout_ms = timeout_ms};
    struct sb_question_answer answer;
    int code = check(client, mutex, name, timeout_ms, error);

    if (code == SIMBA_OK)
        code = sb_question_ask(client, &wire, &answer, error);
    if (code != SIMBA_OK)
        return code;
    make_printable(&answer.property);
    *ret_property = answer.property;
    return SIMBA_OK;
}

int sb_property_set(struct sb_client *client, const char *mutex, const char *name,
                    const char *value, const char *owner_id, int64_t timeout_ms,
                    struct simba_error *error)
{
    const struct simba_request wire = {.op = SIMBA_OP_SET_PROPERTY,
                                       .mutex = mutex,
                                       .id = owner_id,
                                       .property = name,
                                       .value = value,
                                       .timeout_ms = timeout_ms};
    struct sb_question_answer answer;
    int code = check(client, mutex, name, timeout_ms, error);

    if (code == SIMBA_OK)
        code = check_value(name, value, error);
    if (code == SIMBA_OK && owner_id != NULL)
        code = simba_id_validate(owner_id, error);
    return code == SIMBA_OK ? sb_question_ask(client, &wire, &answer, error) : code;
}

/* ---- The public functions -------------------------------------------------------------------- */

int simba_client_property_get(simba_client *handle, const char *mutex, const char *name,
                              int64_t timeout_ms, struct simba_property *ret_property,
                              struct simba_error *error)
{
    struct sb_client *client;
    int code;

    if (handle == NULL || mutex == NULL || ret_property == NULL)
        return sb_error_set(error, SIMBA_EMISUSE,
                            "simba_client_property_get needs a client, a mutex and ret_property");
    code = sb_client_enter(handle, "simba_client_property_get", &client, error);
    if (code != SIMBA_OK)
        return code;
    code = sb_property_get(client, mutex, name, timeout_ms, ret_property, error);
    sb_client_leave(client);
    return code;
}

int simba_client_property_set(simba_client *handle, const char *mutex, const char *name,
                              const char *value, const char *owner_id, int64_t timeout_ms,
                              struct simba_error *error)
{
    struct sb_client *client;
    int code;

    if (handle == NULL || mutex == NULL)
        return sb_error_set(error, SIMBA_EMISUSE,
                            "simba_client_property_set needs a client and a mutex");
    code = sb_client_enter(handle, "simba_client_property_set", &client, error);
    if (code != SIMBA_OK)
        return code;
    code = sb_property_set(client, mutex, name, value, owner_id, timeout_ms, error);
    sb_client_leave(client);
    return code;
}
