/*
 * shared.h - the names inside the library that its modules and its program use.
 *
 * The shared library hides its other internal names. It exports these few under another name,
 * because an application may have functions such as "sb_free" of its own.
 */
#ifndef SB_BASE_SHARED_H
#define SB_BASE_SHARED_H

/* Stands behind the declaration of sb_NAME. */
#define SB_SHARED(name) __asm__("simba_private_" name) __attribute__((visibility("default")))

#endif
