/*
 * seat.h - what `lead` and `schedule` compete by: a contender, or with --slots a slot of a
 * semaphore, which then behaves as a contender does. Whoever leads has the seat.
 */
#ifndef CLI_SEAT_H
#define CLI_SEAT_H

#include <simba/simba.h>

#include <pthread.h>

struct cli_seat {
    simba_contender *contender; /* NULL: a slot */
    simba_locker *locker;

    /* Of a slot: its thread acquires, tells, and gives back. */
    struct simba_contender_options told;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool started; /* it is to compete */
    bool ends;    /* the thread is */
    bool idle;    /* it does not compete, and holds nothing */
    bool lost;
    int code;                   /* of the last release */
    struct simba_error failure; /* why it cannot compete at all; its code is SIMBA_OK: it can */
};

/* `slots` 0: a contender. The callbacks of a slot are on_acquired, on_released and on_handover,
 * which is also called when it cannot compete: then cli_seat_failure says why. */
int cli_seat_create(struct cli_seat *seat, simba_client *client, int slots,
                    const struct simba_contender_options *options, struct simba_error *error);
bool cli_seat_exists(const struct cli_seat *seat);
int cli_seat_start(struct cli_seat *seat, struct simba_error *error);
int cli_seat_stop(struct cli_seat *seat, struct simba_error *error);
void cli_seat_close(struct cli_seat *seat);
bool cli_seat_failure(struct cli_seat *seat, struct simba_error *ret_error);

/* Any thread. */
bool cli_seat_is_active(struct cli_seat *seat);  /* it was started and not stopped */
bool cli_seat_takes_part(struct cli_seat *seat); /* and the store has answered, as far as known */
bool cli_seat_is_owner(const struct cli_seat *seat);
const char *cli_seat_id(const struct cli_seat *seat);
const char *cli_seat_mutex(const struct cli_seat *seat);
uint64_t cli_seat_fence(const struct cli_seat *seat);
int cli_seat_slot(const struct cli_seat *seat); /* -1: none */
int64_t cli_seat_deadline_ms(const struct cli_seat *seat);
int64_t cli_seat_window_ms(const struct cli_seat *seat);
int64_t cli_seat_place(const struct cli_seat *seat);
void cli_seat_owner(struct cli_seat *seat, struct simba_owner *ret_owner);
bool cli_seat_is_asked(struct cli_seat *seat, struct simba_handover *ret_request);
void cli_seat_set_priority(struct cli_seat *seat, int priority);

#endif
