/*
 * discover.c - the server of the URL, or the master that one of the sentinels names.
 */
#include "backend/redis/discover.h"

#include "backend/redis/probe.h"
#include "base/error.h"
#include "base/text.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

bool sb_redis_find_blocks(const struct sb_redis_options *o)
{
    return o->mode == SB_REDIS_SENTINEL || sb_endpoint_must_be_looked_up(&o->places[0]);
}

int sb_redis_check(const struct sb_redis_options *o, const struct sb_tls *tls,
                   const struct sb_endpoint *endpoint, struct simba_error *error)
{
    const struct sb_probe_config config = {
        .options = o,
        .tls = tls,
        .credentials = &o->credentials,
        .database = o->database,
        .master_only = o->mode == SB_REDIS_SENTINEL,
    };
    const struct sb_argument word = {"PING", 4};

    return sb_redis_ask(&config, endpoint, &word, 1, NULL, NULL, error);
}

/* ---- Sentinels ------------------------------------------------------------------------------ */

struct master {
    const struct sb_redis_options *options;
    struct sb_redis_place place;
};

/* The reply is the address and the port, both as strings, or nothing. */
static int take_master(void *user, const redisReply *reply, struct simba_error *error)
{
    struct master *master = user;
    long port;

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
        reply->element[0]->type != REDIS_REPLY_STRING ||
        reply->element[1]->type != REDIS_REPLY_STRING)
        return sb_error_set(error, SIMBA_EUNAVAILABLE, "a sentinel knows no master named '%.100s'",
                            master->options->master_name);
    port = strtol(reply->element[1]->str, NULL, 10);
    if (port < 1 || port > 65535 ||
        !sb_text_copy(master->place.host, sizeof master->place.host, reply->element[0]->str))
        return sb_error_set(error, SIMBA_ESTORE, "a sentinel gave an address that is none");
    master->place.port = (int)port;
    return SIMBA_OK;
}

/* Those that do not answer take the connect-timeout together, not each. */
static int64_t share_ms(const struct sb_redis_options *o)
{
    int64_t share = o->connect_timeout_ms / (int64_t)o->place_count;

    return share > 0 ? share : 1;
}

static int ask_sentinel(const struct sb_redis_options *o, const struct sb_tls *tls,
                        const struct sb_redis_place *sentinel, struct master *master,
                        struct simba_error *error)
{
    const struct sb_probe_config config = {
        .options = o,
        .tls = tls,
        .credentials = &o->sentinel_credentials,
        .connect_timeout_ms = share_ms(o),
    };
    const struct sb_argument arguments[3] = {
        {"SENTINEL", 8}, {"get-master-addr-by-name", 23}, sb_argument_text(o->master_name)};
    struct sb_endpoint endpoint;
    int code = sb_endpoint_resolve(sentinel, &endpoint, error);

    if (code != SIMBA_OK)
        return code;
    return sb_redis_ask(&config, &endpoint, arguments, 3, take_master, master, error);
}

/* An answer tells more than silence does. */
static bool tells_more(const struct simba_error *error, const struct simba_error *before)
{
    return before->code == SIMBA_OK ||
           (before->code == SIMBA_EUNAVAILABLE && error->code != SIMBA_EUNAVAILABLE);
}

/* The first sentinel that knows is believed: a server that is no master says so when it is greeted. */
static int ask_sentinels(const struct sb_redis_options *o, const struct sb_tls *tls,
                         atomic_size_t *sentinel, size_t skip, struct sb_redis_place *ret_place,
                         struct simba_error *error)
{
    struct master master = {.options = o};
    struct simba_error most = {.code = SIMBA_OK};
    size_t first = atomic_load(sentinel) + skip;

    for (size_t i = 0; i < o->place_count; i++) {
        size_t place = (first + i) % o->place_count;
        struct simba_error why;

        if (ask_sentinel(o, tls, &o->places[place], &master, &why) == SIMBA_OK) {
            atomic_store(sentinel, place);
            *ret_place = master.place;
            return SIMBA_OK;
        }
        if (tells_more(&why, &most))
            most = why;
    }
    if (o->place_count == 1)
        return sb_error_set_backend(error, most.code, most.backend_code, "%s", most.text);
    return sb_error_set_backend(error, most.code, most.backend_code,
                                "none of the %zu sentinels names a master; one of them: %.180s",
                                o->place_count, most.text);
}

int sb_redis_find_master(const struct sb_redis_options *o, const struct sb_tls *tls,
                         atomic_size_t *sentinel, size_t skip, struct sb_endpoint *ret_endpoint,
                         struct simba_error *error)
{
    struct sb_redis_place place = o->places[0];
    int code = SIMBA_OK;

    if (o->mode == SB_REDIS_SENTINEL)
        code = ask_sentinels(o, tls, sentinel, skip, &place, error);
    return code == SIMBA_OK ? sb_endpoint_resolve(&place, ret_endpoint, error) : code;
}
