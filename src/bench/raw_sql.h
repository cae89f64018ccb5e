/*
 * raw_sql.h - what the plain clients of the SQL stores share: their statements, and what they are put together to.
 *
 * Names are put into statements as they are: a prefix of the bench has letters, digits and dashes only.
 */
#ifndef BENCH_RAW_SQL_H
#define BENCH_RAW_SQL_H

#include <simba/backend.h>

#define BENCH_SQL_NAME_MAX 32
#define BENCH_SQL_MAX 512

/* Before the INSERT, so that nothing stays where the right to delete is missing. */
#define BENCH_SQL_DELETE "DELETE FROM simba_mutex WHERE mutex = '%sraw'"
#define BENCH_SQL_INSERT                                                                           \
    "INSERT INTO simba_mutex (mutex, acquired_at, ttl_at, transition_at, owner_id, version)"       \
    " VALUES ('%sraw', 0, 0, 0, '', 0)"
#define BENCH_SQL_UPDATE                                                                           \
    "UPDATE simba_mutex SET acquired_at = 1, ttl_at = 2, transition_at = 3, owner_id = 'raw',"     \
    " version = version + 1 WHERE mutex = '%sraw'"

/* The first member of a plain client, which is the `raw` of the functions. */
struct bench_sql {
    int (*execute)(void *raw, const char *sql, struct simba_error *error);
    int (*update)(void *raw, struct simba_error *error); /* BENCH_SQL_UPDATE, prepared */
    const char *begin;                                   /* a transaction that writes */
    char prefix[BENCH_SQL_NAME_MAX];
};

/* TLS costs by itself, and is not what is compared: SIMBA_EUNSUPPORTED. */
int bench_sql_check_plain(simba_url *url, struct simba_error *error);

/* See struct bench_way and struct bench_raw_ops. The hand-over is of a store that tells nobody of a change: the two
 * writes alone. */
int bench_sql_cycle(void *raw, struct simba_error *error);
int bench_sql_hand_over(void *raw, double *ret_us, struct simba_error *error);
int bench_sql_renew(void *raw, int count, struct simba_error *error);
int bench_sql_forget(void *raw, struct simba_error *error);

#endif
