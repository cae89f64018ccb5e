/*
 * question.h - one request to the store on behalf of a thread that waits for the answer.
 */
#ifndef SB_API_QUESTION_H
#define SB_API_QUESTION_H

#include "api/client.h"

struct sb_store_answer {
    struct simba_mutex_status
        *list; /* the caller's, to be freed; one entry unless all were asked for */
    size_t count;
    uint64_t revision; /* of the record, where one mutex was asked for */
};

/* SIMBA_OK when the client, the name (NULL: all) and the time-out are such that it can be asked. */
int sb_client_check_question(simba_client *client, const char *mutex, int64_t timeout_ms,
                             struct simba_error *error);

/* Sends the request and waits at most wire->timeout_ms. The strings of `wire` are copied. */
int sb_client_ask(simba_client *client, const struct simba_request *wire,
                  struct sb_store_answer *ret_answer, struct simba_error *error);

#endif
