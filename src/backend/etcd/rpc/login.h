/*
 * login.h - what a connection needs that may have to be read or looked up, which may block: the
 * addresses of the member, certificates and the password as they stand in their files now.
 */
#ifndef SB_ETCD_LOGIN_H
#define SB_ETCD_LOGIN_H

#include "backend/etcd/options.h"

struct sb_etcd_login {
    struct sb_wire_endpoint endpoint;
    const struct sb_wire_tls *tls; /* NULL: plain */
    struct sb_wire_tls *own_tls;   /* NULL: `tls` is the client's */
    const char *password;          /* NULL: none */
    struct simba_error unread;     /* why a file could not be read again; SIMBA_OK: all could */
    char text[SB_SECRET_MAX + 2];
};

bool sb_etcd_login_blocks(const struct sb_etcd_options *options, const struct sb_wire_place *place);

/* `tls` is what the client was opened with, and outlives the login. From any thread. */
int sb_etcd_login_read(struct sb_etcd_login *login, const struct sb_etcd_options *options,
                       const struct sb_wire_place *place, const struct sb_wire_tls *tls,
                       struct simba_error *error);

/* Frees it, also one that could not be read. */
void sb_etcd_login_clear(struct sb_etcd_login *login);

#endif
