/*
 * contest.c - waits for a mutex: for `lock` and `acquire`. Owns the waiting thread, what the main
 * thread does meanwhile, and what the user is told; must not know what the mutex is for.
 */
#include "cli/contest.h"

#include "base/error.h"
#include "base/time.h"
#include "cli/background.h"
#include "cli/cli.h"
#include "cli/events.h"
#include "cli/store.h"

#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>

/* How often a wait is cancelled until it ends: a cancel that comes before the wait is lost. */
#define CANCEL_INTERVAL_MS 10

/* How long warnings are held back at the start: an error that ends the wait at once is printed
 * without a warning that says the same. */
#define HOLD_BACK_MS 500

/* How long the store gets to answer when a wait is over. */
#define ANSWER_MS 1000

/* How long a waiter that passed the mutex on leaves it to the others: less than a signal that ends
 * the wait has patience for. */
#define PASS_ON_MS 500

/* ---- The waiting thread ---------------------------------------------------------------------- */

static void on_lost(void *user)
{
    eventfd_write(((struct cli_contest *)user)->wake_fd, 1);
}

static void on_handover(void *user, const struct simba_handover *request)
{
    (void)request; /* the main thread asks whether there is one */
    eventfd_write(((struct cli_contest *)user)->wake_fd, 1);
}

static int acquire_mutex(struct cli_contest *c, simba_locker *locker, int64_t until_ms)
{
    struct simba_error *error = &c->job->error;

    if (c->try_once)
        return simba_locker_try_acquire(locker, error);
    if (c->job->wait_ms == SIMBA_UNSET)
        return simba_locker_acquire(locker, error);
    return simba_locker_acquire_timeout(locker, sb_time_left(until_ms, simba_now_ms()), error);
}

/* A mutex that is handed over to another waiter passes on, and this one waits again, behind it. The
 * library asks that once for each request. */
static int acquire_turn(struct cli_contest *c, simba_locker *locker, int64_t until_ms)
{
    struct simba_error *error = &c->job->error;
    int code = acquire_mutex(c, locker, until_ms);

    while (code == SIMBA_OK && simba_locker_handover_asked(locker, NULL)) {
        code = simba_locker_release(locker, error);
        poll(NULL, 0, PASS_ON_MS);
        if (code == SIMBA_OK || code == SIMBA_ELOST)
            code = acquire_mutex(c, locker, until_ms);
    }
    return code;
}

static int create_locker(const struct cli_job *job, const struct simba_locker_options *wanted,
                         simba_locker **ret_locker, struct simba_error *error)
{
    if (job->slots > 0)
        return simba_semaphore_create(job->client, job->slots, wanted, ret_locker, error);
    if (job->names_count > 0)
        return simba_locker_create_set(job->client, (const char *const *)job->names,
                                       job->names_count, wanted, ret_locker, error);
    return simba_locker_create(job->client, wanted, ret_locker, error);
}

/* A store that is down when a bounded wait begins may be up before it ends. */
static int open_and_acquire(struct cli_contest *c)
{
    struct cli_job *job = c->job;
    struct simba_locker_options wanted = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *locker = NULL;
    bool bounded = cli_job_is_bounded(job);
    int64_t until_ms = bounded ? sb_later(c->started_ms, job->wait_ms) : 0;

    int code = cli_job_open(job, until_ms);
    if (code == SIMBA_OK && !c->try_once && cli_job_is_nested())
        code = cli_job_check(job);
    if (code != SIMBA_OK)
        return code;
    wanted.mutex = job->mutex;
    wanted.id = job->id;
    wanted.on_lost = on_lost;
    wanted.on_handover = c->hands_over ? on_handover : NULL;
    wanted.user = c;
    wanted.fail_fast = !bounded;
    wanted.detachable = c->detachable;
    wanted.fail_fast_unknown = cli_store_is_file();
    wanted.no_hold = c->no_hold;
    code = create_locker(job, &wanted, &locker, &job->error);
    if (code == SIMBA_EUNSUPPORTED && c->detachable)
        sb_error_set(&job->error, code, "%s; use --keep PID", job->error.text);
    if (code != SIMBA_OK)
        return code;
    atomic_store(&c->locker, locker);
    if (atomic_flag_test_and_set(&c->decided))
        return SIMBA_ECANCELED;
    code = acquire_turn(c, locker, until_ms);
    return code == SIMBA_OK && c->on_won != NULL ? c->on_won(c, locker) : code;
}

static void wait_for_mutex(void *user)
{
    struct cli_contest *c = user;

    c->code = open_and_acquire(c);
}

/* ---- The main thread while it waits ---------------------------------------------------------- */

/* Ends the wait. The program ends at once while the store is being opened, since nothing can be on
 * it; at a second signal; and when the store does not answer: what that may have granted runs
 * out. */
static void cancel_wait(struct cli_contest *c, struct cli_background *wait, int signal)
{
    int64_t until_ms = simba_now_ms() + CLI_PATIENCE_MS;
    int ended;

    if (!atomic_flag_test_and_set(&c->decided))
        cli_background_leave(cli_signals_ended_by(signal));
    wait->ends = cli_signal_insists;
    do {
        simba_locker_cancel(atomic_load(&c->locker));
        ended = cli_background_wait(wait, c->job->events.signals_fd, CANCEL_INTERVAL_MS);
    } while (ended == CLI_BACKGROUND_LATE && simba_now_ms() < until_ms);
    if (ended != CLI_BACKGROUND_DONE)
        cli_background_leave(cli_signals_ended_by(ended > 0 ? ended : signal));
}

/* When the main thread ends a bounded wait. An attempt to open the store may take any time; with an
 * open store the library ends the wait, and a store that hangs makes it a little late. */
static int64_t wait_end_ms(const struct cli_contest *c)
{
    bool opened = atomic_load(&c->locker) != NULL;

    if (!cli_job_is_bounded(c->job))
        return SIMBA_INFINITE;
    return sb_later(sb_later(c->started_ms, c->job->wait_ms),
                    opened ? CLI_PATIENCE_MS : CLI_JOB_REOPEN_MS);
}

/* "'m' was not acquired in 30s: WHY" */
static void report_not_acquired(const struct cli_contest *c, const char *why)
{
    char wait[32];

    if (cli_job_is_bounded(c->job))
        cli_message("'%s' was not acquired in %s: %s", c->job->mutex,
                    simba_duration_format(c->job->wait_ms, wait, sizeof wait), why);
    else
        cli_message("'%s' was not acquired: %s", c->job->mutex, why);
}

/* The error without its opening "cannot acquire 'm': ", which the message has anyway. */
static const char *reason_of(const struct cli_contest *c)
{
    char opening[SIMBA_MUTEX_MAX + 32];
    int length = snprintf(opening, sizeof opening, "cannot acquire '%s': ", c->job->mutex);
    const char *text = c->job->error.text;

    return strncmp(text, opening, (size_t)length) == 0 ? text + length : text;
}

/* The wait ran out, and the store did not answer at its end. That is no contention, so -E does not
 * count. `why` NULL: the store has not answered at all. */
static int report_unreachable(const struct cli_contest *c, const char *why)
{
    char text[sizeof c->job->error.text + 64];

    snprintf(text, sizeof text, "the store could not be reached%s%s", why != NULL ? ": " : "",
             why != NULL ? why : "");
    report_not_acquired(c, text);
    return CLI_EXIT_UNAVAILABLE;
}

/* A waiter sends nothing while another's lease lasts: the store may have died since it named the
 * owner. Otherwise it says what is true of the owner now, and since when it owns. */
static bool store_answers(struct cli_contest *c, struct simba_owner *owner,
                          struct simba_error *error)
{
    struct simba_mutex_status *list = NULL;
    size_t count = 0;

    const char *mutex = c->job->names_count > 0 ? c->job->names[0] : c->job->mutex;
    int code = simba_client_status(c->job->client, mutex, ANSWER_MS, &list, &count, error);
    if (code == SIMBA_OK && count > 0 && list->owner.id[0] != 0 && !cli_job_is_group(c->job)) {
        *owner = list->owner;
        if (list->since_ms > 0)
            cli_progress_date(&c->progress, owner, list->since_ms);
    }
    simba_free(list);
    return simba_error_group(code) != SIMBA_GROUP_UNAVAILABLE &&
           simba_error_group(code) != SIMBA_GROUP_CONTENDED;
}

/* With -E 0 it is no failure and nothing is printed: cron would send a mail. */
static int report_contended(struct cli_contest *c)
{
    bool wanted = c->contended_code != CLI_EXIT_OK || c->tells_contended ||
                  c->job->cli->log_level >= SIMBA_LOG_INFO;
    struct simba_owner owner = SIMBA_OWNER_NONE;
    struct simba_error error;
    char owned[CLI_PROGRESS_OWNER_MAX];

    if (atomic_load(&c->locker) != NULL)
        simba_locker_owner(c->locker, &owner);
    wanted = wanted && !c->job->cli->quiet;
    if ((cli_job_is_bounded(c->job) || wanted) && !store_answers(c, &owner, &error) &&
        cli_job_is_bounded(c->job))
        return report_unreachable(c, error.text);
    if (!wanted)
        return c->contended_code;
    cli_progress_describe(&c->progress, &owner, owned, sizeof owned);
    if (cli_job_is_group(c->job))
        report_not_acquired(c, c->job->error.text);
    else if (owner.id[0] != 0)
        report_not_acquired(c, owned);
    else
        cli_message("%s", c->job->error.text);
    return c->contended_code;
}

/* How long to wait until there is something to show, or the wait ends; at most `limit_ms`. */
static int64_t slice_ms(const struct cli_contest *c, int64_t limit_ms)
{
    int64_t until_ms = sb_earlier(wait_end_ms(c), cli_progress_next_ms(&c->progress));

    return sb_earlier(sb_time_left(until_ms, simba_now_ms()), limit_ms);
}

static int wait_while_telling(struct cli_contest *c, struct cli_background *wait)
{
    int signals_fd = c->job->events.signals_fd;
    int64_t held_back_ms = c->try_once ? SIMBA_INFINITE : HOLD_BACK_MS;
    int ended = cli_background_wait(wait, signals_fd, slice_ms(c, held_back_ms));

    if (ended == CLI_BACKGROUND_LATE)
        cli_message_print_held(NULL);
    while (ended == CLI_BACKGROUND_LATE && simba_now_ms() < wait_end_ms(c)) {
        struct simba_owner owner = SIMBA_OWNER_NONE;
        int64_t place = 0;
        if (atomic_load(&c->locker) != NULL) {
            if (!cli_job_is_group(c->job))
                cli_progress_follow(&c->progress, c->job->client);
            simba_locker_owner(c->locker, &owner);
            place = simba_locker_place(c->locker);
        }
        cli_progress_show(&c->progress, &owner, place);
        ended = cli_background_wait(wait, signals_fd, slice_ms(c, SIMBA_INFINITE));
    }
    cli_progress_end(&c->progress);
    return ended;
}

/* The result of the wait: CLI_CONTINUE, or an exit code. */
static int conclude(struct cli_contest *c)
{
    enum simba_error_group group = simba_error_group(c->code);
    bool is_told = group != SIMBA_GROUP_NONE && group != SIMBA_GROUP_CONTENDED;

    cli_message_print_held(is_told ? c->job->error.text : NULL);
    if (group == SIMBA_GROUP_NONE)
        return CLI_CONTINUE;
    if (group == SIMBA_GROUP_CONTENDED)
        return report_contended(c);
    if (c->code == SIMBA_EUNAVAILABLE && cli_job_is_bounded(c->job))
        return report_unreachable(c, reason_of(c));
    if (!cli_job_is_bounded(c->job) || atomic_load(&c->locker) == NULL ||
        (c->code != SIMBA_ESTORE && c->code != SIMBA_EUNKNOWN))
        return cli_fail(&c->job->error);
    /* The store was reached, and failed until the end of the wait: a full disk, say. */
    report_not_acquired(c, reason_of(c));
    return CLI_EXIT_UNAVAILABLE;
}

int cli_contest_run(struct cli_contest *c)
{
    struct cli_background wait;

    c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (c->wake_fd < 0)
        return cli_fail_system("events");
    cli_progress_begin(&c->progress, c->job->mutex, c->job->cli->quiet || c->try_once);
    cli_message_hold_warnings();
    if (!cli_background_start(&wait, wait_for_mutex, c))
        return cli_fail_system("cannot start a thread");
    int ended = wait_while_telling(c, &wait);
    if (ended == CLI_BACKGROUND_LATE) {
        atomic_flag_test_and_set(&c->decided);
        cli_background_leave(report_unreachable(c, NULL));
    }
    if (ended == CLI_BACKGROUND_DONE)
        return conclude(c);
    cli_message_print_held(NULL);
    cancel_wait(c, &wait, ended);
    return cli_signals_ended_by(ended);
}
