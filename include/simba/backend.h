/*
 * backend.h - for programmers who add a store to Simba.
 *
 * A backend carries requests to a store and answers. It knows nothing of callbacks, threads of the
 * application or time-outs of a contest: that is the business of the contention machine, which
 * relies on the duties below and on nothing else.
 *
 * Duties
 *  1. Every request is answered exactly once, by host->reply. An answer may come from any thread,
 *     at any time, also from within `submit`. Until then the request and its strings stay valid;
 *     from then on the backend must not touch it.
 *  2. A request is answered within about request->timeout_ms, if need be with an error. A GUARD
 *     that the store is about to come to may take until two thirds of its transition_ms have
 *     passed: a stop waits for it.
 *  3. A success tells the owner as the store has it after the request, in time LEFT by the store's
 *     clock. The library counts that from the moment the request was made, or from as_of_ms where
 *     that is set: the instant of a session's last proof (duty 9), or of the last proof that the
 *     server which answered is the right one (Redis with sentinels), on simba_now_ms() and never
 *     later than the true one.
 *  4. An error says what is known: SIMBA_EUNKNOWN when the request may have been or may still be
 *     applied (the reply was lost), any other code when it certainly was not and will not be.
 *  5. Requests of one mutex that are carried out do so atomically, as the list of operations says.
 *  6. `revision` never goes back: each new term of a mutex has a larger one than all terms before.
 *     It may also grow with renewals.
 *  7. Wake-ups and the feed are courtesies. Correctness must not rest on them: a lost, late,
 *     repeated or invented one does no harm.
 *  8. After a broken connection the backend reconnects by itself with a back-off, and creates again
 *     what a store that lost its data no longer has.
 *  9. A store of sessions (ZooKeeper) answers MINE with a finite lease that counts from as_of_ms,
 *     the last proof that the session lives. That may be as old as it is: a proof older than the
 *     ttl makes the library ask again with a back-off, and one older than the lease ends the term.
 *     A GUARD may be answered from memory only where the client would have been told of the loss of
 *     the entry (a watch on the own entry, in order with the proofs), and only as of an instant up
 *     to which it has been told. A term's revision is that of its entry's creation, so an ACQUIRE
 *     of a contender that was told that it owns makes a new entry. Requests of one contender are
 *     carried out in their order or not at all. The client takes an entry away when nobody has
 *     acquired or guarded it for a lease since it was answered or came first, and when its
 *     contender has gone (`listen`) without having been told that it owns; an entry of an older
 *     session of the same id is told as nobody's.
 * 10. All descriptors are close-on-exec. The backend prints nothing and never ends the process.
 * 11. Two contenders may have the same id by mistake. A store that knows the token of the owner's
 *     term tells it in `fence`, and renews only the term that a GUARD names; an owner whose GUARD
 *     is answered with another token ends its term. Where the store does not know tokens, but every
 *     ACQUIRE and GUARD that changes the record adds exactly 1 to its revision, it sets
 *     `revision_counts`, and the owner finds out by counting.
 * 12. No request ever shortens a lease that the same id was granted before, in whatever order
 *     requests are carried out and whenever their time was taken.
 * 13. A RELEASE that names a revision and finds no such record of `id` sets `missed`: the term had
 *     ended before. The owner is told SIMBA_ELOST then. A record whose lease has ended is found as
 *     long as the store keeps it. A backend that has sent a RELEASE twice, and cannot know which of
 *     the two did it, leaves `missed` false.
 *
 * Threads: open, submit, listen and close are called on the client's loop thread and must not block
 * there, except open, which may take as long as it needs to find out whether the store can be used,
 * and submit for a local disk where nobody else listens who would be delayed. The loop thread is
 * whichever turns the loop at the time: a thread of the application that waits for an answer may do
 * so. There is one at a time and each sees what the last one did, but nothing may hang on its
 * identity, such as thread-local variables; threads that a backend starts block all signals.
 */
#ifndef SIMBA_BACKEND_H
#define SIMBA_BACKEND_H

#include <simba/simba.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of all structs and functions of this header. It grows with each change of them. The
 * library refuses a backend that was built with another one. */
#define SIMBA_BACKEND_ABI 1

struct uv_loop_s;

typedef struct simba_backend simba_backend; /* each backend defines its own */

enum simba_op {
    SIMBA_OP_NONE,
    /* If nobody owns, or the lease of the owner has ended, or the owner is `id`: make `id` the
     * owner with a full lease and a new, larger revision. Otherwise change nothing but the wait
     * queue. */
    SIMBA_OP_ACQUIRE,
    /* If the owner is `id`, its lease has not ended, and `fence` is 0 or the token of the owner's
     * term: give it a full lease again. Otherwise change nothing. Never makes anybody an owner,
     * never creates a record. A store that cannot tell terms apart may pass over `fence` (duty
     * 11). */
    SIMBA_OP_GUARD,
    /* If the owner is `id` and the record's revision is `revision`: nobody owns, the next waiter is
     * woken. With revision 0 nothing is given back, and the answer need not name the owner. Always:
     * `id` leaves the wait queue. Where the queue itself makes owners (duty 9) that is so also for
     * an entry that has come first, as long as `id` was not told of it by an ACQUIRE or a GUARD. */
    SIMBA_OP_RELEASE,
    /* Tell the owner, change nothing. With an `id`: as to that contender, with the revision to
     * release. */
    SIMBA_OP_READ,
    /* Tell all mutexes (mutex == NULL) in the order of their names' bytes, change nothing. */
    SIMBA_OP_LIST,
    /* Tell who waits for the mutex, the next one first, change nothing. Only where `has_queue`. */
    SIMBA_OP_QUEUE
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
    /* LIST: its times are on simba_now_ms(). QUEUE: each waiter has its id in owner.id. */
    const struct simba_mutex_status *list;
    size_t list_count;
    const struct simba_error *error; /* the sentence for `code`; may be NULL */
    int64_t place;        /* in the wait queue, from 1, where ACQUIRE asked for it; 0: not known */
    bool revision_counts; /* each ACQUIRE and GUARD that changed the record added 1 (duty 11) */
    bool missed; /* RELEASE: the record was not there as named; nothing was given back (duty 13) */
};

#define SIMBA_REPLY_INIT                                                                           \
    {                                                                                              \
        SIMBA_OK, NULL, 0, 0, 0, 0, 0, -1, NULL, 0, NULL, 0, false, false                          \
    }

enum simba_notice {
    SIMBA_NOTICE_RELEASED, /* the mutex became free: waiters should try now */
    SIMBA_NOTICE_CHANGED   /* the owner changed: observers should look */
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

    /* A courtesy. `mutex` NULL: any; `id` NULL: all contenders of the mutex. */
    void (*notice)(const struct simba_backend_host *host, enum simba_notice notice,
                   const char *mutex, const char *id);

    /* The session that leases lived in is over: nothing that was held is held. `mutex` NULL:
     * all. */
    void (*session_lost)(const struct simba_backend_host *host, const char *mutex);

    void (*post)(const struct simba_backend_host *host, struct simba_task *task);

    void (*log)(const struct simba_backend_host *host, enum simba_log_level level,
                const char *format, ...) SIMBA_PRINTF(3, 4);
};

/* The URL of a client, taken apart and percent-decoded. Parameters that nobody asked for make
 * simba_client_open fail, so that a misspelt option is found. Those of the client itself (ttl ...)
 * are asked for before the backend is opened. */
typedef struct simba_url simba_url;

SIMBA_API const char *simba_url_scheme(const simba_url *url);
SIMBA_API const char *simba_url_user(const simba_url *url);     /* NULL: none */
SIMBA_API const char *simba_url_password(const simba_url *url); /* NULL: none */
SIMBA_API size_t simba_url_host_count(const simba_url *url);
SIMBA_API const char *simba_url_host(const simba_url *url, size_t index);
SIMBA_API int simba_url_port(const simba_url *url, size_t index); /* 0: none */
SIMBA_API const char *simba_url_path(const simba_url *url);       /* "" or what follows the hosts */
SIMBA_API const char *simba_url_param(simba_url *url, const char *name); /* NULL: none */

/* A duration parameter: `value` stays as it is where the URL has none. */
SIMBA_API int simba_url_duration(simba_url *url, const char *name, int64_t *value,
                                 struct simba_error *error);

/* Fails when a parameter is left that nobody has asked for. A backend that changes something when
 * it opens (creates a file, starts a session) asks for all of its own first and then calls this. */
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

    /* Creates. `host` outlives the backend. On failure nothing is left behind. The close of a
     * client that was opened with allow_store_down does not wait for an `open` under way: a thread
     * still runs that, and then `close`. So code and tables of a backend must never be unloaded. */
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

    /* Whether the store knows who waits, and in which order. */
    bool has_queue;

    /* May be NULL. Creates the descriptor of simba_client_life_fd; -1: none, with errno. Any
     * thread. */
    int (*life_fd)(simba_backend *backend);

    /* Whether nothing that it does on the loop thread raises SIGPIPE: it writes to no sockets or
     * pipes there, or with MSG_NOSIGNAL. Then no thread has to be spared it. */
    bool no_sigpipe;

    /* Whether an owner holds by a session and not by a lease (duty 9). The library still plans by
     * the finite times of the answers, but it tells the application SIMBA_INFINITE as the times of
     * every owner. */
    bool has_sessions;

    /* May be NULL. Whether the store takes a mutex of this name, and an id (NULL: an observer), as
     * far as that is known without asking it; otherwise SIMBA_EINVAL. A start fails with that at
     * once. Any thread, must not block. */
    int (*check_names)(simba_backend *backend, const char *mutex, const char *id,
                       struct simba_error *error);

    /* The size of an element of `options`; 0: sizeof(struct simba_backend_option). Elements may
     * begin with that struct and go on with what the backend itself needs, such as the member that
     * the option fills. */
    size_t option_size;
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
