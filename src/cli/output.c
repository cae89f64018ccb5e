/*
 * output.c - standard output: results that could not be written must not look like success.
 *
 * stdio tells once that something failed, and then forgets why. So the reason is kept here.
 */
#include "cli/output.h"

#include "cli/cli.h"
#include "cli/say.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static _Atomic int first_failure; /* an errno */

bool cli_output_set_json(void *into, const char *value)
{
    (void)value;
    ((struct cli_output *)into)->json = true;
    return true;
}

bool cli_output_flush(void)
{
    int none = 0;

    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return true;
    atomic_compare_exchange_strong(&first_failure, &none, errno != 0 ? errno : EIO);
    return false;
}

/* A pipe or a socket without a reader shows so, whatever the write said. */
static bool reader_left(void)
{
    struct pollfd output = {.fd = STDOUT_FILENO, .events = 0};

    return poll(&output, 1, 0) > 0 && (output.revents & (POLLERR | POLLHUP)) != 0;
}

int cli_output_finish(int status)
{
    if (cli_output_flush() || first_failure == EPIPE || reader_left())
        return status;
    cli_say("standard output: %s", strerror(first_failure));
    return status == CLI_EXIT_OK ? CLI_EXIT_OUTPUT : status;
}
