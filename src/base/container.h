/*
 * container.h - from a member to the struct that it is embedded in.
 */
#ifndef SB_BASE_CONTAINER_H
#define SB_BASE_CONTAINER_H

#include <stddef.h>

#define SB_CONTAINER(type, member, pointer)                                                        \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

#endif
