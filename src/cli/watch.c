/*
 * watch.c - `simba watch`: prints every change of ownership as it happens.
 *
 * The callbacks of all observers run on one thread and print. The thread that starts the observers
 * prints the first line of each mutex, and what its observer read first. Where no names are given,
 * one more thread looks for new mutexes. The main thread waits for a signal or for the reader to
 * leave.
 */
#include "cli/background.h"
#include "cli/cli.h"
#include "cli/events.h"
#include "cli/store.h"

#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define TIMEOUT_MS 10000
#define LINE_MAX_BYTES 1024

/* How often the default store is tried until another process has created it. */
#define SEARCH_MS 200

/* How often all mutexes are listed, where no names are given. */
#define DISCOVER_MS 1000

/* How often an observer is checked until it has read the store for the first time. */
#define FIRST_READ_MS 10

struct watched {
    struct watched *next;
    struct watch *watch;
    char mutex[SIMBA_MUTEX_MAX + 1];
    simba_observer *observer;

    /* The lock's: */
    bool shown;                   /* its first line was printed */
    bool told;                    /* its observer has told of a change */
    char owner[SIMBA_ID_MAX + 1]; /* as it was printed last */
    uint64_t fence;
};

struct watch {
    struct cli_output output;
    const struct cli *cli;
    bool follows_all; /* no names were given */
    int broken_fd;    /* readable when standard output cannot be written any more */
    int stop_fd;      /* readable when the thread that looks for new mutexes is to end */
    simba_client *client;
    struct watched *list; /* in the order of the command line; new ones come last */
    struct watched **end;
    pthread_t discoverer;
    bool discovers;       /* that thread runs */
    pthread_mutex_t lock; /* of the thread that prints */
    int code;             /* the result of the start */
    struct simba_error error;
};

static struct watch this_watch = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const struct cli_option options[] = {
    CLI_OPTION_JSON("print one JSON object a line"),
    CLI_OPTIONS_END,
};

/* ---- Printing -------------------------------------------------------------------------------- */

static void print_json(const struct watched *watched, const char *before,
                       const struct simba_owner *after, const struct timespec *at)
{
    printf("{\"at\":%" PRId64, (int64_t)at->tv_sec * 1000 + (int64_t)at->tv_nsec / 1000000);
    cli_json_string(stdout, ",\"mutex\":", watched->mutex);
    cli_json_string(stdout, ",\"before\":", before);
    cli_json_string(stdout, ",\"after\":", after->id);
    cli_json_fence(stdout, ",\"fence\":", after->fence);
    fputs("}\n", stdout);
}

static void print_text(const struct watched *watched, const char *before,
                       const struct simba_owner *after, const struct timespec *at)
{
    char mutex[SIMBA_MUTEX_MAX + 1];
    char from[SIMBA_ID_MAX + 1];
    char to[SIMBA_ID_MAX + 1];
    char fence[CLI_FENCE_MAX];
    char time[32];
    char line[LINE_MAX_BYTES];
    struct sb_text text;
    struct tm tm;

    cli_text_printable(watched->mutex, mutex, sizeof mutex);
    cli_text_printable(before, from, sizeof from);
    cli_text_printable(after->id, to, sizeof to);
    cli_text_fence(after->fence, fence, sizeof fence);
    localtime_r(&at->tv_sec, &tm);
    strftime(time, sizeof time, "%Y-%m-%d %H:%M:%S", &tm);
    sb_text_init(&text, line, sizeof line);
    sb_text_add(&text, "%s.%03d", time, (int)(at->tv_nsec / 1000000));
    if (to[0] == 0)
        sb_text_add(&text, "  %s  free", mutex);
    else
        sb_text_add(&text, "  %s  owned by %s, fence %s", mutex, to, fence);
    sb_text_add(&text, "%s%s", from[0] != 0 ? ", was owned by " : "", from);
    cli_result("%s", line);
}

static void print_change(struct watched *watched, const char *before,
                         const struct simba_owner *after)
{
    struct timespec at;

    clock_gettime(CLOCK_REALTIME, &at);
    if (watched->watch->output.json)
        print_json(watched, before, after, &at);
    else
        print_text(watched, before, after, &at);
    if (!cli_output_flush())
        eventfd_write(watched->watch->broken_fd, 1);
}

/* With the lock held. Prints a line where the owner differs from the last line of this mutex. */
static void follow_locked(struct watched *watched, const struct simba_owner *after)
{
    char before[SIMBA_ID_MAX + 1];

    if (watched->shown && strcmp(watched->owner, after->id) == 0 && watched->fence == after->fence)
        return;
    /* Of all mutexes most are free, which is no news. */
    bool is_news = watched->shown || after->id[0] != '\0' || !watched->watch->follows_all;
    watched->shown = true;
    memcpy(before, watched->owner, sizeof before);
    memcpy(watched->owner, after->id, sizeof watched->owner);
    watched->fence = after->fence;
    if (is_news)
        print_change(watched, before, after);
}

static void follow(struct watched *watched, const struct simba_owner *after)
{
    pthread_mutex_lock(&watched->watch->lock);
    follow_locked(watched, after);
    pthread_mutex_unlock(&watched->watch->lock);
}

static void on_notify(void *user, const struct simba_state *state)
{
    struct watched *watched = user;

    pthread_mutex_lock(&watched->watch->lock);
    watched->told = true;
    follow_locked(watched, &state->after);
    pthread_mutex_unlock(&watched->watch->lock);
}

/* ---- Starting -------------------------------------------------------------------------------- */

/* The first line of each mutex is its owner now, also when it has none. */
static int print_first(struct watched *watched, struct simba_error *error)
{
    struct simba_mutex_status *list = NULL;
    struct simba_owner owner = SIMBA_OWNER_NONE;
    size_t count = 0;

    int code = simba_client_status(watched->watch->client, watched->mutex, TIMEOUT_MS, &list,
                                   &count, error);
    if (code != SIMBA_OK)
        return code;
    if (count > 0 && simba_owner_has_owner(&list[0].owner, simba_now_ms()))
        owner = list[0].owner;
    simba_free(list);
    follow(watched, &owner);
    return SIMBA_OK;
}

static int start_one(struct watched *watched, struct simba_error *error)
{
    struct simba_observer_options options_of = SIMBA_OBSERVER_OPTIONS_INIT;

    options_of.mutex = watched->mutex;
    options_of.on_notify = on_notify;
    options_of.user = watched;
    int code = print_first(watched, error);
    if (code == SIMBA_OK)
        code =
            simba_observer_create(watched->watch->client, &options_of, &watched->observer, error);
    if (code == SIMBA_OK)
        code = simba_observer_start(watched->observer, error);
    return code;
}

/* Waits up to `limit_ms`. Returns whether the reader of standard output is gone. */
static bool reader_leaves(const struct watch *watch, int limit_ms)
{
    struct pollfd fds[] = {
        {.fd = watch->broken_fd, .events = POLLIN},
        {.fd = STDOUT_FILENO, .events = 0},
    };

    return poll(fds, 2, limit_ms) > 0;
}

/* With the lock held: whether the first state that the observer read is printed. An observer begins
 * without an owner, so a free mutex is no change to it and brings no callback. But the first line
 * may have named an owner that is gone since. An owner that it read is printed by the callback. */
static bool has_followed_first_read(struct watched *watched)
{
    struct simba_state state;

    if (watched->told)
        return true;
    if (simba_observer_status(watched->observer) == SIMBA_STARTING)
        return false;
    simba_observer_state(watched->observer, &state);
    if (state.after.id[0] != '\0')
        return false;
    follow_locked(watched, &state.after);
    return true;
}

static void follow_first_read(struct watched *watched)
{
    bool done;

    do {
        pthread_mutex_lock(&watched->watch->lock);
        done = has_followed_first_read(watched);
        pthread_mutex_unlock(&watched->watch->lock);
    } while (!done && !reader_leaves(watched->watch, FIRST_READ_MS));
}

/* ---- All mutexes ----------------------------------------------------------------------------- */

static bool add(struct watch *watch, const char *mutex)
{
    struct watched *watched = calloc(1, sizeof *watched);

    if (watched == NULL)
        return false;
    watched->watch = watch;
    snprintf(watched->mutex, sizeof watched->mutex, "%s", mutex);
    *watch->end = watched;
    watch->end = &watched->next;
    return true;
}

/* Both are in the order of the names, apart from new ones, which are few. */
static struct watched *find(const struct watch *watch, struct watched *hint, const char *mutex)
{
    if (hint != NULL && strcmp(hint->mutex, mutex) == 0)
        return hint;
    for (hint = watch->list; hint != NULL && strcmp(hint->mutex, mutex) != 0; hint = hint->next)
        continue;
    return hint;
}

/* Adds the mutexes that the store has and the list has not. A name that no contender can have has
 * no owner to follow, and any client may write one. */
static int add_new(struct watch *watch, struct simba_error *error)
{
    struct simba_mutex_status *list = NULL;
    struct watched *hint = watch->list;
    size_t count = 0;
    int code = simba_client_status(watch->client, NULL, TIMEOUT_MS, &list, &count, error);

    for (size_t i = 0; i < count && code == SIMBA_OK; i++) {
        struct watched *found;

        if (simba_mutex_validate(list[i].mutex, NULL) != SIMBA_OK)
            continue;
        found = find(watch, hint, list[i].mutex);
        if (found != NULL)
            hint = found->next;
        else if (!add(watch, list[i].mutex))
            code = SIMBA_ENOMEM;
    }
    simba_free(list);
    return code;
}

static int start_from(struct watched *first, struct simba_error *error)
{
    int code = SIMBA_OK;

    for (struct watched *one = first; one != NULL && code == SIMBA_OK; one = one->next)
        code = start_one(one, error);
    for (struct watched *one = first; one != NULL && code == SIMBA_OK; one = one->next)
        follow_first_read(one);
    return code;
}

/* A store that is away for a while is asked again. */
static void *discover(void *user)
{
    struct watch *watch = user;
    struct pollfd stop = {.fd = watch->stop_fd, .events = POLLIN};
    struct simba_error error;

    while (poll(&stop, 1, DISCOVER_MS) == 0) {
        struct watched **first = watch->end;

        if (add_new(watch, &error) == SIMBA_OK)
            start_from(*first, &error);
    }
    return NULL;
}

/* ---- Starting all ---------------------------------------------------------------------------- */

/* The default store exists from its first use on. Until then all is free, and the watch waits for
 * the store. SIMBA_ENOTFOUND: the reader has left meanwhile. */
static int open_store(struct watch *watch)
{
    static const struct simba_owner nobody = SIMBA_OWNER_NONE;
    int code;

    do {
        code = cli_store_open_existing(watch->cli, &watch->client, &watch->error);
        for (struct watched *one = watch->list; one != NULL && code == SIMBA_ENOTFOUND;
             one = one->next)
            follow(one, &nobody);
    } while (code == SIMBA_ENOTFOUND && !reader_leaves(watch, SEARCH_MS));
    return code;
}

/* On a thread of its own. */
static void start_all(void *user)
{
    struct watch *watch = user;
    int code = open_store(watch);

    if (code == SIMBA_ENOTFOUND) {
        watch->code = SIMBA_OK;
        return;
    }
    if (code == SIMBA_OK && watch->follows_all)
        code = add_new(watch, &watch->error);
    if (code == SIMBA_OK)
        code = start_from(watch->list, &watch->error);
    if (code == SIMBA_OK && watch->follows_all) {
        watch->discovers = pthread_create(&watch->discoverer, NULL, discover, watch) == 0;
        if (!watch->discovers)
            code = SIMBA_ENOMEM;
    }
    watch->code = code;
}

static void stop_all(void *user)
{
    struct watch *watch = user;

    if (watch->discovers) {
        eventfd_write(watch->stop_fd, 1);
        pthread_join(watch->discoverer, NULL);
    }
    for (struct watched *one = watch->list; one != NULL; one = one->next)
        simba_observer_close(one->observer);
    cli_store_close(watch->client);
}

/* ---- Waiting for the end --------------------------------------------------------------------- */

/* poll reports a pipe whose reader has left, also when there is nothing to print. */
static int wait_for_end(const struct watch *watch, int signals_fd)
{
    struct pollfd fds[] = {
        {.fd = signals_fd, .events = POLLIN},
        {.fd = watch->broken_fd, .events = POLLIN},
        {.fd = STDOUT_FILENO, .events = 0},
    };

    while (fds[1].revents == 0 && fds[2].revents == 0) {
        poll(fds, 3, -1);
        int signal = cli_signals_take_end(signals_fd, cli_signal_ends);
        if (signal != 0)
            return cli_signal_exit_code(signal);
    }
    return CLI_EXIT_OK;
}

/* A watch leaves nothing on the store, so a signal can end the program during the start.
 * CLI_CONTINUE: it has started. */
static int start(struct watch *watch, int signals_fd)
{
    struct cli_background background;

    if (!cli_background_start(&background, start_all, watch))
        return cli_fail_system("cannot start a thread");
    int ended = cli_background_wait(&background, signals_fd, SIMBA_INFINITE);
    if (ended != CLI_BACKGROUND_DONE)
        cli_background_leave(cli_signal_exit_code(ended));
    return watch->code == SIMBA_OK ? CLI_CONTINUE : cli_fail(&watch->error);
}

static void free_list(struct watch *watch)
{
    while (watch->list != NULL) {
        struct watched *first = watch->list;

        watch->list = first->next;
        free(first);
    }
}

static int run_watch(struct watch *watch, int argc, char **argv)
{
    int signals_fd = -1;
    bool added = true;

    watch->end = &watch->list;
    watch->follows_all = argc == 0;
    watch->broken_fd = eventfd(0, EFD_CLOEXEC);
    watch->stop_fd = eventfd(0, EFD_CLOEXEC);
    for (int i = 0; i < argc && added; i++)
        added = add(watch, argv[i]);
    if (watch->broken_fd < 0 || watch->stop_fd < 0 || !added || !cli_signals_take(&signals_fd))
        return cli_fail_system("watch");
    int status = start(watch, signals_fd);
    if (status == CLI_CONTINUE)
        status = wait_for_end(watch, signals_fd);
    /* With a limit: the store may hang, or the reader may stand still while a line is printed. */
    struct cli_finish finish = {.run = stop_all, .user = watch, .limit_ms = CLI_PATIENCE_MS};
    cli_background_finish(&finish, signals_fd, status);
    free_list(watch);
    close(watch->broken_fd);
    close(watch->stop_fd);
    close(signals_fd);
    return status;
}

static int run(struct cli *cli, int argc, char **argv)
{
    struct simba_error error;

    for (int i = 0; i < argc; i++)
        if (simba_mutex_validate(argv[i], &error) != SIMBA_OK)
            return cli_fail(&error);
    this_watch.cli = cli;
    return run_watch(&this_watch, argc, argv);
}

static const char details[] =
    "Prints a line for the owner of each mutex NAME, and then one for every change of\n"
    "ownership as it happens, until it is interrupted (SIGINT, SIGTERM) or its reader\n"
    "leaves. An owner that loses the mutex and wins it again begins a new term: that\n"
    "is a change, too. A term that is shorter than a second can be missed. Without a\n"
    "NAME it follows all mutexes of the store, also those that come later, and prints\n"
    "no line for one that is free at first.\n"
    "\n"
    "With --json each line is an object with at (milliseconds since 1970), mutex,\n"
    "before and after (the ids, empty for nobody) and fence (null: not known).\n"
    "\n"
    "Examples:\n"
    "  simba watch\n"
    "  simba watch backup deploy\n"
    "  simba watch --json backup | while read -r change; do notify \"$change\"; done\n"
    "\n"
    "Exit codes: 0 when it was interrupted, or 64, 69, 77, 78 as 'simba --help' lists\n"
    "them. A SQLite file that does not exist is not created: that is 69, except for\n"
    "the default store, which is waited for.";

const struct cli_verb cli_verb_watch = {
    .name = "watch",
    .usage = "watch [OPTION...] [NAME...]",
    .summary = "print every change of ownership as it happens",
    .details = details,
    .options = options,
    .into = &this_watch,
    .operands = CLI_OPERANDS_ANY,
    .run = run,
};
