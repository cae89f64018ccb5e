/*
 * believer.c - competes for the mutex "m" and writes down when it believes that it owns it.
 *
 *     believer URL ID
 *
 * It asks every millisecond. A line "own T" has the first instant of a belief, "end T" the last
 * one, in milliseconds of the clock that all processes of the host share. Both were seen true: what
 * a busy machine delays makes a belief shorter here, never longer. SIGTERM ends it.
 */
#include <simba/simba.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

static volatile sig_atomic_t stopping;

static void on_signal(int number)
{
    (void)number;
    stopping = 1;
}

static void log_line(void *user, enum simba_log_level level, const char *text)
{
    (void)user;
    (void)level;
    printf("# %" PRId64 " %s\n", simba_now_ms(), text);
    fflush(stdout);
}

static void tell(const char *word, int64_t at_ms)
{
    printf("%s %" PRId64 "\n", word, at_ms);
    fflush(stdout);
}

static void watch(simba_contender *contender)
{
    const struct timespec pause = {0, 1000000};
    int64_t last_ms = 0; /* when it was last seen to own; 0: not now */

    while (!stopping) {
        int64_t now_ms = simba_now_ms();

        if (simba_contender_is_owner(contender)) {
            if (last_ms == 0)
                tell("own", now_ms);
            last_ms = now_ms;
        } else if (last_ms != 0) {
            tell("end", last_ms);
            last_ms = 0;
        }
        nanosleep(&pause, NULL);
    }
    if (last_ms != 0)
        tell("end", last_ms);
}

int main(int argc, char **argv)
{
    struct simba_client_options client_options = SIMBA_CLIENT_OPTIONS_INIT;
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    simba_contender *contender = NULL;
    simba_client *client = NULL;
    struct simba_error error;

    if (argc != 3)
        return 2;
    signal(SIGTERM, on_signal);
    client_options.log = log_line;
    client_options.log_level = SIMBA_LOG_DEBUG;
    options.mutex = "m";
    options.id = argv[2];
    if (simba_client_open(argv[1], &client_options, &client, &error) != SIMBA_OK ||
        simba_contender_create(client, &options, &contender, &error) != SIMBA_OK ||
        simba_contender_start(contender, &error) != SIMBA_OK) {
        printf("failed %s\n", error.text);
        return 1;
    }
    watch(contender);
    return 0; /* as if it had been killed: what it holds runs out */
}
