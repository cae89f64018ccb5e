/*
 * simba.h - a distributed mutex and leader election library.
 *
 * Contenders fight for a named mutex on a store they share. The owner holds a lease of two parts:
 *
 *     acquired_at              ttl_at                       transition_at
 *        |------ ttl: exclusive ---|-- transition: only the owner may renew --|  others may acquire
 *
 * The owner renews its lease (guards it), gives it back, or loses it; callbacks tell the
 * application. An owner that cannot renew stops believing by its own clock before anybody else can
 * own.
 *
 * Conventions
 *  - Functions return SIMBA_OK (0) or a negative SIMBA_E... code. Where a struct simba_error can be
 *    passed it may be NULL; it receives the code and a sentence when the function fails.
 *  - A function that returns a code answers SIMBA_EMISUSE where a handle, an argument or a place
 *    for the result is missing (a missing name or text is SIMBA_EINVAL); what may be NULL is said
 *    where it may. Questions, which return no code, need a handle.
 *  - Results come through `ret_...` parameters, which are left untouched on failure.
 *  - Strings passed in are copied. Strings handed to a callback die when the callback returns.
 *  - Every function may be called from any thread unless its comment says otherwise. Functions that
 *    destroy a handle take NULL; nobody may use the handle afterwards.
 *  - Option structs start with their size; the ..._INIT macros set it, so that they can grow.
 *  - Times named ..._at_ms are milliseconds on the clock of simba_now_ms(), not on the wall clock.
 *  - The end of a handle, the same for contender, observer, locker and scheduler: when close has
 *    returned, no callback of the handle runs and none begins; except that close does not wait for
 *    the callback it is called from, nor longer than the stop timeout for one that does not return:
 *    then only that callback still runs, the handle stays valid inside it, and on_closed follows.
 *    on_closed is the last callback, once for each close: from its return on `user` may be freed. A
 *    client that was closed (SIMBA_OK) calls nobody any more: no callback, no log hook, no
 *    executor.
 *  - After fork() the handles of the parent are dead in the child: calls return SIMBA_EFORKED,
 *    questions answer "no", destructors do nothing. The child opens clients of its own, except of
 *    SQLite while its parent had an SQLite client open at the fork (SIMBA_EFORKED): fork before the
 *    first client is opened, or exec. A `memory:` store of the parent is not the child's. A child
 *    that was forked inside a callback must not return from it.
 */
#ifndef SIMBA_SIMBA_H
#define SIMBA_SIMBA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SIMBA_VERSION_MAJOR 0
#define SIMBA_VERSION_MINOR 1
#define SIMBA_VERSION_PATCH 0
#define SIMBA_VERSION "0.1.0"

#if defined(SIMBA_BUILD) && defined(__GNUC__)
#define SIMBA_API __attribute__((visibility("default")))
#else
#define SIMBA_API
#endif

#if defined(__GNUC__)
#define SIMBA_PRINTF(string, first) __attribute__((format(printf, string, first)))
#else
#define SIMBA_PRINTF(string, first)
#endif

/* The version of the library that is running, such as "0.1.0". */
SIMBA_API const char *simba_version(void);

/* ---- Errors ---------------------------------------------------------------------------------- */

/* What the caller should do about an error. */
enum simba_error_group {
    SIMBA_GROUP_NONE,        /* no error */
    SIMBA_GROUP_MISUSE,      /* the program is wrong: fix the call */
    SIMBA_GROUP_CONTENDED,   /* somebody else owns, or the wait ran out: try later */
    SIMBA_GROUP_LOST,        /* it was held and is not any more: stop the work */
    SIMBA_GROUP_UNKNOWN,     /* the reply was lost: it may or may not have happened */
    SIMBA_GROUP_UNAVAILABLE, /* the store is down or cannot serve: wait or call for help */
    SIMBA_GROUP_DENIED,      /* the store refused the credentials or the permission */
    SIMBA_GROUP_CONFIG,      /* a name, URL, duration or file is invalid */
    SIMBA_GROUP_NOMEM        /* out of memory, threads or descriptors: the system refused */
};

/* X(name, number, group, text) */
#define SIMBA_ERROR_MAP(X)                                                                         \
    X(EMISUSE, -1, MISUSE, "the call is not allowed here")                                         \
    X(ESTATE, -2, MISUSE, "the object is not in the state that the call needs")                    \
    X(EBUSY, -3, MISUSE, "the object is in use")                                                   \
    X(EFORKED, -4, MISUSE, "the handle belongs to the parent process")                             \
    X(EUNSUPPORTED, -5, MISUSE, "the store cannot do this")                                        \
    X(EEXISTS, -6, MISUSE, "it exists already")                                                    \
    X(ECONTENDED, -10, CONTENDED, "the mutex is owned by somebody else")                           \
    X(ETIMEDOUT, -11, CONTENDED, "the time ran out")                                               \
    X(ENOTFOUND, -12, CONTENDED, "there is no such mutex on the store")                            \
    X(ECANCELED, -13, CONTENDED, "the wait was cancelled")                                         \
    X(ELOST, -20, LOST, "the lease was lost")                                                      \
    X(EUNKNOWN, -30, UNKNOWN, "the outcome is unknown")                                            \
    X(EUNAVAILABLE, -40, UNAVAILABLE, "the store is unavailable")                                  \
    X(ESTORE, -41, UNAVAILABLE, "the store failed")                                                \
    X(EDENIED, -50, DENIED, "the store denied access")                                             \
    X(EINVAL, -60, CONFIG, "a value is invalid")                                                   \
    X(ECONFIG, -61, CONFIG, "the configuration is invalid")                                        \
    X(EDISABLED, -62, CONFIG, "the configuration disables Simba")                                  \
    X(ENOMEM, -70, NOMEM, "out of memory")

enum simba_code {
    SIMBA_OK = 0 /* C++98 takes no comma behind the last one */
#define SIMBA_ERROR_ENUM(name, number, group, text) , SIMBA_##name = number
    SIMBA_ERROR_MAP(SIMBA_ERROR_ENUM)
#undef SIMBA_ERROR_ENUM
};

struct simba_error {
    int code;         /* SIMBA_OK or SIMBA_E... */
    int backend_code; /* the store's own number for it, 0 where it has none */
    char text[512];   /* a sentence that names the value and the rule; cut in its middle if long */
};

/* A fixed text for a code. Never NULL, never freed. */
SIMBA_API const char *simba_strerror(int code);
SIMBA_API enum simba_error_group simba_error_group(int code);

/* ---- Hooks of the whole process -------------------------------------------------------------- */

/* Replaces malloc and free for the library. Call it before anything else; later it returns
 * SIMBA_EMISUSE, and where a function is missing SIMBA_EINVAL. They must be thread-safe; `resize`
 * follows realloc. */
struct simba_allocator {
    void *(*allocate)(void *user, size_t size);
    void *(*resize)(void *user, void *memory, size_t size);
    void (*release)(void *user, void *memory);
    void *user;
};
SIMBA_API int simba_set_allocator(const struct simba_allocator *allocator);

/* Frees what the library allocated and handed over. Takes NULL. */
SIMBA_API void simba_free(void *memory);

enum simba_log_level {
    SIMBA_LOG_NONE,
    SIMBA_LOG_ERROR,
    SIMBA_LOG_WARN,
    SIMBA_LOG_INFO,
    SIMBA_LOG_DEBUG
};

/* Receives one line without a newline. Called from any thread of the client, and from threads that
 * wait inside the library; it must be thread-safe, must not block for long and must not call into
 * the library. */
typedef void simba_log_fn(void *user, enum simba_log_level level, const char *line);

/* The clock that all ..._at_ms times are on. It counts while the machine is suspended and does not
 * follow steps of the wall clock; all processes of a host share it. */
SIMBA_API int64_t simba_now_ms(void);

/* The wall-clock time, in milliseconds since 1970, at which that clock shows or has shown `at_ms`,
 * as far as the wall clock is right now. For logs only: a step of the wall clock moves it.
 * SIMBA_INFINITE stays SIMBA_INFINITE. */
SIMBA_API int64_t simba_wall_ms(int64_t at_ms);

/* ---- Durations and names --------------------------------------------------------------------- */

/* Reads "250ms", "10s", "1m30s", "2h", "1d" and "0", also as ISO 8601 writes them ("PT1M30S"), and
 * with a leading '-' their negatives, into milliseconds. Refuses anything else, also what would
 * overflow. */
SIMBA_API int simba_duration_parse(const char *text, int64_t *ret_ms, struct simba_error *error);

/* Writes the same form. `size` of 32 always suffices. Returns `buffer`. */
SIMBA_API const char *simba_duration_format(int64_t ms, char *buffer, size_t size);

#define SIMBA_MUTEX_MAX 264 /* bytes in the name of a mutex; SQL servers take 66 characters */
#define SIMBA_ID_MAX 128    /* bytes in a contender id */
#define SIMBA_INFINITE INT64_MAX

/* Whether a name or an id keeps the rules: not blank, within its length, no control characters, and
 * no "@@" in an id. Stores may add rules of their own: MySQL and PostgreSQL take as many characters
 * as the column of the table `simba_mutex` has, 66 where the library made it. A start, an acquire
 * or a question with a name that the store does not take fails with SIMBA_EINVAL. */
SIMBA_API int simba_mutex_validate(const char *mutex, struct simba_error *error);
SIMBA_API int simba_id_validate(const char *id, struct simba_error *error);

/* Makers of contender ids. Each writes a string of at most SIMBA_ID_MAX bytes and its NUL.
 *   host     {counter}:{pid}@{host address}          readable; can collide between containers
 *   uuid     32 hex digits                           says nothing of the host
 *   default  {counter}:{pid}@{host address}~{six}    the host id and six random characters, which
 *                                                    are drawn for each id */
typedef int simba_id_generator(void *user, char ret_id[SIMBA_ID_MAX + 1]);
SIMBA_API int simba_id_host(void *user, char ret_id[SIMBA_ID_MAX + 1]);
SIMBA_API int simba_id_uuid(void *user, char ret_id[SIMBA_ID_MAX + 1]);
SIMBA_API int simba_id_default(void *user, char ret_id[SIMBA_ID_MAX + 1]);

/* Makes an id of a name that people know a contender by: "host1" becomes "host1~x7k2p9". The random
 * part is new in every call, so two contenders that are given the same name have different ids. The
 * name keeps the rules of an id and has at most SIMBA_ID_MAX - 7 bytes. */
SIMBA_API int simba_id_unique(const char *name, char ret_id[SIMBA_ID_MAX + 1],
                              struct simba_error *error);

/* ---- Owner and state: plain values ----------------------------------------------------------- */

/* Who owns a mutex. An empty id and zeros are nobody. Stores without leases (ZooKeeper) report
 * ttl_at_ms = transition_at_ms = SIMBA_INFINITE. */
struct simba_owner {
    char id[SIMBA_ID_MAX + 1];
    int64_t acquired_at_ms;
    int64_t ttl_at_ms;
    int64_t transition_at_ms;
    uint64_t fence; /* the token of the owner's term, 0 where it is not known */
};

#define SIMBA_OWNER_NONE                                                                           \
    {                                                                                              \
        {0}, 0, 0, 0, 0                                                                            \
    }

SIMBA_API bool simba_owner_is_in_ttl(const struct simba_owner *owner, int64_t now_ms);
SIMBA_API bool simba_owner_is_in_transition(const struct simba_owner *owner, int64_t now_ms);
SIMBA_API bool simba_owner_has_owner(const struct simba_owner *owner, int64_t now_ms);
SIMBA_API bool simba_owner_is_owner(const struct simba_owner *owner, const char *id);
SIMBA_API bool simba_owner_is_in_ttl_of(const struct simba_owner *owner, const char *id,
                                        int64_t now_ms);
SIMBA_API bool simba_owner_is_in_transition_of(const struct simba_owner *owner, const char *id,
                                               int64_t now_ms);

/* A change of ownership. */
struct simba_state {
    struct simba_owner before;
    struct simba_owner after;
};

#define SIMBA_STATE_NONE                                                                           \
    {                                                                                              \
        SIMBA_OWNER_NONE, SIMBA_OWNER_NONE                                                         \
    }

SIMBA_API bool simba_state_is_changed(const struct simba_state *state);
SIMBA_API bool simba_state_is_acquired(const struct simba_state *state, const char *id);
SIMBA_API bool simba_state_is_released(const struct simba_state *state, const char *id);
SIMBA_API bool simba_state_is_owner(const struct simba_state *state, const char *id);
SIMBA_API bool simba_state_is_in_ttl(const struct simba_state *state, const char *id,
                                     int64_t now_ms);

/* ---- Client: the connection to one store ----------------------------------------------------- */

typedef struct simba_client simba_client;

/* Runs callbacks in place of the client's own dispatcher threads. `execute` must arrange for
 * run(argument) to be called exactly once, soon, on some thread. It is called on threads of the
 * client and on those that wait inside the library: it must not block and must not call run()
 * itself before it returns. A thread that has called run() is one of the executor's threads. When
 * such a thread waits inside the library it runs the callbacks itself that it waits for and that
 * the executor has not begun: a stop or close those of its object, an acquire those of its mutex,
 * the close of a client all. So a program with a single thread may call them. While no thread has
 * called run() yet, a thread that has waited for 100 ms does the same. The executor calls run() all
 * the same; it does nothing then, also when the client is closed by that time. */
struct simba_executor {
    void (*execute)(void *user, void (*run)(void *argument), void *argument);
    void *user;
};

struct simba_backend_ops; /* backend.h */

/* Times are milliseconds. A field left as SIMBA_CLIENT_OPTIONS_INIT set it takes the value of the
 * URL or, failing that, the default. */
struct simba_client_options {
    size_t size;
    int64_t ttl_ms;           /* default 10 s */
    int64_t transition_ms;    /* default 6 s; at least twice the drift margin */
    int64_t initial_delay_ms; /* default 0: before the first attempt */
    int64_t jitter_min_ms;    /* default -200 ms, at least -1 s: added to a contender's delay */
    int64_t jitter_max_ms;    /* default 1 s */
    int64_t stop_timeout_ms;  /* default 10 s: how long a stop may take */
    int dispatcher_threads;   /* default 4: the most threads that run callbacks at once */
    struct simba_executor executor;   /* where set, callbacks run there */
    simba_id_generator *id_generator; /* default simba_id_default */
    void *id_user;
    simba_log_fn *log;
    void *log_user;
    enum simba_log_level log_level;
    const struct simba_backend_ops *backend; /* where set, used whatever the URL's scheme */
    /* Default 0: none. From one waiter to the next, where the store has a queue (Redis, memory): in
     * place of the jitter. */
    int64_t turn_ms;
    /* Default false. Opening succeeds also while the store is down or refuses: everything behaves
     * as if the store had gone away after the opening, and owns, reads and works as soon as it can
     * be used. An acquire waits for that, too, within its time-out. What is wrong with the URL
     * itself still fails at once. */
    bool allow_store_down;
};

#define SIMBA_UNSET INT64_MIN
#define SIMBA_CLIENT_OPTIONS_INIT                                                                  \
    {                                                                                              \
        sizeof(struct simba_client_options), SIMBA_UNSET, SIMBA_UNSET, SIMBA_UNSET, SIMBA_UNSET,   \
            SIMBA_UNSET, SIMBA_UNSET, 0, {NULL, NULL}, NULL, NULL, NULL, NULL, SIMBA_LOG_WARN,     \
            NULL, SIMBA_UNSET, false                                                               \
    }

/* Creates a client: `sqlite:PATH`, `memory:NAME` ... with options behind a '?', such as
 * `?ttl=10s&transition=6s&initial-delay=0s&jitter=-200ms..1s&turn=0s&stop-timeout=10s`. A password
 * need not stand in the URL: `?password-file=PATH` and `?password-env=VARIABLE` say where it is.
 * Relative paths in the URL count from the working folder of this call, also when the process has
 * moved to another one. `options` may be NULL. Fails when the URL or the timings are invalid and,
 * unless options->allow_store_down, when the store cannot be used now. Starts the client's
 * threads. */
SIMBA_API int simba_client_open(const char *url, const struct simba_client_options *options,
                                simba_client **ret_client, struct simba_error *error);

/* Creates a client from a configuration file: YAML with the keys of the JVM library, such as
 * `simba.redis.ttl`, and `url`; simba.yaml(5) lists them. Exactly one store must be enabled in it.
 * `options` go before the file. Paths are relative to its folder. A file that other users may write
 * is refused. One that holds a password and that everybody may read is used, with a warning through
 * options->log. SIMBA_EDISABLED: the file says `simba.enabled: false`, so the program should do
 * without. SIMBA_EUNSUPPORTED: the library was built without libyaml. */
SIMBA_API int simba_client_open_config(const char *path, const struct simba_client_options *options,
                                       simba_client **ret_client, struct simba_error *error);

/* Reads a configuration file into the URL that says the same. Of `options`, which may be NULL, only
 * the log hook is used. *ret_url is the caller's, to be given to simba_free; a password of the file
 * is in it, one that the file names by `password-file` or `password-env` is not. */
SIMBA_API int simba_config_read(const char *path, const struct simba_client_options *options,
                                char **ret_url, struct simba_error *error);

#define SIMBA_CONFIG_ORIGIN_MAX 256 /* bytes, with the NUL */

/* The same for a program that opens the client itself, and wants to tell its user where an error
 * comes from. Passwords that the file names must be there. `ret_origin` is where the URL stands,
 * such as "simba.yaml:3:10: simba.redis.url", for errors of the group SIMBA_GROUP_CONFIG that show
 * only when the URL is opened. */
SIMBA_API int simba_config_check(const char *path, const struct simba_client_options *options,
                                 char **ret_url, char ret_origin[SIMBA_CONFIG_ORIGIN_MAX],
                                 struct simba_error *error);

/* As simba_config_read for a configuration in memory, whose paths stay as they are. `name` stands
 * for the file in errors. */
SIMBA_API int simba_config_parse(const char *text, size_t size, const char *name, char **ret_url,
                                 struct simba_error *error);

/* Destroys a client, after all that was made from it has been closed; until then it returns
 * SIMBA_EBUSY and changes nothing. So it does when a callback has not returned within the stop
 * timeout: call it again. Not from a callback (SIMBA_EMISUSE). */
SIMBA_API int simba_client_close(simba_client *client, struct simba_error *error);

/* The two parts of the lease that contenders of this client ask for. */
SIMBA_API int simba_client_lease(simba_client *client, int64_t *ret_ttl_ms,
                                 int64_t *ret_transition_ms);

/* SQLite only. Creates a descriptor that keeps what this client owns: until the client is closed or
 * dead and every such descriptor is closed, others wait for the end of the lease; then the mutex is
 * free at once. A caller that hands the work under a mutex to another program lets that inherit
 * one, by fcntl(fd, F_SETFD, 0) between fork and exec, and closes its own copy. The descriptor is
 * read-only and close-on-exec; the program that has it can give up its own part, but not the
 * client's. It can hide the death of other owners of the same database until their leases end.
 * Returns -1 with errno: ENOTSUP for other stores and before the client has acquired anything. */
SIMBA_API int simba_client_life_fd(simba_client *client);

/* The mutexes on the store and who owns them, in the order of their names. */
struct simba_mutex_status {
    char mutex[SIMBA_MUTEX_MAX + 1];
    struct simba_owner owner; /* an empty id when the mutex is free */
    int64_t waiters;          /* -1 where the store does not know */
};

/* Uses the store. With `mutex` only that one; it is reported as free when the store does not have
 * it. *ret_list is the caller's, to be given to simba_free. Waits at most `timeout_ms`. On Redis a
 * list leaves out what cannot be read, with a warning in the log: foreign data under the keys, or
 * no right to read them. */
SIMBA_API int simba_client_status(simba_client *client, const char *mutex, int64_t timeout_ms,
                                  struct simba_mutex_status **ret_list, size_t *ret_count,
                                  struct simba_error *error);

/* Those who wait for a mutex, the next one first, as the store knows them; none where it knows no
 * order (SQL). Waiters that died may be among them for a while. The rest is as above. */
struct simba_waiter {
    char id[SIMBA_ID_MAX + 1];
};
SIMBA_API int simba_client_queue(simba_client *client, const char *mutex, int64_t timeout_ms,
                                 struct simba_waiter **ret_list, size_t *ret_count,
                                 struct simba_error *error);

/* Takes a mutex away from its owner, for an operator: otherwise an owner that hangs keeps it as
 * long as it renews. Only the term that was seen is ended; its owner loses the mutex at its next
 * renewal, ttl at the latest, and works on until then. The next waiter is woken. *ret_owner: from
 * whom it was taken, with an empty id when it was free. SIMBA_ECONTENDED: the owner changed
 * meanwhile, and nothing was taken. Waits at most `timeout_ms`. */
SIMBA_API int simba_client_force_release(simba_client *client, const char *mutex,
                                         int64_t timeout_ms, struct simba_owner *ret_owner,
                                         struct simba_error *error);

/* ---- Metrics --------------------------------------------------------------------------------- */

#define SIMBA_HISTOGRAM_BUCKETS 32

/* bucket[i] counts durations d with 2^(i-1) us <= d < 2^i us; bucket[0] those under 1 us and the
 * last one all that is longer. */
struct simba_histogram {
    uint64_t count;
    uint64_t sum_us;
    uint64_t bucket[SIMBA_HISTOGRAM_BUCKETS];
};

struct simba_metrics {
    size_t size;
    uint64_t acquisitions;
    uint64_t losses;   /* terms that ended without a stop, or that a stop found gone */
    uint64_t releases; /* mutexes given back */
    uint64_t renewals;
    uint64_t errors;     /* requests that the store did not carry out, or nobody knows */
    uint64_t owned;      /* gauge: mutexes owned now */
    uint64_t contenders; /* gauge: contenders started now */
    struct simba_histogram contention; /* from the start of a contest to its win */
    struct simba_histogram operation;  /* from the sending of a request to its answer */
};

/* Fills in the fields that fit into metrics->size. */
SIMBA_API int simba_client_metrics(simba_client *client, struct simba_metrics *metrics);

/* ---- Contender: takes part in the contest for a mutex ---------------------------------------- */

enum simba_status {
    SIMBA_INITIAL,  /* not started, or stopped */
    SIMBA_STARTING, /* started; the store has not answered yet. Staying here: is it reachable? */
    SIMBA_RUNNING,
    SIMBA_STOPPING
};

/* "INITIAL", "STARTING" ... */
SIMBA_API const char *simba_status_name(enum simba_status status);

/* STARTING or RUNNING. */
SIMBA_API bool simba_status_is_active(enum simba_status status);

typedef struct simba_contender simba_contender;

typedef void simba_state_fn(void *user, const struct simba_state *state);

/* See "The end of a handle" above. */
typedef void simba_closed_fn(void *user);

/* Callbacks of one contender run one at a time, in order. on_acquired and on_released alternate. A
 * slow callback delays neither a renewal nor the loss of a lease that cannot be renewed. Changes
 * that come while a callback runs are told as one, from the first `before` to the last `after`: a
 * term that was lost, or that a stop has ended, before its on_acquired could begin has neither
 * on_acquired nor on_released. An on_released that cannot begin before a stop is given up is
 * dropped. After a loss the contender competes again when its callbacks have returned, not
 * before. */
struct simba_contender_options {
    size_t size;
    const char *mutex;           /* required */
    const char *id;              /* NULL: made by the client's id generator */
    simba_state_fn *on_acquired; /* may be NULL, like the others */
    simba_state_fn *on_released;
    /* Changes of owner, also between others; runs first. A contender that waits hears of them at
     * once where the store pushes them: in memory, on SQLite, Redis and ZooKeeper, and on
     * PostgreSQL those that a release brings; on MySQL within its poll, 200 ms. For that it listens
     * and reads as an observer does; others cost the store nothing more. */
    simba_state_fn *on_notify;
    void *user;
    int64_t ttl_ms; /* SIMBA_UNSET: the client's; the same for the next */
    int64_t transition_ms;
    simba_closed_fn *on_closed; /* the last callback, after close */
    /* The heartbeat of a term: the store has renewed the lease; `before` and `after` are both this
     * contender. A renewal that comes while a callback runs is told when that has returned, several
     * as one. */
    simba_state_fn *on_renewed;
};

#define SIMBA_CONTENDER_OPTIONS_INIT                                                               \
    {                                                                                              \
        sizeof(struct simba_contender_options), NULL, NULL, NULL, NULL, NULL, NULL, SIMBA_UNSET,   \
            SIMBA_UNSET, NULL, NULL                                                                \
    }

SIMBA_API int simba_contender_create(simba_client *client,
                                     const struct simba_contender_options *options,
                                     simba_contender **ret_contender, struct simba_error *error);

/* INITIAL to STARTING. Otherwise SIMBA_ESTATE, and nothing changes. Does not wait for the store.
 * SIMBA_EINVAL: the store is known not to take the name or the id. Where that is found out only
 * later, the contender goes on trying, and logs it as an error. */
SIMBA_API int simba_contender_start(simba_contender *contender, struct simba_error *error);

/* From STARTING or RUNNING, otherwise SIMBA_ESTATE. is_owner turns false at once; on_released runs
 * while the lease is still renewed; when it has returned the mutex is given back, and then stop
 * returns. All that within the stop timeout: past it stop returns SIMBA_ETIMEDOUT and what is left
 * on the store runs out by itself. SIMBA_ELOST: it owned, and its term was gone before the mutex
 * was given back, so that another may have owned while this one still worked; on_released has run
 * once all the same. In each case the contender is INITIAL again and no callback begins any more;
 * past the timeout one that had begun may still run. From inside a callback of this contender it
 * returns at once and the rest follows. */
SIMBA_API int simba_contender_stop(simba_contender *contender, struct simba_error *error);

/* Destroys it; stops it first where needed. In its own callbacks it returns at once, and nothing
 * but on_closed begins any more, no on_released either: the mutex is given back when the callback
 * has returned. */
SIMBA_API void simba_contender_close(simba_contender *contender);

/* Questions about this instant; lock-free and cheap enough for every loop of the work. */
SIMBA_API bool simba_contender_is_owner(const simba_contender *contender);
SIMBA_API bool simba_contender_is_in_ttl(const simba_contender *contender);
SIMBA_API uint64_t simba_contender_fence(const simba_contender *contender); /* 0: not the owner */
SIMBA_API enum simba_status simba_contender_status(const simba_contender *contender);

/* The instant at which this contender stops believing unless a renewal succeeds; 0: not the
 * owner. */
SIMBA_API int64_t simba_contender_deadline_ms(const simba_contender *contender);

/* How long before that instant the renewals begin; 0: not the owner. A store may grant a shorter
 * lease than was asked for, as sessions of ZooKeeper do, and then the window is shorter, too. */
SIMBA_API int64_t simba_contender_window_ms(const simba_contender *contender);

SIMBA_API const char *simba_contender_id(const simba_contender *contender);
SIMBA_API const char *simba_contender_mutex(const simba_contender *contender);

/* What the store said last: `after` is the owner as far as this contender knows, `before` the owner
 * that it knew until then. After a renewal, and when an attempt finds the same owner again, both
 * are the same. A start begins with nobody in both; a stop ends with nobody in `after`, which
 * on_notify is told. Without on_notify a contender that waits learns of changes between others by
 * its own attempts: a lease later at most. Set it, or use an observer, to know at once. */
SIMBA_API void simba_contender_state(simba_contender *contender, struct simba_state *ret_state);

/* What the last request failed with, SIMBA_OK when it did not fail. */
SIMBA_API int simba_contender_last_error(simba_contender *contender, struct simba_error *error);

/* ---- Observer: follows a mutex without competing for it -------------------------------------- */

typedef struct simba_observer simba_observer;

struct simba_observer_options {
    size_t size;
    const char *mutex;         /* required */
    simba_state_fn *on_notify; /* changes of owner or term, as far as the store tells terms apart */
    void *user;
    int64_t poll_ms; /* SIMBA_UNSET: 1 s. The longest time between two looks at the store */
    simba_closed_fn *on_closed; /* the last callback, after close */
};

#define SIMBA_OBSERVER_OPTIONS_INIT                                                                \
    {                                                                                              \
        sizeof(struct simba_observer_options), NULL, NULL, NULL, SIMBA_UNSET, NULL                 \
    }

SIMBA_API int simba_observer_create(simba_client *client,
                                    const struct simba_observer_options *options,
                                    simba_observer **ret_observer, struct simba_error *error);
SIMBA_API int simba_observer_start(simba_observer *observer, struct simba_error *error);
SIMBA_API int simba_observer_stop(simba_observer *observer, struct simba_error *error);
SIMBA_API void simba_observer_close(simba_observer *observer);
SIMBA_API enum simba_status simba_observer_status(const simba_observer *observer);
SIMBA_API const char *simba_observer_mutex(const simba_observer *observer);
SIMBA_API void simba_observer_state(simba_observer *observer, struct simba_state *ret_state);

/* ---- Locker: acquire, work, release ---------------------------------------------------------- */

/* One acquirer at a time, not reentrant: while one thread acquires or holds, another gets
 * SIMBA_EBUSY. The lease is renewed until the release. */
typedef struct simba_locker simba_locker;

/* `id` may be NULL. */
SIMBA_API int simba_locker_create(simba_client *client, const char *mutex, const char *id,
                                  simba_locker **ret_locker, struct simba_error *error);

/* Sets what is called, as a callback, when the lease is lost while it is held: the work should end.
 * Not while it is acquired or held (SIMBA_EBUSY). Release and close wait for it, at most for the
 * stop timeout, unless they are called from it. */
SIMBA_API int simba_locker_on_lost(simba_locker *locker, void (*on_lost)(void *user), void *user,
                                   struct simba_error *error);

/* Sets the last callback, after close. Not while it is acquired or held (SIMBA_EBUSY). */
SIMBA_API int simba_locker_on_closed(simba_locker *locker, simba_closed_fn *on_closed, void *user,
                                     struct simba_error *error);

/* From now on an acquire also ends when the store fails at the first attempt (SIMBA_ESTORE), with a
 * full disk for example: a caller without a limit learns at once that there is nothing to wait for
 * yet. `or_unknown`: also when the outcome is unknown (SIMBA_EUNKNOWN). That is for a store that is
 * a file, where it means a disk that fails; on a server a reply was lost, and the next attempt will
 * tell. An acquire that ends so leaves nothing behind on the store. Not while it is acquired or
 * held (SIMBA_EBUSY). */
SIMBA_API int simba_locker_fail_fast(simba_locker *locker, bool or_unknown,
                                     struct simba_error *error);

/* Waits without a limit. Returns early only with an error that waiting cannot heal. */
SIMBA_API int simba_locker_acquire(simba_locker *locker, struct simba_error *error);

/* Waits at most `timeout_ms`, then returns SIMBA_ETIMEDOUT with nothing left behind on the store,
 * or the store's error when that was why. A store that hangs costs a fifth of a second more; what
 * it may have granted meanwhile is given back when it answers, or runs out. */
SIMBA_API int simba_locker_acquire_timeout(simba_locker *locker, int64_t timeout_ms,
                                           struct simba_error *error);

/* One attempt: SIMBA_OK, or SIMBA_ECONTENDED when somebody else owns. */
SIMBA_API int simba_locker_try_acquire(simba_locker *locker, struct simba_error *error);

/* Ends the acquire that a thread is in, which then returns SIMBA_ECANCELED unless it has won. When
 * no thread is in one and the mutex is not held, it ends the next acquire, at once: a thread that
 * is about to acquire does not miss it. Harmless while the mutex is held. Not async-signal-safe.
 * (pthread_cancel has no effect on a thread until its acquire returns.) */
SIMBA_API void simba_locker_cancel(simba_locker *locker);

/* Gives the mutex back. SIMBA_ELOST when the lease had been lost before, also when only the store
 * knew: somebody took the mutex away, or the store lost its data, and another may have owned
 * meanwhile. A release whose first answer was lost on the way may not find out. SIMBA_ESTATE when
 * it was never acquired. In each case it is not held afterwards. */
SIMBA_API int simba_locker_release(simba_locker *locker, struct simba_error *error);

/* Lock-free. */
SIMBA_API bool simba_locker_is_held(const simba_locker *locker);
SIMBA_API uint64_t simba_locker_fence(const simba_locker *locker);
SIMBA_API int64_t simba_locker_deadline_ms(const simba_locker *locker);
SIMBA_API int64_t simba_locker_window_ms(const simba_locker *locker);

SIMBA_API const char *simba_locker_id(const simba_locker *locker);
SIMBA_API const char *simba_locker_mutex(const simba_locker *locker);

/* Who owns as far as the locker knows. */
SIMBA_API void simba_locker_owner(simba_locker *locker, struct simba_owner *ret_owner);

/* Destroys it; releases first where needed. No thread may be in an acquire. */
SIMBA_API void simba_locker_close(simba_locker *locker);

/* ---- Scheduler: periodic work on the leader only --------------------------------------------- */

enum simba_schedule_strategy {
    /* At initial_delay + n * period after the acquisition. A run that falls due while another one
     * is still running is skipped, so runs neither overlap nor pile up, and the rhythm stays. */
    SIMBA_FIXED_RATE,
    /* `period` after the end of the run before. */
    SIMBA_FIXED_DELAY
};

typedef struct simba_scheduler simba_scheduler;

/* Does the work once. A return value other than 0 is counted and logged, and the schedule goes on.
 * Long work asks simba_scheduler_should_stop() from time to time. All runs of a term are on one
 * thread, which a scheduler has while it leads; so long work delays no callbacks. If the system
 * gives no thread, the work waits until it does, at most a second longer, and the log says so as an
 * error. With an executor they run there. */
typedef int simba_work_fn(void *user, simba_scheduler *scheduler);

struct simba_scheduler_options {
    size_t size;
    const char *mutex;   /* required */
    const char *id;      /* may be NULL */
    const char *worker;  /* names the work in logs, and its thread by 15 bytes; NULL: the mutex */
    simba_work_fn *work; /* required */
    void *user;
    enum simba_schedule_strategy strategy;
    int64_t initial_delay_ms;
    int64_t period_ms;          /* required, more than 0 */
    simba_closed_fn *on_closed; /* the last callback, after close */
};

#define SIMBA_SCHEDULER_OPTIONS_INIT                                                               \
    {                                                                                              \
        sizeof(struct simba_scheduler_options), NULL, NULL, NULL, NULL, NULL, SIMBA_FIXED_RATE, 0, \
            0, NULL                                                                                \
    }

SIMBA_API int simba_scheduler_create(simba_client *client,
                                     const struct simba_scheduler_options *options,
                                     simba_scheduler **ret_scheduler, struct simba_error *error);
SIMBA_API int simba_scheduler_start(simba_scheduler *scheduler, struct simba_error *error);

/* A run that is under way is waited for, within the stop timeout, before the mutex is given back.
 * Otherwise as simba_contender_stop, also SIMBA_ELOST. */
SIMBA_API int simba_scheduler_stop(simba_scheduler *scheduler, struct simba_error *error);
SIMBA_API void simba_scheduler_close(simba_scheduler *scheduler);

/* True when the work under way should end: leadership is lost, or a stop waits for it. Lock-free.
 * While a run is under way this question and the next two are about the term in which it began, on
 * every thread: work that outlasts a stop which was given up is told to end after a restart, too,
 * and gets no token (0). */
SIMBA_API bool simba_scheduler_should_stop(const simba_scheduler *scheduler);

SIMBA_API bool simba_scheduler_is_leader(const simba_scheduler *scheduler);
SIMBA_API uint64_t simba_scheduler_fence(const simba_scheduler *scheduler);
SIMBA_API enum simba_status simba_scheduler_status(const simba_scheduler *scheduler);
SIMBA_API const char *simba_scheduler_id(const simba_scheduler *scheduler);
SIMBA_API const char *simba_scheduler_mutex(const simba_scheduler *scheduler);

struct simba_scheduler_counts {
    uint64_t runs;
    uint64_t failures; /* runs that returned other than 0 */
    uint64_t skipped;  /* runs that fell due while another was running, or waited for a thread */
};

/* Named like its struct, as stat() is: in C++ that hides a constructor which nobody calls. */
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif
SIMBA_API void simba_scheduler_counts(const simba_scheduler *scheduler,
                                      struct simba_scheduler_counts *ret_counts);
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

/* ---- Contend period: when to try next -------------------------------------------------------- */

/* The delays between attempts, as the library computes them. `random` is any 64-bit number. Owner:
 * ttl_at - now. Contender: transition_at - now + jitter, the jitter drawn evenly from [jitter_min,
 * jitter_max), its lower bound raised to 0 when `transition_ms` is 0. Never negative. */
SIMBA_API int64_t simba_period_owner_delay_ms(const struct simba_owner *owner, int64_t now_ms);
SIMBA_API int64_t simba_period_contender_delay_ms(const struct simba_owner *owner, int64_t now_ms,
                                                  int64_t transition_ms, int64_t jitter_min_ms,
                                                  int64_t jitter_max_ms, uint64_t random);

/* The drift margin of a lease: how much earlier than the store the owner stops believing. */
SIMBA_API int64_t simba_drift_margin_ms(int64_t lease_ms);

/* ---- Scope-bound handles for GCC and Clang --------------------------------------------------- */

#if defined(__GNUC__)
SIMBA_API void simba_client_cleanup(simba_client **client);
SIMBA_API void simba_contender_cleanup(simba_contender **contender);
SIMBA_API void simba_locker_cleanup(simba_locker **locker);
SIMBA_API void simba_observer_cleanup(simba_observer **observer);
SIMBA_API void simba_scheduler_cleanup(simba_scheduler **scheduler);

/* SIMBA_SCOPED(locker) simba_locker *lock = NULL; ... released and closed when the scope ends. */
#define SIMBA_SCOPED(noun) __attribute__((cleanup(simba_##noun##_cleanup)))
#endif

#ifdef __cplusplus
}
#endif

#endif
