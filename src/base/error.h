/*
 * error.h - fills in a caller's struct simba_error, and hands lines to the application's log hook.
 * The library prints nothing by itself, but for a broken rule (check.h).
 */
#ifndef SB_BASE_ERROR_H
#define SB_BASE_ERROR_H

#include "base/shared.h"

#include <simba/simba.h>

#include <stdarg.h>

/* Writes code and sentence into `error` (which may be NULL) and returns `code`. */
int sb_error_set(struct simba_error *error, int code, const char *format, ...)
    SB_SHARED("error_set") SIMBA_PRINTF(3, 4);

/* The same with the store's own number. */
int sb_error_set_backend(struct simba_error *error, int code, int backend_code, const char *format,
                         ...) SB_SHARED("error_set_backend") SIMBA_PRINTF(4, 5);

/* The code with its fixed text, without `error` having anything better to say. */
int sb_error_plain(struct simba_error *error, int code) SB_SHARED("error_plain");

/* ---- The log --------------------------------------------------------------------------------- */

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
