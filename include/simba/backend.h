/*
 * backend.h - for programmers who add a store to Simba.
 *
 * A backend carries requests to a store and answers them. It knows nothing of callbacks, threads of
 * the application or time-outs of a contest. Those belong to the contention machine, which relies
 * on the duties below and on nothing else.
 *
 * Duties
 *  1. The backend answers every request exactly once, by host->reply, from any thread, at any time,
 *     also from within `submit`. The request and its strings stay valid until the answer; after it
 *     the backend must not touch them.
 *  2. It answers within about request->timeout_ms, if need be with an error. A GUARD that waits in
 *     the store may take until two thirds of its transition_ms have passed: a stop waits for it.
 *  3. A success names the owner after the request, with the times LEFT by the store's clock. The
 *     library counts them from the sending of the request, or from as_of_ms where that is set.
 *     as_of_ms is the time of the last proof that the session lives (duty 9), or that the server
 *     which answered is the master (Redis with sentinels). It is a time of simba_now_ms(), and
 *     never later than the true time of the proof.
 *  4. An error says what is known. SIMBA_EUNKNOWN: the reply was lost, so the store may have
 *     applied the request or may still do so. Any other code: the store has not applied it and
 *     never will.
 *  5. The store applies each request atomically, as described at enum simba_op.
 *  6. `revision` never goes back: each new term of a mutex has a larger one than all terms before.
 *     It may also grow with renewals.
 *  7. Notices are hints. A lost, late, repeated or invented one must do no harm.
 *  8. After a broken connection the backend reconnects by itself with a back-off, and creates again
 *     what a store that lost its data no longer has.
 *  9. A store of sessions (ZooKeeper), whose owners are the first entries of its queues:
 *     - It names an owner with a finite lease that counts from as_of_ms, the last proof that the
 *       session lives. The proof may be old: if it is older than the ttl, the library asks again
 *       with a back-off; if it is older than the lease, the term ends.
 *     - It may answer a GUARD from memory only if the server would have told this client of the
 *       loss of the entry (by a watch on the entry, in order with the proofs), and only with an
 *       as_of_ms up to which it has been told.
 *     - The revision of a term is that of the creation of its entry. So an ACQUIRE of a contender
 *       that was told that it owns makes a new entry.
 *     - It runs the requests of one contender in their order, or not at all.
 *     - The client deletes an entry that was neither acquired nor guarded for a lease since its
 *       answer or since it came first, and an entry whose contender has gone (`listen`) without
 *       having been told that it owns.
 *     - It answers that there is no owner while the first entry is one that an older session made
 *       for the same id: the contender must not take it for its own.
 * 10. All descriptors are close-on-exec. The backend prints nothing and never ends the process.
 * 11. Two contenders may have the same id by mistake. A store that knows the token of the owner's
 *     term returns it in `fence`, and renews only the term that a GUARD names; an owner whose GUARD
 *     is answered with another token ends its term. A store that does not know tokens, but adds
 *     exactly 1 to the revision with every ACQUIRE and GUARD that changes the record, sets
 *     `revision_counts`; the owner then finds the other contender by counting.
 * 12. No request ever shortens a lease that the same id was granted before, in whatever order the
 *     store runs the requests, and at whatever time it read its clock.
 * 13. A RELEASE that names a revision and finds no such record of `id` sets `missed`: the term had
 *     ended before, and the owner gets SIMBA_ELOST. A record whose lease has ended counts as found
 *     while the store keeps it. A backend that has sent a RELEASE twice, and cannot know which of
 *     the two released, leaves `missed` false.
 *
 * Threads: the library calls open, submit, listen and close on the client's loop thread. They must
 * not block there. Exceptions: open may take the time that it needs to find out whether the store
 * can be used; submit may wait for a local disk, and for a server as long as the loop has nothing
 * else to do, for a request that `delays_no_other`, or while there is no contender and no observer
 * (`listen`). The loop thread may change: while a thread of the application waits for an answer, it
 * may run the loop. One thread runs it at a time, and each sees what the one before has written. So
 * a backend must not rely on the identity of the thread, for example by thread-local variables.
 * Threads that a backend starts block all signals.
 */
#ifndef SIMBA_BACKEND_H
#define SIMBA_BACKEND_H

#include <simba/simba.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of all structs and functions of this header. It grows with each change of them. The
 * library refuses a backend that was built with another one. */
#define SIMBA_BACKEND_ABI 8

struct uv_loop_s;

typedef struct simba_backend simba_backend; /* each backend defines its own */

enum simba_op {
    SIMBA_OP_NONE,
    /* If there is no owner, or the lease of the owner has ended, or the owner is `id`: make `id`
     * the owner with a full lease and a new, larger revision. Otherwise change nothing but the wait
     * queue. With `reserve_ms` a mutex that is free, but reserved for another contender, is left to
     * that one: the answer names no owner and has `reserved_left_ms`. */
    SIMBA_OP_ACQUIRE,
    /* If the owner is `id`, its lease has not ended, and `fence` is 0 or the token of the owner's
     * term: give it a full lease again. Otherwise change nothing. A GUARD never makes an
     * owner and never creates a record. A store that does not know terms may ignore `fence`
     * (duty 11). */
    SIMBA_OP_GUARD,
    /* If the owner is `id` and the record's revision is `revision`: end its lease and wake the next
     * waiter. With `reserve_ms` the mutex is reserved for that waiter, and the waiter behind it is
     * told so. The last waiter is told, too: of each release if few wait, in a crowd at least once
     * in a reservation's length. With revision 0 release nothing; the answer need not name the
     * owner. Always remove `id` from the wait queue, and pass on what is reserved for it. In a
     * store of sessions (duty 9) that includes an entry that has come first, as long as no ACQUIRE
     * or GUARD has told `id` that it owns. */
    SIMBA_OP_RELEASE,
    /* Return the owner, change nothing. With an `id`: as an answer to that contender, with the
     * revision that it would release. */
    SIMBA_OP_READ,
    /* Return all mutexes (mutex == NULL) in the order of their names' bytes, change nothing. */
    SIMBA_OP_LIST,
    /* Return the waiters of the mutex, the next one first, change nothing. Only with
     * `has_queue`. */
    SIMBA_OP_QUEUE,
    /* Return the property of that name. One that was never written is empty, and has the store's
     * clock or nothing. Change no property. Only with `has_properties`. */
    SIMBA_OP_GET_PROPERTY,
    /* Write `value` as the property of that name. With an `id`: only if the owner is `id`;
     * otherwise change nothing and answer SIMBA_ELOST. Without, tell the observers of the mutex, as
     * of a change of its owner, where the store can. A repetition does no harm. Only with
     * `has_properties`. */
    SIMBA_OP_SET_PROPERTY,
    /* If nobody owns and the revision of the record is `revision`: remove the record, the queue and
     * the properties of the mutex. Otherwise change nothing and set `missed`. Should the mutex come
     * back, duty 6 counts from its first term ever. Only with `can_forget`. */
    SIMBA_OP_FORGET,
    /* If nobody owns, or the owner is `id` (NULL: nobody): let each later term of the mutex have a
     * larger revision than `revision`; create the record where it is missing. Otherwise change
     * nothing and set `missed`. A repetition does no harm. Only with `can_forget`. */
    SIMBA_OP_RAISE,
    /* Return what the store's settings and the connection mean to leases of ttl_ms and
     * transition_ms, change nothing. Only with `can_inspect`. */
    SIMBA_OP_INSPECT,
    /* Return what the command of `id`, which owns, should find in its environment; nothing if `id`
     * does not own. From memory, without the server. Only with `has_environment`. */
    SIMBA_OP_ENVIRONMENT
};

struct simba_request {
    enum simba_op op;
    const char *mutex;
    const char *id;
    int64_t ttl_ms;
    int64_t transition_ms;
    uint64_t revision;
    int64_t timeout_ms;
    struct simba_request *next; /* links a batch; the backend's to use until it answers */
    void *backend_data;         /* the backend's to use until it answers; NULL at first */
    bool asks_place;            /* ACQUIRE: `place` is wanted, where the store can tell it */
    uint64_t fence;             /* GUARD: the token of the term to renew; 0: any of this id */
    /* ACQUIRE, RELEASE: how long a reservation lasts that it makes. 0: it makes none, and takes the
     * mutex whomever it is reserved for. */
    int64_t reserve_ms;
    const char *property; /* GET_PROPERTY, SET_PROPERTY: its name */
    const char *value;    /* SET_PROPERTY */
    /* GUARD: the lease lasts until its end also if the client is closed or dies before. */
    bool outlives_client;
    /* If `submit` waited for the store, that would delay no other contender or observer of the
     * client. The parts of a semaphore or of a set, for which one thread waits, count as one. */
    bool delays_no_other;
};

struct simba_reply {
    int code;                   /* SIMBA_OK or SIMBA_E... */
    const char *owner;          /* "" for nobody; NULL is the same */
    int64_t ttl_left_ms;        /* may be negative when that part is over */
    int64_t transition_left_ms; /* SIMBA_INFINITE for both: no lease, a session */
    uint64_t revision;          /* of the record, 0 when there is none; an owner has one */
    uint64_t fence;   /* the token of the owner's term; 0 where the store does not know it */
    int64_t as_of_ms; /* 0, or the instant that the times left count from (duty 3) */
    int64_t waiters;  /* -1: not known. Set it for READ and LIST */
    /* LIST: its times are on simba_now_ms(). QUEUE: each waiter has its id in owner.id, and since
     * when it waits in owner.acquired_at_ms, or 0. */
    const struct simba_mutex_status *list;
    size_t list_count;
    const struct simba_error *error; /* the sentence for `code`; may be NULL */
    int64_t place;        /* in the wait queue, from 1, where ACQUIRE asked for it; 0: not known */
    bool revision_counts; /* each ACQUIRE and GUARD that changed the record added 1 (duty 11) */
    /* RELEASE: the record was not there as named; nothing was given back (duty 13). FORGET, RAISE:
     * the same; nothing was changed. */
    bool missed;
    /* ACQUIRE without an owner: > 0 where the mutex is reserved for another contender. That is a
     * hint like a notice: the record alone decides who owns. */
    int64_t reserved_left_ms;
    const struct simba_property *property; /* GET_PROPERTY */
    int64_t held_ms; /* READ: how long ago the owner's term began; -1: not known */
    const struct simba_finding *findings; /* INSPECT */
    size_t findings_count;
    const char *environment; /* ENVIRONMENT: NAME=value, each with its NUL, and an empty one */
};

#define SIMBA_REPLY_INIT                                                                           \
    {                                                                                              \
        SIMBA_OK, NULL, 0, 0, 0, 0, 0, -1, NULL, 0, NULL, 0, false, false, 0, NULL, -1, NULL, 0,   \
            NULL                                                                                   \
    }

enum simba_notice {
    SIMBA_NOTICE_RELEASED, /* the mutex became free: waiters should try now */
    SIMBA_NOTICE_CHANGED,  /* the owner changed: observers should look */
    SIMBA_NOTICE_RESERVED, /* the mutex is reserved for the waiter before `id`: `id` should try when
                              the reservation is over */
    SIMBA_NOTICE_STANDBY   /* the mutex is reserved for another waiter: `id`, the last one, should
                              try in case the first two hang, when three times that is over */
};

/* A function to run on the loop thread. The memory is the backend's until `run` is called. */
struct simba_task {
    void (*run)(struct simba_task *task);
    struct simba_task *next;
};

/* What the library offers a backend. All functions may be called from any thread. */
struct simba_backend_host {
    struct uv_loop_s *loop; /* for event-driven backends; only on the loop thread */

    void (*reply)(const struct simba_backend_host *host, struct simba_request *request,
                  const struct simba_reply *reply);

    /* A hint. `mutex` NULL: any; `id` NULL: all contenders of the mutex. */
    void (*notice)(const struct simba_backend_host *host, enum simba_notice notice,
                   const char *mutex, const char *id);

    /* The session has ended, and with it all its leases; with a `mutex`, that mutex's lease. */
    void (*session_lost)(const struct simba_backend_host *host, const char *mutex);

    void (*post)(const struct simba_backend_host *host, struct simba_task *task);

    void (*log)(const struct simba_backend_host *host, enum simba_log_level level,
                const char *format, ...) SIMBA_PRINTF(3, 4);
};

/* The URL of a client, taken apart and percent-decoded. simba_client_open fails if
 * the URL has a parameter that the backend has not read: so a misspelt option is found. The client
 * reads its own parameters (ttl ...) before it opens the backend. */
typedef struct simba_url simba_url;

SIMBA_API const char *simba_url_scheme(const simba_url *url);
SIMBA_API const char *simba_url_user(const simba_url *url);     /* NULL: none */
SIMBA_API const char *simba_url_password(const simba_url *url); /* NULL: none */
SIMBA_API size_t simba_url_host_count(const simba_url *url);
SIMBA_API const char *simba_url_host(const simba_url *url, size_t index);
SIMBA_API int simba_url_port(const simba_url *url, size_t index); /* 0: none */
SIMBA_API const char *simba_url_path(const simba_url *url);       /* "" or what follows the hosts */
SIMBA_API const char *simba_url_param(simba_url *url, const char *name); /* NULL: none */

/* Reads a duration parameter. Without one `value` stays unchanged. */
SIMBA_API int simba_url_duration(simba_url *url, const char *name, int64_t *value,
                                 struct simba_error *error);

/* Fails if the URL has a parameter that was not read. A backend that changes something when it
 * opens (creates a file, starts a session) reads all its parameters first and then calls this. */
SIMBA_API int simba_url_check_params(const simba_url *url, struct simba_error *error);

/* An option of a backend's URLs, so that a configuration file can have it as a key. */
enum simba_option_type {
    SIMBA_OPTION_TEXT,
    SIMBA_OPTION_DURATION,
    SIMBA_OPTION_RANGE,  /* two durations: -200ms..1s */
    SIMBA_OPTION_NUMBER, /* from 0 up */
    SIMBA_OPTION_CHOICE, /* one of the words */
    SIMBA_OPTION_SWITCH, /* two words: the first is yes, the second no */
    SIMBA_OPTION_PATH    /* of a file; in a configuration it is relative to the folder of that */
};

struct simba_backend_option {
    const char *name; /* NULL ends a table */
    enum simba_option_type type;
    const char *words; /* with a space between; NULL where the type has none */
};

struct simba_backend_config {
    simba_url *url;
    int64_t ttl_ms;
    int64_t transition_ms;
};

struct simba_backend_ops {
    uint32_t abi;     /* SIMBA_BACKEND_ABI; the first field in every version */
    const char *name; /* "sqlite" */

    /* Whether this backend serves the scheme of a URL. */
    bool (*serves)(const char *scheme);

    /* Creates. `host` outlives the backend. A failure leaves nothing behind. With allow_store_down
     * the close of a client does not wait for an `open` that still runs: a thread finishes it and
     * calls `close`. So the code and tables of a backend must never be unloaded. */
    int (*open)(const struct simba_backend_config *config, const struct simba_backend_host *host,
                simba_backend **ret_backend, struct simba_error *error);

    /* Takes a batch: requests that became due together, linked by `next`. */
    void (*submit)(simba_backend *backend, struct simba_request *batch);

    /* May be NULL. A contender (`id`) or an observer (`id` NULL) of the mutex comes or goes. A
     * contender that has on_notify and has had to wait comes and goes as both. Where it is NULL
     * such a contender reads once a second. */
    void (*listen)(simba_backend *backend, const char *mutex, const char *id, bool on);

    /* Destroys. All requests have been answered. Calls closed(argument) on the loop thread, at once
     * or later, when its handles are closed and its threads have ended. */
    void (*close)(simba_backend *backend, void (*closed)(void *argument), void *argument);

    /* What its URLs take behind the '?', apart from the options of every client. May be NULL: then
     * a configuration file may have any key, and `open` refuses those that it does not know. */
    const struct simba_backend_option *options;

    /* Whether what follows "scheme:" is the path of a file, where no "//" opens it. */
    bool path_is_file;

    /* Whether the store keeps the waiters in order. */
    bool has_queue;

    /* May be NULL. Creates the descriptor of simba_client_life_fd; -1: none, with errno. Any
     * thread. */
    int (*life_fd)(simba_backend *backend);

    /* Whether the backend never raises SIGPIPE on the loop thread: there it writes to no sockets or
     * pipes, or only with MSG_NOSIGNAL. Then the library need not block that signal. */
    bool no_sigpipe;

    /* Whether owners hold by sessions and not by leases (duty 9). The library still uses the finite
     * times of the answers, but reports SIMBA_INFINITE to the application as the times of every
     * owner. */
    bool has_sessions;

    /* May be NULL. SIMBA_EINVAL if the store cannot have a mutex of this name or a contender of
     * this id (NULL: an observer), as far as that is known without asking the store. A start then
     * fails at once. Any thread, must not block. */
    int (*check_names)(simba_backend *backend, const char *mutex, const char *id,
                       struct simba_error *error);

    /* The size of an element of `options`; 0: sizeof(struct simba_backend_option). Elements may
     * begin with that struct and go on with what the backend itself needs, such as the member that
     * the option fills. */
    size_t option_size;

    /* Whether the store keeps properties of mutexes. Without, the library refuses them. */
    bool has_properties;

    /* Whether it carries out FORGET and RAISE. Without, the library refuses them. */
    bool can_forget;

    /* Whether the backend answers INSPECT. Without, the library refuses it. */
    bool can_inspect;

    /* Whether the backend answers ENVIRONMENT. Without, commands find nothing of the store's. */
    bool has_environment;
};

/* Adds a backend to those that simba_client_open chooses from. Call it before the first client is
 * opened. `ops` must stay valid. SIMBA_EINVAL: its abi is not SIMBA_BACKEND_ABI, or its name, a
 * function or the words of an option are missing. A process can have SIMBA_BACKENDS_MAX of them.
 * Configuration files then may have a section `simba.NAME` for it, with its `options` as keys. So
 * its name is a letter, followed by letters, digits, '-' and '_', with at most
 * SIMBA_BACKEND_NAME_MAX characters; otherwise SIMBA_EINVAL. A key of a configuration does not tell
 * `coffeeShop`, `coffee-shop` and `coffee_shop` apart, so a name that differs from another one only
 * by case, '-' and '_' is refused with SIMBA_EEXISTS. */
#define SIMBA_BACKENDS_MAX 32
#define SIMBA_BACKEND_NAME_MAX 32
SIMBA_API int simba_backend_register(const struct simba_backend_ops *ops,
                                     struct simba_error *error);

/* The backend that serves a scheme, or NULL. */
SIMBA_API const struct simba_backend_ops *simba_backend_find(const char *scheme);

#ifdef __cplusplus
}
#endif

#endif
