/*
 * raw_sql.h - what the plain clients of the SQL stores share: their statements, and what they are
 * put together to.
 *
 * Names are put into statements as they are: a prefix of the bench has letters, digits and dashes
 * only.
 */
#ifndef BENCH_RAW_SQL_H
#define BENCH_RAW_SQL_H

#include <simba/backend.h>

#define BENCH_SQL_NAME_MAX 32
#define BENCH_SQL_MAX 512
#define BENCH_SQL_TABLE_MAX 160

struct sb_sql_values;

/* The first member of a plain client, which is the `raw` of the functions. There are two rows: one
 * that is updated as simply as can be, one for the library's own statements. */
struct bench_sql {
    int (*execute)(void *raw, const char *sql, struct simba_error *error);
    int (*update)(void *raw, struct simba_error *error); /* see bench_sql_write_update */
    const char *begin;                                   /* a transaction that writes */
    const char *unless_there;                            /* behind an INSERT */
    char table[BENCH_SQL_TABLE_MAX];                     /* as statements name it */
    char waiters[BENCH_SQL_TABLE_MAX];                   /* the same; empty: there is none */
    char prefix[BENCH_SQL_NAME_MAX];
    char raw_mutex[BENCH_SQL_NAME_MAX];
    char hand_mutex[BENCH_SQL_NAME_MAX];
};

/* The table has the name that it has everywhere, until the client finds another for it. */
void bench_sql_set_names(struct bench_sql *sql, const char *prefix);

/* Both rows, free and of version 0. */
int bench_sql_create_rows(void *raw, struct simba_error *error);

/* The least that changes the first row, to be prepared. */
void bench_sql_write_update(const struct bench_sql *sql, char ret_text[BENCH_SQL_MAX]);

/* What the library's statements bind for the second row as it was created. */
void bench_sql_set_values(const struct bench_sql *sql, struct sb_sql_values *ret_values);

/* Whether a plain client may be used. TLS costs by itself, and is not what is compared; without the
 * TLS that the URL asks for, the password would go out in clear: SIMBA_EUNSUPPORTED. */
int bench_sql_check_plain(simba_url *url, struct simba_error *error);

/* See struct bench_way and struct bench_raw_ops. */
int bench_sql_cycle(void *raw, struct simba_error *error);
int bench_sql_renew(void *raw, int count, struct simba_error *error);
int bench_sql_forget(void *raw, struct simba_error *error);

#endif
