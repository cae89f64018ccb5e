/*
 * failure.c - what a status of gRPC and etcd's sentence with it mean. Knows no connections.
 *
 * etcd answers a write whose proposal it gave up waiting for with the same status as one that it
 * never proposed; only the sentence tells.
 */
#include "backend/etcd/rpc/call.h"

#include "base/error.h"

#include <string.h>

enum { OK, CANCELLED, UNKNOWN, INVALID, DEADLINE, NOT_FOUND, EXISTS, DENIED, EXHAUSTED };
enum { PRECONDITION = 9, ABORTED, OUT_OF_RANGE, UNIMPLEMENTED, INTERNAL, UNAVAILABLE };
enum { UNAUTHENTICATED = 16 };

struct meaning {
    const char *words; /* in etcd's sentence */
    int code;
    bool maybe;
    enum sb_etcd_refusal refusal;
    const char *advice; /* NULL: none */
};

static const struct meaning meanings[] = {
    {"database space exceeded", SIMBA_ESTORE, false, SB_ETCD_REFUSAL_NONE,
     "its space alarm is on and it takes no writes: compact and defragment it, then run etcdctl "
     "alarm disarm"},
    {"too many requests", SIMBA_EUNAVAILABLE, false, SB_ETCD_REFUSAL_NONE,
     "it applies requests more slowly than they come: look at its disk and its load"},
    {"corrupt", SIMBA_ESTORE, false, SB_ETCD_REFUSAL_MEMBER, "look at etcdctl alarm list"},
    {"no leader", SIMBA_EUNAVAILABLE, false, SB_ETCD_REFUSAL_MEMBER,
     "this member has no connection to a majority of its cluster"},
    {"not capable", SIMBA_EUNAVAILABLE, false, SB_ETCD_REFUSAL_MEMBER, NULL},
    {"learner", SIMBA_EUNAVAILABLE, false, SB_ETCD_REFUSAL_MEMBER, NULL},
    {"server stopped", SIMBA_EUNAVAILABLE, true, SB_ETCD_REFUSAL_MEMBER, NULL},
    {"leader changed", SIMBA_EUNAVAILABLE, true, SB_ETCD_REFUSAL_NONE, NULL},
    {"timed out", SIMBA_EUNAVAILABLE, true, SB_ETCD_REFUSAL_MEMBER,
     "its cluster has no majority, or is slow"},
    {"invalid auth token", SIMBA_EDENIED, false, SB_ETCD_REFUSAL_LOGIN, NULL},
    {"auth store is old", SIMBA_EDENIED, false, SB_ETCD_REFUSAL_LOGIN, NULL},
    {"user name is empty", SIMBA_EDENIED, false, SB_ETCD_REFUSAL_NONE,
     "it wants a user and a password in the URL"},
    {"authentication failed", SIMBA_EDENIED, false, SB_ETCD_REFUSAL_NONE, NULL},
    {"authentication is not enabled", SIMBA_ECONFIG, false, SB_ETCD_REFUSAL_NONE,
     "it knows no users: take the user and the password out of the URL, or run etcdctl auth "
     "enable"},
    {"permission denied", SIMBA_EDENIED, false, SB_ETCD_REFUSAL_NONE,
     "the user needs a role that may read and write all keys under the prefix of the URL"},
    {"lease not found", SIMBA_ELOST, false, SB_ETCD_REFUSAL_NONE, NULL},
};

/* What the status alone tells. */
static struct meaning meaning_of_status(int status)
{
    struct meaning meaning = {NULL, SIMBA_ESTORE, false, SB_ETCD_REFUSAL_NONE, NULL};

    switch (status) {
    case UNAUTHENTICATED:
        meaning.code = SIMBA_EDENIED;
        meaning.refusal = SB_ETCD_REFUSAL_LOGIN;
        break;
    case DENIED:
        meaning.code = SIMBA_EDENIED;
        break;
    case EXHAUSTED:
        meaning.code = SIMBA_EUNAVAILABLE;
        break;
    case INVALID:
    case NOT_FOUND:
    case EXISTS:
    case PRECONDITION:
    case OUT_OF_RANGE:
    case UNIMPLEMENTED:
        break;
    default:
        meaning.code = SIMBA_EUNAVAILABLE;
        meaning.maybe = true;
        break;
    }
    return meaning;
}

static struct meaning meaning_of(const struct sb_etcd_call *call)
{
    for (size_t i = 0; call->text != NULL && i < sizeof meanings / sizeof meanings[0]; i++)
        if (strstr(call->text, meanings[i].words) != NULL)
            return meanings[i];
    return meaning_of_status(call->status);
}

/* No gRPC at all: another server answers there, or a proxy on the way. */
static enum sb_etcd_refusal fail_http(const struct sb_etcd_call *call, const char *place,
                                      struct simba_error *error, bool *ret_maybe)
{
    *ret_maybe = true;
    if (call->nonsense)
        sb_error_set(error, SIMBA_ESTORE, "the answer of %s cannot be understood, or is too long",
                     place);
    else
        sb_error_set(error, SIMBA_EUNAVAILABLE,
                     "the server at %s ended a call without its status (HTTP status %d): is that "
                     "etcd?",
                     place, call->http_status);
    return SB_ETCD_REFUSAL_MEMBER;
}

enum sb_etcd_refusal sb_etcd_fail(const struct sb_etcd_call *call, const char *place,
                                  struct simba_error *error, bool *ret_maybe)
{
    const char *sentence = call->text != NULL ? call->text : "";
    struct meaning meaning;

    if (call->nonsense || call->status < 0)
        return fail_http(call, place, error, ret_maybe);
    meaning = meaning_of(call);
    if (strncmp(sentence, "etcdserver: ", 12) == 0)
        sentence += 12;
    sb_error_set_backend(error, meaning.code, call->status, "etcd at %.80s: %.120s%s%s", place,
                         sentence[0] != '\0' ? sentence : "it gives no reason",
                         meaning.advice != NULL ? "; " : "",
                         meaning.advice != NULL ? meaning.advice : "");
    *ret_maybe = meaning.maybe;
    return meaning.refusal;
}

bool sb_etcd_is_lease_gone(const struct simba_error *error)
{
    return error->code == SIMBA_ELOST && error->backend_code == NOT_FOUND;
}
