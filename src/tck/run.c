/*
 * run.c - the list of cases, and the runner that bounds each of them in time.
 *
 * A case runs on a thread of its own. When the library hangs, the case has failed; its thread and
 * what it uses are left alone, and freed should it come back after all.
 */
#include "tck/kit.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/options.h"
#include "base/thread.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct entry {
    const char *name;
    sb_case *run;
    bool forks; /* before there are threads, hence first, and without a thread of its own */
};

static const struct entry entries[] = {
    {"multi_process", sb_case_multi_process, true},
    {"start", sb_case_start, false},
    {"restart", sb_case_restart, false},
    {"guard", sb_case_guard, false},
    {"multi_contend", sb_case_multi_contend, false},
    {"schedule", sb_case_schedule, false},
    {"contract", sb_case_contract, false},
    {"handover_order", sb_case_handover_order, false},
    {"fence_grows", sb_case_fence_grows, false},
    {"equal_ids", sb_case_equal_ids, false},
    {"self_fence", sb_case_self_fence, false},
    {"late_reply", sb_case_late_reply, false},
    {"observe", sb_case_observe, false},
    {"lock_timeout", sb_case_lock_timeout, false},
    {"stop_in_callback", sb_case_stop_in_callback, false},
    {"properties", sb_case_properties, false},
    {"semaphore", sb_case_semaphore, false},
    {"set", sb_case_set, false},
};

#define ENTRY_COUNT (sizeof(entries) / sizeof(entries[0]))

const char *simba_tck_case(size_t index)
{
    return index < ENTRY_COUNT ? entries[index].name : NULL;
}

/* ---- One case, bounded in time --------------------------------------------------------------- */

/* Shared by the runner and the case's thread; the last user frees it. */
struct job {
    const struct entry *entry;
    struct sb_kit *kit;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
    bool abandoned;
};

static struct job *create_job(const struct entry *entry, struct sb_kit *kit)
{
    struct job *job = sb_alloc_zero(sizeof(*job));

    if (job == NULL)
        return NULL;
    job->entry = entry;
    job->kit = kit;
    pthread_mutex_init(&job->lock, NULL);
    pthread_cond_init(&job->changed, NULL);
    return job;
}

static void free_job(struct job *job)
{
    pthread_cond_destroy(&job->changed);
    pthread_mutex_destroy(&job->lock);
    sb_free(job);
}

static void *run_job(void *argument)
{
    struct job *job = argument;
    bool abandoned;

    job->entry->run(job->kit);
    sb_kit_close(job->kit);
    pthread_mutex_lock(&job->lock);
    job->done = true;
    abandoned = job->abandoned;
    pthread_cond_signal(&job->changed);
    pthread_mutex_unlock(&job->lock);
    if (abandoned) {
        sb_kit_free(job->kit);
        free_job(job);
    }
    return NULL;
}

/* Every wait of a case is bounded by the kit's patience, and the first that is in vain ends the
 * case; then there are stops to wait for. */
static int64_t bound_ms(const struct sb_kit *kit)
{
    return kit->options.contend_ms + 3 * sb_kit_patience_ms(kit);
}

static bool await_job(struct job *job, int64_t for_ms)
{
    int64_t until_ms = simba_now_ms() + for_ms;

    pthread_mutex_lock(&job->lock);
    while (!job->done && sb_cond_wait(&job->changed, &job->lock, until_ms))
        continue;
    bool done = job->done;
    job->abandoned = !done;
    pthread_mutex_unlock(&job->lock);
    return done;
}

/* Returns whether the case came back; if not, the kit is no longer the caller's. */
static bool run_bounded(const struct entry *entry, struct sb_kit *kit)
{
    struct job *job = create_job(entry, kit);
    int64_t for_ms = bound_ms(kit);
    pthread_t thread;

    if (!sb_kit_check(kit, job != NULL, "out of memory"))
        return true;
    if (!sb_kit_check(kit, sb_thread_start(&thread, "tck-case", run_job, job) == 0,
                      "no thread could be started")) {
        free_job(job);
        return true;
    }
    if (!await_job(job, for_ms)) {
        pthread_detach(thread);
        return false;
    }
    pthread_join(thread, NULL);
    free_job(job);
    return true;
}

/* ---- The whole run --------------------------------------------------------------------------- */

struct tally {
    const struct simba_tck_options *options;
    int passed;
    int failed;
};

static void report(const struct simba_tck_options *options, const char *name, int passed,
                   const char *text)
{
    if (options->report != NULL)
        options->report(options->user, name, passed, text);
}

static void count(struct tally *tally, const char *name, bool passed, const char *text)
{
    if (passed)
        tally->passed++;
    else
        tally->failed++;
    report(tally->options, name, passed ? 1 : 0, text);
}

static int run_entry(struct tally *tally, const struct entry *entry, struct simba_error *error)
{
    struct sb_kit *kit;
    bool returned = true;
    char text[64];
    int code = sb_kit_create(tally->options, entry->name, &kit, error);

    if (code != SIMBA_OK)
        return code;
    report(tally->options, entry->name, -1, "");
    snprintf(text, sizeof(text), "did not end within %" PRId64 " ms", bound_ms(kit));
    if (entry->forks)
        entry->run(kit);
    else
        returned = run_bounded(entry, kit);
    if (!returned) {
        count(tally, entry->name, false, text);
        return SIMBA_OK;
    }
    count(tally, entry->name, kit->failures == 0, kit->failures == 0 ? kit->note : kit->failure);
    sb_kit_free(kit);
    return SIMBA_OK;
}

/* multi_process is multi_contend across processes, and goes with it where it makes sense. */
static bool is_selected(const struct simba_tck_options *options, const struct entry *entry)
{
    if (entry->forks && options->processes < 2)
        return false;
    return options->only == NULL || strcmp(options->only, entry->name) == 0 ||
           (entry->forks && strcmp(options->only, "multi_contend") == 0);
}

static int check_only(const struct simba_tck_options *options, struct simba_error *error)
{
    if (options->only == NULL)
        return SIMBA_OK;
    for (size_t i = 0; i < ENTRY_COUNT; i++) {
        if (strcmp(options->only, entries[i].name) != 0)
            continue;
        if (is_selected(options, &entries[i]))
            return SIMBA_OK;
        return sb_error_set(error, SIMBA_EINVAL, "the case '%s' needs more than one process",
                            options->only);
    }
    return sb_error_set(error, SIMBA_EINVAL, "the kit has no case '%s'", options->only);
}

static int check_options(const struct simba_tck_options *options, struct simba_error *error)
{
    if (options->url == NULL)
        return sb_error_set(error, SIMBA_EMISUSE, "the kit needs the URL of a store");
    if (options->ttl_ms <= 0 || options->transition_ms <= 0 || options->contend_ms <= 0)
        return sb_error_set(error, SIMBA_EINVAL, "the kit's times must be more than 0");
    if (options->contenders < 2 || options->contenders > SB_KIT_CONTENDERS_MAX)
        return sb_error_set(error, SIMBA_EINVAL, "%d contenders: a contest has 2 to %d",
                            options->contenders, SB_KIT_CONTENDERS_MAX);
    if (options->processes < 1 || options->processes > SB_KIT_PROCESSES_MAX)
        return sb_error_set(error, SIMBA_EINVAL, "%d processes: a contest has 1 to %d",
                            options->processes, SB_KIT_PROCESSES_MAX);
    return check_only(options, error);
}

/* Tells a store that cannot be used from a backend that fails. */
static int check_store(const struct simba_tck_options *options, struct simba_error *error)
{
    struct simba_client_options client_options = SIMBA_CLIENT_OPTIONS_INIT;
    simba_client *client;
    int code;

    client_options.backend = options->backend;
    client_options.ttl_ms = options->ttl_ms;
    client_options.transition_ms = options->transition_ms;
    code = simba_client_open(options->url, &client_options, &client, error);
    return code == SIMBA_OK ? simba_client_close(client, error) : code;
}

static int run_entries(struct tally *tally, bool forks, struct simba_error *error)
{
    for (size_t i = 0; i < ENTRY_COUNT; i++) {
        int code = SIMBA_OK;

        if (entries[i].forks == forks && is_selected(tally->options, &entries[i]))
            code = run_entry(tally, &entries[i], error);
        if (code != SIMBA_OK)
            return code;
    }
    return SIMBA_OK;
}

int simba_tck_run(const struct simba_tck_options *given, int *ret_passed, int *ret_failed,
                  struct simba_error *error)
{
    static const struct sb_options_form form = {"SIMBA_TCK_OPTIONS_INIT",
                                                offsetof(struct simba_tck_options, backend),
                                                sizeof(struct simba_tck_options)};
    struct simba_tck_options options = SIMBA_TCK_OPTIONS_INIT;
    struct tally tally = {.options = &options};
    int code = sb_options_read(&form, given, &options, error);

    if (code == SIMBA_OK)
        code = check_options(&options, error);
    if (code == SIMBA_OK)
        code = run_entries(&tally, true, error);
    if (code == SIMBA_OK)
        code = check_store(&options, error);
    if (code == SIMBA_OK)
        code = run_entries(&tally, false, error);
    if (code != SIMBA_OK)
        return code;
    if (ret_passed != NULL)
        *ret_passed = tally.passed;
    if (ret_failed != NULL)
        *ret_failed = tally.failed;
    if (tally.failed == 0)
        return SIMBA_OK;
    return sb_error_set(error, SIMBA_ESTORE, "%d of %d cases failed", tally.failed,
                        tally.passed + tally.failed);
}
