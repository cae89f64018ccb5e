/*
 * wait.c - waits for a server's socket. Owns nothing; must not know what is exchanged.
 */
#include "backend/sql/driver.h"

#include "base/time.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <uv.h>

short sb_sql_wait(struct sb_sql_connection *connection, int socket, short events,
                  int64_t deadline_ms)
{
    struct uv_loop_s *loop = connection != NULL ? connection->loop : NULL;
    struct pollfd polled[2] = {{.fd = socket, .events = events},
                               {.fd = loop != NULL ? uv_backend_fd(loop) : -1, .events = POLLIN}};
    int64_t now_ms = simba_now_ms();

    /* Half a message that the caller leaves in the socket keeps it ready for ever. */
    if (deadline_ms != SB_SQL_AT_ONCE && now_ms >= deadline_ms)
        return 0;
    for (;; now_ms = simba_now_ms()) {
        int64_t end_ms =
            loop != NULL ? sb_earlier(deadline_ms, connection->loop_until_ms) : deadline_ms;
        int64_t left_ms = sb_max(end_ms - now_ms, 0);
        int ready = poll(polled, 2, left_ms < INT_MAX ? (int)left_ms : INT_MAX);

        if (ready < 0 && errno != EINTR)
            return POLLERR;
        if (ready > 0 && polled[0].revents != 0)
            return polled[0].revents;
        if (ready > 0) {
            connection->loop_until_ms =
                sb_earlier(connection->loop_until_ms, now_ms + SB_SQL_LOOP_BUSY_MS);
            polled[1].fd = -1;
        } else if (left_ms == 0) {
            return 0;
        }
    }
}
