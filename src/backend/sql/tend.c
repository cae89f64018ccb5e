/*
 * tend.c - FORGET and RAISE. Must not know statements.
 *
 * A row that was deleted has no version. One that is inserted begins with a number that the
 * database's clock makes, and a row is deleted only if its version is smaller than that number is
 * by then. So a name that comes back begins above every version that it had. SQLite keeps a floor
 * instead.
 */
#include "backend/sql/batch.h"

#include "base/check.h"
#include "base/error.h"

/* A floor in the upper half of what the column can hold: a forged token would leave no room for
 * terms, on SQLite of any mutex. */
static bool is_too_high(const struct sb_sql_connection *c, uint64_t floor)
{
    return floor > c->version_max / 2;
}

static int refuse_high(const struct sb_sql_connection *c, const struct simba_request *request,
                       struct sb_sql_failure *failure)
{
    failure->remedy = SB_SQL_GIVE_UP;
    return sb_error_set(&failure->error, SIMBA_ECONFIG,
                        "the mutex \"%s\" had tokens up to %llu, more than half of what the column "
                        "`version` can hold, %llu%s%s",
                        request->mutex, (unsigned long long)request->revision,
                        (unsigned long long)c->version_max,
                        c->widen_version != NULL ? "; run: " : "",
                        c->widen_version != NULL ? c->widen_version : "");
}

/* A RAISE that is repeated does no harm; of a FORGET that is repeated it is not known who did
 * it. */
int sb_sql_batch_tend(struct sb_sql_batch *batch, struct sb_sql_repository *r,
                      struct sb_sql_job *job, struct sb_sql_failure *failure)
{
    const struct simba_request *request = job->request;
    const struct sb_sql_tending tending = {.mutex = request->mutex,
                                           .id = request->id != NULL ? request->id : "",
                                           .version = request->revision,
                                           .forgets = request->op == SIMBA_OP_FORGET};
    struct simba_reply reply = SIMBA_REPLY_INIT;
    bool done = false;
    bool created;
    bool moved;
    int code = sb_sql_repository_check_names(r, request->mutex, request->id, failure);

    SB_CHECK(request->mutex != NULL, "what is tended has a name");
    if (code == SIMBA_OK && !tending.forgets && is_too_high(r->connection, tending.version))
        code = refuse_high(r->connection, request, failure);
    if (code == SIMBA_OK && !tending.forgets)
        code = sb_sql_repository_try_init_mutex(r, request->mutex, &created, failure);
    if (code == SIMBA_OK)
        code = r->connection->driver->tend(r->connection, &tending, &done, failure);
    if (code == SIMBA_OK)
        code = sb_sql_repository_check(r, &moved, failure);
    if (code != SIMBA_OK)
        return code;
    reply.missed = !done;
    sb_sql_batch_answer(batch, job, &reply);
    return SIMBA_OK;
}
