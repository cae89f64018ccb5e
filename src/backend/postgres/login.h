/*
 * login.h - connects without telling a server the password that has not proved who it is.
 */
#ifndef SB_BACKEND_POSTGRES_LOGIN_H
#define SB_BACKEND_POSTGRES_LOGIN_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>

enum sb_postgres_login {
    SB_POSTGRES_LOGIN_READING, /* wait until the socket can be read */
    SB_POSTGRES_LOGIN_WRITING,
    SB_POSTGRES_LOGIN_DONE,
    SB_POSTGRES_LOGIN_FAILED,
    SB_POSTGRES_LOGIN_TELLING, /* the server asks for the password itself, without TLS: leave it */
    SB_POSTGRES_LOGIN_FLOOD,   /* it sends more than SB_POSTGRES_RECEIVED_MAX */
    SB_POSTGRES_LOGIN_SHORT    /* the process is short of descriptors */
};

/* In the place of PQconnectPoll: does what can be done without waiting. *received counts what the server has sent, from
 * 0 on. */
enum sb_postgres_login sb_postgres_login_poll(PGconn *pg, size_t *received);

#endif
