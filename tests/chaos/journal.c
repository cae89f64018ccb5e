/*
 * journal.c - the lines that a process under test writes down.
 */
#include "journal.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES 512

static int journal = -1;

void journal_open(const char *path)
{
    journal = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (journal < 0) {
        perror(path);
        exit(1);
    }
}

int64_t journal_now_ns(void)
{
    struct timespec now = {0, 0};

    syscall(SYS_clock_gettime, CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void write_line(int64_t at_ns, const char *format, va_list list)
{
    char line[LINE_MAX_BYTES];
    int length = snprintf(line, sizeof line, "%" PRId64 " ", at_ns);

    length += vsnprintf(line + length, sizeof line - (size_t)length - 1, format, list);
    if (length > LINE_MAX_BYTES - 2)
        length = LINE_MAX_BYTES - 2;
    line[length++] = '\n';
    if (write(journal, line, (size_t)length) != length)
        _exit(1); /* what is not written down cannot be judged */
}

void journal_write(const char *format, ...)
{
    va_list list;

    va_start(list, format);
    write_line(journal_now_ns(), format, list);
    va_end(list);
}

void journal_write_at(int64_t at_ns, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    write_line(at_ns, format, list);
    va_end(list);
}
