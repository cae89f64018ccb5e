/*
 * roster.c - who listens. Must not know what for.
 */
#include "backend/sqlite/roster.h"

#include "base/alloc.h"
#include "base/text.h"

#include <string.h>

static struct sb_roster_entry **find(struct sb_roster *roster, size_t slot, const char *mutex)
{
    struct sb_roster_entry **link = &roster->slots[slot];

    while (*link != NULL && strcmp((*link)->mutex, mutex) != 0)
        link = &(*link)->next;
    return link;
}

bool sb_roster_add(struct sb_roster *roster, size_t slot, const char *mutex, bool observer)
{
    struct sb_roster_entry **link = find(roster, slot, mutex);

    if (*link == NULL) {
        *link = sb_alloc_zero(sizeof **link);
        if (*link == NULL)
            return false;
        sb_text_copy((*link)->mutex, sizeof(*link)->mutex, mutex);
        roster->count++;
    }
    if (observer) {
        (*link)->observers++;
        roster->observers++;
    } else {
        (*link)->contenders++;
    }
    return true;
}

void sb_roster_remove(struct sb_roster *roster, size_t slot, const char *mutex, bool observer)
{
    struct sb_roster_entry *entry = *find(roster, slot, mutex);

    if (entry == NULL)
        return;
    if (observer && entry->observers > 0) {
        entry->observers--;
        roster->observers--;
    } else if (!observer && entry->contenders > 0) {
        entry->contenders--;
    }
}

void sb_roster_trim(struct sb_roster *roster, size_t slot)
{
    struct sb_roster_entry **link = &roster->slots[slot];

    while (*link != NULL) {
        struct sb_roster_entry *entry = *link;

        if (entry->contenders > 0 || entry->observers > 0) {
            link = &entry->next;
            continue;
        }
        *link = entry->next;
        sb_free(entry);
        roster->count--;
    }
}

void sb_roster_clear(struct sb_roster *roster)
{
    for (size_t slot = 0; slot < SB_WAKE_SLOTS; slot++) {
        while (roster->slots[slot] != NULL) {
            struct sb_roster_entry *entry = roster->slots[slot];

            roster->slots[slot] = entry->next;
            sb_free(entry);
        }
    }
}
