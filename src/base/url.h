/*
 * url.h - takes a store's URL apart. The accessors are in simba/backend.h.
 *
 *     scheme:path?a=b                          sqlite:/var/lib/jobs.db?ttl=5s
 *     scheme://user:password@h1:1,h2:2/path?a=b
 *
 * Everything but the scheme may be percent-encoded. IPv6 hosts stand in brackets. The parameters
 * user, password, password-file and password-env are a second way to say what can stand before the
 * '@'.
 */
#ifndef SB_BASE_URL_H
#define SB_BASE_URL_H

#include "base/shared.h"

#include <simba/backend.h>

int sb_url_parse(const char *text, simba_url **ret_url, struct simba_error *error)
    SB_SHARED("url_parse");
void sb_url_free(simba_url *url) SB_SHARED("url_free"); /* takes NULL */

/* Reads the passwords that parameters name by `...password-file` and `...password-env`, and takes
 * `user` and `password` from the parameters, once. The opener of a store calls this; to take a URL
 * apart touches no file. */
int sb_url_resolve(simba_url *url, struct simba_error *error) SB_SHARED("url_resolve");

/* Fails where one password is given or named twice. Reads nothing. Only before sb_url_resolve. */
int sb_url_check_passwords(const simba_url *url, struct simba_error *error);

/* Whether a password stands in it. Where one is only named by a file or a variable, none does. */
bool sb_url_has_password(const simba_url *url) SB_SHARED("url_has_password");

/* Whether the password that a parameter names could be read now; that of another parameter can. */
int sb_url_try_secret(const char *name, const char *value, struct simba_error *error);

/* Writes the URL so that it can be opened more than once: a password that is named by something
 * that gives its bytes only once, such as a pipe, stands in it itself. */
int sb_url_settle(const char *text, char *buffer, size_t size, struct simba_error *error)
    SB_SHARED("url_settle");

/* Adds a text so that nothing in it has a meaning in a URL. */
struct sb_text;
void sb_url_add_encoded(struct sb_text *out, const char *text);

/* The length of "sentinel-password" in that name, and where "-file" or "-env" follow; 0: it is no
 * password. */
size_t sb_url_password_stem(const char *name);

/* Whether a parameter of this name says which file has a password. */
bool sb_url_is_password_file(const char *name);

/* The parameters in their order. */
size_t sb_url_param_count(const simba_url *url);
const char *sb_url_param_name(const simba_url *url, size_t index);
const char *sb_url_param_value(const simba_url *url, size_t index);

/* The name of a parameter that nobody has asked for, or NULL. */
const char *sb_url_unused_param(const simba_url *url);

/* Writes the URL for logs and errors. "***" takes the place of all from the first ':' behind the
 * scheme to the last '@', and of every parameter whose name sounds like a secret. Returns
 * `buffer`. */
const char *sb_url_redact(const char *text, char *buffer, size_t size) SB_SHARED("url_redact");

/* The same for a whole sentence: hides what looks like a password in each of its words. All errors
 * and lines of the log pass through it, for what an outsider says, or a user in the wrong place,
 * may be a URL. */
const char *sb_url_redact_message(const char *text, char *buffer, size_t size)
    SB_SHARED("url_redact_message");

#endif
