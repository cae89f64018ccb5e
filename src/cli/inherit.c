/*
 * inherit.c - which store a command finds that runs `simba` itself.
 *
 * A URL with a password goes into a file in memory that nobody can change, and that only processes
 * with its descriptor can read: the command and what it starts.
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
static int open_secret(const char *url)
{
    int fd = memfd_create("simba-store", MFD_ALLOW_SEALING | MFD_CLOEXEC);

    if (fd < 0)
        return -1;
    int high = fill(fd, url) ? fcntl(fd, F_DUPFD, SCRIPTS_FD) : -1;
    if (high < 0 && errno == EINVAL) /* there are fewer descriptors than that */
        high = fcntl(fd, F_DUPFD, STDERR_FILENO + 1);
    int failure = errno;
    close(fd);
    errno = failure;
    return high;
}

int cli_inherit_store(const struct cli *cli, const char *url, char variable[CLI_INHERIT_MAX],
                      struct simba_error *error)
{
    char whole[CLI_URL_MAX];
    char shown[CLI_URL_MAX];
    int fd = -1;

    variable[0] = 0;
    if (!cli->url_given && !cli->config_given)
        return SIMBA_OK;
    int code = make_absolute(url, whole, sizeof whole, error);
    if (code != SIMBA_OK)
        return code;
    bool secret = strcmp(sb_url_redact(whole, shown, sizeof shown), whole) != 0;
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
