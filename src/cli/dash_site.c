/*
 * dash_site.c - answers for `simba dashboard`.
 */
#include "cli/dash_site.h"

#include "base/error.h"
#include "base/text.h"
#include "base/time.h"
#include "base/trusted_file.h"
#include "cli/cli.h"
#include "cli/dash_page.h"
#include "cli/store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define POLICY                                                                                     \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "                    \
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

static const char *const page_headers[] = {"Content-Security-Policy", POLICY, "Referrer-Policy",
                                           "no-referrer", NULL};
static const char *const stream_headers[] = {"X-Accel-Buffering", "no", NULL};

/* ---- Messages to the pages ------------------------------------------------------------------- */

struct cli_dash_frame {
    int references; /* under the lock */
    size_t length;
    char *data;
};

static void drop_frame(struct cli_dash_frame *frame)
{
    if (frame == NULL || --frame->references > 0)
        return;
    free(frame->data);
    free(frame);
}

static struct cli_dash_about about(const struct cli_dash_site *site)
{
    const char *store = cli_store_shown();

    return (struct cli_dash_about){
        .store = store != NULL ? store : "", .why = site->why, .controls = site->token[0] != '\0'};
}

/* NULL without memory. */
static struct cli_dash_frame *end_frame(struct cli_dash_frame *frame, FILE *stream)
{
    bool written = stream != NULL && ferror(stream) == 0;

    if (stream != NULL && fclose(stream) == 0 && written)
        return frame;
    if (frame != NULL)
        free(frame->data);
    free(frame);
    return NULL;
}

static FILE *begin_frame(struct cli_dash_frame **ret_frame)
{
    struct cli_dash_frame *frame = calloc(1, sizeof *frame);

    *ret_frame = frame;
    if (frame == NULL)
        return NULL;
    frame->references = 1;
    return open_memstream(&frame->data, &frame->length);
}

/* A message that there is no memory for is one that all pages have missed. */
static void add_frame(struct cli_dash_site *site, struct cli_dash_frame *frame)
{
    struct cli_dash_frame **place = &site->frames[site->frames_end++ % CLI_DASH_FRAMES];

    drop_frame(*place);
    *place = frame;
}

void cli_dash_tell_changes(struct cli_dash_site *site)
{
    struct cli_dash_about known = about(site);
    struct cli_dash_frame *frame;
    FILE *stream = begin_frame(&frame);

    if (stream != NULL)
        cli_dash_write_changes(stream, &site->model, &known);
    add_frame(site, end_frame(frame, stream));
}

void cli_dash_tell_action(struct cli_dash_site *site, const struct cli_look_action *action,
                          const char *failure)
{
    struct cli_dash_frame *frame;
    FILE *stream = begin_frame(&frame);

    if (stream != NULL) {
        cli_json_string(stream, "event: done\ndata: {\"mutex\":", action->mutex);
        cli_json_string(stream, ",\"owner\":", action->owner.id);
        fprintf(stream, ",\"what\":\"%s\"",
                action->what == CLI_LOOK_RELEASE ? "release" : "handover");
        cli_json_string(stream, ",\"failure\":", failure);
        fputs("}\n\n", stream);
    }
    add_frame(site, end_frame(frame, stream));
}

/* ---- Streams --------------------------------------------------------------------------------- */

struct page_stream {
    struct cli_dash_site *site;
    struct cli_dash_frame *frame; /* that is being sent; NULL: none */
    size_t sent;
    uint64_t next; /* the number of the next one */
};

/* All pages that come between two looks share one: pages may come again and again. */
static struct cli_dash_frame *make_whole(struct cli_dash_site *site)
{
    struct cli_dash_about known = about(site);
    struct cli_dash_frame *frame;

    if (site->whole == NULL || site->whole_at != site->frames_end) {
        FILE *stream = begin_frame(&frame);
        if (stream != NULL)
            cli_dash_write_all(stream, &site->model, &known);
        drop_frame(site->whole);
        site->whole = end_frame(frame, stream);
        site->whole_at = site->frames_end;
    }
    if (site->whole != NULL)
        site->whole->references++;
    return site->whole;
}

/* The next message; all anew where it is not kept any more. NULL: there is none. */
static struct cli_dash_frame *take_frame(struct page_stream *page)
{
    struct cli_dash_site *site = page->site;
    bool missed = page->next + CLI_DASH_FRAMES < site->frames_end;

    if (page->next == site->frames_end)
        return NULL;
    struct cli_dash_frame *frame = site->frames[page->next % CLI_DASH_FRAMES];
    if (missed || frame == NULL) {
        page->next = site->frames_end;
        return make_whole(site);
    }
    page->next++;
    frame->references++;
    return frame;
}

static ssize_t read_page_stream(void *stream, char *buffer, size_t max)
{
    struct page_stream *page = stream;
    size_t length = 0;

    pthread_mutex_lock(&page->site->lock);
    while (length < max) {
        if (page->frame == NULL)
            page->frame = take_frame(page);
        if (page->frame == NULL)
            break;
        size_t left = page->frame->length - page->sent;
        size_t part = left < max - length ? left : max - length;
        memcpy(buffer + length, page->frame->data + page->sent, part);
        length += part;
        page->sent += part;
        if (page->sent < page->frame->length)
            break;
        drop_frame(page->frame);
        page->frame = NULL;
        page->sent = 0;
    }
    pthread_mutex_unlock(&page->site->lock);
    return (ssize_t)length;
}

static void close_page_stream(void *stream)
{
    struct page_stream *page = stream;

    pthread_mutex_lock(&page->site->lock);
    drop_frame(page->frame);
    pthread_mutex_unlock(&page->site->lock);
    free(page);
}

static void answer_events(struct cli_dash_site *site, struct cli_http_answer *answer)
{
    struct page_stream *page = calloc(1, sizeof *page);

    if (page == NULL)
        return;
    page->site = site;
    page->frame = make_whole(site);
    page->next = site->frames_end;
    answer->status = 200;
    answer->type = "text/event-stream";
    answer->headers = stream_headers;
    answer->stream = page;
}

/* ---- Queues ---------------------------------------------------------------------------------- */

/* The place of a mutex that is watched, or one for it; NULL: all are in use. */
static struct cli_dash_watched *find_watched(struct cli_dash_site *site, const char *mutex,
                                             int64_t now_ms)
{
    struct cli_dash_watched *place = NULL;

    for (size_t i = 0; i < CLI_DASH_WATCHED_MAX; i++) {
        struct cli_dash_watched *w = &site->watched[i];
        if (w->until_ms > now_ms && strcmp(w->mutex, mutex) == 0)
            return w;
        if (w->until_ms <= now_ms)
            place = w;
    }
    if (place == NULL)
        return NULL;
    simba_free(place->queue);
    *place = (struct cli_dash_watched){.until_ms = now_ms};
    sb_text_copy(place->mutex, sizeof place->mutex, mutex);
    return place;
}

static void write_queue(FILE *stream, const struct cli_dash_watched *watched)
{
    fprintf(stream, "{\"known\":%s,\"told\":%s,\"queue\":[", watched->is_known ? "true" : "false",
            watched->code == SIMBA_OK ? "true" : "false");
    for (size_t i = 0; i < watched->count; i++) {
        const struct simba_waiter *waiter = &watched->queue[i];
        cli_json_string(stream, i > 0 ? ",[" : "[", waiter->id);
        fprintf(stream, ",%" PRId64 "]",
                waiter->since_ms != 0 ? simba_wall_ms(waiter->since_ms) : (int64_t)0);
    }
    fputs("]}\n", stream);
}

/* What the store has told last. It is asked for this mutex for some seconds more. */
static void answer_queue(struct cli_dash_site *site, const char *mutex,
                         struct cli_http_answer *answer)
{
    int64_t now_ms = simba_now_ms();

    if (mutex == NULL || strlen(mutex) > SIMBA_MUTEX_MAX)
        return;
    struct cli_dash_watched *watched = find_watched(site, mutex, now_ms);
    answer->status = watched != NULL ? 200 : 503;
    FILE *stream = watched != NULL ? open_memstream(&answer->text, &answer->length) : NULL;
    if (stream == NULL)
        return;
    if (!watched->is_known)
        eventfd_write(site->wake_fd, 1);
    watched->until_ms = now_ms + CLI_DASH_WATCHED_MS;
    write_queue(stream, watched);
    fclose(stream);
    answer->type = "application/json";
}

/* ---- Actions --------------------------------------------------------------------------------- */

int cli_dash_read_token(struct cli_dash_site *site, const char *path, struct simba_error *error)
{
    struct stat status;
    int fd;
    int code = sb_trusted_open("token file", path, &fd, &status, error);

    if (code != SIMBA_OK)
        return code;
    ssize_t length = read(fd, site->token, CLI_DASH_TOKEN_MAX);
    close(fd);
    if (length < 0)
        return sb_error_set(error, SIMBA_ECONFIG, "the token file '%s' cannot be read: %s", path,
                            strerror(errno));
    site->token[length] = '\0';
    site->token[strcspn(site->token, "\r\n")] = '\0';
    if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        return sb_error_set(error, SIMBA_ECONFIG,
                            "the token file '%s' may be read by others: chmod 600 it", path);
    if (strlen(site->token) < CLI_DASH_TOKEN_MIN)
        return sb_error_set(error, SIMBA_ECONFIG, "the token in '%s' is shorter than %d bytes",
                            path, CLI_DASH_TOKEN_MIN);
    return SIMBA_OK;
}

/* Takes the same time wherever they differ. */
static bool is_token(const char *token, const char *given)
{
    char padded[CLI_DASH_TOKEN_MAX + 1] = {0};
    unsigned char difference = 0;

    if (given == NULL)
        return false;
    sb_text_copy(padded, sizeof padded, given);
    for (size_t i = 0; i < sizeof padded; i++)
        difference |= (unsigned char)(padded[i] ^ (i < strlen(token) ? token[i] : '\0'));
    return difference == 0;
}

static bool read_action(const struct cli_http_request *request, struct cli_look_action *ret_action)
{
    const char *mutex = request->argument(request, "mutex");
    const char *owner = request->argument(request, "owner");
    const char *fence = request->argument(request, "fence");

    *ret_action = (struct cli_look_action){
        .what = strcmp(request->path, "/release") == 0 ? CLI_LOOK_RELEASE : CLI_LOOK_HANDOVER};
    sb_text_copy(ret_action->client, sizeof ret_action->client, request->client);
    if (mutex == NULL || owner == NULL || fence == NULL || owner[0] == '\0')
        return false;
    ret_action->owner.fence = strtoull(fence, NULL, 10);
    return sb_text_copy(ret_action->mutex, sizeof ret_action->mutex, mutex) &&
           sb_text_copy(ret_action->owner.id, sizeof ret_action->owner.id, owner);
}

static void answer_action(struct cli_dash_site *site, const struct cli_http_request *request,
                          struct cli_http_answer *answer)
{
    struct cli_look_action action;

    if (site->token[0] == '\0') {
        cli_listen_answer(answer, 403, "this dashboard is read only: see --allow-handover\n");
    } else if (!is_token(site->token, request->header(request, "X-Simba-Token"))) {
        cli_message("warning: a wrong token came from %s", request->client);
        cli_listen_answer(answer, 403, "the token is wrong\n");
    } else if (!read_action(request, &action)) {
        cli_listen_answer(answer, 400, "mutex, owner and fence are needed\n");
    } else if (site->action.what != CLI_LOOK_NOTHING) {
        cli_listen_answer(answer, 409, "another request is under way: try again\n");
    } else {
        site->action = action;
        eventfd_write(site->wake_fd, 1);
        cli_listen_answer(answer, 202, "asked\n");
    }
}

/* ---- The rest -------------------------------------------------------------------------------- */

static void answer_metrics(const struct cli_dash_site *site, const struct cli_http_request *request,
                           struct cli_http_answer *answer)
{
    bool is_open = cli_listen_takes_openmetrics(request, answer);
    FILE *stream = open_memstream(&answer->text, &answer->length);

    if (stream == NULL)
        return;
    cli_dash_write_metrics(stream, &site->model, is_open, simba_wall_ms(simba_now_ms()));
    fclose(stream);
    answer->status = 200;
}

static bool answer_file(const char *path, struct cli_http_answer *answer)
{
    for (const struct cli_dash_file *file = cli_dash_files; file->path != NULL; file++) {
        if (strcmp(file->path, path) != 0)
            continue;
        answer->status = 200;
        answer->type = file->type;
        answer->fixed = (const char *)file->data;
        answer->length = file->length;
        answer->headers = page_headers;
        return true;
    }
    return false;
}

/* A page of another site may make a browser resolve its name to the loopback address. */
static bool is_own_host(const struct cli_dash_site *site, const char *host)
{
    if (!site->listen.is_loopback || site->listen.path[0] != '\0')
        return true;
    if (host == NULL)
        return false;
    size_t length = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    return (length == 9 && strncmp(host, "localhost", 9) == 0) ||
           (length == 5 && strncmp(host, "[::1]", 5) == 0) ||
           (strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == length);
}

static void answer_locked(struct cli_dash_site *site, const struct cli_http_request *request,
                          struct cli_http_answer *answer)
{
    const char *path = request->path;

    if (strcmp(request->method, "POST") == 0) {
        if (strcmp(path, "/handover") == 0 || strcmp(path, "/release") == 0)
            answer_action(site, request, answer);
    } else if (strcmp(path, "/events") == 0) {
        answer_events(site, answer);
    } else if (strcmp(path, "/queue") == 0) {
        answer_queue(site, request->argument(request, "mutex"), answer);
    } else if (strcmp(path, "/metrics") == 0) {
        answer_metrics(site, request, answer);
    } else if (strcmp(path, "/healthz") == 0) {
        bool well = cli_dash_away_ms(&site->model) == 0 && site->model.watched_ms != 0;
        cli_listen_answer(answer, well ? 200 : 503, well ? "ok\n" : "the store does not answer\n");
    }
}

static void answer_request(void *user, const struct cli_http_request *request,
                           struct cli_http_answer *answer)
{
    struct cli_dash_site *site = user;

    if (!is_own_host(site, request->header(request, "Host"))) {
        cli_listen_answer(answer, 403,
                          "listening on the loopback address: ask for it by its number\n");
        return;
    }
    if (strcmp(request->method, "GET") == 0 && answer_file(request->path, answer))
        return;
    pthread_mutex_lock(&site->lock);
    answer_locked(site, request, answer);
    pthread_mutex_unlock(&site->lock);
}

/* ---- Lifecycle ------------------------------------------------------------------------------- */

int cli_dash_site_start(struct cli_dash_site *site, const char *address, bool quiet)
{
    const struct cli_http_site served = {.size = sizeof served,
                                         .user = site,
                                         .post_max = 256,
                                         .answer = answer_request,
                                         .read_stream = read_page_stream,
                                         .close_stream = close_page_stream};

    return cli_listen_start(&site->listen, address, &served, quiet);
}

void cli_dash_site_stop(struct cli_dash_site *site)
{
    cli_listen_stop(&site->listen);
    for (size_t i = 0; i < CLI_DASH_FRAMES; i++)
        drop_frame(site->frames[i]);
    drop_frame(site->whole);
    for (size_t i = 0; i < CLI_DASH_WATCHED_MAX; i++)
        simba_free(site->watched[i].queue);
    cli_dash_free(&site->model);
    pthread_mutex_destroy(&site->lock);
}
