/*
 * listen.c - the address that a site is served on, and the module that serves it.
 */
#include "cli/listen.h"

#include "backend/module.h"
#include "base/text.h"
#include "cli/cli.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define UNIX_PREFIX "unix:"
#define HOST_MAX 64
#define BACKLOG 64

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un local;
    struct sockaddr_storage storage;
};

/* ---- Addresses ------------------------------------------------------------------------------- */

static int fail_address(const char *address)
{
    cli_message("'%s' is no address to listen on: use PORT, ADDRESS:PORT, [ADDRESS]:PORT or "
                "unix:PATH",
                address);
    return CLI_EXIT_USAGE;
}

/* Takes "PORT", ":PORT", "HOST:PORT" and "[HOST]:PORT" apart. */
static bool split(const char *address, char host[HOST_MAX], const char **ret_port)
{
    const char *colon = strrchr(address, ':');
    const char *begin = address;
    size_t length = colon != NULL ? (size_t)(colon - address) : 0;

    *ret_port = colon != NULL ? colon + 1 : address;
    if (length >= 2 && address[0] == '[' && colon[-1] == ']') {
        begin++;
        length -= 2;
    } else if (memchr(address, ':', length) != NULL) {
        return false; /* which colon begins the port is not known */
    }
    snprintf(host, HOST_MAX, "%.*s", (int)length, length > 0 ? begin : "127.0.0.1");
    if (length == 0)
        sb_text_copy(host, HOST_MAX, "127.0.0.1");
    size_t digits = strspn(*ret_port, "0123456789");
    return length < HOST_MAX && digits > 0 && digits <= 5 && (*ret_port)[digits] == '\0' &&
           atoi(*ret_port) <= UINT16_MAX;
}

static bool is_loopback(const union address *address)
{
    if (address->any.sa_family == AF_INET)
        return ntohl(address->v4.sin_addr.s_addr) >> 24 == 127;
    return address->any.sa_family != AF_INET6 || IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr);
}

/* Returns the length of the address; 0: it is none. Names are not looked up, which may take
 * long. */
static socklen_t resolve(const char *text, union address *ret_address)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
                                   .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char host[HOST_MAX];
    const char *port;

    if (!split(text, host, &port))
        return 0;
    if (getaddrinfo(strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, port, &hints, &found) != 0)
        return 0;
    socklen_t length = found->ai_addrlen;
    memcpy(ret_address, found->ai_addr, length);
    freeaddrinfo(found);
    return length;
}

static socklen_t name_socket(const char *path, union address *ret_address)
{
    memset(ret_address, 0, sizeof *ret_address);
    ret_address->local.sun_family = AF_UNIX;
    if (path[0] == '\0' ||
        !sb_text_copy(ret_address->local.sun_path, sizeof ret_address->local.sun_path, path))
        return 0;
    return sizeof ret_address->local;
}

/* ---- Sockets --------------------------------------------------------------------------------- */

/* What else has come in its place is not ours. */
static bool is_socket(const char *path)
{
    struct stat status;

    return lstat(path, &status) == 0 && S_ISSOCK(status.st_mode);
}

/* A socket that a process has left behind refuses connections; one that is in use stays. */
static void remove_stale(const union address *address, socklen_t length)
{
    const char *path = address->local.sun_path;

    if (!is_socket(path))
        return;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, &address->any, length) != 0 && errno == ECONNREFUSED)
        unlink(path);
    if (fd >= 0)
        close(fd);
}

static int open_socket(const union address *address, socklen_t length)
{
    int family = address->any.sa_family;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int one = 1;

    if (fd < 0)
        return -1;
    if (family == AF_UNIX)
        remove_stale(address, length);
    else
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, &address->any, length) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int failure = errno;
    close(fd);
    errno = failure;
    return -1;
}

/* The port may have been chosen by the system. */
static void tell_address(int fd, const struct cli_listen *own)
{
    union address address;
    socklen_t length = sizeof address;
    char host[HOST_MAX];
    char port[16];

    if (own->path[0] != '\0') {
        cli_message("listening on unix:%s", own->path);
        return;
    }
    if (getsockname(fd, &address.any, &length) != 0 ||
        getnameinfo(&address.any, length, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return;
    bool brackets = address.any.sa_family == AF_INET6;
    cli_message("listening on http://%s%s%s:%s/", brackets ? "[" : "", host, brackets ? "]" : "",
                port);
}

/* ---- The module ------------------------------------------------------------------------------ */

static int load(const struct cli_http_module **ret_module)
{
#ifdef SIMBA_HAVE_HTTP
    struct simba_error error;
    const void *object;

    if (sb_module_open(CLI_HTTP_MODULE_FILE, CLI_HTTP_MODULE_SYMBOL, &object, &error) != SIMBA_OK) {
        cli_message("the web server cannot be loaded: %s", error.text);
        return CLI_EXIT_CONFIG;
    }
    *ret_module = object;
    if ((*ret_module)->site_size == sizeof(struct cli_http_site) &&
        (*ret_module)->request_size == sizeof(struct cli_http_request) &&
        (*ret_module)->answer_size == sizeof(struct cli_http_answer))
        return CLI_CONTINUE;
    cli_message("%s belongs to another build", CLI_HTTP_MODULE_FILE);
#else
    (void)ret_module;
    cli_message("this simba was built without libmicrohttpd: it cannot listen");
#endif
    return CLI_EXIT_CONFIG;
}

/* ---- Answers --------------------------------------------------------------------------------- */

void cli_listen_answer(struct cli_http_answer *answer, int status, const char *line)
{
    answer->status = status;
    answer->fixed = line;
    answer->length = strlen(line);
    answer->type = "text/plain; charset=utf-8";
}

bool cli_listen_takes_openmetrics(const struct cli_http_request *request,
                                  struct cli_http_answer *answer)
{
    const char *accepted = request->header(request, "Accept");
    bool is_open = accepted != NULL && strstr(accepted, "application/openmetrics-text") != NULL;

    answer->type = is_open ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                           : "text/plain; version=0.0.4; charset=utf-8";
    return is_open;
}

/* ---- All of it ------------------------------------------------------------------------------- */

int cli_listen_start(struct cli_listen *own, const char *text, const struct cli_http_site *site,
                     bool quiet)
{
    bool is_unix = strncmp(text, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0;
    const char *path = is_unix ? text + strlen(UNIX_PREFIX) : "";
    union address address;

    socklen_t length = is_unix ? name_socket(path, &address) : resolve(text, &address);
    if (length == 0)
        return fail_address(text);
    int status = load(&own->module);
    if (status != CLI_CONTINUE)
        return status;
    int fd = open_socket(&address, length);
    if (fd < 0) {
        cli_message("cannot listen on '%s': %s", text, strerror(errno));
        return errno == EMFILE || errno == ENOMEM ? CLI_EXIT_SYSTEM : CLI_EXIT_CONFIG;
    }
    own->is_loopback = is_loopback(&address);
    sb_text_copy(own->path, sizeof own->path, path);
    own->server = own->module->start(site, fd);
    if (own->server == NULL) {
        close(fd);
        cli_message("the web server could not be started");
        return CLI_EXIT_SYSTEM;
    }
    if (!quiet)
        tell_address(fd, own);
    return CLI_CONTINUE;
}

void cli_listen_wake(const struct cli_listen *own)
{
    if (own->server != NULL)
        own->module->wake(own->server);
}

void cli_listen_stop(struct cli_listen *own)
{
    if (own->server == NULL)
        return;
    own->module->stop(own->server);
    own->server = NULL;
    if (own->path[0] != '\0' && is_socket(own->path))
        unlink(own->path);
}
