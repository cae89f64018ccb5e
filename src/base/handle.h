/*
 * handle.h - the table behind the public handles.
 *
 * What the application holds is no address: it is the number of a slot and the generation of that
 * slot. Slots are never freed. A close ends the generation, so a handle that was closed finds its
 * slot and another generation there, whoever has the slot now.
 *
 *     generation   g         pins keep the object      | g + 1: nothing finds it | g + 2: the next
 *     create -------- begin_close ---------- retire ---------- last unpin -- free -- create
 *
 * A call pins the object, so that a close on another thread does not free it meanwhile. The close
 * of a client waits for its pins. No other close does: the last pin frees the object. Questions
 * that must be cheap pin nothing: what they ask for stands in the slot.
 */
#ifndef SB_BASE_HANDLE_H
#define SB_BASE_HANDLE_H

#include "base/shared.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <simba/simba.h>

/* What an object tells without a pin. Written with release, read with acquire: a reader that has
 * seen what the slot's next object wrote finds its handle invalid afterwards. */
struct sb_handle_view {
    _Atomic int64_t belief_ms;
    _Atomic int64_t ttl_ms;
    _Atomic uint64_t fence;
    _Atomic uint32_t place;
    _Atomic int status;
    _Atomic unsigned forks; /* when the handle was made */
    uint32_t index;         /* of the slot; here, where it takes no room */
};

/* A slot. There may be a hundred thousand of them, so each byte counts. */
struct sb_handle {
    _Atomic uint64_t word; /* generation, whether a close has begun, pins */
    void *object;
    struct sb_handle_view view;
};

/* How many there can be at a time. */
#define SB_HANDLES_MAX (1U << 20)

/* Creates a handle, with one pin of its own. NULL: SIMBA_ENOMEM, also where the table is full. */
struct sb_handle *sb_handle_create(void *object, struct simba_error *error);

/* What the application is given. */
void *sb_handle_value(const struct sb_handle *handle);

/* Nothing finds the object any more. Takes the handle's own pin: true where that was the last
 * one. */
bool sb_handle_retire(struct sb_handle *handle);

/* Gives the slot back: no pin is left, and the object writes no more into it. */
void sb_handle_free(struct sb_handle *handle);

/* True for the first close only. From there on sb_handle_use refuses; questions are answered. The
 * caller has a pin. sb_handle_reopen takes it back. */
bool sb_handle_begin_close(struct sb_handle *handle);
void sb_handle_reopen(struct sb_handle *handle);

/* How many pins there are, that of the handle itself included. */
unsigned sb_handle_pins(const struct sb_handle *handle);

/* These give the object, pinned.
 *
 * For calls that answer with a code. SIMBA_EMISUSE: NULL was given, SIMBA_ECLOSED: a close has
 * begun. */
int sb_handle_use(const void *value, const char *call, const char *what, void **ret_object,
                  struct simba_error *error);

/* For questions, also while a close is under way. NULL: the handle is closed. */
void *sb_handle_ask(const void *value);

/* For questions that answer with a code. SIMBA_ECLOSED: the handle is closed. */
int sb_handle_ask_code(const void *value, const char *call, const char *what, void **ret_object,
                       struct simba_error *error);

/* True: the handle was retired, and this was the last pin. */
bool sb_handle_unpin(struct sb_handle *handle);

/* For questions that pin nothing: NULL where the handle is closed. What was read counts only if the
 * handle is still valid afterwards. */
const struct sb_handle_view *sb_handle_look(const void *value);
bool sb_handle_is_valid(const void *value);

#endif
