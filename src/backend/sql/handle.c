/*
 * handle.c - the repository as the application sees it. Owns the connection of a handle, its
 * healing and the turns of threads; must not know statements.
 */
#include "backend/module.h"
#include "backend/sql/driver.h"
#include "backend/sql/repository.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/signals.h"
#include "base/text.h"
#include "base/url.h"

#include <simba/sql.h>

#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PAUSE_MIN_MS 5 /* between two attempts */
#define PAUSE_MAX_MS 200
#define HEALINGS_MAX 2 /* new connections to a server that refuses, or new tables, for one call */

struct simba_repository {
    const struct sb_sql_dialect *dialect;
    struct simba_backend_host host; /* says nothing to anybody */
    void *settings;
    struct sb_sql_limits limits;
    unsigned forks;       /* when it was made */
    pthread_mutex_t lock; /* guards what follows */
    struct sb_sql_repository repository;
    bool created; /* the table, on any of the handle's connections */
};

/* One attempt at a call. */
struct call {
    int (*attempt)(struct sb_sql_repository *r, struct call *call, struct sb_sql_failure *failure);
    struct sb_sql_claim claim;
    bool result;
    bool created; /* the table, by the handle */
    struct sb_sql_record record;
};

static void log_nothing(const struct simba_backend_host *host, enum simba_log_level level,
                        const char *format, ...)
{
    (void)host;
    (void)level;
    (void)format;
}

/* ---- The caller's thread --------------------------------------------------------------------- */

/* What it is spared while the library works on it: to be cancelled with the lock or half of a
 * handle, and to be ended by a write past the limit for files or to a server that is gone. */
struct stay {
    int cancel_state;
    struct sb_signal_hold hold;
};

static void begin_stay(struct stay *stay)
{
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &stay->cancel_state);
    sb_signal_hold_two(&stay->hold, SIGXFSZ, SIGPIPE);
}

static void end_stay(const struct stay *stay)
{
    sb_signal_let_go(&stay->hold);
    pthread_setcancelstate(stay->cancel_state, NULL);
}

/* ---- Connection ------------------------------------------------------------------------------ */

static void drop_connection(simba_repository *h)
{
    h->dialect->driver->disconnect(h->repository.connection);
    h->repository.connection = NULL;
    h->repository.in_transaction = false;
}

static void note_creation(simba_repository *h)
{
    h->created = h->created || h->repository.connection->created_table;
}

static int ensure_connection(simba_repository *h, int64_t timeout_ms,
                             struct sb_sql_failure *failure)
{
    int code;

    if (h->repository.connection != NULL && h->repository.connection->outdated)
        drop_connection(h);
    if (h->repository.connection != NULL)
        return SIMBA_OK;
    if (timeout_ms > h->limits.connect_ms)
        timeout_ms = h->limits.connect_ms;
    code = h->dialect->driver->connect(h->settings, timeout_ms, &h->repository.connection, failure);
    if (code == SIMBA_OK)
        note_creation(h);
    else
        failure->remedy = code == SIMBA_EUNAVAILABLE ? SB_SQL_RECONNECT : SB_SQL_GIVE_UP;
    return code;
}

/* Doubles with every attempt. */
static void pause_before(unsigned attempt)
{
    int64_t pause_ms = PAUSE_MIN_MS;
    struct timespec pause;

    for (unsigned i = 1; i < attempt && pause_ms < PAUSE_MAX_MS; i++)
        pause_ms *= 2;
    pause = (struct timespec){pause_ms / 1000, pause_ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

/* Does what may help; returns whether another attempt makes sense. A server that answers and
 * refuses is asked over a new connection or two; there may be another behind the name by now. */
static bool heal(simba_repository *h, struct sb_sql_failure *failure, unsigned attempts)
{
    if (h->repository.connection != NULL)
        sb_sql_repository_rollback(&h->repository);
    switch (failure->remedy) {
    case SB_SQL_RETRY:
        return true;
    case SB_SQL_RECONNECT:
        drop_connection(h);
        return failure->error.code == SIMBA_EUNAVAILABLE || attempts <= HEALINGS_MAX;
    case SB_SQL_SCHEMA:
        if (attempts > HEALINGS_MAX ||
            sb_sql_repository_init_schema(&h->repository, failure) != SIMBA_OK)
            return false;
        note_creation(h);
        return true;
    default:
        return false;
    }
}

static int attempt(simba_repository *h, struct call *call, int64_t deadline_ms,
                   struct sb_sql_failure *failure)
{
    int code = ensure_connection(h, deadline_ms - simba_now_ms(), failure);

    if (code != SIMBA_OK)
        return code;
    h->dialect->driver->set_deadline(h->repository.connection, deadline_ms);
    code = call->attempt(&h->repository, call, failure);
    if (code == SIMBA_OK)
        note_creation(h);
    return code;
}

/* With the lock held. A lost reply to a change ends it: another attempt could be a second change.
 * What failed first is told: that there was no time for more says nothing. */
static int perform(simba_repository *h, struct call *call, struct sb_sql_failure *failure)
{
    int64_t deadline_ms = simba_now_ms() + h->limits.timeout_ms;
    struct sb_sql_failure first = {.remedy = SB_SQL_GIVE_UP};

    for (unsigned attempts = 1;; attempts++) {
        if (attempt(h, call, deadline_ms, failure) == SIMBA_OK)
            return SIMBA_OK;
        if (attempts == 1)
            first = *failure;
        if (failure->error.code == SIMBA_EUNKNOWN || !heal(h, failure, attempts))
            break;
        if (simba_now_ms() >= deadline_ms) {
            *failure = first;
            break;
        }
        if (failure->remedy != SB_SQL_SCHEMA)
            pause_before(attempts);
    }
    return failure->error.code;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static int run(simba_repository *h, struct call *call, struct simba_error *error)
{
    struct sb_sql_failure failure = {.remedy = SB_SQL_GIVE_UP};
    struct stay stay;
    int code;

    if (h->forks != sb_fork_count())
        return sb_error_set(error, SIMBA_EFORKED,
                            "the handle was made before fork() and belongs to the parent process");
    begin_stay(&stay);
    pthread_mutex_lock(&h->lock);
    code = perform(h, call, &failure);
    call->created = h->created;
    pthread_mutex_unlock(&h->lock);
    end_stay(&stay);
    if (code != SIMBA_OK && error != NULL)
        *error = failure.error;
    return code;
}

/* What the caller must give: a handle, and a place for what the call tells. */
static int check_given(const char *call, const simba_repository *h, const void *result,
                       struct simba_error *error)
{
    if (h == NULL || result == NULL)
        return sb_error_set(error, SIMBA_EMISUSE, "%s needs a repository and its ret_ parameters",
                            call);
    return SIMBA_OK;
}

static int check_names(const char *mutex, const char *id, struct simba_error *error)
{
    int code = simba_mutex_validate(mutex, error);

    return code == SIMBA_OK ? simba_id_validate(id, error) : code;
}

static void copy_record(struct simba_record *target, const struct sb_sql_record *record)
{
    sb_text_copy(target->mutex, sizeof target->mutex, record->mutex);
    sb_text_copy(target->owner_id, sizeof target->owner_id, record->owner_id);
    target->acquired_at_ms = record->acquired_at_ms;
    target->ttl_at_ms = record->ttl_at_ms;
    target->transition_at_ms = record->transition_at_ms;
    target->version = record->version;
    target->current_db_at_ms = record->current_db_at_ms;
}

static int attempt_init_schema(struct sb_sql_repository *r, struct call *call,
                               struct sb_sql_failure *failure)
{
    (void)call;
    return sb_sql_repository_init_schema(r, failure);
}

int simba_repository_init_schema(simba_repository *h, bool *ret_created, struct simba_error *error)
{
    struct call call = {.attempt = attempt_init_schema};
    int code = check_given("simba_repository_init_schema", h, ret_created, error);

    if (code == SIMBA_OK)
        code = run(h, &call, error);
    if (code == SIMBA_OK)
        *ret_created = call.created;
    return code;
}

static int attempt_init(struct sb_sql_repository *r, struct call *call,
                        struct sb_sql_failure *failure)
{
    return sb_sql_repository_init_mutex(r, call->claim.mutex, failure);
}

int simba_repository_init_mutex(simba_repository *h, const char *mutex, struct simba_error *error)
{
    struct call call = {.attempt = attempt_init, .claim.mutex = mutex};
    int code = check_given("simba_repository_init_mutex", h, h, error);

    if (code == SIMBA_OK)
        code = simba_mutex_validate(mutex, error);
    return code == SIMBA_OK ? run(h, &call, error) : code;
}

static int attempt_try_init(struct sb_sql_repository *r, struct call *call,
                            struct sb_sql_failure *failure)
{
    return sb_sql_repository_try_init_mutex(r, call->claim.mutex, &call->result, failure);
}

int simba_repository_try_init_mutex(simba_repository *h, const char *mutex, bool *ret_created,
                                    struct simba_error *error)
{
    struct call call = {.attempt = attempt_try_init, .claim.mutex = mutex};
    int code = check_given("simba_repository_try_init_mutex", h, ret_created, error);

    if (code == SIMBA_OK)
        code = simba_mutex_validate(mutex, error);
    if (code == SIMBA_OK)
        code = run(h, &call, error);
    if (code == SIMBA_OK)
        *ret_created = call.result;
    return code;
}

static int attempt_get(struct sb_sql_repository *r, struct call *call,
                       struct sb_sql_failure *failure)
{
    return sb_sql_repository_get_owner(r, call->claim.mutex, &call->record, failure);
}

static int attempt_ensure(struct sb_sql_repository *r, struct call *call,
                          struct sb_sql_failure *failure)
{
    return sb_sql_repository_ensure_owner(r, call->claim.mutex, &call->record, failure);
}

static int tell(simba_repository *h, struct call *call, const char *name,
                struct simba_record *ret_record, struct simba_error *error)
{
    int code = check_given(name, h, ret_record, error);

    if (code == SIMBA_OK)
        code = simba_mutex_validate(call->claim.mutex, error);
    if (code == SIMBA_OK)
        code = run(h, call, error);
    if (code == SIMBA_OK)
        copy_record(ret_record, &call->record);
    return code;
}

int simba_repository_get_owner(simba_repository *h, const char *mutex,
                               struct simba_record *ret_record, struct simba_error *error)
{
    struct call call = {.attempt = attempt_get, .claim.mutex = mutex};

    return tell(h, &call, "simba_repository_get_owner", ret_record, error);
}

int simba_repository_ensure_owner(simba_repository *h, const char *mutex,
                                  struct simba_record *ret_record, struct simba_error *error)
{
    struct call call = {.attempt = attempt_ensure, .claim.mutex = mutex};

    return tell(h, &call, "simba_repository_ensure_owner", ret_record, error);
}

/* ---- Changes --------------------------------------------------------------------------------- */

/* Waiters hear of it, where that is not part of the statement. */
static void announce(struct sb_sql_repository *r, const struct call *call, enum simba_notice notice)
{
    const struct sb_sql_driver *driver = r->connection->driver;

    if (call->result && driver->announce != NULL)
        driver->announce(r->connection, notice, call->claim.mutex);
}

static int attempt_acquire(struct sb_sql_repository *r, struct call *call,
                           struct sb_sql_failure *failure)
{
    int code = sb_sql_repository_acquire(r, &call->claim, &call->result, failure);

    if (code == SIMBA_OK)
        announce(r, call, SIMBA_NOTICE_CHANGED);
    return code;
}

static int attempt_acquire_and_get(struct sb_sql_repository *r, struct call *call,
                                   struct sb_sql_failure *failure)
{
    int code = sb_sql_repository_acquire_and_get_owner(r, &call->claim, &call->result,
                                                       &call->record, failure);

    if (code == SIMBA_OK)
        announce(r, call, SIMBA_NOTICE_CHANGED);
    return code;
}

static int attempt_release(struct sb_sql_repository *r, struct call *call,
                           struct sb_sql_failure *failure)
{
    int code = sb_sql_repository_release_read(r, call->claim.mutex, call->claim.id, &call->result,
                                              &call->record, failure);

    if (code == SIMBA_OK)
        announce(r, call, SIMBA_NOTICE_RELEASED);
    return code;
}

static int check_claim(const struct sb_sql_claim *claim, struct simba_error *error)
{
    if (claim->ttl_ms <= 0 || claim->transition_ms < 0)
        return sb_error_set(error, SIMBA_EINVAL,
                            "a lease needs a ttl of more than 0 and a transition of 0 or more");
    return check_names(claim->mutex, claim->id, error);
}

int simba_repository_acquire(simba_repository *h, const char *mutex, const char *id, int64_t ttl_ms,
                             int64_t transition_ms, bool *ret_acquired, struct simba_error *error)
{
    struct call call = {.attempt = attempt_acquire, .claim = {mutex, id, ttl_ms, transition_ms}};
    int code = check_given("simba_repository_acquire", h, ret_acquired, error);

    if (code == SIMBA_OK)
        code = check_claim(&call.claim, error);
    if (code == SIMBA_OK)
        code = run(h, &call, error);
    if (code == SIMBA_OK)
        *ret_acquired = call.result;
    return code;
}

int simba_repository_acquire_and_get_owner(simba_repository *h, const char *mutex, const char *id,
                                           int64_t ttl_ms, int64_t transition_ms,
                                           bool *ret_acquired, struct simba_record *ret_record,
                                           struct simba_error *error)
{
    struct call call = {.attempt = attempt_acquire_and_get,
                        .claim = {mutex, id, ttl_ms, transition_ms}};
    int code = check_given("simba_repository_acquire_and_get_owner", h,
                           ret_acquired != NULL ? (void *)ret_record : NULL, error);

    if (code == SIMBA_OK)
        code = check_claim(&call.claim, error);
    if (code == SIMBA_OK)
        code = run(h, &call, error);
    if (code != SIMBA_OK)
        return code;
    *ret_acquired = call.result;
    copy_record(ret_record, &call.record);
    return SIMBA_OK;
}

int simba_repository_release(simba_repository *h, const char *mutex, const char *id,
                             bool *ret_released, struct simba_error *error)
{
    struct call call = {.attempt = attempt_release, .claim = {.mutex = mutex, .id = id}};
    int code = check_given("simba_repository_release", h, ret_released, error);

    if (code == SIMBA_OK)
        code = check_names(mutex, id, error);
    if (code == SIMBA_OK)
        code = run(h, &call, error);
    if (code == SIMBA_OK)
        *ret_released = call.result;
    return code;
}

/* ---- Life ------------------------------------------------------------------------------------ */

static void free_handle(simba_repository *h)
{
    if (h->settings != NULL)
        h->dialect->close(h->settings);
    pthread_mutex_destroy(&h->lock);
    sb_free(h);
}

/* The timings of a contest may stand in the URL of a client; here nobody needs them. */
static void pass_over_timings(simba_url *url)
{
    static const char *const timings[] = {"ttl",    "transition", "initial-delay",
                                          "jitter", "turn",       "stop-timeout"};

    for (size_t i = 0; i < sizeof timings / sizeof timings[0]; i++)
        simba_url_param(url, timings[i]);
}

/* NULL where it is no SQL database. */
static int find_module(const simba_url *url, const struct sb_module **ret_module,
                       struct simba_error *error)
{
    const struct sb_module *module;
    int code = sb_module_find(simba_url_scheme(url), &module, error);

    if (code == SIMBA_OK)
        *ret_module = module != NULL && module->dialect != NULL ? module : NULL;
    return code;
}

int simba_repository_schema(const char *text, const char **ret_statement, struct simba_error *error)
{
    const struct sb_module *module;
    simba_url *url = NULL;
    int code;

    if (text == NULL || ret_statement == NULL)
        return sb_error_set(error, SIMBA_EMISUSE,
                            "simba_repository_schema needs a URL and ret_statement");
    code = sb_url_parse(text, &url, error);
    if (code != SIMBA_OK)
        return code;
    code = find_module(url, &module, error);
    if (code == SIMBA_OK && (module == NULL || module->dialect->schema == NULL))
        code = sb_error_set(error, SIMBA_EUNSUPPORTED,
                            "for '%s' there is no statement that creates a table",
                            simba_url_scheme(url));
    if (code == SIMBA_OK)
        *ret_statement = module->dialect->schema;
    sb_url_free(url);
    return code;
}

static int open_settings(simba_repository *h, const char *text, struct simba_error *error)
{
    const struct sb_module *module = NULL;
    char folder[PATH_MAX];
    simba_url *url = NULL;
    int code = sb_url_parse(text, &url, error);

    if (code != SIMBA_OK)
        return code;
    code = find_module(url, &module, error);
    if (code == SIMBA_OK && module == NULL)
        code = sb_error_set(error, SIMBA_EUNSUPPORTED, "'%s' is no SQL database",
                            simba_url_scheme(url));
    pass_over_timings(url);
    if (code == SIMBA_OK)
        code = sb_url_make_absolute(url, module->ops, sb_url_working_folder(folder), error);
    if (code == SIMBA_OK)
        code = sb_url_resolve(url, error);
    if (code == SIMBA_OK) {
        h->dialect = module->dialect;
        code = h->dialect->open(url, &h->host, &h->settings, &h->limits, error);
    }
    sb_url_free(url);
    return code;
}

static int open_handle(const char *url, simba_repository **ret_repository,
                       struct simba_error *error)
{
    simba_repository *h = sb_alloc_zero(sizeof *h);
    struct sb_sql_failure failure;
    int code;

    if (h == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    h->host.log = log_nothing;
    sb_fork_watch();
    h->forks = sb_fork_count();
    pthread_mutex_init(&h->lock, NULL);
    code = open_settings(h, url, error);
    if (code == SIMBA_OK) {
        code = ensure_connection(h, h->limits.connect_ms, &failure);
        if (code != SIMBA_OK && error != NULL)
            *error = failure.error;
    }
    if (code != SIMBA_OK) {
        free_handle(h);
        return code;
    }
    *ret_repository = h;
    return SIMBA_OK;
}

int simba_repository_open(const char *url, simba_repository **ret_repository,
                          struct simba_error *error)
{
    struct stay stay;
    int code;

    if (url == NULL || ret_repository == NULL)
        return sb_error_set(error, SIMBA_EMISUSE,
                            "simba_repository_open needs a URL and ret_repository");
    begin_stay(&stay);
    code = open_handle(url, ret_repository, error);
    end_stay(&stay);
    return code;
}

/* In a child the connection is the parent's, and so is all that would be said over it. */
void simba_repository_close(simba_repository *h)
{
    struct stay stay;

    if (h == NULL || h->forks != sb_fork_count())
        return;
    begin_stay(&stay);
    drop_connection(h);
    free_handle(h);
    end_stay(&stay);
}
