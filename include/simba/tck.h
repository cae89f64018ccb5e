/*
 * tck.h - the compatibility kit: the cases that every backend must pass, for backend authors.
 *
 * The classic five (start, restart, guard, multi_contend, schedule) make a backend interchangeable
 * with the others; the rest pins what this library adds. Faults are injected between the library
 * and the backend, so that they work with any store. Violations seen inside callbacks fail the
 * case.
 *
 * The kit is in libsimba-tck.a (pkg-config simba-tck), which runs with the library of its own
 * version only.
 */
#ifndef SIMBA_TCK_H
#define SIMBA_TCK_H

#include <simba/simba.h>

#ifdef __cplusplus
extern "C" {
#endif

struct simba_tck_options {
    size_t size;
    const char *url;                         /* required: the store */
    const struct simba_backend_ops *backend; /* where set, used whatever the URL's scheme */
    const char *only;                        /* NULL, or the name of one case */
    int64_t ttl_ms;                          /* of the leases in the cases; default 300 ms */
    int64_t transition_ms;                   /* default 400 ms */
    int64_t contend_ms; /* how long multi_contend lasts; default 5 s (the classic run: 30 s) */
    int contenders;     /* in multi_contend; default 10 */
    int processes;      /* default 1; more: multi_contend also runs across processes */
    /* Called with each case's name before it runs (passed -1) and after (0 or 1, and what
     * failed). */
    void (*report)(void *user, const char *name, int passed, const char *text);
    void *user;
};

#define SIMBA_TCK_OPTIONS_INIT                                                                     \
    {                                                                                              \
        sizeof(struct simba_tck_options), NULL, NULL, NULL, 300, 400, 5000, 10, 1, NULL, NULL      \
    }

/* Runs the kit and waits for it; a case that hangs is given up and has failed. Creates mutexes
 * named tck-... on the store. With more than one process it forks: call it before other threads
 * exist. Returns SIMBA_OK when all cases that ran passed, SIMBA_ESTORE when one failed, another
 * code when the kit could not run. Of the results any may be NULL. */
SIMBA_API int simba_tck_run(const struct simba_tck_options *options, int *ret_passed,
                            int *ret_failed, struct simba_error *error);

/* The names of the cases; NULL behind the last one. */
SIMBA_API const char *simba_tck_case(size_t index);

#ifdef __cplusplus
}
#endif

#endif
