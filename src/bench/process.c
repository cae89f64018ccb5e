/*
 * process.c - processes that take part in a question, and the memory that they share.
 */
#include "bench/process.h"

#include "base/error.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define AWAIT_SECONDS 60

int bench_shared_create(size_t size, void **ret_memory, struct simba_error *error)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        return sb_error_set(error, SIMBA_ENOMEM, "no memory to share: %s", strerror(errno));
    *ret_memory = memory;
    return SIMBA_OK;
}

void bench_shared_free(void *memory, size_t size)
{
    if (memory != NULL)
        munmap(memory, size);
}

static void restore_signals(void)
{
    static const int caught[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

    for (size_t i = 0; i < sizeof caught / sizeof caught[0]; i++) {
        struct sigaction action;
        if (sigaction(caught[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            signal(caught[i], SIG_DFL);
    }
}

/* _exit: what the parent has in its buffers is the parent's to write. */
static _Noreturn void run_child(struct bench_process *process, pid_t parent,
                                int (*run)(void *argument, struct simba_error *error),
                                void *argument)
{
    restore_signals();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    process->error->code = run(argument, process->error);
    _exit(process->error->code != SIMBA_OK);
}

int bench_process_start(struct bench_process *process,
                        int (*run)(void *argument, struct simba_error *error), void *argument,
                        struct simba_error *error)
{
    pid_t parent = getpid();
    void *shared = NULL;

    int code = bench_shared_create(sizeof *process->error, &shared, error);
    if (code != SIMBA_OK)
        return code;
    process->error = shared;
    process->pid = fork();
    if (process->pid == 0)
        run_child(process, parent, run, argument);
    if (process->pid > 0)
        return SIMBA_OK;
    process->pid = 0;
    bench_shared_free(process->error, sizeof *process->error);
    return sb_error_set(error, SIMBA_ENOMEM, "cannot fork: %s", strerror(errno));
}

static int end_of(struct bench_process *process, int status, struct simba_error *error)
{
    struct simba_error why = *process->error;

    process->pid = 0;
    bench_shared_free(process->error, sizeof *process->error);
    if (WIFSIGNALED(status))
        return sb_error_set(error, SIMBA_EUNKNOWN, "a process was ended by signal %d",
                            WTERMSIG(status));
    if (why.code != SIMBA_OK)
        return sb_error_set(error, why.code, "%s", why.text);
    return SIMBA_OK;
}

int bench_process_wait(struct bench_process *process, struct simba_error *error)
{
    int status = 0;

    if (waitpid(process->pid, &status, 0) < 0)
        return sb_error_set(error, SIMBA_ECONTENDED, "a signal came: %s", strerror(errno));
    return end_of(process, status, error);
}

int bench_process_check(struct bench_process *process, struct simba_error *error)
{
    int status = 0;

    if (waitpid(process->pid, &status, WNOHANG) != process->pid)
        return SIMBA_OK;
    int code = end_of(process, status, error);
    return code != SIMBA_OK ? code
                            : sb_error_set(error, SIMBA_EUNKNOWN, "a process ended too early");
}

static bool wait_a_moment(sem_t *posted)
{
    struct timespec end;

    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 1;
    return sem_timedwait(posted, &end) == 0;
}

int bench_process_await(struct bench_process *processes, int count, sem_t *posted,
                        struct simba_error *error)
{
    for (int second = 0; second < AWAIT_SECONDS; second++) {
        if (wait_a_moment(posted))
            return SIMBA_OK;
        int code = SIMBA_OK;
        for (int i = 0; i < count && code == SIMBA_OK; i++)
            code = bench_process_check(&processes[i], error);
        if (code != SIMBA_OK)
            return code;
    }
    return sb_error_set(error, SIMBA_ETIMEDOUT, "nothing happened for a minute");
}

void bench_process_kill(struct bench_process *process)
{
    if (process->pid == 0)
        return;
    kill(process->pid, SIGKILL);
    waitpid(process->pid, NULL, 0);
    process->pid = 0;
    bench_shared_free(process->error, sizeof *process->error);
}
