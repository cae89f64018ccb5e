/*
 * journal.c - keeps the lines of a log.
 */
#include "journal.h"

static void on_line(void *user, enum simba_log_level level, const char *line)
{
    struct journal *journal = user;

    pthread_mutex_lock(&journal->lock);
    if (journal->count < JOURNAL_LINES_MAX) {
        journal->lines[journal->count].level = level;
        snprintf(journal->lines[journal->count++].text, sizeof journal->lines[0].text, "%s", line);
    }
    pthread_mutex_unlock(&journal->lock);
}

void journal_init(struct journal *journal)
{
    memset(journal, 0, sizeof *journal);
    pthread_mutex_init(&journal->lock, NULL);
}

void journal_free(struct journal *journal)
{
    pthread_mutex_destroy(&journal->lock);
}

struct simba_client_options journal_options(struct journal *journal)
{
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;

    options.log = on_line;
    options.log_user = journal;
    options.log_level = SIMBA_LOG_DEBUG;
    return options;
}

size_t journal_count(struct journal *journal, enum simba_log_level level, const char *word)
{
    size_t count = 0;

    pthread_mutex_lock(&journal->lock);
    for (size_t i = 0; i < journal->count; i++)
        count += journal->lines[i].level <= level && strstr(journal->lines[i].text, word) != NULL;
    pthread_mutex_unlock(&journal->lock);
    return count;
}

struct expected {
    struct journal *journal;
    enum simba_log_level level;
    const char *word;
};

static bool has_come(void *user)
{
    const struct expected *expected = user;

    return journal_count(expected->journal, expected->level, expected->word) > 0;
}

void journal_await(struct journal *journal, enum simba_log_level level, const char *word)
{
    struct expected expected = {journal, level, word};

    if (!test_wait(has_come, &expected))
        fail_msg("the log does not say '%s'", word);
}
