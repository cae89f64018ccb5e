/*
 * doctor.c - `simba doctor`: whether the store of this configuration can be relied on, as a list of
 * findings. What is particular to a store the library finds (simba_client_inspect).
 */
#include "base/alloc.h"
#include "base/findings.h"
#include "base/text.h"
#include "base/time.h"
#include "cli/cli.h"
#include "cli/store.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#define MUTEX "simba-doctor"
#define PROPERTY "clock" /* never written: what is wanted is the time of the answer */
#define TIMEOUT_MS 10000
#define SAMPLES 20
#define SAMPLE_PAUSE_MS 100
#define FORGET_TRIES 8
#define FORGET_PAUSE_MS 500
#define SIDE 5 /* samples at each end, of which the quickest tells the clock */
#define OFFSET_MAX_MS 1000
#define DRIFT_MAX_PPM 5000
#define WIDTH 80
#define SUBJECT_WIDTH 14
#define INDENT 25 /* columns of severity and subject */

static struct doctor {
    struct cli_output output; /* first */
    bool read_only;
    simba_client *client;
    int64_t ttl_ms;
    int64_t transition_ms;
    struct sb_findings own;
    struct simba_finding *of_store;
    size_t of_store_count;
} this_doctor;

static const struct cli_option options[] = {
    {0, "read-only", NULL, "acquire nothing, and write nothing to the store",
     CLI_FLAG(struct doctor, read_only)},
    CLI_OPTION_JSON("print a JSON array"),
    CLI_OPTIONS_END,
};

/* A sentence of the library, with what an operator can do about its code. */
static void add_failure(struct doctor *d, const char *subject, int code, const char *sentence)
{
    static const char *const advice[] = {
        [SIMBA_GROUP_UNAVAILABLE] = "look whether the server runs or the file exists, and "
                                    "whether name, port and firewall let this host reach it",
        [SIMBA_GROUP_DENIED] = "check user and password, and the rights that docs/stores lists",
        [SIMBA_GROUP_CONFIG] = "correct the URL or the configuration file; simba.yaml(5) lists "
                               "what they take",
    };
    enum simba_error_group group = simba_error_group(code);
    bool known = (size_t)group < sizeof advice / sizeof advice[0] && advice[group] != NULL &&
                 code != SIMBA_ESTORE; /* it runs and refuses */
    char text[SIMBA_FINDING_TEXT_MAX + 1];

    sb_text_fit(text, sizeof text, sentence);
    sb_findings_add(&d->own, SIMBA_SEVERITY_PROBLEM, subject,
                    known ? advice[group] : "see the findings below, and the log of the server",
                    "%s", text);
}

/* ---- Rights ---------------------------------------------------------------------------------- */

/* What a contender does, on a mutex that nobody else needs. Where the session is the lease there is
 * nothing to renew. */
static int take_turn(struct doctor *d, simba_locker *locker, bool detachable,
                     struct simba_error *error)
{
    int64_t deadline_ms;
    uint64_t fence;

    int code = simba_locker_acquire_timeout(locker, TIMEOUT_MS, error);
    if (code != SIMBA_OK)
        return code;
    if (!detachable)
        return simba_locker_release(locker, error);
    fence = simba_locker_fence(locker);
    code = simba_locker_detach(locker, error);
    if (code == SIMBA_OK)
        code = simba_client_renew(d->client, MUTEX, simba_locker_id(locker), fence,
                                  sb_later(d->ttl_ms, d->transition_ms), TIMEOUT_MS, &deadline_ms,
                                  error);
    if (code == SIMBA_OK)
        code =
            simba_client_end(d->client, MUTEX, simba_locker_id(locker), fence, TIMEOUT_MS, error);
    return code;
}

/* Where the store remembers names it would list this one for ever. MySQL can remove it only when
 * its clock is ahead of the token, some seconds after the last term. If it fails, the name stays
 * and does no harm: no contender needs the right to remove. */
static void forget_name(struct doctor *d)
{
    const struct timespec pause = {.tv_nsec = FORGET_PAUSE_MS * 1000000L};
    struct simba_owner owner;
    struct simba_error error;

    for (int i = 0; i < FORGET_TRIES; i++) {
        uint64_t revision = 0;
        bool done = false;
        int code = simba_client_revision(d->client, MUTEX, TIMEOUT_MS, &owner, &revision, &error);
        if (code != SIMBA_OK || owner.id[0] != 0 || revision == 0)
            return;
        code = simba_client_forget(d->client, MUTEX, revision, TIMEOUT_MS, &done, &error);
        if (code != SIMBA_OK || done)
            return;
        nanosleep(&pause, NULL);
    }
}

static void check_rights(struct doctor *d)
{
    struct simba_locker_options locker_options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *locker = NULL;
    struct simba_error error;
    int64_t begin_ms = simba_now_ms();

    locker_options.mutex = MUTEX;
    locker_options.fail_fast = locker_options.fail_fast_unknown = true;
    locker_options.detachable = true;
    int code = simba_locker_create(d->client, &locker_options, &locker, &error);
    if (code == SIMBA_EUNSUPPORTED) {
        locker_options.detachable = false;
        code = simba_locker_create(d->client, &locker_options, &locker, &error);
    }
    if (code == SIMBA_OK)
        code = take_turn(d, locker, locker_options.detachable, &error);
    simba_locker_close(locker);
    if (code == SIMBA_ETIMEDOUT)
        sb_findings_add(&d->own, SIMBA_SEVERITY_WARNING, "locking",
                        "if no other simba doctor runs: simba status " MUTEX,
                        "not tried: another contender holds '" MUTEX "'");
    else if (code != SIMBA_OK)
        add_failure(d, "locking", code, error.text);
    else
        sb_findings_add(&d->own, SIMBA_SEVERITY_OK, "locking", NULL,
                        "'" MUTEX "' acquired%s and released in %lld ms",
                        locker_options.detachable ? ", renewed" : "",
                        (long long)(simba_now_ms() - begin_ms));
}

/* ---- Latency and clock ----------------------------------------------------------------------- */

/* In milliseconds. */
struct sample {
    double took;
    double at;    /* the middle of the request, on this host's boot clock */
    double ahead; /* the store's clock, of this host's wall clock */
    double store; /* what it showed; 0: it was not told */
};

static double clock_ms(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* On ZooKeeper only a write tells the time, and etcd tells nobody. */
static bool may_ask_clock(const struct doctor *d)
{
    const char *store = cli_store_shown();

    return strncasecmp(store, "etcd", 4) != 0 &&
           (!d->read_only || strncasecmp(store, "zookeeper", 9) != 0);
}

static int read_one(struct doctor *d, bool ask_clock, struct simba_property *property,
                    struct simba_error *error)
{
    struct simba_mutex_status *list = NULL;
    size_t count;

    property->store_ms = 0;
    if (ask_clock)
        return simba_client_property_get(d->client, MUTEX, PROPERTY, TIMEOUT_MS, property, error);
    int code = simba_client_status(d->client, MUTEX, TIMEOUT_MS, &list, &count, error);
    simba_free(list);
    return code;
}

static int take_sample(struct doctor *d, bool ask_clock, struct sample *ret_sample,
                       struct simba_error *error)
{
    struct simba_property property;
    double begin = clock_ms(CLOCK_BOOTTIME);
    double wall = clock_ms(CLOCK_REALTIME);

    int code = read_one(d, ask_clock, &property, error);
    if (code != SIMBA_OK)
        return code;
    ret_sample->took = clock_ms(CLOCK_BOOTTIME) - begin;
    ret_sample->at = begin + ret_sample->took / 2;
    ret_sample->store = (double)property.store_ms;
    ret_sample->ahead = ret_sample->store + 0.5 - (wall + ret_sample->took / 2);
    return SIMBA_OK;
}

static int compare_times(const void *a, const void *b)
{
    double left = ((const struct sample *)a)->took;
    double right = ((const struct sample *)b)->took;

    return left < right ? -1 : left > right;
}

static void judge_latency(struct doctor *d, const struct sample *samples)
{
    struct sample sorted[SAMPLES];
    double transition = (double)d->transition_ms;

    memcpy(sorted, samples, sizeof sorted);
    qsort(sorted, SAMPLES, sizeof sorted[0], compare_times);
    double most = sorted[SAMPLES - 1].took;
    enum simba_severity severity = most > transition / 3    ? SIMBA_SEVERITY_PROBLEM
                                   : most > transition / 10 ? SIMBA_SEVERITY_WARNING
                                                            : SIMBA_SEVERITY_OK;
    sb_findings_add(&d->own, severity, "latency",
                    severity != SIMBA_SEVERITY_OK
                        ? "find out what is slow, or use a longer --transition: an owner has that "
                          "time to renew"
                        : NULL,
                    "reads took %.1f ms (median) and %.1f ms (slowest of %d); the transition is "
                    "%lld ms",
                    sorted[SAMPLES / 2].took, most, SAMPLES, (long long)d->transition_ms);
}

static const struct sample *quickest(const struct sample *samples)
{
    const struct sample *best = samples;

    for (size_t i = 1; i < SIDE; i++)
        if (samples[i].took < best->took)
            best = &samples[i];
    return best;
}

/* A store tells its time in whole milliseconds, at some instant of the request. */
static double doubt(const struct sample *sample)
{
    return sample->took / 2 + 0.5;
}

static void judge_drift(struct doctor *d, const struct sample *first, const struct sample *last)
{
    double passed = last->at - first->at;
    double drift = ((last->store - first->store) - passed) / passed * 1e6;
    double error = (doubt(first) + doubt(last)) / passed * 1e6;

    if (fabs(drift) - error > DRIFT_MAX_PPM)
        sb_findings_add(&d->own, SIMBA_SEVERITY_PROBLEM, "clock rate",
                        "repair time synchronisation on the store and on this host: clocks must "
                        "run at the same rate, to 1 %",
                        "the store's clock runs %.0f ppm %s than ours (+/- %.0f): leases end %s "
                        "than owners think",
                        fabs(drift), drift > 0 ? "faster" : "slower", error,
                        drift > 0 ? "earlier" : "later");
    else if (error > DRIFT_MAX_PPM)
        sb_findings_add(&d->own, SIMBA_SEVERITY_OK, "clock rate", NULL,
                        "not known: answers take too long to measure it");
    else
        sb_findings_add(&d->own, SIMBA_SEVERITY_OK, "clock rate", NULL,
                        "the store's clock runs at the rate of ours (to %.0f ppm)", error);
}

static void judge_clock(struct doctor *d, const struct sample *samples)
{
    const struct sample *first = quickest(samples);
    const struct sample *last = quickest(samples + SAMPLES - SIDE);

    if (first->store <= 0 || last->store <= 0)
        return;
    double ahead = last->ahead;
    if (fabs(ahead) - doubt(last) > OFFSET_MAX_MS)
        sb_findings_add(&d->own, SIMBA_SEVERITY_WARNING, "clock",
                        "repair time synchronisation (NTP): leases do not depend on it, but simba "
                        "schedule starts by the calendar of its host",
                        "the store's clock is %.1f s %s ours", fabs(ahead) / 1e3,
                        ahead > 0 ? "ahead of" : "behind");
    else
        sb_findings_add(&d->own, SIMBA_SEVERITY_OK, "clock", NULL,
                        "the store's clock is within %.0f ms of ours", fabs(ahead) + doubt(last));
    judge_drift(d, first, last);
}

static void check_reads(struct doctor *d)
{
    struct sample samples[SAMPLES];
    const struct timespec pause = {.tv_nsec = SAMPLE_PAUSE_MS * 1000000L};
    bool ask_clock = may_ask_clock(d);
    struct simba_error error;

    for (size_t i = 0; i < SAMPLES; i++) {
        int code = take_sample(d, ask_clock, &samples[i], &error);
        if (code != SIMBA_OK && ask_clock && i == 0) { /* a store without properties, or rights */
            ask_clock = false;
            code = take_sample(d, false, &samples[i], &error);
        }
        if (code != SIMBA_OK) {
            add_failure(d, "reading", code, error.text);
            return;
        }
        nanosleep(&pause, NULL);
    }
    judge_latency(d, samples);
    if (ask_clock)
        judge_clock(d, samples);
}

/* ---- The store's own findings ---------------------------------------------------------------- */

static void inspect(struct doctor *d)
{
    struct simba_error error;
    int code =
        simba_client_inspect(d->client, TIMEOUT_MS, &d->of_store, &d->of_store_count, &error);

    if (code != SIMBA_OK && code != SIMBA_EUNSUPPORTED)
        sb_findings_add(&d->own, SIMBA_SEVERITY_WARNING, "settings",
                        "look at them by hand: docs/stores says what leases need",
                        "they could not be read: %.200s", error.text);
}

/* ---- Printing -------------------------------------------------------------------------------- */

static const char *const severities[] = {"ok", "warning", "problem"};
static const char *const colours[] = {"\033[32m", "\033[33m", "\033[1;31m"};

static void print_text(const struct simba_finding *finding)
{
    bool colour = cli_text_in_colour(STDOUT_FILENO);
    char text[SIMBA_FINDING_ADVICE_MAX + 8];

    printf("%s%-9s%s%-*s  ", colour ? colours[finding->severity] : "",
           severities[finding->severity], colour ? "\033[0m" : "", SUBJECT_WIDTH, finding->subject);
    cli_text_printable(finding->text, text, sizeof text);
    cli_text_flow(stdout, text, INDENT, INDENT, WIDTH);
    if (finding->advice[0] == 0)
        return;
    snprintf(text, sizeof text, "-> %s", finding->advice);
    printf("%*s", INDENT, "");
    cli_text_flow(stdout, text, INDENT, INDENT, WIDTH);
}

static void print_json(const struct simba_finding *finding, bool first)
{
    cli_json_string(stdout,
                    first ? "{\"severity\":" : ",\n {\"severity\":", severities[finding->severity]);
    cli_json_string(stdout, ",\"subject\":", finding->subject);
    cli_json_string(stdout, ",\"text\":", finding->text);
    cli_json_string(stdout, ",\"advice\":", finding->advice);
    putchar('}');
}

/* Returns the worst severity. */
static enum simba_severity print_all(const struct doctor *d)
{
    enum simba_severity worst = SIMBA_SEVERITY_OK;
    size_t total = d->own.count + d->of_store_count;
    size_t counts[3] = {0, 0, 0};

    if (d->output.json)
        putchar('[');
    for (size_t i = 0; i < total; i++) {
        const struct simba_finding *finding =
            i < d->own.count ? &d->own.list[i] : &d->of_store[i - d->own.count];

        counts[finding->severity]++;
        worst = finding->severity > worst ? finding->severity : worst;
        if (d->output.json)
            print_json(finding, i == 0);
        else
            print_text(finding);
    }
    if (d->output.json)
        puts("]");
    else
        printf("\n%zu problem%s, %zu warning%s, %zu ok\n", counts[2], counts[2] == 1 ? "" : "s",
               counts[1], counts[1] == 1 ? "" : "s", counts[0]);
    return worst;
}

/* ---- The verb -------------------------------------------------------------------------------- */

/* Returns CLI_CONTINUE, or an exit code: there is no store to look at. */
static int open_store(struct doctor *d, const struct cli *cli)
{
    struct simba_error error;
    int code = cli_store_open_existing(cli, &d->client, &error);
    const char *shown = cli_store_shown() != NULL ? cli_store_shown() : "";
    int length = (int)strcspn(shown, "?");

    if (cli_store_is_default())
        sb_findings_add(&d->own, SIMBA_SEVERITY_WARNING, "store",
                        "name one with --url, SIMBA_URL or a configuration file, where more than "
                        "one host takes part",
                        "none is named, so it is %.*s, which reaches this host only%s", length,
                        shown, code == SIMBA_ENOTFOUND ? "; it does not exist yet" : "");
    if (code == SIMBA_ENOTFOUND)
        return CLI_EXIT_OK;
    if (code != SIMBA_OK) {
        char named[CLI_MESSAGE_MAX];
        snprintf(named, sizeof named, "%.*s%s%s", length, shown, length > 0 ? ": " : "",
                 error.text);
        add_failure(d, "store", code, named);
        return cli_exit_code(code);
    }
    if (!cli_store_is_default())
        sb_findings_add(&d->own, SIMBA_SEVERITY_OK, "store", NULL, "%.*s answers", length, shown);
    simba_client_lease(d->client, &d->ttl_ms, &d->transition_ms);
    return CLI_CONTINUE;
}

static int run(struct cli *cli, int argc, char **argv)
{
    struct doctor *d = &this_doctor;

    (void)argc;
    (void)argv;
    if (cli->log_level == SIMBA_LOG_WARN) /* what the library warns of are findings here */
        cli->log_level = SIMBA_LOG_ERROR;
    int status = open_store(d, cli);
    if (status == CLI_CONTINUE) {
        inspect(d); /* first: a server that refuses something may be left for a while */
        if (!d->read_only)
            check_rights(d);
        check_reads(d); /* takes two seconds */
        if (!d->read_only)
            forget_name(d);
    }
    enum simba_severity worst = print_all(d);
    simba_free(d->of_store);
    cli_store_close(d->client);
    if (status != CLI_CONTINUE && status != CLI_EXIT_OK)
        return status;
    return worst == SIMBA_SEVERITY_PROBLEM   ? CLI_EXIT_PROBLEMS
           : worst == SIMBA_SEVERITY_WARNING ? CLI_EXIT_FAILED
                                             : CLI_EXIT_OK;
}

static const char details[] =
    "Looks whether the store can be relied on, and prints what it found: ok, warning\n"
    "or problem, what was seen, and behind '->' what to do. It takes some\n"
    "seconds.\n"
    "  - It acquires, renews and releases a mutex of its own, 'simba-doctor';\n"
    "    --read-only leaves that out.\n"
    "  - Latency: the slowest of some reads, against the time that an owner has to\n"
    "    renew.\n"
    "  - The store's clock, where it tells one: leases need the same rate, not the\n"
    "    same time.\n"
    "  - TLS, table, and settings of the server that could make it forget or refuse\n"
    "    leases.\n"
    "\n"
    "With --json it is an array of objects with severity (ok, warning, problem),\n"
    "subject, text and advice (empty: nothing to do).\n"
    "\n"
    "Examples:\n"
    "  simba doctor\n"
    "  simba -u redis://db1 doctor --read-only --json\n"
    "\n"
    "Exit codes: 0 when all is well, 1 with warnings, 2 with problems; 69, 77, 78\n"
    "when the store cannot be used at all, or 64, as 'simba --help' lists them.";

const struct cli_verb cli_verb_doctor = {
    .name = "doctor",
    .usage = "doctor [OPTION...]",
    .summary = "check the store: rights, latency, clock, settings",
    .details = details,
    .options = options,
    .into = &this_doctor,
    .operands = CLI_OPERANDS_NONE,
    .run = run,
};
