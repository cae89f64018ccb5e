/*
 * health.c - asks a command of the user at intervals whether the supervised command is well.
 *
 * A check is a child of this process, which collects the children that it does not know: so its
 * exit code comes through a pipe, from the shell around it.
 */
#include "cli/health.h"

#include "base/check.h"
#include "base/time.h"
#include "cli/cli.h"
#include "cli/events.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define SHELL "/bin/sh"
#define AROUND "/bin/sh -c \"$1\" >&2 </dev/null; echo $?"

void cli_health_begin(struct cli_health *health)
{
    SB_CHECK(health->pid == 0, "a check ends with its run");
    health->next_ms =
        health->check != NULL ? sb_later(simba_now_ms(), health->every_ms) : SIMBA_INFINITE;
    health->passed = 0;
    health->failed = false;
}

/* Async-signal-safe, for it follows a fork of a process with threads. */
static void execute(const char *check, char **environment, int result_fd)
{
    char *argv[] = {SHELL, "-c", AROUND, "simba-health", (char *)check, NULL};

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(result_fd, STDOUT_FILENO);
    cli_signals_restore();
    execve(SHELL, argv, environment);
    _exit(CLI_EXIT_NOT_FOUND);
}

static void begin(struct cli_health *health, char **environment)
{
    int fds[2];

    health->next_ms = sb_later(simba_now_ms(), health->every_ms);
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0) {
        cli_message("warning: cannot check the health of the command: %s", strerror(errno));
        return;
    }
    fcntl(fds[1], F_SETFL, 0); /* the shell would not expect it */
    pid_t pid = fork();
    if (pid == 0)
        execute(health->check, environment, fds[1]);
    close(fds[1]);
    if (pid < 0) {
        cli_message("warning: cannot check the health of the command: %s", strerror(errno));
        close(fds[0]);
        return;
    }
    health->pid = pid;
    health->result_fd = fds[0];
}

void cli_health_end(struct cli_health *health)
{
    if (health->pid == 0)
        return;
    kill(-health->pid, SIGKILL);
    waitpid(health->pid, NULL, WNOHANG); /* otherwise it is collected with what it leaves */
    close(health->result_fd);
    health->pid = 0;
}

static void fail(struct cli_health *health, const char *how)
{
    cli_health_end(health);
    health->failed = true;
    cli_message("the health check %s", how);
}

static void judge(struct cli_health *health)
{
    char text[16] = "";
    char how[64];
    ssize_t length = read(health->result_fd, text, sizeof text - 1);

    if (length < 0 && simba_now_ms() >= health->next_ms) {
        char time[32];
        snprintf(how, sizeof how, "has not ended in %s",
                 simba_duration_format(health->every_ms, time, sizeof time));
        fail(health, how);
    } else if (length == 0) {
        fail(health, "was killed");
    } else if (length > 0 && strcmp(text, "0\n") == 0) {
        cli_health_end(health);
        health->passed++;
    } else if (length > 0) {
        text[strcspn(text, "\n")] = 0;
        snprintf(how, sizeof how, "failed with exit code %s", text);
        fail(health, how);
    }
}

int64_t cli_health_step(struct cli_health *health, char **environment)
{
    if (health->failed || health->check == NULL)
        return SIMBA_INFINITE;
    if (health->pid != 0)
        judge(health);
    else if (simba_now_ms() >= health->next_ms)
        begin(health, environment);
    return health->failed ? simba_now_ms() : health->next_ms;
}
