/*
 * inspect.c - a request to inspect the database: what its driver finds, and what its table lacks.
 */
#include "backend/sql/batch.h"

#include "base/findings.h"
#include "base/time.h"

void sb_sql_findings_add_terms(struct sb_findings *findings, bool has_terms, const char *statement)
{
    if (has_terms)
        sb_findings_add(findings, SIMBA_SEVERITY_OK, "table", NULL, "simba_mutex has all columns");
    else
        sb_findings_add(findings, SIMBA_SEVERITY_WARNING, "table", statement,
                        "simba_mutex has no columns term_...: simba status cannot show tokens and "
                        "since when a mutex is held");
}

/* What the driver noted when it connected. */
static void add_table(const struct sb_sql_connection *connection, struct sb_findings *findings)
{
    if (connection->widen_version != NULL)
        sb_findings_add(findings, SIMBA_SEVERITY_WARNING, "version column",
                        connection->widen_version,
                        "32 bits: no fencing token is larger than %llu, and then no term begins",
                        (unsigned long long)connection->version_max);
    if (!connection->has_queue)
        sb_findings_add(findings, SIMBA_SEVERITY_WARNING, "wait queue",
                        "create the table simba_waiter, which simba init --print shows, and let "
                        "the user change it",
                        "none: contenders poll for a release, and not in the order they came");
}

int sb_sql_batch_inspect(struct sb_sql_batch *batch, struct sb_sql_repository *r,
                         struct sb_sql_job *job, struct sb_sql_failure *failure)
{
    const struct simba_request *request = job->request;
    struct sb_findings findings = {.count = 0};
    struct simba_reply reply = SIMBA_REPLY_INIT;
    int code = r->connection->driver->inspect(
        r->connection, sb_later(request->ttl_ms, request->transition_ms), &findings, failure);

    if (code != SIMBA_OK)
        return code;
    add_table(r->connection, &findings);
    reply.findings = findings.list;
    reply.findings_count = findings.count;
    sb_sql_batch_answer(batch, job, &reply);
    return SIMBA_OK;
}
