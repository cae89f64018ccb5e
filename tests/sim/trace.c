/*
 * trace.c - the readable account of a run: one line for each thing that happens, in true
 * milliseconds.
 */
#include "sim.h"

#include <stdarg.h>

void sim_trace(const struct sim_world *w, const char *format, ...)
{
    va_list arguments;

    if (w->options->trace == NULL)
        return;
    fprintf(w->options->trace, "%8lld.%03lld  ", (long long)(w->now_us / SIM_MS),
            (long long)(w->now_us % SIM_MS));
    va_start(arguments, format);
    vfprintf(w->options->trace, format, arguments);
    va_end(arguments);
    fputc('\n', w->options->trace);
}

const char *sim_op_name(enum simba_op op)
{
    static const char *const names[] = {
        [SIMBA_OP_NONE] = "NONE",       [SIMBA_OP_ACQUIRE] = "ACQUIRE", [SIMBA_OP_GUARD] = "GUARD",
        [SIMBA_OP_RELEASE] = "RELEASE", [SIMBA_OP_READ] = "READ",       [SIMBA_OP_LIST] = "LIST",
    };

    return names[op];
}
