/*
 * places.c - what a client knows of the queues in which its contenders wait. Owns the list of those
 * that may have a row; must not know statements.
 */
#include "backend/sql/places.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/text.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define CROWDS 256

/* Of a contender; or, with an empty id, of the observers of the mutex. */
struct place {
    struct sb_hash_node node; /* first */
    unsigned observers;
    int64_t watched_at_ms; /* 0: the store was not asked */
    bool doubtful;
    char mutex[SIMBA_MUTEX_MAX + 1];
    char id[SIMBA_ID_MAX + 1];
};

struct sb_sql_places {
    pthread_mutex_t lock;
    struct sb_hash_table places;          /* under the lock */
    atomic_uint_least32_t crowds[CROWDS]; /* the hash of the last crowded mutex in its slot */
    char client[SB_SQL_CLIENT_MAX + 1];
    char watcher[SB_SQL_WATCHER_MAX + 1]; /* "@@" and the client: no contender has such an id */
};

struct sb_sql_places *sb_sql_places_create(const char *client)
{
    struct sb_sql_places *places = sb_alloc_zero(sizeof *places);
    struct sb_text watcher;

    SB_CHECK(strlen(client) <= SB_SQL_CLIENT_MAX, "the name of a client fits into its column");
    if (places == NULL)
        return NULL;
    if (sb_hash_table_init(&places->places) != SIMBA_OK) {
        sb_free(places);
        return NULL;
    }
    pthread_mutex_init(&places->lock, NULL);
    sb_text_copy(places->client, sizeof places->client, client);
    sb_text_init(&watcher, places->watcher, sizeof places->watcher);
    sb_text_add(&watcher, "@@%s", client);
    return places;
}

void sb_sql_places_destroy(struct sb_sql_places *places)
{
    struct sb_hash_node *node;

    if (places == NULL)
        return;
    while ((node = sb_hash_table_next(&places->places, NULL)) != NULL) {
        sb_hash_table_remove(&places->places, node);
        sb_free(node);
    }
    sb_hash_table_free(&places->places);
    pthread_mutex_destroy(&places->lock);
    sb_free(places);
}

const char *sb_sql_places_client(const struct sb_sql_places *places)
{
    return places->client;
}

/* ---- Places ---------------------------------------------------------------------------------- */

static uint32_t hash_of(const char *mutex, const char *id)
{
    return sb_hash(mutex) * 31 + sb_hash(id);
}

/* With the lock held. */
static struct place *find(const struct sb_sql_places *places, const char *mutex, const char *id)
{
    uint32_t hash = hash_of(mutex, id);
    struct sb_hash_node *node = NULL;

    while ((node = sb_hash_table_find(&places->places, node, hash)) != NULL) {
        struct place *place = (struct place *)node;

        if (strcmp(place->id, id) == 0 && strcmp(place->mutex, mutex) == 0)
            return place;
    }
    return NULL;
}

/* With the lock held. NULL when memory is short. */
static struct place *ensure(struct sb_sql_places *places, const char *mutex, const char *id)
{
    struct place *place = find(places, mutex, id);

    if (place != NULL)
        return place;
    place = sb_alloc_zero(sizeof *place);
    if (place == NULL)
        return NULL;
    sb_text_copy(place->mutex, sizeof place->mutex, mutex);
    sb_text_copy(place->id, sizeof place->id, id);
    sb_hash_table_add(&places->places, &place->node, hash_of(mutex, id));
    return place;
}

bool sb_sql_places_enter(struct sb_sql_places *places, const char *mutex, const char *id)
{
    bool entered;

    pthread_mutex_lock(&places->lock);
    entered = ensure(places, mutex, id) != NULL;
    pthread_mutex_unlock(&places->lock);
    return entered;
}

void sb_sql_places_leave(struct sb_sql_places *places, const char *mutex, const char *id)
{
    struct place *place;

    pthread_mutex_lock(&places->lock);
    place = find(places, mutex, id);
    if (place != NULL)
        sb_hash_table_remove(&places->places, &place->node);
    pthread_mutex_unlock(&places->lock);
    sb_free(place);
}

void sb_sql_places_doubt(struct sb_sql_places *places, const char *mutex, const char *id)
{
    struct place *place;

    pthread_mutex_lock(&places->lock);
    place = find(places, mutex, id);
    if (place != NULL)
        place->doubtful = true;
    pthread_mutex_unlock(&places->lock);
}

void sb_sql_places_win(struct sb_sql_places *places, const char *mutex, const char *id)
{
    struct place *place;

    pthread_mutex_lock(&places->lock);
    place = find(places, mutex, id);
    if (place != NULL && place->doubtful)
        place = NULL;
    else if (place != NULL)
        sb_hash_table_remove(&places->places, &place->node);
    pthread_mutex_unlock(&places->lock);
    sb_free(place);
}

bool sb_sql_places_has(struct sb_sql_places *places, const char *mutex, const char *id)
{
    bool has;

    pthread_mutex_lock(&places->lock);
    has = places->places.count > 0 && find(places, mutex, id) != NULL;
    pthread_mutex_unlock(&places->lock);
    return has;
}

/* ---- Observers ------------------------------------------------------------------------------- */

/* Without memory the observer is not told of releases: it reads by its own clock. */
void sb_sql_places_observe(struct sb_sql_places *places, const char *mutex, bool on)
{
    struct place *place;

    pthread_mutex_lock(&places->lock);
    place = on ? ensure(places, mutex, "") : find(places, mutex, "");
    if (place != NULL && on) {
        place->observers++;
    } else if (place != NULL && --place->observers == 0) {
        sb_hash_table_remove(&places->places, &place->node);
        sb_free(place);
    }
    pthread_mutex_unlock(&places->lock);
}

const char *sb_sql_places_watcher(const struct sb_sql_places *places)
{
    return places->watcher;
}

bool sb_sql_places_take_watch(struct sb_sql_places *places, const char *mutex, int64_t now_ms)
{
    struct place *place;
    bool due;

    pthread_mutex_lock(&places->lock);
    place = places->places.count > 0 ? find(places, mutex, "") : NULL;
    due = place != NULL &&
          (place->watched_at_ms == 0 || now_ms - place->watched_at_ms > SB_SQL_WATCH_MS / 3);
    if (due)
        place->watched_at_ms = now_ms;
    pthread_mutex_unlock(&places->lock);
    return due;
}

/* ---- Crowds ---------------------------------------------------------------------------------- */

/* Two mutexes in one slot only forget each other. */
void sb_sql_places_set_crowded(struct sb_sql_places *places, const char *mutex, bool crowded)
{
    uint32_t hash = sb_hash(mutex);
    uint32_t slot = hash % CROWDS;

    if (crowded || atomic_load(&places->crowds[slot]) == hash)
        atomic_store(&places->crowds[slot], crowded ? hash : 0);
}

bool sb_sql_places_is_crowded(struct sb_sql_places *places, const char *mutex)
{
    uint32_t hash = sb_hash(mutex);

    return atomic_load(&places->crowds[hash % CROWDS]) == hash;
}
