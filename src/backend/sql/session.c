/*
 * session.c - the connection of a worker. Owns when it is made and what helps when it fails; must
 * not know requests.
 */
#include "backend/sql/session.h"

#include "base/check.h"
#include "base/random.h"

#include <time.h>

#define BACKOFF_MIN_MS 20
#define BACKOFF_MAX_MS 2000
#define REPAIRS_MAX 2          /* reconnects or new schemas for the sake of one batch */
#define REFUSED_MS 1000        /* between two new connections to a server that refuses */
#define WARN_INTERVAL_MS 60000 /* between two warnings of the same failure */
#define RETRY_PAUSE_MIN_US 100
#define RETRY_PAUSE_MAX_US 1000

/* ---- Connecting ------------------------------------------------------------------------------ */

void sb_sql_session_drop(struct sb_sql_session *s)
{
    s->driver->disconnect(s->repository.connection);
    s->repository.connection = NULL;
    s->repository.in_transaction = false;
}

static int note_no_connection(struct sb_sql_session *s, const struct sb_sql_failure *failure)
{
    const struct simba_backend_host *host = s->host;

    if (s->failures++ == 0)
        host->log(host, SIMBA_LOG_WARN, "%s: cannot connect: %s", s->name, failure->error.text);
    s->last_error = failure->error;
    s->connect_at_ms =
        simba_now_ms() + sb_random_backoff(&s->random, BACKOFF_MIN_MS, BACKOFF_MAX_MS, s->failures);
    return failure->error.code;
}

/* The table may have been altered since, as the error has asked for. */
static void drop_outdated(struct sb_sql_session *s, int64_t now_ms)
{
    const struct sb_sql_connection *connection = s->repository.connection;

    if (connection == NULL || !connection->outdated || now_ms < s->refused_until_ms)
        return;
    s->refused_until_ms = now_ms + REFUSED_MS;
    sb_sql_session_drop(s);
}

/* Between two attempts requests are answered with what the last one failed with. */
int sb_sql_session_ensure(struct sb_sql_session *s, int64_t timeout_ms,
                          struct sb_sql_failure *failure)
{
    const struct simba_backend_host *host = s->host;
    int64_t now_ms = simba_now_ms();

    if (timeout_ms > s->connect_ms)
        timeout_ms = s->connect_ms;
    drop_outdated(s, now_ms);
    if (s->repository.connection != NULL)
        return SIMBA_OK;
    failure->remedy = SB_SQL_GIVE_UP;
    failure->error = s->last_error;
    if (now_ms < s->connect_at_ms)
        return failure->error.code;
    if (s->driver->connect(s->settings, timeout_ms, &s->repository.connection, failure) !=
        SIMBA_OK) {
        failure->remedy = SB_SQL_GIVE_UP;
        return note_no_connection(s, failure);
    }
    SB_CHECK(s->repository.connection != NULL && !s->repository.in_transaction,
             "a new connection is outside of a transaction");
    if (s->failures > 0)
        host->log(host, SIMBA_LOG_INFO, "%s: connected again", s->name);
    s->failures = 0;
    return SIMBA_OK;
}

/* ---- Repairing ------------------------------------------------------------------------------- */

/* Not every driver has waited when it reports a lock. */
static void pause_before_retry(struct sb_sql_session *s)
{
    int64_t us =
        sb_random_between(sb_random_next(&s->random), RETRY_PAUSE_MIN_US, RETRY_PAUSE_MAX_US);
    const struct timespec pause = {0, (long)us * 1000};

    nanosleep(&pause, NULL);
}

/* What goes on failing in the same way is a warning now and then only. A write that worked since
 * tells that the failure is a new one; a read does not, as it may work where writes are refused. */
static void tell_reconnect(struct sb_sql_session *s, const struct simba_error *error,
                           int64_t now_ms)
{
    const struct sb_sql_connection *connection = s->repository.connection;
    bool is_new = s->warned_at_ms == 0 || (connection != NULL && connection->has_written);
    bool warn = is_new || now_ms - s->warned_at_ms >= WARN_INTERVAL_MS ||
                s->warned_code != error->code || s->warned_backend_code != error->backend_code;

    if (warn) {
        s->warned_at_ms = now_ms;
        s->warned_code = error->code;
        s->warned_backend_code = error->backend_code;
    }
    s->host->log(s->host, warn ? SIMBA_LOG_WARN : SIMBA_LOG_DEBUG, "%s: connecting again: %s",
                 s->name, error->text);
}

/* A server that answers and refuses, because it is read-only, is asked over a new connection only
 * now and then: the name may lead to another server by now. Reads use the old connection
 * meanwhile. */
static bool reconnect(struct sb_sql_session *s, const struct sb_sql_failure *failure,
                      unsigned repairs)
{
    bool refused = failure->error.code == SIMBA_ESTORE;
    int64_t now_ms = simba_now_ms();

    if (refused && now_ms < s->refused_until_ms)
        return false;
    tell_reconnect(s, &failure->error, now_ms);
    if (refused)
        s->refused_until_ms = now_ms + REFUSED_MS;
    sb_sql_session_drop(s);
    return repairs < REPAIRS_MAX;
}

bool sb_sql_session_repair(struct sb_sql_session *s, struct sb_sql_failure *failure,
                           unsigned repairs)
{
    const struct sb_sql_driver *driver = s->driver;
    const struct simba_backend_host *host = s->host;
    struct sb_sql_failure lost;
    bool moved;

    SB_CHECK(failure->remedy == SB_SQL_GIVE_UP || s->repository.connection != NULL,
             "what can be repaired has failed on a connection");
    if (failure->remedy == SB_SQL_RETRY && driver->check != NULL &&
        driver->check(s->repository.connection, &moved, &lost) != SIMBA_OK)
        *failure = lost;
    switch (failure->remedy) {
    case SB_SQL_RETRY:
        pause_before_retry(s);
        return true;
    case SB_SQL_RECONNECT:
        return reconnect(s, failure, repairs);
    case SB_SQL_SCHEMA:
        host->log(host, SIMBA_LOG_WARN, "%s: creating the schema again: %s", s->name,
                  failure->error.text);
        return repairs < REPAIRS_MAX &&
               sb_sql_repository_init_schema(&s->repository, failure) == SIMBA_OK;
    default:
        return false;
    }
}
