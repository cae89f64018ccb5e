/*
 * subscribe.c - makes a connection on which releases are heard of. Owns the question whether it
 * works; must not know the waiters.
 *
 * A pooler that gives every transaction to another session takes a LISTEN and delivers nothing. The
 * process that answers is then not the one that we were told of. But that is so with any pooler,
 * also with one that leaves its clients their sessions. So behind a pooler it is found out whether
 * sessions change hands; and where they do not seem to, the ear is tried out: another connection
 * tells something, and it has to arrive while this one rests.
 */
#include "backend/postgres/listener.h"

#include "backend/postgres/connection.h"
#include "base/random.h"
#include "base/text.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define SLICE_MS 100 /* between two looks whether it is cancelled */
#define TRIAL_MS 1000
#define RIVALRIES 4
#define TRIAL_TEXT_MAX 48

#define ASK "SELECT pg_catalog.pg_backend_pid()"

static const char who_answers[] = ASK;
static const char hold_session[] = "BEGIN; " ASK;
static const char give_up_session[] = ASK "; ROLLBACK";

struct attempt {
    struct sb_postgres_subscription *s;
    int64_t deadline_ms;
};

static void set_why(struct sb_postgres_subscription *s, enum sb_postgres_hearing outcome,
                    const char *what, const char *message)
{
    struct sb_text text;

    s->outcome = outcome;
    sb_text_init(&text, s->why, sizeof s->why);
    sb_text_add(&text, "%s", what);
    if (message[0] != '\0')
        sb_text_add(&text, ": %.*s", (int)strcspn(message, "\n"), message);
}

/* ---- Waiting --------------------------------------------------------------------------------- */

/* False when it has taken too long or is cancelled. */
static bool await(const struct attempt *a, const PGconn *pg, short events)
{
    while (!atomic_load(&a->s->cancelled)) {
        int64_t now_ms = simba_now_ms();
        int64_t slice_ms = now_ms + SLICE_MS < a->deadline_ms ? now_ms + SLICE_MS : a->deadline_ms;

        if (sb_sql_wait(NULL, PQsocket(pg), events, slice_ms) != 0)
            return true;
        if (now_ms >= a->deadline_ms)
            return false;
    }
    return false;
}

/* NULL: there is no hope of a connection; the reason is told. The caller finishes what it gets,
 * also where the connection has failed. */
static PGconn *start_connecting(struct sb_postgres_subscription *s)
{
    struct simba_error error;
    PGconn *pg = NULL;

    if (sb_postgres_settings_connect(s->settings, s->skipped, &pg, NULL, &error) != SIMBA_OK)
        set_why(s, SB_POSTGRES_LATER, "cannot connect", error.text);
    return pg;
}

static bool await_connection(const struct attempt *a, PGconn *pg)
{
    enum sb_postgres_login login = SB_POSTGRES_LOGIN_WRITING;

    if (PQstatus(pg) == CONNECTION_BAD)
        return false;
    while (login == SB_POSTGRES_LOGIN_WRITING || login == SB_POSTGRES_LOGIN_READING) {
        if (!await(a, pg, login == SB_POSTGRES_LOGIN_WRITING ? POLLOUT : POLLIN))
            return false;
        login = sb_postgres_login_poll(a->s->settings, pg, &a->s->received);
    }
    return login == SB_POSTGRES_LOGIN_DONE;
}

/* Of a row the first column is read. A result that begins to copy data would come again and
 * again. */
static bool fits(const PGresult *result)
{
    switch (PQresultStatus(result)) {
    case PGRES_TUPLES_OK:
        return PQnfields(result) > 0;
    case PGRES_COMMAND_OK:
    case PGRES_FATAL_ERROR:
        return true;
    default:
        return false;
    }
}

/* The next result of what was asked; NULL when there is none, or none came that is an answer. */
static PGresult *await_result(const struct attempt *a, PGconn *pg)
{
    PGresult *result;

    while (PQisBusy(pg) != 0)
        if (!await(a, pg, POLLIN) || !sb_postgres_consume(pg, &a->s->received))
            return NULL;
    result = PQgetResult(pg);
    if (result == NULL || fits(result))
        return result;
    PQclear(result);
    return NULL;
}

/* ---- Asking ---------------------------------------------------------------------------------- */

/* A server that cannot LISTEN, or where we may not, will not be able to soon either. */
static enum sb_postgres_hearing judge(const PGresult *result)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);

    if (state != NULL && (strncmp(state, "0A", 2) == 0 || strncmp(state, "42", 2) == 0))
        return SB_POSTGRES_UNFIT;
    return SB_POSTGRES_LATER;
}

/* Returns the process that has carried it out; 0: none. */
static int ask(const struct attempt *a, PGconn *pg, const char *text)
{
    PGresult *result;
    int pid = 0;

    if (PQsendQuery(pg, text) == 0)
        return 0;
    while ((result = await_result(a, pg)) != NULL) {
        if (PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) > 0)
            pid = atoi(PQgetvalue(result, 0, 0));
        else if (PQresultStatus(result) == PGRES_FATAL_ERROR)
            set_why(a->s, judge(result), "cannot listen", PQresultErrorMessage(result));
        PQclear(result);
    }
    return PQstatus(pg) == CONNECTION_OK ? pid : 0;
}

/* ---- Poolers --------------------------------------------------------------------------------- */

/* Whether a transaction of the rival takes the session away from ours. */
static bool is_taken_away(const struct attempt *a, PGconn *pg, PGconn *rival)
{
    int before = ask(a, pg, who_answers);
    int taken = ask(a, rival, hold_session);
    int after = ask(a, pg, who_answers);

    return taken == before || after != before;
}

/* Asked before LISTEN, which would stay behind in the session; and more than once, because other
 * users of the pooler may come in between. */
static bool shares_sessions(const struct attempt *a, PGconn *pg)
{
    PGconn *rival = start_connecting(a->s);
    bool shares = false;

    if (rival != NULL && await_connection(a, rival)) {
        for (int i = 0; i < RIVALRIES && !shares; i++) {
            shares = is_taken_away(a, pg, rival);
            ask(a, rival, give_up_session);
        }
    }
    PQfinish(rival);
    return shares;
}

/* ---- Trying it out --------------------------------------------------------------------------- */

static bool tell(const struct attempt *a, const char *text)
{
    const char *const values[] = {a->s->settings->channel, text};
    PGconn *pg = start_connecting(a->s);
    bool told = false;
    PGresult *result;

    if (pg != NULL && await_connection(a, pg) &&
        PQsendQueryParams(pg, "SELECT pg_catalog.pg_notify($1, $2)", 2, NULL, values, NULL, NULL,
                          0) != 0) {
        while ((result = await_result(a, pg)) != NULL) {
            told = told || PQresultStatus(result) == PGRES_TUPLES_OK;
            PQclear(result);
        }
    }
    PQfinish(pg);
    return told;
}

static bool hears(PGconn *pg, const char *text)
{
    bool heard = false;
    PGnotify *note;

    while ((note = PQnotifies(pg)) != NULL) {
        heard = heard || strcmp(note->extra, text) == 0;
        PQfreemem(note);
    }
    return heard;
}

static void try_out(const struct attempt *a, PGconn *pg)
{
    struct attempt trial = *a;
    uint64_t seed = sb_random_seed();
    char text[TRIAL_TEXT_MAX];
    struct sb_text builder;

    sb_text_init(&builder, text, sizeof text);
    sb_text_add(&builder, "simba-trial-%" PRIu64, seed);
    if (!tell(a, text)) {
        set_why(a->s, SB_POSTGRES_LATER, "cannot try out whether releases are heard of", "");
        return;
    }
    trial.deadline_ms = simba_now_ms() + TRIAL_MS;
    while (!hears(pg, text)) {
        if (!await(&trial, pg, POLLIN) || !sb_postgres_consume(pg, &a->s->received)) {
            set_why(a->s, SB_POSTGRES_UNFIT, "a pooler is in between", "");
            return;
        }
    }
    a->s->outcome = SB_POSTGRES_HEARS;
}

/* The channel of this client, and that of releases which are told to everybody. */
static int listen_to(const struct attempt *a, PGconn *pg)
{
    char sql[sizeof "LISTEN ; LISTEN " SB_POSTGRES_CHANNEL "; " ASK + SB_POSTGRES_CHANNEL_MAX];
    struct sb_text text;

    sb_text_init(&text, sql, sizeof sql);
    sb_text_add(&text, "LISTEN %s; LISTEN " SB_POSTGRES_CHANNEL "; " ASK, a->s->settings->channel);
    return ask(a, pg, sql);
}

/* ---- The whole ------------------------------------------------------------------------------- */

static void subscribe_on(const struct attempt *a, PGconn *pg)
{
    bool pooled;

    if (!await_connection(a, pg)) {
        set_why(a->s, SB_POSTGRES_LATER, "cannot connect", PQerrorMessage(pg));
        return;
    }
    set_why(a->s, SB_POSTGRES_LATER, "cannot listen", "no answer in time");
    pooled = ask(a, pg, who_answers) != PQbackendPID(pg);
    if (pooled && shares_sessions(a, pg))
        set_why(a->s, SB_POSTGRES_UNFIT, "a pooler is in between", "");
    else if (listen_to(a, pg) == 0)
        return;
    else if (pooled)
        try_out(a, pg);
    else
        a->s->outcome = SB_POSTGRES_HEARS;
}

void sb_postgres_subscribe(struct sb_postgres_subscription *s)
{
    struct attempt attempt = {s, simba_now_ms() + s->settings->address.connect_timeout_ms};
    PGconn *pg = start_connecting(s);

    s->pg = NULL;
    s->received = 0;
    if (pg == NULL)
        return;
    subscribe_on(&attempt, pg);
    if (s->outcome == SB_POSTGRES_HEARS) {
        s->pg = pg;
        return;
    }
    PQfinish(pg);
    s->skipped = (s->skipped + 1) % sb_postgres_settings_hosts(s->settings); /* the next host */
}
