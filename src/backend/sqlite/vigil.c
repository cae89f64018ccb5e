/*
 * vigil.c - the lives that a client waits for the end of. Must not know who waits, nor SQLite.
 *
 * A life stays here also when its client has released what was waited for. When it ends the waiters look
 * once without need.
 */
#include "backend/sqlite/vigil.h"

#include <string.h>

void sb_vigil_init(struct sb_vigil *vigil, const struct sb_life_file *file)
{
    sb_life_probe_init(&vigil->probe, file);
    pthread_mutex_init(&vigil->lock, NULL);
    vigil->count = 0;
}

void sb_vigil_close(struct sb_vigil *vigil)
{
    sb_life_probe_close(&vigil->probe);
    pthread_mutex_destroy(&vigil->lock);
}

/* With the lock held. */
static bool has(const struct sb_vigil *vigil, int64_t life)
{
    for (size_t i = 0; i < vigil->count; i++)
        if (vigil->lives[i] == life)
            return true;
    return false;
}

bool sb_vigil_add(struct sb_vigil *vigil, int64_t life)
{
    bool added;

    pthread_mutex_lock(&vigil->lock);
    added = !has(vigil, life);
    if (added) {
        if (vigil->count == SB_VIGIL_MAX)
            memmove(vigil->lives, vigil->lives + 1, --vigil->count * sizeof vigil->lives[0]);
        vigil->lives[vigil->count++] = life;
    }
    pthread_mutex_unlock(&vigil->lock);
    return added;
}

bool sb_vigil_look(struct sb_vigil *vigil)
{
    size_t kept = 0;
    bool any = false;

    pthread_mutex_lock(&vigil->lock);
    for (size_t i = 0; i < vigil->count; i++) {
        enum sb_life_state state = sb_life_look(&vigil->probe, vigil->lives[i]);

        any = any || state == SB_LIFE_IS_OVER;
        if (state == SB_LIFE_GOES_ON)
            vigil->lives[kept++] = vigil->lives[i];
    }
    vigil->count = kept;
    pthread_mutex_unlock(&vigil->lock);
    return any;
}

bool sb_vigil_is_needed(struct sb_vigil *vigil)
{
    bool needed;

    pthread_mutex_lock(&vigil->lock);
    needed = vigil->count > 0;
    pthread_mutex_unlock(&vigil->lock);
    return needed;
}
