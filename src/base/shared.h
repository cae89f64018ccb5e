/*
 * shared.h - the names inside the library that its modules and its program use.
 *
 * The shared library hides all other names of its own. These few it exports under another name:
 * with "sb_free" an application's own string builder would be mixed up with the library's memory.
 */
#ifndef SB_BASE_SHARED_H
#define SB_BASE_SHARED_H

/* Stands behind the declaration of sb_NAME. */
#define SB_SHARED(name) __asm__("simba_private_" name) __attribute__((visibility("default")))

#endif
