/*
 * slots.c - the slot of a mutex, and CLUSTER SLOTS, asked for and read.
 */
#include "backend/redis/topology/cluster.h"

#include "backend/redis/wire/endpoint.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"

#include <hiredis/hiredis.h>
#include <string.h>

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

bool sb_redis_slot_is_one(const char *mutex)
{
    return mutex[0] != '}';
}

/* ---- The map --------------------------------------------------------------------------------- */

struct reading {
    struct sb_redis_slot_map map;
    const struct sb_redis_place *asked;
};

void sb_redis_slot_map_free(struct sb_redis_slot_map *map)
{
    sb_free(map->ranges);
    memset(map, 0, sizeof *map);
}

/* A node that does not know its own address is where it was asked. */
static bool read_master(struct reading *reading, const redisReply *node,
                        struct sb_redis_place *place)
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
static bool read_range(struct reading *reading, const redisReply *row,
                       struct sb_redis_slot_range *range)
{
    if (row->type != REDIS_REPLY_ARRAY || row->elements < 3 || !is_slot(row->element[0]) ||
        !is_slot(row->element[1]))
        return false;
    range->first = (unsigned)row->element[0]->integer;
    range->last = (unsigned)row->element[1]->integer;
    return read_master(reading, row->element[2], &range->master);
}

/* Those that a map names again and again are counted once, up to one more than may be. */
static size_t count_masters(const struct sb_redis_slot_map *map)
{
    const struct sb_redis_place *masters[SB_REDIS_MASTERS_MAX + 1];
    size_t count = 0;

    for (size_t i = 0; i < map->count && count <= SB_REDIS_MASTERS_MAX; i++) {
        size_t known = 0;

        while (known < count && !sb_redis_place_equals(masters[known], &map->ranges[i].master))
            known++;
        if (known == count)
            masters[count++] = &map->ranges[i].master;
    }
    return count;
}

static int check_map(struct sb_redis_slot_map *map, struct simba_error *error)
{
    int code = SIMBA_OK;

    if (map->count == 0)
        code = sb_error_set(error, SIMBA_ESTORE, "the cluster's map of slots makes no sense");
    else if (count_masters(map) > SB_REDIS_MASTERS_MAX)
        code = sb_error_set(error, SIMBA_ESTORE, "the cluster's map names more than %d masters",
                            SB_REDIS_MASTERS_MAX);
    if (code != SIMBA_OK)
        sb_redis_slot_map_free(map);
    return code;
}

static int take_map(void *user, const redisReply *reply, struct simba_error *error)
{
    struct reading *reading = user;
    struct sb_redis_slot_map *map = &reading->map;

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements == 0)
        return sb_error_set(error, SIMBA_EUNAVAILABLE, "the cluster has no slots assigned yet");
    if (reply->elements > SB_REDIS_SLOTS)
        return sb_error_set(error, SIMBA_ESTORE, "the cluster's map of slots makes no sense");
    map->ranges = sb_alloc_zero(reply->elements * sizeof *map->ranges);
    if (map->ranges == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    for (size_t i = 0; i < reply->elements; i++)
        map->count += read_range(reading, reply->element[i], &map->ranges[map->count]);
    return check_map(map, error);
}

static int ask(const struct sb_redis_options *o, const struct sb_redis_tls *tls,
               const struct sb_redis_place *place, int64_t connect_timeout_ms,
               struct reading *reading, struct simba_error *error)
{
    const struct sb_redis_ask_config config = {.options = o,
                                               .tls = tls,
                                               .credentials = &o->credentials,
                                               .connect_timeout_ms = connect_timeout_ms};
    const struct sb_redis_argument arguments[2] = {{"CLUSTER", 7}, {"SLOTS", 5}};
    struct sb_redis_endpoint endpoint;
    int code = sb_redis_endpoint_find(o, &o->credentials, place, &endpoint, error);

    if (code != SIMBA_OK)
        return code;
    reading->asked = place;
    return sb_redis_ask(&config, &endpoint, arguments, 2, take_map, reading, error);
}

/* What is left is shared out among those that are left: one that refuses at once leaves its share
 * to the others. */
static int64_t share_ms(int64_t end_ms, size_t left)
{
    int64_t share = (end_ms - simba_now_ms()) / (int64_t)left;

    return share > 0 ? share : 1;
}

int sb_redis_slot_map_find(const struct sb_redis_options *o, const struct sb_redis_tls *tls,
                           const struct sb_redis_place *places, size_t count,
                           struct sb_redis_slot_map *ret_map, struct simba_error *error)
{
    struct reading reading = {.asked = NULL};
    int64_t end_ms = simba_now_ms() + o->connect_timeout_ms;
    int code = SIMBA_EUNAVAILABLE;

    for (size_t i = 0; i < count && code != SIMBA_OK; i++)
        code = ask(o, tls, &places[i], share_ms(end_ms, count - i), &reading, error);
    if (code == SIMBA_OK) {
        *ret_map = reading.map;
        ret_map->source = *reading.asked;
    }
    return code;
}
