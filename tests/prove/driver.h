/*
 * driver.h - what a driver that keeps its duties may send to a contention machine, and what the
 * machine must answer. The duties are numbered in core/machine.h and in simba/backend.h.
 */
#ifndef SB_TESTS_PROVE_DRIVER_H
#define SB_TESTS_PROVE_DRIVER_H

#include "prove.h"

/* The run script proves one event after the other: so each proof is small. */
#ifndef PROVE_EVENT
#define PROVE_EVENT (enum sb_event_type) prove_between(SB_EVENT_START, SB_EVENT_SESSION_LOST)
#endif
#ifndef PROVE_OP
#define PROVE_OP (enum simba_op) prove_between(SIMBA_OP_ACQUIRE, SIMBA_OP_READ)
#endif
#ifndef PROVE_ANSWER
#define PROVE_ANSWER (enum sb_answer) prove_between(SB_ANSWER_MINE, SB_ANSWER_UNKNOWN)
#endif
#ifndef PROVE_STATUS
#define PROVE_STATUS (enum simba_status) prove_between(SIMBA_INITIAL, SIMBA_STOPPING)
#endif
#ifndef PROVE_IN_FLIGHT
#define PROVE_IN_FLIGHT (enum simba_op) prove_between(SIMBA_OP_NONE, SIMBA_OP_READ)
#endif
#ifndef PROVE_GENERATION /* the machine looks at nothing but whether one is older */
#define PROVE_GENERATION nondet_uint32()
#endif
#ifndef PROVE_OLDER /* the generation of an answer to an older request */
#define PROVE_OLDER nondet_uint32()
#endif
#ifndef PROVE_EXPECTED /* whether the answer is to the request in flight */
#define PROVE_EXPECTED prove_any_bool()
#endif

/* What a driver remembers between two steps. */
struct driver {
    int64_t last_ms; /* of the last event */
    uint64_t named;  /* the fence of the request in flight */
};

/* What it remembers of a machine that has not been stepped. */
void driver_init(struct driver *driver);

/* Every state of machine and driver that keeps the rules. */
void driver_any_state(struct sb_machine *machine, const struct sb_timing *timing,
                      struct driver *driver);

/* Every event that may come in that state. */
struct sb_event driver_any_event(const struct sb_machine *machine, const struct driver *driver);

/* Makes the step and does what it asks for. Fails where the answer breaks the contract. */
void driver_step(struct driver *driver, struct sb_machine *machine, const struct sb_event *event);

/* Whether machine and driver fit together. With sb_machine_broken_rule this is the invariant. */
bool driver_fits(const struct sb_machine *machine, const struct driver *driver);

#endif
