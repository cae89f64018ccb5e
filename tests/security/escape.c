/*
 * escape.c - preloaded into the program: one process of the command escapes the signals that are to
 * end it, as one of many does that fork faster than they can be killed.
 *
 * Its pid stands in the file "escaped". From the time that the file "caught" exists the signals
 * arrive.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static pid_t escaped(void)
{
    FILE *file = access("caught", F_OK) != 0 ? fopen("escaped", "re") : NULL;
    int pid = 0;

    if (file == NULL)
        return 0;
    if (fscanf(file, "%d", &pid) != 1)
        pid = 0;
    fclose(file);
    return pid;
}

int kill(pid_t pid, int number)
{
    pid_t escapes = escaped();

    if (number != 0 && escapes > 0 && (pid == escapes || pid == -escapes))
        return 0;
    return (int)syscall(SYS_kill, pid, number);
}
