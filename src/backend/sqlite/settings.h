/*
 * settings.h - reads the URL of an SQLite store.
 */
#ifndef SB_BACKEND_SQLITE_SETTINGS_H
#define SB_BACKEND_SQLITE_SETTINGS_H

#include "backend/sqlite/connection.h"

/* Fills in all but who is to be told. On failure `settings` holds nothing. */
int sb_sqlite_settings_read(struct sb_sqlite_settings *settings, simba_url *url,
                            struct simba_error *error);
void sb_sqlite_settings_clear(struct sb_sqlite_settings *settings);

/* The file of the lives; its strings are those of the settings. */
struct sb_life_file sb_sqlite_lives(const struct sb_sqlite_settings *settings);

#endif
