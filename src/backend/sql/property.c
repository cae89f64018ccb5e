/*
 * property.c - a request for a property of a mutex. Must not know statements.
 */
#include "backend/sql/batch.h"

#include "base/check.h"

/* A write that is repeated after a failure does no harm, so the caller may try it again. */
int sb_sql_batch_property(struct sb_sql_batch *batch, struct sb_sql_repository *r,
                          struct sb_sql_job *job, struct sb_sql_failure *failure)
{
    const struct simba_request *request = job->request;
    const struct sb_sql_property property = {
        .mutex = request->mutex,
        .name = request->property,
        .value = request->op == SIMBA_OP_SET_PROPERTY ? request->value : NULL,
        .id = request->id};
    struct simba_property found = {.written_ms = 0};
    const struct sb_sql_driver *driver = r->connection->driver;
    struct simba_reply reply = SIMBA_REPLY_INIT;
    bool moved;
    int code = sb_sql_repository_check_names(r, request->mutex, request->id, failure);

    SB_CHECK(request->property != NULL, "a property has a name");
    if (code == SIMBA_OK)
        code = driver->property(r->connection, &property, &found, failure);
    if (code == SIMBA_OK)
        code = sb_sql_repository_check(r, &moved, failure);
    if (code != SIMBA_OK)
        return code;
    if (property.value != NULL && property.id == NULL && driver->announce != NULL)
        driver->announce(r->connection, SIMBA_NOTICE_CHANGED, request->mutex, NULL);
    reply.property = &found;
    sb_sql_batch_answer(batch, job, &reply);
    return SIMBA_OK;
}
