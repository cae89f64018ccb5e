/*
 * migrate.c - `simba migrate`: moves the names of a store to another one. Owns what is printed, and
 * when it ends; move.c moves one name.
 *
 * The calls of the stores run on a thread of their own. A signal ends a wait; what is held then is
 * released.
 */
#include "cli/background.h"
#include "cli/move.h"
#include "cli/names.h"
#include "cli/store.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define LOOK_MS 200

/* After a signal: the requests of a move that is under way, and what gives back. */
#define END_MS 30000

static struct migrate {
    struct cli_output output;
    struct cli_move move;
    char from_url[CLI_URL_MAX];
    char to_url[CLI_URL_MAX];
    const struct cli *cli;
    int patterns_count;
    char **patterns;

    struct cli_names names;
    size_t counts[CLI_MOVED_STATES];
    simba_locker **kept; /* as many as names; NULL where there is none */
    bool keeps;          /* there is one, and all has been moved */
    int status;          /* the exit code */
} migrate = {.move = {.wait_ms = SIMBA_UNSET, .lock = PTHREAD_MUTEX_INITIALIZER}};

static const struct cli_option options[] = {
    {'n', "no-wait", NULL, "leave names that are held, and say so",
     CLI_FLAG(struct migrate, move.try_once)},
    {'w', "wait", "DURATION", "for each name, on each store; a plain number is seconds",
     CLI_SECONDS(struct migrate, move.wait_ms)},
    {0, "dry-run", NULL, "change nothing, print what would be moved",
     CLI_FLAG(struct migrate, move.dry_run)},
    CLI_OPTION_JSON("print an array of JSON objects"),
    CLI_OPTIONS_END,
};

/* ---- Printing -------------------------------------------------------------------------------- */

static int name_width(const struct migrate *m)
{
    size_t width = strlen("MUTEX");
    char name[SIMBA_MUTEX_MAX + 1];

    for (size_t i = 0; i < m->names.count; i++) {
        cli_text_printable(m->names.list[i].mutex, name, sizeof name);
        if (cli_text_width(name) > width)
            width = cli_text_width(name);
    }
    return (int)width;
}

static void print_row(const struct migrate *m, size_t index, const struct cli_moved *moved)
{
    static const char *const words[] = {"moved", "moved before", "held"};
    const char *mutex = m->names.list[index].mutex;
    bool planned = m->move.dry_run && moved->state == CLI_MOVED;
    bool held = moved->owner[0] != 0 && (planned || moved->state != CLI_MOVED);
    char name[SIMBA_MUTEX_MAX + 1];
    char owner[SIMBA_ID_MAX + 1];
    char fence[CLI_FENCE_MAX];
    char above[CLI_FENCE_MAX];

    if (m->output.json) {
        cli_json_string(stdout, index > 0 ? ",\n {\"mutex\":" : "{\"mutex\":", mutex);
        cli_json_string(stdout, ",\"state\":", planned ? "would move" : words[moved->state]);
        cli_json_fence(stdout, ",\"fence\":", moved->fence);
        cli_json_fence(stdout, ",\"next_above\":", moved->above);
        cli_json_string(stdout, ",\"owner\":", held ? moved->owner : "");
        fputs("}", stdout);
        return;
    }
    cli_text_printable(mutex, name, sizeof name);
    cli_text_printable(moved->owner, owner, sizeof owner);
    cli_text_fence(moved->fence, fence, sizeof fence);
    cli_text_fence(moved->above, above, sizeof above);
    printf("%s%*s  %-16s  %-16s  %s", name, name_width(m) - (int)cli_text_width(name), "", fence,
           above, planned ? "would move" : words[moved->state]);
    if (moved->state == CLI_MOVED_BEFORE)
        printf(": %s", owner);
    else if (held && planned)
        printf(": held by %s", owner);
    else if (held)
        printf(" on %s by %s", moved->on->shown, owner);
    putchar('\n');
}

static void print_heading(const struct migrate *m)
{
    if (m->output.json)
        fputs("[", stdout);
    else
        printf("%-*s  %-16s  %-16s  STATE\n", name_width(m), "MUTEX", "LAST TOKEN", "NEXT ABOVE");
}

static void print_summary(const struct migrate *m)
{
    if (m->output.json)
        puts("]");
    else
        printf("%zu %s, %zu moved before, %zu held\n", m->counts[CLI_MOVED],
               m->move.dry_run ? "to move" : "moved", m->counts[CLI_MOVED_BEFORE],
               m->counts[CLI_MOVED_HELD]);
}

/* ---- On the thread --------------------------------------------------------------------------- */

static int open_side(const struct migrate *m, const char *url, bool create, simba_client **client)
{
    struct cli one = *m->cli;
    struct cli_store_found found = {.origin = ""};
    struct simba_error error;
    int code;

    one.url = url;
    memcpy(found.url, url, strlen(url) + 1);
    code = create ? cli_store_open_found(&one, &found, client, &error)
                  : cli_store_open_existing(&one, client, &error);
    cli_store_forget(&found);
    return code == SIMBA_OK ? CLI_CONTINUE : cli_fail(&error);
}

/* A dry run must not create a file. */
static int open_stores(struct migrate *m)
{
    struct simba_error error;
    int status = open_side(m, m->from_url, false, &m->move.from.client);
    bool is_file = strncasecmp(m->to_url, "sqlite:", 7) == 0;

    if (status == CLI_CONTINUE && !(m->move.dry_run && is_file))
        status = open_side(m, m->to_url, true, &m->move.to.client);
    if (status == CLI_CONTINUE &&
        cli_move_prepare(&m->move, m->from_url, m->to_url, &error) != SIMBA_OK)
        status = cli_fail(&error);
    return status;
}

static int move_all(struct migrate *m)
{
    struct simba_error error;
    struct cli_moved moved;
    int code = SIMBA_OK;
    size_t i;

    print_heading(m);
    for (i = 0; i < m->names.count && code == SIMBA_OK; i++) {
        code = cli_move_is_cancelled(&m->move)
                   ? SIMBA_ECANCELED
                   : cli_move_mutex(&m->move, m->names.list[i].mutex, &moved, &error);
        if (code != SIMBA_OK)
            break;
        m->counts[moved.state]++;
        m->kept[i] = moved.kept;
        m->keeps = m->keeps || moved.kept != NULL;
        print_row(m, i, &moved);
        cli_output_flush();
    }
    print_summary(m);
    cli_output_flush();
    if (code == SIMBA_OK)
        return m->counts[CLI_MOVED_HELD] > 0 ? CLI_EXIT_CONTENDED : CLI_EXIT_OK;
    cli_message("stopped at '%s': what is moved stays moved, this name and those behind it are as "
                "they were; run it again to go on",
                m->names.list[i].mutex);
    return code == SIMBA_ECANCELED ? CLI_EXIT_OK : cli_fail(&error);
}

/* Until a signal comes. */
static int keep(struct migrate *m)
{
    cli_message("%s has no leases that outlive a program: the names stay marked there while this "
                "one runs, so leave it running until no contender uses that store",
                m->move.from.shown);
    while (!cli_move_is_cancelled(&m->move)) {
        for (size_t i = 0; i < m->names.count; i++)
            if (m->kept[i] != NULL && !simba_locker_is_held(m->kept[i])) {
                cli_message("'%s' is not marked any more on %s: a contender may own it there",
                            m->names.list[i].mutex, m->move.from.shown);
                return CLI_EXIT_LOST;
            }
        poll(NULL, 0, LOOK_MS);
    }
    return m->status;
}

static void work(void *user)
{
    struct migrate *m = user;

    m->status = open_stores(m);
    if (m->status == CLI_CONTINUE)
        m->status = cli_names_ask(m->move.from.client, m->patterns_count, m->patterns, &m->names);
    if (m->status == CLI_EXIT_OK) {
        cli_names_drop_invalid(&m->names);
        m->kept = calloc(m->names.count + 1, sizeof *m->kept);
        m->status = m->kept != NULL ? move_all(m) : cli_fail_system("the list of mutexes");
    }
    if (m->keeps)
        m->status = keep(m);
    for (size_t i = 0; m->keeps && i < m->names.count; i++)
        simba_locker_close(m->kept[i]);
    cli_store_close(m->move.from.client);
    cli_store_close(m->move.to.client);
}

static void cancel(void *user)
{
    cli_move_cancel(&((struct migrate *)user)->move);
}

/* ---- The verb -------------------------------------------------------------------------------- */

static int check(const struct migrate *m, const struct cli *cli, int argc, char **argv)
{
    if (argc < 2)
        return cli_usage_error(cli, "from where to where? Give two URLs: simba migrate "
                                    "sqlite:/var/lib/jobs.db redis://host");
    if (strlen(argv[0]) >= CLI_URL_MAX || strlen(argv[1]) >= CLI_URL_MAX)
        return cli_usage_error(cli, "a URL is longer than %d bytes", CLI_URL_MAX - 1);
    if (cli->url_given || cli->config_given)
        return cli_usage_error(cli, "the stores are FROM and TO, without --url and --config");
    if (m->move.try_once && m->move.wait_ms != SIMBA_UNSET)
        return cli_usage_error(cli, "--no-wait and --wait exclude each other");
    return CLI_CONTINUE;
}

static int run(struct cli *cli, int argc, char **argv)
{
    struct migrate *m = &migrate;
    const struct cli_background_work all = {
        .run = work, .cancel = cancel, .user = m, .end_ms = END_MS};

    m->status = check(m, cli, argc, argv);
    if (m->status != CLI_CONTINUE)
        return m->status;
    snprintf(m->from_url, sizeof m->from_url, "%s", argv[0]);
    snprintf(m->to_url, sizeof m->to_url, "%s", argv[1]);
    cli_store_hide_password(argv[0]);
    cli_store_hide_password(argv[1]);
    if (strcmp(m->from_url, m->to_url) == 0)
        return cli_usage_error(cli, "FROM and TO are the same store");
    m->cli = cli;
    m->move.quiet = cli->quiet;
    m->move.try_once = m->move.try_once || m->move.wait_ms == 0;
    m->patterns_count = argc - 2;
    m->patterns = argv + 2;
    int status = cli_background_run(&all);
    return status == CLI_CONTINUE || m->keeps ? m->status : status;
}

static const char details[] =
    "Moves the mutexes NAME, those whose names match a PATTERN, or all, from the\n"
    "store FROM to the store TO. Both are URLs. For each name it acquires the mutex\n"
    "on TO and then on FROM, so that nobody owns it on either. Then tokens on TO are\n"
    "raised above those of FROM, and the last and next run of 'simba schedule' and\n"
    "'simba lock --once-per' are taken along. At last the name is marked on FROM: it\n"
    "stays owned there, for a year, by 'moved~... (moved to TO)', which 'simba\n"
    "status' shows and waiters tell. So contenders can be changed over to TO one by\n"
    "one: those that still use FROM wait.\n"
    "\n"
    "A name that is held is waited for, without a limit; -w sets one, -n leaves such\n"
    "names. A failure or a signal releases what is held and leaves that name as it\n"
    "was. To run it again does no harm: names that were moved before are only listed.\n"
    "The way back is 'simba migrate TO FROM'. Contenders must not use TO before their\n"
    "names are moved.\n"
    "\n"
    "ZooKeeper has no lease that outlives a program: if FROM is one, migrate stays\n"
    "and holds the names until a signal ends it. On SQLite a boot of the host can end\n"
    "the marks.\n"
    "\n"
    "The table shows the last token on FROM, the number that all later tokens on TO\n"
    "are larger than, and the state. With --json it is an array of objects with\n"
    "mutex, state (moved, would move, moved before, held), fence, next_above (null:\n"
    "not known) and owner.\n"
    "\n"
    "Examples:\n"
    "  simba migrate sqlite:/var/lib/jobs.db redis://store1 --dry-run\n"
    "  simba migrate redis://store1 postgres://simba@db1/simba 'nightly-*' -w 10m\n"
    "\n"
    "Exit codes: 0, 70 when a mark was lost on ZooKeeper, 75 when some names were\n"
    "held, or 64, 69, 77, 78 as 'simba --help' lists them (78 also: the same store,\n"
    "or a column of TO cannot hold the tokens). 128 and the number of the signal that\n"
    "ended it.";

const struct cli_verb cli_verb_migrate = {
    .name = "migrate",
    .usage = "migrate FROM TO [NAME | PATTERN...] [OPTION...]",
    .summary = "move names to another store",
    .details = details,
    .options = options,
    .into = &migrate,
    .operands = CLI_OPERANDS_ANY,
    .run = run,
};
