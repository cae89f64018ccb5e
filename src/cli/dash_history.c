/*
 * dash_history.c - reads and writes the history of `simba dashboard`.
 *
 * A line that is damaged is left out: after a crash the last one may be half.
 */
#include "cli/dash_history.h"

#include "base/text.h"
#include "base/trusted_file.h"
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEEN_MS 10000
#define NEXT ".new"

/* ---- Reading --------------------------------------------------------------------------------- */

static bool read_term(char *line, struct cli_dash_model *model, int64_t from_ms, int64_t *ret_ms)
{
    struct cli_dash_term term = {.owner = ""};
    int how = -1;
    int text_at = 0;

    if (sscanf(line, "term\t%" SCNd64 "\t%" SCNd64 "\t%d\t%" SCNu64 "\t%n", &term.begin_ms,
               &term.end_ms, &how, &term.fence, &text_at) < 4 ||
        text_at == 0 || how < 0 || how > CLI_DASH_LOST)
        return false;
    char *mutex = strchr(line + text_at, '\t');
    if (mutex == NULL)
        return false;
    *mutex++ = '\0';
    term.how = (enum cli_dash_end)how;
    *ret_ms = term.end_ms;
    if (term.end_ms < from_ms || term.begin_ms > term.end_ms || strlen(mutex) > SIMBA_MUTEX_MAX)
        return true;
    sb_text_copy(term.owner, sizeof term.owner, line + text_at);
    return cli_dash_recall(model, mutex, &term);
}

/* Nobody has watched since the last line. */
static void read_lines(FILE *stream, struct cli_dash_model *model)
{
    int64_t now_ms = simba_wall_ms(simba_now_ms());
    char line[1024];
    int64_t last_ms = 0;

    while (fgets(line, sizeof line, stream) != NULL) {
        int64_t at_ms = 0;
        char *end = strchr(line, '\n');
        if (end == NULL)
            continue;
        *end = '\0';
        if (sscanf(line, "seen\t%" SCNd64, &at_ms) != 1 &&
            !read_term(line, model, now_ms - CLI_DASH_HOUR_MS, &at_ms))
            continue;
        if (at_ms > last_ms && at_ms <= now_ms)
            last_ms = at_ms;
        if (model->watched_ms == 0)
            model->watched_ms = at_ms;
    }
    if (last_ms != 0)
        cli_dash_add_away(model, last_ms, now_ms);
}

static int fail(const struct cli_dash_history *history)
{
    cli_message("the history '%s' cannot be used: %s", history->path, strerror(errno));
    return CLI_EXIT_CONFIG;
}

/* No other user can put another folder in its place, or a link on the way. */
static int open_folder(struct cli_dash_history *history)
{
    const char *slash = strrchr(history->path, '/');
    char folder[PATH_MAX];
    struct simba_error error;

    history->name = slash != NULL ? slash + 1 : history->path;
    int length = slash != NULL ? (int)(slash - history->path) + (slash == history->path) : 1;
    snprintf(folder, sizeof folder, "%.*s", length, slash != NULL ? history->path : ".");
    if (length >= PATH_MAX || strlen(history->name) > NAME_MAX - strlen(NEXT)) {
        errno = ENAMETOOLONG;
        return fail(history);
    }
    if (sb_trusted_folder("folder of the history", folder, &history->folder_fd, &error) == SIMBA_OK)
        return CLI_CONTINUE;
    return cli_fail(&error);
}

/* In a folder like /tmp another user may have been there before. */
static bool is_own(int fd)
{
    struct stat status;

    return fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 1 &&
           (status.st_uid == geteuid() || status.st_uid == 0) &&
           (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

static int refuse(const struct cli_dash_history *history, int fd)
{
    close(fd);
    cli_message("the history '%s' is not used: it is no plain file with one name, or another user "
                "may write it",
                history->path);
    return CLI_EXIT_CONFIG;
}

int cli_dash_history_open(struct cli_dash_history *history, struct cli_dash_model *model)
{
    if (history->path == NULL)
        return CLI_CONTINUE;
    int status = open_folder(history);
    if (status != CLI_CONTINUE)
        return status;
    int fd = openat(history->folder_fd, history->name,
                    O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_APPEND, 0600);
    if (fd >= 0 && !is_own(fd))
        return refuse(history, fd);
    history->stream = fd >= 0 ? fdopen(fd, "a+") : NULL;
    if (history->stream == NULL) {
        status = fail(history);
        if (fd >= 0)
            close(fd);
        return status;
    }
    rewind(history->stream);
    read_lines(history->stream, model);
    fseek(history->stream, 0, SEEK_END);
    history->length = ftell(history->stream);
    return CLI_CONTINUE;
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* What another program has written into the store may break the lines of the file. */
static bool is_clean(const char *text)
{
    return strpbrk(text, "\t\n") == NULL;
}

static void write_terms(struct cli_dash_history *history, const struct cli_dash_model *model,
                        const struct cli_dash_row *row, uint64_t known)
{
    const struct cli_dash_term *term;
    uint64_t number = row->newest;

    for (; number > known && (term = cli_dash_term(model, number)) != NULL; number = term->older) {
        if (!is_clean(term->owner) || !is_clean(row->now.mutex))
            continue;
        int length = fprintf(
            history->stream, "term\t%" PRId64 "\t%" PRId64 "\t%d\t%" PRIu64 "\t%s\t%s\n",
            term->begin_ms, term->end_ms, (int)term->how, term->fence, term->owner, row->now.mutex);
        history->length += length > 0 ? length : 0;
    }
}

/* Replaces the file by one that has only what is kept in memory. */
static void begin_anew(struct cli_dash_history *history, const struct cli_dash_model *model)
{
    char next[NAME_MAX + 1];

    snprintf(next, sizeof next, "%s" NEXT, history->name);
    unlinkat(history->folder_fd, next, 0);
    int fd = openat(history->folder_fd, next, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    FILE *stream = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (stream == NULL)
        return;
    fclose(history->stream);
    history->stream = stream;
    history->length = 0;
    for (size_t i = 0; i < model->count; i++)
        write_terms(history, model, model->rows[i], 0);
    if (fflush(stream) != 0 ||
        renameat(history->folder_fd, next, history->folder_fd, history->name) != 0)
        cli_message("warning: the history '%s' was not written: %s", history->path,
                    strerror(errno));
}

void cli_dash_history_write(struct cli_dash_history *history, const struct cli_dash_model *model)
{
    int64_t now_ms = simba_wall_ms(simba_now_ms());
    long before = history->length;

    if (history->stream == NULL)
        return;
    for (size_t i = 0; i < model->count; i++) {
        const struct cli_dash_row *row = model->rows[i];
        if (row->newest > row->told)
            write_terms(history, model, row, row->told);
    }
    if (cli_dash_away_ms(model) == 0 && now_ms - history->seen_ms >= SEEN_MS) {
        int length = fprintf(history->stream, "seen\t%" PRId64 "\n", now_ms);
        history->length += length > 0 ? length : 0;
        history->seen_ms = now_ms;
    }
    if (history->length != before && fflush(history->stream) != 0)
        cli_message("warning: the history '%s' was not written: %s", history->path,
                    strerror(errno));
    if (history->length > CLI_DASH_HISTORY_MAX)
        begin_anew(history, model);
}

void cli_dash_history_close(struct cli_dash_history *history)
{
    if (history->stream != NULL)
        fclose(history->stream);
    history->stream = NULL;
    if (history->name != NULL)
        close(history->folder_fd);
    history->name = NULL;
}
