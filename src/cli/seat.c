/*
 * seat.c - a contender, or a slot of a semaphore that behaves as one: it competes from its start
 * to its stop, over and over, and on_released returns before the slot is given back.
 */
#include "cli/seat.h"

#include "base/thread.h"

#include <stdio.h>

#define RETRY_MS 1000

/* ---- The thread of a slot -------------------------------------------------------------------- */

static void on_lost(void *user)
{
    struct cli_seat *seat = user;

    pthread_mutex_lock(&seat->lock);
    seat->lost = true;
    pthread_cond_broadcast(&seat->changed);
    pthread_mutex_unlock(&seat->lock);
}

static void on_handover(void *user, const struct simba_handover *request)
{
    struct cli_seat *seat = user;

    seat->told.on_handover(seat->told.user, request);
}

/* With the lock, as all below. Another number of slots is refused for ever; the rest may pass. */
static void fail(struct cli_seat *seat, const struct simba_error *error)
{
    if (error->code == SIMBA_EINVAL) {
        seat->failure = *error;
        seat->started = false;
        pthread_mutex_unlock(&seat->lock);
        seat->told.on_handover(seat->told.user, NULL);
        pthread_mutex_lock(&seat->lock);
    } else if (error->code != SIMBA_ECANCELED) {
        sb_cond_wait(&seat->changed, &seat->lock, simba_now_ms() + RETRY_MS);
    }
}

static void lead(struct cli_seat *seat)
{
    const struct simba_state state = {0};

    pthread_mutex_unlock(&seat->lock);
    seat->told.on_acquired(seat->told.user, &state);
    pthread_mutex_lock(&seat->lock);
    while (seat->started && !seat->lost)
        pthread_cond_wait(&seat->changed, &seat->lock);
    pthread_mutex_unlock(&seat->lock);
    seat->told.on_released(seat->told.user, &state);
    pthread_mutex_lock(&seat->lock);
}

static void take_turn(struct cli_seat *seat)
{
    struct simba_error error;
    int code;

    seat->lost = false;
    pthread_mutex_unlock(&seat->lock);
    code = simba_locker_acquire(seat->locker, &error);
    pthread_mutex_lock(&seat->lock);
    if (code != SIMBA_OK) {
        fail(seat, &error);
        return;
    }
    if (seat->started)
        lead(seat);
    pthread_mutex_unlock(&seat->lock);
    code = simba_locker_release(seat->locker, &error);
    pthread_mutex_lock(&seat->lock);
    seat->code = code;
}

static void *compete(void *user)
{
    struct cli_seat *seat = user;

    pthread_mutex_lock(&seat->lock);
    while (!seat->ends) {
        seat->idle = !seat->started;
        if (seat->started) {
            take_turn(seat);
            continue;
        }
        pthread_cond_broadcast(&seat->changed);
        pthread_cond_wait(&seat->changed, &seat->lock);
    }
    pthread_mutex_unlock(&seat->lock);
    return NULL;
}

/* ---- Its life -------------------------------------------------------------------------------- */

static int create_slot(struct cli_seat *seat, simba_client *client, int slots,
                       const struct simba_contender_options *options, struct simba_error *error)
{
    struct simba_locker_options wanted = SIMBA_LOCKER_OPTIONS_INIT;
    int code;

    seat->told = *options;
    pthread_mutex_init(&seat->lock, NULL);
    pthread_cond_init(&seat->changed, NULL);
    seat->failure.code = SIMBA_OK;
    seat->idle = true;
    wanted.mutex = options->mutex;
    wanted.id = options->id;
    wanted.on_lost = on_lost;
    wanted.on_handover = on_handover;
    wanted.user = seat;
    code = simba_semaphore_create(client, slots, &wanted, &seat->locker, error);
    if (code == SIMBA_OK && sb_thread_start(&seat->thread, "simba-seat", compete, seat) != 0) {
        simba_locker_close(seat->locker);
        seat->locker = NULL;
        code = error->code = SIMBA_ENOMEM;
        snprintf(error->text, sizeof error->text, "cannot start a thread");
    }
    return code;
}

int cli_seat_create(struct cli_seat *seat, simba_client *client, int slots,
                    const struct simba_contender_options *options, struct simba_error *error)
{
    return slots > 0 ? create_slot(seat, client, slots, options, error)
                     : simba_contender_create(client, options, &seat->contender, error);
}

bool cli_seat_exists(const struct cli_seat *seat)
{
    return seat->contender != NULL || seat->locker != NULL;
}

static void set_started(struct cli_seat *seat, bool started)
{
    pthread_mutex_lock(&seat->lock);
    seat->started = started;
    seat->code = started ? SIMBA_OK : seat->code;
    seat->idle &= !started;
    pthread_cond_broadcast(&seat->changed);
    pthread_mutex_unlock(&seat->lock);
}

int cli_seat_start(struct cli_seat *seat, struct simba_error *error)
{
    if (seat->contender != NULL)
        return simba_contender_start(seat->contender, error);
    set_started(seat, true);
    return SIMBA_OK;
}

/* The library bounds the release; an acquire that was not cancelled in time ends in a turn that is
 * given back at once. */
int cli_seat_stop(struct cli_seat *seat, struct simba_error *error)
{
    int code;

    if (seat->contender != NULL)
        return simba_contender_stop(seat->contender, error);
    set_started(seat, false);
    simba_locker_cancel(seat->locker);
    pthread_mutex_lock(&seat->lock);
    while (!seat->idle)
        pthread_cond_wait(&seat->changed, &seat->lock);
    code = seat->code;
    pthread_mutex_unlock(&seat->lock);
    error->code = code;
    snprintf(error->text, sizeof error->text, "%s", simba_strerror(code));
    return code;
}

void cli_seat_close(struct cli_seat *seat)
{
    simba_contender_close(seat->contender);
    if (seat->locker == NULL)
        return;
    pthread_mutex_lock(&seat->lock);
    seat->ends = true;
    pthread_cond_broadcast(&seat->changed);
    pthread_mutex_unlock(&seat->lock);
    pthread_join(seat->thread, NULL);
    simba_locker_close(seat->locker);
}

bool cli_seat_failure(struct cli_seat *seat, struct simba_error *ret_error)
{
    bool failed;

    if (seat->locker == NULL)
        return false;
    pthread_mutex_lock(&seat->lock);
    failed = seat->failure.code != SIMBA_OK;
    if (failed)
        *ret_error = seat->failure;
    pthread_mutex_unlock(&seat->lock);
    return failed;
}

/* ---- Questions ------------------------------------------------------------------------------- */

bool cli_seat_is_active(struct cli_seat *seat)
{
    bool active;

    if (seat->contender != NULL)
        return simba_status_is_active(simba_contender_status(seat->contender));
    pthread_mutex_lock(&seat->lock);
    active = !seat->idle;
    pthread_mutex_unlock(&seat->lock);
    return active;
}

bool cli_seat_takes_part(struct cli_seat *seat)
{
    return seat->contender != NULL ? simba_contender_status(seat->contender) == SIMBA_RUNNING
                                   : cli_seat_is_active(seat);
}

bool cli_seat_is_owner(const struct cli_seat *seat)
{
    return seat->contender != NULL ? simba_contender_is_owner(seat->contender)
                                   : simba_locker_is_held(seat->locker);
}

const char *cli_seat_id(const struct cli_seat *seat)
{
    return seat->contender != NULL ? simba_contender_id(seat->contender)
                                   : simba_locker_id(seat->locker);
}

const char *cli_seat_mutex(const struct cli_seat *seat)
{
    return seat->contender != NULL ? simba_contender_mutex(seat->contender)
                                   : simba_locker_mutex(seat->locker);
}

uint64_t cli_seat_fence(const struct cli_seat *seat)
{
    return seat->contender != NULL ? simba_contender_fence(seat->contender)
                                   : simba_locker_fence(seat->locker);
}

int cli_seat_slot(const struct cli_seat *seat)
{
    return seat->locker != NULL ? simba_locker_slot(seat->locker) : -1;
}

int64_t cli_seat_deadline_ms(const struct cli_seat *seat)
{
    return seat->contender != NULL ? simba_contender_deadline_ms(seat->contender)
                                   : simba_locker_deadline_ms(seat->locker);
}

int64_t cli_seat_window_ms(const struct cli_seat *seat)
{
    return seat->contender != NULL ? simba_contender_window_ms(seat->contender)
                                   : simba_locker_window_ms(seat->locker);
}

int64_t cli_seat_place(const struct cli_seat *seat)
{
    return seat->contender != NULL ? simba_contender_place(seat->contender)
                                   : simba_locker_place(seat->locker);
}

void cli_seat_owner(struct cli_seat *seat, struct simba_owner *ret_owner)
{
    struct simba_state state;

    if (seat->contender == NULL) {
        simba_locker_owner(seat->locker, ret_owner);
        return;
    }
    simba_contender_state(seat->contender, &state);
    *ret_owner = state.after;
}

bool cli_seat_is_asked(struct cli_seat *seat, struct simba_handover *ret_request)
{
    return seat->contender != NULL ? simba_contender_handover_asked(seat->contender, ret_request)
                                   : simba_locker_handover_asked(seat->locker, ret_request);
}

/* A slot has none. */
void cli_seat_set_priority(struct cli_seat *seat, int priority)
{
    if (seat->contender != NULL)
        simba_contender_set_priority(seat->contender, priority, NULL);
}
