/*
 * client.c - a client that does what it is told, line by line, for tests that need one client for
 * several terms.
 *
 *     client URL
 *     acquire ID | guard ID TOKEN | release ID TOKEN | read ID    of the mutex m
 *
 * Each is answered by a line: the code, the token, whether the release was missed, the owner.
 */
#include "backend/host.h"

#include <poll.h>

static const struct {
    const char *word;
    enum simba_op op;
} operations[] = {
    {"acquire", SIMBA_OP_ACQUIRE},
    {"guard", SIMBA_OP_GUARD},
    {"release", SIMBA_OP_RELEASE},
    {"read", SIMBA_OP_READ},
};

static bool is_told(void *user)
{
    struct pollfd input = {STDIN_FILENO, POLLIN, 0};

    (void)user;
    return poll(&input, 1, 0) > 0;
}

static bool do_line(struct host *host, const char *line)
{
    unsigned long long token = 0;
    char word[16];
    char id[64];

    if (sscanf(line, "%15s %63s %llu", word, id, &token) < 2)
        return false;
    for (size_t i = 0; i < TEST_COUNT(operations); i++) {
        if (strcmp(word, operations[i].word) == 0) {
            struct call call = host_do(host, operations[i].op, "m", id, token);

            printf("%d %llu %d %s\n", call.code, (unsigned long long)call.revision, call.missed,
                   call.owner);
            return fflush(stdout) == 0;
        }
    }
    return false;
}

int main(int argc, char **argv)
{
    static struct host host; /* larger than a stack likes */
    char line[128];

    setvbuf(stdin, NULL, _IONBF, 0); /* so that poll() sees each line */
    if (argc < 2 || host_open(&host, argv[1]) != SIMBA_OK)
        return 2;
    do {
        while (!host_run_until(&host, is_told, NULL))
            continue;
    } while (fgets(line, sizeof line, stdin) != NULL && do_line(&host, line));
    return host_close(&host) ? 0 : 1;
}
