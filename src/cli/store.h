/*
 * store.h - opens the store that the user named, or the default one.
 */
#ifndef CLI_STORE_H
#define CLI_STORE_H

#include "cli/cli.h"

#define CLI_URL_MAX 8192

/* A store that was found and is not open. There may be passwords in the URL. */
struct cli_store_found {
    char url[CLI_URL_MAX];
    char origin[SIMBA_CONFIG_ORIGIN_MAX]; /* where in a file the URL stands; "": in none */
};

/* Finds the store that the first of these names: --url or --config, SIMBA_URL, SIMBA_CONFIG, the
 * configuration file of the user, that of the system. Where none does, it is the default store,
 * SQLite in the user's state folder, which is created; with `named` it is SIMBA_ENOTFOUND. */
int cli_store_locate(const struct cli *cli, bool named, struct cli_store_found *ret_found,
                     struct simba_error *error);

/* The same, and reads the passwords that can be read only once: the store can then be opened as
 * often as needed, in any process. Call cli_store_forget afterwards, also on failure. */
int cli_store_find(const struct cli *cli, bool named, struct cli_store_found *ret_found,
                   struct simba_error *error);
void cli_store_forget(struct cli_store_found *found);

/* Everybody can read a command line in ps: replaces a URL there by the redacted one. Returns
 * whether it had a password. */
bool cli_store_hide_password(char *argument);

/* The URL of an SQLite file. */
int cli_store_file_url(const char *path, char *buffer, size_t size, struct simba_error *error);

/* Opens a client with the timings and the log level of the command line. From here on a message
 * never waits for the reader of standard error. */
int cli_store_open_found(const struct cli *cli, const struct cli_store_found *found,
                         simba_client **ret_client, struct simba_error *error);

/* Finds and opens the store for a verb that takes no mutex: a missing SQLite file is not created.
 * SIMBA_ENOTFOUND: the default store, which no process has used yet. A file that the user named
 * should exist: SIMBA_EUNAVAILABLE. */
int cli_store_open_existing(const struct cli *cli, simba_client **ret_client,
                            struct simba_error *error);

/* The store that is being opened, or is open, without a password. NULL until it is known. Any
 * thread. */
const char *cli_store_shown(void);

/* Whether it is a file, which the end of the process closes, too. A server would go on waiting for
 * a client that has not closed its connection. */
bool cli_store_is_file(void);

/* Whether nobody has named it: it is a file that reaches this host only. */
bool cli_store_is_default(void);

/* Closes a client whose children are closed. */
void cli_store_close(simba_client *client);

#endif
