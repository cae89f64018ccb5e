/*
 * property.c - the answer to a request for a property. The hash holds its time, a space and its
 * value. Any client can write the hash, so it is checked.
 */
#include "backend/redis/ops/ops.h"

#include "base/error.h"
#include "base/text.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

static void read_property(const redisReply *text, struct simba_property *property)
{
    const char *space = text->type == REDIS_REPLY_STRING ? memchr(text->str, ' ', text->len) : NULL;
    int64_t written_ms = space != NULL ? strtoll(text->str, NULL, 10) : 0;

    if (written_ms <= 0)
        return;
    property->written_ms = written_ms;
    if (text->len > (size_t)(space + 1 - text->str))
        sb_text_printable(property->value, sizeof property->value, space + 1,
                          text->len - (size_t)(space + 1 - text->str));
}

void sb_redis_property_take(simba_backend *store, struct simba_request *request,
                            const struct sb_redis_record *record, const struct simba_error *error)
{
    struct simba_reply reply = SIMBA_REPLY_INIT;
    struct simba_property property = {.store_ms = 0};
    struct simba_error lost;

    if (record == NULL) {
        sb_redis_request_reply(store, request, NULL, error);
        return;
    }
    if (request->op == SIMBA_OP_SET_PROPERTY && !record->written) {
        sb_error_set(&lost, SIMBA_ELOST, "%s does not own the mutex \"%s\"",
                     request->id != NULL ? request->id : "nobody", request->mutex);
        sb_redis_request_reply(store, request, NULL, &lost);
        return;
    }
    property.store_ms = record->store_ms;
    read_property(record->property, &property);
    reply.property = &property;
    store->host->reply(store->host, request, &reply);
}
