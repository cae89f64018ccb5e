/*
 * store.h - opens the store that the user named, or the default one.
 */
#ifndef CLI_STORE_H
#define CLI_STORE_H

#include "cli/cli.h"

#define CLI_URL_MAX 8192

/* The store that was named, by the first of: --url or --config, SIMBA_URL, SIMBA_CONFIG, the
 * configuration file of the user, that of the system. Passwords that can be read only once have
 * been read then: the store can be opened as often as needed, in any process. SIMBA_ENOTFOUND:
 * nothing names one. */
int cli_store_named_url(const struct cli *cli, char *buffer, size_t size,
                        struct simba_error *error);

/* The same without reading passwords or, where nothing names one, the default store: SQLite in the
 * user's state folder, which is created. */
int cli_store_url(const struct cli *cli, char *buffer, size_t size, struct simba_error *error);

/* The URL of an SQLite file. */
int cli_store_file_url(const char *path, char *buffer, size_t size, struct simba_error *error);

/* A store that has been found and not opened yet. There may be passwords in it. */
struct cli_store_found {
    char url[CLI_URL_MAX];
    char origin[SIMBA_CONFIG_ORIGIN_MAX]; /* where in a file the url stands; "": in none */
};

/* Finds what cli_store_url does. Configurations and passwords that can be read only once have been
 * read then: the place can be tried as often as needed. To be forgotten by cli_store_forget, on
 * failure, too. */
int cli_store_find(const struct cli *cli, struct cli_store_found *ret_place,
                   struct simba_error *error);

/* Opens a client with the timings and the log level of the command line. From here on nothing that
 * is said on standard error holds anybody up. `callback_threads` 0 is the library's default. */
int cli_store_open_found(const struct cli *cli, const struct cli_store_found *found,
                         int callback_threads, simba_client **ret_client,
                         struct simba_error *error);
void cli_store_forget(struct cli_store_found *found);

/* Finds and opens it for who only looks: a SQLite file that is missing is not created.
 * SIMBA_ENOTFOUND says that it is the default store, which nobody has used yet; a file that the
 * user named should be there, so that one is SIMBA_EUNAVAILABLE. */
int cli_store_open_existing(const struct cli *cli, int callback_threads, simba_client **ret_client,
                            struct simba_error *error);

/* The store that is being opened, or is open, as it may be shown: without a password. NULL until it
 * is known. Any thread. */
const char *cli_store_shown(void);

/* Whether it is a file, which the end of the process closes as well as anybody. A server would wait
 * for somebody who has not said goodbye. */
bool cli_store_is_file(void);

/* Closes a client whose children are closed. */
void cli_store_close(simba_client *client);

#endif
