/*
 * flight.h - a statement that no thread waits for: the loop sends it, and takes in the answer when it comes.
 *
 * That spares a lone request the way to the worker's thread and back. The thread that turns the loop goes on with it,
 * also when the one who sent it has long stopped waiting.
 *
 * All calls but sb_flight_disarm are for the loop thread. The connection is the flight's from its start until
 * it has landed.
 */
#ifndef SB_BACKEND_SQL_FLIGHT_H
#define SB_BACKEND_SQL_FLIGHT_H

#include "backend/sql/driver.h"

struct sb_flight;

struct sb_flight_config {
    const struct simba_backend_host *host;

    /* The item is over: done where `code` is SIMBA_OK, else `failure` tells. May start the next one. */
    void (*landed)(void *user, int code, struct sb_sql_failure *failure);

    /* There is something on a socket that nothing is expected on: sb_flight_disarm, unless the connection is
     * in use. */
    void (*stirred)(void *user);
    void *user;
};

/* NULL where there is no memory or descriptor for it. */
struct sb_flight *sb_flight_create(const struct sb_flight_config *config);

/* Destroys; closed(argument) is called when its handles are closed. Takes NULL: at once. */
void sb_flight_close(struct sb_flight *flight, void (*closed)(void *argument), void *argument);

/* Lands in about the time until the deadline, if need be by a failure; perhaps from within. */
void sb_flight_start(struct sb_flight *flight, struct sb_sql_connection *connection,
                     struct sb_sql_item *item, int64_t deadline_ms);

/* Takes its eyes off the socket, which somebody else is going to use or to close. From any thread, with a
 * lock that keeps others from the connection. */
void sb_flight_disarm(struct sb_flight *flight);

#endif
