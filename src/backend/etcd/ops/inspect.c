/*
 * inspect.c - INSPECT: what the member that the client is connected to tells of itself, and what
 * that means to leases. ENVIRONMENT: what a command is told of its key.
 */
#include "backend/etcd/ops/ops.h"

#include "base/findings.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TTL_MIN_MS 2000

static void add_lease(const simba_backend *store, struct sb_findings *findings)
{
    int64_t asked_ms = store->options.lease_ms;
    int64_t lease_ms = asked_ms < TTL_MIN_MS ? TTL_MIN_MS : (asked_ms + 999) / 1000 * 1000;

    if (lease_ms == asked_ms)
        sb_findings_add(findings, SIMBA_SEVERITY_OK, "lease", NULL, "%" PRId64 " ms, as asked for",
                        asked_ms);
    else
        sb_findings_add(findings, SIMBA_SEVERITY_OK, "lease", NULL,
                        "%" PRId64 " ms were asked for; etcd counts whole seconds, from 2 on: a "
                        "dead owner is replaced after %" PRId64 " ms",
                        asked_ms, lease_ms);
}

/* A leader that stood still revokes leases that its successor has renewed: until 3.4.31 and 3.5.13.
 * A single server has no successor. */
static bool revokes_late(const simba_backend *store, const char *version)
{
    int major = 0;
    int minor = 0;
    int patch = 0;

    if (store->options.place_count < 2 ||
        sscanf(version, "%d.%d.%d", &major, &minor, &patch) != 3 || major != 3)
        return false;
    return minor < 4 || (minor == 4 && patch < 31) || (minor == 5 && patch < 13);
}

static void add_member(const simba_backend *store, const Etcd__StatusAnswer *status,
                       struct sb_findings *findings)
{
    if (revokes_late(store, status->version))
        sb_findings_add(findings, SIMBA_SEVERITY_WARNING, "version",
                        "use 3.4.31, 3.5.13 or later for a cluster",
                        "etcd %.40s: a leader that stood still ends leases that the next one has "
                        "renewed, and two may own for a lease",
                        status->version);
    else
        sb_findings_add(findings, SIMBA_SEVERITY_OK, "version", NULL, "etcd %.40s",
                        status->version);
    if (status->leader == 0)
        sb_findings_add(findings, SIMBA_SEVERITY_PROBLEM, "leader",
                        "look at etcdctl endpoint status for the members",
                        "this member knows no leader: no lease is granted or renewed");
    for (size_t i = 0; i < status->n_errors; i++)
        sb_findings_add(findings, SIMBA_SEVERITY_PROBLEM, "alarm",
                        strstr(status->errors[i], "NOSPACE") != NULL
                            ? "compact and defragment it, then run etcdctl alarm disarm"
                            : "look at etcdctl alarm list",
                        "the server reports: %.120s", status->errors[i]);
}

static void on_status(struct sb_etcd_job *job)
{
    Etcd__StatusAnswer *status = sb_etcd_call_unpack(job->call, &etcd__status_answer__descriptor);
    const struct sb_etcd_options *o = &job->store->options;
    struct sb_findings findings = {.count = 0};
    struct simba_reply reply = SIMBA_REPLY_INIT;

    if (status == NULL) {
        sb_etcd_job_fail_nonsense(job);
        return;
    }
    sb_findings_add_tls(&findings,
                        !o->tls           ? SB_TLS_NONE
                        : o->trust.verify ? SB_TLS_VERIFIED
                                          : SB_TLS_UNVERIFIED,
                        o->places[0].host, "write etcds:// without tls-verify=no");
    add_member(job->store, status, &findings);
    add_lease(job->store, &findings);
    sb_etcd_free_message(status);
    reply.findings = findings.list;
    reply.findings_count = findings.count;
    sb_etcd_job_answer(job, &reply);
}

void sb_etcd_inspect_start(simba_backend *store, struct simba_request *request)
{
    struct sb_etcd_job *job = sb_etcd_job_for(store, request, NULL, NULL, 0);
    Etcd__Status message = ETCD__STATUS__INIT;

    if (job != NULL)
        sb_etcd_job_call(job, "/etcdserverpb.Maintenance/Status", &message.base, on_status);
}

/* ---- The environment of a command ------------------------------------------------------------ */

void sb_etcd_environment_answer(simba_backend *store, struct simba_request *request)
{
    const struct sb_etcd_mutex *mutex = sb_etcd_mutex_find(&store->mutexes, request->mutex);
    const struct sb_etcd_latch *latch =
        mutex != NULL ? sb_etcd_latch_find(mutex, request->id) : NULL;
    char words[SB_ETCD_KEY_SIZE + 64] = "";
    struct simba_reply reply = SIMBA_REPLY_INIT;
    char key[SB_ETCD_KEY_SIZE];

    if (latch != NULL && latch->granted && latch->lease->id != 0) {
        sb_etcd_latch_key(key, latch);
        snprintf(words, sizeof words, "ETCD_LOCK_KEY=%s%cETCD_LOCK_REV=%" PRIu64 "%c", key, 0,
                 latch->fence, 0);
    }
    reply.environment = words;
    store->host->reply(store->host, request, &reply);
}
