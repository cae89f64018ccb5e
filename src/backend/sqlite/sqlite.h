/*
 * sqlite.h - `sqlite:PATH`: mutexes of the processes of one host, in one file.
 */
#ifndef SB_SQLITE_SQLITE_H
#define SB_SQLITE_SQLITE_H

#include "backend/module.h"

extern const struct sb_module sb_sqlite_module;

#endif
