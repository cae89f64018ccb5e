/*
 * call.h - the calls of libmariadb that wait for the server, each with the connection's deadline.
 *
 * They return what their namesakes do. When the deadline has come the call fails, and the
 * connection is of no more use.
 */
#ifndef SB_MYSQL_CALL_H
#define SB_MYSQL_CALL_H

#include "backend/mysql/connection.h"

/* Where to connect to, and as which user. NULL and 0 leave it to the library. */
struct sb_mysql_target {
    const char *host;
    unsigned port;
    const char *socket;
    bool is_tcp;   /* also where the host is localhost */
    bool is_local; /* a socket of this host */
    const char *user;
    const char *password;
    const char *database;
    bool needs_tls; /* a server whose greeting does not offer it is told nothing */
};

bool sb_mysql_call_connect(struct sb_mysql_connection *connection,
                           const struct sb_mysql_target *target);

/* What a server that has greeted offers. */
enum sb_mysql_greeting {
    SB_MYSQL_GREETING_PART, /* more of it has to come */
    SB_MYSQL_GREETING_TLS,
    SB_MYSQL_GREETING_NO_TLS, /* also where it is no greeting that the library could read */
    SB_MYSQL_GREETING_NONE,   /* the server refuses instead */
    SB_MYSQL_GREETING_WRONG   /* what the library must not read */
};

#define SB_MYSQL_GREETING_MAX 512 /* bytes that are looked at */

/* Reads what has come so far, at most SB_MYSQL_GREETING_MAX bytes. What follows changes no answer
 * but SB_MYSQL_GREETING_PART, and as many bytes as are looked at get another one. */
enum sb_mysql_greeting sb_mysql_read_greeting(const unsigned char *bytes, size_t count);

int sb_mysql_call_query(struct sb_mysql_connection *connection, const char *text);
MYSQL_RES *sb_mysql_call_store(struct sb_mysql_connection *connection);
int sb_mysql_call_prepare(struct sb_mysql_connection *connection, MYSQL_STMT *statement,
                          const char *text);
int sb_mysql_call_execute(struct sb_mysql_connection *connection, MYSQL_STMT *statement);
int sb_mysql_call_store_rows(struct sb_mysql_connection *connection, MYSQL_STMT *statement);

/* Whether the server has closed the connection while nobody was looking, or the client must not use
 * it any more. */
bool sb_mysql_is_closed(const struct sb_mysql_connection *connection);

#endif
