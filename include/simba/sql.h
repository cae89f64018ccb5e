/*
 * sql.h - the mutexes of an SQL database as what they are there: rows.
 *
 * A contest needs none of this. The repository is for programs that set up, inspect or repair a
 * table, or build another kind of lock on the same rows. Each call is one attempt at one row;
 * nothing is renewed, and no time is kept: an owner that does not acquire again in time loses its
 * row to the next.
 *
 * All times are on the clock of the database (on SQLite that of simba_now_ms()), in milliseconds. A
 * handle may be used by several threads; their calls take turns. Calls wait for the database, at
 * most for the URL's `timeout` each, but for the look-up of the server's name. What fails for a
 * reason that may pass (a lock, a deadlock, a lost connection before anything was sent) is tried
 * again within it, and told as it failed first; SIMBA_EUNKNOWN tells that the reply to a change was
 * lost.
 *
 * Names and ids are those of simba.h, none may be NULL. Results go to `ret_...`, which stay as they
 * are on failure. Without a handle or a `ret_...` a call is SIMBA_EMISUSE. `error` may be NULL.
 */
#ifndef SIMBA_SQL_H
#define SIMBA_SQL_H

#include <simba/simba.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct simba_repository simba_repository;

/* A row of the table simba_mutex. */
struct simba_record {
    char mutex[SIMBA_MUTEX_MAX + 1];
    char owner_id[SIMBA_ID_MAX + 1]; /* empty: nobody */
    int64_t acquired_at_ms;
    int64_t ttl_at_ms;
    int64_t transition_at_ms;
    uint64_t version;         /* grows with every change of the row */
    int64_t current_db_at_ms; /* the clock when the row was read */
};

/* Creates. `url` is that of a client: sqlite:PATH, mysql://..., postgres://...; another store is
 * SIMBA_EUNSUPPORTED. Relative paths in it count from the working folder of this call. Connects,
 * and creates the table where it is missing. */
SIMBA_API int simba_repository_open(const char *url, simba_repository **ret_repository,
                                    struct simba_error *error);

/* Destroys. Takes NULL. No thread may be in a call. */
SIMBA_API void simba_repository_close(simba_repository *repository);

/* Makes sure of the table. *ret_created: it was missing, and this handle has created it. */
SIMBA_API int simba_repository_init_schema(simba_repository *repository, bool *ret_created,
                                           struct simba_error *error);

/* The statement that creates the table, for an administrator to run by hand; nothing is connected
 * to. The text is never freed. SIMBA_EUNSUPPORTED: no SQL database, or one that only the library
 * can set up (SQLite). */
SIMBA_API int simba_repository_schema(const char *url, const char **ret_statement,
                                      struct simba_error *error);

/* Adds a mutex that nobody owns. One that is there already is SIMBA_EEXISTS. */
SIMBA_API int simba_repository_init_mutex(simba_repository *repository, const char *mutex,
                                          struct simba_error *error);

/* The same, but one that is there already is no error and stays as it is. */
SIMBA_API int simba_repository_try_init_mutex(simba_repository *repository, const char *mutex,
                                              bool *ret_created, struct simba_error *error);

/* SIMBA_ENOTFOUND when there is no such mutex. */
SIMBA_API int simba_repository_get_owner(simba_repository *repository, const char *mutex,
                                         struct simba_record *ret_record,
                                         struct simba_error *error);

/* Makes `id` the owner if nobody is, or the owner's lease has ended, or it is `id` itself, which
 * thereby renews. A lease of `id` is never shortened, whatever is asked for. A mutex that is
 * missing is not acquired. */
SIMBA_API int simba_repository_acquire(simba_repository *repository, const char *mutex,
                                       const char *id, int64_t ttl_ms, int64_t transition_ms,
                                       bool *ret_acquired, struct simba_error *error);

/* The same, and tells the row afterwards, in one transaction. A mutex that is missing is added
 * first. */
SIMBA_API int simba_repository_acquire_and_get_owner(simba_repository *repository,
                                                     const char *mutex, const char *id,
                                                     int64_t ttl_ms, int64_t transition_ms,
                                                     bool *ret_acquired,
                                                     struct simba_record *ret_record,
                                                     struct simba_error *error);

/* Releases what `id` owns, and wakes waiters. *ret_released: it did own. SIMBA_ENOTFOUND when
 * there is no such mutex. After SIMBA_EUNKNOWN the server may still carry it out; that ends no
 * lease that `id` has acquired or renewed since. */
SIMBA_API int simba_repository_release(simba_repository *repository, const char *mutex,
                                       const char *id, bool *ret_released,
                                       struct simba_error *error);

/* Tells the row of a mutex, which is added where it is missing; two clients may add it at the same
 * time. */
SIMBA_API int simba_repository_ensure_owner(simba_repository *repository, const char *mutex,
                                            struct simba_record *ret_record,
                                            struct simba_error *error);

#ifdef __cplusplus
}
#endif

#endif
