/*
 * login.c - the credentials of one connection, and AUTH, SELECT, CLIENT SETNAME and ROLE in one
 * write. Owns what of the greeting may fail.
 */
#include "backend/redis/wire/connection.h"

#include "backend/redis/wire/resp.h"
#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"

#include <hiredis/hiredis.h>
#include <string.h>

/* ---- Credentials ----------------------------------------------------------------------------- */

struct sb_redis_login *sb_redis_login_create(const struct sb_redis_options *o,
                                             const struct sb_redis_credentials *credentials,
                                             const struct sb_wire_tls *tls)
{
    struct sb_redis_login *login = sb_alloc_zero(sizeof *login);

    if (login == NULL)
        return NULL;
    login->user = credentials->user;
    login->to_sentinel = credentials == &o->sentinel_credentials;
    if (sb_wire_login_read(&login->files, &o->trust, tls, &credentials->password) == SIMBA_OK)
        return login;
    sb_redis_login_free(login);
    return NULL;
}

void sb_redis_login_free(struct sb_redis_login *login)
{
    if (login == NULL)
        return;
    sb_wire_login_clear(&login->files);
    sb_free(login);
}

/* ---- The greeting ---------------------------------------------------------------------------- */

static bool add(struct sb_redis_greeting *greeting, enum sb_redis_greeting_step step,
                struct sb_wire_buffer *target, const struct sb_redis_argument *arguments,
                size_t count)
{
    SB_CHECK(greeting->count < SB_REDIS_GREETING_MAX, "a greeting has room for all its steps");
    greeting->steps[greeting->count++] = step;
    return sb_redis_buffer_add_command(target, arguments, count);
}

static bool add_auth(struct sb_redis_greeting *greeting, const struct sb_redis_login *login,
                     struct sb_wire_buffer *target)
{
    struct sb_redis_argument arguments[3] = {{"AUTH", 4}};
    size_t count = 1;

    if (login->files.password == NULL)
        return true;
    if (login->user != NULL)
        arguments[count++] = sb_redis_argument_text(login->user);
    arguments[count++] = sb_redis_argument_text(login->files.password);
    return add(greeting, SB_REDIS_GREETING_AUTH, target, arguments, count);
}

bool sb_redis_greeting_write(struct sb_redis_greeting *greeting,
                             const struct sb_redis_greeting_config *config,
                             struct sb_wire_buffer *target)
{
    struct sb_redis_digits digits;
    const struct sb_redis_argument database[2] = {
        {"SELECT", 6}, sb_redis_argument_number(config->database, &digits)};
    const struct sb_redis_argument name[3] = {
        {"CLIENT", 6}, {"SETNAME", 7}, sb_redis_argument_text(config->client_name)};
    const struct sb_redis_argument role = {"ROLE", 4};

    greeting->to_sentinel = config->login->to_sentinel;
    return add_auth(greeting, config->login, target) &&
           (config->database == 0 ||
            add(greeting, SB_REDIS_GREETING_SELECT, target, database, 2)) &&
           add(greeting, SB_REDIS_GREETING_NAME, target, name, 3) &&
           (!config->master_only || add(greeting, SB_REDIS_GREETING_ROLE, target, &role, 1));
}

static int check_role(const struct sb_wire_place *place, const redisReply *reply,
                      struct simba_error *error)
{
    char text[SB_WIRE_PLACE_TEXT_MAX];

    if (reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 &&
        reply->element[0]->type == REDIS_REPLY_STRING &&
        strcmp(reply->element[0]->str, "master") == 0)
        return SIMBA_OK;
    return sb_error_set(error, SIMBA_EUNAVAILABLE, "the server at %s is not the master",
                        sb_wire_place_text(place, text));
}

/* The password of the URL is the master's, and sentinels are not told it. */
static int fail_step(const struct sb_redis_greeting *greeting, const struct sb_wire_place *place,
                     const char *text, struct simba_error *error)
{
    char where[SB_WIRE_PLACE_TEXT_MAX];

    if (!greeting->to_sentinel || !sb_redis_failed_with(text, "NOAUTH"))
        return sb_redis_fail(place, text, error);
    return sb_error_set(error, SIMBA_EDENIED,
                        "the sentinel at %.80s wants a password: set sentinel-password (that of "
                        "the URL is for the master)",
                        sb_wire_place_text(place, where));
}

/* The client's name only helps operators, and a user may lack the right to set it: that error is
 * ignored. But this may also be the first reply that asks for a password. */
int sb_redis_greeting_take(struct sb_redis_greeting *greeting, const struct sb_wire_place *place,
                           const redisReply *reply, bool *ret_done, struct simba_error *error)
{
    enum sb_redis_greeting_step step = greeting->steps[greeting->taken++];
    int code = SIMBA_OK;

    SB_CHECK(greeting->taken <= greeting->count, "each step of a greeting has one reply");
    if (reply->type == REDIS_REPLY_ERROR) {
        if (step == SB_REDIS_GREETING_AUTH)
            code = sb_redis_fail_quietly(place, reply->str, error);
        else if (step != SB_REDIS_GREETING_NAME || strncmp(reply->str, "NOAUTH", 6) == 0)
            code = fail_step(greeting, place, reply->str, error);
    } else if (step == SB_REDIS_GREETING_ROLE) {
        code = check_role(place, reply, error);
    }
    if (code == SIMBA_OK)
        *ret_done = greeting->taken == greeting->count;
    return code;
}
