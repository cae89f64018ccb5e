/*
 * probe.c - see probe.h.
 */
#include "probe.h"

/* ---- Clients --------------------------------------------------------------------------------- */

simba_client *probe_open_with(const char *url, const struct simba_client_options *options)
{
    struct simba_error error = {0};
    simba_client *client = NULL;

    if (simba_client_open(url, options, &client, &error) != SIMBA_OK)
        fail_msg("cannot open %s: %s", url, error.text);
    return client;
}

simba_client *probe_open(const char *url)
{
    return probe_open_with(url, NULL);
}

void probe_close(simba_client *client)
{
    struct simba_error error = {0};

    if (simba_client_close(client, &error) != SIMBA_OK)
        fail_msg("cannot close the client: %s", error.text);
}

void probe_sqlite_url(char *buffer, size_t size, const char *folder, const char *parameters)
{
    if (simba_backend_find("sqlite") == NULL)
        skip();
    snprintf(buffer, size, "sqlite:%s/db?%s", folder, parameters);
}

/* ---- Gates ----------------------------------------------------------------------------------- */

void gate_open(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->open = true;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

void gate_wait(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    while (!gate->open)
        pthread_cond_wait(&gate->changed, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
}

/* ---- A contender that is watched ------------------------------------------------------------- */

static void enter(struct probe *p)
{
    if (atomic_fetch_add(&p->running, 1) != 0)
        atomic_fetch_add(&p->disorder, 1);
}

static void leave(struct probe *p)
{
    atomic_fetch_sub(&p->running, 1);
}

static void on_acquired(void *user, const struct simba_state *state)
{
    struct probe *p = user;

    enter(p);
    if (atomic_load(&p->acquired) != atomic_load(&p->released))
        atomic_fetch_add(&p->disorder, 1);
    atomic_store(&p->fence, state->after.fence);
    atomic_fetch_add(&p->acquired, 1);
    if (p->in_acquired != NULL)
        p->in_acquired(p);
    leave(p);
    atomic_fetch_add(&p->returned, 1);
}

static void on_released(void *user, const struct simba_state *state)
{
    struct probe *p = user;

    enter(p);
    if (atomic_load(&p->acquired) != atomic_load(&p->released) + 1)
        atomic_fetch_add(&p->disorder, 1);
    atomic_fetch_add(&p->released, 1);
    if (p->in_released != NULL)
        p->in_released(p);
    leave(p);
    atomic_fetch_add(&p->returned, 1);
}

static void on_notify(void *user, const struct simba_state *state)
{
    struct probe *p = user;

    enter(p);
    /* Changes that wait are told as one: an owner may have released, and own again in a new
     * term. */
    if (!simba_state_is_changed(state) && state->before.fence == state->after.fence)
        atomic_fetch_add(&p->disorder, 1);
    atomic_fetch_add(&p->notified, 1);
    if (p->in_notify != NULL)
        p->in_notify(p);
    leave(p);
}

void probe_create(struct probe *p, simba_client *client, const char *mutex, const char *id)
{
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    struct simba_error error = {0};

    options.mutex = mutex;
    options.id = id;
    options.on_acquired = on_acquired;
    options.on_released = on_released;
    options.on_notify = on_notify;
    options.user = p;
    if (simba_contender_create(client, &options, &p->contender, &error) != SIMBA_OK)
        fail_msg("cannot create a contender: %s", error.text);
}

void probe_start(struct probe *p)
{
    struct simba_error error = {0};

    if (simba_contender_start(p->contender, &error) != SIMBA_OK)
        fail_msg("cannot start: %s", error.text);
}

void probe_stop(struct probe *p)
{
    struct simba_error error = {0};

    if (simba_contender_stop(p->contender, &error) != SIMBA_OK)
        fail_msg("cannot stop: %s", error.text);
}

void probe_end(struct probe *p)
{
    simba_contender_close(p->contender);
    p->contender = NULL;
    assert_int_equal(atomic_load(&p->disorder), 0);
}

/* ---- Waiting --------------------------------------------------------------------------------- */

static bool is_owner(void *contender)
{
    return simba_contender_is_owner(contender);
}

void probe_wait_owner(struct probe *p)
{
    if (!test_wait(is_owner, p->contender))
        fail_msg("%s does not become the owner", simba_contender_id(p->contender));
}

struct count {
    atomic_uint *counter;
    unsigned least;
};

static bool has_count(void *user)
{
    const struct count *count = user;

    return atomic_load(count->counter) >= count->least;
}

void probe_wait_count(atomic_uint *counter, unsigned least)
{
    struct count count = {counter, least};

    if (!test_wait(has_count, &count))
        fail_msg("a counter stays at %u, %u were expected", atomic_load(counter), least);
}

struct expected_status {
    const simba_contender *contender;
    enum simba_status status;
};

static bool has_status(void *user)
{
    const struct expected_status *expected = user;

    return simba_contender_status(expected->contender) == expected->status;
}

void probe_wait_status(const simba_contender *contender, enum simba_status status)
{
    struct expected_status expected = {contender, status};

    if (!test_wait(has_status, &expected))
        fail_msg("a contender does not become %s", simba_status_name(status));
}

bool probe_is_free(simba_client *client, const char *mutex)
{
    struct simba_mutex_status *list = NULL;
    struct simba_error error = {0};
    size_t count = 0;
    bool is_free;

    if (simba_client_status(client, mutex, TEST_PATIENCE_MS, &list, &count, &error) != SIMBA_OK)
        fail_msg("no status: %s", error.text);
    assert_int_equal(count, 1);
    is_free = list[0].owner.id[0] == '\0';
    simba_free(list);
    return is_free;
}

struct place {
    simba_client *client;
    const char *mutex;
};

static bool place_is_free(void *user)
{
    const struct place *place = user;

    return probe_is_free(place->client, place->mutex);
}

void probe_wait_free(simba_client *client, const char *mutex)
{
    struct place place = {client, mutex};

    if (!test_wait(place_is_free, &place))
        fail_msg("'%s' does not become free", mutex);
}

void probe_assert_names(const char *text, const char *word)
{
    if (strstr(text, word) == NULL)
        fail_msg("'%s' does not name '%s'", text, word);
}

/* ---- The process ----------------------------------------------------------------------------- */

bool probe_is_slowed(void)
{
    const char *preload = getenv("LD_PRELOAD");

    return PROBE_SANITIZED || (preload != NULL && strstr(preload, "vgpreload") != NULL);
}
