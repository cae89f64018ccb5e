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
#define SDT_USE_VARIADIC
#include <sys/sdt.h>
#define SB_PROBE(name, ...) STAP_PROBEV(simba, name, __VA_ARGS__)
#else
#define SB_PROBE(name, ...) ((void)0)
#endif

#endif
