/*
 * trace.c - the readable account of a run: one line for each thing that happens, in true
 * milliseconds. And that for spec/replay, which compares a run with the specification.
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

/* Every line has the clocks: that of the store, and that of the contender which it is about. */
void sim_tell(const struct sim_world *w, const char *event, int member, const char *format, ...)
{
    const struct sim_member *m = &w->members[member];
    va_list arguments;

    if (w->options->events == NULL || m->observer)
        return;
    fprintf(w->options->events, "event=%s of=%s store_ms=%lld", event, m->id,
            (long long)sim_store_ms(w));
    for (int i = 0; i < w->member_count; i++)
        if (!w->members[i].observer)
            fprintf(w->options->events, " %s_ms=%lld", w->members[i].id,
                    (long long)sim_process_ms(w, w->members[i].process));
    va_start(arguments, format);
    vfprintf(w->options->events, format, arguments);
    va_end(arguments);
    fputc('\n', w->options->events);
}

void sim_tell_start(const struct sim_world *w)
{
    static const char *const kinds[] = {"sql", "redis", "session"};

    if (w->options->events == NULL)
        return;
    fprintf(w->options->events, "event=world kind=%s\n", kinds[w->store.kind]);
    for (int i = 0; i < w->member_count; i++) {
        const struct sb_timing *t = &w->members[i].timing;

        sim_tell(w, "member", i, " ttl=%lld transition=%lld margin=%lld reserve=%lld twin=%d",
                 (long long)t->ttl_ms, (long long)t->transition_ms, (long long)t->margin_ms,
                 (long long)t->reserve_ms, w->members[i].twin != i);
    }
}

void sim_tell_end(const struct sim_world *w, const char *why)
{
    if (w->options->events != NULL)
        fprintf(w->options->events, "event=end why=%s\n", why);
}

bool sim_is_awaited(const struct sim_world *w, const struct sim_request *r)
{
    const struct sim_member *m = &w->members[r->member];
    const struct sb_machine *machine = &m->machine.contender;

    return !m->observer && !r->answered && r->life == w->processes[m->process].life &&
           r->generation == machine->generation && r->op == machine->in_flight;
}

const char *sim_op_name(enum simba_op op)
{
    static const char *const names[] = {
        [SIMBA_OP_NONE] = "NONE",       [SIMBA_OP_ACQUIRE] = "ACQUIRE", [SIMBA_OP_GUARD] = "GUARD",
        [SIMBA_OP_RELEASE] = "RELEASE", [SIMBA_OP_READ] = "READ",       [SIMBA_OP_LIST] = "LIST",
    };

    return names[op];
}
