/*
 * instrument.c - `simba bench` and `simba tck`: their command lines, and the store that they run
 * on.
 */
#include "cli/instrument.h"

#include "base/error.h"
#include "base/random.h"
#include "base/trusted_file.h"
#include "cli/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- bench ----------------------------------------------------------------------------------- */

static struct cli_bench bench;

static const struct cli_option bench_options[] = {
    {0, "count", "N", "measurements in a round (each question has its own)",
     CLI_NUMBER(struct cli_bench, count, 1, 100000000)},
    {0, "rounds", "N", "rounds (each question has its own)",
     CLI_NUMBER(struct cli_bench, rounds, 1, CLI_BENCH_ROUNDS_MAX)},
    {0, "mutexes", "N", "mutexes that 'many' holds (1000)",
     CLI_NUMBER(struct cli_bench, mutexes, 1, 1000000)},
    {0, "contenders", "N", "contenders of 'contention' (1000)",
     CLI_NUMBER(struct cli_bench, contenders, 2, 100000)},
    {0, "processes", "N", "processes that they are spread over (4)",
     CLI_NUMBER(struct cli_bench, processes, 1, 64)},
    {0, "window", "DURATION", "how long a round of contention lasts (1s)",
     CLI_INTERVAL(struct cli_bench, window_ms)},
    {0, "json", NULL, "print JSON", CLI_FLAG(struct cli_bench, json)},
    CLI_OPTIONS_END,
};

static const char bench_details[] =
    "Measures the store through the library, beside what the store's own client\n"
    "library needs for the same in the same run. Without QUESTION it asks all of\n"
    "them:\n"
    "\n"
    "  cycle       acquire + release of a mutex that nobody else wants\n"
    "  beside      the same while 40 clients wait for other mutexes\n"
    "  handover    hand-over to a waiter in another process\n"
    "  many        mutexes held by one client through several renewals\n"
    "  contention  one mutex that many contenders in several processes want\n"
    "  failover    kill -9 of an owner with waiters in other processes\n"
    "  is-owner    to ask whether one owns\n"
    "\n"
    "Leases are 1s + 2s unless the URL, --ttl or --transition say otherwise.\n"
    "'failover' kills at most 100 owners in a round; where the store has turns they\n"
    "are those of the URL, or 5ms. Numbers of a machine that does other things as\n"
    "well are worth little: look at the spread.\n"
    "\n"
    "All mutexes are named bench-... with a random part, and are removed afterwards,\n"
    "also by Ctrl-C. After a kill -9 they stay: remove what begins with bench- by the\n"
    "store's own tools. Where no store is named it measures an SQLite file of its own\n"
    "in TMPDIR.\n"
    "\n"
    "Examples:\n"
    "  simba bench\n"
    "  simba bench cycle handover --url redis://localhost\n"
    "  simba bench many --mutexes 100000 --ttl 10s --transition 6s --json\n"
    "\n"
    "Exit codes: 0, or 64, 69, 71, 74, 77, 78, 128+n as 'simba --help' lists them.";

const struct cli_verb cli_verb_bench = {
    .name = "bench",
    .usage = "bench [OPTION...] [QUESTION...]",
    .summary = "measure a store through the library",
    .details = bench_details,
    .options = bench_options,
    .into = &bench,
    .operands = CLI_OPERANDS_ANY,
    .run = cli_instrument_main,
};

/* ---- tck ------------------------------------------------------------------------------------- */

static struct cli_tck tck;

/* A bare number is seconds, as the name of the option promises. */
static bool set_seconds(void *into, const char *value)
{
    int seconds = 0;

    (void)into;
    if (value[0] == 0 || value[strspn(value, "0123456789")] != 0)
        return cli_option_duration("--seconds", value, 0, &tck.contend_ms);
    if (!cli_option_number("--seconds", value, 1, 86400, &seconds))
        return false;
    tck.contend_ms = (int64_t)seconds * 1000;
    return true;
}

static const struct cli_option tck_options[] = {
    {0, "case", "NAME", "run only this case", CLI_TEXT(struct cli_tck, only)},
    {0, "seconds", "DURATION", "how long multi_contend lasts (5s)", CLI_CALL(set_seconds)},
    {0, "contenders", "N", "how many take part in multi_contend (10)",
     CLI_NUMBER(struct cli_tck, contenders, 2, 512)},
    {0, "processes", "N", "run multi_contend across N processes, too (1)",
     CLI_NUMBER(struct cli_tck, processes, 1, 64)},
    {0, "list", NULL, "print the names of the cases and run none", CLI_FLAG(struct cli_tck, list)},
    CLI_OPTIONS_END,
};

static const char tck_details[] =
    "Runs the compatibility kit against the store: the cases that every backend must\n"
    "pass. It uses short leases, so a slow store may fail; --ttl and --transition\n"
    "change them. The mutexes that it creates are named tck-... with a random part,\n"
    "and are free afterwards; a store that never forgets a name keeps them. If no\n"
    "store is named, it runs on a file of its own.\n"
    "\n"
    "Examples:\n"
    "  simba tck --url sqlite:kit.db\n"
    "  simba tck --case multi_contend --seconds 30 --processes 4\n"
    "\n"
    "Exit codes: 0 when all cases passed, 1 when one failed, or 64, 69, 77, 78 as\n"
    "'simba --help' lists them when the kit could not run.";

const struct cli_verb cli_verb_tck = {
    .name = "tck",
    .usage = "tck [OPTION...]",
    .summary = "run the compatibility kit against a store",
    .details = tck_details,
    .options = tck_options,
    .into = &tck,
    .operands = CLI_OPERANDS_NONE,
    .run = cli_instrument_main,
};

/* ---- The store ------------------------------------------------------------------------------- */

#define NAME_TRIES 100

/* A random name, for another user may have taken any other in a folder with the sticky bit. Returns
 * 0 or an errno. */
static int make_folder(const char *verb, struct cli_scratch *scratch)
{
    int code = EEXIST;

    for (int i = 0; i < NAME_TRIES && code == EEXIST; i++) {
        snprintf(scratch->name, sizeof scratch->name, "simba-%s-%016" PRIx64, verb,
                 sb_random_seed());
        code = mkdirat(scratch->parent, scratch->name, 0700) == 0 ? 0 : errno;
    }
    if (code != 0)
        return code;
    scratch->folder =
        openat(scratch->parent, scratch->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (scratch->folder >= 0)
        return 0;
    code = errno;
    unlinkat(scratch->parent, scratch->name, AT_REMOVEDIR);
    return code;
}

/* Refuses a TMPDIR in which another user could replace the folder: SQLite opens its file by the
 * path, which is left in `path`. */
static int create_scratch(const char *verb, struct cli_scratch *scratch, char path[PATH_MAX],
                          struct simba_error *error)
{
    const char *parent = getenv("TMPDIR");

    if (parent == NULL || parent[0] != '/')
        parent = "/tmp";
    if (strlen(parent) + sizeof scratch->name + sizeof "/" CLI_SCRATCH_FILE > PATH_MAX)
        return sb_error_set(error, SIMBA_ECONFIG, "the path in TMPDIR is too long");
    int code = sb_trusted_folder("folder TMPDIR", parent, &scratch->parent, error);
    if (code != SIMBA_OK)
        return code;
    int system_code = make_folder(verb, scratch);
    if (system_code != 0) {
        close(scratch->parent);
        return sb_error_set(error, SIMBA_ECONFIG, "cannot create a folder in %s: %s", parent,
                            strerror(system_code));
    }
    snprintf(path, PATH_MAX, "%s/%s/" CLI_SCRATCH_FILE, parent, scratch->name);
    return SIMBA_OK;
}

/* Takes the descriptors. */
static void remove_scratch(struct cli_scratch *scratch)
{
    DIR *dir = fdopendir(scratch->folder);

    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;)
        if (strncmp(entry->d_name, CLI_SCRATCH_FILE, strlen(CLI_SCRATCH_FILE)) == 0)
            unlinkat(dirfd(dir), entry->d_name, 0);
    if (unlinkat(scratch->parent, scratch->name, AT_REMOVEDIR) != 0)
        cli_message("the folder %s in TMPDIR is left behind: %s", scratch->name, strerror(errno));
    if (dir != NULL)
        closedir(dir);
    else
        close(scratch->folder);
    close(scratch->parent);
}

int cli_instrument_run(const struct cli *cli, cli_instrument *run, void *user)
{
    struct cli_store_found found;
    struct cli_scratch scratch;
    char path[PATH_MAX];
    struct simba_error error;

    int code = cli_store_find(cli, true, &found, &error);
    if (code == SIMBA_OK)
        return run(cli, found.url, NULL, user);
    if (code == SIMBA_ENOTFOUND)
        code = create_scratch(cli->verb->name, &scratch, path, &error);
    if (code != SIMBA_OK)
        return cli_fail(&error);
    int status;
    if (cli_store_file_url(path, found.url, sizeof found.url, &error) == SIMBA_OK) {
        if (!cli->quiet)
            cli_message("no store is named, so '%s' uses an SQLite file that is removed afterwards",
                        cli->verb->name);
        status = run(cli, found.url, &scratch, user);
    } else {
        status = cli_fail(&error);
    }
    remove_scratch(&scratch);
    return status;
}
