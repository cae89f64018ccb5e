/*
 * folders.h - creates the folders of the default store.
 */
#ifndef SB_CLI_FOLDERS_H
#define SB_CLI_FOLDERS_H

#include <simba/simba.h>

/* Creates all folders above the file, whose path is absolute. Those that are missing are for the user alone. Nothing is
 * created in a folder of another user than root and the effective one, nor behind a link of theirs: root may have been
 * given their HOME. */
int cli_create_folders(const char *path, struct simba_error *error);

#endif
