/*
 * progress.c - tells the user who owns the mutex that is waited for.
 *
 * How long a term lasts is what this program has seen of it, unless the store was asked. The end of
 * a lease is shown only where it is longer than ours, as scripts have them: most owners renew.
 */
#include "cli/progress.h"

#include "base/time.h"
#include "cli/cli.h"
#include "cli/job.h"
#include "cli/store.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define SILENCE_MS 1000  /* from the begin of a wait to its first message */
#define INTERVAL_MS 1000 /* between updates of the line */
#define WIPE_MS 100      /* how long the terminal gets to take the end of it */
#define LOOK_MS 10000    /* between two looks at the owner where the store tells of no change */

#define SENTENCE_MAX 1024

void cli_progress_begin(struct cli_progress *progress, const char *mutex, bool quiet)
{
    *progress = (struct cli_progress){.mutex = mutex, .quiet = quiet, .begun_ms = simba_now_ms()};
}

int64_t cli_progress_next_ms(const struct cli_progress *progress)
{
    if (progress->quiet)
        return SIMBA_INFINITE;
    if (!progress->told)
        return progress->begun_ms + SILENCE_MS;
    return isatty(STDERR_FILENO) ? simba_now_ms() + INTERVAL_MS : SIMBA_INFINITE;
}

/* ---- The owner ------------------------------------------------------------------------------- */

/* Takes in what is known of the owner now. */
static void see(struct cli_progress *progress, const struct simba_owner *owner)
{
    const struct simba_owner *last = &progress->owner;
    bool same = strcmp(owner->id, last->id) == 0 && owner->fence == last->fence;

    if (!same && owner->id[0] != 0) {
        progress->succeeded = progress->seen_ms != 0;
        progress->seen_ms = simba_now_ms();
    }
    progress->renewed =
        same && (progress->renewed || owner->transition_at_ms > last->transition_at_ms);
    progress->owner = *owner;
}

static const char *format_seconds(int64_t ms, char *buffer, size_t size)
{
    return simba_duration_format(ms < 1000 ? ms : ms / 1000 * 1000, buffer, size);
}

/* " for at least 2m", of a term that may have begun earlier than it was seen; nothing within the
 * first second. */
static void describe_age(const struct cli_progress *progress, char *buffer, size_t size)
{
    int64_t age_ms = simba_now_ms() - progress->seen_ms;
    char age[32];

    buffer[0] = 0;
    if (age_ms >= 1000)
        snprintf(buffer, size, " for %s%s", progress->succeeded ? "" : "at least ",
                 format_seconds(age_ms, age, sizeof age));
}

static const char *relation(const struct cli_progress *progress)
{
    return cli_job_runs_under(progress->owner.id) ? " (under which this runs)" : "";
}

/* When a lease was renewed is known if it is as long as ours. One that would have begun in the
 * future is longer, and one that would have begun before the term is shorter. */
static void describe_lease(const struct cli_progress *progress, char *buffer, size_t size)
{
    const struct simba_owner *owner = &progress->owner;
    int64_t now_ms = simba_now_ms();
    bool shorter = progress->succeeded && owner->acquired_at_ms < progress->seen_ms - SILENCE_MS;
    bool longer = owner->acquired_at_ms > now_ms;
    char time[32];

    cli_text_duration(longer ? sb_time_left(owner->transition_at_ms, now_ms)
                             : now_ms - owner->acquired_at_ms,
                      time, sizeof time);
    if (owner->transition_at_ms == SIMBA_INFINITE || shorter)
        buffer[0] = 0;
    else
        snprintf(buffer, size,
                 longer ? "; lease ends in %s unless renewed" : "; lease renewed %s ago", time);
}

void cli_progress_date(struct cli_progress *progress, const struct simba_owner *owner,
                       int64_t since_ms)
{
    see(progress, owner);
    progress->seen_ms = since_ms;
    progress->succeeded = true;
}

void cli_progress_describe(struct cli_progress *progress, const struct simba_owner *owner,
                           char *buffer, size_t size)
{
    char age[64];
    char lease[96];

    see(progress, owner);
    describe_age(progress, age, sizeof age);
    describe_lease(progress, lease, sizeof lease);
    snprintf(buffer, size, "held by %s%s%s%s", owner->id, relation(progress), age, lease);
}

/* ---- The sentence ---------------------------------------------------------------------------- */

/* How much of it is left out, least important first, until it fits into a line. */
enum brevity { WHOLE, NO_STORE, NO_LEASE, NO_AGE, NO_WORDS, NO_PLACE, SHORT_NAMES };

static const char *ordinal(int64_t number)
{
    static const char *const endings[] = {"th", "st", "nd", "rd"};

    return number % 100 / 10 == 1 || number % 10 > 3 ? "th" : endings[number % 10];
}

/* `room` for the names together, in columns; of use with SHORT_NAMES only. */
static void compose(const struct cli_progress *progress, int64_t place, enum brevity brevity,
                    size_t room, char *buffer, size_t size)
{
    const char *store = brevity < NO_STORE ? cli_store_shown() : NULL;
    bool owned = progress->owner.id[0] != 0;
    char mutex[SIMBA_MUTEX_MAX + 1];
    char id[SIMBA_ID_MAX + 1];
    char line[48] = "";
    char age[64] = "";

    cli_text_printable(progress->mutex, mutex, sizeof mutex);
    cli_text_printable(progress->owner.id, id, sizeof id);
    if (brevity >= SHORT_NAMES) {
        size_t width = cli_text_width(id);
        cli_text_shorten(mutex, width < room / 2 ? room - width : room / 2);
        width = cli_text_width(mutex);
        cli_text_shorten(id, room > width ? room - width : 0);
    }
    if (place > 0 && brevity < NO_PLACE)
        snprintf(line, sizeof line, ", %" PRId64 "%s in line", place, ordinal(place));
    if (owned && brevity < NO_AGE)
        describe_age(progress, age, sizeof age);
    snprintf(buffer, size, "%s'%s'%s%s%s%s%s%s%s%s", brevity < NO_WORDS ? "waiting for " : "",
             mutex, line, owned ? ", held by " : "", id, owned ? relation(progress) : "", age,
             owned && progress->renewed && brevity < NO_LEASE ? "; lease renewed" : "",
             store != NULL ? "; store: " : "", store != NULL ? store : "");
}

/* ---- Showing it ------------------------------------------------------------------------------ */

/* A line is updated in place on a terminal that can do so, and whose foreground is this job: a job
 * in the background would write into what the user types. */
static bool in_place(void)
{
    const char *terminal = getenv("TERM");

    return !cli_line_is_json() && isatty(STDERR_FILENO) && terminal != NULL &&
           strcmp(terminal, "dumb") != 0 && tcgetpgrp(STDERR_FILENO) == getpgrp();
}

static void show_in_place(struct cli_progress *progress, int64_t place)
{
    char begin[64];
    char sentence[SENTENCE_MAX];
    char line[CLI_MESSAGE_MAX];
    char waited[32];
    struct winsize window;

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_col < 2)
        window.ws_col = 80;
    format_seconds(simba_now_ms() - progress->begun_ms, waited, sizeof waited);
    size_t used = (size_t)snprintf(begin, sizeof begin, "simba: %s: ", waited);
    size_t width = window.ws_col > used + 1 ? window.ws_col - used - 1 : 1;
    enum brevity brevity = WHOLE;
    do {
        compose(progress, place, brevity, 0, sentence, sizeof sentence);
    } while (cli_text_width(sentence) > width && ++brevity < SHORT_NAMES);
    if (brevity == SHORT_NAMES) {
        size_t words = strlen("'', held by ") + strlen(relation(progress));
        compose(progress, place, brevity, width > words ? width - words : 0, sentence,
                sizeof sentence);
    }
    snprintf(line, sizeof line, "%s%s", begin, sentence);
    cli_text_cut(line, window.ws_col - 1u);
    cli_message_show(line);
    progress->shown = true;
}

void cli_progress_follow(struct cli_progress *progress, simba_client *client)
{
    progress->client = client;
}

/* Where it cannot be followed, the line tells what the waiter knows. */
static void start_observer(struct cli_progress *progress)
{
    struct simba_observer_options options = SIMBA_OBSERVER_OPTIONS_INIT;
    struct simba_error ignored;

    options.mutex = progress->mutex;
    options.poll_ms = LOOK_MS;
    if (simba_observer_create(progress->client, &options, &progress->observer, &ignored) ==
        SIMBA_OK)
        simba_observer_start(progress->observer, &ignored);
}

void cli_progress_show(struct cli_progress *progress, const struct simba_owner *owner,
                       int64_t place)
{
    char sentence[SENTENCE_MAX];
    struct simba_state state = {.after = *owner};

    if (progress->quiet || simba_now_ms() < progress->begun_ms + SILENCE_MS)
        return;
    if (progress->client != NULL && progress->observer == NULL && in_place())
        start_observer(progress);
    if (progress->observer != NULL)
        simba_observer_state(progress->observer, &state);
    see(progress, state.after.id[0] != 0 ? &state.after : owner);
    compose(progress, place, WHOLE, 0, sentence, sizeof sentence);
    if (in_place())
        show_in_place(progress, place);
    else if (!progress->told)
        cli_message("%s", sentence);
    progress->told = true;
}

/* The line is gone before a command writes, unless the terminal is stuck. */
void cli_progress_end(struct cli_progress *progress)
{
    simba_observer_close(progress->observer);
    progress->observer = NULL;
    if (progress->shown) {
        cli_message_show("");
        cli_message_flush(WIPE_MS);
    }
    progress->shown = false;
}
