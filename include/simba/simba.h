/*
 * simba.h - distributed locks and leader election on a store that several processes share.
 *
 * Contenders compete for a named mutex. The store grants the winner, the owner, a lease:
 *
 *     acquired_at           ttl_at                               transition_at
 *        |-- ttl: no renewal --|-- transition: only the owner may renew --|  others may acquire
 *
 * The owner renews its lease at ttl_at, releases it, or loses it. An owner that cannot renew stops
 * believing that it owns, by its own clock, before another contender can own.
 *
 * What to use
 *  - A locker to hold a mutex while a thread works: acquire, work, release.
 *  - A contender for a service that leads for as long as it can, told by callbacks.
 *  - A scheduler for periodic work that only the leader does.
 *  - An observer to follow the owner without competing.
 *  - Events instead of callbacks, for event loops and other languages: see "Events".
 *
 * Conventions
 *  - Functions return SIMBA_OK (0) or a negative SIMBA_E... code. `error` may be NULL; on failure
 *    it receives the code and a sentence.
 *  - A missing handle, argument or ret_ pointer is SIMBA_EMISUSE; a missing name or text is
 *    SIMBA_EINVAL. A comment says where NULL is allowed. Functions that return a value instead of a
 *    code must not be passed a NULL handle.
 *  - A handle is no address. One that was closed may be used: see "Closed handles" below. A process
 *    has 1,048,576 at a time; then SIMBA_ENOMEM. A set takes one more for each mutex; a semaphore
 *    one more, and one for each slot.
 *  - Results come through ret_ parameters, which stay untouched on failure.
 *  - The library copies strings that it is given. Strings that it passes to a callback are valid
 *    until the callback returns.
 *  - Any thread may call any function, unless its comment says otherwise.
 *  - A struct that begins with its size may grow: initialise it with its ..._INIT macro. All other
 *    structs keep their layout for as long as the major version stays the same.
 *  - Times named ..._at_ms and deadlines are milliseconds on the clock of simba_now_ms(), which is
 *    not the wall clock. Durations are milliseconds, too.
 *
 * Callbacks run on threads of the client, or on the application's executor. Callbacks of one object
 * run one at a time, in order. A callback may call into the library, except simba_client_close.
 *
 * Close: one rule for locker, contender, scheduler and observer
 *  - When close has returned, no callback of the object runs and none begins. Exceptions:
 *     - Close does not wait for the callback that it is called from.
 *     - Close waits for a callback at most for the stop timeout.
 *    In both cases only that callback still runs, and the object stays valid inside it.
 *  - on_closed is the last callback, once for each close. The application may free `user` when
 *    on_closed returns.
 *  - Close takes NULL. A second close does nothing.
 *  - Other threads may be inside calls with the handle. An acquire ends with SIMBA_ECLOSED, unless
 *    it has won; other calls end as usual. Close does not wait for them.
 *  - Close all objects of a client before the client. A client that was closed (SIMBA_OK) calls
 *    nothing of the application any more: no callback, no log function, no executor.
 *
 * Closed handles: from the beginning of a close on, on any thread
 *  - functions that return a code answer SIMBA_ECLOSED, except those that only ask:
 *    simba_contender_last_error and simba_scheduler_counts answer it when the close is over,
 *  - functions that answer a question say "no" when the close is over: false, 0, SIMBA_INITIAL,
 *    nobody, an empty text, -1 for a slot or a descriptor; simba_scheduler_should_stop says true,
 *  - cancel and close do nothing, and do not wait for the first close; simba_client_close answers
 *    SIMBA_ECLOSED.
 * The close of an object is over when it returns or, in the two exceptions above, when that
 * callback has returned. Texts that a handle has told, such as its id, are freed with the object.
 *
 * Fork: the handles of the parent are dead in the child. Calls return SIMBA_EFORKED, questions
 * answer "no", close does nothing. The child may open clients of its own; but not of SQLite if its
 * parent had an SQLite client open at the fork (SIMBA_EFORKED). So fork before the first client is
 * opened, or exec. A `memory:` store of the parent is not the child's. A child that was forked in a
 * callback must not return from it.
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

#define SIMBA_MUTEX_MAX 264      /* bytes in the name of a mutex; SQL servers take 66 characters */
#define SIMBA_ID_MAX 128         /* bytes in the id of a contender */
#define SIMBA_INFINITE INT64_MAX /* a time that never comes, a wait without limit */
#define SIMBA_UNSET INT64_MIN    /* an option that takes its default */

/* The version of the library that is running, such as "0.1.0". */
SIMBA_API const char *simba_version(void);

/* ---- Errors ---------------------------------------------------------------------------------- */

/* What the caller should do about an error. */
enum simba_error_group {
    SIMBA_GROUP_NONE,        /* no error */
    SIMBA_GROUP_MISUSE,      /* the program is wrong: fix the call */
    SIMBA_GROUP_CONTENDED,   /* another contender owns, or the time ran out: try later */
    SIMBA_GROUP_LOST,        /* the lease was held and is lost: stop the work */
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
    X(ECLOSED, -7, MISUSE, "the handle is closed")                                                 \
    X(ECONTENDED, -10, CONTENDED, "another contender owns the mutex")                              \
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
    int backend_code; /* the store's own number, 0 if it has none */
    char text[512];   /* a sentence that names the value and the rule; cut in its middle if long */
};

/* A fixed text for a code. Never NULL, never freed. */
SIMBA_API const char *simba_strerror(int code);

SIMBA_API enum simba_error_group simba_error_group(int code);

/* ---- Client: the connection to one store ----------------------------------------------------- */

typedef struct simba_client simba_client;

enum simba_log_level {
    SIMBA_LOG_NONE,
    SIMBA_LOG_ERROR,
    SIMBA_LOG_WARN,
    SIMBA_LOG_INFO,
    SIMBA_LOG_DEBUG
};

/* Receives one line without a newline. The client calls it on any of its threads, and on threads
 * that wait inside the library. It must be thread-safe, must not block for long and must not call
 * into the library. */
typedef void simba_log_fn(void *user, enum simba_log_level level, const char *line);

/* Writes the id of a new contender; see simba_id_default below. Called on the thread that creates a
 * contender, locker or scheduler, which fails with the code that it returns. */
typedef int simba_id_generator(void *user, char ret_id[SIMBA_ID_MAX + 1]);

struct simba_executor;    /* below: where callbacks run */
struct simba_backend_ops; /* backend.h: a store of the application */

/* An option goes before the URL's parameter, and that before the default. */
struct simba_client_options {
    size_t size;
    int64_t ttl_ms;           /* default 10 s: the first part of the lease, without requests */
    int64_t transition_ms;    /* default 6 s, at least two drift margins: the time to renew */
    int64_t initial_delay_ms; /* default 0: from a start to the first attempt */
    int64_t jitter_min_ms;    /* default -200 ms, at least -1 s: a random delay that spreads */
    int64_t jitter_max_ms;    /* default 1 s: the attempts of waiting contenders */
    int64_t turn_ms;          /* default 5 ms: instead of the jitter, a delay for each waiter that
                                 is ahead in the store's queue; 0: none */
    int64_t stop_timeout_ms;  /* default 10 s: how long a stop, release or close may take */
    int dispatcher_threads;   /* 0 is the default, 4: the most callbacks that run at once */

    /* Default false: opening fails if the store cannot be used now. True: opening succeeds also
     * while the store is down or refuses, and objects behave as if it had gone down later. An
     * acquire waits for the store within its time-out. A wrong URL still fails at once. */
    bool allow_store_down;

    simba_id_generator *id_generator; /* default simba_id_default */
    void *id_user;                    /* passed to id_generator */
    simba_log_fn *log;                /* NULL: no log */
    void *log_user;                   /* passed to log */
    enum simba_log_level log_level;   /* default SIMBA_LOG_WARN: the least important that is told */

    const struct simba_executor *executor;   /* copied; NULL: the client's own threads */
    const struct simba_backend_ops *backend; /* not copied; NULL: the URL's scheme decides */

    /* True: the client calls nothing back; the application takes events. See "Events" below. */
    bool pull_events;
};

#define SIMBA_CLIENT_OPTIONS_INIT                                                                  \
    {                                                                                              \
        sizeof(struct simba_client_options), SIMBA_UNSET, SIMBA_UNSET, SIMBA_UNSET, SIMBA_UNSET,   \
            SIMBA_UNSET, SIMBA_UNSET, SIMBA_UNSET, 0, false, NULL, NULL, NULL, NULL,               \
            SIMBA_LOG_WARN, NULL, NULL, false                                                      \
    }

/* Creates a client and starts its threads. The caller closes it with simba_client_close. `options`
 * may be NULL. The URL is `sqlite:PATH`, `redis://HOST` ... with parameters such as
 * `?ttl=10s&transition=6s&initial-delay=0s&jitter=-200ms..1s&turn=5ms&stop-timeout=10s`. A password
 * need not stand in it: `?password-file=PATH` and `?password-env=VARIABLE` say where it is.
 * Relative paths count from the working folder at the time of this call. Waits for the store. Fails
 * if the URL or a time is invalid and, unless options->allow_store_down, if the store cannot be
 * used. */
SIMBA_API int simba_client_open(const char *url, const struct simba_client_options *options,
                                simba_client **ret_client, struct simba_error *error);

/* Creates a client from a configuration file: YAML with the keys of the JVM library, such as
 * `simba.redis.ttl`, and `url`; simba.yaml(5) lists them. The file must enable exactly one store.
 * `options`, which may be NULL, go before the file. Paths are relative to its folder. A file that
 * other users may write is refused. A file with a password that everybody may read is used, with a
 * warning in the log.
 *   SIMBA_EDISABLED     the file says `simba.enabled: false`: the program should do without
 *   SIMBA_EUNSUPPORTED  the library was built without libyaml */
SIMBA_API int simba_client_open_config(const char *path, const struct simba_client_options *options,
                                       simba_client **ret_client, struct simba_error *error);

/* Destroys a client. NULL is allowed. Waits for calls of other threads with the client; questions
 * to the store end with SIMBA_ECLOSED.
 *   SIMBA_EBUSY    an object of the client is open, and nothing has changed; or a callback of a
 *                  closed object did not return within the stop timeout: call again
 *   SIMBA_EMISUSE  called from a callback, or from the id generator
 *   SIMBA_ECLOSED  it is closed, or another thread closes it */
SIMBA_API int simba_client_close(simba_client *client, struct simba_error *error);

/* ---- Locker: acquire, work, release ---------------------------------------------------------- */

/* One acquirer at a time, not reentrant: while one thread acquires or holds, another gets
 * SIMBA_EBUSY. The client renews the lease until the release. A lost lease is not won back. */
typedef struct simba_locker simba_locker;

typedef void simba_lost_fn(void *user);

/* The last callback of an object; see "Close" above. */
typedef void simba_closed_fn(void *user);

/* An owner is asked to hand over. `request` is valid until the callback returns. */
struct simba_handover;
typedef void simba_handover_fn(void *user, const struct simba_handover *request);

struct simba_locker_options {
    size_t size;
    const char *mutex;          /* required */
    const char *id;             /* NULL: the client's id generator makes one */
    simba_lost_fn *on_lost;     /* the lease was lost while it was held: end the work. Release and
                                   close wait for it as "Close" says. NULL: none */
    simba_closed_fn *on_closed; /* NULL: none */
    void *user;                 /* passed to both */

    /* True: an acquire also ends if the store fails at the first attempt (SIMBA_ESTORE), with a
     * full disk for example. Otherwise it goes on trying within its time-out. */
    bool fail_fast;

    /* With fail_fast: also if the outcome of the first attempt is unknown (SIMBA_EUNKNOWN). For a
     * store that is a file, where that means a disk that fails. On a server it means a lost reply,
     * and the next attempt will tell. */
    bool fail_fast_unknown;

    /* Somebody asks for the mutex while it is held: end the work soon and release it. The thread
     * that works may ask simba_locker_handover_asked instead. See "Hand-over" below. NULL: this
     * locker does not take part in hand-overs, and nothing is read for them. */
    simba_handover_fn *on_handover;

    /* True: simba_locker_detach will be called. The creation fails with SIMBA_EUNSUPPORTED on a
     * store where a lease cannot outlive its client: on ZooKeeper the session is the lease. */
    bool detachable;

    /* Of a set: it holds none of its mutexes while it waits for one of them. See "Several mutexes"
     * below. */
    bool no_hold;

    unsigned pull; /* with pull_events: 0 or SIMBA_PULL_HANDOVER */
};

#define SIMBA_LOCKER_OPTIONS_INIT                                                                  \
    {                                                                                              \
        sizeof(struct simba_locker_options), NULL, NULL, NULL, NULL, NULL, false, false, NULL,     \
            false, false, 0                                                                        \
    }

/* Creates a locker. The caller closes it with simba_locker_close. Does not use the store. */
SIMBA_API int simba_locker_create(simba_client *client, const struct simba_locker_options *options,
                                  simba_locker **ret_locker, struct simba_error *error);

/* Waits until the mutex is acquired. Fails early only with an error that waiting cannot heal: wrong
 * credentials, a name that the store does not take, a cancel, and what fail_fast says. An acquire
 * that fails leaves nothing on the store. */
SIMBA_API int simba_locker_acquire(simba_locker *locker, struct simba_error *error);

/* The same for at most `timeout_ms`; then SIMBA_ETIMEDOUT, or the store's error if that was the
 * reason. A store that hangs costs a fifth of a second more; what it grants later is released when
 * it answers, or expires. */
SIMBA_API int simba_locker_acquire_timeout(simba_locker *locker, int64_t timeout_ms,
                                           struct simba_error *error);

/* One attempt. SIMBA_ECONTENDED: another contender owns. */
SIMBA_API int simba_locker_try_acquire(simba_locker *locker, struct simba_error *error);

/* Ends the acquire that another thread is in, with SIMBA_ECANCELED unless it has won. If no thread
 * is in one and the mutex is not held, the next acquire ends at once: a thread that is about to
 * acquire does not miss the cancel. No effect while the mutex is held. Not async-signal-safe.
 * (pthread_cancel has no effect on a thread until its acquire returns.) */
SIMBA_API void simba_locker_cancel(simba_locker *locker);

/* Releases the mutex, which is not held afterwards, whatever the result.
 *   SIMBA_ELOST   the lease was lost before, also if only the store knew: the mutex was taken away,
 *                 or the store lost its data. Another contender may have owned meanwhile. A release
 *                 whose first answer was lost may not notice.
 *   SIMBA_ESTATE  it was not acquired */
SIMBA_API int simba_locker_release(simba_locker *locker, struct simba_error *error);

/* Leaves the mutex to the caller, who keeps mutex, id and token: the locker does not hold it any
 * more, and nobody renews it. simba_client_renew gives it a lease of any length, simba_client_end
 * releases it, in this process or another. Call the first at once: until then the lease is that of
 * the locker, and on SQLite it ends with this client.
 *   SIMBA_ELOST   the lease was lost before
 *   SIMBA_ESTATE  it was not acquired, or the locker is not `detachable` */
SIMBA_API int simba_locker_detach(simba_locker *locker, struct simba_error *error);

/* Destroys a locker; releases first if needed. Ends the acquire that another thread is in. */
SIMBA_API void simba_locker_close(simba_locker *locker);

/* Answers for this instant. Lock-free, cheap enough for every step of the work. */
SIMBA_API bool simba_locker_is_held(const simba_locker *locker);
SIMBA_API uint64_t simba_locker_fence(const simba_locker *locker); /* 0: not held */
SIMBA_API int64_t simba_locker_place(const simba_locker *locker);  /* as for a contender */

/* The same as for a contender. */
SIMBA_API int64_t simba_locker_deadline_ms(const simba_locker *locker);
SIMBA_API int64_t simba_locker_window_ms(const simba_locker *locker);
SIMBA_API bool simba_locker_handover_asked(simba_locker *locker,
                                           struct simba_handover *ret_request);

/* Valid until the locker is closed. */
SIMBA_API const char *simba_locker_id(const simba_locker *locker);
SIMBA_API const char *simba_locker_mutex(const simba_locker *locker);

/* The owner as far as the locker knows, also after an acquire that failed. */
struct simba_owner;
SIMBA_API void simba_locker_owner(simba_locker *locker, struct simba_owner *ret_owner);

/* ---- Several mutexes: semaphores and sets ---------------------------------------------------- */

/* Both make a locker: acquire, cancel, release, close, the questions and the callbacks are those
 * above. Each of the mutexes has its own lease and its own token. simba_locker_detach is not for
 * them (SIMBA_ESTATE). Semaphores need a store that keeps properties: all of this library do. */

#define SIMBA_SLOTS_MAX 256 /* of a semaphore */
#define SIMBA_SET_MAX 64    /* mutexes in a set */

/* Creates a locker of one slot out of `slots`: at most that many hold one at any instant, and they
 * get one in the order in which they came, as far as the store keeps the order of waiters. A slot
 * is the mutex "NAME#0", "NAME#1" ..., where NAME is options->mutex, which must not end so itself.
 * NAME is the gate: its owner is the first in line.
 *
 * The store remembers `slots` from the first acquire on. The first acquire of a locker that was
 * created with another number fails with SIMBA_EINVAL, and the error names both. Later the locker
 * follows the store. `timeout_ms` of an acquire is for all of it. simba_locker_mutex is NAME. */
SIMBA_API int simba_semaphore_create(simba_client *client, int slots,
                                     const struct simba_locker_options *options,
                                     simba_locker **ret_locker, struct simba_error *error);

/* The slot that is held, from 0; -1: none, or it is no semaphore. Lock-free. */
SIMBA_API int simba_locker_slot(const simba_locker *locker);

/* How many slots the store remembers; 0: it knows no such semaphore. Waits at most `timeout_ms`.
 * Fails as simba_client_property_get. */
SIMBA_API int simba_semaphore_slots(simba_client *client, const char *name, int64_t timeout_ms,
                                    int *ret_slots, struct simba_error *error);

/* Changes the number. Waiters hear of more slots within a second. Of fewer, a holder of a slot that
 * there is no more keeps it until it releases it. SIMBA_ENOTFOUND: the store knows no such
 * semaphore. Waits at most twice `timeout_ms`. */
SIMBA_API int simba_semaphore_resize(simba_client *client, const char *name, int slots,
                                     int64_t timeout_ms, struct simba_error *error);

/* Creates a locker of all the mutexes, which holds all of them or none. It acquires them in the
 * order of their names, so that sets wait for each other in no circle. While it waits for one it
 * keeps those that come before it; with options->no_hold it waits for one and keeps none: then it
 * tries the others, and if one of those is taken, it releases all, pauses for at most half a
 * second, and waits for that one.
 *
 * options->mutex is not used. The loss of one of the mutexes is the loss of the set: is_held is
 * false, on_lost runs once, and the rest stays with the locker until it is released. The deadline
 * is the earliest of all. simba_locker_mutex is all names, with blanks between them. A name that
 * stands there twice is SIMBA_EINVAL. */
SIMBA_API int simba_locker_create_set(simba_client *client, const char *const *mutexes,
                                      size_t count, const struct simba_locker_options *options,
                                      simba_locker **ret_locker, struct simba_error *error);

/* The token of one of the mutexes of a set; 0: the set is not held, or the mutex is not in it.
 * simba_locker_fence is that of the first name. Lock-free. */
SIMBA_API uint64_t simba_locker_fence_of(const simba_locker *locker, const char *mutex);

/* ---- Contender: competes for a mutex and leads while it owns --------------------------------- */

typedef struct simba_contender simba_contender;

enum simba_status {
    SIMBA_INITIAL,  /* not started, or stopped */
    SIMBA_STARTING, /* started; the store has not answered yet. If it stays: is it reachable? */
    SIMBA_RUNNING,
    SIMBA_STOPPING
};

/* "INITIAL", "STARTING" ... */
SIMBA_API const char *simba_status_name(enum simba_status status);

/* STARTING or RUNNING. */
SIMBA_API bool simba_status_is_active(enum simba_status status);

/* Receives a change of owner. `state` is valid until the callback returns. */
struct simba_state;
typedef void simba_state_fn(void *user, const struct simba_state *state);

/* on_acquired and on_released alternate. A slow callback delays neither a renewal nor the loss of a
 * lease that cannot be renewed. Changes that come while a callback runs are told as one, from the
 * first `before` to the last `after`. So these have neither on_acquired nor on_released:
 *  - a term that was lost before its on_acquired could begin,
 *  - a term that a stop ended before its on_acquired could begin.
 * An on_released that cannot begin within the stop timeout is dropped. After a loss the contender
 * competes again when its callbacks have returned. An on_notify about others holds up no attempt:
 * if the contender wins meanwhile, on_acquired follows it. */
struct simba_contender_options {
    size_t size;
    const char *mutex;           /* required */
    const char *id;              /* NULL: the client's id generator makes one */
    simba_state_fn *on_acquired; /* this contender owns: begin the work. NULL: none */
    simba_state_fn *on_released; /* it does not own any more, or is being stopped: end the work */

    /* The store has renewed the lease; `before` and `after` are both this contender. Renewals that
     * come while a callback runs are told as one when it has returned. NULL: none. */
    simba_state_fn *on_renewed;

    /* The owner changed, also between other contenders; runs before the others. A waiting contender
     * learns of a change at once in memory, on SQLite, Redis and ZooKeeper, and of a release on
     * PostgreSQL; within a second on MySQL. For that it reads and listens as an observer does.
     * NULL: none, and no such reads. */
    simba_state_fn *on_notify;

    simba_closed_fn *on_closed; /* NULL: none */
    void *user;                 /* passed to all callbacks */
    int64_t ttl_ms;             /* SIMBA_UNSET: the client's */
    int64_t transition_ms;      /* SIMBA_UNSET: the client's */

    /* Somebody asks this owner to hand the mutex over: end the work, stop the contender, and start
     * it again a while later. See "Hand-over" below. NULL: this contender does not take part in
     * hand-overs, and nothing is read for them. */
    simba_handover_fn *on_handover;

    /* From 0; see simba_contender_set_priority. When a contender with a priority above 0 has waited
     * for priority_after_ms without a failure, it asks the owner to hand over to it. Owners that
     * take part give way to a higher priority than their own. */
    int priority;
    int64_t priority_after_ms; /* SIMBA_UNSET: 30 s */

    /* With pull_events: which of SIMBA_PULL_NOTIFIED, SIMBA_PULL_RENEWED and SIMBA_PULL_HANDOVER it
     * tells beside ACQUIRED, RELEASED, STOPPED and CLOSED. */
    unsigned pull;
};

#define SIMBA_CONTENDER_OPTIONS_INIT                                                               \
    {                                                                                              \
        sizeof(struct simba_contender_options), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,    \
            SIMBA_UNSET, SIMBA_UNSET, NULL, 0, SIMBA_UNSET, 0                                      \
    }

/* Creates a contender, which is INITIAL. The caller closes it with simba_contender_close. */
SIMBA_API int simba_contender_create(simba_client *client,
                                     const struct simba_contender_options *options,
                                     simba_contender **ret_contender, struct simba_error *error);

/* Begins to compete: INITIAL becomes STARTING. Does not wait for the store.
 *   SIMBA_ESTATE  it is not INITIAL; nothing changes
 *   SIMBA_EINVAL  the store is known not to take the name or the id. If that is found out later,
 *                 the contender goes on trying and logs an error */
SIMBA_API int simba_contender_start(simba_contender *contender, struct simba_error *error);

/* Ends the contest and waits, at most for the stop timeout:
 *  1. is_owner is false at once.
 *  2. on_released runs if it owned. The client renews the lease meanwhile.
 *  3. The client releases the mutex. The contender is INITIAL again, no callback begins any more.
 * From inside a callback of this contender stop returns at once, and the rest follows.
 *   SIMBA_ESTATE     it is neither STARTING nor RUNNING
 *   SIMBA_ETIMEDOUT  not done within the stop timeout: it is INITIAL, a callback may still run, and
 *                    what is left on the store expires
 *   SIMBA_ELOST      the term was gone before the release, so another contender may have owned
 *                    while this one still worked; on_released has run once all the same */
SIMBA_API int simba_contender_stop(simba_contender *contender, struct simba_error *error);

/* Begins the same and does not wait. A client with pull_events tells its end by
 * SIMBA_EVENT_STOPPED; otherwise ask simba_contender_status. */
SIMBA_API int simba_contender_begin_stop(simba_contender *contender, struct simba_error *error);

/* Destroys a contender; stops it first if needed. In its own callbacks close returns at once, no
 * on_released follows, and the client releases the mutex when the callback has returned. */
SIMBA_API void simba_contender_close(simba_contender *contender);

/* Answers for this instant. Lock-free, cheap enough for every step of the work. */
SIMBA_API bool simba_contender_is_owner(const simba_contender *contender);
SIMBA_API bool simba_contender_is_in_ttl(const simba_contender *contender);
SIMBA_API enum simba_status simba_contender_status(const simba_contender *contender);

/* The token of the term: each later term of the mutex has a larger one. 0: not the owner. */
SIMBA_API uint64_t simba_contender_fence(const simba_contender *contender);

/* The place in the store's wait queue, from 1, as the last attempt to acquire was told it; the next
 * one is made when the lease of the owner ends, at the latest. 0: it does not wait, or the store
 * does not know. */
SIMBA_API int64_t simba_contender_place(const simba_contender *contender);

/* When this contender stops believing that it owns, unless a renewal succeeds. 0: not the owner. */
SIMBA_API int64_t simba_contender_deadline_ms(const simba_contender *contender);

/* How long before the deadline the renewals begin. 0: not the owner. Shorter if the store grants a
 * shorter lease than was asked for, as sessions of ZooKeeper do. */
SIMBA_API int64_t simba_contender_window_ms(const simba_contender *contender);

/* Whether this owner is asked to hand over, by a request that has been heard. It stays true until
 * the term ends. Where the mutex was to pass to another waiter than this one, it is true already
 * when on_acquired begins. Without on_handover it is always false. `ret_request` may be NULL. */
SIMBA_API bool simba_contender_handover_asked(simba_contender *contender,
                                              struct simba_handover *ret_request);

/* Changes the priority, from 0, of a contender with on_handover. For a host that is not well, say:
 * with 0 it asks no owner to hand over. */
SIMBA_API int simba_contender_set_priority(simba_contender *contender, int priority,
                                           struct simba_error *error);

/* Valid until the contender is closed. */
SIMBA_API const char *simba_contender_id(const simba_contender *contender);
SIMBA_API const char *simba_contender_mutex(const simba_contender *contender);

/* What the store said last: `after` is the owner, `before` the owner until then. Both are the same
 * after a renewal, and when an attempt finds the same owner again. A start begins with nobody in
 * both; a stop ends with nobody in `after`, and tells on_notify. Without on_notify a waiting
 * contender learns of changes by its own attempts, at most a lease later. */
SIMBA_API void simba_contender_state(simba_contender *contender, struct simba_state *ret_state);

/* Returns what the last request failed with, SIMBA_OK if it did not fail. */
SIMBA_API int simba_contender_last_error(simba_contender *contender, struct simba_error *error);

/* ---- Scheduler: periodic work on the leader only --------------------------------------------- */

typedef struct simba_scheduler simba_scheduler;

enum simba_schedule_strategy {
    /* At initial_delay + n * period after the acquisition. A run that falls due during another run
     * is skipped: runs neither overlap nor pile up, and the rhythm stays. */
    SIMBA_FIXED_RATE,
    /* `period` after the end of the last run. */
    SIMBA_FIXED_DELAY
};

/* Does the work once. Return 0; another value is counted and logged, and the schedule goes on. Long
 * work asks simba_scheduler_should_stop from time to time. All runs of a term are on one thread,
 * which a scheduler has while it leads, so long work delays no callbacks. If the system gives no
 * thread, the log says so as an error, and the work waits until there is one, at most a second
 * longer. With an executor the runs take place there. */
typedef int simba_work_fn(void *user, simba_scheduler *scheduler);

struct simba_scheduler_options {
    size_t size;
    const char *mutex;          /* required */
    const char *id;             /* NULL: the client's id generator makes one */
    const char *worker;         /* name in logs, and of the thread (15 bytes); NULL: the mutex */
    simba_work_fn *work;        /* required */
    simba_closed_fn *on_closed; /* NULL: none */
    void *user;                 /* passed to both */
    enum simba_schedule_strategy strategy;
    int64_t initial_delay_ms; /* from an acquisition to the first run */
    int64_t period_ms;        /* required, more than 0 */

    /* As of a contender. simba_scheduler_should_stop turns true at once, and no run begins any
     * more; the callback follows the run under way, and stops the scheduler. */
    simba_handover_fn *on_handover;
};

#define SIMBA_SCHEDULER_OPTIONS_INIT                                                               \
    {                                                                                              \
        sizeof(struct simba_scheduler_options), NULL, NULL, NULL, NULL, NULL, NULL,                \
            SIMBA_FIXED_RATE, 0, 0, NULL                                                           \
    }

/* Creates a scheduler, which is INITIAL. The caller closes it with simba_scheduler_close. */
SIMBA_API int simba_scheduler_create(simba_client *client,
                                     const struct simba_scheduler_options *options,
                                     simba_scheduler **ret_scheduler, struct simba_error *error);

/* As simba_contender_start. */
SIMBA_API int simba_scheduler_start(simba_scheduler *scheduler, struct simba_error *error);

/* As simba_contender_stop: the mutex is released when the run under way has returned. */
SIMBA_API int simba_scheduler_stop(simba_scheduler *scheduler, struct simba_error *error);

/* Destroys a scheduler; stops it first if needed. */
SIMBA_API void simba_scheduler_close(simba_scheduler *scheduler);

/* True: the run under way should end, because the lead was lost, a stop waits, or this leader is
 * asked to hand over. Lock-free, like the next two. During a run all three are about the term in
 * which it began, on every thread: a run that outlasts its stop is told to end also after a
 * restart, and gets no token (0). */
SIMBA_API bool simba_scheduler_should_stop(const simba_scheduler *scheduler);
SIMBA_API bool simba_scheduler_is_leader(const simba_scheduler *scheduler);
SIMBA_API uint64_t simba_scheduler_fence(const simba_scheduler *scheduler);

SIMBA_API enum simba_status simba_scheduler_status(const simba_scheduler *scheduler);

/* Valid until the scheduler is closed. */
SIMBA_API const char *simba_scheduler_id(const simba_scheduler *scheduler);
SIMBA_API const char *simba_scheduler_mutex(const simba_scheduler *scheduler);

struct simba_schedule_counts {
    size_t size;
    uint64_t runs;
    uint64_t failures; /* runs that returned other than 0 */
    uint64_t skipped;  /* runs that fell due during another, or while there was no thread */
};

#define SIMBA_SCHEDULE_COUNTS_INIT                                                                 \
    {                                                                                              \
        sizeof(struct simba_schedule_counts), 0, 0, 0                                              \
    }

/* Fills in the fields that fit into counts->size. */
SIMBA_API int simba_scheduler_counts(const simba_scheduler *scheduler,
                                     struct simba_schedule_counts *counts);

/* ---- Observer: follows the owner without competing ------------------------------------------- */

typedef struct simba_observer simba_observer;

struct simba_observer_options {
    size_t size;
    const char *mutex;          /* required */
    simba_state_fn *on_notify;  /* the owner or its term changed, as far as the store tells terms
                                   apart. NULL: none */
    simba_closed_fn *on_closed; /* NULL: none */
    void *user;                 /* passed to both */
    int64_t poll_ms;            /* SIMBA_UNSET: 1 s. The longest time between two reads */
};

#define SIMBA_OBSERVER_OPTIONS_INIT                                                                \
    {                                                                                              \
        sizeof(struct simba_observer_options), NULL, NULL, NULL, NULL, SIMBA_UNSET                 \
    }

/* Creates an observer, which is INITIAL. The caller closes it with simba_observer_close. */
SIMBA_API int simba_observer_create(simba_client *client,
                                    const struct simba_observer_options *options,
                                    simba_observer **ret_observer, struct simba_error *error);

/* As of a contender: start, stop, close and status. */
SIMBA_API int simba_observer_start(simba_observer *observer, struct simba_error *error);
SIMBA_API int simba_observer_stop(simba_observer *observer, struct simba_error *error);
SIMBA_API void simba_observer_close(simba_observer *observer);
SIMBA_API enum simba_status simba_observer_status(const simba_observer *observer);

/* Valid until the observer is closed. */
SIMBA_API const char *simba_observer_mutex(const simba_observer *observer);

/* The last change that the store told, same as for a contender. */
SIMBA_API void simba_observer_state(simba_observer *observer, struct simba_state *ret_state);

/* ---- Scope-bound handles for GCC and Clang --------------------------------------------------- */

#if defined(__GNUC__)
/* SIMBA_SCOPED(locker) simba_locker *lock = NULL; closes it when the scope ends. */
#define SIMBA_SCOPED(noun) __attribute__((cleanup(simba_##noun##_cleanup)))

SIMBA_API void simba_client_cleanup(simba_client **client);
SIMBA_API void simba_contender_cleanup(simba_contender **contender);
SIMBA_API void simba_locker_cleanup(simba_locker **locker);
SIMBA_API void simba_observer_cleanup(simba_observer **observer);
SIMBA_API void simba_scheduler_cleanup(simba_scheduler **scheduler);
#endif

/* ---- Owner and state: plain values ----------------------------------------------------------- */

/* The owner of a mutex. An empty id: nobody owns. Stores without leases (ZooKeeper) report
 * ttl_at_ms = transition_at_ms = SIMBA_INFINITE. */
struct simba_owner {
    char id[SIMBA_ID_MAX + 1];
    int64_t acquired_at_ms;
    int64_t ttl_at_ms;
    int64_t transition_at_ms;
    uint64_t fence; /* the token of the owner's term, 0 if it is not known */
};

#define SIMBA_OWNER_NONE                                                                           \
    {                                                                                              \
        {0}, 0, 0, 0, 0                                                                            \
    }

/* Whether the lease is in its ttl, or in its transition, or in either, at `now_ms`. */
SIMBA_API bool simba_owner_is_in_ttl(const struct simba_owner *owner, int64_t now_ms);
SIMBA_API bool simba_owner_is_in_transition(const struct simba_owner *owner, int64_t now_ms);
SIMBA_API bool simba_owner_has_owner(const struct simba_owner *owner, int64_t now_ms);

/* Whether `id` is the owner; the last two also check the time. */
SIMBA_API bool simba_owner_is_owner(const struct simba_owner *owner, const char *id);
SIMBA_API bool simba_owner_is_in_ttl_of(const struct simba_owner *owner, const char *id,
                                        int64_t now_ms);
SIMBA_API bool simba_owner_is_in_transition_of(const struct simba_owner *owner, const char *id,
                                               int64_t now_ms);

/* A change of owner. */
struct simba_state {
    struct simba_owner before;
    struct simba_owner after;
};

#define SIMBA_STATE_NONE                                                                           \
    {                                                                                              \
        SIMBA_OWNER_NONE, SIMBA_OWNER_NONE                                                         \
    }

/* Whether the owner changed; whether `id` became the owner, or was it until now. */
SIMBA_API bool simba_state_is_changed(const struct simba_state *state);
SIMBA_API bool simba_state_is_acquired(const struct simba_state *state, const char *id);
SIMBA_API bool simba_state_is_released(const struct simba_state *state, const char *id);

/* Whether `id` owns after the change; the second also checks that the lease is in its ttl. */
SIMBA_API bool simba_state_is_owner(const struct simba_state *state, const char *id);
SIMBA_API bool simba_state_is_in_ttl(const struct simba_state *state, const char *id,
                                     int64_t now_ms);

/* ---- Status, queue and forced release: for operators ----------------------------------------- */

struct simba_mutex_status {
    char mutex[SIMBA_MUTEX_MAX + 1];
    struct simba_owner owner; /* an empty id: the mutex is free */
    int64_t waiters;          /* -1: the store does not know */
    int64_t since_ms;         /* when the owner's term began, on simba_now_ms(); 0: not known */
};

/* Asks the store for its mutexes and their owners, in the order of the names. With `mutex` only for
 * that one; it is reported as free if the store does not have it. NULL: all. The caller gives
 * *ret_list to simba_free. Waits at most `timeout_ms`. On Redis the list of all leaves out what
 * cannot be read, with a warning in the log: foreign data under the keys, or no right to read. */
SIMBA_API int simba_client_status(simba_client *client, const char *mutex, int64_t timeout_ms,
                                  struct simba_mutex_status **ret_list, size_t *ret_count,
                                  struct simba_error *error);

struct simba_waiter {
    char id[SIMBA_ID_MAX + 1];
    int64_t since_ms; /* when it began to wait, on simba_now_ms(); 0: the store does not know */
};

/* Asks the store for the waiters of a mutex, the next one first. Waiters that died may be among
 * them for a while. SIMBA_EUNSUPPORTED if the store keeps no queue. The caller gives *ret_list to
 * simba_free. Waits at most `timeout_ms`. */
SIMBA_API int simba_client_queue(simba_client *client, const char *mutex, int64_t timeout_ms,
                                 struct simba_waiter **ret_list, size_t *ret_count,
                                 struct simba_error *error);

/* Takes a mutex away from its owner, and wakes the next waiter. For an owner that hangs but still
 * renews. It ends only the term that it saw. The owner notices at its next renewal, at most a ttl
 * later, and works on until then. *ret_owner is the owner that lost it; an empty id: it was free.
 * Waits at most `timeout_ms`.
 *   SIMBA_ECONTENDED  the owner changed meanwhile, and nothing was taken */
SIMBA_API int simba_client_force_release(simba_client *client, const char *mutex,
                                         int64_t timeout_ms, struct simba_owner *ret_owner,
                                         struct simba_error *error);

/* ---- Terms without an object: leases that outlive their client ------------------------------- */

/* Both take what names a term: the mutex, the id of its owner and its token. Where the store does
 * not keep the token of a term (a table of the JVM library) the id alone tells terms apart, so use
 * ids that do not repeat. A term that is gone is SIMBA_ELOST, with the present owner in the text,
 * and nothing of another's term is touched. Waits at most `timeout_ms`. */

/* Gives the term a lease of `lease_ms` from now on, which lasts until its end also if this client
 * is closed or dies; nobody renews it. A longer lease that it has is not shortened.
 * *ret_deadline_ms is when the owner must stop, one drift margin before the end. Not for a term
 * that a contender or locker holds: on SQL servers that would take the renewal for a rival's.
 *   SIMBA_EINVAL        `lease_ms` is not between the two limits below
 *   SIMBA_EUNSUPPORTED  the store has no leases but sessions (ZooKeeper)
 *   SIMBA_EUNKNOWN      the reply was lost; to renew again does no harm */
#define SIMBA_LEASE_MIN_MS 100
#define SIMBA_LEASE_MAX_MS INT64_C(31622400000) /* 366 days */
SIMBA_API int simba_client_renew(simba_client *client, const char *mutex, const char *id,
                                 uint64_t fence, int64_t lease_ms, int64_t timeout_ms,
                                 int64_t *ret_deadline_ms, struct simba_error *error);

/* Releases the term, and wakes the next waiter. A contender or locker that holds it notices at its
 * next renewal. After a lost reply (SIMBA_EUNKNOWN) a second call may find the term gone. */
SIMBA_API int simba_client_end(simba_client *client, const char *mutex, const char *id,
                               uint64_t fence, int64_t timeout_ms, struct simba_error *error);

/* ---- Properties: small facts kept with a mutex ----------------------------------------------- */

#define SIMBA_PROPERTY_NAME_MAX 32   /* bytes: lower-case letters, digits, '.', '-' and '_' */
#define SIMBA_PROPERTY_VALUE_MAX 512 /* bytes, without control characters */

/* A short text that every participant may read and write. It stays on the store when the mutex is
 * released. It is a record or a hint: the lease alone decides who owns. */
struct simba_property {
    char value[SIMBA_PROPERTY_VALUE_MAX + 1]; /* empty: it was never written, or is void */
    int64_t written_ms; /* when it was written, since 1970 by the store's clock; 0: never */
    int64_t store_ms;   /* what that clock showed when the property was read; 0: the store has not
                           told it (ZooKeeper, before anything was written) */
};

/* Reads a property of a mutex, which need not exist. What the store has is cut to the length of a
 * value, and control characters in it are replaced. Waits at most `timeout_ms`.
 *   SIMBA_EUNSUPPORTED  the store, one of the application, keeps no properties
 *   SIMBA_EDENIED       an SQL server: there is no table `simba_property`, and the user may not
 *                       create it; or a right is missing */
SIMBA_API int simba_client_property_get(simba_client *client, const char *mutex, const char *name,
                                        int64_t timeout_ms, struct simba_property *ret_property,
                                        struct simba_error *error);

/* Writes a property. With `owner_id` only if that contender owns the mutex; NULL: in any case. An
 * empty value voids it. Waits at most `timeout_ms`. Fails as simba_client_property_get, and:
 *   SIMBA_ELOST     `owner_id` does not own the mutex, and nothing was written
 *   SIMBA_EUNKNOWN  the reply was lost; to write again does no harm */
SIMBA_API int simba_client_property_set(simba_client *client, const char *mutex, const char *name,
                                        const char *value, const char *owner_id, int64_t timeout_ms,
                                        struct simba_error *error);

/* ---- Inspection: whether the store is set up for leases -------------------------------------- */

enum simba_severity { SIMBA_SEVERITY_OK, SIMBA_SEVERITY_WARNING, SIMBA_SEVERITY_PROBLEM };

#define SIMBA_FINDING_SUBJECT_MAX 23 /* bytes */
#define SIMBA_FINDING_TEXT_MAX 255
#define SIMBA_FINDING_ADVICE_MAX 511

/* One thing that was looked at. A problem can give a mutex two owners, or keeps it from having one;
 * a warning is something that an operator should know. */
struct simba_finding {
    enum simba_severity severity;
    char subject[SIMBA_FINDING_SUBJECT_MAX + 1]; /* "persistence" */
    char text[SIMBA_FINDING_TEXT_MAX + 1];       /* what was seen */
    char advice[SIMBA_FINDING_ADVICE_MAX + 1];   /* what to do; empty: nothing */
};

/* Looks at the settings of the store that leases rely on, and at the connection. Changes nothing.
 * Waits at most `timeout_ms`. The caller frees *ret_list with simba_free.
 *   SIMBA_EUNSUPPORTED  the store, one of the application, cannot be inspected */
SIMBA_API int simba_client_inspect(simba_client *client, int64_t timeout_ms,
                                   struct simba_finding **ret_list, size_t *ret_count,
                                   struct simba_error *error);

/* What a command that runs under the mutex should find in its environment, besides what the program
 * that starts it knows: on etcd the variables that etcdctl sets. Each is a text "NAME=value" with
 * its NUL; an empty text ends them. There are none if `owner_id` does not own by a contender or
 * locker of this client, and on most stores. Asks no server. The caller frees *ret_environment with
 * simba_free. */
SIMBA_API int simba_client_environment(simba_client *client, const char *mutex,
                                       const char *owner_id, int64_t timeout_ms,
                                       char **ret_environment, struct simba_error *error);

/* ---- Hand-over: asking an owner to finish ---------------------------------------------------- */

/* A request that stands with a mutex, as its property "handover". Owners with on_handover look for
 * it with each renewal, so they hear of it within a ttl. Nothing is taken by force: an owner that
 * does not know of requests goes on. A request ends one term, and a contender obeys it once.
 *
 * A contender with on_handover that wins after a wait looks, too, before its on_acquired begins or
 * its acquire returns. If the request names another waiter, simba_contender_handover_asked is true
 * then: it should stop at once, and wait again a little later. So the mutex passes on until the
 * waiter that was named has it. A locker that has waited for less than a ttl does not look. */
struct simba_handover {
    char owner[SIMBA_ID_MAX + 1]; /* whose term is to end; empty: there is no request */
    uint64_t fence;               /* of that term; 0: the store has not told it */
    char to[SIMBA_ID_MAX + 1];    /* the waiter that should be next; empty: the first in line */
    char by[SIMBA_ID_MAX + 1];    /* who asks; may be a person */
    int priority;                 /* only owners of a lower one obey; -1: all do */
    int64_t asked_ms;             /* since 1970 by the store's clock; set by the store */
    int64_t left_ms;              /* for how much longer it holds; not above a day */
};

#define SIMBA_HANDOVER_NONE                                                                        \
    {                                                                                              \
        {0}, 0, {0}, {0}, -1, 0, 0                                                                 \
    }

/* Asks the owner that the request names. Replaces a request that stands there. Fails as
 * simba_client_property_set. */
SIMBA_API int simba_client_handover_ask(simba_client *client, const char *mutex,
                                        const struct simba_handover *request, int64_t timeout_ms,
                                        struct simba_error *error);

/* Reads the request that stands with a mutex, if any: one that is over is none. Fails as
 * simba_client_property_get. */
SIMBA_API int simba_client_handover_get(simba_client *client, const char *mutex, int64_t timeout_ms,
                                        struct simba_handover *ret_request,
                                        struct simba_error *error);

/* ---- Events: instead of callbacks ------------------------------------------------------------ */

/* For event loops, and for languages that cannot be called on foreign threads. A client that is
 * opened with `pull_events` calls back on no thread: its objects take no callbacks, and their
 * owner's changes are taken as events, in the order in which callbacks would have begun. What waits
 * for the return of a callback waits until its event is taken: after a loss the contender competes
 * again when RELEASED has been taken. Stop and close wait for no event: what they tell can be taken
 * afterwards. A client with pull_events has no schedulers. */
enum simba_event_type {
    SIMBA_EVENT_NONE,     /* nothing has happened */
    SIMBA_EVENT_ACQUIRED, /* a contender owns */
    SIMBA_EVENT_RELEASED, /* it does not own any more, or is being stopped */
    SIMBA_EVENT_LOST,     /* a locker lost the mutex that it holds */
    SIMBA_EVENT_RENEWED,  /* a contender's lease was renewed */
    SIMBA_EVENT_NOTIFIED, /* the owner changed; of observers, and contenders that ask for it */
    SIMBA_EVENT_HANDOVER, /* an owner is asked to hand over */
    SIMBA_EVENT_STOPPED,  /* a contender has stopped, with the code of simba_contender_stop */
    SIMBA_EVENT_CLOSED    /* the last event of an object */
};

/* What an object tells only if its options ask for it, by `pull`. NOTIFIED of a contender costs the
 * store requests, as on_notify does. HANDOVER makes it take part in hand-overs. */
enum simba_pull { SIMBA_PULL_NOTIFIED = 1, SIMBA_PULL_RENEWED = 2, SIMBA_PULL_HANDOVER = 4 };

struct simba_event {
    size_t size;
    enum simba_event_type type;
    int code;                        /* of STOPPED */
    void *user;                      /* of the object's options */
    char mutex[SIMBA_MUTEX_MAX + 1]; /* of the object */
    char id[SIMBA_ID_MAX + 1];       /* of the object; empty: an observer */
    uint64_t fence;                  /* of the term that the event is about */
    int64_t deadline_ms;             /* when the belief ends, as of the time of the event */
    struct simba_state state;        /* of ACQUIRED, RELEASED, RENEWED and NOTIFIED */
    struct simba_handover handover;  /* of HANDOVER */
};

#define SIMBA_EVENT_INIT                                                                           \
    {                                                                                              \
        sizeof(struct simba_event), SIMBA_EVENT_NONE, 0, NULL, {0}, {0}, 0, 0, SIMBA_STATE_NONE,   \
            SIMBA_HANDOVER_NONE                                                                    \
    }

/* A descriptor that is readable while there may be an event. Poll it; do not read or close it. It
 * is valid until the client is closed. -1: the client calls back. */
SIMBA_API int simba_client_event_fd(const simba_client *client);

/* Takes the next event, without waiting for one: the type is SIMBA_EVENT_NONE when there is none.
 * Where a contender takes part in hand-overs and had to wait for the mutex, the call waits for an
 * answer of the store, at most a second. Fills in the fields that fit into ret_event->size.
 *   SIMBA_ENOMEM  memory was short and events were missed: ask the objects how they are */
SIMBA_API int simba_client_next_event(simba_client *client, struct simba_event *ret_event,
                                      struct simba_error *error);

/* ---- Tending a store ------------------------------------------------------------------------- */

/* The owner of a mutex (an empty id: it is free), and its revision, which changes whenever the
 * mutex is used; 0: the store has no record of it. Waits at most `timeout_ms`. */
SIMBA_API int simba_client_revision(simba_client *client, const char *mutex, int64_t timeout_ms,
                                    struct simba_owner *ret_owner, uint64_t *ret_revision,
                                    struct simba_error *error);

/* Removes the record, the waiters and the properties of a mutex that is free, if its revision is
 * still that one. Its tokens do not go back when it is used again. *ret_done is false if it was
 * used meanwhile, and on MySQL also if its tokens are ahead of the server's clock.
 * SIMBA_EUNSUPPORTED: the store (ZooKeeper) removes it by itself. Waits at most `timeout_ms`. */
SIMBA_API int simba_client_forget(simba_client *client, const char *mutex, uint64_t revision,
                                  int64_t timeout_ms, bool *ret_done, struct simba_error *error);

/* Lets each later term of the mutex have a larger token than `fence`, if the mutex is free or `id`
 * (NULL: nobody) owns it; otherwise *ret_done is false. An owner that renews afterwards may lose
 * its term: release the mutex. SIMBA_ECONFIG: `fence` is above half of what the column of an SQL
 * table can hold; if it can be widened, the error has the statement. SIMBA_EUNSUPPORTED: the tokens
 * are the store's own (ZooKeeper). Waits at most `timeout_ms`. */
SIMBA_API int simba_client_raise_fence(simba_client *client, const char *mutex, const char *id,
                                       uint64_t fence, int64_t timeout_ms, bool *ret_done,
                                       struct simba_error *error);

/* The two parts of the lease that contenders of this client ask for. */
SIMBA_API int simba_client_lease(simba_client *client, int64_t *ret_ttl_ms,
                                 int64_t *ret_transition_ms);

/* SQLite only. Creates a descriptor that keeps what this client owns: other contenders wait for the
 * end of the lease until the client is closed or dead and every such descriptor is closed; then the
 * mutex is free at once. To hand work under a mutex to another program, let it inherit one, by
 * fcntl(fd, F_SETFD, 0) between fork and exec, and close your own copy. The descriptor is read-only
 * and close-on-exec. The program that has it can give up its own part, but not the client's; it can
 * hide the death of other owners of the same database until their leases end. Returns -1 with
 * errno: ENOTSUP for other stores, and before the client has acquired anything. */
SIMBA_API int simba_client_life_fd(simba_client *client);

/* ---- Metrics --------------------------------------------------------------------------------- */

#define SIMBA_HISTOGRAM_BUCKETS 32

/* bucket[i] counts durations d with 2^(i-1) us <= d < 2^i us; bucket[0] those under 1 us, and the
 * last one all that are longer. */
struct simba_histogram {
    uint64_t count;
    uint64_t sum_us;
    uint64_t bucket[SIMBA_HISTOGRAM_BUCKETS];
};

/* Counted from the opening of the client; a gauge is the number at this instant. */
struct simba_metrics {
    size_t size;
    uint64_t acquisitions;
    uint64_t losses;   /* terms that ended without a stop, or that a stop found gone */
    uint64_t releases; /* mutexes released */
    uint64_t renewals;
    uint64_t errors;     /* requests that the store refused, or whose outcome is unknown */
    uint64_t owned;      /* gauge: mutexes owned */
    uint64_t contenders; /* gauge: contenders started */
    struct simba_histogram contention; /* from the start of a contest to its win */
    struct simba_histogram operation;  /* from the sending of a request to its answer */
    struct simba_histogram hold;       /* from a win to the end of the term */
    uint64_t renewal_failures;         /* renewals that the store did not answer well */
    int64_t store_failing_ms; /* gauge: for how long each request has failed that the store should
                                 have served; 0: it serves, or nothing was asked yet */
    int64_t loop_late_ms;     /* gauge: for how long the client has put off what is due */
};

#define SIMBA_METRICS_INIT                                                                         \
    {                                                                                              \
        sizeof(struct simba_metrics), 0, 0, 0, 0, 0, 0, 0, {0, 0, {0}}, {0, 0, {0}}, {0, 0, {0}},  \
            0, 0, 0                                                                                \
    }

/* Fills in the fields that fit into metrics->size. */
SIMBA_API int simba_client_metrics(simba_client *client, struct simba_metrics *metrics);

enum simba_metrics_format {
    SIMBA_METRICS_OPENMETRICS, /* application/openmetrics-text; version=1.0.0; charset=utf-8 */
    SIMBA_METRICS_PROMETHEUS   /* text/plain; version=0.0.4; also node_exporter's text files */
};

#define SIMBA_METRICS_TEXT_MAX 262144 /* bytes that always suffice */
#define SIMBA_METRICS_MUTEXES_MAX 100 /* mutexes that have lines of their own */

/* Writes the metrics of a client as text that Prometheus reads, for a program that serves it.
 * Whether a contender owns is computed from the clock in this call. Where contenders or lockers
 * compete for more mutexes than the limit above, the others count in the sums only. OpenMetrics
 * ends in "# EOF\n": a program that adds lines of its own adds them before that. *ret_length does
 * not count the NUL. Does not wait for the store. SIMBA_EINVAL: `size` is too small. */
SIMBA_API int simba_client_metrics_text(simba_client *client, enum simba_metrics_format format,
                                        char *buffer, size_t size, size_t *ret_length);

/* ---- Configuration files --------------------------------------------------------------------- */

/* Reads a configuration file into the URL that says the same; see simba_client_open_config. Of
 * `options`, which may be NULL, only the log is used. The caller gives *ret_url to simba_free. It
 * contains a password that stands in the file, but not one that `password-file` or `password-env`
 * name. */
SIMBA_API int simba_config_read(const char *path, const struct simba_client_options *options,
                                char **ret_url, struct simba_error *error);

#define SIMBA_CONFIG_ORIGIN_MAX 256 /* bytes, with the NUL */

/* The same for a program that opens the client itself and tells its user where an error comes from.
 * Fails if a password that the file names is missing. `ret_origin` is where the URL stands, such as
 * "simba.yaml:3:10: simba.redis.url", for errors of SIMBA_GROUP_CONFIG when the URL is opened. */
SIMBA_API int simba_config_check(const char *path, const struct simba_client_options *options,
                                 char **ret_url, char ret_origin[SIMBA_CONFIG_ORIGIN_MAX],
                                 struct simba_error *error);

/* As simba_config_read for a configuration in memory, whose paths stay as they are. `name` stands
 * for the file in errors. */
SIMBA_API int simba_config_parse(const char *text, size_t size, const char *name, char **ret_url,
                                 struct simba_error *error);

/* ---- Durations, names and ids ---------------------------------------------------------------- */

/* Reads "250ms", "10s", "1m30s", "2h", "1d", "0", ISO 8601 ("PT1M30S"), and each with a leading
 * '-', into milliseconds. Refuses anything else, and what would overflow. */
SIMBA_API int simba_duration_parse(const char *text, int64_t *ret_ms, struct simba_error *error);

/* Writes the same form. A `size` of 32 always suffices. Returns `buffer`. */
SIMBA_API const char *simba_duration_format(int64_t ms, char *buffer, size_t size);

/* SIMBA_EINVAL if a name or an id breaks the rules: not blank, within its length, no control
 * characters, no "@@" in an id. A store may have more rules: MySQL and PostgreSQL take as many
 * characters as the column of the table `simba_mutex` has, 66 if the library made it. A start, an
 * acquire or a status with a name that the store does not take fails with SIMBA_EINVAL. */
SIMBA_API int simba_mutex_validate(const char *mutex, struct simba_error *error);
SIMBA_API int simba_id_validate(const char *id, struct simba_error *error);

/* Id generators. Each writes at most SIMBA_ID_MAX bytes and a NUL. `user` is not used.
 *   host     {counter}:{pid}@{host address}          readable; can collide between containers
 *   uuid     32 hex digits                           says nothing of the host
 *   default  {counter}:{pid}@{host address}~{six}    the host id and six random characters, new for
 *                                                    each id */
SIMBA_API int simba_id_host(void *user, char ret_id[SIMBA_ID_MAX + 1]);
SIMBA_API int simba_id_uuid(void *user, char ret_id[SIMBA_ID_MAX + 1]);
SIMBA_API int simba_id_default(void *user, char ret_id[SIMBA_ID_MAX + 1]);

/* Makes an id from a name that people know: "host1" becomes "host1~x7k2p9". The random part is new
 * in every call, so two contenders with the same name have different ids. The name keeps the rules
 * of an id and has at most SIMBA_ID_MAX - 7 bytes. */
SIMBA_API int simba_id_unique(const char *name, char ret_id[SIMBA_ID_MAX + 1],
                              struct simba_error *error);

/* ---- Clock and contend period: when to try next ---------------------------------------------- */

/* The clock of all ..._at_ms times. It counts while the machine is suspended, and steps of the wall
 * clock do not move it. All processes of a host share it. */
SIMBA_API int64_t simba_now_ms(void);

/* The wall-clock time, in milliseconds since 1970, at which that clock shows `at_ms`, judged by the
 * wall clock of this instant. For logs only. SIMBA_INFINITE stays SIMBA_INFINITE. */
SIMBA_API int64_t simba_wall_ms(int64_t at_ms);

/* The delays between attempts, as the library computes them. Owner: ttl_at - now. Contender:
 * transition_at - now + jitter, the jitter drawn by `random`, any number, evenly from [jitter_min,
 * jitter_max), its lower bound raised to 0 if `transition_ms` is 0. Never negative. */
SIMBA_API int64_t simba_period_owner_delay_ms(const struct simba_owner *owner, int64_t now_ms);
SIMBA_API int64_t simba_period_contender_delay_ms(const struct simba_owner *owner, int64_t now_ms,
                                                  int64_t transition_ms, int64_t jitter_min_ms,
                                                  int64_t jitter_max_ms, uint64_t random);

/* The drift margin of a lease: how much earlier than the store the owner stops believing. */
SIMBA_API int64_t simba_drift_margin_ms(int64_t lease_ms);

/* ---- Hooks: executor and allocator ----------------------------------------------------------- */

/* Runs callbacks instead of the client's threads. `execute` must arrange that run(argument) is
 * called exactly once, soon, on some thread. The client calls `execute` on its own threads and on
 * threads that wait inside the library: it must not block, and must not call run() before it
 * returns.
 *
 * A program with a single thread may wait inside the library: a thread that has called run() before
 * runs the callbacks itself that it waits for and that the executor has not begun. A stop or close
 * runs those of its object, an acquire those of its mutex, the close of a client all. While no
 * thread has called run() yet, a thread that has waited for 100 ms does the same. The executor
 * still calls run(), which then does nothing, also after the close of the client. */
struct simba_executor {
    void (*execute)(void *user, void (*run)(void *argument), void *argument);
    void *user;
};

/* Replaces malloc, realloc and free for the library. All three are required and must be
 * thread-safe. */
struct simba_allocator {
    void *(*allocate)(void *user, size_t size);
    void *(*resize)(void *user, void *memory, size_t size);
    void (*release)(void *user, void *memory);
    void *user;
};

/* Call it before any other function of the library; later it returns SIMBA_EMISUSE. SIMBA_EINVAL: a
 * function is missing. */
SIMBA_API int simba_set_allocator(const struct simba_allocator *allocator);

/* Frees memory that a function of the library handed over. NULL is allowed. */
SIMBA_API void simba_free(void *memory);

#ifdef __cplusplus
}
#endif

#endif
