/*
 * url_parts.h - a URL that was taken apart, for the files that do so. Everybody else has the
 * accessors.
 */
#ifndef SB_BASE_URL_PARTS_H
#define SB_BASE_URL_PARTS_H

#include "base/text.h"
#include "base/secret.h"
#include "base/url.h"

#define SB_URL_HOSTS_MAX 16
#define SB_URL_PARAMS_MAX 64
#define SB_URL_SECRETS_MAX (3 * SB_URL_PARAMS_MAX + 1) /* name, value, path; the URL's path */

struct host {
    const char *name;
    int port;
};

struct param {
    const char *name;
    const char *value;
    struct param *source; /* NULL, or the parameter that this one was made from */
    bool used;
    struct sb_near near; /* what was asked for that it may be a misspelling of */
};

/* All strings point into `text`, which is cut up and decoded in place, or into a secret. */
struct simba_url {
    const char *scheme;
    const char *user;
    const char *password;
    struct param *user_source; /* NULL, or the parameter that named it */
    struct param *password_source;
    const char *path;
    struct host hosts[SB_URL_HOSTS_MAX];
    size_t host_count;
    struct param params[SB_URL_PARAMS_MAX];
    size_t param_count;
    char *secrets[SB_URL_SECRETS_MAX]; /* not part of `text`; each is freed with the URL */
    size_t secret_count;
    size_t text_size;
    char text[];
};

/* NULL: there is none. Does not count as asked for. */
struct param *sb_url_find_param(simba_url *url, const char *name);

/* Whether a file gives its bytes more than once: a pipe does not. What is not there can be read
 * again, too. */
bool sb_url_can_be_read_twice(const char *path) SB_SHARED("url_can_be_read_twice");

#endif
