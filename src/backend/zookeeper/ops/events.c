/*
 * events.c - what the timer, the session and its watches mean to latches and jobs.
 */
#include "backend/zookeeper/ops/ops.h"

#include <string.h>

/* ---- Time ------------------------------------------------------------------------------------ */

struct sweep {
    simba_backend *store;
    int64_t now_ms;
    bool waits; /* a contender waits for its turn */
    bool owns;  /* a contender was told that it owns */
};

/* Removes the watches that an owner had set while it waited. It is done here, later, so that the
 * callback runs first and no hand-over waits for it. If the release comes earlier, the watch fires
 * and is ignored. */
static void sweep_latch(void *argument, struct sb_zk_latch *latch)
{
    struct sweep *sweep = argument;
    bool due = latch->node != SB_ZK_NODE_NONE && latch->withdraw_ms <= sweep->now_ms;

    sweep->waits |= latch->node == SB_ZK_NODE_THERE && !latch->granted;
    if (latch->granted)
        sb_zk_unwatch_self(sweep->store, latch);
    if (due && latch->active == NULL && sweep->store->session.up)
        sb_zk_job_withdraw(sweep->store, latch);
    else if (!due && latch->node != SB_ZK_NODE_NONE)
        sb_zk_wake_at(sweep->store, latch->withdraw_ms);
}

/* Proves regularly that the session is alive, once for all mutexes: rarely, so that the next proof
 * counts in full; often while a contender waits, so that its turn needs no new proof. */
static void keep_proved(simba_backend *store, bool often)
{
    struct sb_zk_session *session = &store->session;
    int64_t interval_ms = often ? sb_zk_session_proof_interval_ms(session)
                                : sb_zk_liveness_interval_ms(&session->liveness);

    if (session->up && simba_now_ms() >= session->synced_ms + interval_ms)
        sb_zk_proof_drop(sb_zk_proof_send(store));
    sb_zk_wake_at(store,
                  session->up ? session->synced_ms + interval_ms : simba_now_ms() + interval_ms);
}

/* The steps of the confirmation, see session.h. Without memory there is none. */
static void keep_confirmed(simba_backend *store)
{
    const struct simba_backend_host *host = store->host;
    struct sb_zk_session *session = &store->session;
    int64_t now_ms = simba_now_ms();
    struct sb_zk_proof *proof;

    if (session->up && now_ms >= session->confirm_ms && session->asked_ms == 0) {
        proof = sb_zk_proof_send(store);
        session->asked_ms = now_ms;
        session->confirm_ms =
            proof != NULL ? now_ms + sb_zk_session_confirm_time_ms(session) : SIMBA_INFINITE;
        sb_zk_proof_drop(proof);
    } else if (session->up && now_ms >= session->confirm_ms) {
        host->log(host, SIMBA_LOG_WARN,
                  "zookeeper: connected again, but the server has not answered for %lld ms",
                  (long long)(now_ms - session->asked_ms));
        sb_zk_session_give_up(session);
    }
    if (session->up)
        sb_zk_wake_at(store, session->confirm_ms);
}

void sb_zk_on_timer(uv_timer_t *timer)
{
    simba_backend *store = timer->data;
    struct sweep sweep = {store, simba_now_ms(), false, false};
    struct sb_zk_job *job = store->jobs;

    store->timer_ms = SIMBA_INFINITE;
    while (job != NULL) {
        bool due = job->deadline_ms <= sweep.now_ms;

        if (due)
            sb_zk_request_expire(job);
        job = due ? store->jobs : job->next; /* an answer may start jobs and end others */
    }
    for (job = store->jobs; job != NULL; job = job->next)
        sb_zk_wake_at(store, job->deadline_ms);
    sb_zk_listings_expire(store, sweep.now_ms);
    sb_zk_latches_each(&store->mutexes, sweep_latch, &sweep);
    keep_confirmed(store);
    keep_proved(store, sweep.waits);
}

/* ---- The session ----------------------------------------------------------------------------- */

/* Does what could not be done meanwhile: deletes nodes that must go, and nodes whose contender was
 * not heard of. */
static void catch_up(void *argument, struct sb_zk_latch *latch)
{
    struct sweep *sweep = argument;

    sweep->owns |= latch->granted && !latch->leaving;
    if (latch->node != SB_ZK_NODE_NONE && latch->active == NULL &&
        (latch->leaving || (latch->abandoned && !latch->granted) ||
         latch->withdraw_ms <= sweep->now_ms))
        sb_zk_job_withdraw(sweep->store, latch);
}

/* Whether it is the first has to be asked again; with on-disconnect=release a term is over. */
static void disconnect(void *argument, struct sb_zk_latch *latch)
{
    const simba_backend *store = argument;

    sb_zk_latch_forget_succession(latch);
    if (store->options.release_on_disconnect && latch->granted)
        latch->leaving = true;
}

static void forget(void *argument, struct sb_zk_latch *latch)
{
    (void)argument;
    sb_zk_latch_forget_node(latch);
    sb_zk_latch_drop(latch);
}

/* What the client wants to have follows from its lease, without the margin that it takes off. */
static void warn_if_short(simba_backend *store)
{
    const struct simba_backend_host *host = store->host;
    int64_t lease_ms = store->options.lease_ms;
    int64_t belief_ms = sb_zk_session_lease_ms(&store->session);

    if (belief_ms < lease_ms - simba_drift_margin_ms(lease_ms))
        host->log(host, SIMBA_LOG_WARN,
                  "zookeeper: the session of %lld ms lets owners believe for %lld ms, not for ttl "
                  "and transition, %lld ms: they renew more often",
                  (long long)store->session.timeout_ms, (long long)belief_ms, (long long)lease_ms);
}

static void on_up(simba_backend *store)
{
    const struct simba_backend_host *host = store->host;
    struct sweep sweep = {store, simba_now_ms(), false, false};

    if (store->session.rewatch)
        sb_zk_watches_lost(store);
    store->session.rewatch = false;
    host->log(host, SIMBA_LOG_INFO, "zookeeper: session 0x%llx, timeout %lld ms",
              (unsigned long long)store->session.id.client_id,
              (long long)store->session.timeout_ms);
    warn_if_short(store);
    if (store->mutexes.count > 0)
        sb_zk_proof_drop(sb_zk_proof_send(store)); /* soon it is known that the handle is of use */
    sb_zk_latches_each(&store->mutexes, catch_up, &sweep);
    if (sweep.owns) {
        sb_zk_session_doubt(&store->session);
        sb_zk_wake_at(store, store->session.confirm_ms);
    }
    host->notice(host, SIMBA_NOTICE_RELEASED, NULL, NULL);
}

static void on_down(simba_backend *store)
{
    const struct simba_backend_host *host = store->host;

    host->log(host, SIMBA_LOG_INFO, "zookeeper: disconnected");
    sb_zk_latches_each(&store->mutexes, disconnect, store);
    if (store->options.release_on_disconnect)
        host->session_lost(host, NULL);
}

/* The nodes of the session are gone or will be; its contenders no longer own. */
static void on_over(simba_backend *store)
{
    const struct simba_backend_host *host = store->host;

    host->log(host, SIMBA_LOG_WARN, "zookeeper: the session is over");
    sb_zk_watches_lost(store);
    sb_zk_latches_each(&store->mutexes, forget, NULL);
    host->session_lost(host, NULL);
}

void sb_zk_on_session(void *user, enum sb_zk_session_event event)
{
    simba_backend *store = user;

    if (event == SB_ZK_UP)
        on_up(store);
    else if (event == SB_ZK_DOWN)
        on_down(store);
    else
        on_over(store);
}

/* ---- Watches --------------------------------------------------------------------------------- */

/* Wakes the contender. It may be the first from now on, so its node is deleted if the contender is
 * not heard of. */
static void wake(simba_backend *store, struct sb_zk_latch *latch, bool deleted)
{
    const struct simba_backend_host *host = store->host;

    latch->watched[0] = '\0';
    latch->first = deleted && latch->second && latch->watches_self;
    latch->second = false;
    if (!latch->granted && latch->node != SB_ZK_NODE_NONE) {
        latch->withdraw_ms = simba_now_ms() + store->session.timeout_ms;
        sb_zk_wake_at(store, latch->withdraw_ms);
    }
    host->notice(host, SIMBA_NOTICE_RELEASED, latch->mutex->name, latch->id);
    if (latch->active != NULL && latch->active->delayed)
        sb_zk_job_answer_nobody(latch->active);
}

static void wake_latches(simba_backend *store, struct sb_zk_mutex *mutex, const char *node,
                         bool deleted)
{
    struct sb_zk_latch *latch = mutex->latches;

    while (latch != NULL) {
        struct sb_zk_latch *next = latch->next;

        if (strcmp(latch->name, node) == 0)
            sb_zk_latch_forget_succession(latch);
        if (strcmp(latch->watched, node) == 0)
            wake(store, latch, deleted);
        latch = next;
    }
}

/* What is remembered of a mutex may be for its owner. */
static void on_property(simba_backend *store, const char *name)
{
    const struct simba_backend_host *host = store->host;
    struct sb_zk_mutex *mutex = sb_zk_mutex_find(&store->mutexes, name);

    if (mutex == NULL || mutex->observers == 0)
        return;
    mutex->property[0] = '\0';
    host->notice(host, SIMBA_NOTICE_CHANGED, name, NULL);
}

void sb_zk_on_watch(void *user, const char *path, bool deleted)
{
    simba_backend *store = user;
    const struct simba_backend_host *host = store->host;
    char name[SIMBA_MUTEX_MAX + 1];
    struct sb_zk_mutex *mutex;
    const char *node;

    if (sb_zk_split_property_path(path, store->options.base, name)) {
        on_property(store, name);
        return;
    }
    if (!sb_zk_split_path(path, store->options.base, name, &node))
        return;
    mutex = sb_zk_mutex_find(&store->mutexes, name);
    if (mutex == NULL)
        return;
    mutex->users++; /* it stays meanwhile */
    if (node[0] != '\0')
        wake_latches(store, mutex, node, deleted);
    if (node[0] == '\0') {
        mutex->watches_children = false;
        mutex->watches_parent = false;
    }
    if (mutex->observers > 0 && strcmp(mutex->watched, node) == 0) {
        mutex->watched[0] = '\0';
        host->notice(host, SIMBA_NOTICE_CHANGED, name, NULL);
    }
    mutex->users--;
    sb_zk_mutex_drop(&store->mutexes, mutex);
}
