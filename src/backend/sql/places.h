/*
 * places.h - what a client knows of the queues in which its contenders wait: which of them may have
 * a row in simba_waiter, and which mutexes had a queue lately. From any thread.
 */
#ifndef SB_SQL_PLACES_H
#define SB_SQL_PLACES_H

#include "backend/sql/driver.h"

struct sb_sql_places;

/* Creates. `client` is the name by which waiters are woken, at most SB_SQL_CLIENT_MAX bytes. NULL
 * when memory is short. */
struct sb_sql_places *sb_sql_places_create(const char *client);
void sb_sql_places_destroy(struct sb_sql_places *places); /* takes NULL */

const char *sb_sql_places_client(const struct sb_sql_places *places);

/* Whether the contender may have a place. It has one from before the statement that joins is sent,
 * whatever becomes of it, until a statement that removes it was carried out. False when memory is
 * short: then it must not join. */
bool sb_sql_places_enter(struct sb_sql_places *places, const char *mutex, const char *id);
void sb_sql_places_leave(struct sb_sql_places *places, const char *mutex, const char *id);
bool sb_sql_places_has(struct sb_sql_places *places, const char *mutex, const char *id);

/* It is not known what became of a statement that joins: it may be carried out later than a win,
 * which then does not end the place. */
void sb_sql_places_doubt(struct sb_sql_places *places, const char *mutex, const char *id);
void sb_sql_places_win(struct sb_sql_places *places, const char *mutex, const char *id);

/* Whether others wait for the mutex: a guess, which decides how many statements go together. */
void sb_sql_places_set_crowded(struct sb_sql_places *places, const char *mutex, bool crowded);
bool sb_sql_places_is_crowded(struct sb_sql_places *places, const char *mutex);

/* An observer of the mutex comes or goes. */
void sb_sql_places_observe(struct sb_sql_places *places, const char *mutex, bool on);

/* How long the store tells a client of releases that has asked for it once, and the id under which
 * the client does. */
#define SB_SQL_WATCH_MS 120000
#define SB_SQL_WATCHER_MAX (SB_SQL_CLIENT_MAX + 3)
const char *sb_sql_places_watcher(const struct sb_sql_places *places);

/* Whether it is time to ask; then it counts as done. Three times as often as it has to. */
bool sb_sql_places_take_watch(struct sb_sql_places *places, const char *mutex, int64_t now_ms);

#endif
