/*
 * handover.c - `simba handover`: asks the owner of a mutex to finish, and waits until another has
 * it. The request stands on the store; this file only writes it and looks at what comes of it.
 *
 * The calls of the store run on a thread of their own. A signal ends the wait, and withdraws the
 * request.
 */
#include "cli/handover.h"

#include "base/text.h"
#include "base/time.h"
#include "cli/background.h"
#include "cli/cli.h"
#include "cli/store.h"

#include <inttypes.h>
#include <poll.h>
#include <pwd.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* The default of -w is a lease, in which the owner hears of the request at the latest and its
 * successor takes the mutex, and this time for its command to end. */
#define GRACE_MS 10000

/* Between two looks at the owner. */
#define LOOK_MS 100

/* How long a mutex that was given up may be free, or with another than was named, before that is
 * the result. */
#define SETTLE_MS 3000

static struct handover {
    struct cli_output output;
    const char *to; /* NULL: the first in line */
    int64_t wait_ms;
    bool anyway; /* also if nobody waits */

    const struct cli *cli;
    const char *mutex;
    _Atomic bool cancelled;
    int status; /* the exit code */
    simba_client *client;
    struct simba_handover request;
    struct simba_owner owner; /* as it was seen last; an empty id: nobody */
    struct simba_error error;
} handover = {.wait_ms = SIMBA_UNSET};

static const struct cli_option options[] = {
    {0, "to", "ID", "the waiter that is to have it: its id, or the part before '~'",
     CLI_TEXT(struct handover, to)},
    {'w', "wait", "DURATION", "for that long (a lease and 10s); a plain number is seconds",
     CLI_SECONDS(struct handover, wait_ms)},
    {0, "anyway", NULL, "ask the owner although nobody waits for the mutex",
     CLI_FLAG(struct handover, anyway)},
    CLI_OPTION_JSON("print a JSON object"),
    CLI_OPTIONS_END,
};

/* ---- What is printed ------------------------------------------------------------------------- */

/* What stands on standard output: a result that is a success. `to` empty: nobody has it. */
static int print_done(const char *from, const struct simba_owner *to)
{
    char name[SIMBA_MUTEX_MAX + 1];
    char old[SIMBA_ID_MAX + 1];
    char id[SIMBA_ID_MAX + 1];

    if (handover.output.json) {
        cli_json_string(stdout, "{\"mutex\":", handover.mutex);
        printf(",\"handed_over\":%s", from[0] != 0 ? "true" : "false");
        cli_json_string(stdout, ",\"from\":", from);
        cli_json_string(stdout, ",\"to\":", to->id);
        cli_json_fence(stdout, ",\"fence\":", to->fence);
        fputs("}\n", stdout);
        return CLI_EXIT_OK;
    }
    cli_text_printable(handover.mutex, name, sizeof name);
    cli_text_printable(from, old, sizeof old);
    cli_text_printable(to->id, id, sizeof id);
    if (from[0] == 0 && id[0] == 0)
        cli_result("%s is free: there is nobody to ask", name);
    else if (from[0] == 0)
        cli_result("%s is with %s already", name, id);
    else if (id[0] == 0)
        cli_result("%s has been given up by %s; nobody has it now", name, old);
    else
        cli_result("%s has passed from %s to %s", name, old, id);
    return CLI_EXIT_OK;
}

/* Whether the term that was asked to end has ended. */
static bool is_over(void)
{
    const struct simba_handover *request = &handover.request;
    const struct simba_owner *owner = &handover.owner;

    return strcmp(owner->id, request->owner) != 0 ||
           (request->fence != 0 && owner->fence != 0 && owner->fence != request->fence);
}

static int print_not_done(int64_t waited_ms)
{
    const struct simba_handover *request = &handover.request;
    char waited[32];

    simba_duration_format(waited_ms, waited, sizeof waited);
    if (is_over() && handover.owner.id[0] == 0)
        cli_message("%s has given '%s' up, but %s has not taken it; nobody has it", request->owner,
                    handover.mutex, request->to);
    else if (is_over() && strcmp(handover.owner.id, request->owner) == 0)
        cli_message("%s has given '%s' up, and has it again: nobody else has taken it",
                    request->owner, handover.mutex);
    else if (!is_over())
        cli_message("%s has not given '%s' up in %s: it does not know of requests to hand over, "
                    "hangs, or its command takes long to end; 'simba release --force' takes it "
                    "away",
                    request->owner, handover.mutex, waited);
    else
        cli_message("%s has given '%s' up, but it is with %s, not with %s", request->owner,
                    handover.mutex, handover.owner.id, request->to);
    return CLI_EXIT_CONTENDED;
}

/* ---- Who asks whom --------------------------------------------------------------------------- */

static int read_owner(void)
{
    struct simba_mutex_status *list = NULL;
    size_t count = 0;
    int code = simba_client_status(handover.client, handover.mutex, CLI_HANDOVER_TIMEOUT_MS, &list,
                                   &count, &handover.error);

    if (code == SIMBA_OK && count > 0)
        handover.owner = list->owner;
    simba_free(list);
    return code;
}

/* `name` is the id, or what --id made it of: "host1" is that of "host1~x7k2p9 (a note)". */
static bool is_called(const char *id, const char *name)
{
    size_t length = strlen(name);

    return strcmp(id, name) == 0 || (strncmp(id, name, length) == 0 && id[length] == '~');
}

/* Finds the successor in the queue. Returns CLI_CONTINUE or an exit code. */
static int choose(const struct simba_waiter *queue, size_t count)
{
    const char *found = NULL;

    if (count == 0 && !handover.anyway && handover.to == NULL) {
        cli_message("nobody waits for '%s', so %s keeps it; --anyway asks it all the same",
                    handover.mutex, handover.owner.id);
        return CLI_EXIT_CONTENDED;
    }
    for (size_t i = 0; handover.to != NULL && i < count; i++) {
        if (!is_called(queue[i].id, handover.to))
            continue;
        if (found != NULL && strcmp(queue[i].id, handover.to) != 0) {
            cli_message("--to: %s and %s both wait for '%s'; name one of them in full", found,
                        queue[i].id, handover.mutex);
            return CLI_EXIT_USAGE;
        }
        found = queue[i].id;
    }
    if (handover.to != NULL && found == NULL) {
        cli_message("%s does not wait for '%s': nobody was asked", handover.to, handover.mutex);
        return CLI_EXIT_CONTENDED;
    }
    if (found != NULL)
        sb_text_copy(handover.request.to, sizeof handover.request.to, found);
    return CLI_CONTINUE;
}

/* A store that does not know its waiters takes the id as it stands. */
static int choose_successor(void)
{
    struct simba_waiter *queue = NULL;
    size_t count = 0;
    int code = simba_client_queue(handover.client, handover.mutex, CLI_HANDOVER_TIMEOUT_MS, &queue,
                                  &count, &handover.error);
    int status = CLI_CONTINUE;

    if (code == SIMBA_EUNSUPPORTED && handover.to != NULL)
        sb_text_copy(handover.request.to, sizeof handover.request.to, handover.to);
    else if (code == SIMBA_OK)
        status = choose(queue, count);
    else if (code != SIMBA_EUNSUPPORTED)
        status = cli_fail(&handover.error);
    simba_free(queue);
    return status;
}

/* For the owner's messages: --id, or the user and the host. */
static void name_asker(const struct cli *cli, struct simba_handover *request)
{
    const struct passwd *user = getpwuid(getuid());
    char host[64] = "";

    gethostname(host, sizeof host - 1);
    snprintf(request->by, sizeof request->by, "%s@%s", user != NULL ? user->pw_name : "somebody",
             host);
    if (cli->id != NULL || cli->exact_id != NULL)
        sb_text_copy(request->by, sizeof request->by, cli->id != NULL ? cli->id : cli->exact_id);
    if (simba_id_validate(request->by, NULL) != SIMBA_OK)
        request->by[0] = 0;
}

int cli_handover_ask(const struct cli *cli, simba_client *client, const char *mutex,
                     const struct simba_owner *owner, struct simba_handover *request,
                     struct simba_error *error)
{
    int64_t ttl_ms = 0;
    int64_t transition_ms = 0;

    simba_client_lease(client, &ttl_ms, &transition_ms);
    if (request->left_ms == SIMBA_UNSET)
        request->left_ms = ttl_ms + transition_ms + GRACE_MS;
    sb_text_copy(request->owner, sizeof request->owner, owner->id);
    request->fence = owner->fence;
    request->priority = -1;
    name_asker(cli, request);
    return simba_client_handover_ask(client, mutex, request, CLI_HANDOVER_TIMEOUT_MS, error);
}

/* ---- Asking and waiting ---------------------------------------------------------------------- */

static bool is_where_it_should_be(void)
{
    const char *to = handover.request.to;

    return handover.owner.id[0] != 0 && strcmp(handover.owner.id, handover.request.owner) != 0 &&
           (to[0] == 0 || strcmp(handover.owner.id, to) == 0);
}

/* Whether the others have had their turn: where a successor is named they pass the mutex on to it,
 * and come back only when it does not take it. */
static bool is_settled(void)
{
    return handover.request.to[0] == 0 || handover.owner.id[0] != 0;
}

/* By a request that is over at once, in place of the one that stands there. */
static int withdraw(void)
{
    handover.request.left_ms = 1;
    if (simba_client_handover_ask(handover.client, handover.mutex, &handover.request,
                                  CLI_HANDOVER_TIMEOUT_MS, &handover.error) != SIMBA_OK)
        return cli_fail(&handover.error);
    cli_message("the request is withdrawn; if %s has heard of it, it hands '%s' over",
                handover.request.owner, handover.mutex);
    return CLI_EXIT_OK;
}

/* A store that is down for a while does not end the wait. */
static int await(void)
{
    int64_t begun_ms = simba_now_ms();
    int64_t until_ms = sb_later(begun_ms, handover.wait_ms);
    int64_t settled_ms = SIMBA_INFINITE;
    int code = SIMBA_OK;

    do {
        if (atomic_load(&handover.cancelled))
            return withdraw();
        poll(NULL, 0, (int)sb_earlier(sb_time_left(until_ms, simba_now_ms()), LOOK_MS));
        code = read_owner();
        if (code != SIMBA_OK || !is_over())
            continue;
        if (is_where_it_should_be())
            return print_done(handover.request.owner, &handover.owner);
        if (!is_settled())
            settled_ms = SIMBA_INFINITE;
        else if (settled_ms == SIMBA_INFINITE)
            settled_ms = sb_later(simba_now_ms(), SETTLE_MS);
    } while (simba_now_ms() < sb_earlier(until_ms, settled_ms));
    if (code != SIMBA_OK)
        return cli_fail(&handover.error);
    if (is_settled() && is_over() && handover.owner.id[0] == 0)
        return print_done(handover.request.owner, &handover.owner);
    return print_not_done(simba_now_ms() - begun_ms);
}

static int ask(void)
{
    struct simba_handover *request = &handover.request;
    int status;

    if (read_owner() != SIMBA_OK)
        return cli_fail(&handover.error);
    if (handover.owner.id[0] == 0 ||
        (handover.to != NULL && is_called(handover.owner.id, handover.to)))
        return print_done("", &handover.owner);
    status = choose_successor();
    if (status != CLI_CONTINUE)
        return status;
    request->left_ms = handover.wait_ms;
    if (cli_handover_ask(handover.cli, handover.client, handover.mutex, &handover.owner, request,
                         &handover.error) != SIMBA_OK)
        return cli_fail(&handover.error);
    handover.wait_ms = request->left_ms;
    if (!handover.cli->quiet)
        cli_message("%s is asked to hand '%s' over", request->owner, handover.mutex);
    return await();
}

/* A store that no process has used yet has no owner to ask. */
static void work(void *user)
{
    const struct simba_owner nobody = SIMBA_OWNER_NONE;
    int code = cli_store_open_existing(handover.cli, &handover.client, &handover.error);

    (void)user;
    if (code == SIMBA_OK)
        handover.status = ask();
    else if (code == SIMBA_ENOTFOUND)
        handover.status = print_done("", &nobody);
    else
        handover.status = cli_fail(&handover.error);
    cli_store_close(handover.client);
}

static void cancel(void *user)
{
    (void)user;
    atomic_store(&handover.cancelled, true);
}

static int run(struct cli *cli, int argc, char **argv)
{
    const struct cli_background_work all = {
        .run = work, .cancel = cancel, .end_ms = CLI_HANDOVER_TIMEOUT_MS};

    (void)argc;
    if (handover.wait_ms != SIMBA_UNSET && handover.wait_ms <= 0)
        return cli_usage_error(cli, "--wait: an owner needs time to finish");
    if (handover.to != NULL && simba_id_validate(handover.to, &handover.error) != SIMBA_OK)
        return cli_usage_error(cli, "--to: %s", handover.error.text);
    handover.cli = cli;
    handover.mutex = argv[0];
    int status = cli_background_run(&all);
    return status == CLI_CONTINUE ? handover.status : status;
}

static const char details[] =
    "Asks the owner of the mutex NAME, through the store, to finish, and waits until\n"
    "another has it. Nothing is taken by force. 'simba lock', 'lead' and 'schedule'\n"
    "stop their command with SIGTERM, and with SIGKILL after the time of their -k;\n"
    "then they release the mutex. 'lead' and 'schedule' wait for it again 5s later,\n"
    "behind the others; 'lock' exits with the exit code of its command. They hear of\n"
    "the request at once, but on MySQL and MariaDB when they renew their lease, a ttl\n"
    "later at most. The JVM library, 'simba acquire' and programs that use libsimba\n"
    "without on_handover do not know of it. 'simba release --force' is for those, and\n"
    "for an owner that hangs.\n"
    "\n"
    "The first in line gets the mutex. With --to it is that waiter, which must wait\n"
    "already: the others get the mutex for a moment, start nothing, and pass it on;\n"
    "but a 'lock' that has waited for less than a ttl runs its command. If nobody\n"
    "waits, nobody is asked, unless with --anyway. A request ends the term that it\n"
    "has seen, and is void after -w. A signal (Ctrl-C) withdraws it.\n"
    "\n"
    "With --json it is an object with mutex, handed_over (true or false), from, to\n"
    "(empty: nobody) and fence (null: not known).\n"
    "\n"
    "Examples:\n"
    "  simba handover dispatcher\n"
    "  simba handover dispatcher --to host2 -w 1m\n"
    "\n"
    "Exit codes: 0 when another has it, or nobody had it; 75 when the owner has not\n"
    "given way in time, nobody waits, or --to does not have it; or 64, 69, 77, 78 as\n"
    "'simba --help' lists them. 128 and the number of the signal that ended it.";

const struct cli_verb cli_verb_handover = {
    .name = "handover",
    .usage = "handover NAME [OPTION...]",
    .summary = "ask the owner of a mutex to hand it over",
    .details = details,
    .options = options,
    .into = &handover,
    .operands = CLI_OPERANDS_NAME,
    .run = run,
};
