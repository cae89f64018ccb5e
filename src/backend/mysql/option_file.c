/*
 * option_file.c - reads option files. Owns which of their words count; must not know connections.
 *
 *     # a comment, and so is what begins with ';'
 *     [client]
 *     user = app
 *     password = "with # and spaces"
 *     !include /etc/mysql/more.cnf
 *     !includedir /etc/mysql/conf.d/
 *
 * No sentence quotes a value: it may be a password.
 */
#include "backend/mysql/option_file.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "base/trusted_file.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_MAX 65536 /* bytes */
#define DEPTH_MAX 8    /* of files that include each other */

/* A file that is being read. */
struct reader {
    struct sb_mysql_defaults *defaults;
    const char *path;
    unsigned line;
    unsigned depth;
    bool counts; /* the group that it is in does */
    struct simba_error *error;
};

static int read_named(struct sb_mysql_defaults *defaults, const char *path, unsigned depth,
                      struct simba_error *error);

/* ---- Options --------------------------------------------------------------------------------- */

static int fail_line(const struct reader *r, const char *what)
{
    return sb_error_set(r->error, SIMBA_ECONFIG, "%s:%u: %s", r->path, r->line, what);
}

static char unescaped(char letter)
{
    switch (letter) {
    case 'b':
        return '\b';
    case 't':
        return '\t';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 's':
        return ' ';
    case '\\':
        return '\\';
    default:
        return '\0';
    }
}

/* In place: takes the quotes away that stand around all of it, and resolves what a backslash stands
 * for. */
static char *decode(char *value)
{
    size_t length = strlen(value);
    char *to;

    if (length > 1 && (value[0] == '"' || value[0] == '\'') && value[length - 1] == value[0]) {
        value[length - 1] = '\0';
        value++;
    }
    to = value;
    for (const char *from = value; *from != '\0'; from++) {
        char meant = *from == '\\' ? unescaped(from[1]) : '\0';

        *to++ = meant != '\0' ? meant : *from;
        from += meant != '\0';
    }
    *to = '\0';
    return value;
}

static void forget(char *text)
{
    if (text != NULL)
        explicit_bzero(text, strlen(text));
    sb_free(text);
}

static int set_text(const struct reader *r, char **target, const char *value)
{
    char *copy = sb_strdup(value);

    if (copy == NULL)
        return sb_error_plain(r->error, SIMBA_ENOMEM);
    forget(*target);
    *target = copy;
    return SIMBA_OK;
}

static int set_port(const struct reader *r, const char *value)
{
    char *end = NULL;
    unsigned long port = strtoul(value, &end, 10);

    if (!isdigit((unsigned char)value[0]) || *end != '\0' || port == 0 || port > 65535)
        return fail_line(r, "the port is no number from 1 to 65535");
    r->defaults->port = (unsigned)port;
    return SIMBA_OK;
}

/* All others are passed over, also those that the client library knows. */
static int take_option(const struct reader *r, const char *name, const char *value)
{
    if (strncmp(name, "loose-", 6) == 0)
        name += 6;
    if (strcmp(name, "user") == 0)
        return set_text(r, &r->defaults->user, value);
    if (strcmp(name, "password") == 0)
        return set_text(r, &r->defaults->password, value);
    if (strcmp(name, "host") == 0)
        return set_text(r, &r->defaults->host, value);
    if (strcmp(name, "socket") == 0)
        return set_text(r, &r->defaults->socket, value);
    return strcmp(name, "port") == 0 ? set_port(r, value) : SIMBA_OK;
}

/* ---- Lines ----------------------------------------------------------------------------------- */

static char *trim(char *text)
{
    char *end;

    while (isspace((unsigned char)*text))
        text++;
    end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1]))
        end--;
    *end = '\0';
    return text;
}

static bool is_group_of_ours(const char *name)
{
    static const char *const groups[] = {"client", "client-server", "client-mariadb", "simba"};

    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        if (strcmp(name, groups[i]) == 0)
            return true;
    return false;
}

static int is_option_file(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);

    return length > 4 && strcmp(entry->d_name + length - 4, ".cnf") == 0;
}

/* In the order of their names, whatever the locale says of it. */
static int compare_names(const struct dirent **left, const struct dirent **right)
{
    return strcmp((*left)->d_name, (*right)->d_name);
}

static int include_folder(const struct reader *r, const char *folder)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, is_option_file, compare_names);
    int code = SIMBA_OK;

    for (int i = 0; i < count; i++) {
        char path[PATH_MAX];
        struct sb_text text;

        sb_text_init(&text, path, sizeof path);
        sb_text_add(&text, "%s/%s", folder, entries[i]->d_name);
        if (code == SIMBA_OK && !text.cut)
            code = read_named(r->defaults, path, r->depth + 1, r->error);
        free(entries[i]);
    }
    free(entries);
    return code;
}

/* A path that depends on the folder of the process would be another file for each caller. */
static int include(const struct reader *r, char *line)
{
    bool whole_folder = strncmp(line, "!includedir", 11) == 0;
    const char *path = trim(line + (whole_folder ? 11 : 8));

    if (path[0] != '/')
        return fail_line(r, "an included file or folder needs an absolute path");
    return whole_folder ? include_folder(r, path)
                        : read_named(r->defaults, path, r->depth + 1, r->error);
}

static int take_assignment(const struct reader *r, char *line)
{
    char *value = strchr(line, '=');
    char *name;

    if (!r->counts || value == NULL)
        return SIMBA_OK;
    *value++ = '\0';
    name = trim(line);
    for (char *c = name; *c != '\0'; c++)
        *c = *c == '_' ? '-' : *c;
    return take_option(r, name, decode(trim(value)));
}

static int take_line(struct reader *r, char *line)
{
    char *end;

    line = trim(line);
    if (line[0] == '\0' || line[0] == '#' || line[0] == ';')
        return SIMBA_OK;
    if (strncmp(line, "!include", 8) == 0)
        return include(r, line);
    if (line[0] != '[')
        return take_assignment(r, line);
    end = strchr(line, ']');
    if (end == NULL)
        return fail_line(r, "the group has no ']'");
    *end = '\0';
    r->counts = is_group_of_ours(trim(line + 1));
    return SIMBA_OK;
}

static int take_lines(struct reader *r, char *text)
{
    int code = SIMBA_OK;

    for (char *line = text, *next; line != NULL && code == SIMBA_OK; line = next) {
        next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        r->line++;
        code = take_line(r, line);
    }
    return code;
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* One byte more than allowed is asked for, so that what is too long shows. */
static int take_file(struct reader *r, int fd, char *buffer)
{
    size_t length = 0;
    ssize_t got = 1;

    while (got != 0 && length <= FILE_MAX) {
        got = read(fd, buffer + length, FILE_MAX + 1 - length);
        if (got < 0 && errno != EINTR)
            return sb_error_set_backend(r->error, SIMBA_ECONFIG, errno, "%s cannot be read: %s",
                                        r->path, strerror(errno));
        length += got > 0 ? (size_t)got : 0;
    }
    if (length > FILE_MAX)
        return sb_error_set(r->error, SIMBA_ECONFIG, "%s has more than %d bytes", r->path,
                            FILE_MAX);
    buffer[length] = '\0';
    return take_lines(r, buffer);
}

static int take_whole(struct reader *r, int fd)
{
    char *buffer = sb_alloc(FILE_MAX + 2);
    int code;

    if (buffer == NULL)
        return sb_error_plain(r->error, SIMBA_ENOMEM);
    code = take_file(r, fd, buffer);
    explicit_bzero(buffer, FILE_MAX + 2);
    sb_free(buffer);
    return code;
}

/* A link to /dev/null says that there shall be none. No other link is followed here: whether its
 * target is there must not show, before it is known that nobody else has placed the link. */
static bool is_there(const char *path)
{
    char target[sizeof "/dev/null"];
    struct stat status;
    ssize_t length;

    if (lstat(path, &status) != 0)
        return false;
    length = readlink(path, target, sizeof target);
    return length != sizeof target - 1 || memcmp(target, "/dev/null", sizeof target - 1) != 0;
}

static int read_named(struct sb_mysql_defaults *defaults, const char *path, unsigned depth,
                      struct simba_error *error)
{
    struct reader reader = {.defaults = defaults, .path = path, .depth = depth, .error = error};
    int code;
    int fd;

    if (depth > DEPTH_MAX)
        return sb_error_set(error, SIMBA_ECONFIG, "%s is included by too many files", path);
    if (!is_there(path))
        return SIMBA_OK;
    code = sb_trusted_open("option file", path, &fd, NULL, error);
    if (code != SIMBA_OK)
        return error->backend_code == ENOENT || error->backend_code == EACCES ? SIMBA_OK : code;
    code = take_whole(&reader, fd);
    close(fd);
    return code;
}

int sb_mysql_defaults_read_text(struct sb_mysql_defaults *defaults, const char *path, char *text,
                                struct simba_error *error)
{
    struct reader reader = {.defaults = defaults, .path = path, .error = error};

    return take_lines(&reader, text);
}

int sb_mysql_defaults_read(struct sb_mysql_defaults *defaults, struct simba_error *error)
{
    const char *home =
        secure_getenv("HOME"); /* not where a set-user-ID program was started by another user */
    char own[PATH_MAX];
    struct sb_text text;
    int code;

    *defaults = (struct sb_mysql_defaults){0};
    sb_text_init(&text, own, sizeof own);
    sb_text_add(&text, "%s/.my.cnf", home != NULL ? home : "");
    code = read_named(defaults, "/etc/my.cnf", 0, error);
    if (code == SIMBA_OK)
        code = read_named(defaults, "/etc/mysql/my.cnf", 0, error);
    if (code == SIMBA_OK && home != NULL && home[0] == '/' && !text.cut)
        code = read_named(defaults, own, 0, error);
    if (code != SIMBA_OK)
        sb_mysql_defaults_clear(defaults);
    return code;
}

void sb_mysql_defaults_clear(struct sb_mysql_defaults *defaults)
{
    sb_free(defaults->user);
    forget(defaults->password);
    sb_free(defaults->host);
    sb_free(defaults->socket);
    *defaults = (struct sb_mysql_defaults){0};
}
