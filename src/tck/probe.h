/*
 * probe.h - a contender whose callbacks are recorded and checked.
 *
 * Whatever a case is about, its probes also see that on_acquired and on_released alternate, that
 * they tell the truth about the owner, that tokens grow and that nothing is called after a stop.
 */
#ifndef SB_TCK_PROBE_H
#define SB_TCK_PROBE_H

#include "tck/kit.h"

#include <stdatomic.h>

struct sb_probe {
    struct sb_kit_part part;
    struct sb_kit *kit;
    simba_contender *contender;
    const char *name;       /* for failures: "the first" */
    atomic_uint acquired;   /* calls of on_acquired that have begun */
    atomic_uint entered;    /* and returned */
    atomic_uint released;   /* calls of on_released that have begun */
    atomic_uint left;       /* and returned */
    _Atomic uint64_t fence; /* of the last term that was reported */
    atomic_bool quiet;      /* stopped: a callback now is a violation */
    /* Run inside the callbacks. Set them before the start. */
    void (*in_acquired)(struct sb_probe *probe, const struct simba_state *state);
    void (*in_released)(struct sb_probe *probe, const struct simba_state *state);
    void *user;
};

/* The probe is the kit's, which closes it. NULL: recorded, as it was for a client that is NULL. */
struct sb_probe *sb_probe_create(struct sb_kit *kit, simba_client *client, const char *name);

/* The same with an id that another contender may have (NULL: one of its own), and a ttl other than
 * the client's (or SIMBA_UNSET). */
struct sb_probe *sb_probe_create_with(struct sb_kit *kit, simba_client *client, const char *name,
                                      const char *id, int64_t ttl_ms);

/* Each records what goes wrong and returns whether all went well. */
bool sb_probe_start(struct sb_probe *probe);
bool sb_probe_stop(struct sb_probe *probe);

/* Stops where the store does not answer: the stop may run out of patience, all else is wrong. */
bool sb_probe_stop_unanswered(struct sb_probe *probe);

/* Waits until on_acquired has been called that many times, and has returned. */
bool sb_probe_await_acquired(struct sb_probe *probe, unsigned times);

/* The same for on_released. */
bool sb_probe_await_released(struct sb_probe *probe, unsigned times);

#endif
