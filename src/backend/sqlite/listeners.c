/*
 * listeners.c - who listens. Must not know what for.
 */
#include "backend/sqlite/listeners.h"

#include "base/alloc.h"
#include "base/text.h"

#include <string.h>

static struct sb_sqlite_listener **find(struct sb_sqlite_listeners *listeners, size_t slot,
                                        const char *mutex)
{
    struct sb_sqlite_listener **link = &listeners->slots[slot];

    while (*link != NULL && strcmp((*link)->mutex, mutex) != 0)
        link = &(*link)->next;
    return link;
}

bool sb_sqlite_listeners_add(struct sb_sqlite_listeners *listeners, size_t slot, const char *mutex,
                             bool observer)
{
    struct sb_sqlite_listener **link = find(listeners, slot, mutex);

    if (*link == NULL) {
        *link = sb_alloc_zero(sizeof **link);
        if (*link == NULL)
            return false;
        sb_text_copy((*link)->mutex, sizeof(*link)->mutex, mutex);
        listeners->count++;
    }
    if (observer) {
        (*link)->observers++;
        listeners->observers++;
    } else {
        (*link)->contenders++;
    }
    return true;
}

void sb_sqlite_listeners_remove(struct sb_sqlite_listeners *listeners, size_t slot,
                                const char *mutex, bool observer)
{
    struct sb_sqlite_listener *entry = *find(listeners, slot, mutex);

    if (entry == NULL)
        return;
    if (observer && entry->observers > 0) {
        entry->observers--;
        listeners->observers--;
    } else if (!observer && entry->contenders > 0) {
        entry->contenders--;
    }
}

void sb_sqlite_listeners_trim(struct sb_sqlite_listeners *listeners, size_t slot)
{
    struct sb_sqlite_listener **link = &listeners->slots[slot];

    while (*link != NULL) {
        struct sb_sqlite_listener *entry = *link;

        if (entry->contenders > 0 || entry->observers > 0) {
            link = &entry->next;
            continue;
        }
        *link = entry->next;
        sb_free(entry);
        listeners->count--;
    }
}

void sb_sqlite_listeners_clear(struct sb_sqlite_listeners *listeners)
{
    for (size_t slot = 0; slot < SB_SQLITE_WAKE_SLOTS; slot++) {
        while (listeners->slots[slot] != NULL) {
            struct sb_sqlite_listener *entry = listeners->slots[slot];

            listeners->slots[slot] = entry->next;
            sb_free(entry);
        }
    }
}
