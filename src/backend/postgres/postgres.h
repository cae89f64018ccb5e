/*
 * postgres.h - the backend `postgres://` and `postgresql://`.
 */
#ifndef SB_POSTGRES_POSTGRES_H
#define SB_POSTGRES_POSTGRES_H

#include "backend/module.h"

extern const struct sb_module sb_postgres_module SB_SHARED("postgres_module");

#endif
