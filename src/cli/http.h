/*
 * http.h - what the program and its module `cli-http` agree on. The module is the only part that
 * knows the web server's library, which takes longer to load than a mutex to acquire; so only the
 * commands that listen load it.
 */
#ifndef CLI_HTTP_H
#define CLI_HTTP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A whole request. All is valid until `answer` returns. */
struct cli_http_request {
    const char *method; /* GET or POST; what is sent for HEAD has no body */
    const char *path;
    char client[64];  /* its address; empty: a unix socket */
    const char *body; /* ends with a NUL; empty unless it was a POST */
    void *connection; /* the module's, for the two functions */
    /* NULL: the request has none of that name. */
    const char *(*header)(const struct cli_http_request *request, const char *name);
    const char *(*argument)(const struct cli_http_request *request, const char *name);
};

/* The body is `fixed`, which stays for ever; or `text`, from malloc, which the module frees; or a
 * stream. */
struct cli_http_answer {
    int status;
    const char *type;
    const char *fixed;
    char *text;
    size_t length;
    void *stream;
    const char *const *headers; /* names and values by turns; NULL behind the last; may be NULL */
};

/* Its functions are called on the module's thread. They must not wait for long. */
struct cli_http_site {
    size_t size;
    void *user;
    size_t post_max; /* bytes of the body of a POST; 0: only GET and HEAD are served */
    void (*answer)(void *user, const struct cli_http_request *request,
                   struct cli_http_answer *answer);
    /* Writes what the stream has into the buffer: returns its length, 0 for nothing now, -1 for the
     * end. NULL: there are no streams. */
    ssize_t (*read_stream)(void *stream, char *buffer, size_t max);
    void (*close_stream)(void *stream);
};

struct cli_http_server;

#define CLI_HTTP_CONNECTIONS_MAX 64 /* then the oldest one that is not answered is closed */
#define CLI_HTTP_STREAMS_MAX 16
#define CLI_HTTP_MEMORY 16384 /* bytes of a request's head, and of the buffers of a connection */
#define CLI_HTTP_IDLE_S 10    /* without a byte a connection is closed */

/* What the module shows under the name below. */
struct cli_http_module {
    size_t site_size;
    size_t request_size;
    size_t answer_size;
    /* Serves on a socket that listens and is the server's from here on. NULL: it could not be
     * started, and the socket is still the caller's. */
    struct cli_http_server *(*start)(const struct cli_http_site *site, int listen_fd);
    /* All streams are read again. Any thread. */
    void (*wake)(struct cli_http_server *server);
    /* Closes all connections and waits until no function of the site runs. */
    void (*stop)(struct cli_http_server *server);
};

#define CLI_HTTP_MODULE_FILE "cli-http.so"
#define CLI_HTTP_MODULE_SYMBOL "cli_http_module"

extern const struct cli_http_module cli_http_module;

#endif
