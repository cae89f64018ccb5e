/*
 * registry.h - the backend for a scheme, with the reason where there is none.
 */
#ifndef SB_BACKEND_REGISTRY_H
#define SB_BACKEND_REGISTRY_H

#include <simba/backend.h>

/* NULL: none serves the scheme. SIMBA_ECONFIG: one does, but it cannot be loaded. */
int sb_backend_find(const char *scheme, const struct simba_backend_ops **ret_ops,
                    struct simba_error *error);

/* Those that applications have registered, in that order: writes at most `most` of them, and
 * returns how many. */
size_t sb_backend_registered(const struct simba_backend_ops *ret_ops[], size_t most);

/* SIMBA_EINVAL: the backend was built with another backend.h, or lacks its name or a function. */
int sb_backend_check(const struct simba_backend_ops *ops, struct simba_error *error);

#endif
