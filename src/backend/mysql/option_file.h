/*
 * option_file.h - which server and which user the option files of MySQL and MariaDB name.
 *
 * The client library could read them itself, but it would take everything in them: whether TLS is
 * verified, which code is loaded, which files a server may ask for. Those are the URL's business,
 * or nobody's.
 */
#ifndef SB_MYSQL_OPTION_FILE_H
#define SB_MYSQL_OPTION_FILE_H

#include <simba/simba.h>

/* Strings are NULL where no file says anything. */
struct sb_mysql_defaults {
    char *user;
    char *password;
    char *host;
    char *socket;
    unsigned port; /* 0: no file says anything */
};

/* Reads user, password, host, port and socket in the groups [client], [client-server],
 * [client-mariadb] and [simba] of /etc/my.cnf, /etc/mysql/my.cnf and ~/.my.cnf, and of the files
 * that these include; the last one counts. A file that is not there or may not be read is passed
 * over. One that is not trusted (trusted_file.h) is SIMBA_ECONFIG, before anything in it is used.
 * On failure `defaults` holds nothing. */
int sb_mysql_defaults_read(struct sb_mysql_defaults *defaults, struct simba_error *error);
void sb_mysql_defaults_clear(struct sb_mysql_defaults *defaults);

/* Takes what a file says on top of what `defaults` has. `path` is its name in errors; `text` is
 * changed. */
int sb_mysql_defaults_read_text(struct sb_mysql_defaults *defaults, const char *path, char *text,
                                struct simba_error *error);

#endif
