/*
 * repository.h - the mutexes of an SQL database, one call for each thing that can be done to them.
 *
 * Works on any dialect. Knows nothing of requests, threads and retries: every call is one attempt.
 *
 * Calls return SIMBA_OK or the code in failure->error, and leave the ret_... parameters untouched
 * on failure. `failure` is required. Between sb_sql_repository_begin and _commit all calls belong
 * to one transaction; without, each is one of its own.
 */
#ifndef SB_SQL_REPOSITORY_H
#define SB_SQL_REPOSITORY_H

#include "backend/sql/driver.h"
#include "base/shared.h"

struct sb_sql_repository {
    struct sb_sql_connection *connection;
    bool in_transaction;
};

/* Which id wants the mutex and for how long. */
struct sb_sql_claim {
    const char *mutex;
    const char *id;
    int64_t ttl_ms;
    int64_t transition_ms;
    uint64_t fence; /* of the term to renew; 0: any of this id */
    bool outlives_client;

    /* A contender that waits in a queue; without a client it does neither wait nor heed it. */
    int64_t reserve_ms; /* 0: no reservations */
    const char *client; /* NULL: none */
    bool queued;        /* it may have a place */
};

/* The values that a claim binds. */
struct sb_sql_values sb_sql_claim_values(const struct sb_sql_claim *claim);

/* What a table takes as names and ids. */
struct sb_sql_names {
    size_t mutex_max; /* characters */
    size_t id_max;
    bool drops_spaces; /* at their ends, or does not see them */
    bool needs_utf8;
};

struct sb_sql_names sb_sql_names_of(const struct sb_sql_connection *connection);

/* SIMBA_EINVAL for a mutex or an id that these cannot hold. Each may be NULL. */
int sb_sql_names_check(const struct sb_sql_names *names, const char *mutex, const char *id,
                       struct simba_error *error);

/* SIMBA_EINVAL for a mutex or an id that the table's columns cannot hold. Each may be NULL. */
int sb_sql_repository_check_names(struct sb_sql_repository *repository, const char *mutex,
                                  const char *id, struct sb_sql_failure *failure);

/* SIMBA_ECONFIG for a record of the mutex that no term can begin or go on with: the table has to be
 * altered. */
int sb_sql_repository_check_version(struct sb_sql_repository *repository,
                                    const struct sb_sql_record *record,
                                    struct sb_sql_failure *failure);

/* Creates the table where it is missing; harmless where it is not. */
int sb_sql_repository_init_schema(struct sb_sql_repository *repository,
                                  struct sb_sql_failure *failure);

/* Adds a mutex that nobody owns. One that is there already is SIMBA_EEXISTS. */
int sb_sql_repository_init_mutex(struct sb_sql_repository *repository, const char *mutex,
                                 struct sb_sql_failure *failure);

/* The same, but one that is there already is no error and stays as it is. */
int sb_sql_repository_try_init_mutex(struct sb_sql_repository *repository, const char *mutex,
                                     bool *ret_created, struct sb_sql_failure *failure);

/* SIMBA_ENOTFOUND when there is no such mutex. */
int sb_sql_repository_get_owner(struct sb_sql_repository *repository, const char *mutex,
                                struct sb_sql_record *ret_record, struct sb_sql_failure *failure);

/* The same, with the id's place in the queue, and with the reservation for another one. */
int sb_sql_repository_get_place(struct sb_sql_repository *repository, const char *mutex,
                                const char *id, struct sb_sql_record *ret_record,
                                struct sb_sql_failure *failure);

/* Acquires or renews. A mutex that is missing is not acquired. */
int sb_sql_repository_acquire(struct sb_sql_repository *repository,
                              const struct sb_sql_claim *claim, bool *ret_acquired,
                              struct sb_sql_failure *failure);

/* Acquires or renews, and tells the owner afterwards, in one transaction. A mutex that is missing
 * is added first. */
int sb_sql_repository_acquire_and_get_owner(struct sb_sql_repository *repository,
                                            const struct sb_sql_claim *claim, bool *ret_acquired,
                                            struct sb_sql_record *ret_record,
                                            struct sb_sql_failure *failure);

/* Renews where the id owns, and tells the owner afterwards. Never acquires, never adds:
 * SIMBA_ENOTFOUND when there is no such mutex. */
int sb_sql_repository_guard(struct sb_sql_repository *repository, const struct sb_sql_claim *claim,
                            bool *ret_renewed, struct sb_sql_record *ret_record,
                            struct sb_sql_failure *failure);

/* Releases where the id owns that version, which is not 0, and tells the owner afterwards.
 * SIMBA_ENOTFOUND when there is no such mutex. */
int sb_sql_repository_release(struct sb_sql_repository *repository, const char *mutex,
                              const char *id, uint64_t version, bool *ret_released,
                              struct sb_sql_record *ret_record, struct sb_sql_failure *failure);

/* The same for a contender, which also gives up its place in the queue. Tells whom to wake, see
 * struct sb_sql_item. */
int sb_sql_repository_hand_on(struct sb_sql_repository *repository,
                              const struct sb_sql_claim *claim, uint64_t version,
                              bool *ret_released, struct sb_sql_record *ret_record,
                              struct sb_sql_waiter next[SB_SQL_TOLD],
                              struct sb_sql_failure *failure);

/* Gives up a place in the queue. A mutex that is free is handed on. Tells whom to wake. */
int sb_sql_repository_leave(struct sb_sql_repository *repository, const struct sb_sql_claim *claim,
                            struct sb_sql_waiter next[SB_SQL_TOLD], struct sb_sql_failure *failure);

/* Reads the record and releases that version of it, where the id owns: a statement that is carried
 * out late does nothing to a lease that the id has acquired since. A row that has changed in
 * between is SB_SQL_RETRY. */
int sb_sql_repository_release_read(struct sb_sql_repository *repository, const char *mutex,
                                   const char *id, bool *ret_released,
                                   struct sb_sql_record *ret_record,
                                   struct sb_sql_failure *failure);

/* Tells the owner of a mutex, which is added where it is missing; two clients may add it at the
 * same time. */
int sb_sql_repository_ensure_owner(struct sb_sql_repository *repository, const char *mutex,
                                   struct sb_sql_record *ret_record,
                                   struct sb_sql_failure *failure);

/* All mutexes in the order of their names. */
int sb_sql_repository_list(struct sb_sql_repository *repository, const struct sb_sql_sink *sink,
                           struct sb_sql_failure *failure);

/* Those that wait for the mutex, the next one first. Only with connection->has_queue. */
int sb_sql_repository_queue(struct sb_sql_repository *repository, const char *mutex,
                            const struct sb_sql_sink *sink, struct sb_sql_failure *failure);

int sb_sql_repository_begin(struct sb_sql_repository *repository, struct sb_sql_failure *failure);

/* On failure the transaction is over as well. */
int sb_sql_repository_commit(struct sb_sql_repository *repository, struct sb_sql_failure *failure);

/* Harmless outside a transaction. */
void sb_sql_repository_rollback(struct sb_sql_repository *repository);

/* Whether the store is still the one that others see: `check` of struct sb_sql_driver. */
int sb_sql_repository_check(struct sb_sql_repository *repository, bool *ret_moved,
                            struct sb_sql_failure *failure);

/* Sets the record of an item as its change leaves it, with that version. Only the differences
 * between its times count. */
void sb_sql_item_set_record(struct sb_sql_item *item, uint64_t version)
    SB_SHARED("sql_item_set_record");

/* Cuts the times of a record to what was claimed, counted from when it was read. A row keeps a
 * lease of its owner that ends later, as it does where the server's clock has gone back. */
void sb_sql_record_limit(struct sb_sql_record *record, const struct sb_sql_claim *claim);

/* Whether it has an owner, by the database's clock when the record was read. */
bool sb_sql_record_is_owned(const struct sb_sql_record *record) SB_SHARED("sql_record_is_owned");

#endif
