/*
 * zookeeper.c - the backend's operations, the life of a client, and what its session means to its latches.
 */
#include "backend/zookeeper/zookeeper.h"

#include "backend/zookeeper/inquiry.h"
#include "backend/zookeeper/job.h"
#include "base/alloc.h"
#include "base/error.h"

/* ---- Time ----------------------------------------------------------------------------------- */

static void on_timer(uv_timer_t *timer);

/* Earlier than needed does no harm: the sweep looks what is due. */
void sb_zk_store_wake_at(simba_backend *store, int64_t at_ms)
{
    int64_t delay_ms;

    if (at_ms >= store->timer_ms)
        return;
    store->timer_ms = at_ms;
    delay_ms = at_ms - simba_now_ms();
    uv_update_time(store->host->loop);
    uv_timer_start(&store->timer, on_timer, (uint64_t)(delay_ms > 0 ? delay_ms : 0), 0);
}

/* Answers may start jobs and end others; so the list is looked at again after each. */
static struct sb_zk_job *next_due(const simba_backend *store, int64_t now_ms)
{
    for (struct sb_zk_job *job = store->jobs; job != NULL; job = job->next)
        if (job->deadline_ms <= now_ms)
            return job;
    return NULL;
}

struct sweep {
    simba_backend *store;
    int64_t now_ms;
    bool waits; /* somebody waits for its turn */
};

/* What an owner watched for its turn is taken back here, so that its callback goes first and not each hand-over costs a
 * sweep. Where the release comes before, the watch fires and tells nobody. */
static void sweep_latch(void *argument, struct sb_zk_latch *latch)
{
    struct sweep *sweep = argument;
    bool due = latch->node != SB_ZK_NODE_NONE && latch->withdraw_ms <= sweep->now_ms;

    sweep->waits |= latch->node == SB_ZK_NODE_THERE && !latch->granted;
    if (latch->granted)
        sb_zk_watch_self(sweep->store, latch);
    if (due && latch->active == NULL && sweep->store->session.up)
        sb_zk_job_withdraw(sweep->store, latch);
    else if (!due && latch->node != SB_ZK_NODE_NONE)
        sb_zk_store_wake_at(sweep->store, latch->withdraw_ms);
}

/* The session is proved again and again: seldom, so that the next proof counts in full; and often while somebody waits,
 * so that no proof has to be waited for when its turn comes. One serves all mutexes. */
static void beat(simba_backend *store, bool often)
{
    struct sb_zk_session *session = &store->session;
    int64_t beat_ms =
        often ? sb_zk_session_beat_ms(session) : sb_zk_liveness_interval_ms(&session->liveness);

    if (session->up && simba_now_ms() >= session->synced_ms + beat_ms)
        sb_zk_store_prove(store);
    sb_zk_store_wake_at(store,
                        session->up ? session->synced_ms + beat_ms : simba_now_ms() + beat_ms);
}

static void on_timer(uv_timer_t *timer)
{
    simba_backend *store = timer->data;
    struct sweep sweep = {store, simba_now_ms(), false};
    struct sb_zk_job *job;

    store->timer_ms = SIMBA_INFINITE;
    while ((job = next_due(store, sweep.now_ms)) != NULL)
        sb_zk_job_expire(job);
    for (job = store->jobs; job != NULL; job = job->next)
        sb_zk_store_wake_at(store, job->deadline_ms);
    sb_zk_inquiries_expire(store, sweep.now_ms);
    sb_zk_latches_each(&store->places, sweep_latch, &sweep);
    beat(store, sweep.waits);
}

/* ---- The session ---------------------------------------------------------------------------- */

/* Whatever could not be done meanwhile: nodes that must go, and those that nobody was heard of. */
static void catch_up(void *argument, struct sb_zk_latch *latch)
{
    const struct sweep *sweep = argument;

    if (latch->node != SB_ZK_NODE_NONE && latch->active == NULL &&
        (latch->leaving || (latch->abandoned && !latch->granted) ||
         latch->withdraw_ms <= sweep->now_ms))
        sb_zk_job_withdraw(sweep->store, latch);
}

static void let_go(void *argument, struct sb_zk_latch *latch)
{
    (void)argument;
    if (latch->granted)
        latch->leaving = true;
}

static void forget_turn(void *argument, struct sb_zk_latch *latch)
{
    (void)argument;
    sb_zk_latch_forget_turn(latch);
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
    struct sweep sweep = {store, simba_now_ms(), false};

    if (store->session.rewatch)
        sb_zk_watches_lost(store);
    store->session.rewatch = false;
    host->log(host, SIMBA_LOG_INFO, "zookeeper: session 0x%llx, timeout %lld ms",
              (unsigned long long)store->session.id.client_id,
              (long long)store->session.timeout_ms);
    warn_if_short(store);
    if (store->places.count > 0)
        sb_zk_store_prove(store); /* soon it is known that the line is of use */
    sb_zk_latches_each(&store->places, catch_up, &sweep);
    host->notice(host, SIMBA_NOTICE_RELEASED, NULL, NULL);
}

static void on_down(simba_backend *store)
{
    const struct simba_backend_host *host = store->host;

    host->log(host, SIMBA_LOG_INFO, "zookeeper: disconnected");
    sb_zk_latches_each(&store->places, forget_turn, NULL);
    if (!store->options.let_go)
        return;
    sb_zk_latches_each(&store->places, let_go, NULL);
    host->session_lost(host, NULL);
}

/* Its nodes are gone or going; what they held is not held any more. */
static void on_over(simba_backend *store)
{
    const struct simba_backend_host *host = store->host;

    host->log(host, SIMBA_LOG_WARN, "zookeeper: the session is over");
    sb_zk_watches_lost(store);
    sb_zk_latches_each(&store->places, forget, NULL);
    host->session_lost(host, NULL);
}

static void on_news(void *user, enum sb_zk_news news)
{
    simba_backend *store = user;

    if (news == SB_ZK_UP)
        on_up(store);
    else if (news == SB_ZK_DOWN)
        on_down(store);
    else
        on_over(store);
}

static void on_watched(void *user, const char *path, bool deleted)
{
    sb_zk_watch_fired(user, path, deleted);
}

/* ---- Opening -------------------------------------------------------------------------------- */

static void free_store(simba_backend *store)
{
    sb_zk_places_free(&store->places);
    sb_zk_options_free(&store->options);
    sb_free(store);
}

static int open_store(simba_backend *store, const struct simba_backend_config *config,
                      struct simba_error *error)
{
    int code = sb_zk_options_read(&store->options, config, error);

    if (code == SIMBA_OK && sb_zk_places_init(&store->places) != SIMBA_OK)
        code = sb_error_plain(error, SIMBA_ENOMEM);
    if (code != SIMBA_OK)
        return code;
    store->timer_ms = SIMBA_INFINITE;
    store->session.host = store->host;
    store->session.options = &store->options;
    store->session.user = store;
    store->session.tell = on_news;
    store->session.watched = on_watched;
    code = sb_zk_session_open(&store->session, error);
    if (code != SIMBA_OK)
        return code;
    uv_timer_init(store->host->loop, &store->timer);
    store->timer.data = store;
    beat(store, false);
    return SIMBA_OK;
}

static int open_client(const struct simba_backend_config *config,
                       const struct simba_backend_host *host, simba_backend **ret_backend,
                       struct simba_error *error)
{
    simba_backend *store = sb_alloc_zero(sizeof *store);
    int code;

    if (store == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    store->host = host;
    code = open_store(store, config, error);
    if (code != SIMBA_OK) {
        free_store(store);
        return code;
    }
    *ret_backend = store;
    return SIMBA_OK;
}

/* ---- Use ------------------------------------------------------------------------------------ */

static void submit(simba_backend *store, struct simba_request *batch)
{
    store->taking = true;
    while (batch != NULL) {
        struct simba_request *next = batch->next; /* the request may be gone once it is started */

        if (batch->op == SIMBA_OP_LIST)
            sb_zk_list_start(store, batch);
        else if (batch->op == SIMBA_OP_QUEUE)
            sb_zk_queue_start(store, batch);
        else
            sb_zk_job_start(store, batch, NULL, NULL);
        batch = next;
    }
    store->taking = false;
    sb_zk_proof_drop(store->proof);
    store->proof = NULL;
}

static void listen_contender(simba_backend *store, struct sb_zk_place *place, const char *id,
                             bool on)
{
    struct sb_zk_latch *latch = on ? sb_zk_latch_ensure(place, id) : sb_zk_latch_find(place, id);

    if (latch == NULL)
        return; /* without memory: it is woken all the same, and withdrawn when it is silent */
    latch->listening = on;
    latch->abandoned = !on;
    if (on || latch->active != NULL)
        return;
    if (latch->node != SB_ZK_NODE_NONE && !latch->granted && store->session.up)
        sb_zk_job_withdraw(store, latch);
    else
        sb_zk_latch_drop(latch);
}

static void listen_observer(simba_backend *store, struct sb_zk_place *place, bool on)
{
    if (on)
        place->observers++;
    else if (place->observers > 0 && --place->observers == 0)
        sb_zk_watch_observers(store, place);
}

static void listen_to(simba_backend *store, const char *mutex, const char *id, bool on)
{
    struct sb_zk_place *place =
        on ? sb_zk_place_ensure(&store->places, mutex) : sb_zk_place_find(&store->places, mutex);

    if (place == NULL)
        return;
    place->jobs++; /* it stays meanwhile */
    if (id != NULL)
        listen_contender(store, place, id, on);
    else
        listen_observer(store, place, on);
    place->jobs--;
    sb_zk_place_drop(&store->places, place);
}

/* ---- Closing -------------------------------------------------------------------------------- */

static void finish_close(void *user)
{
    simba_backend *store = user;
    void (*closed)(void *argument) = store->closed;
    void *argument = store->argument;

    free_store(store);
    closed(argument);
}

static void on_timer_closed(uv_handle_t *handle)
{
    simba_backend *store = handle->data;

    sb_zk_session_close(&store->session, finish_close);
}

static void close_client(simba_backend *store, void (*closed)(void *argument), void *argument)
{
    store->closed = closed;
    store->argument = argument;
    uv_close((uv_handle_t *)&store->timer, on_timer_closed);
}

static int check_names(simba_backend *store, const char *mutex, const char *id,
                       struct simba_error *error)
{
    (void)store;
    (void)id;
    return sb_zk_check_mutex(mutex, error);
}

static const struct simba_backend_ops ops = {
    .size = sizeof(struct simba_backend_ops),
    .name = "zookeeper",
    .serves = sb_zk_serves,
    .open = open_client,
    .submit = submit,
    .listen = listen_to,
    .close = close_client,
    .options = sb_zk_option_table,
    .has_queue = true,
    .has_sessions = true,
    .check_names = check_names,
};

const struct sb_module sb_zookeeper_module = {SB_MODULE_LIBRARY, &ops, NULL};
