/*
 * title.c - what `ps` shows of a process that was forked and goes on without exec.
 *
 * The kernel has put the strings of the arguments, and behind them those of the environment, in one piece, and
 * shows what is there now. Where the last byte of the arguments is not NUL it reads on into the environment.
 */
#include "cli/title.h"

#include <stddef.h>
#include <string.h>

extern char **environ;

static struct {
    char *begin; /* NULL: not known */
    size_t size;
} area;

/* Behind the last of these strings that follow each other without a gap. */
static char *end_of(char **strings, char *end)
{
    for (; *strings != NULL && *strings == end; strings++)
        end = *strings + strlen(*strings) + 1;
    return end;
}

void cli_title_init(int argc, char **argv)
{
    if (argc < 1)
        return;
    area.begin = argv[0];
    area.size = (size_t)(end_of(environ, end_of(argv, argv[0])) - argv[0]);
}

void cli_title_set(const char *title)
{
    size_t length = strlen(title);

    if (area.size == 0)
        return;
    if (length >= area.size)
        length = area.size - 1;
    memset(area.begin, 0, area.size);
    memcpy(area.begin, title, length);
}
