/*
 * left.c - how a client has left the mutex that it released last. Owns the rule when that is worth a bet; must not know
 * the text of statements.
 */
#include "backend/sql/left.h"

#include "base/text.h"

#include <string.h>

static bool is_same(const struct sb_sql_left *left, const char *mutex)
{
    return left->version != 0 && strcmp(left->mutex, mutex) == 0;
}

uint64_t sb_sql_left_expect(struct sb_sql_left *left, const char *mutex)
{
    if (!left->undisturbed || !is_same(left, mutex))
        return 0;
    left->undisturbed = false;
    return left->version;
}

static void note_acquire(struct sb_sql_left *left, const char *mutex, uint64_t version)
{
    if (is_same(left, mutex))
        left->undisturbed = version == left->version + 1;
}

static void note_release(struct sb_sql_left *left, const char *mutex, uint64_t version)
{
    left->undisturbed = left->undisturbed && is_same(left, mutex);
    sb_text_copy(left->mutex, sizeof left->mutex, mutex);
    left->version = version;
}

void sb_sql_left_note(struct sb_sql_left *left, const struct sb_sql_item *item, uint64_t version,
                      uint64_t version_max)
{
    if (item->statement == SB_SQL_ACQUIRE)
        note_acquire(left, item->values.mutex, version);
    else if (item->statement == SB_SQL_RELEASE_EXACT)
        note_release(left, item->values.mutex, version < version_max ? version : 0);
}
