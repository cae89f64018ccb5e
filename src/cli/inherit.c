/*
 * inherit.c - which store a command finds that runs `simba` itself.
 *
 * A URL with a password goes into a file in memory that nobody can change. The command and what it
 * starts get a descriptor that only names it: to open it takes the rights of the user of simba, so
 * a command that gives them up cannot read it.
 */
#include "cli/inherit.h"

#include "base/error.h"
#include "base/url.h"
#include "base/url_options.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SCRIPTS_FD 100 /* scripts use lower descriptors for themselves */

/* A relative path of SQLite's counts from the working folder, which the command may change. */
static int make_absolute(const char *url, char *buffer, size_t size, struct simba_error *error)
{
    const char *path = url + strlen("sqlite:");
    char folder[PATH_MAX];
    int length;

    if (strncasecmp(url, "sqlite:", strlen("sqlite:")) != 0 || !sb_url_is_relative_file(path) ||
        sb_url_working_folder(folder)[0] == 0) {
        length = snprintf(buffer, size, "%s", url);
    } else {
        int code = cli_store_file_url(folder, buffer, size, error);
        if (code != SIMBA_OK)
            return code;
        size_t used = strlen(buffer);
        length = (int)used + snprintf(buffer + used, size - used, "/%s", path);
    }
    if ((size_t)length >= size)
        return sb_error_set(error, SIMBA_ECONFIG, "the URL is longer than %zu bytes", size - 1);
    return SIMBA_OK;
}

/* Writes a configuration, and lets nobody write it again. */
static bool fill(int fd, const char *url)
{
    FILE *stream = fdopen(dup(fd), "w");
    bool written = stream != NULL;

    if (stream != NULL) {
        cli_json_string(stream, "simba:\n  url: ", url);
        putc('\n', stream);
        written = fclose(stream) == 0;
    }
    return written && fchmod(fd, S_IRUSR) == 0 &&
           fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) == 0;
}

/* Not close-on-exec: it is for the command. Returns -1, with errno, on failure. */
static int move_up(int fd)
{
    int high = fcntl(fd, F_DUPFD, SCRIPTS_FD);

    if (high < 0 && errno == EINVAL) /* there are fewer descriptors than that */
        high = fcntl(fd, F_DUPFD, STDERR_FILENO + 1);
    return high;
}

/* A descriptor that names the file, and reads nothing of it. Without /proc there is none, and no
 * /dev/fd by which the command could use it. */
static int open_name(int fd)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int name = open(path, O_PATH | O_CLOEXEC);
    if (name < 0)
        return errno == ENOENT ? SCRIPTS_FD : -1;
    int high = move_up(name);
    int failure = errno;
    close(name);
    errno = failure;
    return high;
}

static int open_secret(const char *url)
{
    int fd = memfd_create("simba-store", MFD_ALLOW_SEALING | MFD_CLOEXEC);

    if (fd < 0)
        return -1;
    int high = fill(fd, url) ? open_name(fd) : -1;
    int failure = errno;
    close(fd);
    errno = failure;
    return high;
}

/* What looks like a secret counts, too, and what cannot be taken apart. */
static bool has_secret(const char *text)
{
    char shown[CLI_URL_MAX];
    simba_url *url = NULL;

    if (strcmp(sb_url_redact(text, shown, sizeof shown), text) != 0)
        return true;
    bool found = sb_url_parse(text, &url, NULL) != SIMBA_OK || sb_url_has_password(url);
    sb_url_free(url);
    return found;
}

int cli_inherit_store(const struct cli *cli, const char *url, char variable[CLI_INHERIT_MAX],
                      struct simba_error *error)
{
    char whole[CLI_URL_MAX];
    int fd = -1;

    variable[0] = 0;
    if (!cli->url_given && !cli->config_given)
        return SIMBA_OK;
    int code = make_absolute(url, whole, sizeof whole, error);
    if (code != SIMBA_OK)
        return code;
    bool secret = has_secret(whole);
    if (!secret)
        snprintf(variable, CLI_INHERIT_MAX, "SIMBA_URL=%s", whole);
    else if ((fd = open_secret(whole)) >= 0)
        snprintf(variable, CLI_INHERIT_MAX, "SIMBA_CONFIG=/dev/fd/%d", fd);
    explicit_bzero(whole, sizeof whole);
    if (secret && fd < 0)
        return sb_error_set(error, SIMBA_ENOMEM, "the store cannot be passed on to the command: %s",
                            strerror(errno));
    return SIMBA_OK;
}
