/*
 * findings.c - the findings of an inspection, as a store collects them.
 */
#include "base/findings.h"

#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

void sb_findings_add(struct sb_findings *findings, enum simba_severity severity,
                     const char *subject, const char *advice, const char *format, ...)
{
    struct simba_finding *finding;
    va_list arguments;

    if (findings->count == SB_FINDINGS_MAX)
        return;
    finding = &findings->list[findings->count++];
    finding->severity = severity;
    sb_text_copy(finding->subject, sizeof finding->subject, subject);
    sb_text_copy(finding->advice, sizeof finding->advice, advice != NULL ? advice : "");
    va_start(arguments, format);
    vsnprintf(finding->text, sizeof finding->text, format, arguments);
    va_end(arguments);
}

static bool is_this_host(const char *host)
{
    return host == NULL || host[0] == '\0' || host[0] == '/' ||
           strcasecmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
           strcmp(host, "::1") == 0;
}

void sb_findings_add_tls(struct sb_findings *findings, enum sb_tls_state state, const char *host,
                         const char *option)
{
    char advice[128];
    struct sb_text text;

    sb_text_init(&text, advice, sizeof advice);
    sb_text_add(&text, "%s, with a certificate that names the server", option);
    if (state == SB_TLS_VERIFIED)
        sb_findings_add(findings, SIMBA_SEVERITY_OK, "tls", NULL,
                        "on, and the server's certificate is verified");
    else if (is_this_host(host))
        sb_findings_add(findings, SIMBA_SEVERITY_OK, "tls", NULL, "%s, to a server on this host",
                        state == SB_TLS_NONE ? "off" : "on");
    else if (state == SB_TLS_UNVERIFIED)
        sb_findings_add(findings, SIMBA_SEVERITY_WARNING, "tls", advice,
                        "on, but the certificate of %.120s is not verified", host);
    else
        sb_findings_add(findings, SIMBA_SEVERITY_WARNING, "tls", advice,
                        "off, and %.120s is another host: who is in between reads the password",
                        host);
}

void sb_findings_add_replicas(struct sb_findings *findings, unsigned long replicas, bool kept,
                              const char *advice)
{
    if (replicas == 0)
        sb_findings_add(findings, SIMBA_SEVERITY_OK, "replication", NULL, "no replica is seen");
    else if (kept)
        sb_findings_add(findings, SIMBA_SEVERITY_OK, "replication", NULL,
                        "%lu replica(s), synchronous", replicas);
    else
        sb_findings_add(findings, SIMBA_SEVERITY_WARNING, "replication", advice,
                        "%lu asynchronous replica(s): after a fail-over one may lack the newest "
                        "leases, and a mutex can get two owners",
                        replicas);
}
