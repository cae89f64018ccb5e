/*
 * terminal_test.c - `simba lock` at a terminal: the command reads from it, Ctrl-C, Ctrl-Z.
 *
 * The test plays the terminal; a process of its own plays the part of an interactive shell.
 */
#include "harness.h"

#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void note(const char *path, int number)
{
    FILE *file = fopen("note.new", "we");

    fprintf(file, "%d\n", number);
    fclose(file);
    rename("note.new", path);
}

/* Runs the job in the foreground until it stops or ends. */
static int foreground(pid_t job, bool resume)
{
    int status = 0;

    tcsetpgrp(STDIN_FILENO, job);
    if (resume)
        kill(-job, SIGCONT);
    waitpid(job, &status, WUNTRACED);
    tcsetpgrp(STDIN_FILENO, getpgrp());
    return status;
}

/* What an interactive shell does with one job; `fg` comes when there is a file of that name. */
static void play_shell(const char *script)
{
    signal(SIGTTOU, SIG_IGN);
    pid_t job = fork();
    if (job == 0) {
        setpgid(0, 0);
        tcsetpgrp(STDIN_FILENO, getpid());
        signal(SIGTTOU, SIG_DFL);
        execl(getenv("SIMBA_PROGRAM"), "simba", "lock", "m", "--", "sh", "-c", script, NULL);
        _exit(121);
    }
    setpgid(job, job);
    int status = foreground(job, false);
    while (WIFSTOPPED(status)) {
        note("stopped", WSTOPSIG(status));
        while (!file_exists("fg"))
            pause_briefly();
        status = foreground(job, true);
    }
    note("ended", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
    _exit(0);
}

struct terminal {
    int fd;
    pid_t shell;
};

static struct terminal terminal_start(const char *script)
{
    struct terminal terminal;

    setenv("SIMBA_URL", "sqlite:store.db?ttl=10s&transition=6s", 1);
    terminal.shell = forkpty(&terminal.fd, NULL, NULL, NULL);
    assert_true(terminal.shell >= 0);
    if (terminal.shell == 0)
        play_shell(script);
    file_wait_number("holder");
    return terminal;
}

static void terminal_type(const struct terminal *terminal, const char *keys)
{
    assert_int_equal(write(terminal->fd, keys, strlen(keys)), strlen(keys));
}

static long terminal_end(const struct terminal *terminal)
{
    long status = file_wait_number("ended");

    waitpid(terminal->shell, NULL, 0);
    close(terminal->fd);
    return status;
}

static void the_command_reads_from_the_terminal(void **state)
{
    struct terminal terminal = terminal_start("echo $$ >holder; read line; echo \"$line\" >typed");
    terminal_type(&terminal, "hello\n");
    assert_int_equal(terminal_end(&terminal), 0);
    assert_string_equal(file_read("typed"), "hello\n");
}

/* A shell that runs a script tells by it whether the script is to end, too. */
static void ctrl_c_ends_the_command_and_the_program_by_the_signal(void **state)
{
    struct terminal terminal = terminal_start("echo $$ >holder; exec sleep 100");
    terminal_type(&terminal, "\003");
    assert_int_equal(terminal_end(&terminal), -SIGINT);
}

static void ctrl_z_stops_both_and_fg_continues_both(void **state)
{
    struct terminal terminal = terminal_start("echo $$ >holder; read line; echo \"$line\" >typed");
    pid_t command = (pid_t)file_wait_number("holder");
    terminal_type(&terminal, "\032");
    assert_int_equal(file_wait_number("stopped"), SIGTSTP);
    assert_true(process_is_alive(command));
    assert_false(file_exists("ended"));
    file_write("fg", "");
    terminal_type(&terminal, "again\n");
    assert_int_equal(terminal_end(&terminal), 0);
    assert_string_equal(file_read("typed"), "again\n");
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, sandbox_enter, sandbox_leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_command_reads_from_the_terminal),
        CASE(ctrl_c_ends_the_command_and_the_program_by_the_signal),
        CASE(ctrl_z_stops_both_and_fg_continues_both),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
