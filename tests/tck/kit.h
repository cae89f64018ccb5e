/*
 * kit.h - runs the compatibility kit inside a test and keeps what it found.
 */
#ifndef TEST_TCK_KIT_H
#define TEST_TCK_KIT_H

#include "test.h"

#include <simba/tck.h>

struct kit_result {
    int code;
    int passed;
    int failed;
    struct simba_error error;
    char failure[600]; /* name and text of the first case that failed */
};

static inline void kit_report(void *user, const char *name, int passed, const char *text)
{
    struct kit_result *result = user;

    if (passed < 0)
        return;
    print_message("# %s %s %s\n", name, passed ? "passed" : "failed", text);
    if (!passed && result->failure[0] == '\0')
        snprintf(result->failure, sizeof(result->failure), "%s: %s", name, text);
}

static inline struct kit_result kit_run(struct simba_tck_options *options)
{
    struct kit_result result = {0};

    options->report = kit_report;
    options->user = &result;
    result.code = simba_tck_run(options, &result.passed, &result.failed, &result.error);
    return result;
}

static inline void kit_assert_passed(const struct kit_result *result, int least)
{
    if (result->code != SIMBA_OK)
        fail_msg("%s (%s)", result->error.text, result->failure);
    assert_int_equal(result->failed, 0);
    assert_true(result->passed >= least);
}

static inline void kit_assert_passes(struct simba_tck_options *options, const char *url, int least)
{
    struct kit_result result;

    options->url = url;
    result = kit_run(options);
    kit_assert_passed(&result, least);
}

#endif
