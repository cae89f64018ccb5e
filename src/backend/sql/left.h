/*
 * left.h - how a client has left the mutex that it released last, for those who acquire the same one again and again.
 *
 * While nobody else wants it, its row is found like that, and to ask for just that version takes the server less. Who
 * asks in vain has lost a round trip in the middle of a hand-over; so it is expected only after a cycle that went by
 * undisturbed:
 *
 *     release      leaves version 8
 *     acquire      in the usual way, and yields 9: nobody has come in between
 *     release      leaves version 10
 *     acquire      may expect 10
 */
#ifndef SB_BACKEND_SQL_LEFT_H
#define SB_BACKEND_SQL_LEFT_H

#include "backend/sql/driver.h"
#include "base/shared.h"

/* Begins as zeros. */
struct sb_sql_left {
    char mutex[SIMBA_MUTEX_MAX + 1];
    uint64_t version;
    bool undisturbed; /* by others, when it was acquired last */
};

/* The version at which an acquire may expect the row to be free; 0: ask for it in the usual way. Told once only: if
 * it was wrong, the client asks again in the usual way. */
uint64_t sb_sql_left_expect(struct sb_sql_left *left, const char *mutex)
    SB_SHARED("sql_left_expect");

/* What the item, a change, has made of its row. At the last version nobody may acquire any more. */
void sb_sql_left_note(struct sb_sql_left *left, const struct sb_sql_item *item, uint64_t version,
                      uint64_t version_max) SB_SHARED("sql_left_note");

#endif
