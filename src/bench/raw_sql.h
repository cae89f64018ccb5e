/*
 * raw_sql.h - the statements that the plain clients of the SQL stores share.
 *
 * Names are put into them as they are: a prefix of the bench has letters, digits and dashes only.
 */
#ifndef BENCH_RAW_SQL_H
#define BENCH_RAW_SQL_H

#define BENCH_SQL_NAME_MAX 32
#define BENCH_SQL_MAX 512

#define BENCH_SQL_INSERT                                                                           \
    "INSERT INTO simba_mutex (mutex, acquired_at, ttl_at, transition_at, owner_id, version)"       \
    " VALUES ('%sraw', 0, 0, 0, '', 0)"
#define BENCH_SQL_UPDATE                                                                           \
    "UPDATE simba_mutex SET acquired_at = 1, ttl_at = 2, transition_at = 3, owner_id = 'raw',"     \
    " version = version + 1 WHERE mutex = '%sraw'"
#define BENCH_SQL_DELETE "DELETE FROM simba_mutex WHERE mutex LIKE '%s%%'"

#endif
