/*
 * sql.h - the mutexes of an SQL database as rows of its table.
 *
 * Contenders and lockers do not need this header. The repository is for programs that set up,
 * inspect or repair the table, or build another kind of lock on the same rows. Each call is one
 * attempt at one row. The repository renews nothing: an owner must acquire again before its lease
 * ends, or another id can acquire the row.
 *
 * All times are milliseconds on the clock of the database (on SQLite that of simba_now_ms()).
 * Several threads may use a handle; their calls take turns. A call waits for the database for at
 * most the `timeout` of the URL; the look-up of the server's name is not counted. Within that time
 * it repeats what failed for a reason that may pass: a lock, a deadlock, a connection that broke
 * before anything was sent. If the repetitions fail, too, it returns the first error.
 * SIMBA_EUNKNOWN: the reply to a change was lost.
 *
 * Names and ids follow the rules of simba.h; none may be NULL. Results go to `ret_...`, which a
 * failure leaves unchanged. A missing handle or `ret_...` is SIMBA_EMISUSE. `error` may be NULL.
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

/* Destroys. NULL is allowed. Calls that other threads are in end as usual; new ones answer
 * SIMBA_ECLOSED. */
SIMBA_API void simba_repository_close(simba_repository *repository);

/* Creates the table if it is missing. *ret_created: this handle has created it, in this call or
 * before. */
SIMBA_API int simba_repository_init_schema(simba_repository *repository, bool *ret_created,
                                           struct simba_error *error);

/* The statement that creates the table, for an administrator to run by hand. Does not connect. The
 * text is static. SIMBA_EUNSUPPORTED: not an SQL database, or SQLite, which only the library can
 * set up. */
SIMBA_API int simba_repository_schema(const char *url, const char **ret_statement,
                                      struct simba_error *error);

/* Adds a mutex without an owner. SIMBA_EEXISTS: the mutex exists. */
SIMBA_API int simba_repository_init_mutex(simba_repository *repository, const char *mutex,
                                          struct simba_error *error);

/* The same, but a mutex that exists is no error and stays unchanged. */
SIMBA_API int simba_repository_try_init_mutex(simba_repository *repository, const char *mutex,
                                              bool *ret_created, struct simba_error *error);

/* SIMBA_ENOTFOUND when there is no such mutex. */
SIMBA_API int simba_repository_get_owner(simba_repository *repository, const char *mutex,
                                         struct simba_record *ret_record,
                                         struct simba_error *error);

/* Makes `id` the owner if the mutex has no owner, or the owner's lease has ended, or `id` owns it
 * already: that renews the lease, and never shortens it. A mutex that does not exist is not
 * acquired. */
SIMBA_API int simba_repository_acquire(simba_repository *repository, const char *mutex,
                                       const char *id, int64_t ttl_ms, int64_t transition_ms,
                                       bool *ret_acquired, struct simba_error *error);

/* The same, and returns the row as it is afterwards, in one transaction. Adds a mutex that does not
 * exist. */
SIMBA_API int simba_repository_acquire_and_get_owner(simba_repository *repository,
                                                     const char *mutex, const char *id,
                                                     int64_t ttl_ms, int64_t transition_ms,
                                                     bool *ret_acquired,
                                                     struct simba_record *ret_record,
                                                     struct simba_error *error);

/* Releases the mutex if `id` owns it, and wakes waiters. *ret_released: `id` owned it.
 * SIMBA_ENOTFOUND: there is no such mutex. After SIMBA_EUNKNOWN the server may still run the
 * release; it ends no lease that `id` has acquired or renewed since. */
SIMBA_API int simba_repository_release(simba_repository *repository, const char *mutex,
                                       const char *id, bool *ret_released,
                                       struct simba_error *error);

/* Returns the row of a mutex. Adds a mutex that does not exist; two clients may do so at the same
 * time. */
SIMBA_API int simba_repository_ensure_owner(simba_repository *repository, const char *mutex,
                                            struct simba_record *ret_record,
                                            struct simba_error *error);

#ifdef __cplusplus
}
#endif

#endif
