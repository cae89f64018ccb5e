/*
 * probe.h - static tracepoints of the provider "simba", for bpftrace, perf and gdb.
 *
 * A tracepoint is one instruction that does nothing, and a note in the file that tells where it
 * is. Name only what is at hand as an argument: it is read even when nobody traces.
 * docs/guide/tracing.md lists them all.
 */
#ifndef SB_BASE_PROBE_H
#define SB_BASE_PROBE_H

#ifdef SIMBA_HAVE_PROBES
#include <sys/sdt.h>

#define SB_PROBE_TERM(name, mutex, id, fence) DTRACE_PROBE3(simba, name, mutex, id, fence)
#define SB_PROBE_LOSS(mutex, id, fence, why) DTRACE_PROBE4(simba, lose, mutex, id, fence, why)
#define SB_PROBE_SENT(mutex, id, fence, op)                                                        \
    DTRACE_PROBE4(simba, request__sent, mutex, id, fence, op)
#define SB_PROBE_ANSWERED(mutex, id, fence, op, code, us)                                          \
    DTRACE_PROBE6(simba, request__answered, mutex, id, fence, op, code, us)
#else
#define SB_PROBE_TERM(name, mutex, id, fence) ((void)0)
#define SB_PROBE_LOSS(mutex, id, fence, why) ((void)(fence))
#define SB_PROBE_SENT(mutex, id, fence, op) ((void)0)
#define SB_PROBE_ANSWERED(mutex, id, fence, op, code, us) ((void)0)
#endif

#endif
