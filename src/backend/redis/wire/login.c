/*
 * login.c - a password and certificates as they stand in their files now. Owns them for one connection.
 */
#include "backend/redis/wire/login.h"

#include "base/alloc.h"
#include "base/url_parts.h"

#include <string.h>

static bool has_certificates(const struct sb_redis_options *o)
{
    return o->tls_ca != NULL || o->tls_cert != NULL;
}

bool sb_redis_login_has_files(const struct sb_redis_options *o,
                              const struct sb_redis_credentials *credentials)
{
    return credentials->password.path != NULL || has_certificates(o);
}

/* A pipe has given its bytes when the client was opened. */
static bool can_be_read(const char *path)
{
    return path == NULL || sb_url_can_be_read_twice(path);
}

static bool can_read_certificates(const struct sb_redis_options *o)
{
    return can_be_read(o->tls_ca) && can_be_read(o->tls_cert) && can_be_read(o->tls_key);
}

/* False when memory is short. Files that are of no use now leave what was read before. */
static bool read_certificates(struct sb_redis_login *login, const struct sb_redis_options *o)
{
    struct simba_error error;
    int code = sb_redis_tls_create(o, &login->own_tls, &error);

    if (code == SIMBA_ENOMEM)
        return false;
    if (code == SIMBA_OK)
        login->tls = login->own_tls;
    else
        login->unread = error;
    return true;
}

struct sb_redis_login *sb_redis_login_create(const struct sb_redis_options *o,
                                             const struct sb_redis_credentials *credentials,
                                             const struct sb_redis_tls *tls)
{
    struct sb_redis_login *login = sb_alloc_zero(sizeof *login);

    if (login == NULL)
        return NULL;
    login->user = credentials->user;
    login->tls = tls;
    if (has_certificates(o) && can_read_certificates(o) && !read_certificates(login, o)) {
        sb_redis_login_free(login);
        return NULL;
    }
    sb_secret_now(&credentials->password, login->text, &login->password, &login->unread);
    return login;
}

void sb_redis_login_free(struct sb_redis_login *login)
{
    if (login == NULL)
        return;
    sb_redis_tls_free(login->own_tls);
    explicit_bzero(login->text, sizeof login->text);
    sb_free(login);
}
