/*
 * session.h - the connection of a worker: it is made again with a back-off, and what fails on it is
 * repaired where that can be done.
 */
#ifndef SB_SQL_SESSION_H
#define SB_SQL_SESSION_H

#include "backend/sql/repository.h"

/* Begins with the first five and a seed; the others are zeros. */
struct sb_sql_session {
    const struct sb_sql_driver *driver;
    void *settings;
    const struct simba_backend_host *host;
    const char *name;   /* in logs */
    int64_t connect_ms; /* how long a connection may take */
    uint64_t random;

    struct sb_sql_repository repository; /* its connection is NULL where there is none */
    struct simba_error last_error;       /* why there is none */
    unsigned failures;                   /* to connect, in a row */
    int64_t connect_at_ms;               /* no attempt before */
    int64_t refused_until_ms;            /* no other connection before, to a server that refuses */
    int64_t warned_at_ms;                /* of a lost connection, whose failure the next two tell */
    int warned_code;
    int warned_backend_code;
};

/* Connects where there is no connection, and where it is time for another attempt. */
int sb_sql_session_ensure(struct sb_sql_session *session, int64_t timeout_ms,
                          struct sb_sql_failure *failure);

/* Does what may help after a failure on the connection; `repairs` were made for the same batch
 * before. Returns whether another attempt makes sense; `failure` may become one that tells
 * more. */
bool sb_sql_session_repair(struct sb_sql_session *session, struct sb_sql_failure *failure,
                           unsigned repairs);

void sb_sql_session_drop(struct sb_sql_session *session);

#endif
