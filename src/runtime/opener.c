/*
 * opener.c - tries to open a store, again and again. Owns when to try; must not know what a backend does.
 */
#include "runtime/opener.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "base/thread.h"
#include "base/url.h"

#include <errno.h>
#include <string.h>

#define DELAY_MIN_MS 50
#define DELAY_MAX_MS 2000

struct sb_opener {
    struct sb_engine *engine;
    struct sb_engine_config config; /* of the engine that tries */
    char *url_text;
    pthread_t thread;
    uint64_t random;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t told;
    bool stopping;
    struct simba_error error;
};

bool sb_opener_may_heal(int code)
{
    switch (simba_error_group(code)) {
    case SIMBA_GROUP_UNAVAILABLE:
    case SIMBA_GROUP_DENIED:
    case SIMBA_GROUP_UNKNOWN:
    case SIMBA_GROUP_CONTENDED:
        return true;
    default:
        return code == SIMBA_ECONFIG; /* such as a database that is not there yet */
    }
}

/* Nothing was asked of the store, so the outcome of a request is never unknown. */
static void keep_error(struct sb_opener *o, const struct simba_error *error)
{
    pthread_mutex_lock(&o->lock);
    o->error = *error;
    if (o->error.code == SIMBA_EUNKNOWN)
        o->error.code = SIMBA_EUNAVAILABLE;
    pthread_mutex_unlock(&o->lock);
}

void sb_opener_error(struct sb_opener *o, struct simba_error *ret_error)
{
    pthread_mutex_lock(&o->lock);
    *ret_error = o->error;
    pthread_mutex_unlock(&o->lock);
}

/* ---- Attempts ------------------------------------------------------------------------------- */

/* Passwords that the URL names are read anew. */
static int read_url(const struct sb_opener *o, simba_url **ret_url, struct simba_error *error)
{
    simba_url *url;
    int code = sb_url_parse(o->url_text, &url, error);

    if (code != SIMBA_OK)
        return code;
    code = sb_url_resolve(url, error);
    if (code == SIMBA_OK)
        code = o->config.ask_own(url, error);
    if (code == SIMBA_OK)
        *ret_url = url;
    else
        sb_url_free(url);
    return code;
}

static int try_elsewhere(struct sb_opener *o, struct simba_error *error)
{
    struct sb_engine_config config = o->config;
    struct sb_engine *engine;
    int code = read_url(o, &config.url, error);

    if (code != SIMBA_OK)
        return code;
    code = sb_engine_create(&config, &engine, error);
    sb_url_free(config.url);
    if (code == SIMBA_OK)
        sb_engine_destroy(engine);
    return code;
}

static int open_here(struct sb_opener *o, struct simba_error *error)
{
    simba_url *url;
    int code = read_url(o, &url, error);

    if (code != SIMBA_OK)
        return code;
    code = sb_engine_open(o->engine, url, error);
    sb_url_free(url);
    return code;
}

/* What fails anew is told, and again only when it fails in another way. */
static bool attempt(struct sb_opener *o)
{
    struct simba_error error = {0};
    struct simba_error last;
    int code = try_elsewhere(o, &error);

    if (code == SIMBA_OK)
        code = open_here(o, &error);
    if (code == SIMBA_OK) {
        const struct simba_backend_host *host = &o->engine->host;

        sb_log(&o->engine->log, SIMBA_LOG_WARN, "the store can be used now");
        host->notice(host, SIMBA_NOTICE_RELEASED, NULL, NULL); /* all try at once */
        return true;
    }
    sb_opener_error(o, &last);
    keep_error(o, &error);
    sb_log(&o->engine->log, last.code == error.code ? SIMBA_LOG_DEBUG : SIMBA_LOG_WARN,
           "the store cannot be used yet: %s", error.text);
    return false;
}

/* False: it is over. */
static bool wait_ms(struct sb_opener *o, int64_t ms)
{
    struct timespec until = sb_clock_deadline(ms);
    bool goes_on;

    pthread_mutex_lock(&o->lock);
    while (!o->stopping && pthread_cond_timedwait(&o->told, &o->lock, &until) == 0)
        continue;
    goes_on = !o->stopping;
    pthread_mutex_unlock(&o->lock);
    return goes_on;
}

static void *run_thread(void *argument)
{
    struct sb_opener *o = argument;
    int64_t most_ms = DELAY_MIN_MS;

    while (wait_ms(o, sb_random_between(sb_random_next(&o->random), most_ms / 2, most_ms)) &&
           !attempt(o))
        most_ms = most_ms * 2 < DELAY_MAX_MS ? most_ms * 2 : DELAY_MAX_MS;
    return NULL;
}

/* ---- Life ----------------------------------------------------------------------------------- */

static void free_opener(struct sb_opener *o)
{
    if (o->url_text != NULL)
        explicit_bzero(o->url_text, strlen(o->url_text)); /* it may have a password */
    sb_free(o->url_text);
    pthread_cond_destroy(&o->told);
    pthread_mutex_destroy(&o->lock);
    sb_free(o);
}

/* The engine that tries calls nobody, says nothing and has no second chance. */
static void init_config(struct sb_opener *o, const struct sb_engine_config *config)
{
    o->config = *config;
    o->config.url = NULL;
    o->config.url_text = NULL;
    o->config.log = (struct sb_log){NULL, NULL, SIMBA_LOG_NONE};
    o->config.dispatcher_threads = 1;
    o->config.executor = (struct simba_executor){NULL, NULL};
}

int sb_opener_start(struct sb_engine *engine, const struct sb_engine_config *config,
                    const struct simba_error *why, struct sb_opener **ret_opener,
                    struct simba_error *error)
{
    struct sb_opener *o = sb_alloc_zero(sizeof *o);
    int code;

    if (o == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    pthread_mutex_init(&o->lock, NULL);
    sb_wait_init_cond(&o->told);
    o->engine = engine;
    o->random = sb_random_seed();
    init_config(o, config);
    keep_error(o, why);
    o->url_text = sb_strdup(config->url_text);
    code = o->url_text != NULL ? sb_thread_start(&o->thread, "simba-open", run_thread, o) : ENOMEM;
    if (code == 0) {
        *ret_opener = o;
        return SIMBA_OK;
    }
    free_opener(o);
    return sb_error_set_backend(error, SIMBA_ENOMEM, code, "cannot start a thread: %s",
                                strerror(code));
}

void sb_opener_stop(struct sb_opener *o)
{
    if (o == NULL)
        return;
    pthread_mutex_lock(&o->lock);
    o->stopping = true;
    pthread_cond_signal(&o->told);
    pthread_mutex_unlock(&o->lock);
    pthread_join(o->thread, NULL);
    free_opener(o);
}
