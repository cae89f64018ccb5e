/*
 * question.h - a request that belongs to no contender, and its answer.
 */
#ifndef SB_API_QUESTION_H
#define SB_API_QUESTION_H

#include "api/client.h"

struct sb_question_answer {
    struct simba_mutex_status *list; /* one entry, unless all mutexes or waiters were asked for */
    size_t count;
    uint64_t revision;              /* of the record, if one mutex was asked for */
    bool missed;                    /* RELEASE, FORGET, RAISE: the record was not there as named */
    struct simba_property property; /* that was asked for */
    struct simba_finding *findings; /* INSPECT */
    size_t findings_count;
    char *environment; /* ENVIRONMENT */
};

/* Whether the client, the name (NULL: all) and the time-out allow a question. */
int sb_question_check(struct sb_client *client, const char *mutex, int64_t timeout_ms,
                      struct simba_error *error);

/* Sends the request and waits at most wire->timeout_ms. Copies the strings of `wire`, which the
 * caller has checked. The caller frees the list, the findings and
 * the environment of the answer. */
int sb_question_ask(struct sb_client *client, const struct simba_request *wire,
                    struct sb_question_answer *ret_answer, struct simba_error *error);

/* ---- property.c: as the public functions, with a client that was entered --------------------- */

int sb_property_get(struct sb_client *client, const char *mutex, const char *name,
                    int64_t timeout_ms, struct simba_property *ret_property,
                    struct simba_error *error);
int sb_property_set(struct sb_client *client, const char *mutex, const char *name,
                    const char *value, const char *owner_id, int64_t timeout_ms,
                    struct simba_error *error);

#endif
