/*
 * login.h - connects without telling a server the password that has not proved who it is.
 */
#ifndef SB_BACKEND_POSTGRES_LOGIN_H
#define SB_BACKEND_POSTGRES_LOGIN_H

#include "backend/postgres/connection.h"

enum sb_postgres_login {
    SB_POSTGRES_LOGIN_READING, /* wait until the socket can be read */
    SB_POSTGRES_LOGIN_WRITING,
    SB_POSTGRES_LOGIN_DONE,
    SB_POSTGRES_LOGIN_FAILED,
    SB_POSTGRES_LOGIN_TELLING, /* the server asks for the password itself, without TLS: leave it */
    SB_POSTGRES_LOGIN_COSTLY, /* it asks for a proof that takes longer than anybody waits: leave it */
    SB_POSTGRES_LOGIN_PLAIN, /* it is connected without the TLS that the URL asks for */
    SB_POSTGRES_LOGIN_FLOOD, /* it sends more than SB_POSTGRES_RECEIVED_MAX */
    SB_POSTGRES_LOGIN_SHORT  /* the process is short of descriptors */
};

/* In the place of PQconnectPoll: does what can be done without waiting. *received counts what the server has sent, from
 * 0 on. */
enum sb_postgres_login sb_postgres_login_poll(const struct sb_postgres_settings *settings,
                                              PGconn *pg, size_t *received);

/* Connects by the settings of `connection`, whose `pg` is NULL, until its deadline. After a failure `pg` may be there:
 * the caller finishes it in any case. */
int sb_postgres_log_in(struct sb_postgres_connection *connection, struct sb_sql_failure *failure);

#endif
