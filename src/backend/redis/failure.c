/*
 * failure.c - error replies, told apart by the words they open with. Owns the sentences.
 */
#include "backend/redis/failure.h"

#include "base/error.h"

#include <string.h>

struct meaning {
    const char *word;
    int code;
    const char *text; /* follows the name of the server */
};

static const struct meaning meanings[] = {
    {"NOAUTH", SIMBA_EDENIED, "wants a password"},
    {"WRONGPASS", SIMBA_EDENIED, "refused the user or the password"},
    {"NOPERM", SIMBA_EDENIED,
     "does not permit this to the user (docs/stores/redis.md lists the rights)"},
    {"DENIED", SIMBA_EDENIED, "refused the connection"},
    {"READONLY", SIMBA_EUNAVAILABLE, "is a read-only replica"},
    {"OOM", SIMBA_ESTORE, "has reached its maxmemory"},
    {"LOADING", SIMBA_EUNAVAILABLE, "is still loading its data"},
    {"BUSY", SIMBA_EUNAVAILABLE, "is busy with a script that does not end"},
    {"MISCONF", SIMBA_ESTORE, "takes no writes because it cannot persist them"},
    {"NOREPLICAS", SIMBA_ESTORE, "takes no writes without its replicas"},
    {"MASTERDOWN", SIMBA_EUNAVAILABLE, "is a replica that has lost its master"},
    {"CLUSTERDOWN", SIMBA_EUNAVAILABLE, "belongs to a cluster that is down"},
    {"TRYAGAIN", SIMBA_EUNAVAILABLE, "is moving the mutex to another node"},
    {"MOVED", SIMBA_ESTORE, "belongs to a cluster: use redis+cluster://"},
    {"ASK", SIMBA_ESTORE, "belongs to a cluster: use redis+cluster://"},
    {"WRONGTYPE", SIMBA_ESTORE, "has something else under the keys of the mutex"},
    {"ERR The user executing the script", SIMBA_EDENIED,
     "does not permit this to the user (docs/stores/redis.md lists the rights)"},
    {"ERR ACL failure in script:", SIMBA_EDENIED,
     "does not permit this to the user (docs/stores/redis.md lists the rights)"},
    {"ERR invalid password", SIMBA_EDENIED, "refused the password"},
    {"ERR AUTH", SIMBA_EDENIED, "has no password, and one was given"},
    {"ERR Client sent AUTH", SIMBA_EDENIED, "has no password, and one was given"},
    {"ERR max number of clients", SIMBA_EUNAVAILABLE, "has no connection to spare"},
    {"ERR DB index", SIMBA_ECONFIG, "has no such database"},
    {"ERR This instance has cluster support disabled", SIMBA_ECONFIG,
     "is no node of a cluster: use redis://"},
    {"ERR unknown command 'SENTINEL'", SIMBA_ECONFIG, "is no sentinel: use redis://"},
    {"ERR unknown command `SENTINEL`", SIMBA_ECONFIG, "is no sentinel: use redis://"},
    {"ERR unknown command 'AUTH'", SIMBA_EDENIED, "takes no password, and one was given"},
    {"ERR unknown command `AUTH`", SIMBA_EDENIED, "takes no password, and one was given"},
    {"ERR unknown command", SIMBA_ESTORE, "does not know a command that is needed"},
};

/* Redis before 7 wraps an error of a script: "ERR Error running script (call to f_...):
 * @user_script:7: OOM command not allowed ...". */
static const char *unwrap(const char *text)
{
    static const char place[] = "@user_script:";
    const char *found;

    if (strncmp(text, "ERR Error running script", 24) != 0)
        return text;
    while ((found = strstr(text, place)) != NULL)
        text = found + sizeof place - 1;
    text += strspn(text, "0123456789: -");
    return text;
}

static bool opens_with(const char *text, const char *word)
{
    size_t length = strlen(word);

    return strncmp(text, word, length) == 0 &&
           (text[length] == '\0' || text[length] == ' ' || text[length] == ',');
}

bool sb_redis_failed_with(const char *text, const char *word)
{
    return opens_with(unwrap(text), word);
}

bool sb_redis_is_redirection(const char *text)
{
    return sb_redis_failed_with(text, "MOVED") || sb_redis_failed_with(text, "ASK");
}

static size_t length_until(const char *text, const char *mark)
{
    const char *found = strstr(text, mark);

    return found != NULL ? (size_t)(found - text) : strlen(text);
}

/* Without where in a script it happened, which tells a user nothing, and without the arguments of a
 * command that the server does not know. */
static int words_of(const char *text)
{
    static const char own[] = "ERR ACL failure in script:"; /* of Redis 8 */
    size_t skipped = opens_with(text, own) ? sizeof own - 1 : 0;
    size_t script = skipped + length_until(text + skipped, " script: ");
    size_t arguments = length_until(text, ", with args beginning with");

    return (int)(script < arguments ? script : arguments);
}

static int tell(const struct sb_redis_place *place, const char *text, int length,
                struct simba_error *error)
{
    char where[SB_REDIS_PLACE_TEXT_MAX];

    sb_redis_place_text(place, where);
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++)
        if (opens_with(text, meanings[i].word))
            return sb_error_set(error, meanings[i].code, "the server at %.80s %s: %.*s", where,
                                meanings[i].text, length, text);
    return sb_error_set(error, SIMBA_ESTORE, "the server at %.80s failed: %.*s", where, length,
                        text);
}

int sb_redis_fail(const struct sb_redis_place *place, const char *text, struct simba_error *error)
{
    const char *words = unwrap(text);

    return tell(place, words, words_of(words), error);
}

int sb_redis_fail_quietly(const struct sb_redis_place *place, const char *text,
                          struct simba_error *error)
{
    return tell(place, text, (int)strcspn(text, " "), error);
}
