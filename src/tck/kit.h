/*
 * kit.h - the stage on which one case of the compatibility kit runs.
 *
 * Owns what a case makes (clients, probes, shims), its waiting and what it found wrong. A case may
 * return at any line: all that it made is closed behind it. Knows the public headers only, so that
 * a backend of anybody's can be put to the test.
 */
#ifndef SB_TCK_KIT_H
#define SB_TCK_KIT_H

#include <simba/tck.h>

#include <pthread.h>

#define SB_KIT_CLIENTS_MAX 4
#define SB_KIT_PROCESSES_MAX 64
#define SB_KIT_CONTENDERS_MAX 512 /* of a contest in one process */
#define SB_KIT_NAME_MAX 24        /* bytes in the name of a case */
#define SB_KIT_TEXT_MAX 512       /* bytes kept of what failed; the first failures say the most */
#define SB_KIT_POLL_MS 2          /* how often conditions are looked at */

struct sb_shim;

/* Embedded in what a case makes from a client. `close` takes it out of the kit, and ends it. */
struct sb_kit_part {
    struct sb_kit_part *next;
    void (*close)(struct sb_kit_part *part);
};

struct sb_kit {
    struct simba_tck_options options; /* its strings are the kit's own */
    char *url;
    char mutex[SIMBA_MUTEX_MAX + 1];
    pthread_mutex_t lock; /* guards the fields down to `note` */
    unsigned failures;
    char failure[SB_KIT_TEXT_MAX];
    char note[128]; /* what a case that passed has to tell */
    simba_client *clients[SB_KIT_CLIENTS_MAX];
    struct sb_shim *shims[SB_KIT_CLIENTS_MAX]; /* NULL where a client has none */
    size_t client_count;
    struct sb_kit_part *parts; /* are closed before the clients */
};

/* How long the leases of a client are. */
enum sb_kit_lease {
    SB_KIT_LEASE_PLAIN, /* as the options say: for cases in which leases run out */
    SB_KIT_LEASE_CALM /* the same ttl and a longer transition: for cases in which none may, however
                         * busy the machine is */
};

int sb_kit_create(const struct simba_tck_options *options, const char *name,
                  struct sb_kit **ret_kit, struct simba_error *error);

/* Destroys it; closes what the case left open. NULL is allowed. */
void sb_kit_free(struct sb_kit *kit);

/* Has the kit close a part, and takes it out again. */
void sb_kit_add(struct sb_kit *kit, struct sb_kit_part *part);
void sb_kit_remove(struct sb_kit *kit, struct sb_kit_part *part);

/* Closes all clients and what was made from them. What cannot be closed fails the case. */
void sb_kit_close(struct sb_kit *kit);

/* Records a failure. From any thread, also inside callbacks. */
void sb_kit_fail(struct sb_kit *kit, const char *format, ...) SIMBA_PRINTF(2, 3);

/* Records a failure unless `holds`; returns `holds`. */
bool sb_kit_check(struct sb_kit *kit, bool holds, const char *format, ...) SIMBA_PRINTF(3, 4);

/* The same for a call that must return SIMBA_OK. */
bool sb_kit_check_ok(struct sb_kit *kit, int code, const struct simba_error *error,
                     const char *what);

void sb_kit_note(struct sb_kit *kit, const char *format, ...) SIMBA_PRINTF(2, 3);
bool sb_kit_failed(struct sb_kit *kit);

typedef bool sb_kit_condition(void *argument);

/* Waits until the condition holds; false when that did not come within `timeout_ms`. */
bool sb_kit_wait(sb_kit_condition *holds, void *argument, int64_t timeout_ms);

/* Waits for what must happen, with patience for a slow machine; otherwise records a failure. */
bool sb_kit_await(struct sb_kit *kit, sb_kit_condition *holds, void *argument, const char *what);

/* Lets the time pass. */
void sb_kit_linger(int64_t ms);

int64_t sb_kit_lease_ms(const struct sb_kit *kit, enum sb_kit_lease lease);
int64_t sb_kit_patience_ms(const struct sb_kit *kit);

/* Opens one more client of the store. NULL: recorded. */
simba_client *sb_kit_client(struct sb_kit *kit, enum sb_kit_lease lease);

/* The same with a shim between the library and the backend. */
simba_client *sb_kit_client_with_shim(struct sb_kit *kit, enum sb_kit_lease lease,
                                      int64_t stop_timeout_ms, struct sb_shim **ret_shim);

/* Who owns the mutex by the store's word; an empty id when nobody does. False: recorded. */
bool sb_kit_look(struct sb_kit *kit, simba_client *client, struct simba_mutex_status *ret_status);

/* Waits until the store says that nobody owns the mutex. */
bool sb_kit_await_free(struct sb_kit *kit, simba_client *client);

/* ---- The cases ------------------------------------------------------------------------------- */

/* Each runs on a kit of its own and records what it finds wrong. It may leave everything open. */
typedef void sb_case(struct sb_kit *kit);

/* lifecycle.c */
sb_case sb_case_start;
sb_case sb_case_restart;
sb_case sb_case_guard;
sb_case sb_case_stop_in_callback;

/* terms.c */
sb_case sb_case_handover_order;
sb_case sb_case_fence_grows;
sb_case sb_case_equal_ids;

/* services.c */
sb_case sb_case_schedule;
sb_case sb_case_observe;
sb_case sb_case_lock_timeout;

/* faults.c */
sb_case sb_case_self_fence;
sb_case sb_case_late_reply;

/* contract.c */
sb_case sb_case_contract;

/* property.c */
sb_case sb_case_properties;

/* groups.c */
sb_case sb_case_semaphore;
sb_case sb_case_set;

/* contest.c */
sb_case sb_case_multi_contend;
sb_case sb_case_multi_process; /* forks: no thread may exist */

#endif
