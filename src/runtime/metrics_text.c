/*
 * metrics_text.c - the metrics of a client as text for Prometheus. Must not know where it is read.
 *
 * All lines of one metric stand together, so what contenders know is copied first.
 */
#include "base/alloc.h"
#include "base/check.h"
#include "base/text.h"
#include "base/time.h"
#include "runtime/engine_state.h"
#include "runtime/service_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Buckets that are told: every second power of two, in microseconds. */
#define REQUEST_FROM 7 /* 128 us */
#define REQUEST_TO 25  /* 34 s */
#define PHASE_FROM 10  /* 1 ms */
#define PHASE_TO 30    /* 18 minutes */

#define LABEL_MAX 32 /* of an operation */

struct row {
    char mutex[SIMBA_MUTEX_MAX + 1];
    int64_t left_ms; /* of the belief; 0: none */
    uint64_t fence;
};

struct collection {
    struct row *rows;
    size_t count;
    int64_t now_ms;
};

struct output {
    struct sb_text text;
    bool is_open; /* OpenMetrics */
};

/* ---- Contenders ------------------------------------------------------------------------------ */

/* Contenders of one client that compete for the same mutex share its lines. */
static struct row *find_row(struct collection *c, const char *mutex)
{
    for (size_t i = 0; i < c->count; i++) {
        if (strcmp(c->rows[i].mutex, mutex) == 0)
            return &c->rows[i];
    }
    if (c->count == SIMBA_METRICS_MUTEXES_MAX)
        return NULL;
    sb_text_copy(c->rows[c->count].mutex, sizeof c->rows[0].mutex, mutex);
    return &c->rows[c->count++];
}

static void collect(struct sb_member *member, void *argument)
{
    const struct sb_service *s = sb_service_of_member(member);
    struct collection *c = argument;

    SB_CHECK(c->count <= SIMBA_METRICS_MUTEXES_MAX, "the rows of the text are bounded");
    if (sb_service_is_observer(s) || !simba_status_is_active(sb_service_status(s)))
        return;
    struct row *row = find_row(c, member->mutex);
    int64_t left_ms = sb_time_left(sb_service_deadline_ms(s), c->now_ms);
    if (row == NULL || left_ms <= row->left_ms)
        return;
    row->left_ms = left_ms;
    row->fence = sb_service_fence(s);
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* In OpenMetrics the total is a line of a counter, in the older format it is the counter. */
static void begin(struct output *out, const char *name, const char *type, const char *help)
{
    bool cut = out->is_open && strcmp(type, "counter") == 0;
    int length = (int)(strlen(name) - (cut ? strlen("_total") : 0));

    sb_text_add(&out->text, "# HELP %.*s %s\n# TYPE %.*s %s\n", length, name, help, length, name,
                type);
}

static void add_counter(struct output *out, const char *name, const char *help, uint64_t value)
{
    begin(out, name, "counter", help);
    sb_text_add(&out->text, "%s %" PRIu64 "\n", name, value);
}

static void add_gauge(struct output *out, const char *name, const char *help, uint64_t value)
{
    begin(out, name, "gauge", help);
    sb_text_add(&out->text, "%s %" PRIu64 "\n", name, value);
}

static void add_seconds(struct sb_text *text, uint64_t us)
{
    sb_text_add(text, "%" PRIu64 ".%06" PRIu64, us / 1000000, us % 1000000);
}

/* `label` is empty or ends in a comma. The sum of the buckets is the count, whatever is counted
 * meanwhile. */
static void add_histogram(struct output *out, const char *name, const char *label,
                          const struct sb_histogram *histogram, int from, int to)
{
    struct sb_text *text = &out->text;
    char only[LABEL_MAX] = "";
    uint64_t below = 0;

    if (label[0] != '\0')
        snprintf(only, sizeof only, "{%.*s}", (int)strlen(label) - 1, label);
    for (int i = 0; i < SIMBA_HISTOGRAM_BUCKETS; i++) {
        below += atomic_load_explicit(&histogram->bucket[i], memory_order_relaxed);
        if (i < from || i > to || (i - from) % 2 != 0)
            continue;
        sb_text_add(text, "%s_bucket{%sle=\"", name, label);
        add_seconds(text, (uint64_t)1 << i);
        sb_text_add(text, "\"} %" PRIu64 "\n", below);
    }
    sb_text_add(text, "%s_bucket{%sle=\"+Inf\"} %" PRIu64 "\n", name, label, below);
    sb_text_add(text, "%s_count%s %" PRIu64 "\n", name, only, below);
    sb_text_add(text, "%s_sum%s ", name, only);
    add_seconds(text, atomic_load_explicit(&histogram->sum_us, memory_order_relaxed));
    sb_text_add(text, "\n");
}

/* ---- The parts ------------------------------------------------------------------------------- */

static void add_row(struct output *out, const char *name, const struct row *row)
{
    sb_text_add(&out->text, "%s{mutex=\"", name);
    sb_text_add_label(&out->text, row->mutex);
    sb_text_add(&out->text, "\"} ");
}

/* ZooKeeper's belief has no end, but that of its session; then there is nothing to count down. */
static void add_rows(struct output *out, const struct collection *c)
{
    begin(out, "simba_is_owner", "gauge", "1 if this process owns the mutex, by its clock now.");
    for (size_t i = 0; i < c->count; i++) {
        add_row(out, "simba_is_owner", &c->rows[i]);
        sb_text_add(&out->text, "%d\n", c->rows[i].left_ms > 0);
    }
    begin(out, "simba_lease_remaining_seconds", "gauge",
          "How long this process may still believe that it owns; 0 if it does not.");
    for (size_t i = 0; i < c->count; i++) {
        if (c->rows[i].left_ms == SIMBA_INFINITE)
            continue;
        add_row(out, "simba_lease_remaining_seconds", &c->rows[i]);
        add_seconds(&out->text, (uint64_t)c->rows[i].left_ms * 1000);
        sb_text_add(&out->text, "\n");
    }
    begin(out, "simba_fence", "gauge", "The fencing token of the term of this process.");
    for (size_t i = 0; i < c->count; i++) {
        if (c->rows[i].left_ms == 0)
            continue;
        add_row(out, "simba_fence", &c->rows[i]);
        sb_text_add(&out->text, "%" PRIu64 "\n", c->rows[i].fence);
    }
}

static void add_counters(struct output *out, const struct sb_metrics *m,
                         const struct simba_metrics *all)
{
    add_counter(out, "simba_acquisitions_total", "Mutexes acquired.", all->acquisitions);
    begin(out, "simba_losses_total", "counter", "Terms that ended without a release.");
    for (int i = 0; i < SB_LOSSES; i++)
        sb_text_add(&out->text, "simba_losses_total{reason=\"%s\"} %" PRIu64 "\n",
                    sb_metrics_losses[i],
                    atomic_load_explicit(&m->losses[i], memory_order_relaxed));
    add_counter(out, "simba_releases_total", "Mutexes released.", all->releases);
    add_counter(out, "simba_renewals_total", "Leases renewed.", all->renewals);
    add_counter(out, "simba_renewal_failures_total", "Renewals that the store did not answer well.",
                all->renewal_failures);
    add_counter(out, "simba_store_errors_total", "Requests that failed.", all->errors);
    add_gauge(out, "simba_owned", "Mutexes owned.", all->owned);
    add_gauge(out, "simba_contenders", "Contenders that take part.", all->contenders);
    add_gauge(out, "simba_store_up", "1 if the store has served the last request.",
              all->store_failing_ms == 0);
}

static void add_histograms(struct output *out, const struct sb_metrics *m)
{
    char label[LABEL_MAX];

    begin(out, "simba_wait_seconds", "histogram", "From the start of a contest to its win.");
    add_histogram(out, "simba_wait_seconds", "", &m->contention, PHASE_FROM, PHASE_TO);
    begin(out, "simba_hold_seconds", "histogram", "From a win to the end of the term.");
    add_histogram(out, "simba_hold_seconds", "", &m->hold, PHASE_FROM, PHASE_TO);
    begin(out, "simba_store_request_seconds", "histogram",
          "From the sending of a request to its answer.");
    for (int i = 0; i < SB_METRICS_OPS; i++) {
        snprintf(label, sizeof label, "op=\"%s\",", sb_metrics_ops[i]);
        if (i != SIMBA_OP_NONE)
            add_histogram(out, "simba_store_request_seconds", label, &m->operation[i], REQUEST_FROM,
                          REQUEST_TO);
    }
}

int sb_engine_write_metrics(struct sb_engine *engine, enum simba_metrics_format format,
                            char *buffer, size_t size, size_t *ret_length)
{
    struct collection c = {.now_ms = simba_now_ms()};
    struct simba_metrics all = SIMBA_METRICS_INIT;
    struct output out = {.is_open = format == SIMBA_METRICS_OPENMETRICS};

    c.rows = sb_alloc_zero(SIMBA_METRICS_MUTEXES_MAX * sizeof *c.rows);
    if (c.rows == NULL)
        return SIMBA_ENOMEM;
    sb_text_init(&out.text, buffer, size);
    sb_registry_visit(&engine->registry, NULL, NULL, collect, &c);
    sb_engine_read_metrics(engine, &all);
    add_rows(&out, &c);
    sb_free(c.rows);
    add_counters(&out, &engine->metrics, &all);
    add_histograms(&out, &engine->metrics);
    begin(&out, out.is_open ? "simba_build" : "simba_build_info", out.is_open ? "info" : "gauge",
          "The version of the library.");
    sb_text_add(&out.text, "simba_build_info{version=\"%s\"} 1\n", simba_version());
    if (out.is_open)
        sb_text_add(&out.text, "# EOF\n");
    if (out.text.cut)
        return SIMBA_EINVAL;
    *ret_length = out.text.length;
    return SIMBA_OK;
}
