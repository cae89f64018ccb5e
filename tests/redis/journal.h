/*
 * journal.h - what a client says through its log hook, by level.
 */
#ifndef SIMBA_TEST_REDIS_JOURNAL_H
#define SIMBA_TEST_REDIS_JOURNAL_H

#include "test.h"

#include <simba/simba.h>

#include <pthread.h>

#define JOURNAL_LINES_MAX 512

struct journal {
    pthread_mutex_t lock;
    size_t count;
    struct {
        enum simba_log_level level;
        char text[320];
    } lines[JOURNAL_LINES_MAX];
};

void journal_init(struct journal *journal);
void journal_free(struct journal *journal);

/* Options for a client that says everything to the journal. */
struct simba_client_options journal_options(struct journal *journal);

/* How many lines of the level, or of more weight, have the word in them. */
size_t journal_count(struct journal *journal, enum simba_log_level level, const char *word);

/* Waits for the first such line, and fails the test when none comes. */
void journal_await(struct journal *journal, enum simba_log_level level, const char *word);

#endif
