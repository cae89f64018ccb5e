/*
 * backend_example.h - a backend that keeps all owners in one file: `file:/run/my-mutexes`.
 */
#ifndef BACKEND_EXAMPLE_H
#define BACKEND_EXAMPLE_H

#include <simba/backend.h>

extern const struct simba_backend_ops backend_example;

#endif
