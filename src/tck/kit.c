/*
 * kit.c - waiting, failures and clients of one case.
 */
#include "tck/kit.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/random.h"
#include "base/text.h"
#include "tck/shim.h"

#include <simba/backend.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* A calm lease lasts that many transitions: what a busy machine may keep a thread waiting. */
#define CALM_TRANSITIONS 3

int sb_kit_create(const struct simba_tck_options *options, const char *name,
                  struct sb_kit **ret_kit, struct simba_error *error)
{
    struct sb_kit *kit = sb_alloc_zero(sizeof(*kit));
    char *url = sb_strdup(options->url);

    if (kit == NULL || url == NULL) {
        sb_free(kit);
        sb_free(url);
        return sb_error_plain(error, SIMBA_ENOMEM);
    }
    kit->options = *options;
    kit->options.url = url;
    kit->url = url;
    /* A name of its own, so that runs on one store do not disturb each other. */
    snprintf(kit->mutex, sizeof(kit->mutex), "tck-%.*s-%016" PRIx64, SB_KIT_NAME_MAX, name,
             sb_random_seed());
    pthread_mutex_init(&kit->lock, NULL);
    *ret_kit = kit;
    return SIMBA_OK;
}

void sb_kit_free(struct sb_kit *kit)
{
    if (kit == NULL)
        return;
    sb_kit_close(kit);
    pthread_mutex_destroy(&kit->lock);
    sb_free(kit->url);
    sb_free(kit);
}

void sb_kit_add(struct sb_kit *kit, struct sb_kit_part *part)
{
    part->next = kit->parts;
    kit->parts = part;
}

void sb_kit_remove(struct sb_kit *kit, struct sb_kit_part *part)
{
    struct sb_kit_part **link = &kit->parts;

    while (*link != part)
        link = &(*link)->next;
    *link = part->next;
}

static void close_client(struct sb_kit *kit, size_t index)
{
    struct simba_error error;
    int code = simba_client_close(kit->clients[index], &error);

    if (!sb_kit_check_ok(kit, code, &error, "closing the client"))
        return; /* its shim is still in use: better a leak than a crash */
    sb_shim_free(kit->shims[index]);
}

void sb_kit_close(struct sb_kit *kit)
{
    /* Nothing may be held back any more: a close waits for the answers to all requests. */
    for (size_t i = 0; i < kit->client_count; i++)
        sb_shim_let_go(kit->shims[i]);
    while (kit->parts != NULL)
        kit->parts->close(kit->parts);
    for (size_t i = 0; i < kit->client_count; i++)
        close_client(kit, i);
    kit->client_count = 0;
}

static void record(struct sb_kit *kit, const char *format, va_list arguments)
{
    char text[SB_KIT_TEXT_MAX];

    vsnprintf(text, sizeof(text), format, arguments);
    pthread_mutex_lock(&kit->lock);
    size_t used = strlen(kit->failure);
    /* A violation in a loop would otherwise say the same many times and crowd out the others. */
    if (strstr(kit->failure, text) == NULL)
        snprintf(kit->failure + used, sizeof(kit->failure) - used, "%s%s", used > 0 ? "; " : "",
                 text);
    kit->failures++;
    pthread_mutex_unlock(&kit->lock);
}

void sb_kit_fail(struct sb_kit *kit, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    record(kit, format, arguments);
    va_end(arguments);
}

bool sb_kit_check(struct sb_kit *kit, bool holds, const char *format, ...)
{
    va_list arguments;

    if (holds)
        return true;
    va_start(arguments, format);
    record(kit, format, arguments);
    va_end(arguments);
    return false;
}

bool sb_kit_check_ok(struct sb_kit *kit, int code, const struct simba_error *error,
                     const char *what)
{
    return sb_kit_check(kit, code == SIMBA_OK, "%s: %s (%d)", what,
                        code != SIMBA_OK && error != NULL ? error->text : simba_strerror(code),
                        code);
}

void sb_kit_note(struct sb_kit *kit, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    pthread_mutex_lock(&kit->lock);
    vsnprintf(kit->note, sizeof(kit->note), format, arguments);
    pthread_mutex_unlock(&kit->lock);
    va_end(arguments);
}

bool sb_kit_failed(struct sb_kit *kit)
{
    bool failed;

    pthread_mutex_lock(&kit->lock);
    failed = kit->failures > 0;
    pthread_mutex_unlock(&kit->lock);
    return failed;
}

/* ---- Waiting --------------------------------------------------------------------------------- */

bool sb_kit_wait(sb_kit_condition *holds, void *argument, int64_t timeout_ms)
{
    const struct timespec pause = {.tv_nsec = SB_KIT_POLL_MS * 1000000L};
    int64_t until_ms = simba_now_ms() + timeout_ms;

    while (!holds(argument)) {
        if (simba_now_ms() >= until_ms)
            return false;
        nanosleep(&pause, NULL);
    }
    return true;
}

bool sb_kit_await(struct sb_kit *kit, sb_kit_condition *holds, void *argument, const char *what)
{
    int64_t patience_ms = sb_kit_patience_ms(kit);
    bool held = sb_kit_wait(holds, argument, patience_ms);

    return sb_kit_check(kit, held, "waited %" PRId64 " ms in vain until %s", patience_ms, what);
}

static bool never(void *argument)
{
    (void)argument;
    return false;
}

void sb_kit_linger(int64_t ms)
{
    (void)sb_kit_wait(never, NULL, ms);
}

/* ---- Clients --------------------------------------------------------------------------------- */

static int64_t transition_ms(const struct sb_kit *kit, enum sb_kit_lease lease)
{
    int64_t plain_ms = kit->options.transition_ms;

    return lease == SB_KIT_LEASE_CALM ? plain_ms * CALM_TRANSITIONS : plain_ms;
}

int64_t sb_kit_lease_ms(const struct sb_kit *kit, enum sb_kit_lease lease)
{
    return kit->options.ttl_ms + transition_ms(kit, lease);
}

int64_t sb_kit_patience_ms(const struct sb_kit *kit)
{
    return 5000 + 4 * sb_kit_lease_ms(kit, SB_KIT_LEASE_CALM);
}

static struct simba_client_options client_options(const struct sb_kit *kit, enum sb_kit_lease lease)
{
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;

    options.ttl_ms = kit->options.ttl_ms;
    options.transition_ms = transition_ms(kit, lease);
    options.backend = kit->options.backend;
    /* Attempts close together make more collisions than the default's second. */
    options.jitter_min_ms = -kit->options.transition_ms / 8;
    options.jitter_max_ms = kit->options.transition_ms / 4;
    return options;
}

simba_client *sb_kit_client(struct sb_kit *kit, enum sb_kit_lease lease)
{
    return sb_kit_client_with_shim(kit, lease, sb_kit_patience_ms(kit), NULL);
}

simba_client *sb_kit_client_with_shim(struct sb_kit *kit, enum sb_kit_lease lease,
                                      int64_t stop_timeout_ms, struct sb_shim **ret_shim)
{
    struct simba_client_options options = client_options(kit, lease);
    simba_client *client = NULL;
    struct sb_shim *shim = NULL;
    struct simba_error error;
    int code = SIMBA_OK;

    options.stop_timeout_ms = stop_timeout_ms;
    if (!sb_kit_check(kit, kit->client_count < SB_KIT_CLIENTS_MAX,
                      "the case opens more than %d clients", SB_KIT_CLIENTS_MAX))
        return NULL;
    if (ret_shim != NULL)
        code = sb_shim_create(kit->url, kit->options.backend, &shim, &error);
    if (code == SIMBA_OK)
        code = shim != NULL ? sb_shim_open(shim, kit->url, &options, &client, &error)
                            : simba_client_open(kit->url, &options, &client, &error);
    if (!sb_kit_check_ok(kit, code, &error, "opening a client")) {
        sb_shim_free(shim);
        return NULL;
    }
    kit->clients[kit->client_count] = client;
    kit->shims[kit->client_count++] = shim;
    if (ret_shim != NULL)
        *ret_shim = shim;
    return client;
}

/* ---- The store's word ------------------------------------------------------------------------ */

bool sb_kit_look(struct sb_kit *kit, simba_client *client, struct simba_mutex_status *ret_status)
{
    struct simba_mutex_status *list = NULL;
    struct simba_error error;
    size_t count = 0;
    int code;

    code = simba_client_status(client, kit->mutex, sb_kit_patience_ms(kit), &list, &count, &error);
    if (!sb_kit_check_ok(kit, code, &error, "asking for the status"))
        return false;
    if (sb_kit_check(kit, count == 1, "the status of one mutex has %zu entries", count))
        *ret_status = list[0];
    simba_free(list);
    return count == 1;
}

struct look {
    struct sb_kit *kit;
    simba_client *client;
};

static bool is_free(void *argument)
{
    struct look *look = argument;
    struct simba_mutex_status status;

    return sb_kit_look(look->kit, look->client, &status) && status.owner.id[0] == '\0';
}

bool sb_kit_await_free(struct sb_kit *kit, simba_client *client)
{
    struct look look = {kit, client};

    return sb_kit_await(kit, is_free, &look, "the store says that nobody owns the mutex");
}
