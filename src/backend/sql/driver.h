/*
 * driver.h - what an SQL dialect brings: its statements, its client library, its words for errors.
 *
 * The table and what the statements do are the same everywhere; only their text, the clock
 * expression and the driver differ. All statements are prepared, all values are bound.
 *
 *     simba_mutex(mutex, acquired_at, ttl_at, transition_at, owner_id, version)
 *     simba_waiter(mutex, id, since, client, reserved_until, note)
 *
 * The first is shared with other libraries. The second is ours: the queue of those that wait, by
 * `since`, in microseconds of the database's clock. A row with a `reserved_until`, in milliseconds,
 * is out of the queue: the free mutex is kept for it until then, and after that the row counts for
 * nothing. Where that is negative, the row is that of a client with observers, until then. To hand
 * a mutex on, which is part of a RELEASE and of a LEAVE: if the mutex is free and not reserved,
 * reserve it for the first of the queue, wake that one, and tell the second.
 *
 * Where the table simba_mutex has them, three columns more keep what the version alone cannot tell:
 *
 *     term_fence, term_since    the version with which the owner's term began, and when it did
 *     term_version              the version of the record that they are for
 *
 * Each change of the term and each renewal by this library sets the last to the row's new version.
 * Another library knows none of them and only adds to the version. So they count only where
 * term_version = version: what another library has written has no token here, and never a wrong
 * one.
 *
 * A connection is used by one thread at a time.
 */
#ifndef SB_SQL_DRIVER_H
#define SB_SQL_DRIVER_H

#include "base/shared.h"

#include <simba/backend.h>

/* The columns of a record in the order in which every statement that yields one does. Behind them
 * stand the database's clock as it stood during the statement, in milliseconds, the token of the
 * owner's term and when that began. The last two are 0 where the table does not keep them, or where
 * another library has written the record. */
#define SB_SQL_COLUMNS "mutex, owner_id, acquired_at, ttl_at, transition_at, version"

enum sb_sql_column {
    SB_SQL_COLUMN_MUTEX,
    SB_SQL_COLUMN_OWNER_ID,
    SB_SQL_COLUMN_ACQUIRED_AT,
    SB_SQL_COLUMN_TTL_AT,
    SB_SQL_COLUMN_TRANSITION_AT,
    SB_SQL_COLUMN_VERSION,
    SB_SQL_COLUMN_CURRENT_DB_AT,
    SB_SQL_COLUMN_FENCE,
    SB_SQL_COLUMN_SINCE
};

/* One row. All times are on the database's clock. */
struct sb_sql_record {
    char mutex[SIMBA_MUTEX_MAX + 1];
    char owner_id[SIMBA_ID_MAX + 1];
    int64_t acquired_at_ms;
    int64_t ttl_at_ms;
    int64_t transition_at_ms;
    uint64_t version;
    int64_t current_db_at_ms;
    uint64_t fence;   /* of the owner's term; 0: not known */
    int64_t since_ms; /* when that term began; 0: not known */

    /* SB_SQL_SELECT_PLACE tells these; elsewhere they are 0: */
    int64_t place;             /* of the id in the queue, from 1; 0: it is not in it */
    int64_t reserved_until_ms; /* for another id; 0: for none */
    bool changing;             /* a change of the row is not committed yet */
};

/* A property of a mutex, to be read or written. */
struct sb_sql_property {
    const char *mutex;
    const char *name;
    const char *value; /* NULL: it is read */
    const char *id;    /* the write needs that this one owns the mutex; NULL: it does not */
};

/* A mutex to be removed, or whose versions are to begin above one. */
struct sb_sql_tending {
    const char *mutex;
    const char *id; /* that may own it meanwhile; empty: nobody may */
    uint64_t version;
    bool forgets;
};

/* A contender that waits, and the client to wake. */
#define SB_SQL_CLIENT_MAX 64
struct sb_sql_waiter {
    char id[SIMBA_ID_MAX + 1]; /* empty: there is none */
    char client[SB_SQL_CLIENT_MAX + 1];
};

/* Those that hear of a release: the first of the queue, the one behind it, and now and then the
 * last, in case the first two hang. */
enum { SB_SQL_FIRST, SB_SQL_SECOND, SB_SQL_LAST, SB_SQL_TOLD };

enum sb_sql_statement {
    SB_SQL_INSERT,            /* mutex: a free row; a row that is there is SIMBA_EEXISTS */
    SB_SQL_INSERT_IF_MISSING, /* mutex: a free row; a row that is there is left alone */
    SB_SQL_SELECT,            /* mutex */
    SB_SQL_SELECT_ALL,        /* in the order of the names */
    SB_SQL_ACQUIRE,           /* mutex, id, ttl, lease: where transition_at < now or id owns */
    /* mutex, id, ttl, lease, fence: where id owns and transition_at > now. Where the table keeps
     * the token of the owner's term: and fence is that or 0 */
    SB_SQL_GUARD,
    SB_SQL_RELEASE, /* mutex, id, version: where id owns that version */

    /* With a connection that has a queue, on the table simba_waiter: */
    SB_SQL_SELECT_PLACE, /* mutex, id: the record with the id's place and the reservation */
    SB_SQL_JOIN,  /* mutex, id, client: at the end; where it was reserved for, in its old place */
    SB_SQL_LEAVE, /* mutex, id, reserve: gives up the place, hands on a mutex that is free */
    SB_SQL_WATCH, /* mutex, id, client, lease: tells the client of releases for so long */
    SB_SQL_QUEUE, /* mutex: ids as owner_id, since when as acquired_at, in their order */
    SB_SQL_STATEMENTS
};

/* The values that statements bind, each the ones that it names. */
struct sb_sql_values {
    const char *mutex;
    const char *id;
    int64_t ttl_ms;
    int64_t lease_ms; /* ttl + transition */
    uint64_t version;
    uint64_t fence;       /* 0: of any term */
    bool outlives_client; /* GUARD: the lease does not end with this client */

    /* Where the connection has a queue: */
    int64_t reserve_ms; /* ACQUIRE: > 0: heed reservations. RELEASE, LEAVE: > 0: make one */
    const char *client; /* which one to wake: ACQUIRE that joins, JOIN */
    bool queued;        /* ACQUIRE, RELEASE: the id may have a place; a change that hits ends it */
    bool thorough;      /* ACQUIRE: the row's mark is not enough to know of a reservation */
    bool joins;         /* ACQUIRE: may JOIN and SELECT_PLACE in its transaction if it misses.
                           RELEASE: there are others in the queue, as far as is known */
};

/* What may help after a failure. */
enum sb_sql_remedy {
    SB_SQL_GIVE_UP,   /* nothing that we could do */
    SB_SQL_RETRY,     /* a lock is in the way: try again soon */
    SB_SQL_RECONNECT, /* the connection is of no more use */
    SB_SQL_SCHEMA     /* the table is not there: create it */
};

/* The code is SIMBA_EUNKNOWN when what failed may have been or may still be applied; with any other
 * code it certainly was not and will not be. */
struct sb_sql_failure {
    struct simba_error error;
    enum sb_sql_remedy remedy;
};

/* Receives rows; another answer than SIMBA_OK ends the statement with that code. */
struct sb_sql_sink {
    int (*row)(void *user, const struct sb_sql_record *record);
    void *user;
    struct sb_sql_waiter *next; /* RELEASE, LEAVE: as those of an item; NULL: nobody asks */
};

/* One statement of many that are run together, and what became of it. */
struct sb_sql_item {
    enum sb_sql_statement statement; /* one that concerns a single row */
    struct sb_sql_values values;
    bool done;                   /* carried out: what follows is known */
    bool hit;                    /* a row was found, added or changed; only where it is done */
    bool read;                   /* ACQUIRE that is queued or joins: not hit, but read */
    bool joined;                 /* ACQUIRE that joins: the id was not in the queue before */
    bool left;                   /* RELEASE that is queued: the place is given up */
    bool crowded;                /* RELEASE, LEAVE: others wait */
    struct sb_sql_record record; /* where it was found or changed */

    /* RELEASE, LEAVE: those to tell after the commit. Empty where the statement tells them. */
    struct sb_sql_waiter next[SB_SQL_TOLD];
};

/* variant.c: writes a statement that has two variants: of each "{one|other}" in the text the first
 * part, if the table has the columns of the term, otherwise the second. What does not fit is cut,
 * which sb_text tells. */
struct sb_text;
void sb_sql_write_variant(struct sb_text *text, const char *from, bool has_terms)
    SB_SHARED("sql_write_variant");

/* inspect.c: adds whether the table has the columns of the term; `statement` adds them. */
struct sb_findings;
void sb_sql_findings_add_terms(struct sb_findings *findings, bool has_terms, const char *statement)
    SB_SHARED("sql_findings_add_terms");

/* The columns, for the variant that has them. */
#define SB_SQL_TERM_COLUMNS "term_fence, term_since, term_version"

/* A deadline that is over. */
#define SB_SQL_AT_ONCE 0

/* How long the loop goes on waiting for a server when it has something else to do. After that the
 * connection is given up. */
#define SB_SQL_LOOP_BUSY_MS 300

struct sb_sql_driver;

/* Each driver's connection begins with one of these. */
struct sb_sql_connection {
    const struct sb_sql_driver *driver;
    size_t mutex_max;          /* characters that the column `mutex` takes */
    size_t owner_id_max;       /* the same of `owner_id` */
    uint64_t version_max;      /* the last version; no term can begin or go on behind it */
    const char *widen_version; /* the statement that makes room for more; NULL: there is enough */
    bool warned_of_version;    /* that there is not */
    bool outdated;             /* the table may have another form by now: connect again */
    bool drops_spaces;         /* at the end of names and ids, or does not see them */
    bool needs_utf8;           /* refuses other bytes in names and ids */
    bool created_table;        /* it was missing */
    bool won;                  /* the last acquire did: the next one need not look first */
    bool has_written;          /* so a failure is not the one that it was made because of */
    bool has_queue;            /* simba_waiter is there; otherwise a release wakes everybody */

    /* While the loop uses the connection; NULL otherwise. It waits for a server no longer than
     * this. */
    struct uv_loop_s *loop;
    int64_t loop_until_ms;
};

struct sb_sql_driver {
    /* ACQUIRE, GUARD and RELEASE yield the changed row, so that no SELECT has to follow. */
    bool returns_rows;

    /* Writers exclude each other in the whole database: an acquire looks first whether it can win,
     * and looks again when it had to wait. A client that won its last acquire skips the first
     * look. */
    bool reads_first;

    /* A release tells nobody that has not asked for it: clients with observers WATCH. */
    bool keeps_observers;

    /* Creates. Connects, creates the schema where it is missing and prepares the statements, in
     * about `timeout_ms`. `settings` is what the backend gave to its worker. */
    int (*connect)(void *settings, int64_t timeout_ms, struct sb_sql_connection **ret_connection,
                   struct sb_sql_failure *failure);
    void (*disconnect)(struct sb_sql_connection *connection); /* destroys; takes NULL */

    /* Until when the calls that follow may wait for others, on simba_now_ms(). SB_SQL_AT_ONCE: not
     * at all. */
    void (*set_deadline)(struct sb_sql_connection *connection, int64_t deadline_ms);

    /* Whether what was read and written is still the store that others see. On failure *ret_moved
     * tells that it is not: nobody sees what was written. Otherwise nothing is known of it, and
     * others may see it. May be NULL. */
    int (*check)(struct sb_sql_connection *connection, bool *ret_moved,
                 struct sb_sql_failure *failure);

    /* The same for a client that has only released, which takes less. NULL where `check` is. */
    int (*check_name)(struct sb_sql_connection *connection, bool *ret_moved,
                      struct sb_sql_failure *failure);

    /* A transaction that may write. NULL where no call needs one. */
    int (*begin)(struct sb_sql_connection *connection, struct sb_sql_failure *failure);
    int (*commit)(struct sb_sql_connection *connection, struct sb_sql_failure *failure);
    void (*rollback)(struct sb_sql_connection *connection);

    /* Rows go to `sink`, which may be NULL. *ret_count is how many rows were yielded or, by a
     * statement that yields none, changed; NULL: nobody asks. */
    int (*run)(struct sb_sql_connection *connection, enum sb_sql_statement statement,
               const struct sb_sql_values *values, const struct sb_sql_sink *sink,
               int64_t *ret_count, struct sb_sql_failure *failure);

    /* Runs statements on single rows together, in as few round trips and transactions as it can;
     * none stays open between two round trips. NULL where writers exclude each other in the whole
     * database. Items of one mutex stand side by side, and none is done or hit. A success carries
     * out one of them at least; those that are not done then are for another call. A failure
     * concerns those that are not done: none of them was applied, or the code is SIMBA_EUNKNOWN.
     * What another client has locked is waited for briefly at most; then it is not hit, or the
     * remedy is SB_SQL_RETRY. A changed record is told with its own clock: only the differences
     * between its times count. */
    int (*run_all)(struct sb_sql_connection *connection, struct sb_sql_item *const *items,
                   size_t count, struct sb_sql_failure *failure);

    /* For polls on behalf of waiters, where the connection has a queue: reads records like run_all,
     * all of them, and sets next[0] to the waiter that the mutex is reserved for, next[1] to the
     * first of the queue. NULL where waiters hear of releases by other means. */
    int (*read_queues)(struct sb_sql_connection *connection, struct sb_sql_item *const *items,
                       size_t count, struct sb_sql_failure *failure);

    /* Reads a property, or writes it and leaves *ret_property alone, in the table
     *
     *     simba_property(mutex, name, value, written_at)
     *
     * which is ours as well, and is created when it is first written. `written_at` is the
     * database's time of day in milliseconds. SIMBA_ELOST: property->id does not own. */
    int (*property)(struct sb_sql_connection *connection, const struct sb_sql_property *property,
                    struct simba_property *ret_property, struct sb_sql_failure *failure);

    /* FORGET or RAISE of a row, atomically. *ret_done is false also for a row that is to be
     * deleted, but whose version is not yet below that of a row that is inserted. */
    int (*tend)(struct sb_sql_connection *connection, const struct sb_sql_tending *tending,
                bool *ret_done, struct sb_sql_failure *failure);

    /* Adds what the database's settings and the connection mean to leases of that length. */
    int (*inspect)(struct sb_sql_connection *connection, int64_t lease_ms,
                   struct sb_findings *findings, struct sb_sql_failure *failure);

    /* Creates what is missing of the schema. */
    int (*init_schema)(struct sb_sql_connection *connection, struct sb_sql_failure *failure);

    /* A mutex was released or changed its owner, or a property was written that its owner should
     * hear of, and that is committed. `to` is the waiter to tell; NULL: everybody. May be NULL. */
    void (*announce)(struct sb_sql_connection *connection, enum simba_notice notice,
                     const char *mutex, const struct sb_sql_waiter *to);

    /* An acquire has found another owner, so a contender is going to wait. May be NULL. */
    void (*contended)(struct sb_sql_connection *connection);

    /* With `reads_first`: whether a contender of the client was told that it comes next, so that
     * its acquire need not look first. Asking forgets it. May be NULL. */
    bool (*is_called)(struct sb_sql_connection *connection);
};

/* wait.c: waits until the socket is ready for `events` of poll(), and returns what it is ready for;
 * 0 when the deadline has come. After the deadline it returns 0 even if the socket is ready; with
 * SB_SQL_AT_ONCE it looks once. What is wrong with the socket shows when it is used.
 *
 * If the loop uses the connection and has something else to do, it waits for no longer than
 * SB_SQL_LOOP_BUSY_MS after that, however many waits it takes for the answer. `connection` may be
 * NULL: then it is not the loop that waits. */
short sb_sql_wait(struct sb_sql_connection *connection, int socket, short events,
                  int64_t deadline_ms) SB_SHARED("sql_wait");

/* How long things may take. */
struct sb_sql_limits {
    int64_t connect_ms;
    int64_t timeout_ms;
};

/* A driver, and how its settings are read from a URL. */
struct sb_sql_dialect {
    const struct sb_sql_driver *driver;
    const char *schema; /* the statement that creates the table; NULL: nobody can by hand */

    /* Reads the settings for driver->connect into memory of that size, which is 0 before. After a
     * failure, too, the caller clears them. Of the host only `log` is used. */
    size_t settings_size;
    int (*read)(void *settings, simba_url *url, const struct simba_backend_host *host,
                struct sb_sql_limits *ret_limits, struct simba_error *error);
    void (*clear)(void *settings);
};

#endif
