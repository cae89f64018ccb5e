/*
 * leader.c - runs a command again and again while this contender leads.
 *
 * The library reports a term on its own threads; the command belongs to the main thread. So
 * on_acquired only wakes the main thread, and on_released waits until that has ended the command:
 * the library neither releases the mutex nor competes again before that.
 *
 *     main thread   follow ---------> lead: pause, run, pause, run ---------> follow ...
 *                      ^ acquired                     ^ released  | yielded
 *     library      on_acquired                   on_released ----------- competes again
 */
#include "cli/leader.h"

#include "base/check.h"
#include "base/time.h"
#include "cli/background.h"
#include "cli/cli.h"
#include "cli/endpoints.h"
#include "cli/events.h"
#include "cli/job.h"
#include "cli/progress.h"
#include "cli/seat.h"
#include "cli/store.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

struct leader {
    struct cli_job *job;
    const struct cli_plan *plan;
    struct cli_seat seat;
    int64_t start_until_ms; /* the wait for the store; 0: none */
    int code;               /* the result of the start */
    struct cli_progress progress;
    struct cli_endpoints endpoints;
    int64_t begun_ms; /* of the last run; SIMBA_UNSET: there was none */
    bool ran_in_term;
    int term_fd; /* readable when on_acquired, on_released or on_handover has come */

    pthread_mutex_t lock;
    pthread_cond_t yielded;
    bool ends;     /* the service manager was told so */
    bool acquired; /* a term has begun */
    bool released; /* it has ended, and on_released waits for the main thread */
    bool closed;   /* nothing runs any more, nor will, before the contender starts again */
};

/* ---- Between the library and the main thread ------------------------------------------------- */

static void on_acquired(void *user, const struct simba_state *state)
{
    struct leader *leader = user;

    (void)state;
    if (leader->plan->acquired != NULL)
        leader->plan->acquired(leader->plan->user);
    pthread_mutex_lock(&leader->lock);
    SB_CHECK(leader->closed || !leader->acquired, "a term begins when the one before has ended");
    leader->acquired = true;
    eventfd_write(leader->term_fd, 1); /* with the lock: a later on_released must not come first */
    pthread_mutex_unlock(&leader->lock);
}

static void on_released(void *user, const struct simba_state *state)
{
    struct leader *leader = user;

    (void)state;
    pthread_mutex_lock(&leader->lock);
    SB_CHECK(leader->closed || (leader->acquired && !leader->released),
             "a term that has begun ends once");
    leader->released = true;
    eventfd_write(leader->term_fd, 1);
    while (leader->released && !leader->closed)
        pthread_cond_wait(&leader->yielded, &leader->lock);
    pthread_mutex_unlock(&leader->lock);
}

/* The main thread asks the contender for the request. */
static void on_handover(void *user, const struct simba_handover *request)
{
    (void)request;
    eventfd_write(((struct leader *)user)->term_fd, 1);
}

/* For `systemctl status` on a machine that stands by. */
static void on_notify(void *user, const struct simba_state *state)
{
    struct leader *leader = user;
    const char *mutex = leader->job->mutex;

    pthread_mutex_lock(&leader->lock);
    bool competes = !leader->closed && !leader->ends;
    pthread_mutex_unlock(&leader->lock);
    if (!competes)
        return;
    if (state->after.id[0] == 0)
        cli_notify_status("waiting for '%s'", mutex);
    else if (!simba_state_is_owner(state, cli_seat_id(&leader->seat)))
        cli_notify_status("waiting for '%s', held by %s", mutex, state->after.id);
}

/* Whether a term is under way. Lets the library go on after a term that has ended: its command has
 * ended, too. */
static bool update_term(struct leader *leader)
{
    eventfd_t count;

    if (eventfd_read(leader->term_fd, &count) != 0 && errno != EAGAIN)
        return false;
    pthread_mutex_lock(&leader->lock);
    if (leader->released) {
        leader->acquired = false;
        leader->released = false;
        pthread_cond_signal(&leader->yielded);
    }
    bool leading = leader->acquired;
    pthread_mutex_unlock(&leader->lock);
    return leading;
}

/* ---- Starting -------------------------------------------------------------------------------- */

/* On a thread of its own. */
static void create_contender(void *user)
{
    struct leader *leader = user;
    struct cli_job *job = leader->job;
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;

    options.mutex = job->mutex;
    options.id = job->id;
    options.on_acquired = on_acquired;
    options.on_released = on_released;
    options.on_notify = on_notify;
    options.on_handover = on_handover;
    options.priority = leader->plan->priority;
    options.priority_after_ms = leader->plan->priority_after_ms;
    options.user = leader;
    leader->code = cli_job_open(job, leader->start_until_ms);
    if (leader->code == SIMBA_OK)
        leader->code = cli_job_check(job);
    if (leader->code == SIMBA_OK)
        leader->code =
            cli_seat_create(&leader->seat, job->client, job->slots, &options, &job->error);
    if (leader->code == SIMBA_OK)
        cli_endpoints_publish(&leader->endpoints, job->client, &leader->seat);
}

/* `why` NULL: the store has not answered at all. */
static int report_unreachable(const struct cli_job *job, const char *why)
{
    char wait[32];

    cli_message("the store could not be reached in %s%s%s",
                simba_duration_format(job->wait_ms, wait, sizeof wait), why != NULL ? ": " : "",
                why != NULL ? why : "");
    return CLI_EXIT_UNAVAILABLE;
}

/* An attempt to open the store may take longer than what is left of the wait. */
static int await_start(const struct cli_job *job, struct cli_background *background)
{
    bool bounded = cli_job_is_bounded(job);
    int64_t limit_ms = bounded ? sb_later(job->wait_ms, CLI_JOB_REOPEN_MS) : SIMBA_INFINITE;

    int ended = cli_background_wait(background, job->events.signals_fd, limit_ms);
    if (ended == CLI_BACKGROUND_LATE && atomic_load(&job->opened))
        ended = cli_background_wait(background, job->events.signals_fd, SIMBA_INFINITE);
    return ended;
}

/* Waits for the store, as a service that starts before it has to. Nothing is on the store before
 * the contender starts, which this thread does: so a signal can end the program at once until
 * then. */
static int start(struct leader *leader)
{
    struct cli_job *job = leader->job;
    struct cli_background background;

    if (cli_job_is_bounded(job))
        leader->start_until_ms = sb_later(simba_now_ms(), job->wait_ms);
    else
        leader->start_until_ms = job->wait_ms == 0 ? 0 : SIMBA_INFINITE;
    job->tells_of_store = true;
    cli_line_stamp();
    job->cli->show_store = !job->cli->quiet;
    if (!cli_background_start(&background, create_contender, leader))
        return cli_fail_system("cannot start a thread");
    background.ends = cli_signal_tells_to_end;
    int ended = await_start(job, &background);
    if (ended == CLI_BACKGROUND_LATE)
        cli_background_leave(report_unreachable(job, NULL));
    if (ended != CLI_BACKGROUND_DONE)
        cli_background_leave(cli_signal_exit_code(ended));
    if (leader->code == SIMBA_EUNAVAILABLE && cli_job_is_bounded(job))
        return report_unreachable(job, job->error.text);
    if (leader->code == SIMBA_OK) {
        cli_notify_status("waiting for '%s'", job->mutex); /* before the callbacks know more */
        leader->code = cli_seat_start(&leader->seat, &job->error);
    }
    return leader->code == SIMBA_OK ? CLI_CONTINUE : cli_fail(&job->error);
}

/* ---- A term ---------------------------------------------------------------------------------- */

static int64_t seat_deadline(void *seat)
{
    return cli_seat_deadline_ms(seat);
}

static bool seat_is_asked(void *seat)
{
    return cli_seat_is_asked(seat, NULL);
}

static struct cli_lease lease_of(const struct leader *leader)
{
    const struct cli_job *job = leader->job;

    return (struct cli_lease){.mutex = job->mutex,
                              .deadline_ms = seat_deadline,
                              .user = (void *)&leader->seat,
                              .is_asked = seat_is_asked,
                              .wake_fd = leader->term_fd,
                              .grace_ms = job->grace_ms,
                              .reserve_ms = job->reserve_ms};
}

static struct cli_outcome run_command(struct leader *leader)
{
    const struct cli_job *job = leader->job;
    uint64_t fence = cli_seat_fence(&leader->seat);
    struct cli_lease lease = lease_of(leader);
    struct cli_run run = cli_job_run(job, cli_seat_id(&leader->seat), fence, &lease);

    run.health = leader->plan->health;
    run.setup.slot = cli_seat_slot(&leader->seat);
    cli_notify_status("leading '%s', fence %llu; the command runs", job->mutex,
                      (unsigned long long)fence);
    if (leader->ran_in_term)
        atomic_fetch_add(&leader->endpoints.restarts, 1);
    leader->ran_in_term = true;
    leader->begun_ms = simba_now_ms();
    return cli_supervise(&run);
}

enum awaited {
    AWAITED_DUE,   /* the command is to run */
    AWAITED_OVER,  /* the term has ended */
    AWAITED_ASKED, /* the mutex is to be handed over */
    AWAITED_TOLD   /* a signal told the program to end */
};

/* A command that would be stopped at once is not started. At the deadline there has been a renewal,
 * or on_released is about to come. */
static int64_t startable_ms(const struct leader *leader, int64_t due_ms)
{
    int64_t deadline_ms = cli_seat_deadline_ms(&leader->seat);
    int64_t now_ms = simba_now_ms();

    if (due_ms > now_ms || !cli_job_runs_out(leader->job, deadline_ms))
        return due_ms;
    return deadline_ms > now_ms ? deadline_ms : SIMBA_INFINITE;
}

#define LOOK_TTLS 6

/* When the plan looks again at what it waits for. */
static int64_t next_look_ms(const struct leader *leader)
{
    int64_t ttl_ms = 0;
    int64_t transition_ms = 0;

    if (leader->plan->look_again == NULL ||
        simba_client_lease(leader->job->client, &ttl_ms, &transition_ms) != SIMBA_OK)
        return SIMBA_INFINITE;
    return sb_later(simba_now_ms(), LOOK_TTLS * ttl_ms);
}

static enum awaited await_run(struct leader *leader, int64_t *due_ms, int *ret_status)
{
    int64_t look_ms = next_look_ms(leader);

    while (update_term(leader)) {
        if (cli_seat_is_asked(&leader->seat, NULL))
            return AWAITED_ASKED;
        int64_t until_ms = sb_earlier(startable_ms(leader, *due_ms), look_ms);
        int signal = cli_events_pause(&leader->job->events, leader->term_fd, until_ms);
        if (signal > 0) {
            *ret_status = cli_signal_exit_code(signal);
            return AWAITED_TOLD;
        }
        if (signal == CLI_PAUSE_OVER && until_ms == *due_ms)
            return AWAITED_DUE;
        if (signal == CLI_PAUSE_OVER && until_ms == look_ms) {
            *due_ms = leader->plan->look_again(leader->plan->user, *due_ms);
            look_ms = next_look_ms(leader);
        }
    }
    return AWAITED_OVER;
}

/* What the plan does before a run may take a while, so the term is looked at once more. */
static enum awaited await_start_of_run(struct leader *leader, int64_t due_ms, int *ret_status)
{
    enum awaited awaited = await_run(leader, &due_ms, ret_status);

    if (awaited != AWAITED_DUE || leader->plan->starting == NULL)
        return awaited;
    leader->plan->starting(leader->plan->user);
    return await_run(leader, &due_ms, ret_status);
}

/* The first in line for a slot. */
static bool is_gate_owned(const struct leader *leader)
{
    struct simba_mutex_status *list = NULL;
    struct simba_error error;
    size_t count = 0;

    int code = simba_client_status(leader->job->client, leader->job->mutex, CLI_PATIENCE_MS, &list,
                                   &count, &error);
    bool owned = code != SIMBA_OK || (count > 0 && list->owner.id[0] != 0);
    simba_free(list);
    return owned;
}

/* A store that cannot tell may have waiters. */
static bool is_alone(const struct leader *leader)
{
    struct simba_waiter *waiters = NULL;
    struct simba_error error;
    size_t count = 0;

    int code = simba_client_queue(leader->job->client, leader->job->mutex, CLI_PATIENCE_MS,
                                  &waiters, &count, &error);
    simba_free(waiters);
    return code == SIMBA_OK && count == 0 && !(leader->job->slots > 0 && is_gate_owned(leader));
}

#define STAND_BACK (-2) /* in place of an exit code: another should lead */

/* How long a leader that has handed over leaves the mutex to the others. */
#define HANDED_OVER_MS 5000

/* Runs the command and asks when it is to run again: false when it is not, with the exit code or
 * STAND_BACK. */
static bool run_and_plan(struct leader *leader, int64_t *ret_due_ms, int *ret_status)
{
    const struct cli_plan *plan = leader->plan;
    struct cli_outcome outcome = run_command(leader);

    cli_guardian_collect();
    if (plan->is_schedule && outcome.how == CLI_ENDED && outcome.status == 0)
        atomic_store(&leader->endpoints.last_success_s, (int64_t)time(NULL));
    *ret_due_ms = outcome.signal != 0
                      ? CLI_PLAN_END
                      : plan->next_ms(plan->user, &outcome, leader->begun_ms, simba_now_ms());
    if (plan->ended != NULL)
        plan->ended(plan->user, &outcome, leader->begun_ms, *ret_due_ms);
    if (outcome.signal != 0) {
        *ret_status = cli_signal_exit_code(outcome.signal);
        return false;
    }
    if (*ret_due_ms == CLI_PLAN_END) {
        *ret_status = outcome.status;
        return false;
    }
    if (cli_seat_is_asked(&leader->seat, NULL)) /* also where the command has ended by itself */
        return true;
    if (plan->yields != NULL && plan->yields(plan->user) && !is_alone(leader)) {
        *ret_status = STAND_BACK;
        return false;
    }
    cli_notify_status("leading '%s'; the command does not run now", leader->job->mutex);
    return true;
}

/* ---- Standing back --------------------------------------------------------------------------- */

static void set_closed(struct leader *leader, bool closed)
{
    pthread_mutex_lock(&leader->lock);
    leader->closed = closed;
    pthread_cond_signal(&leader->yielded);
    pthread_mutex_unlock(&leader->lock);
}

static void warn_of_stop(const struct leader *leader, bool owned, int code,
                         const struct simba_error *error)
{
    const char *mutex = leader->job->mutex;

    if (code == SIMBA_OK || leader->job->cli->log_level < SIMBA_LOG_WARN)
        return;
    if (simba_error_group(code) == SIMBA_GROUP_LOST)
        cli_message(
            "warning: '%s' was lost before it was released: another process may have led meanwhile",
            mutex);
    else if (owned)
        cli_message("warning: '%s' was not released; it becomes free when its lease ends: %s",
                    mutex, error->text);
    else
        cli_message(
            "warning: the store could not be told that this contender no longer waits for '%s': %s",
            mutex, simba_strerror(error->code));
}

static void stop(void *user)
{
    struct leader *leader = user;
    struct simba_error error;

    warn_of_stop(leader, true, cli_seat_stop(&leader->seat, &error), &error);
}

static int told_signal; /* that told the program to end while the contender stops; 0: none */

static bool note_told(int signal)
{
    if (cli_signal_tells_to_end(signal))
        told_signal = signal;
    return false;
}

/* No command runs: on_released need not wait for the main thread, which waits for the stop. Its end
 * is bounded by the library. */
static int give_up(struct leader *leader)
{
    struct cli_background background;

    set_closed(leader, true);
    if (!cli_background_start(&background, stop, leader))
        return cli_fail_system("cannot start a thread");
    background.ends = note_told;
    cli_background_wait(&background, leader->job->events.signals_fd, SIMBA_INFINITE);
    pthread_mutex_lock(&leader->lock);
    leader->acquired = false;
    leader->released = false;
    leader->closed = false;
    pthread_mutex_unlock(&leader->lock);
    return told_signal != 0 ? cli_signal_exit_code(told_signal) : CLI_CONTINUE;
}

/* Lets others lead for a while. Until it competes again (CLI_CONTINUE), or an exit code. */
static int stand_back(struct leader *leader, int64_t time_ms, const char *why)
{
    struct cli_job *job = leader->job;
    char time[32];

    cli_notify_status("standing back from '%s' for %s: %s", job->mutex,
                      simba_duration_format(time_ms, time, sizeof time), why);
    int status = give_up(leader);
    if (status != CLI_CONTINUE)
        return status;
    int signal = cli_events_pause(&job->events, -1, sb_later(simba_now_ms(), time_ms));
    if (signal > 0)
        return cli_signal_exit_code(signal);
    cli_notify_status("waiting for '%s'", job->mutex);
    if (cli_seat_start(&leader->seat, &job->error) != SIMBA_OK)
        return cli_fail(&job->error);
    return CLI_CONTINUE;
}

/* A host whose command does not work does not ask for the mutex again because of its priority,
 * before it has led once more. */
static int yield(struct leader *leader)
{
    const char *mutex = leader->job->mutex;
    char time[32];

    cli_message("the command keeps failing: giving '%s' up for %s, so that another can lead", mutex,
                simba_duration_format(leader->plan->yield_ms, time, sizeof time));
    cli_seat_set_priority(&leader->seat, 0);
    return stand_back(leader, leader->plan->yield_ms, "the command keeps failing");
}

static int hand_over(struct leader *leader)
{
    struct simba_handover request = SIMBA_HANDOVER_NONE;

    if (cli_seat_is_asked(&leader->seat, &request) && !leader->job->cli->quiet)
        cli_message("handing '%s' over to %s, as %s asks", leader->job->mutex,
                    request.to[0] != 0 ? request.to : "the first in line",
                    request.by[0] != 0 ? request.by : "somebody");
    return stand_back(leader, HANDED_OVER_MS, "it was handed over");
}

/* ---- A whole term ---------------------------------------------------------------------------- */

/* Until the term is over (CLI_CONTINUE), or an exit code. */
static int lead(struct leader *leader)
{
    int status = CLI_CONTINUE;
    enum awaited awaited;

    leader->ran_in_term = false;
    cli_line_about_fence(cli_seat_fence(&leader->seat));
    if (cli_seat_is_asked(&leader->seat, NULL)) /* another waiter was to have it */
        return hand_over(leader);
    int64_t due_ms = leader->plan->first_ms(leader->plan->user, simba_now_ms());
    cli_job_fit(leader->job, cli_seat_window_ms(&leader->seat));
    cli_seat_set_priority(&leader->seat, leader->plan->priority);
    if (!leader->job->cli->quiet)
        cli_message("leading '%s' with fence %llu", leader->job->mutex,
                    (unsigned long long)cli_seat_fence(&leader->seat));
    do {
        awaited = await_start_of_run(leader, due_ms, &status);
    } while (awaited == AWAITED_DUE && run_and_plan(leader, &due_ms, &status));
    if (status == STAND_BACK)
        return yield(leader);
    if (awaited == AWAITED_ASKED)
        return hand_over(leader);
    if (awaited == AWAITED_OVER && !leader->job->cli->quiet)
        cli_message("not leading '%s' any more", leader->job->mutex);
    return status;
}

/* ---- Between terms --------------------------------------------------------------------------- */

/* Until a term begins (CLI_CONTINUE), or an exit code. */
static int follow(struct leader *leader)
{
    struct simba_owner owner;
    int signal = 0;

    cli_line_about_fence(0);
    cli_progress_begin(&leader->progress, leader->job->mutex, leader->job->cli->quiet);
    if (!cli_job_is_group(leader->job))
        cli_progress_follow(&leader->progress, leader->job->client);
    while (signal <= 0 && !update_term(leader)) {
        if (cli_seat_failure(&leader->seat, &leader->job->error))
            break;
        signal = cli_events_pause(&leader->job->events, leader->term_fd,
                                  cli_progress_next_ms(&leader->progress));
        if (signal == CLI_PAUSE_OVER) {
            cli_seat_owner(&leader->seat, &owner);
            cli_progress_show(&leader->progress, &owner, cli_seat_place(&leader->seat));
        }
    }
    cli_progress_end(&leader->progress);
    if (cli_seat_failure(&leader->seat, &leader->job->error))
        return cli_fail(&leader->job->error);
    return signal > 0 ? cli_signal_exit_code(signal) : CLI_CONTINUE;
}

/* ---- The end --------------------------------------------------------------------------------- */

static void stop_and_close(void *user)
{
    struct leader *leader = user;
    struct simba_error error;

    if (cli_seat_exists(&leader->seat) && cli_seat_is_active(&leader->seat)) {
        bool owned = cli_seat_is_owner(&leader->seat);
        warn_of_stop(leader, owned, cli_seat_stop(&leader->seat, &error), &error);
    }
    cli_endpoints_stop(&leader->endpoints);
    cli_seat_close(&leader->seat);
    cli_store_close(leader->job->client);
}

/* Keeps the mutex for the rest of --hold-at-least, or until a later signal than the one that told
 * the program to end. Returns false when the mutex was lost meanwhile. */
static bool keep_minimum(struct leader *leader)
{
    const struct cli_job *job = leader->job;

    cli_events_drain(&job->events);
    if (leader->begun_ms == SIMBA_UNSET || !cli_seat_is_owner(&leader->seat))
        return true;
    int64_t until_ms = sb_later(leader->begun_ms, job->hold_at_least_ms);
    if (until_ms > simba_now_ms() && !job->cli->quiet)
        cli_message("holding '%s' for the rest of its minimum; another signal ends that",
                    job->mutex);
    struct cli_lease lease = lease_of(leader);
    return cli_job_hold(job, &lease, until_ms);
}

/* Returns the exit code. */
static int finish(struct leader *leader, int status)
{
    pthread_mutex_lock(&leader->lock);
    leader->ends = true;
    pthread_mutex_unlock(&leader->lock);
    cli_notify_stopping();
    if (!keep_minimum(leader))
        status = CLI_EXIT_LOST;
    set_closed(leader, true); /* no command runs from here on, so on_released need not wait */
    bool owns = cli_seat_exists(&leader->seat) && cli_seat_is_owner(&leader->seat);
    /* The library bounds the stop of an owner. A store that has not renewed the lease in time, or
     * has not even granted one, gets less time. */
    bool healthy = cli_seat_exists(&leader->seat) &&
                   !cli_job_runs_out(leader->job, cli_seat_deadline_ms(&leader->seat));
    struct cli_finish last = {.run = stop_and_close,
                              .user = leader,
                              .held = owns ? cli_job_held(leader->job) : NULL,
                              .limit_ms = healthy ? SIMBA_INFINITE : CLI_PATIENCE_MS};
    cli_background_finish(&last, leader->job->events.signals_fd, status);
    return status;
}

int cli_leader_run(struct cli_job *job, const struct cli_plan *plan)
{
    struct leader leader = {.job = job,
                            .plan = plan,
                            .begun_ms = SIMBA_UNSET,
                            .lock = PTHREAD_MUTEX_INITIALIZER,
                            .yielded = PTHREAD_COND_INITIALIZER};

    leader.term_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (leader.term_fd < 0 || !cli_events_open(&job->events))
        return cli_fail_system("events");
    leader.endpoints.is_schedule = plan->is_schedule;
    int status = job->listen != NULL
                     ? cli_endpoints_start(&leader.endpoints, job->listen, job->cli->quiet)
                     : CLI_CONTINUE;
    if (status == CLI_CONTINUE)
        status = start(&leader);
    if (status == CLI_CONTINUE)
        cli_notify_ready();
    while (status == CLI_CONTINUE) {
        status = follow(&leader);
        if (status == CLI_CONTINUE)
            status = lead(&leader);
    }
    status = finish(&leader, status);
    close(leader.term_fd);
    cli_events_close(&job->events);
    return status;
}
