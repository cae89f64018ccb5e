/*
 * login.c - reads what a connection needs. Connects to nothing.
 *
 * Files are read again for each connection, so that a password or certificate that was replaced
 * there is used without a restart. If one can no longer be read, its first contents are used.
 */
#include "backend/etcd/rpc/login.h"

#include "base/error.h"
#include "base/url_parts.h"

#include <string.h>

static bool has_certificates(const struct sb_etcd_options *o)
{
    return o->trust.ca != NULL || o->trust.cert != NULL;
}

/* A pipe has given its bytes when the client was opened. */
static bool can_be_read(const char *path)
{
    return path == NULL || sb_url_can_be_read_twice(path);
}

bool sb_etcd_login_blocks(const struct sb_etcd_options *o, const struct sb_wire_place *place)
{
    return sb_wire_place_must_be_looked_up(place) || o->password.path != NULL ||
           (o->tls && has_certificates(o));
}

static int read_certificates(struct sb_etcd_login *login, const struct sb_etcd_options *o,
                             struct simba_error *error)
{
    struct simba_error unread;
    int code;

    if (!has_certificates(o) || !can_be_read(o->trust.ca) || !can_be_read(o->trust.cert) ||
        !can_be_read(o->trust.key))
        return SIMBA_OK;
    code = sb_wire_tls_create(&o->trust, &login->own_tls, &unread);
    if (code == SIMBA_ENOMEM)
        return sb_error_plain(error, code);
    if (code == SIMBA_OK)
        login->tls = login->own_tls;
    else
        login->unread = unread;
    return SIMBA_OK;
}

int sb_etcd_login_read(struct sb_etcd_login *login, const struct sb_etcd_options *o,
                       const struct sb_wire_place *place, const struct sb_wire_tls *tls,
                       struct simba_error *error)
{
    int code = sb_wire_endpoint_resolve(place, &login->endpoint, error);

    login->tls = tls;
    login->unread.code = SIMBA_OK;
    if (code == SIMBA_OK && tls != NULL)
        code = read_certificates(login, o, error);
    if (code == SIMBA_OK)
        sb_secret_now(&o->password, login->text, &login->password, &login->unread);
    return code;
}

void sb_etcd_login_clear(struct sb_etcd_login *login)
{
    sb_wire_tls_free(login->own_tls);
    explicit_bzero(login, sizeof *login);
}
