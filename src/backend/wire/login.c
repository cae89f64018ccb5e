/*
 * login.c - reads what a connection needs from files. Connects to nothing.
 */
#include "backend/wire/stream.h"

#include "base/error.h"
#include "base/url_parts.h"

#include <string.h>

static bool has_certificates(const struct sb_wire_tls_options *trust)
{
    return trust->ca != NULL || trust->cert != NULL;
}

bool sb_wire_login_has_files(const struct sb_wire_tls_options *trust,
                             const struct sb_secret *password)
{
    return password->path != NULL || has_certificates(trust);
}

/* A pipe has given its bytes when the client was opened. */
static bool can_be_read(const char *path)
{
    return path == NULL || sb_url_can_be_read_twice(path);
}

static int read_certificates(struct sb_wire_login *login, const struct sb_wire_tls_options *trust)
{
    struct simba_error error;
    int code = sb_wire_tls_create(trust, &login->own_tls, &error);

    if (code == SIMBA_OK)
        login->tls = login->own_tls;
    else
        login->unread = error;
    return code == SIMBA_ENOMEM ? code : SIMBA_OK;
}

int sb_wire_login_read(struct sb_wire_login *login, const struct sb_wire_tls_options *trust,
                       const struct sb_wire_tls *tls, const struct sb_secret *password)
{
    int code = SIMBA_OK;

    login->tls = tls;
    if (tls != NULL && has_certificates(trust) && can_be_read(trust->ca) &&
        can_be_read(trust->cert) && can_be_read(trust->key))
        code = read_certificates(login, trust);
    if (code == SIMBA_OK)
        sb_secret_now(password, login->text, &login->password, &login->unread);
    return code;
}

void sb_wire_login_clear(struct sb_wire_login *login)
{
    sb_wire_tls_free(login->own_tls);
    explicit_bzero(login, sizeof *login);
}

void sb_wire_login_explain(const struct sb_wire_login *login, struct simba_error *error)
{
    struct simba_error why = *error;

    if (error->code == SIMBA_EDENIED && login->unread.code != SIMBA_OK)
        sb_error_set_backend(error, why.code, why.backend_code, "%.120s; and %.120s", why.text,
                             login->unread.text);
}
