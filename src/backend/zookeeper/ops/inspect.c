/*
 * inspect.c - INSPECT: what the session that the ensemble has granted means to leases. Nothing is
 * asked: of the ensemble itself a client is told nothing.
 */
#include "backend/zookeeper/ops/ops.h"

#include "base/findings.h"

#include <string.h>

static void add_session(const simba_backend *store, struct sb_findings *findings)
{
    long long asked_ms = (long long)store->options.session_timeout_ms;
    long long granted_ms = (long long)store->session.liveness.timeout_ms;

    if (granted_ms == asked_ms)
        sb_findings_add(findings, SIMBA_SEVERITY_OK, "session", NULL, "%lld ms, as asked for",
                        granted_ms);
    else
        sb_findings_add(findings, SIMBA_SEVERITY_WARNING, "session",
                        granted_ms < asked_ms
                            ? "raise maxSessionTimeout on the servers, or ask for a shorter lease"
                            : "lower tickTime or minSessionTimeout on the servers, or ask for a "
                              "longer lease",
                        "%lld ms, and %lld ms were asked for: %s", granted_ms, asked_ms,
                        granted_ms < asked_ms ? "an outage ends terms earlier"
                                              : "a dead owner is replaced later");
}

/* Of the first host: the address without its port. */
static void add_tls(const simba_backend *store, struct sb_findings *findings)
{
    char host[256];
    size_t length = strcspn(store->options.hosts, ",");

    while (length > 0 && store->options.hosts[length] != ':')
        length--;
    snprintf(host, sizeof host, "%.*s", (int)length, store->options.hosts);
    sb_findings_add_tls(findings, store->options.tls != NULL ? SB_TLS_VERIFIED : SB_TLS_NONE, host,
                        "write zookeepers://");
}

void sb_zk_inspect(simba_backend *store, struct simba_request *request)
{
    struct sb_findings findings = {.count = 0};
    struct simba_reply reply = SIMBA_REPLY_INIT;

    add_tls(store, &findings);
    add_session(store, &findings);
    reply.findings = findings.list;
    reply.findings_count = findings.count;
    store->host->reply(store->host, request, &reply);
}
