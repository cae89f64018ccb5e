/*
 * cluster.c - routes mutexes to masters. Owns the table of slots, and asks for CLUSTER SLOTS; must
 * not know what is sent there.
 *
 * A master that is cut off from the others goes on telling the map that it knew. So if a map brings
 * nothing new while something is wrong, another node is asked the next time. A node whose map has
 * helped is asked first from then on.
 */
#include "backend/redis/topology/cluster.h"

#include "backend/redis/wire/reconnecting.h"
#include "backend/redis/wire/endpoint.h"
#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/random.h"
#include "base/text.h"
#include "base/time.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define REFRESH_MIN_MS 200 /* the shortest time between two refreshes */
#define REFRESH_MAX_MS 2000
#define FORGET_MS 10000 /* without a refresh: earlier ones that brought nothing do not count */
#define SEEDS_MAX (2 * SB_REDIS_PLACES_MAX)

/* ---- The slot of a mutex --------------------------------------------------------------------- */

/* CRC16-CCITT (XModem), as clusters count. */
static unsigned crc16(const char *bytes, size_t length)
{
    unsigned crc = 0;

    for (size_t i = 0; i < length; i++) {
        crc ^= (unsigned)(unsigned char)bytes[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc & 0x8000) != 0 ? (crc << 1) ^ 0x1021 : crc << 1;
        crc &= 0xffff;
    }
    return crc;
}

/* The hash tag ends at the first brace, which may be one of the mutex itself. */
unsigned sb_redis_slot_of(const char *mutex)
{
    return crc16(mutex, strcspn(mutex, "}")) % SB_REDIS_SLOTS;
}

/* Without a first byte of its own the braces are no hash tag: the keys would be in different
 * slots. */
static bool is_in_one_slot(const char *mutex)
{
    return mutex[0] != '}';
}

/* ---- The map --------------------------------------------------------------------------------- */

struct slot_range {
    unsigned first;
    unsigned last;
    struct sb_wire_place master;
};

/* Empty when it is all zeros. */
struct slot_map {
    struct slot_range *ranges;
    size_t count;
    struct sb_wire_place source; /* the node that gave it */
};

struct reading {
    struct slot_map map;
    const struct sb_wire_place *asked;
};

static void free_map(struct slot_map *map)
{
    sb_free(map->ranges);
    memset(map, 0, sizeof *map);
}

/* A node that does not know its own address is at the address where it was asked. */
static bool read_master(struct reading *reading, const redisReply *node,
                        struct sb_wire_place *place)
{
    const redisReply *host;

    if (node->type != REDIS_REPLY_ARRAY || node->elements < 2 ||
        node->element[1]->type != REDIS_REPLY_INTEGER || node->element[1]->integer < 1 ||
        node->element[1]->integer > 65535)
        return false;
    host = node->element[0];
    place->port = (int)node->element[1]->integer;
    if (host->type != REDIS_REPLY_STRING || host->len == 0 || strcmp(host->str, "?") == 0)
        return sb_text_copy(place->host, sizeof place->host, reading->asked->host);
    return sb_text_copy(place->host, sizeof place->host, host->str);
}

static bool is_slot(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_INTEGER && reply->integer >= 0 &&
           reply->integer < SB_REDIS_SLOTS;
}

/* First slot, last slot, master, replicas. */
static bool read_range(struct reading *reading, const redisReply *row, struct slot_range *range)
{
    if (row->type != REDIS_REPLY_ARRAY || row->elements < 3 || !is_slot(row->element[0]) ||
        !is_slot(row->element[1]))
        return false;
    range->first = (unsigned)row->element[0]->integer;
    range->last = (unsigned)row->element[1]->integer;
    return read_master(reading, row->element[2], &range->master);
}

/* A master that a map names several times counts once. Counting stops at one more than the
 * limit. */
static size_t count_masters(const struct slot_map *map)
{
    const struct sb_wire_place *masters[SB_REDIS_MASTERS_MAX + 1];
    size_t count = 0;

    for (size_t i = 0; i < map->count && count <= SB_REDIS_MASTERS_MAX; i++) {
        size_t known = 0;

        while (known < count && !sb_wire_place_equals(masters[known], &map->ranges[i].master))
            known++;
        if (known == count)
            masters[count++] = &map->ranges[i].master;
    }
    return count;
}

static int check_map(struct slot_map *map, struct simba_error *error)
{
    int code = SIMBA_OK;

    if (map->count == 0)
        code = sb_error_set(error, SIMBA_ESTORE, "the cluster's map of slots is invalid");
    else if (count_masters(map) > SB_REDIS_MASTERS_MAX)
        code = sb_error_set(error, SIMBA_ESTORE, "the cluster's map names more than %d masters",
                            SB_REDIS_MASTERS_MAX);
    if (code != SIMBA_OK)
        free_map(map);
    return code;
}

static int read_map(void *user, const redisReply *reply, struct simba_error *error)
{
    struct reading *reading = user;
    struct slot_map *map = &reading->map;

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements == 0)
        return sb_error_set(error, SIMBA_EUNAVAILABLE, "the cluster has no slots assigned yet");
    if (reply->elements > SB_REDIS_SLOTS)
        return sb_error_set(error, SIMBA_ESTORE, "the cluster's map of slots is invalid");
    map->ranges = sb_alloc_zero(reply->elements * sizeof *map->ranges);
    if (map->ranges == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    for (size_t i = 0; i < reply->elements; i++)
        map->count += read_range(reading, reply->element[i], &map->ranges[map->count]);
    return check_map(map, error);
}

static int ask(const struct sb_redis_options *o, const struct sb_wire_tls *tls,
               const struct sb_wire_place *place, int64_t connect_timeout_ms,
               struct reading *reading, struct simba_error *error)
{
    const struct sb_redis_ask_config config = {.options = o,
                                               .tls = tls,
                                               .credentials = &o->credentials,
                                               .connect_timeout_ms = connect_timeout_ms};
    const struct sb_redis_argument arguments[2] = {{"CLUSTER", 7}, {"SLOTS", 5}};
    struct sb_wire_endpoint endpoint;
    int code = sb_redis_endpoint_find(o, &o->credentials, place, &endpoint, error);

    if (code != SIMBA_OK)
        return code;
    reading->asked = place;
    return sb_redis_ask(&config, &endpoint, arguments, 2, read_map, reading, error);
}

/* Blocks: asks the places in turn until one gives a map. They share one connect-timeout. The
 * remaining time is divided among the remaining places: one that refuses at once leaves its share
 * to the others. */
static int find_map(const struct sb_redis_options *o, const struct sb_wire_tls *tls,
                    const struct sb_wire_place *places, size_t count, struct slot_map *ret_map,
                    struct simba_error *error)
{
    struct reading reading = {.asked = NULL};
    int64_t end_ms = simba_now_ms() + o->connect_timeout_ms;
    int code = SIMBA_EUNAVAILABLE;

    for (size_t i = 0; i < count && code != SIMBA_OK; i++) {
        int64_t share_ms = sb_time_left(end_ms, simba_now_ms()) / (int64_t)(count - i);

        code = ask(o, tls, &places[i], sb_max(share_ms, 1), &reading, error);
    }
    if (code == SIMBA_OK) {
        *ret_map = reading.map;
        ret_map->source = *reading.asked;
    }
    return code;
}

struct sb_redis_cluster {
    struct sb_redis_cluster_config config;
    struct sb_redis_node *slots[SB_REDIS_SLOTS];
    uv_timer_t timer;
    bool has_timer; /* the timer is open */
    bool is_due;    /* the timer runs */
    bool closing;
    bool is_lost;                /* no node gave a map, and that has been logged */
    bool doubts;                 /* the node that gave the map is asked last */
    struct sb_wire_place source; /* that node */
    unsigned fruitless;          /* refreshes in a row that failed or brought nothing new */
    int64_t finished_ms;         /* when the last one ended */
    uint64_t random;

    struct sb_wire_blocking query; /* asks for the map */
    bool is_asking;
    struct sb_wire_place seeds[SEEDS_MAX]; /* the query's while it runs, like the next four */
    size_t seed_count;
    struct slot_map map;
    int code;
    struct simba_error error;
};

/* ---- The map --------------------------------------------------------------------------------- */

static bool set_slot(struct sb_redis_cluster *c, unsigned slot, struct sb_redis_node *node)
{
    struct sb_redis_node *before;

    SB_CHECK(slot < SB_REDIS_SLOTS, "a slot is in the table");
    before = c->slots[slot];
    if (before == node)
        return false;
    c->slots[slot] = node;
    c->config.events->slot_moved(c->config.user, before, node);
    return true;
}

/* Returns whether a slot has another node than before. */
static bool apply(struct sb_redis_cluster *c, const struct slot_map *map)
{
    bool covered[SB_REDIS_SLOTS] = {false};
    bool changed = false;

    for (size_t i = 0; i < map->count; i++) {
        struct sb_redis_node *node;

        if (!c->config.events->find_node(c->config.user, &map->ranges[i].master, &node))
            continue; /* the slots without a node bring about another refresh */
        for (unsigned slot = map->ranges[i].first; slot <= map->ranges[i].last; slot++) {
            covered[slot] = true;
            changed |= set_slot(c, slot, node);
        }
    }
    for (unsigned slot = 0; slot < SB_REDIS_SLOTS; slot++)
        if (!covered[slot])
            changed |= set_slot(c, slot, NULL);
    return changed;
}

/* ---- Refreshing ------------------------------------------------------------------------------ */

void sb_redis_cluster_add_seed(struct sb_redis_cluster *c, const struct sb_wire_place *place)
{
    SB_CHECK(!c->is_asking, "the seeds of a query do not change while it runs");
    for (size_t i = 0; i < c->seed_count; i++)
        if (sb_wire_place_equals(&c->seeds[i], place))
            return;
    if (c->seed_count < SEEDS_MAX)
        c->seeds[c->seed_count++] = *place;
}

/* The node that gave the map comes first, or last where its map is in doubt; those behind it follow
 * it. */
static void order_seeds(struct sb_redis_cluster *c)
{
    struct sb_wire_place seeds[SEEDS_MAX];
    size_t first = 0;

    while (first < c->seed_count && !sb_wire_place_equals(&c->seeds[first], &c->source))
        first++;
    if (first < c->seed_count && c->doubts)
        first++;
    memcpy(seeds, c->seeds, sizeof seeds);
    for (size_t i = 0; i < c->seed_count; i++)
        c->seeds[i] = seeds[(first + i) % c->seed_count];
}

static void collect_seeds(struct sb_redis_cluster *c)
{
    const struct sb_redis_options *o = c->config.options;

    c->seed_count = 0;
    c->config.events->add_seeds(c->config.user, c);
    for (size_t i = 0; i < o->place_count; i++)
        sb_redis_cluster_add_seed(c, &o->places[i]);
    order_seeds(c);
}

static void run_refresh(void *user)
{
    struct sb_redis_cluster *c = user;

    c->code =
        find_map(c->config.options, c->config.tls, c->seeds, c->seed_count, &c->map, &c->error);
}

static void finish_close(struct sb_redis_cluster *c)
{
    void (*closed)(void *user) = c->config.events->closed;
    void *user = c->config.user;

    if (!c->closing || c->is_asking || c->has_timer)
        return;
    sb_free(c);
    closed(user);
}

/* If the map is unchanged, asking again at once would not help. */
static void take_map(struct sb_redis_cluster *c)
{
    bool changed = apply(c, &c->map);

    c->config.events->mapped(c->config.user);
    c->fruitless = changed ? 0 : c->fruitless + 1;
    c->doubts = !changed;
    c->source = c->map.source;
    if (c->is_lost)
        c->config.host->log(c->config.host, SIMBA_LOG_INFO, "redis: the cluster answers again");
    c->is_lost = false;
}

static void on_refreshed(void *user)
{
    struct sb_redis_cluster *c = user;

    SB_CHECK(c->is_asking, "a query ends once");
    c->is_asking = false;
    c->finished_ms = simba_now_ms();
    if (c->code != SIMBA_OK && !c->closing) {
        c->fruitless++;
        c->config.host->log(c->config.host, c->is_lost ? SIMBA_LOG_DEBUG : SIMBA_LOG_WARN,
                            "redis: no map of the cluster: %s", c->error.text);
        c->is_lost = true;
        sb_redis_cluster_refresh(c);
    } else if (c->code == SIMBA_OK) {
        if (!c->closing)
            take_map(c);
        free_map(&c->map);
    }
    finish_close(c);
}

static void on_timer(uv_timer_t *timer)
{
    struct sb_redis_cluster *c = timer->data;

    SB_CHECK(!c->is_asking && !c->closing, "one query for the map at a time");
    c->is_due = false;
    collect_seeds(c);
    c->is_asking = sb_wire_blocking_start(&c->query) == 0;
    if (!c->is_asking) {
        c->fruitless++;
        sb_redis_cluster_refresh(c);
    }
}

/* The pause grows while refreshes do not help; half of what exceeds the minimum is random. */
static int64_t delay_ms(struct sb_redis_cluster *c)
{
    int64_t delay = REFRESH_MIN_MS;
    int64_t more;

    for (unsigned i = 0; i < c->fruitless && delay < REFRESH_MAX_MS; i++)
        delay *= 2;
    more = sb_earlier(delay, REFRESH_MAX_MS) - REFRESH_MIN_MS;
    return REFRESH_MIN_MS + more / 2 +
           sb_random_between(sb_random_next(&c->random), 0, more / 2 + 1);
}

void sb_redis_cluster_refresh(struct sb_redis_cluster *c)
{
    if (c->is_asking || c->is_due || c->closing)
        return;
    if (simba_now_ms() - c->finished_ms > FORGET_MS)
        c->fruitless = 0;
    c->is_due = true;
    uv_timer_start(&c->timer, on_timer, (uint64_t)delay_ms(c), 0);
}

void sb_redis_cluster_doubt(struct sb_redis_cluster *c, const struct sb_wire_place *place)
{
    if (sb_wire_place_equals(place, &c->source))
        c->doubts = true;
    sb_redis_cluster_refresh(c);
}

/* ---- Routing --------------------------------------------------------------------------------- */

struct sb_redis_node *sb_redis_cluster_node(const struct sb_redis_cluster *c, const char *mutex)
{
    return c->slots[sb_redis_slot_of(mutex)];
}

struct sb_redis_node *sb_redis_cluster_route(struct sb_redis_cluster *c, const char *mutex,
                                             struct simba_error *error)
{
    struct sb_redis_node *node = sb_redis_cluster_node(c, mutex);

    if (!is_in_one_slot(mutex)) {
        sb_error_set(error, SIMBA_EINVAL,
                     "on a cluster the name of a mutex must not begin with '}': \"%s\"", mutex);
        return NULL;
    }
    if (node == NULL) {
        sb_error_set(error, SIMBA_EUNAVAILABLE, "no node of the cluster serves slot %u",
                     sb_redis_slot_of(mutex));
        sb_redis_cluster_refresh(c);
    }
    return node;
}

/* "MOVED 3999 127.0.0.1:6381". Without a host it is the one that says so. */
static bool read_redirection(const char *text, const struct sb_wire_place *from, unsigned *ret_slot,
                             struct sb_wire_place *ret_place)
{
    const char *slot = strchr(text, ' ');
    const char *host = slot != NULL ? strchr(slot + 1, ' ') : NULL;
    const char *colon = host != NULL ? strrchr(host, ':') : NULL;
    unsigned long number = slot != NULL ? strtoul(slot + 1, NULL, 10) : SB_REDIS_SLOTS;
    long port = colon != NULL ? strtol(colon + 1, NULL, 10) : 0;
    struct sb_text name;

    if (number >= SB_REDIS_SLOTS || port < 1 || port > 65535)
        return false;
    *ret_slot = (unsigned)number;
    *ret_place = *from;
    ret_place->port = (int)port;
    if (colon == host + 1)
        return true;
    sb_text_init(&name, ret_place->host, sizeof ret_place->host);
    sb_text_add(&name, "%.*s", (int)(colon - host - 1), host + 1);
    return !name.cut;
}

struct sb_redis_node *sb_redis_cluster_redirect(struct sb_redis_cluster *c, const char *text,
                                                const struct sb_wire_place *from, bool *ret_asking,
                                                struct simba_error *error)
{
    struct sb_wire_place place;
    struct sb_redis_node *node;
    unsigned slot;

    if (!read_redirection(text, from, &slot, &place)) {
        sb_error_set(error, SIMBA_ESTORE, "a node of the cluster sent an invalid redirection: %s",
                     text);
        return NULL;
    }
    if (!c->config.events->find_node(c->config.user, &place, &node)) {
        sb_error_set(error, SIMBA_EUNAVAILABLE,
                     "a node of the cluster redirected to a server beyond the limit of masters: %s",
                     text);
        sb_redis_cluster_refresh(c); /* which takes those away that have no slots */
        return NULL;
    }
    *ret_asking = strncmp(text, "ASK ", 4) == 0;
    if (!*ret_asking) {
        set_slot(c, slot, node);
        if (c->fruitless > 0)
            c->is_due = false; /* there is something new to be learnt: a long pause is over */
        c->fruitless = 0;
        sb_redis_cluster_refresh(c);
    }
    return node;
}

/* ---- Opening and closing --------------------------------------------------------------------- */

int sb_redis_cluster_open(const struct sb_redis_cluster_config *config,
                          struct sb_redis_cluster **ret_cluster, struct simba_error *error)
{
    const struct sb_redis_options *o = config->options;
    struct slot_map map;
    struct sb_redis_cluster *c;
    int code = find_map(o, config->tls, o->places, o->place_count, &map, error);

    if (code != SIMBA_OK)
        return code;
    c = sb_alloc_zero(sizeof *c);
    if (c == NULL) {
        free_map(&map);
        return sb_error_plain(error, SIMBA_ENOMEM);
    }
    c->config = *config;
    c->random = sb_random_seed();
    c->query.host = config->host;
    c->query.run = run_refresh;
    c->query.finished = on_refreshed;
    c->query.user = c;
    uv_timer_init(config->host->loop, &c->timer);
    c->timer.data = c;
    c->has_timer = true;
    apply(c, &map);
    c->source = map.source;
    free_map(&map);
    *ret_cluster = c;
    return SIMBA_OK;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct sb_redis_cluster *c = handle->data;

    c->has_timer = false;
    finish_close(c);
}

void sb_redis_cluster_close(struct sb_redis_cluster *c)
{
    SB_CHECK(!c->closing, "a cluster is closed once");
    c->closing = true;
    uv_close((uv_handle_t *)&c->timer, on_timer_closed);
}
