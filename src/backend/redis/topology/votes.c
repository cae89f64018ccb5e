/*
 * votes.c - counts.
 */
#include "backend/redis/topology/sentinels.h"

#include "base/check.h"

#include <string.h>

#define SILENT_MS 60000 /* a sentinel that nobody has told of, or heard of, for so long is gone */
#define FRESH_MS 10000  /* one that has answered since then need not be asked elsewhere */

void sb_redis_votes_init(struct sb_redis_votes *v, const struct sb_redis_options *options)
{
    memset(v, 0, sizeof *v);
    v->any = options->sentinel_any;
    v->named = options->place_count;
    for (size_t i = 0; i < v->named; i++) {
        v->votes[i].used = true;
        v->votes[i].place = options->places[i];
    }
}

/* ---- Answers --------------------------------------------------------------------------------- */

/* The place of a peer in the list: its own, a free one, or the one that was reported longest
 * ago. */
static size_t place_peer(struct sb_redis_votes *v, const struct sb_redis_sentinel_peer *peer)
{
    size_t found = 0;

    for (size_t i = 0; i < SB_REDIS_SENTINELS_MAX; i++) {
        if (v->listed_ms[i] != 0 && strcmp(v->peers[i].id, peer->id) == 0 &&
            sb_wire_place_equals(&v->peers[i].place, &peer->place))
            return i;
        if (v->listed_ms[i] < v->listed_ms[found])
            found = i;
    }
    v->peers[found] = *peer;
    v->listed_by[found] = 0;
    return found;
}

/* Only reports of sentinels that the URL names count here. */
static void take_peers(struct sb_redis_votes *v, size_t index,
                       const struct sb_redis_sentinel_answer *answer, int64_t asked_ms)
{
    uint32_t bit = (uint32_t)1 << index;

    SB_CHECK(answer->peer_count <= SB_REDIS_SENTINELS_MAX, "the peers of an answer are bounded");
    for (size_t i = 0; i < SB_REDIS_SENTINELS_MAX; i++)
        v->listed_by[i] &= ~bit;
    for (size_t i = 0; i < answer->peer_count; i++) {
        size_t peer = place_peer(v, &answer->peers[i]);

        v->listed_ms[peer] = asked_ms;
        v->listed_by[peer] |= bit;
    }
}

void sb_redis_votes_take(struct sb_redis_votes *v, size_t index,
                         const struct sb_redis_sentinel_answer *answer, int64_t asked_ms)
{
    struct sb_redis_vote *vote = &v->votes[index];

    SB_CHECK(index < SB_REDIS_SENTINELS_MAX && vote->used, "a sentinel that is known has answered");
    memcpy(vote->id, answer->id, sizeof vote->id);
    vote->master = answer->master;
    vote->known = answer->known;
    vote->asked_ms = asked_ms;
    if (index < v->named)
        take_peers(v, index, answer, asked_ms);
}

/* ---- Which sentinels there are --------------------------------------------------------------- */

static bool is_asked(const struct sb_redis_votes *v, const struct sb_redis_sentinel_peer *peer,
                     int64_t now_ms)
{
    for (size_t i = 0; i < SB_REDIS_SENTINELS_MAX; i++) {
        const struct sb_redis_vote *vote = &v->votes[i];

        if (vote->used && (sb_wire_place_equals(&vote->place, &peer->place) ||
                           (strcmp(vote->id, peer->id) == 0 && vote->asked_ms + FRESH_MS > now_ms)))
            return true;
    }
    return false;
}

static void add(struct sb_redis_votes *v, const struct sb_wire_place *place)
{
    for (size_t i = v->named; i < SB_REDIS_SENTINELS_MAX; i++) {
        if (v->votes[i].used)
            continue;
        memset(&v->votes[i], 0, sizeof v->votes[i]);
        v->votes[i].used = true;
        v->votes[i].place = *place;
        return;
    }
}

void sb_redis_votes_add_peers(struct sb_redis_votes *v, int64_t now_ms)
{
    for (size_t i = 0; i < SB_REDIS_SENTINELS_MAX; i++)
        if (2 * (size_t)__builtin_popcount(v->listed_by[i]) >= v->named &&
            v->listed_ms[i] + SILENT_MS > now_ms && !is_asked(v, &v->peers[i], now_ms))
            add(v, &v->peers[i].place);
}

bool sb_redis_votes_may_forget(const struct sb_redis_votes *v, size_t index, int64_t now_ms)
{
    const struct sb_redis_vote *vote = &v->votes[index];

    if (!vote->used || index < v->named || vote->asked_ms + SILENT_MS > now_ms)
        return false;
    for (size_t i = 0; i < SB_REDIS_SENTINELS_MAX; i++)
        if (v->listed_ms[i] + SILENT_MS > now_ms &&
            sb_wire_place_equals(&v->peers[i].place, &vote->place))
            return false;
    return true;
}

void sb_redis_votes_forget(struct sb_redis_votes *v, size_t index)
{
    SB_CHECK(index >= v->named, "a sentinel of the URL is not forgotten");
    memset(&v->votes[index], 0, sizeof v->votes[index]);
}

size_t sb_redis_votes_count(const struct sb_redis_votes *v)
{
    size_t count = v->named;

    for (size_t i = 0; i < SB_REDIS_SENTINELS_MAX; i++)
        if (v->votes[i].used && v->votes[i].known > count)
            count = v->votes[i].known;
    return count;
}

size_t sb_redis_votes_needed(const struct sb_redis_votes *v)
{
    return v->any ? 1 : sb_redis_votes_count(v) / 2 + 1;
}

/* ---- Counting -------------------------------------------------------------------------------- */

/* A sentinel that answers under two addresses counts once, with its newest word. */
static bool is_superseded(const struct sb_redis_votes *v, size_t index)
{
    const struct sb_redis_vote *vote = &v->votes[index];

    for (size_t i = 0; i < SB_REDIS_SENTINELS_MAX; i++) {
        const struct sb_redis_vote *other = &v->votes[i];

        if (i != index && vote->id[0] != '\0' && other->used && strcmp(other->id, vote->id) == 0 &&
            (other->asked_ms > vote->asked_ms || (other->asked_ms == vote->asked_ms && i < index)))
            return true;
    }
    return false;
}

static bool counts_for(const struct sb_redis_votes *v, size_t index,
                       const struct sb_wire_place *master)
{
    const struct sb_redis_vote *vote = &v->votes[index];

    return vote->used && vote->asked_ms != 0 && sb_wire_place_equals(&vote->master, master) &&
           !is_superseded(v, index);
}

size_t sb_redis_votes_for(const struct sb_redis_votes *v, const struct sb_wire_place *master,
                          int64_t since_ms)
{
    size_t count = 0;

    for (size_t i = 0; i < SB_REDIS_SENTINELS_MAX; i++)
        count += v->votes[i].asked_ms >= since_ms && counts_for(v, i, master);
    return count;
}

int64_t sb_redis_votes_confirmed_ms(const struct sb_redis_votes *v,
                                    const struct sb_wire_place *master)
{
    size_t needed = sb_redis_votes_needed(v);
    int64_t latest_ms = 0;

    for (size_t i = 0; i < SB_REDIS_SENTINELS_MAX; i++) {
        int64_t asked_ms = v->votes[i].asked_ms;

        if (asked_ms > latest_ms && counts_for(v, i, master) &&
            sb_redis_votes_for(v, master, asked_ms) >= needed)
            latest_ms = asked_ms;
    }
    return latest_ms;
}

/* The server that most of them name; `current` wins a tie. */
static const struct sb_wire_place *most_named(const struct sb_redis_votes *v,
                                              const struct sb_wire_place *current, int64_t since_ms)
{
    const struct sb_wire_place *best = current;
    size_t most = current != NULL ? sb_redis_votes_for(v, current, since_ms) : 0;

    for (size_t i = 0; i < SB_REDIS_SENTINELS_MAX; i++) {
        size_t count = v->votes[i].used && v->votes[i].asked_ms != 0
                           ? sb_redis_votes_for(v, &v->votes[i].master, since_ms)
                           : 0;

        if (count > most) {
            most = count;
            best = &v->votes[i].master;
        }
    }
    return most > 0 ? best : NULL;
}

const struct sb_wire_place *sb_redis_votes_master(const struct sb_redis_votes *v,
                                                  const struct sb_wire_place *current,
                                                  int64_t since_ms)
{
    const struct sb_wire_place *best = most_named(v, current, v->any ? since_ms : 0);

    return best != NULL && sb_redis_votes_for(v, best, 0) >= sb_redis_votes_needed(v) ? best : NULL;
}
