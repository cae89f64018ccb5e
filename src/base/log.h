/*
 * log.h - the application's log hook. The library prints nothing by itself, but for a broken rule
 * (check.h).
 */
#ifndef SB_BASE_LOG_H
#define SB_BASE_LOG_H

#include <simba/simba.h>

#include <stdarg.h>

struct sb_log {
    simba_log_fn *fn; /* NULL: silent */
    void *user;
    enum simba_log_level level;
};

void sb_log(const struct sb_log *log, enum simba_log_level level, const char *format, ...)
    SIMBA_PRINTF(3, 4);
void sb_log_va(const struct sb_log *log, enum simba_log_level level, const char *format,
               va_list arguments);

#endif
