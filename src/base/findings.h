/*
 * findings.h - the findings of an inspection, as a store collects them.
 */
#ifndef SB_BASE_FINDINGS_H
#define SB_BASE_FINDINGS_H

#include "base/shared.h"

#include <simba/simba.h>

#define SB_FINDINGS_MAX 24

struct sb_findings {
    struct simba_finding list[SB_FINDINGS_MAX];
    size_t count;
};

/* Adds one; behind the last nothing is added. `advice` NULL: none. */
void sb_findings_add(struct sb_findings *findings, enum simba_severity severity,
                     const char *subject, const char *advice, const char *format, ...)
    SB_SHARED("findings_add") SIMBA_PRINTF(5, 6);

enum sb_tls_state { SB_TLS_NONE, SB_TLS_UNVERIFIED, SB_TLS_VERIFIED };

/* Adds how the connection is protected. `host` is a name or an address; NULL, "" and a path are a
 * socket of this host. `option` turns verified TLS on: "tls=on". */
void sb_findings_add_tls(struct sb_findings *findings, enum sb_tls_state state, const char *host,
                         const char *option) SB_SHARED("findings_add_tls");

/* Adds what replicas mean to leases. `kept`: a lease counts only when a replica has it; `advice`
 * says how to have that. */
void sb_findings_add_replicas(struct sb_findings *findings, unsigned long replicas, bool kept,
                              const char *advice) SB_SHARED("findings_add_replicas");

#endif
