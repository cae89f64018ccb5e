/*
 * prune.c - `simba prune`: removes the names that nobody uses.
 *
 * Most stores do not know when a mutex was used last. But its revision changes with every use, so
 * this verb writes the revision of each free mutex into the property `unused-since`:
 *
 *     first run     the revision is 7: write "7"
 *     later runs    it is still 7, and "7" was written D ago: remove the record of revision 7
 *                   it is another one: write that
 *
 * The store removes the record only if its revision is the one that was read, so a contender that
 * acquires meanwhile loses nothing.
 */
#include "base/time.h"
#include "cli/cli.h"
#include "cli/last_run.h"
#include "cli/names.h"
#include "cli/store.h"

#include <inttypes.h>
#include <string.h>

#define TIMEOUT_MS 10000
#define UNUSED_SINCE "unused-since"
#define REASON_MAX (SIMBA_ID_MAX + 64)

enum action { KEPT, NOTED, REMOVED, ACTIONS };

static struct prune {
    struct cli_output output;
    int64_t unused_ms; /* -1: not given */
    bool dry_run;
    bool named; /* the names were given: the user is told why one of them stays */
    simba_client *client;
    size_t counts[ACTIONS];
} prune = {.unused_ms = -1};

static const struct cli_option options[] = {
    {0, "unused-for", "D", "remove what nobody has used for so long; 0s: what is free (required)",
     CLI_DURATION(struct prune, unused_ms)},
    {'n', "dry-run", NULL, "change nothing, print what would be removed",
     CLI_FLAG(struct prune, dry_run)},
    CLI_OPTION_JSON("print an array of JSON objects"),
    CLI_OPTIONS_END,
};

/* What becomes of one mutex, and why. */
struct verdict {
    enum action action;
    char reason[REASON_MAX];
};

static void keep(struct verdict *verdict, const char *format, const char *value)
{
    verdict->action = KEPT;
    snprintf(verdict->reason, sizeof verdict->reason, format, value);
}

/* ---- Whether it is in use -------------------------------------------------------------------- */

static int check_queue(const char *mutex, struct verdict *verdict, struct simba_error *error)
{
    struct simba_waiter *queue = NULL;
    size_t count = 0;
    int64_t now_ms = simba_now_ms();
    int code = simba_client_queue(prune.client, mutex, TIMEOUT_MS, &queue, &count, error);

    if (code == SIMBA_EUNSUPPORTED)
        return SIMBA_OK;
    /* One that has waited for longer than that for a mutex that is free has died. */
    for (size_t i = 0; code == SIMBA_OK && i < count && verdict->action != KEPT; i++)
        if (queue[i].since_ms == 0 || now_ms - queue[i].since_ms <= prune.unused_ms)
            keep(verdict, "%s waits", queue[i].id);
    simba_free(queue);
    return code;
}

static int check_runs(const char *mutex, struct verdict *verdict, struct simba_error *error)
{
    struct simba_property property = {.written_ms = 0};
    int64_t next_ms = 0;
    int code = SIMBA_OK;

    for (size_t i = 0; cli_run_properties[i] != NULL && code == SIMBA_OK; i++) {
        code = simba_client_property_get(prune.client, mutex, cli_run_properties[i], TIMEOUT_MS,
                                         &property, error);
        if (code == SIMBA_OK && property.written_ms != 0 &&
            sb_time_between(property.store_ms, property.written_ms) < prune.unused_ms)
            keep(verdict, "%s", "a run was written down within that time");
    }
    if (code == SIMBA_OK)
        code = cli_next_run_read(prune.client, mutex, &next_ms, error);
    if (code == SIMBA_OK && next_ms > property.store_ms)
        keep(verdict, "%s", "its next run is ahead");
    return code;
}

/* The gate of a semaphore keeps the number of slots, and is free while all are held. A slot beyond
 * that number can be held still: from before a resize. */
static int check_slots(const char *mutex, struct verdict *verdict, struct simba_error *error)
{
    char slot[SIMBA_MUTEX_MAX + 16];
    struct simba_owner owner;
    uint64_t revision;
    int slots = 0; /* stays 0 where the name is no semaphore */
    int code = simba_semaphore_slots(prune.client, mutex, TIMEOUT_MS, &slots, error);

    if (code == SIMBA_EINVAL || code == SIMBA_ECONFIG) /* no semaphore has that name or number */
        return SIMBA_OK;
    for (int i = 0; slots > 0 && code == SIMBA_OK && i < SIMBA_SLOTS_MAX; i++) {
        snprintf(slot, sizeof slot, "%s#%d", mutex, i);
        code = simba_client_revision(prune.client, slot, TIMEOUT_MS, &owner, &revision, error);
        if (code == SIMBA_OK && owner.id[0] != '\0') {
            keep(verdict, "%s holds a slot", owner.id);
            break;
        }
    }
    return code;
}

/* By the revision that a run before has noted. Notes it otherwise. */
static int check_since(const char *mutex, uint64_t revision, struct verdict *verdict,
                       struct simba_error *error)
{
    struct simba_property noted;
    char value[24];
    char since[32];
    int64_t unused_ms;
    int code =
        simba_client_property_get(prune.client, mutex, UNUSED_SINCE, TIMEOUT_MS, &noted, error);

    if (code != SIMBA_OK)
        return code;
    snprintf(value, sizeof value, "%" PRIu64, revision);
    if (strcmp(noted.value, value) != 0) {
        verdict->action = NOTED;
        snprintf(verdict->reason, sizeof verdict->reason, "free, seen for the first time");
        return prune.dry_run ? SIMBA_OK
                             : simba_client_property_set(prune.client, mutex, UNUSED_SINCE, value,
                                                         NULL, TIMEOUT_MS, error);
    }
    unused_ms = sb_max(sb_time_between(noted.store_ms, noted.written_ms), 0);
    simba_duration_format(unused_ms - unused_ms % (unused_ms < 1000 ? 1 : 1000), since,
                          sizeof since);
    if (unused_ms < prune.unused_ms)
        keep(verdict, "free, unused for %s so far", since);
    else
        snprintf(verdict->reason, sizeof verdict->reason, "unused for %s", since);
    return SIMBA_OK;
}

/* ---- One mutex ------------------------------------------------------------------------------- */

static int judge(const char *mutex, uint64_t *ret_revision, struct verdict *verdict,
                 struct simba_error *error)
{
    struct simba_owner owner;
    int code = simba_client_revision(prune.client, mutex, TIMEOUT_MS, &owner, ret_revision, error);

    if (code != SIMBA_OK)
        return code;
    if (owner.id[0] != '\0' || *ret_revision == 0) {
        keep(verdict, owner.id[0] != '\0' ? "held by %s" : "the store does not know it", owner.id);
        return SIMBA_OK;
    }
    code = check_queue(mutex, verdict, error);
    if (code == SIMBA_OK && verdict->action == REMOVED)
        code = check_runs(mutex, verdict, error);
    if (code == SIMBA_OK && verdict->action == REMOVED)
        code = check_slots(mutex, verdict, error);
    if (code == SIMBA_OK && verdict->action == REMOVED && prune.unused_ms > 0)
        code = check_since(mutex, *ret_revision, verdict, error);
    return code;
}

static int tend(const char *mutex, struct verdict *verdict, struct simba_error *error)
{
    uint64_t revision = 0;
    bool done = false;
    int code = judge(mutex, &revision, verdict, error);

    if (code != SIMBA_OK || verdict->action != REMOVED || prune.dry_run)
        return code;
    code = simba_client_forget(prune.client, mutex, revision, TIMEOUT_MS, &done, error);
    if (code == SIMBA_OK && !done)
        keep(verdict, "%s", "used just now, or its tokens are ahead of the clock");
    return code;
}

/* ---- Printing -------------------------------------------------------------------------------- */

static void print_verdict(const char *mutex, const struct verdict *verdict)
{
    static const char *const words[ACTIONS] = {"kept", "noted", "removed"};
    char name[SIMBA_MUTEX_MAX + 1];
    char reason[REASON_MAX];

    cli_text_printable(mutex, name, sizeof name);
    cli_text_printable(verdict->reason, reason, sizeof reason);
    if (prune.output.json) {
        size_t before = prune.counts[KEPT] + prune.counts[NOTED] + prune.counts[REMOVED];

        cli_json_string(stdout, before > 1 ? ",\n {\"mutex\":" : "{\"mutex\":", mutex);
        cli_json_string(stdout, ",\"action\":", words[verdict->action]);
        cli_json_string(stdout, ",\"reason\":", verdict->reason);
        fputs("}", stdout);
    } else if (verdict->action == REMOVED) {
        cli_result("%s %s%s%s", prune.dry_run ? "would remove" : "removed", name,
                   reason[0] != '\0' ? ", " : "", reason);
    } else if (prune.dry_run || (prune.named && verdict->action == KEPT)) {
        cli_result("%s %s: %s", prune.dry_run ? "would keep" : "kept", name, reason);
    }
}

static void print_summary(void)
{
    char unused[32];

    if (prune.output.json) {
        puts("]");
        return;
    }
    printf("%zu %s, %zu kept", prune.counts[REMOVED], prune.dry_run ? "to remove" : "removed",
           prune.counts[KEPT]);
    if (prune.counts[NOTED] > 0)
        printf(", %zu noted as free: run this again after %s", prune.counts[NOTED],
               simba_duration_format(prune.unused_ms, unused, sizeof unused));
    putchar('\n');
}

/* ---- The verb -------------------------------------------------------------------------------- */

static int tend_all(const struct cli_names *names)
{
    struct simba_error error;

    fputs(prune.output.json ? "[" : "", stdout);
    for (size_t i = 0; i < names->count; i++) {
        struct verdict verdict = {.action = REMOVED};

        if (tend(names->list[i].mutex, &verdict, &error) != SIMBA_OK) {
            print_summary();
            return cli_fail(&error);
        }
        prune.counts[verdict.action]++;
        print_verdict(names->list[i].mutex, &verdict);
    }
    print_summary();
    return CLI_EXIT_OK;
}

static int run(struct cli *cli, int argc, char **argv)
{
    struct cli_names names = {.list = NULL};
    struct simba_error error;

    if (prune.unused_ms < 0)
        return cli_usage_error(cli, "--unused-for says how long nobody may have used what is "
                                    "removed: --unused-for 30d");
    prune.named = argc > 0;
    int code = cli_store_open_existing(cli, &prune.client, &error);
    if (code == SIMBA_ENOTFOUND)
        return tend_all(&names);
    if (code != SIMBA_OK)
        return cli_fail(&error);
    int status = cli_names_ask(prune.client, argc, argv, &names);
    if (status == CLI_EXIT_OK) {
        cli_names_drop_invalid(&names);
        status = tend_all(&names);
    }
    cli_names_free(&names);
    cli_store_close(prune.client);
    return status;
}

static const char details[] =
    "Removes the mutexes NAME, those whose names match a PATTERN, or all, that nobody\n"
    "has used for D: their records, and what was remembered of them. A mutex stays\n"
    "that is held, that a contender waits for, or whose last or next run 'simba\n"
    "schedule' or 'simba lock --once-per' has written within D. So does a semaphore\n"
    "while one of its slots is held. With it goes the number of its slots: the next\n"
    "--slots sets it. A contender that comes meanwhile loses nothing. Fencing tokens\n"
    "do not go back: a name that is used again begins above every token that it had.\n"
    "\n"
    "Stores do not know when a mutex was used last. So the first run notes which ones\n"
    "are free, and a run D later removes those that nobody has used since: let cron\n"
    "run it every day. With --unused-for 0s all that are free go at once.\n"
    "\n"
    "With --json it is an array of objects with mutex, action (removed, kept, noted)\n"
    "and reason.\n"
    "\n"
    "Examples:\n"
    "  simba prune --unused-for 30d\n"
    "  simba prune 'ci-*' --unused-for 0s --dry-run\n"
    "\n"
    "Exit codes: 0, or 64, 69, 77, 78 as 'simba --help' lists them.";

const struct cli_verb cli_verb_prune = {
    .name = "prune",
    .usage = "prune [NAME | PATTERN...] --unused-for D [OPTION...]",
    .summary = "remove the names that nobody uses",
    .details = details,
    .options = options,
    .into = &prune,
    .operands = CLI_OPERANDS_ANY,
    .run = run,
};
