/*
 * vault.h - how a process under test uses the fenced resource: a counter for each mutex, kept by
 * the harness, which refuses a token that is lower than one it has seen.
 */
#ifndef SIMBA_CHAOS_VAULT_H
#define SIMBA_CHAOS_VAULT_H

#include <stdbool.h>
#include <stdint.h>

struct vault {
    int socket;
};

/* One connection for each thread. Ends the process on failure: without the resource there is
 * nothing to show. */
void vault_open(struct vault *vault, const char *path);
void vault_close(struct vault *vault);

/* Reads the counter, adds one and writes it back, both with the token; `still_owner` is asked in
 * between, as an application would. A read counts as use of the token: a lower one is refused
 * afterwards. */
void vault_use(struct vault *vault, const char *mutex, const char *who, uint64_t fence,
               bool (*still_owner)(void *user), void *user);

#endif
