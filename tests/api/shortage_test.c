/*
 * Answers that name another owner while there is no memory to remember it, from a store of the
 * test's own.
 */
#include "lib/shortage.h"
#include "probe.h"

#include <string.h>

/* ---- The store ------------------------------------------------------------------------------- */

static struct {
    const struct simba_backend_host *host;
    _Atomic int taken; /* the request that is told of another owner, without memory */
    atomic_uint told;  /* how often */
} store;

static void answer(struct simba_request *request)
{
    struct simba_reply reply = SIMBA_REPLY_INIT;
    bool taken = (int)request->op == atomic_load(&store.taken);

    if (request->op != SIMBA_OP_RELEASE || taken) {
        reply.owner = taken ? "somebody-else" : request->id;
        reply.ttl_left_ms = request->ttl_ms;
        reply.transition_left_ms = request->ttl_ms + request->transition_ms;
        reply.revision = 1;
    }
    test_is_short = taken;
    store.host->reply(store.host, request, &reply);
    test_is_short = false;
    if (taken)
        atomic_fetch_add(&store.told, 1);
}

static void short_submit(simba_backend *backend, struct simba_request *batch)
{
    (void)backend;
    while (batch != NULL) {
        struct simba_request *next = batch->next;

        answer(batch);
        batch = next;
    }
}

static bool short_serves(const char *scheme)
{
    return strcmp(scheme, "short") == 0;
}

static int short_open(const struct simba_backend_config *config,
                      const struct simba_backend_host *host, simba_backend **ret_backend,
                      struct simba_error *error)
{
    (void)config;
    (void)error;
    store.host = host;
    atomic_store(&store.taken, SIMBA_OP_NONE);
    atomic_store(&store.told, 0);
    *ret_backend = (simba_backend *)&store;
    return SIMBA_OK;
}

static void short_close(simba_backend *backend, void (*closed)(void *argument), void *argument)
{
    (void)backend;
    closed(argument);
}

static const struct simba_backend_ops ops = {
    .abi = SIMBA_BACKEND_ABI,
    .name = "short",
    .serves = short_serves,
    .open = short_open,
    .submit = short_submit,
    .close = short_close,
};

/* ---- Tests ----------------------------------------------------------------------------------- */

static void a_release_needs_no_name_of_the_next_owner(void **state)
{
    simba_client *client = probe_open("short:?ttl=10m&transition=10m&stop-timeout=2s");
    struct probe p = {0};

    probe_create(&p, client, "m", NULL);
    probe_start(&p);
    probe_wait_count(&p.acquired, 1);
    atomic_store(&store.taken, SIMBA_OP_RELEASE);
    assert_int_equal(simba_contender_stop(p.contender, NULL), SIMBA_OK);
    assert_int_equal(atomic_load(&store.told), 1);
    probe_end(&p);
    probe_close(client);
}

static void a_loss_needs_no_name_of_the_next_owner(void **state)
{
    simba_client *client = probe_open("short:?ttl=50ms&transition=10m&stop-timeout=2s");
    struct probe p = {0};

    probe_create(&p, client, "m", NULL);
    atomic_store(&store.taken, SIMBA_OP_GUARD);
    probe_start(&p);
    probe_wait_count(&p.released, 1);
    atomic_store(&store.taken, SIMBA_OP_NONE);
    probe_end(&p);
    probe_close(client);
}

struct log {
    atomic_uint lines;
};

static void take_line(void *user, enum simba_log_level level, const char *text)
{
    struct log *log = user;

    if (level == SIMBA_LOG_WARN && strstr(text, "cannot acquire") != NULL)
        atomic_fetch_add(&log->lines, 1);
}

static void an_attempt_that_fails_for_want_of_a_name_is_told(void **state)
{
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    simba_client *client = NULL;
    struct log log = {0};
    struct probe p = {0};

    options.log = take_line;
    options.log_user = &log;
    assert_int_equal(simba_client_open("short:", &options, &client, NULL), SIMBA_OK);
    atomic_store(&store.taken, SIMBA_OP_ACQUIRE);
    probe_create(&p, client, "m", NULL);
    probe_start(&p);
    probe_wait_count(&store.told, 1);
    probe_wait_count(&log.lines, 1);
    assert_int_equal(simba_contender_last_error(p.contender, NULL), SIMBA_ENOMEM);
    atomic_store(&store.taken, SIMBA_OP_NONE);
    probe_wait_count(&p.acquired, 1);
    probe_end(&p);
    probe_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_release_needs_no_name_of_the_next_owner),
        cmocka_unit_test(a_loss_needs_no_name_of_the_next_owner),
        cmocka_unit_test(an_attempt_that_fails_for_want_of_a_name_is_told),
    };

    if (!test_shortage_install() || simba_backend_register(&ops, NULL) != SIMBA_OK)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
