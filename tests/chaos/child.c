/*
 * child.c - the command that `simba lock` runs under a lease: two processes that tell that they are
 * alive, and use the fenced resource with the token that they were given. The second one has left
 * the process group, and has a '+' behind its name: a kill of the program alone lets such a process
 * live.
 *
 *     chaos-child NAME MUTEX JOURNAL VAULT MILLISECONDS
 */
#include "journal.h"
#include "vault.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BEAT_MS 5
#define USE_BEATS 4

static bool always(void *user)
{
    (void)user;
    return true;
}

static void live(char **argv, const char *who, uint64_t fence, struct vault *vault)
{
    const struct timespec pause = {0, BEAT_MS * 1000000L};
    int64_t end_ns = journal_now_ns() + atoll(argv[5]) * 1000000;

    for (int beat = 0; journal_now_ns() < end_ns; beat++) {
        journal_write("alive %s %s %llu", argv[2], who, (unsigned long long)fence);
        if (vault != NULL && beat % USE_BEATS == 0)
            vault_use(vault, argv[2], who, fence, always, NULL);
        nanosleep(&pause, NULL);
    }
}

int main(int argc, char **argv)
{
    const char *fence_text = getenv("SIMBA_FENCE");
    uint64_t fence = fence_text != NULL ? strtoull(fence_text, NULL, 10) : 0;
    struct vault vault;
    char who[64];
    pid_t pid;

    if (argc != 6 || fence == 0)
        return 64;
    journal_open(argv[3]);
    snprintf(who, sizeof who, "%s/%d", argv[1], (int)getpid());
    pid = fork();
    if (pid == 0) {
        setsid();
        snprintf(who, sizeof who, "%s/%d+", argv[1], (int)getpid());
        live(argv, who, fence, NULL);
        _exit(0);
    }
    vault_open(&vault, argv[4]);
    live(argv, who, fence, &vault);
    vault_close(&vault);
    if (pid > 0)
        waitpid(pid, NULL, 0);
    return 0;
}
