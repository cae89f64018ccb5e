/*
 * client.c - opens and closes a client, and checks the times that it is given. Owns the count of
 * the objects made from a client; must not know what they do.
 */
#include "api/client.h"

#include "backend/module.h"
#include "backend/registry.h"
#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/options.h"
#include "base/time.h"
#include "base/text.h"
#include "base/url.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#define DEFAULT_TTL_MS 10000
#define DEFAULT_TRANSITION_MS 6000
#define DEFAULT_JITTER_MIN_MS (-200)
#define DEFAULT_JITTER_MAX_MS 1000
#define JITTER_LEAST_MS (-1000) /* earlier ones would ask the store again and again */
#define DEFAULT_STOP_TIMEOUT_MS 10000
#define DEFAULT_TURN_MS 5
#define RESERVE_TURNS 10 /* of a reservation: a message to the waiter, and its request */
#define RESERVE_MAX_MS 1000
#define DEFAULT_DISPATCHER_THREADS 4
#define DISPATCHER_THREADS_MAX 1024
#define LONGEST_MS ((int64_t)366 * 24 * 3600 * 1000) /* no duration may be longer than a year */

/* Inside an id generator, whose client is in use. */
static _Thread_local bool makes_id;

/* ---- Times ----------------------------------------------------------------------------------- */

#define AT(member) offsetof(struct sb_timing, member)
#define ANY INT64_MIN, 0 /* checked afterwards: the program's options go before the URL's */
#define NOT_READ_HERE 1U

const struct sb_url_option sb_client_url_options[] = {
    SB_URL_OPTION(DURATION, "ttl", NULL, AT(ttl_ms), DEFAULT_TTL_MS, ANY, 0),
    SB_URL_OPTION(DURATION, "transition", NULL, AT(transition_ms), DEFAULT_TRANSITION_MS, ANY, 0),
    SB_URL_OPTION(DURATION, "initial-delay", NULL, AT(initial_delay_ms), 0, ANY, 0),
    SB_URL_OPTION(DURATION, "stop-timeout", NULL, AT(stop_timeout_ms), DEFAULT_STOP_TIMEOUT_MS, ANY,
                  0),
    SB_URL_OPTION(RANGE, "jitter", NULL, AT(jitter_min_ms), 0, ANY, 0),
    SB_URL_OPTION(DURATION, "turn", NULL, AT(turn_ms), DEFAULT_TURN_MS, ANY, 0),
    SB_URL_OPTION(SWITCH, "fair", "yes no", AT(fair), true, ANY, 0),
    SB_URL_OPTION(TEXT, "user", NULL, 0, 0, ANY, NOT_READ_HERE),
    SB_URL_OPTION(TEXT, "password", NULL, 0, 0, ANY, NOT_READ_HERE),
    SB_URL_OPTIONS_END,
};

_Static_assert(offsetof(struct sb_timing, jitter_max_ms) ==
                   offsetof(struct sb_timing, jitter_min_ms) + sizeof(int64_t),
               "a range fills both ends");

static int check_range(const char *name, int64_t value_ms, int64_t least_ms,
                       struct simba_error *error)
{
    char value[32];
    char least[32];

    if (value_ms >= least_ms && value_ms <= LONGEST_MS)
        return SIMBA_OK;
    return sb_error_set(error, SIMBA_EINVAL, "%s is %s; it must be between %s and a year", name,
                        simba_duration_format(value_ms, value, sizeof value),
                        simba_duration_format(least_ms, least, sizeof least));
}

/* Whether a lease of these two parts can be kept. */
static int check_lease(int64_t ttl_ms, int64_t transition_ms, struct simba_error *error)
{
    char ttl[32];
    char transition[32];
    char least[32];
    int64_t least_ms;
    int code = check_range("ttl", ttl_ms, 1, error);

    if (code == SIMBA_OK)
        code = check_range("transition", transition_ms, 0, error);
    if (code != SIMBA_OK)
        return code;
    least_ms = 2 * simba_drift_margin_ms(ttl_ms + transition_ms);
    if (transition_ms >= least_ms)
        return SIMBA_OK;
    return sb_error_set(error, SIMBA_EINVAL,
                        "transition %s is too short beside ttl %s: the owner must be able to renew "
                        "in it, which takes twice the drift margin, here %s",
                        simba_duration_format(transition_ms, transition, sizeof transition),
                        simba_duration_format(ttl_ms, ttl, sizeof ttl),
                        simba_duration_format(least_ms, least, sizeof least));
}

static int check_timing(const struct sb_timing *t, struct simba_error *error)
{
    int code = check_lease(t->ttl_ms, t->transition_ms, error);

    if (code == SIMBA_OK)
        code = check_range("initial-delay", t->initial_delay_ms, 0, error);
    if (code == SIMBA_OK)
        code = check_range("stop-timeout", t->stop_timeout_ms, 1, error);
    if (code == SIMBA_OK)
        code = check_range("the lower end of jitter", t->jitter_min_ms, JITTER_LEAST_MS, error);
    if (code == SIMBA_OK)
        code = check_range("the upper end of jitter", t->jitter_max_ms, t->jitter_min_ms, error);
    if (code == SIMBA_OK)
        code = check_range("turn", t->turn_ms, 0, error);
    return code;
}

/* For the backend's URL that is read again. */
static int ask_own_params(simba_url *url, struct simba_error *error)
{
    struct sb_timing ignored;

    return sb_url_options_fill(sb_client_url_options, 0, url, &ignored, error);
}

static void override(int64_t *value, int64_t option)
{
    if (option != SIMBA_UNSET)
        *value = option;
}

/* Options go before the URL, and the URL before the defaults. */
static int read_timing(const struct simba_client_options *options, simba_url *url,
                       struct sb_timing *t, struct simba_error *error)
{
    int code;

    t->jitter_min_ms = DEFAULT_JITTER_MIN_MS;
    t->jitter_max_ms = DEFAULT_JITTER_MAX_MS;
    code = sb_url_options_fill(sb_client_url_options, 0, url, t, error);
    if (code != SIMBA_OK)
        return code;
    override(&t->ttl_ms, options->ttl_ms);
    override(&t->transition_ms, options->transition_ms);
    override(&t->initial_delay_ms, options->initial_delay_ms);
    override(&t->jitter_min_ms, options->jitter_min_ms);
    override(&t->jitter_max_ms, options->jitter_max_ms);
    override(&t->turn_ms, options->turn_ms);
    override(&t->stop_timeout_ms, options->stop_timeout_ms);
    code = check_timing(t, error);
    if (code == SIMBA_OK)
        t->margin_ms = simba_drift_margin_ms(t->ttl_ms + t->transition_ms);
    if (code == SIMBA_OK && t->fair)
        t->reserve_ms = sb_earlier(t->turn_ms, RESERVE_MAX_MS / RESERVE_TURNS) * RESERVE_TURNS;
    return code;
}

/* ---- The store of a URL ---------------------------------------------------------------------- */

/* What follows the ':' of a URL. */
static const char *slashes(const char *scheme)
{
    return strcmp(scheme, "sqlite") == 0 || strcmp(scheme, "memory") == 0 ? "" : "//";
}

/* What may follow it behind a '+'. */
static const char *forms(const char *scheme)
{
    return strcmp(scheme, "redis") == 0 ? " (also redis+unix:, +sentinel://, +cluster://)" : "";
}

int sb_client_fail_scheme(const char *scheme, struct simba_error *error)
{
    struct sb_near near = {"", 0};
    char list[256];
    struct sb_text text;
    const char *known;

    if (strcmp(scheme, "jdbc") == 0) /* "jdbc:mysql://..." is what the JVM's drivers take */
        return sb_error_set(error, SIMBA_ECONFIG,
                            "leave out 'jdbc:', and write the user and the password as options: "
                            "mysql://HOST/DATABASE?user=USER&password-file=PATH");
    sb_text_init(&text, list, sizeof list);
    for (size_t i = 0; (known = sb_module_scheme(i)) != NULL; i++) {
        sb_text_add(&text, "%s%s:%s%s", i > 0 ? ", " : "", known, slashes(known), forms(known));
        sb_near_offer(&near, scheme, known);
    }
    if (near.name[0] == '\0')
        return sb_error_set(
            error, SIMBA_ECONFIG,
            "no store is known for URLs that begin with '%.30s:'; this build has %s", scheme, list);
    return sb_error_set(error, SIMBA_ECONFIG,
                        "no store is known for URLs that begin with '%.30s:'; did you mean %s:%s? "
                        "This build has %s",
                        scheme, near.name, slashes(near.name), list);
}

static int find_backend(const struct simba_client_options *options, const simba_url *url,
                        const struct simba_backend_ops **ret_ops, struct simba_error *error)
{
    const struct simba_backend_ops *ops = options->backend;
    int code = SIMBA_OK;

    if (ops == NULL)
        code = sb_backend_find(simba_url_scheme(url), &ops, error);
    if (code != SIMBA_OK)
        return code;
    if (ops == NULL)
        return sb_client_fail_scheme(simba_url_scheme(url), error);
    code = sb_backend_check(ops, error);
    if (code == SIMBA_OK)
        *ret_ops = ops;
    return code;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static int read_options(const struct simba_client_options *given,
                        struct simba_client_options *ret_options, struct simba_error *error)
{
    static const struct sb_options_form form = {"SIMBA_CLIENT_OPTIONS_INIT", sizeof(size_t),
                                                sizeof(struct simba_client_options)};
    const struct simba_client_options defaults = SIMBA_CLIENT_OPTIONS_INIT;
    int code = SIMBA_OK;

    *ret_options = defaults;
    if (given != NULL)
        code = sb_options_read(&form, given, ret_options, error);
    if (code != SIMBA_OK)
        return code;
    if (ret_options->dispatcher_threads == 0)
        ret_options->dispatcher_threads = DEFAULT_DISPATCHER_THREADS;
    if (ret_options->dispatcher_threads < 1 ||
        ret_options->dispatcher_threads > DISPATCHER_THREADS_MAX)
        return sb_error_set(error, SIMBA_EINVAL, "dispatcher_threads is %d; it must be 1 to %d",
                            ret_options->dispatcher_threads, DISPATCHER_THREADS_MAX);
    if (ret_options->pull_events && ret_options->executor != NULL)
        return sb_error_set(error, SIMBA_EINVAL,
                            "a client with pull_events calls nothing back: it takes no executor");
    if ((int)ret_options->log_level < SIMBA_LOG_NONE || ret_options->log_level > SIMBA_LOG_DEBUG)
        return sb_error_set(error, SIMBA_EINVAL, "there is no log level %d",
                            (int)ret_options->log_level);
    return SIMBA_OK;
}

static int open_engine(const struct simba_client_options *options, simba_url *url,
                       const char *url_text, struct sb_events *events,
                       struct sb_engine **ret_engine, struct simba_error *error)
{
    char folder[PATH_MAX];
    struct sb_engine_config config = {
        .url = url,
        .url_text = url_text,
        .folder = sb_url_working_folder(folder),
        .ask_own = ask_own_params,
        .log = {options->log, options->log_user, options->log_level},
        .dispatcher_threads = options->dispatcher_threads,
    };
    struct sb_engine *engine;
    int code = read_timing(options, url, &config.timing, error);

    if (options->executor != NULL)
        config.executor = *options->executor;
    if (events != NULL)
        config.pull = sb_events_pull(events);
    if (code == SIMBA_OK)
        code = find_backend(options, url, &config.ops, error);
    if (code == SIMBA_OK)
        code = sb_url_make_absolute(url, config.ops, config.folder, error);
    if (code == SIMBA_OK)
        code = sb_engine_create(&config, &engine, error);
    if (code != SIMBA_OK)
        return code;
    code = simba_url_check_params(url, error);
    if (code != SIMBA_OK) {
        sb_engine_destroy(engine);
        return code;
    }
    *ret_engine = engine;
    return SIMBA_OK;
}

static void free_client(struct sb_client *client)
{
    sb_engine_destroy(client->engine);
    sb_events_free(client->events);
    if (client->handle != NULL)
        sb_handle_free(client->handle);
    sb_free(client);
}

/* `url_text`: that of the URL where the store may be down, otherwise NULL. */
static int open_client(const struct simba_client_options *options, simba_url *url,
                       const char *url_text, simba_client **ret_client, struct simba_error *error)
{
    struct sb_client *client;
    int code = sb_url_resolve(url, error);

    if (code != SIMBA_OK)
        return code;
    client = sb_alloc_zero(sizeof *client);
    if (client == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    client->handle = sb_handle_create(client, error);
    if (client->handle == NULL)
        code = SIMBA_ENOMEM;
    if (code == SIMBA_OK && options->pull_events)
        code = sb_events_create(&client->events, error);
    if (code == SIMBA_OK)
        code = open_engine(options, url, url_text, client->events, &client->engine, error);
    if (code != SIMBA_OK) {
        free_client(client);
        return code;
    }
    client->id_generator = options->id_generator != NULL ? options->id_generator : simba_id_default;
    client->id_user = options->id_user;
    *ret_client = sb_handle_value(client->handle);
    return SIMBA_OK;
}

/* A password that can be read only once must not be gone when the URL is opened again. */
static int open_settled(const struct simba_client_options *options, const char *url_text,
                        simba_client **ret_client, struct simba_error *error)
{
    char *settled = sb_alloc(SB_CLIENT_URL_MAX);
    simba_url *url = NULL;
    int code;

    if (settled == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    code = sb_url_settle(url_text, settled, SB_CLIENT_URL_MAX, error);
    if (code == SIMBA_OK)
        code = sb_url_parse(settled, &url, error);
    if (code == SIMBA_OK)
        code = open_client(options, url, settled, ret_client, error);
    sb_url_free(url);
    explicit_bzero(settled, SB_CLIENT_URL_MAX);
    sb_free(settled);
    return code;
}

int simba_client_open(const char *url_text, const struct simba_client_options *given,
                      simba_client **ret_client, struct simba_error *error)
{
    struct simba_client_options options;
    simba_url *url = NULL;
    int code;

    if (url_text == NULL || ret_client == NULL)
        return sb_error_set(error, SIMBA_EMISUSE, "simba_client_open needs a URL and ret_client");
    code = read_options(given, &options, error);
    if (code == SIMBA_OK && options.allow_store_down)
        return open_settled(&options, url_text, ret_client, error);
    if (code == SIMBA_OK)
        code = sb_url_parse(url_text, &url, error);
    if (code == SIMBA_OK)
        code = open_client(&options, url, NULL, ret_client, error);
    sb_url_free(url);
    return code;
}

/* ---- Close ----------------------------------------------------------------------------------- */

/* Whether nothing is left but the client. A callback, or a call of another thread, may go on. */
static int settle(struct sb_client *client, struct simba_error *error)
{
    size_t objects = atomic_load(&client->objects);

    if (objects > 0)
        return sb_error_set(error, SIMBA_EBUSY,
                            "%zu objects of this client are still open; close them first", objects);
    if (!sb_engine_settle(client->engine))
        return sb_error_set(
            error, SIMBA_EBUSY,
            "a callback of a closed object has not returned; close again when it has");
    return SIMBA_OK;
}

/* Calls that have begun come to their end, questions with SIMBA_ECLOSED, and none begins. Of the
 * pins one is the handle's and one is mine; the others are short, or of closes that come too
 * late. */
static int shut(struct sb_client *client, struct simba_error *error)
{
    const struct timespec pause = {0, 1000000};
    int code;

    if (!sb_handle_begin_close(client->handle))
        return sb_error_set(error, SIMBA_ECLOSED, "another thread closes this client");
    atomic_store(&client->closing, true);
    sb_engine_tell_progress(client->engine);
    while (sb_handle_pins(client->handle) > 2)
        nanosleep(&pause, NULL);
    code = settle(client, error);
    if (code == SIMBA_OK) {
        sb_handle_retire(client->handle);
        return code;
    }
    atomic_store(&client->closing, false);
    sb_handle_reopen(client->handle);
    return code;
}

/* A callback that still runs may use the client: it comes to its end before. */
static int close_client(struct sb_client *client, struct simba_error *error)
{
    int code;

    if (sb_dispatcher_is_on_any() || makes_id)
        return sb_error_set(error, SIMBA_EMISUSE, "a client cannot be closed from a callback");
    code = atomic_load(&client->objects) > 0 || sb_engine_calls_back(client->engine)
               ? settle(client, error)
               : SIMBA_OK;
    return code == SIMBA_OK ? shut(client, error) : code;
}

int simba_client_close(simba_client *handle, struct simba_error *error)
{
    struct sb_client *client;
    int code;

    if (handle == NULL)
        return SIMBA_OK;
    code = sb_client_pin(handle, "simba_client_close", &client, error);
    if (code != SIMBA_OK)
        return code;
    code = close_client(client, error);
    sb_handle_unpin(client->handle);
    if (code == SIMBA_OK)
        free_client(client);
    return code;
}

/* ---- Times, metrics -------------------------------------------------------------------------- */

int simba_client_lease(simba_client *handle, int64_t *ret_ttl_ms, int64_t *ret_transition_ms)
{
    struct sb_client *client;
    int code;

    if (ret_ttl_ms == NULL || ret_transition_ms == NULL)
        return SIMBA_EMISUSE;
    code = sb_client_enter(handle, "simba_client_lease", &client, NULL);
    if (code != SIMBA_OK)
        return code;
    *ret_ttl_ms = sb_engine_timing(client->engine)->ttl_ms;
    *ret_transition_ms = sb_engine_timing(client->engine)->transition_ms;
    sb_client_leave(client);
    return SIMBA_OK;
}

int simba_client_life_fd(simba_client *handle)
{
    struct sb_client *client;
    int fd;
    int number;

    if (sb_client_enter(handle, "simba_client_life_fd", &client, NULL) != SIMBA_OK) {
        errno = EBADF;
        return -1;
    }
    fd = sb_engine_life_fd(client->engine);
    number = errno;
    sb_client_leave(client);
    errno = number;
    return fd;
}

int simba_client_metrics(simba_client *handle, struct simba_metrics *metrics)
{
    struct sb_client *client;
    int code;

    if (metrics == NULL || metrics->size < sizeof metrics->size)
        return SIMBA_EMISUSE;
    code = sb_client_enter(handle, "simba_client_metrics", &client, NULL);
    if (code != SIMBA_OK)
        return code;
    sb_engine_read_metrics(client->engine, metrics);
    sb_client_leave(client);
    return SIMBA_OK;
}

int simba_client_metrics_text(simba_client *handle, enum simba_metrics_format format, char *buffer,
                              size_t size, size_t *ret_length)
{
    struct sb_client *client;
    int code;

    if (buffer == NULL || size == 0 || ret_length == NULL)
        return SIMBA_EMISUSE;
    if (format != SIMBA_METRICS_OPENMETRICS && format != SIMBA_METRICS_PROMETHEUS)
        return SIMBA_EINVAL;
    code = sb_client_enter(handle, "simba_client_metrics_text", &client, NULL);
    if (code != SIMBA_OK)
        return code;
    code = sb_engine_write_metrics(client->engine, format, buffer, size, ret_length);
    sb_client_leave(client);
    return code;
}

/* ---- For the objects made from a client ------------------------------------------------------ */

void sb_client_remove_object(struct sb_client *client)
{
    atomic_fetch_sub(&client->objects, 1);
}

/* Counted before it is created: a close that finds no object will find none. */
int sb_client_service(struct sb_client *client, const struct sb_service_config *config,
                      struct sb_service **ret_service, struct simba_error *error)
{
    int code;

    atomic_fetch_add(&client->objects, 1);
    if (atomic_load(&client->closing))
        code = sb_error_set(error, SIMBA_ECLOSED, "the client is being closed");
    else
        code = sb_service_create(client->engine, config, ret_service, error);
    if (code != SIMBA_OK)
        sb_client_remove_object(client);
    return code;
}

int sb_client_contender(struct sb_client *client, const struct sb_service_config *config,
                        struct sb_service **ret_service, struct simba_error *error)
{
    const struct sb_timing *timing = sb_engine_timing(client->engine);
    struct sb_service_config full = *config;
    char id[SIMBA_ID_MAX + 1];
    int code = simba_mutex_validate(config->mutex, error);

    if (code == SIMBA_OK && config->id == NULL) {
        full.id = id;
        makes_id = true;
        code = client->id_generator(client->id_user, id);
        makes_id = false;
        if (code != SIMBA_OK)
            return sb_error_set(error, code, "the id generator failed: %s", simba_strerror(code));
    }
    if (code == SIMBA_OK)
        code = simba_id_validate(full.id, error);
    if (config->ttl_ms == SIMBA_UNSET)
        full.ttl_ms = timing->ttl_ms;
    if (config->transition_ms == SIMBA_UNSET)
        full.transition_ms = timing->transition_ms;
    if (code == SIMBA_OK)
        code = check_lease(full.ttl_ms, full.transition_ms, error);
    return code == SIMBA_OK ? sb_client_service(client, &full, ret_service, error) : code;
}

void simba_client_cleanup(simba_client **client)
{
    simba_client_close(*client, NULL);
}
