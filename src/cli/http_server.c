/*
 * http_server.c - the module `cli-http`: serves a site by libmicrohttpd, on one thread. Knows
 * nothing of what is served.
 *
 * A client that is slow or says nonsense costs a connection. There are only so many: when one more
 * comes, the oldest is closed that has not been answered. What is honest is answered in
 * milliseconds, so that is never one that is.
 */
#include "cli/http.h"

#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* The library accepts some at a time before it closes those that were shut down. */
#define ACCEPTED_MAX (2 * CLI_HTTP_CONNECTIONS_MAX)

struct stream {
    struct stream *next;
    struct cli_http_server *server;
    struct MHD_Connection *connection;
    void *site_stream;
    bool asleep; /* the connection is suspended */
    bool woken;  /* between two reads */
};

struct cli_http_server {
    struct cli_http_site site;
    struct MHD_Daemon *daemon;
    struct connection *oldest; /* the daemon's thread's */
    struct connection **newest_end;
    size_t connections;

    pthread_mutex_t lock; /* of the rest */
    struct stream *streams;
    size_t stream_count;
    bool ends;
};

struct connection {
    struct connection *next;
    int fd;
    bool is_stream;
    bool is_shut;
};

/* A request whose body may still come. */
struct exchange {
    size_t length;
    bool too_long;
    char body[];
};

/* ---- Connections ----------------------------------------------------------------------------- */

static void shut_oldest(struct cli_http_server *server)
{
    for (struct connection *c = server->oldest; c != NULL; c = c->next) {
        if (c->is_stream || c->is_shut)
            continue;
        c->is_shut = true;
        shutdown(c->fd, SHUT_RDWR);
        return;
    }
}

static void add_connection(struct cli_http_server *server, struct MHD_Connection *connection,
                           void **ret_context)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct connection *added = calloc(1, sizeof *added);

    *ret_context = added;
    if (added == NULL || info == NULL) {
        if (info != NULL)
            shutdown(info->connect_fd, SHUT_RDWR);
        free(added);
        *ret_context = NULL;
        return;
    }
    added->fd = info->connect_fd;
    *server->newest_end = added;
    server->newest_end = &added->next;
    if (++server->connections > CLI_HTTP_CONNECTIONS_MAX)
        shut_oldest(server);
}

static void remove_connection(struct cli_http_server *server, struct connection *removed)
{
    struct connection **at = &server->oldest;

    while (*at != removed)
        at = &(*at)->next;
    *at = removed->next;
    if (*at == NULL)
        server->newest_end = at;
    server->connections--;
    free(removed);
}

static void on_connection(void *user, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    struct cli_http_server *server = user;

    if (what == MHD_CONNECTION_NOTIFY_STARTED)
        add_connection(server, connection, context);
    else if (*context != NULL)
        remove_connection(server, *context);
}

/* ---- Streams --------------------------------------------------------------------------------- */

/* With the lock held from the read to the suspension, so that no call to wake is missed. */
static ssize_t read_stream(void *user, uint64_t position, char *buffer, size_t max)
{
    struct stream *stream = user;
    struct cli_http_server *server = stream->server;
    ssize_t length = 0;

    (void)position;
    pthread_mutex_lock(&server->lock);
    do {
        stream->woken = false;
        length = server->ends ? -1 : server->site.read_stream(stream->site_stream, buffer, max);
    } while (length == 0 && stream->woken);
    if (length == 0) {
        stream->asleep = true;
        MHD_suspend_connection(stream->connection);
    }
    pthread_mutex_unlock(&server->lock);
    return length < 0 ? MHD_CONTENT_READER_END_OF_STREAM : length;
}

static void free_stream(void *user)
{
    struct stream *stream = user;
    struct cli_http_server *server = stream->server;
    struct stream **at = &server->streams;

    pthread_mutex_lock(&server->lock);
    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
    server->stream_count--;
    pthread_mutex_unlock(&server->lock);
    server->site.close_stream(stream->site_stream);
    free(stream);
}

static bool mark_stream(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct connection *own = info != NULL ? info->socket_context : NULL;

    if (own != NULL)
        own->is_stream = true;
    return own != NULL;
}

static struct MHD_Response *make_stream(struct cli_http_server *server,
                                        struct MHD_Connection *connection, void *site_stream)
{
    struct stream *stream = calloc(1, sizeof *stream);
    struct MHD_Response *response = NULL;

    pthread_mutex_lock(&server->lock);
    bool has_room = server->stream_count < CLI_HTTP_STREAMS_MAX;
    pthread_mutex_unlock(&server->lock);
    if (stream != NULL && has_room && mark_stream(connection))
        response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 32768, read_stream, stream,
                                                     free_stream);
    if (response == NULL) {
        server->site.close_stream(site_stream);
        free(stream);
        return NULL;
    }
    stream->server = server;
    stream->connection = connection;
    stream->site_stream = site_stream;
    pthread_mutex_lock(&server->lock);
    stream->next = server->streams;
    server->streams = stream;
    server->stream_count++;
    pthread_mutex_unlock(&server->lock);
    return response;
}

static void wake(struct cli_http_server *server)
{
    pthread_mutex_lock(&server->lock);
    for (struct stream *s = server->streams; s != NULL; s = s->next) {
        s->woken = true;
        if (s->asleep)
            MHD_resume_connection(s->connection);
        s->asleep = false;
    }
    pthread_mutex_unlock(&server->lock);
}

/* ---- Requests -------------------------------------------------------------------------------- */

static const char *header_of(const struct cli_http_request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

static const char *argument_of(const struct cli_http_request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, name);
}

static void name_client(struct MHD_Connection *connection, char *name, size_t size)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *address = info != NULL ? info->client_addr : NULL;
    socklen_t length = 0;

    if (address != NULL && address->sa_family == AF_INET)
        length = sizeof(struct sockaddr_in);
    else if (address != NULL && address->sa_family == AF_INET6)
        length = sizeof(struct sockaddr_in6);
    if (length == 0 ||
        getnameinfo(address, length, name, (socklen_t)size, NULL, 0, NI_NUMERICHOST) != 0)
        name[0] = '\0';
}

static enum MHD_Result queue(struct MHD_Connection *connection, unsigned status,
                             struct MHD_Response *response)
{
    if (response == NULL)
        return MHD_NO; /* which closes the connection */
    enum MHD_Result queued = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return queued;
}

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned status, const char *text)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_PERSISTENT);

    if (response != NULL && status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, "Allow", "GET, HEAD");
    if (response != NULL)
        MHD_add_response_header(response, "Connection", "close");
    return queue(connection, status, response);
}

static struct MHD_Response *make_response(struct cli_http_server *server,
                                          struct MHD_Connection *connection,
                                          const struct cli_http_answer *answer, bool has_body)
{
    if (answer->stream != NULL && !has_body)
        server->site.close_stream(answer->stream);
    else if (answer->stream != NULL)
        return make_stream(server, connection, answer->stream);
    if (answer->text != NULL)
        return MHD_create_response_from_buffer(answer->length, answer->text, MHD_RESPMEM_MUST_FREE);
    return MHD_create_response_from_buffer(answer->length, (void *)(uintptr_t)answer->fixed,
                                           MHD_RESPMEM_PERSISTENT);
}

static enum MHD_Result answer(struct cli_http_server *server, struct MHD_Connection *connection,
                              const char *method, const char *path, const char *body)
{
    struct cli_http_answer answer = {.status = MHD_HTTP_NOT_FOUND, .fixed = ""};
    struct cli_http_request request = {.method = strcmp(method, "POST") == 0 ? "POST" : "GET",
                                       .path = path,
                                       .body = body,
                                       .connection = connection,
                                       .header = header_of,
                                       .argument = argument_of};

    name_client(connection, request.client, sizeof request.client);
    server->site.answer(server->site.user, &request, &answer);
    bool has_body = strcmp(method, "HEAD") != 0;
    struct MHD_Response *response = make_response(server, connection, &answer, has_body);
    if (response == NULL)
        return refuse(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "too many clients\n");
    MHD_add_response_header(response, "Cache-Control", "no-store");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    if (answer.stream == NULL || !has_body)
        MHD_add_response_header(response, "Connection", "close");
    if (answer.type != NULL)
        MHD_add_response_header(response, "Content-Type", answer.type);
    for (const char *const *at = answer.headers; at != NULL && *at != NULL; at += 2)
        MHD_add_response_header(response, at[0], at[1]);
    return queue(connection, (unsigned)answer.status, response);
}

static enum MHD_Result begin_exchange(const struct cli_http_server *server, void **context)
{
    *context = calloc(1, sizeof(struct exchange) + server->site.post_max + 1);
    return *context != NULL ? MHD_YES : MHD_NO;
}

static enum MHD_Result on_request(void *user, struct MHD_Connection *connection, const char *path,
                                  const char *method, const char *version, const char *data,
                                  size_t *data_size, void **context)
{
    struct cli_http_server *server = user;
    struct exchange *exchange = *context;
    bool posts = strcmp(method, "POST") == 0 && server->site.post_max > 0;

    (void)version;
    if (!posts && strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n");
    if (exchange == NULL)
        return begin_exchange(server, context);
    if (*data_size > 0) {
        exchange->too_long |= !posts || *data_size > server->site.post_max - exchange->length;
        if (!exchange->too_long) {
            memcpy(exchange->body + exchange->length, data, *data_size);
            exchange->length += *data_size;
        }
        *data_size = 0;
        return MHD_YES;
    }
    if (exchange->too_long)
        return refuse(connection, MHD_HTTP_CONTENT_TOO_LARGE, "the body is too long\n");
    return answer(server, connection, method, path, exchange->body);
}

static void on_completed(void *user, struct MHD_Connection *connection, void **context,
                         enum MHD_RequestTerminationCode why)
{
    (void)user;
    (void)connection;
    (void)why;
    free(*context);
    *context = NULL;
}

/* ---- The server ------------------------------------------------------------------------------ */

static void free_server(struct cli_http_server *server)
{
    pthread_mutex_destroy(&server->lock);
    free(server);
}

static struct cli_http_server *start(const struct cli_http_site *site, int listen_fd)
{
    struct cli_http_server *server = calloc(1, sizeof *server);

    if (server == NULL)
        return NULL;
    server->site = *site;
    server->newest_end = &server->oldest;
    pthread_mutex_init(&server->lock, NULL);
    server->daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, server,
        MHD_OPTION_LISTEN_SOCKET, listen_fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)ACCEPTED_MAX,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CLI_HTTP_MEMORY, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)CLI_HTTP_IDLE_S, MHD_OPTION_NOTIFY_CONNECTION, on_connection, server,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL, MHD_OPTION_END);
    if (server->daemon != NULL)
        return server;
    free_server(server);
    return NULL;
}

/* The library does not stop while a connection is suspended. */
static void stop(struct cli_http_server *server)
{
    pthread_mutex_lock(&server->lock);
    server->ends = true;
    pthread_mutex_unlock(&server->lock);
    wake(server);
    MHD_stop_daemon(server->daemon);
    free_server(server);
}

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const struct cli_http_module cli_http_module = {
    .site_size = sizeof(struct cli_http_site),
    .request_size = sizeof(struct cli_http_request),
    .answer_size = sizeof(struct cli_http_answer),
    .start = start,
    .wake = wake,
    .stop = stop,
};
