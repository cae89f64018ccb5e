/*
 * grant.c - keeps what was handed to a contender until it asks, or for a moment. Owns the rules of grant.h; must not
 * know scripts or connections.
 */
#include "backend/redis/grant.h"

#include "backend/redis/leave.h"
#include "backend/redis/request.h"
#include "base/text.h"

#include <string.h>

/* TOKEN @@ TIME @@ LEASE @@ LENGTH OF THE KEY @@ DATABASE, and before it what every release says */
#define HANDED "handed@@"
#define DELIMITER "@@"
#define DIGITS_MAX 16    /* what a Lua number can count to */
#define CLOCK_AGE_MAX 2  /* leases: so old an instant of the server's clock may be */
#define CLOCK_PERCENT 99 /* of its seconds are taken for as long as ours */
#define MOMENT_MS 50     /* a contender that can ask does so at once */
#define AGAIN_MS 1000    /* until a give-back that has failed is tried again */

/* ---- The message ---------------------------------------------------------------------------- */

/* Takes a word off the end of a text. */
static bool take_word(const char *text, size_t *length, const char *word)
{
    size_t word_length = strlen(word);

    if (*length < word_length || memcmp(text + *length - word_length, word, word_length) != 0)
        return false;
    *length -= word_length;
    return true;
}

/* The same for a number. */
static bool take_number(const char *text, size_t *length, int64_t *ret_number)
{
    int64_t number = 0;
    int64_t unit = 1;
    size_t digits = 0;

    for (; *length > 0 && text[*length - 1] >= '0' && text[*length - 1] <= '9'; digits++) {
        if (digits == DIGITS_MAX)
            return false;
        number += unit * (text[*length - 1] - '0');
        unit *= 10;
        --*length;
    }
    *ret_number = number;
    return digits > 0;
}

/* The same for a number and the delimiter before it. */
static bool take_field(const char *text, size_t *length, int64_t *ret_number)
{
    return take_number(text, length, ret_number) && take_word(text, length, DELIMITER);
}

/* From the end, because anything may stand in the id of whoever released. */
bool sb_grant_read(struct sb_grant *grant, const char *text, size_t length)
{
    struct sb_grant read = {0};
    int64_t token = 0;

    if (!take_field(text, &length, &read.database) ||
        !take_field(text, &length, &read.key_length) ||
        !take_field(text, &length, &read.lease_ms) || !take_field(text, &length, &read.at_us) ||
        !take_number(text, &length, &token) || !take_word(text, &length, DELIMITER HANDED) ||
        token == 0 || read.lease_ms == 0)
        return false;
    read.token = (uint64_t)token;
    *grant = read;
    return true;
}

/* ---- Clocks --------------------------------------------------------------------------------- */

void sb_grant_compare_clocks(struct sb_node *node, int64_t made_ms, int64_t server_us)
{
    node->clocks = (struct sb_clocks){made_ms, server_us};
}

void sb_grant_begin_era(struct sb_node *node)
{
    node->era++;
    node->clocks = (struct sb_clocks){0, 0};
}

/* When the grant was made, or earlier; 0 where that is not known. */
static int64_t as_of(const struct sb_clocks *clocks, const struct sb_grant *grant, int64_t now_ms)
{
    int64_t passed_us = grant->at_us - clocks->server_us;
    int64_t at_ms = clocks->local_ms + passed_us / 1000 * CLOCK_PERCENT / 100;

    if (clocks->server_us == 0 || passed_us < 0 ||
        passed_us / 1000 / CLOCK_AGE_MAX > grant->lease_ms)
        return 0;
    return at_ms < now_ms ? at_ms : now_ms;
}

/* ---- From the message to the attempt -------------------------------------------------------- */

static bool is_for(const struct sb_grant *grant, const simba_backend *store,
                   const struct sb_listener *listener)
{
    return grant->database == store->options.database &&
           grant->key_length == SB_CHANNEL_MUTEX_AT + listener->mutex_length + 1;
}

static void on_moment(uv_timer_t *timer);

/* One timer does for all that is kept. */
static void keep(simba_backend *store, struct sb_listener *listener, struct sb_grant *grant,
                 int64_t for_ms)
{
    grant->due_ms = simba_now_ms() + for_ms;
    sb_listeners_keep_grant(&store->listeners, listener, grant);
    if (!uv_is_active((uv_handle_t *)&store->moment) && !store->closing)
        uv_timer_start(&store->moment, on_moment, MOMENT_MS, MOMENT_MS);
}

/* One whose instant is not known is kept as well: it may have to be given back. */
void sb_grant_keep(struct sb_node *node, struct sb_listener *listener, const char *text,
                   size_t length)
{
    struct sb_grant grant;

    if (!sb_grant_read(&grant, text, length) || !is_for(&grant, node->store, listener))
        return;
    grant.as_of_ms = as_of(&node->clocks, &grant, simba_now_ms());
    grant.era = node->era;
    keep(node->store, listener, &grant, MOMENT_MS);
}

static bool may_be_granted(const simba_backend *store)
{
    return store->cluster == NULL && store->options.wait_replicas == 0;
}

static bool is_good(const simba_backend *store, const struct sb_grant *grant,
                    const struct simba_request *request)
{
    const struct sb_node *node = store->nodes;
    int64_t left_ms = grant->as_of_ms + grant->lease_ms - simba_now_ms();

    return may_be_granted(store) && grant->as_of_ms != 0 && grant->token > store->seen &&
           grant->era == node->era && sb_node_is_one_server(node) &&
           grant->lease_ms == request->ttl_ms + request->transition_ms &&
           left_ms >= grant->lease_ms / 2;
}

/* Whose contender makes the request and was handed something; NULL: nobody. Where nobody was nobody is looked up. */
static struct sb_listener *find_holder(simba_backend *store, const struct simba_request *request)
{
    struct sb_listener *listener = NULL;

    if (store->listeners.grants > 0 && request->id != NULL)
        listener = sb_listeners_find(&store->listeners, request->mutex, request->id);
    return listener != NULL && listener->grant != NULL ? listener : NULL;
}

static bool take(simba_backend *store, const struct simba_request *request, struct sb_grant *grant)
{
    struct sb_listener *listener = find_holder(store, request);

    if (listener == NULL)
        return false;
    *grant = *listener->grant;
    sb_listeners_drop_grant(&store->listeners, listener);
    return true;
}

bool sb_grant_use(simba_backend *store, const struct simba_request *request,
                  struct sb_record *record)
{
    struct sb_grant grant;

    if (!take(store, request, &grant) || !is_good(store, &grant, request))
        return false;
    store->seen = grant.token;
    memset(record, 0, sizeof *record);
    record->owned = true;
    sb_text_copy(record->owner, sizeof record->owner, request->id);
    record->left_ms = grant.lease_ms;
    record->revision = grant.token;
    record->waiters = -1;
    record->as_of_ms = grant.as_of_ms;
    return true;
}

uint64_t sb_grant_take_token(simba_backend *store, const struct simba_request *request)
{
    struct sb_grant grant;

    return take(store, request, &grant) ? grant.token : 0;
}

void sb_grant_return(simba_backend *store, const struct simba_request *request, uint64_t token)
{
    /* as of nobody knows when: it is not used */
    struct sb_grant grant = {.token = token, .lease_ms = request->ttl_ms + request->transition_ms};
    struct sb_listener *listener =
        sb_listeners_find(&store->listeners, request->mutex, request->id);

    if (listener != NULL && listener->grant == NULL)
        keep(store, listener, &grant, AGAIN_MS);
}

/* ---- Giving back ---------------------------------------------------------------------------- */

static void give_back_due(void *argument, struct sb_listener *listener)
{
    if (listener->grant != NULL && listener->grant->due_ms <= simba_now_ms())
        sb_leave_queue(argument, listener);
}

/* A contender that comes from now on sends its ACQUIRE behind the give-back. */
static void on_moment(uv_timer_t *timer)
{
    simba_backend *store = timer->data;

    if (store->listeners.grants > 0)
        sb_listeners_each(&store->listeners, give_back_due, store);
    if (store->listeners.grants == 0)
        uv_timer_stop(timer);
}

static void give_back(void *argument, struct sb_listener *listener)
{
    if (listener->lingers && listener->grant != NULL)
        sb_leave_queue(argument, listener);
}

void sb_grant_give_back_all(simba_backend *store)
{
    if (store->listeners.grants > 0)
        sb_listeners_each(&store->listeners, give_back, store);
}

/* It is not used in any case, because its token was seen. But to give it back would take a contender that has lost its
 * newer term, and waits again, out of the queue. */
void sb_grant_forget(simba_backend *store, const struct simba_request *request, uint64_t token)
{
    struct sb_listener *listener = find_holder(store, request);

    if (listener != NULL && listener->grant->token <= token)
        sb_listeners_drop_grant(&store->listeners, listener);
}

void sb_grant_open(simba_backend *store)
{
    uv_timer_init(store->host->loop, &store->moment);
    store->moment.data = store;
    store->has_moment = true;
}

static void on_closed(uv_handle_t *handle)
{
    simba_backend *store = handle->data;

    store->has_moment = false;
    sb_store_finish_close(store);
}

void sb_grant_close(simba_backend *store)
{
    uv_close((uv_handle_t *)&store->moment, on_closed);
}

int64_t sb_grant_offer_ms(const simba_backend *store, const struct simba_request *request)
{
    return may_be_granted(store) ? request->ttl_ms + request->transition_ms : 0;
}
