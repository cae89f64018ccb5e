/*
 * worker.c - a process under test: one client, and on it a contender, a locker and a scheduler, or
 * some of them, and where the run has groups a locker of a semaphore's slots and one of sets.
 *
 *     chaos-worker NAME URL JOURNAL VAULT MEMBERS [ID]        until SIGTERM; SIGUSR1 forks
 *
 * MEMBERS are letters: a contender c first, then a locker l, a slot n or a set m if there is one of
 * them, a scheduler s. All members have the id ID, where one is given.
 *
 * It judges nothing. What it knows goes into its journal, which tests/chaos/checker.py reads.
 */
#include "census.h"
#include "journal.h"
#include "member.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MEMBERS_MAX 5
#define SAMPLE_MS 3
#define OPEN_AGAIN_MS 100
#define LEFT_TRIES 200 /* threads that were joined may be listed for a moment */

static atomic_bool stopping;
static struct member members[MEMBERS_MAX];
static int member_count;
static const struct member_kind *const kinds[MEMBERS_MAX] = {
    &member_contender, &member_locker, &member_scheduler, &member_slot, &member_set};

static void block_signals(sigset_t *ret_set)
{
    sigemptyset(ret_set);
    sigaddset(ret_set, SIGTERM);
    sigaddset(ret_set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, ret_set, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* What libraries open once for the whole process, and keep. */
static void warm_up(void)
{
    simba_client *client = NULL;

    if (simba_client_open("memory:", NULL, &client, NULL) == SIMBA_OK)
        simba_client_close(client, NULL);
}

/* What the library has to say goes where a failure is looked into. */
static void on_log(void *user, enum simba_log_level level, const char *line)
{
    (void)user;
    (void)level;
    journal_write("log %s", line);
}

/* The store may be down just now. */
static simba_client *open_client(const char *url, const sigset_t *signals)
{
    const struct timespec pause = {0, OPEN_AGAIN_MS * 1000000L};
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    struct simba_error error;
    simba_client *client = NULL;

    options.log = on_log;
    options.log_level = SIMBA_LOG_INFO;
    while (client == NULL) {
        int code = simba_client_open(url, &options, &client, &error);

        if (code != SIMBA_OK)
            journal_write("unopened %d %s", code, error.text);
        if (code != SIMBA_OK && sigtimedwait(signals, NULL, &pause) == SIGTERM)
            return NULL;
    }
    journal_write("opened");
    return client;
}

/* ---- Fork ------------------------------------------------------------------------------------ */

/* In the child the handles are dead: nothing is owned, and every call says so. */
static int judge_child(simba_client *client)
{
    struct simba_metrics metrics = SIMBA_METRICS_INIT;

    for (int i = 0; i < member_count; i++)
        if (members[i].kind->is_owner(&members[i]) || members[i].kind->fence(&members[i]) != 0)
            return 1;
    if (simba_contender_stop(members[0].contender, NULL) != SIMBA_EFORKED)
        return 2;
    if (member_count > 1 && simba_locker_release(members[1].locker, NULL) != SIMBA_EFORKED)
        return 3;
    return simba_client_metrics(client, &metrics) == SIMBA_EFORKED ? 0 : 4;
}

/* Their threads create what they are about. */
static bool are_all_created(void)
{
    for (int i = 0; i < member_count; i++)
        if (members[i].contender == NULL && members[i].locker == NULL &&
            members[i].scheduler == NULL)
            return false;
    return true;
}

static void fork_now(simba_client *client)
{
    int status = -1;
    pid_t pid;

    if (!are_all_created())
        return;
    pid = fork();
    if (pid == 0)
        _exit(judge_child(client));
    if (pid > 0)
        waitpid(pid, &status, 0);
    journal_write("forked %d", pid > 0 ? status : 0);
}

/* ---- Life ------------------------------------------------------------------------------------ */

static void sample(void)
{
    for (int i = 0; i < member_count; i++)
        member_sample(&members[i]);
}

static unsigned long long count_errors(simba_client *client)
{
    struct simba_metrics metrics = SIMBA_METRICS_INIT;

    simba_client_metrics(client, &metrics);
    return metrics.errors;
}

static void live(simba_client *client, const sigset_t *signals)
{
    const struct timespec pause = {0, SAMPLE_MS * 1000000L};

    while (!atomic_load(&stopping)) {
        int got = sigtimedwait(signals, NULL, &pause);

        if (got == SIGUSR1)
            fork_now(client);
        if (got == SIGTERM) {
            journal_write("ending %llu", count_errors(client));
            atomic_store(&stopping, true);
        }
        sample();
    }
}

static const struct member_kind *kind_of(char letter)
{
    for (int i = 0; i < MEMBERS_MAX; i++)
        if (kinds[i]->letter[0] == letter)
            return kinds[i];
    return NULL;
}

static bool are_members(const char *letters)
{
    size_t count = strlen(letters);

    return letters[0] == 'c' && count <= MEMBERS_MAX && strspn(letters, "clsnm") == count;
}

static void take_part(simba_client *client, char **argv, const sigset_t *signals)
{
    struct simba_metrics metrics = SIMBA_METRICS_INIT;

    member_count = (int)strlen(argv[5]);
    for (int i = 0; i < member_count; i++)
        member_start(&members[i], kind_of(argv[5][i]), client, argv, &stopping);
    live(client, signals);
    for (int i = 0; i < member_count; i++)
        member_join(&members[i]);
    journal_write("ended %llu", count_errors(client));
    simba_client_metrics(client, &metrics);
    journal_write("metrics %llu %llu %llu %llu", (unsigned long long)metrics.acquisitions,
                  (unsigned long long)metrics.losses, (unsigned long long)metrics.releases,
                  (unsigned long long)metrics.errors);
}

static void tell_what_is_left(struct census before)
{
    struct census after = census_take();

    for (int i = 0; i < LEFT_TRIES &&
                    (after.threads > before.threads || after.descriptors > before.descriptors);
         i++) {
        member_pause_ms(10);
        after = census_take();
    }
    if (after.descriptors > before.descriptors)
        census_tell_descriptors();
    journal_write("left %d %d", after.threads - before.threads,
                  after.descriptors - before.descriptors);
}

int main(int argc, char **argv)
{
    struct census before;
    simba_client *client;
    sigset_t signals;

    if (argc < 6 || argc > 7 || !are_members(argv[5]))
        return 64;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    block_signals(&signals);
    journal_open(argv[3]);
    warm_up();
    before = census_take();
    client = open_client(argv[2], &signals);
    if (client == NULL)
        return 0;
    take_part(client, argv, &signals);
    if (simba_client_close(client, NULL) != SIMBA_OK)
        journal_write("broken the client cannot be closed");
    tell_what_is_left(before);
    return 0;
}
