/*
 * What the tests of the public objects share: clients with short or long leases, and a contender
 * whose callbacks are counted and checked.
 *
 * Asserts of cmocka belong to the thread of the test, so callbacks only note what they see.
 */
#ifndef SIMBA_API_PROBE_H
#define SIMBA_API_PROBE_H

#include "test.h"

#include <simba/backend.h>
#include <simba/simba.h>

#include <pthread.h>
#include <stdatomic.h>

/* Leases that end soon, for tests that wait for their end; and leases that do not end during a
 * test. */
#define PROBE_SHORT "ttl=300ms&transition=400ms&jitter=0ms..30ms&stop-timeout=5s"
#define PROBE_LONG "ttl=20s&transition=20s&jitter=0ms..30ms&stop-timeout=20s"

/* Opens a client or fails the test. */
simba_client *probe_open(const char *url);
simba_client *probe_open_with(const char *url, const struct simba_client_options *options);

/* Closes a client, which must succeed. */
void probe_close(simba_client *client);

/* "sqlite:FOLDER/db?PARAMETERS"; skips the test when the library has no SQLite. */
void probe_sqlite_url(char *buffer, size_t size, const char *folder, const char *parameters);

/* A flag that threads set and wait for. */
struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool open;
};

#define GATE_INIT                                                                                  \
    {                                                                                              \
        PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false                                 \
    }

void gate_open(struct gate *gate);
void gate_wait(struct gate *gate);

struct probe {
    simba_contender *contender;
    atomic_uint acquired;   /* on_acquired that have begun */
    atomic_uint released;   /* on_released that have begun */
    atomic_uint returned;   /* of both, that have returned */
    atomic_uint notified;   /* on_notify that have begun */
    atomic_uint running;    /* of all, that run now */
    atomic_uint disorder;   /* callbacks at the same time, or not in turn */
    atomic_ullong fence;    /* of the last on_acquired */
    atomic_uint owned_late; /* on_released that found is_owner true */
    void (*in_acquired)(struct probe *probe);
    void (*in_released)(struct probe *probe);
    void (*in_notify)(struct probe *probe);
    void *user;
};

/* Creates the contender of a zeroed probe; `id` may be NULL. */
void probe_create(struct probe *probe, simba_client *client, const char *mutex, const char *id);
void probe_start(struct probe *probe);
void probe_stop(struct probe *probe);

/* Closes the contender and checks that the callbacks came in order. */
void probe_end(struct probe *probe);

/* Wait, or fail the test. */
void probe_wait_owner(struct probe *probe);
void probe_wait_count(atomic_uint *counter, unsigned least);
void probe_wait_status(const simba_contender *contender, enum simba_status status);

/* Whether the store says that nobody owns; and waits until it does. */
bool probe_is_free(simba_client *client, const char *mutex);
void probe_wait_free(simba_client *client, const char *mutex);

/* Whether `text` has `word`; fails the test with both otherwise. */
void probe_assert_names(const char *text, const char *word);

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PROBE_SANITIZED true
#else
#define PROBE_SANITIZED false
#endif

/* Whether measured times mean nothing: a sanitizer or valgrind is at work. */
bool probe_is_slowed(void);

#endif
