/*
 * metrics_file.c - writes what is known of a run into a file, which readers see
 * as it was before or as it is now, never half.
 */
#include "cli/metrics_file.h"

#include "base/text.h"
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void write_label(const char *mutex, char *label, size_t size)
{
    struct sb_text text;

    sb_text_init(&text, label, size);
    sb_text_add(&text, "{mutex=\"");
    sb_text_add_label(&text, mutex);
    sb_text_add(&text, "\"}");
}

static void add(FILE *stream, const char *name, const char *help, const char *label, uint64_t value)
{
    fprintf(stream, "# HELP %s %s\n# TYPE %s gauge\n%s%s %" PRIu64 "\n", name, help, name, name,
            label, value);
}

/* What is in milliseconds, told in seconds. */
static void add_seconds(FILE *stream, const char *name, const char *help, const char *label,
                        int64_t ms)
{
    fprintf(stream, "# HELP %s %s\n# TYPE %s gauge\n%s%s %" PRId64 ".%03d\n", name, help, name,
            name, label, ms / 1000, (int)(ms % 1000));
}

static void add_run(FILE *stream, const struct cli_metrics_run *run)
{
    char label[2 * SIMBA_MUTEX_MAX + 16];

    write_label(run->mutex, label, sizeof label);
    add(stream, "simba_lock_running", "1 while simba lock runs the command.", label,
        run->ended_ms == 0);
    add_seconds(stream, "simba_lock_wait_seconds", "How long it waited for the mutex.", label,
                run->waited_ms);
    add_seconds(stream, "simba_lock_start_timestamp_seconds", "When it owned the mutex.", label,
                run->started_ms);
    add(stream, "simba_lock_fence", "The fencing token of the term.", label, run->fence);
    if (run->ended_ms == 0)
        return;
    add_seconds(stream, "simba_lock_end_timestamp_seconds", "When the command ended.", label,
                run->ended_ms);
    add(stream, "simba_lock_exit_code", "What simba lock exits with.", label,
        (uint64_t)run->exit_code);
}

static bool write_text(int fd, const struct cli_metrics_run *run)
{
    FILE *stream = fdopen(fd, "w");

    if (stream == NULL) {
        close(fd);
        return false;
    }
    add_run(stream, run);
    bool written = ferror(stream) == 0;
    return fclose(stream) == 0 && written;
}

/* A link is replaced, and what it leads to stays; root could replace a device, such as
 * /dev/null. */
static bool is_replaceable(const char *path)
{
    struct stat status;

    if (lstat(path, &status) != 0)
        return true;
    errno = EEXIST;
    return S_ISREG(status.st_mode) || S_ISLNK(status.st_mode);
}

/* node_exporter reads *.prom only, and so not the file that is being written. */
void cli_metrics_file_write(const char *path, const struct cli_metrics_run *run)
{
    char next[PATH_MAX];

    errno = ENAMETOOLONG;
    int length = snprintf(next, sizeof next, "%s.%ld", path, (long)getpid());
    bool fits = length > 0 && (size_t)length < sizeof next && is_replaceable(path);
    if (fits)
        unlink(next); /* of a process that had our number and died */
    int fd = fits ? open(next, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644) : -1;
    if (fd >= 0 && write_text(fd, run) && rename(next, path) == 0)
        return;
    int failure = errno;
    if (fd >= 0)
        unlink(next);
    cli_message("warning: '%s' was not written: %s", path, strerror(failure));
}
