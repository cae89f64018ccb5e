/*
 * failure.c - what PostgreSQL's states mean to the library. Owns the sentences; changes nothing but
 * what the client knows of poolers.
 */
#include "backend/postgres/connection.h"

#include "base/error.h"
#include "base/text.h"

#include <ctype.h>
#include <string.h>

#define STATE_LENGTH 5
#define MESSAGE_MAX 200

/* A state, or the first two characters of all of its class. */
struct meaning {
    const char *state;
    int code;
    enum sb_sql_remedy remedy;
    const char *text;
};

static const struct meaning meanings[] = {
    {"42P01", SIMBA_ESTORE, SB_SQL_SCHEMA, "the table is not there"},
    {"23505", SIMBA_EEXISTS, SB_SQL_GIVE_UP, "it is there already"},
    {"42P07", SIMBA_EEXISTS, SB_SQL_GIVE_UP, "it is there already"},
    {"42710", SIMBA_EEXISTS, SB_SQL_GIVE_UP, "it is there already"},
    {"55P03", SIMBA_EUNAVAILABLE, SB_SQL_RETRY, "what it needs is locked by another client"},
    {"40", SIMBA_EUNAVAILABLE, SB_SQL_RETRY, "the transaction was rolled back for another"},
    {"57014", SIMBA_EUNAVAILABLE, SB_SQL_RETRY, "the statement was cancelled"},
    {"25006", SIMBA_ESTORE, SB_SQL_RECONNECT, "the server is read-only, a standby perhaps"},
    {"42501", SIMBA_EDENIED, SB_SQL_GIVE_UP,
     "the user lacks a right, and needs SELECT, INSERT and UPDATE on the table"},
    {"28", SIMBA_EDENIED, SB_SQL_RECONNECT, "the server refuses the user"},
    {"3F000", SIMBA_ECONFIG, SB_SQL_RECONNECT, "there is no schema for the table"},
    {"3D000", SIMBA_ECONFIG, SB_SQL_RECONNECT, "there is no such database"},
    {"22001", SIMBA_EINVAL, SB_SQL_GIVE_UP, "a value does not fit into its column"},
    {"22021", SIMBA_EINVAL, SB_SQL_GIVE_UP, "a value does not fit into its column"},
    {"22P05", SIMBA_EINVAL, SB_SQL_GIVE_UP, "a value does not fit into its column"},
    {"26000", SIMBA_EUNAVAILABLE, SB_SQL_RECONNECT, "what was prepared is gone"},
    {"42P05", SIMBA_EUNAVAILABLE, SB_SQL_RECONNECT, "another client prepared it"},
    {"0A000", SIMBA_ESTORE, SB_SQL_RECONNECT, "the server cannot do it"},
    {"53", SIMBA_EUNAVAILABLE, SB_SQL_RECONNECT, "the server is out of resources"},
    {"57", SIMBA_EUNAVAILABLE, SB_SQL_RECONNECT, "the server shuts down or starts"},
    {"08", SIMBA_EUNAVAILABLE, SB_SQL_RECONNECT, "the connection is broken"},
    {"58", SIMBA_ESTORE, SB_SQL_RECONNECT, "the server's system failed"},
};

static const struct meaning other = {"", SIMBA_ESTORE, SB_SQL_GIVE_UP, "the statement failed"};

/* The table was replaced by one without SB_SQL_TERM_COLUMNS: a new connection does without. */
static const struct meaning changed = {"42703", SIMBA_EUNAVAILABLE, SB_SQL_RECONNECT,
                                       "the table has another form"};

static const struct meaning *find_meaning(const char *state, const char *message)
{
    if (strcmp(state, changed.state) == 0 && strstr(message, "term_") != NULL)
        return &changed;
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++)
        if (strncmp(state, meanings[i].state, strlen(meanings[i].state)) == 0)
            return &meanings[i];
    return &other;
}

/* The first line of a message. What was cut short in its middle ends with a colon. */
static const char *first_line(char line[MESSAGE_MAX], const char *text)
{
    size_t length;

    sb_text_copy(line, MESSAGE_MAX, text);
    length = strcspn(line, "\n");
    while (length > 0 && (line[length - 1] == ' ' || line[length - 1] == ':'))
        length--;
    line[length] = '\0';
    return line;
}

/* A pooler that gives every transaction another session is found out by what it forgets. */
int sb_postgres_fail_result(struct sb_postgres_connection *c, const PGresult *result,
                            struct sb_sql_failure *failure)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    const struct meaning *meaning;
    char line[MESSAGE_MAX];

    if (state != NULL && (strcmp(state, "26000") == 0 || strcmp(state, "42P05") == 0))
        atomic_store(&c->settings->unprepared, true);
    if (message == NULL)
        message = PQresultErrorMessage(result);
    meaning = find_meaning(state != NULL ? state : "", message);
    failure->remedy = meaning->remedy;
    return sb_error_set(&failure->error, meaning->code, "PostgreSQL: %s: %s (%s)", meaning->text,
                        first_line(line, message), state != NULL ? state : "no state");
}

int sb_postgres_fail_lost(const struct sb_postgres_connection *c, bool sent, const char *what,
                          struct sb_sql_failure *failure)
{
    char line[MESSAGE_MAX];

    first_line(line, PQerrorMessage(c->pg));
    failure->remedy = SB_SQL_RECONNECT;
    return sb_error_set(&failure->error, sent ? SIMBA_EUNKNOWN : SIMBA_EUNAVAILABLE,
                        "PostgreSQL: %s%s%s", what, line[0] != '\0' ? ": " : "", line);
}

/* In a verbose message the state stands before the text: "FATAL:  28P01: password ...". */
static bool find_state(const char *message, char ret_state[STATE_LENGTH + 1])
{
    for (const char *c = message; (c = strstr(c, ":  ")) != NULL; c += 3) {
        const char *state = c + 3;
        size_t length = 0;

        while (length < STATE_LENGTH &&
               (isdigit((unsigned char)state[length]) || isupper((unsigned char)state[length])))
            length++;
        if (length == STATE_LENGTH && state[length] == ':') {
            memcpy(ret_state, state, STATE_LENGTH);
            ret_state[STATE_LENGTH] = '\0';
            return true;
        }
    }
    return false;
}

static int fail_connect(const PGconn *pg, const struct simba_error *unread,
                        struct sb_sql_failure *failure)
{
    const char *message = PQerrorMessage(pg);
    char state[STATE_LENGTH + 1];
    char line[MESSAGE_MAX];
    int code = SIMBA_EUNAVAILABLE;

    if (PQuser(pg) == NULL) /* it has not come so far: the settings themselves are wrong */
        code = SIMBA_ECONFIG;
    else if (PQconnectionNeedsPassword(pg) != 0)
        code = SIMBA_EDENIED;
    else if (find_state(message, state))
        code = find_meaning(state, "")->code;
    failure->remedy = SB_SQL_RECONNECT;
    if (code == SIMBA_EDENIED && unread->code != SIMBA_OK)
        return sb_error_set(&failure->error, code, "PostgreSQL: cannot connect: %s; and %s",
                            first_line(line, message), unread->text);
    return sb_error_set(&failure->error, code, "PostgreSQL: cannot connect: %s",
                        first_line(line, message));
}

int sb_postgres_fail_login(const struct sb_postgres_connection *c, enum sb_postgres_login login,
                           const struct simba_error *unread, struct sb_sql_failure *failure)
{
    failure->remedy = SB_SQL_RECONNECT;
    switch (login) {
    case SB_POSTGRES_LOGIN_TELLING:
        return sb_error_set(&failure->error, SIMBA_EDENIED,
                            "PostgreSQL: the server asks for the password in clear text; that "
                            "needs TLS with a verified certificate (tls=on)");
    case SB_POSTGRES_LOGIN_COSTLY:
        return sb_error_set(&failure->error, SIMBA_EDENIED,
                            "PostgreSQL: the server asks for a proof of the password (SCRAM) with "
                            "more iterations than a client computes; see scram_iterations");
    case SB_POSTGRES_LOGIN_PLAIN:
        return sb_error_set(&failure->error, SIMBA_ECONFIG,
                            "PostgreSQL: the URL asks for TLS, and there is no TLS on a socket of "
                            "the file system: name a host, or leave out tls");
    case SB_POSTGRES_LOGIN_SHORT:
        return sb_error_set(&failure->error, SIMBA_ENOMEM,
                            "PostgreSQL: cannot connect: the process can open no more "
                            "descriptors");
    case SB_POSTGRES_LOGIN_FLOOD:
        return sb_postgres_fail_lost(
            c, false, "the server sends data that the client did not ask for", failure);
    default:
        return fail_connect(c->pg, unread, failure);
    }
}

int sb_postgres_fail_memory(struct sb_sql_failure *failure)
{
    failure->remedy = SB_SQL_GIVE_UP;
    return sb_error_plain(&failure->error, SIMBA_ENOMEM);
}
