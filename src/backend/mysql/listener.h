/*
 * listener.h - by which a client hears that one of its waiters is next, without polling.
 *
 * A client that has waiters keeps a second connection. It holds a user-level lock by the client's
 * name and does nothing but wait for another one, which the client's first connection holds. (A
 * KILL of SLEEP() can take MariaDB 2 s: both take one lock of the whole server.) The client that
 * releases sends
 *
 *     KILL QUERY IS_USED_LOCK('simba_0123456789abcdef')
 *
 * which ends the sleep, and nothing else. A user may do that to its own connections; no right is
 * needed. Only the server knows the connection's number, so a number that is used again after a
 * restart, or belongs to another server behind a proxy, is never killed. The name is a random one;
 * no statement is sent for a name of another form.
 *
 * A KILL that comes between two sleeps is lost. But the next sleep is on its way before the client
 * asks the store what has happened, and a KILL comes after a commit:
 *
 *     listener      |-- sleep --|x                |-- sleep ------
 *     worker                      ask |--|
 *     a release    commit KILL ^       ^ commit that the question does not see; its KILL comes
 *                                        a commit and two round trips after the sleep was sent
 *
 * A server that takes longer to begin a statement loses the KILL. Then a poll finds out.
 *
 * Where the KILL does not arrive (a proxy that gives each statement to another connection, a
 * release by another user, a server that refuses user-level locks) the client polls. It finds out
 * by a KILL of its own sleep, and by polls that find what no KILL has told: see sql/waiters.h.
 */
#ifndef SB_MYSQL_LISTENER_H
#define SB_MYSQL_LISTENER_H

#include "backend/mysql/connection.h"

struct sb_mysql_listener;

struct sb_mysql_listener_config {
    const struct simba_backend_host *host;
    struct sb_mysql_settings *settings;
    void (*woken)(void *user);          /* on its thread: one of the waiters may be next */
    void (*hears)(void *user, bool on); /* on its thread: whether wake-ups arrive */
    void *user;
};

int sb_mysql_listener_create(const struct sb_mysql_listener_config *config,
                             struct sb_mysql_listener **ret_listener, struct simba_error *error);

/* A contender waits: from now on there is a connection. From any thread. */
void sb_mysql_listener_want(struct sb_mysql_listener *listener);

/* Lets go of the connection. From the loop thread, like the next. */
void sb_mysql_listener_stop(struct sb_mysql_listener *listener);

/* Destroys; stops it where it is not. `closed` may be called before this returns. */
void sb_mysql_listener_close(struct sb_mysql_listener *listener, void (*closed)(void *argument),
                             void *argument);

#endif
