/*
 * endpoints.c - answers monitors and load balancers about one contender.
 *
 * Runs on the web server's thread, beside the main thread and the library's. Whether this contender
 * leads is asked for each answer, by the clock: a process that stood still for longer than its
 * lease says no with its first answer.
 */
#include "cli/endpoints.h"

#include "cli/cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define END_OF_OPENMETRICS "# EOF\n"

/* A timer of the library that is late by so much is not merely one of a busy machine. */
#define LATE_MS 5000

/* ---- Metrics --------------------------------------------------------------------------------- */

/* What the library does not know. In the older format the total of a counter is its name. */
static void add_own(FILE *stream, const struct cli_endpoints *e, bool is_open)
{
    int64_t success_s = atomic_load(&e->last_success_s);

    if (!e->is_schedule)
        fprintf(stream,
                "# HELP simba_command_restarts%s Starts of the command after the first of a term.\n"
                "# TYPE simba_command_restarts%s counter\n"
                "simba_command_restarts_total %" PRIu64 "\n",
                is_open ? "" : "_total", is_open ? "" : "_total", atomic_load(&e->restarts));
    if (success_s != 0)
        fprintf(stream,
                "# HELP simba_schedule_last_success_timestamp_seconds When a run of this process "
                "last ended with exit code 0.\n"
                "# TYPE simba_schedule_last_success_timestamp_seconds gauge\n"
                "simba_schedule_last_success_timestamp_seconds %" PRId64 "\n",
                success_s);
}

/* NULL: there is no memory, or the client is that of another process. */
static char *write_metrics(const struct cli_endpoints *e, bool is_open, size_t *ret_length)
{
    enum simba_metrics_format format =
        is_open ? SIMBA_METRICS_OPENMETRICS : SIMBA_METRICS_PROMETHEUS;
    char *own = malloc(SIMBA_METRICS_TEXT_MAX);
    size_t length = 0;
    char *text = NULL;

    if (own == NULL || simba_client_metrics_text(e->client, format, own, SIMBA_METRICS_TEXT_MAX,
                                                 &length) != SIMBA_OK) {
        free(own);
        return NULL;
    }
    if (is_open)
        length -= strlen(END_OF_OPENMETRICS);
    FILE *stream = open_memstream(&text, ret_length);
    if (stream != NULL) {
        fwrite(own, 1, length, stream);
        add_own(stream, e, is_open);
        fputs(is_open ? END_OF_OPENMETRICS : "", stream);
        if (fclose(stream) != 0) {
            free(text);
            text = NULL;
        }
    }
    free(own);
    return text;
}

static void answer_metrics(const struct cli_endpoints *e, const struct cli_http_request *request,
                           struct cli_http_answer *answer)
{
    if (atomic_load(&e->seat) == NULL)
        return;
    bool is_open = cli_listen_takes_openmetrics(request, answer);
    answer->text = write_metrics(e, is_open, &answer->length);
    answer->status = answer->text != NULL ? 200 : 500;
}

/* ---- Who leads, and whether all is well ------------------------------------------------------ */

static void write_leader(FILE *stream, struct cli_seat *seat, bool leads)
{
    struct simba_owner owner;
    int64_t left_ms = cli_seat_deadline_ms(seat) - simba_now_ms();

    cli_seat_owner(seat, &owner);
    cli_json_string(stream, "{\"mutex\":", cli_seat_mutex(seat));
    fprintf(stream, ",\"leader\":%s", leads ? "true" : "false");
    cli_json_string(stream, ",\"id\":", cli_seat_id(seat));
    cli_json_string(stream, ",\"owner\":", leads ? cli_seat_id(seat) : owner.id);
    cli_json_fence(stream, ",\"fence\":", leads ? cli_seat_fence(seat) : 0);
    cli_json_number(stream, ",\"lease_left_ms\":", leads && left_ms > 0 ? left_ms : -1, -1);
    fputs("}\n", stream);
}

/* The belief is asked last: what was written before takes time, too. */
static void answer_leader(struct cli_seat *seat, struct cli_http_answer *answer)
{
    bool leads = seat != NULL && cli_seat_is_owner(seat);
    FILE *stream = open_memstream(&answer->text, &answer->length);

    if (stream == NULL)
        return;
    if (seat != NULL)
        write_leader(stream, seat, leads);
    else
        fputs("{\"leader\":false}\n", stream);
    if (fclose(stream) != 0)
        return;
    answer->status = leads && cli_seat_is_owner(seat) ? 200 : 503;
    answer->type = "application/json";
}

static void answer_health(const struct cli_endpoints *e, struct cli_http_answer *answer)
{
    struct simba_metrics metrics = SIMBA_METRICS_INIT;
    int64_t ttl_ms = 0;
    int64_t transition_ms = 0;

    if (atomic_load(&e->seat) == NULL) {
        cli_listen_answer(answer, 503, "the store has not been reached yet\n");
        return;
    }
    simba_client_lease(e->client, &ttl_ms, &transition_ms);
    if (simba_client_metrics(e->client, &metrics) != SIMBA_OK)
        cli_listen_answer(answer, 503, "the client is closed\n");
    else if (metrics.loop_late_ms > LATE_MS)
        cli_listen_answer(answer, 503, "the library has not done in time what is due\n");
    else if (metrics.store_failing_ms > ttl_ms + transition_ms)
        cli_listen_answer(answer, 503, "the store has not served for longer than a lease\n");
    else
        cli_listen_answer(answer, 200, "ok\n");
}

static void answer_readiness(struct cli_seat *seat, struct cli_http_answer *answer)
{
    bool takes_part = seat != NULL && cli_seat_takes_part(seat);

    cli_listen_answer(answer, takes_part ? 200 : 503,
                      takes_part ? "takes part\n" : "does not take part in the contest\n");
}

static void answer(void *user, const struct cli_http_request *request,
                   struct cli_http_answer *answer)
{
    struct cli_endpoints *e = user;
    struct cli_seat *seat = atomic_load(&e->seat);

    if (strcmp(request->path, "/metrics") == 0)
        answer_metrics(e, request, answer);
    else if (strcmp(request->path, "/leader") == 0)
        answer_leader(seat, answer);
    else if (strcmp(request->path, "/healthz") == 0)
        answer_health(e, answer);
    else if (strcmp(request->path, "/readyz") == 0)
        answer_readiness(seat, answer);
    else
        cli_listen_answer(answer, 404, "there are /metrics, /leader, /healthz and /readyz\n");
}

/* ---- Lifecycle ------------------------------------------------------------------------------- */

int cli_endpoints_start(struct cli_endpoints *e, const char *address, bool quiet)
{
    const struct cli_http_site site = {.size = sizeof site, .user = e, .answer = answer};

    return cli_listen_start(&e->listen, address, &site, quiet);
}

void cli_endpoints_publish(struct cli_endpoints *e, simba_client *client, struct cli_seat *seat)
{
    e->client = client;
    atomic_store(&e->seat, seat);
}

void cli_endpoints_stop(struct cli_endpoints *e)
{
    cli_listen_stop(&e->listen);
}
