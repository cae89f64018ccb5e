/*
 * printer_test.c - the printer of standard error, alone: order, completeness, and a reader that is
 * stuck.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/cli.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FINISH_MS 10000

/* A pipe takes the place of standard error. */
struct reader {
    int fd;
    int before; /* standard error as it was */
    char text[1 << 20];
    size_t length;
};

static struct reader reader;

static int reader_enter(void **state)
{
    int fds[2];

    fflush(stderr);
    if (pipe2(fds, O_CLOEXEC) != 0)
        return -1;
    reader.fd = fds[0];
    reader.before = dup(STDERR_FILENO);
    reader.length = 0;
    dup2(fds[1], STDERR_FILENO);
    close(fds[1]);
    cli_message_start_queue();
    return 0;
}

static int reader_leave(void **state)
{
    dup2(reader.before, STDERR_FILENO);
    close(reader.before);
    close(reader.fd);
    return 0;
}

/* Reads until the text ends in `end`. */
static const char *read_until(const char *end)
{
    size_t wanted = strlen(end);

    while (reader.length < sizeof reader.text - 1) {
        ssize_t got =
            read(reader.fd, reader.text + reader.length, sizeof reader.text - 1 - reader.length);
        assert_true(got > 0);
        reader.length += (size_t)got;
        reader.text[reader.length] = 0;
        if (reader.length >= wanted && strcmp(reader.text + reader.length - wanted, end) == 0)
            return reader.text;
    }
    fail_msg("the text is longer than %zu bytes", sizeof reader.text);
    return NULL;
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Wide lines, so that a pipe takes few of them. */
static void put_numbers(int count)
{
    for (int i = 0; i < count; i++) {
        char line[CLI_MESSAGE_MAX];
        snprintf(line, sizeof line, "%-1000d\n", i);
        cli_message_put(line);
    }
}

static void lines_that_are_read_come_in_order_and_completely(void **state)
{
    for (int round = 0; round < 50; round++) {
        put_numbers(20);
        cli_message_put("end\n");
        char *place = (char *)(uintptr_t)read_until("\nend\n");
        for (int i = 0; i < 20; i++)
            assert_int_equal(strtol(place, &place, 10), i);
        reader.length = 0;
    }
    cli_message_flush(FINISH_MS);
}

/* One line; it is valid until the next call. */
static const char *read_line(void)
{
    reader.length = 0;
    do {
        assert_int_equal(read(reader.fd, reader.text + reader.length, 1), 1);
    } while (reader.text[reader.length++] != '\n');
    reader.text[reader.length] = 0;
    return reader.text;
}

/* The pipe and the queue together hold far fewer. Each number comes in its turn, or is counted in
 * its turn among those that are missing. */
static void lines_that_nobody_reads_hold_nobody_up_and_are_counted_where_they_miss(void **state)
{
    enum { MANY = 2000 };
    int next = 0;
    int missing = 0;

    put_numbers(MANY);
    int64_t begin_ms = now_ms();
    cli_message_flush(100);
    assert_in_range(now_ms() - begin_ms, 100, 5000);
    while (next < MANY) {
        const char *line = read_line();
        int skipped = 0;
        if (sscanf(line, "simba: %d messages are missing here", &skipped) != 1)
            assert_int_equal(strtol(line, NULL, 10), next++);
        next += skipped;
        missing += skipped;
    }
    assert_int_equal(next, MANY);
    assert_true(missing > 0);
    cli_message_flush(FINISH_MS);
}

static void a_line_that_is_too_long_is_cut_and_still_a_line(void **state)
{
    static char line[2 * CLI_MESSAGE_MAX];

    memset(line, 'x', sizeof line - 1);
    cli_message_put(line);
    assert_int_equal(strlen(read_until("x\n")), CLI_MESSAGE_MAX - 1);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, reader_enter, reader_leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(lines_that_are_read_come_in_order_and_completely),
        CASE(lines_that_nobody_reads_hold_nobody_up_and_are_counted_where_they_miss),
        CASE(a_line_that_is_too_long_is_cut_and_still_a_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
