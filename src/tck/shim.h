/*
 * shim.h - stands between the library and a backend and makes faults.
 *
 *     library  --submit-->  shim  --submit-->  backend
 *     library  <--reply---  shim  <--reply---  backend
 *
 * It can keep requests from the backend, keep answers from the library and answer with an error in
 * the backend's place. It can also put requests of its own to the backend, to see what the store
 * itself says. It works with any backend because it uses nothing but backend.h.
 */
#ifndef SB_TCK_SHIM_H
#define SB_TCK_SHIM_H

#include <simba/backend.h>

struct sb_shim;

/* Sets of operations, for the functions below. SIMBA_OP_LIST cannot be held. */
#define SB_SHIM_OP(op) (1U << (unsigned)(op))
#define SB_SHIM_ALL                                                                                \
    (SB_SHIM_OP(SIMBA_OP_ACQUIRE) | SB_SHIM_OP(SIMBA_OP_GUARD) | SB_SHIM_OP(SIMBA_OP_RELEASE) |    \
     SB_SHIM_OP(SIMBA_OP_READ))

/* Creates a shim for one client. `backend` NULL: the one that serves the URL's scheme. */
int sb_shim_create(const char *url, const struct simba_backend_ops *backend,
                   struct sb_shim **ret_shim, struct simba_error *error);

/* Opens the client whose requests pass through the shim. The shim must outlive it. */
int sb_shim_open(struct sb_shim *shim, const char *url, const struct simba_client_options *options,
                 simba_client **ret_client, struct simba_error *error);

/* Destroys it, after its client was closed. NULL is allowed. */
void sb_shim_free(struct sb_shim *shim);

/* From now on requests of the set wait in the shim. */
void sb_shim_hold_requests(struct sb_shim *shim, unsigned set);

/* From now on the backend's answers to requests of the set wait in the shim. */
void sb_shim_hold_replies(struct sb_shim *shim, unsigned set);

/* From now on requests of the set are answered with `code`, and the backend never sees them. */
void sb_shim_refuse(struct sb_shim *shim, unsigned set, int code);

/* Delivers the answer that has waited longest; the others go on waiting. */
void sb_shim_let_go_first(struct sb_shim *shim);

/* Ends all faults; what waited goes on its way. NULL is allowed. */
void sb_shim_let_go(struct sb_shim *shim);

/* How many answers wait. */
unsigned sb_shim_held_replies(struct sb_shim *shim);

/* When the last ACQUIRE or GUARD left the library that made its sender the owner by an answer which
 * reached the library. Never earlier than the library thinks. For a client with one contender. */
int64_t sb_shim_leased_at_ms(struct sb_shim *shim);

/* Whether the backend's leases are sessions, which know no time. */
bool sb_shim_has_sessions(struct sb_shim *shim);

/* An answer to a request of the shim's own, for keeps. */
struct sb_shim_answer {
    int code;
    char owner[SIMBA_ID_MAX + 1];
    int64_t ttl_left_ms;
    int64_t transition_left_ms;
    uint64_t revision;
    bool missed;
    char text[256];
};

/* Puts a request to the backend and waits for the answer. Returns SIMBA_OK when there was an
 * answer, whatever it says, and SIMBA_ETIMEDOUT when there was none. Not while anything is held. */
int sb_shim_call(struct sb_shim *shim, const struct simba_request *request, int64_t patience_ms,
                 struct sb_shim_answer *ret_answer);

#endif
