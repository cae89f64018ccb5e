/*
 * poison.h - an allocator for the library under which memory that was freed cannot be used
 * unnoticed.
 *
 * A freed block is filled with a pattern and kept for a while. A reader of it finds pointers that
 * lead nowhere, and a writer is found when the block is let go. Under a sanitizer, which knows
 * better, it is left out.
 */
#ifndef SIMBA_TEST_POISON_H
#define SIMBA_TEST_POISON_H

/* Has the library use it; before anything else. */
void test_poison_install(void);

/* Looks at all freed blocks that are kept, and lets them go. Aborts, with a line, when one was
 * written to. */
void test_poison_check(void);

#endif
