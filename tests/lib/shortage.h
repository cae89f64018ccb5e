/*
 * shortage.h - an allocator for the library that refuses memory while a test wants that.
 */
#ifndef SIMBA_TEST_SHORTAGE_H
#define SIMBA_TEST_SHORTAGE_H

#include <stdbool.h>

/* Whether the library gets no memory on this thread. */
extern _Thread_local bool test_is_short;

/* Has the library use it; before anything else. */
bool test_shortage_install(void);

#endif
