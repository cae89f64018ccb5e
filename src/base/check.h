/*
 * check.h - rules that hold whatever happens outside: SB_CHECK ends the process when one is broken.
 *
 * In every build, releases too. A lock whose own state is wrong cannot protect anything, and the
 * leases of a process that ended expire by themselves. So a rule is about this library alone:
 * nothing that a store, the application or the system says may break one.
 */
#ifndef SB_BASE_CHECK_H
#define SB_BASE_CHECK_H

#include "base/shared.h"

/* `rule` says what holds, in words. */
#define SB_CHECK(condition, rule)                                                                  \
    ((condition) ? (void)0 : sb_check_failed(__FILE__, __LINE__, (rule)))

/* Prints file, line and rule to the standard error and aborts. */
_Noreturn void sb_check_failed(const char *file, int line, const char *rule)
    SB_SHARED("check_failed") __attribute__((cold));

#endif
