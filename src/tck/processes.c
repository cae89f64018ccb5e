/*
 * processes.c - the case multi_process: a contest across processes.
 *
 * The children are forked before this process has opened a client for the contest. The end of a
 * pipe that all of them hold tells that all have ended, so that a child that hangs is killed in
 * time.
 */
#include "tck/cases.h"
#include "tck/contest.h"

#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct crew {
    struct sb_kit *kit;
    struct sb_contest_arena *arena;
    unsigned each; /* contenders in each process */
    pid_t pids[SB_KIT_PROCESSES_MAX];
    int count;
    int alive; /* read end of the pipe: ends when the last child has */
};

/* A child: tells its failures through the arena and leaves without running anybody's exit
 * handlers. */
static _Noreturn void run_child(struct crew *crew, unsigned index)
{
    struct sb_kit *kit = crew->kit;
    struct sb_contest_arena *arena = crew->arena;

    close(crew->alive);
    sb_contest_run(kit, arena, index * crew->each, crew->each);
    if (sb_kit_failed(kit) && atomic_fetch_add(&arena->failures, 1) == 0)
        sb_text_copy(arena->failure, sizeof(arena->failure), kit->failure);
    _exit(sb_kit_failed(kit) ? 1 : 0);
}

static bool fork_children(struct crew *crew)
{
    int ends[2];

    if (!sb_kit_check(crew->kit, pipe2(ends, O_CLOEXEC) == 0, "pipe: %s", strerror(errno)))
        return false;
    crew->alive = ends[0];
    while (crew->count < crew->kit->options.processes) {
        pid_t pid = fork();

        if (pid == 0)
            run_child(crew, (unsigned)crew->count);
        if (!sb_kit_check(crew->kit, pid > 0, "fork: %s", strerror(errno)))
            break;
        crew->pids[crew->count++] = pid;
    }
    close(ends[1]);
    return crew->count == crew->kit->options.processes;
}

/* Whether all children have ended by themselves in time. */
static bool await_children(struct crew *crew)
{
    struct pollfd end = {.fd = crew->alive, .events = POLLIN};
    int64_t until_ms =
        simba_now_ms() + crew->kit->options.contend_ms + 3 * sb_kit_patience_ms(crew->kit);

    for (;;) {
        int64_t left_ms = until_ms - simba_now_ms();
        int ready = poll(&end, 1, left_ms > 0 ? (int)left_ms : 0);

        if (ready > 0)
            return true;
        if (left_ms <= 0 || (ready < 0 && errno != EINTR))
            return false;
    }
}

static void reap(struct crew *crew, int index, bool ended)
{
    int status = 0;

    if (!ended)
        kill(crew->pids[index], SIGKILL);
    while (waitpid(crew->pids[index], &status, 0) < 0)
        if (errno != EINTR)
            return;
    if (WIFSIGNALED(status))
        sb_kit_fail(crew->kit, "process %d was killed by signal %d", index, WTERMSIG(status));
}

static void run_crew(struct crew *crew)
{
    bool forked = fork_children(crew);
    bool ended = forked && await_children(crew);

    sb_kit_check(crew->kit, !forked || ended, "a process of the contest did not end in time");
    for (int i = 0; i < crew->count; i++)
        reap(crew, i, ended);
    if (crew->alive >= 0)
        close(crew->alive);
    sb_kit_check(crew->kit, atomic_load(&crew->arena->failures) == 0, "%s", crew->arena->failure);
    if (!sb_kit_failed(crew->kit))
        sb_contest_judge(crew->kit, crew->arena);
}

void sb_case_multi_process(struct sb_kit *kit)
{
    struct crew crew = {.kit = kit, .alive = -1};
    int each = kit->options.contenders / kit->options.processes;

    crew.each = each > 2 ? (unsigned)each : 2;
    crew.arena = sb_contest_arena_create();
    if (!sb_kit_check(kit, crew.arena != NULL, "no memory for the contest"))
        return;
    run_crew(&crew);
    sb_contest_arena_free(crew.arena);
}
