/*
 * handle.c - the repository as the application sees it (simba/sql.h). Owns the connection of a
 * handle, its repair and the lock between threads; must not know statements.
 */
#include "backend/module.h"
#include "backend/sql/driver.h"
#include "backend/sql/repository.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/handle.h"
#include "base/thread.h"
#include "base/text.h"
#include "base/url.h"
#include "base/url_options.h"

#include <simba/sql.h>

#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PAUSE_MIN_MS 5 /* between two attempts */
#define PAUSE_MAX_MS 200
#define REPAIRS_MAX 2 /* new connections to a server that refuses, or new tables, for one call */

/* What is behind a simba_repository. */
struct repository {
    struct sb_handle *handle;
    const struct sb_sql_dialect *dialect;
    struct simba_backend_host host; /* its log goes nowhere */
    void *settings;
    struct sb_sql_limits limits;
    unsigned forks;       /* when it was made */
    pthread_mutex_t lock; /* guards what follows */
    struct sb_sql_repository repository;
    bool created; /* the table, on any of the handle's connections */
};

enum kind {
    INIT_SCHEMA,
    INIT_MUTEX,
    TRY_INIT_MUTEX,
    GET_OWNER,
    ENSURE_OWNER,
    ACQUIRE,
    ACQUIRE_AND_GET_OWNER,
    RELEASE
};

/* What a call must be given. */
static const struct trait {
    const char *name;
    enum { NO_NAME, A_MUTEX, A_MUTEX_AND_ID, A_LEASE } needs;
    bool tells_result;
    bool tells_record;
} traits[] = {
    [INIT_SCHEMA] = {"simba_repository_init_schema", NO_NAME, true, false},
    [INIT_MUTEX] = {"simba_repository_init_mutex", A_MUTEX, false, false},
    [TRY_INIT_MUTEX] = {"simba_repository_try_init_mutex", A_MUTEX, true, false},
    [GET_OWNER] = {"simba_repository_get_owner", A_MUTEX, false, true},
    [ENSURE_OWNER] = {"simba_repository_ensure_owner", A_MUTEX, false, true},
    [ACQUIRE] = {"simba_repository_acquire", A_LEASE, true, false},
    [ACQUIRE_AND_GET_OWNER] = {"simba_repository_acquire_and_get_owner", A_LEASE, true, true},
    [RELEASE] = {"simba_repository_release", A_MUTEX_AND_ID, true, false},
};

struct call {
    enum kind kind;
    struct sb_sql_claim claim;
    bool *ret_result;
    struct simba_record *ret_record;

    /* What the last attempt found: */
    bool result;
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

/* While the library works on it, the thread is not cancelled with the lock held or half of a handle
 * made, and a write past the limit for files or to a server that is gone does not end the
 * process. */
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

static void drop_connection(struct repository *h)
{
    h->dialect->driver->disconnect(h->repository.connection);
    h->repository.connection = NULL;
    h->repository.in_transaction = false;
}

static void note_creation(struct repository *h)
{
    h->created = h->created || h->repository.connection->created_table;
}

static int ensure_connection(struct repository *h, int64_t timeout_ms,
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
 * refuses is asked over a new connection or two: the name may lead to another server by now. */
static bool repair(struct repository *h, struct sb_sql_failure *failure, unsigned attempts)
{
    if (h->repository.connection != NULL)
        sb_sql_repository_rollback(&h->repository);
    switch (failure->remedy) {
    case SB_SQL_RETRY:
        return true;
    case SB_SQL_RECONNECT:
        drop_connection(h);
        return failure->error.code == SIMBA_EUNAVAILABLE || attempts <= REPAIRS_MAX;
    case SB_SQL_SCHEMA:
        if (attempts > REPAIRS_MAX ||
            sb_sql_repository_init_schema(&h->repository, failure) != SIMBA_OK)
            return false;
        note_creation(h);
        return true;
    default:
        return false;
    }
}

static int attempt(struct repository *h, struct call *call, int64_t deadline_ms,
                   struct sb_sql_failure *failure)
{
    struct sb_sql_repository *r = &h->repository;
    const struct sb_sql_driver *driver = h->dialect->driver;
    const struct sb_sql_claim *claim = &call->claim;
    int code = ensure_connection(h, deadline_ms - simba_now_ms(), failure);

    if (code != SIMBA_OK)
        return code;
    driver->set_deadline(r->connection, deadline_ms);
    switch (call->kind) {
    case INIT_SCHEMA:
        code = sb_sql_repository_init_schema(r, failure);
        break;
    case INIT_MUTEX:
        code = sb_sql_repository_init_mutex(r, claim->mutex, failure);
        break;
    case TRY_INIT_MUTEX:
        code = sb_sql_repository_try_init_mutex(r, claim->mutex, &call->result, failure);
        break;
    case GET_OWNER:
        code = sb_sql_repository_get_owner(r, claim->mutex, &call->record, failure);
        break;
    case ENSURE_OWNER:
        code = sb_sql_repository_ensure_owner(r, claim->mutex, &call->record, failure);
        break;
    case ACQUIRE:
        code = sb_sql_repository_acquire(r, claim, &call->result, failure);
        break;
    case ACQUIRE_AND_GET_OWNER:
        code = sb_sql_repository_acquire_and_get_owner(r, claim, &call->result, &call->record,
                                                       failure);
        break;
    case RELEASE:
        code = sb_sql_repository_release_read(r, claim->mutex, claim->id, &call->result,
                                              &call->record, failure);
        break;
    }
    if (code != SIMBA_OK)
        return code;
    note_creation(h);
    if (call->kind == INIT_SCHEMA)
        call->result = h->created;
    if (call->kind >= ACQUIRE && call->result && driver->announce != NULL)
        driver->announce(r->connection,
                         call->kind == RELEASE ? SIMBA_NOTICE_RELEASED : SIMBA_NOTICE_CHANGED,
                         claim->mutex, NULL);
    return SIMBA_OK;
}

/* With the lock held. A lost reply to a change ends the call: another attempt could be a second
 * change. When the time is up the first failure is told, which is the cause. */
static int perform(struct repository *h, struct call *call, struct sb_sql_failure *failure)
{
    int64_t deadline_ms = simba_now_ms() + h->limits.timeout_ms;
    struct sb_sql_failure first = {.remedy = SB_SQL_GIVE_UP};

    for (unsigned attempts = 1;; attempts++) {
        if (attempt(h, call, deadline_ms, failure) == SIMBA_OK)
            return SIMBA_OK;
        if (attempts == 1)
            first = *failure;
        if (failure->error.code == SIMBA_EUNKNOWN || !repair(h, failure, attempts))
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

/* ---- Its end --------------------------------------------------------------------------------- */

static void free_handle(struct repository *h)
{
    if (h->settings != NULL)
        h->dialect->clear(h->settings);
    sb_free(h->settings);
    if (h->handle != NULL)
        sb_handle_free(h->handle);
    pthread_mutex_destroy(&h->lock);
    sb_free(h);
}

static void unpin(struct repository *h)
{
    struct stay stay;

    if (!sb_handle_unpin(h->handle))
        return;
    begin_stay(&stay);
    drop_connection(h);
    free_handle(h);
    end_stay(&stay);
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static int check_given(const struct repository *h, const struct call *call,
                       struct simba_error *error)
{
    const struct trait *trait = &traits[call->kind];
    const struct sb_sql_claim *claim = &call->claim;
    int code = SIMBA_OK;

    if ((trait->tells_result && call->ret_result == NULL) ||
        (trait->tells_record && call->ret_record == NULL))
        return sb_error_set(error, SIMBA_EMISUSE, "%s needs a repository and its ret_ parameters",
                            trait->name);
    if (trait->needs == A_LEASE && (claim->ttl_ms <= 0 || claim->transition_ms < 0))
        return sb_error_set(error, SIMBA_EINVAL,
                            "a lease needs a ttl of more than 0 and a transition of 0 or more");
    if (trait->needs >= A_MUTEX)
        code = simba_mutex_validate(claim->mutex, error);
    if (code == SIMBA_OK && trait->needs >= A_MUTEX_AND_ID)
        code = simba_id_validate(claim->id, error);
    if (code == SIMBA_OK && h->forks != sb_fork_count())
        code = sb_error_set(error, SIMBA_EFORKED,
                            "the handle was made before fork() and belongs to the parent process");
    return code;
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

static int run_pinned(struct repository *h, struct call *call, struct simba_error *error)
{
    struct sb_sql_failure failure = {.remedy = SB_SQL_GIVE_UP};
    struct stay stay;
    int code = check_given(h, call, error);

    if (code != SIMBA_OK)
        return code;
    begin_stay(&stay);
    pthread_mutex_lock(&h->lock);
    code = perform(h, call, &failure);
    pthread_mutex_unlock(&h->lock);
    end_stay(&stay);
    if (code != SIMBA_OK && error != NULL)
        *error = failure.error;
    if (code == SIMBA_OK && traits[call->kind].tells_result)
        *call->ret_result = call->result;
    if (code == SIMBA_OK && traits[call->kind].tells_record)
        copy_record(call->ret_record, &call->record);
    return code;
}

static int run(simba_repository *handle, struct call *call, struct simba_error *error)
{
    struct repository *h;
    void *object;
    int code = sb_handle_use(handle, traits[call->kind].name, "a repository", &object, error);

    if (code != SIMBA_OK)
        return code;
    h = object;
    code = run_pinned(h, call, error);
    unpin(h);
    return code;
}

int simba_repository_init_schema(simba_repository *handle, bool *ret_created,
                                 struct simba_error *error)
{
    struct call call = {.kind = INIT_SCHEMA, .ret_result = ret_created};

    return run(handle, &call, error);
}

int simba_repository_init_mutex(simba_repository *handle, const char *mutex,
                                struct simba_error *error)
{
    struct call call = {.kind = INIT_MUTEX, .claim.mutex = mutex};

    return run(handle, &call, error);
}

int simba_repository_try_init_mutex(simba_repository *handle, const char *mutex, bool *ret_created,
                                    struct simba_error *error)
{
    struct call call = {.kind = TRY_INIT_MUTEX, .claim.mutex = mutex, .ret_result = ret_created};

    return run(handle, &call, error);
}

int simba_repository_get_owner(simba_repository *handle, const char *mutex,
                               struct simba_record *ret_record, struct simba_error *error)
{
    struct call call = {.kind = GET_OWNER, .claim.mutex = mutex, .ret_record = ret_record};

    return run(handle, &call, error);
}

int simba_repository_ensure_owner(simba_repository *handle, const char *mutex,
                                  struct simba_record *ret_record, struct simba_error *error)
{
    struct call call = {.kind = ENSURE_OWNER, .claim.mutex = mutex, .ret_record = ret_record};

    return run(handle, &call, error);
}

int simba_repository_acquire(simba_repository *handle, const char *mutex, const char *id,
                             int64_t ttl_ms, int64_t transition_ms, bool *ret_acquired,
                             struct simba_error *error)
{
    struct call call = {
        .kind = ACQUIRE, .claim = {mutex, id, ttl_ms, transition_ms}, .ret_result = ret_acquired};

    return run(handle, &call, error);
}

int simba_repository_acquire_and_get_owner(simba_repository *handle, const char *mutex,
                                           const char *id, int64_t ttl_ms, int64_t transition_ms,
                                           bool *ret_acquired, struct simba_record *ret_record,
                                           struct simba_error *error)
{
    struct call call = {.kind = ACQUIRE_AND_GET_OWNER,
                        .claim = {mutex, id, ttl_ms, transition_ms},
                        .ret_result = ret_acquired,
                        .ret_record = ret_record};

    return run(handle, &call, error);
}

int simba_repository_release(simba_repository *handle, const char *mutex, const char *id,
                             bool *ret_released, struct simba_error *error)
{
    struct call call = {
        .kind = RELEASE, .claim = {.mutex = mutex, .id = id}, .ret_result = ret_released};

    return run(handle, &call, error);
}

/* ---- Opening and closing --------------------------------------------------------------------- */

/* The timings of a contest may stand in the URL of a client; here nobody needs them. */
static void pass_over_timings(simba_url *url)
{
    static const char *const timings[] = {"ttl",    "transition", "initial-delay",
                                          "jitter", "turn",       "stop-timeout"};

    for (size_t i = 0; i < sizeof timings / sizeof timings[0]; i++)
        simba_url_param(url, timings[i]);
}

/* *ret_module is NULL where it is no SQL database. */
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

static int open_settings(struct repository *h, const char *text, struct simba_error *error)
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
        h->settings = sb_alloc_zero(h->dialect->settings_size);
        code = h->settings != NULL ? h->dialect->read(h->settings, url, &h->host, &h->limits, error)
                                   : sb_error_plain(error, SIMBA_ENOMEM);
    }
    sb_url_free(url);
    return code;
}

static int open_handle(const char *url, simba_repository **ret_repository,
                       struct simba_error *error)
{
    struct repository *h = sb_alloc_zero(sizeof *h);
    struct sb_sql_failure failure;
    int code;

    if (h == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    h->host.log = log_nothing;
    sb_fork_watch();
    h->forks = sb_fork_count();
    pthread_mutex_init(&h->lock, NULL);
    h->handle = sb_handle_create(h, error);
    code = h->handle != NULL ? open_settings(h, url, error) : SIMBA_ENOMEM;
    if (code == SIMBA_OK) {
        code = ensure_connection(h, h->limits.connect_ms, &failure);
        if (code != SIMBA_OK && error != NULL)
            *error = failure.error;
    }
    if (code != SIMBA_OK) {
        free_handle(h);
        return code;
    }
    *ret_repository = sb_handle_value(h->handle);
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

/* In a child the connection is the parent's, and so is all that would be said over it. A thread
 * that is in a call frees what it works with itself. */
void simba_repository_close(simba_repository *handle)
{
    struct repository *h = sb_handle_ask(handle);

    if (h == NULL)
        return;
    if (h->forks == sb_fork_count() && sb_handle_begin_close(h->handle))
        sb_handle_retire(h->handle);
    unpin(h);
}
