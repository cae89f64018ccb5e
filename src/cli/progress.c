/*
 * progress.c - tells somebody who looks on why nothing happens.
 */
#include "cli/progress.h"

#include "cli/printer.h"
#include "cli/say.h"
#include "cli/store.h"
#include "cli/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* How long a wait may last before it is told of. */
#define SILENCE_MS 1000
#define INTERVAL_MS 1000

/* How long is waited for the terminal to take the end of it. */
#define WIPE_MS 100

/* Lines that are written over want a terminal that can, and whose foreground is this job: a job in the
 * background would write into what the user types. */
static bool in_place(void)
{
    const char *terminal = getenv("TERM");

    return isatty(STDERR_FILENO) && terminal != NULL && strcmp(terminal, "dumb") != 0 &&
           tcgetpgrp(STDERR_FILENO) == getpgrp();
}

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

/* Who waits for the command that runs it waits for ever, which is hard to see. */
static const char *relation(const struct simba_owner *owner)
{
    const char *around = getenv("SIMBA_CONTENDER_ID");

    return around != NULL && strcmp(around, owner->id) == 0 ? " (under which this runs)" : "";
}

void cli_progress_describe(const struct simba_owner *owner, char *buffer, size_t size)
{
    char left[32];
    int64_t left_ms = owner->transition_at_ms;

    if (left_ms != SIMBA_INFINITE)
        left_ms = (left_ms - simba_now_ms() + 999) / 1000 * 1000;
    if (left_ms == SIMBA_INFINITE || left_ms <= 0)
        snprintf(buffer, size, "owned by %s%s", owner->id, relation(owner));
    else
        snprintf(buffer, size, "owned by %s%s for another %s", owner->id, relation(owner),
                 simba_duration_format(left_ms, left, sizeof left));
}

/* What is known of the wait, the longest part last: a terminal may have no room for it. */
static void describe_wait(const struct cli_progress *progress, const struct simba_owner *owner,
                          char *buffer, size_t size)
{
    const char *store = cli_store_shown();
    char owned[CLI_PROGRESS_OWNER_MAX];

    cli_progress_describe(owner, owned, sizeof owned);
    snprintf(buffer, size, "waiting for '%s'%s%s%s%s", progress->mutex,
             owner->id[0] != 0 ? ", which is " : "", owner->id[0] != 0 ? owned : "",
             store != NULL ? ", on " : "", store != NULL ? store : "");
}

static size_t terminal_width(void)
{
    struct winsize window;

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_col < 2)
        return 80;
    return window.ws_col;
}

static void show_in_place(struct cli_progress *progress, const char *sentence, int64_t now_ms)
{
    char line[CLI_PRINTER_LINE_MAX];
    char safe[CLI_PRINTER_LINE_MAX];
    char waited[32];
    int64_t waited_ms = (now_ms - progress->begun_ms) / 1000 * 1000;

    snprintf(line, sizeof line, "simba: %s: %s",
             simba_duration_format(waited_ms, waited, sizeof waited), sentence);
    cli_text_printable(line, safe, sizeof safe);
    cli_text_cut(safe, terminal_width() - 1);
    cli_printer_show(safe);
    progress->shown = true;
}

void cli_progress_show(struct cli_progress *progress, const struct simba_owner *owner)
{
    int64_t now_ms = simba_now_ms();
    char sentence[CLI_PRINTER_LINE_MAX - 64];

    if (progress->quiet || now_ms < progress->begun_ms + SILENCE_MS)
        return;
    describe_wait(progress, owner, sentence, sizeof sentence);
    if (in_place())
        show_in_place(progress, sentence, now_ms);
    else if (!progress->told)
        cli_say("%s", sentence);
    progress->told = true;
}

/* The line is gone before a command writes, unless the terminal takes nothing at the moment. */
void cli_progress_end(struct cli_progress *progress)
{
    if (progress->shown) {
        cli_printer_show("");
        cli_printer_finish(WIPE_MS);
    }
    progress->shown = false;
}
