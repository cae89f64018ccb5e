/*
 * postgres.h - the backend `postgres://` and `postgresql://`.
 */
#ifndef SB_BACKEND_POSTGRES_POSTGRES_H
#define SB_BACKEND_POSTGRES_POSTGRES_H

#include <simba/backend.h>

extern const struct simba_backend_ops sb_postgres_ops;

#endif
