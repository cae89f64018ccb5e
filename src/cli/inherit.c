/*
 * inherit.c - which store a command finds that runs `simba` itself.
 *
 * A URL with a password goes into a file in memory that nobody can change. The command and what it
 * starts get a descriptor that only names it: to open it takes the rights of the user of simba, so
 * a command that gives them up cannot read it.
 */
#include "cli/inherit.h"

#include "base/error.h"
#include "base/text.h"
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

/* Whether an option is the path of a file. */
static bool names_file(const char *option, size_t length)
{
    static const char *const endings[] = {"password-file", "tls-ca", "tls-cert", "tls-key"};

    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        size_t size = strlen(endings[i]);

        if (length >= size && strncmp(option + length - size, endings[i], size) == 0)
            return true;
    }
    return false;
}

/* Writes the options of a URL, from their '?' or '&' on. */
static void write_options(struct sb_text *text, const char *options, const char *folder)
{
    while (*options != 0) {
        size_t name = strcspn(options + 1, "=&");
        const char *value = options + 1 + name + (options[1 + name] == '=');
        size_t length = strcspn(value, "&");

        sb_text_add(text, "%.*s", (int)(value - options), options);
        if (names_file(options + 1, name) && sb_url_is_relative_file(value) && *value != '~') {
            sb_url_add_encoded(text, folder);
            sb_text_add(text, "/");
        }
        sb_text_add(text, "%.*s", (int)length, value);
        options = value + length;
    }
}

/* Relative paths count from the working folder, which the command may change: to one where others
 * can put a file of that name. */
static int make_absolute(const char *url, char *buffer, size_t size, struct simba_error *error)
{
    const char *path = url + strlen("sqlite:");
    size_t head = strcspn(url, "?");
    char folder[PATH_MAX];
    struct sb_text text;

    sb_text_init(&text, buffer, size);
    if (sb_url_working_folder(folder)[0] == 0) {
        sb_text_add(&text, "%s", url);
    } else {
        if (strncasecmp(url, "sqlite:", strlen("sqlite:")) == 0 && sb_url_is_relative_file(path)) {
            sb_text_add(&text, "sqlite:");
            sb_url_add_encoded(&text, folder);
            sb_text_add(&text, "/%.*s", (int)(url + head - path), path);
        } else {
            sb_text_add(&text, "%.*s", (int)head, url);
        }
        write_options(&text, url + head, folder);
    }
    if (text.cut)
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
