/*
 * options.c - reads the URL. Owns the names and the defaults of the options; connects to nothing.
 *
 * No sentence quotes a user or a password.
 */
#include "backend/redis/options.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "base/url_parts.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define PORT 6379
#define SENTINEL_PORT 26379
#define CONNECT_TIMEOUT_MS 5000
#define COMMAND_TIMEOUT_MS 2000
#define IDLE_TIMEOUT_MS 15000
#define KEEP_ALIVE_MS 15000
#define WAIT_TIMEOUT_MS 500
#define WAIT_REPLICAS_MAX 100
#define DATABASE_MAX 65535
#define CLIENT_NAME "simba"

struct scheme {
    const char *name; /* behind "redis" or "valkey" */
    enum sb_redis_mode mode;
    bool tls;
    bool path; /* the path is that of a socket */
};

static const struct scheme schemes[] = {
    {"", SB_REDIS_SINGLE, false, false},
    {"s", SB_REDIS_SINGLE, true, false},
    {"+unix", SB_REDIS_SINGLE, false, true},
    {"+sentinel", SB_REDIS_SENTINEL, false, false},
    {"s+sentinel", SB_REDIS_SENTINEL, true, false},
    {"+cluster", SB_REDIS_CLUSTER, false, false},
    {"s+cluster", SB_REDIS_CLUSTER, true, false},
};

const struct simba_backend_option sb_redis_option_table[] = {
    {"db", SIMBA_OPTION_NUMBER, NULL},
    {"client-name", SIMBA_OPTION_TEXT, NULL},
    {"connect-timeout", SIMBA_OPTION_DURATION, NULL},
    {"command-timeout", SIMBA_OPTION_DURATION, NULL},
    {"idle-timeout", SIMBA_OPTION_DURATION, NULL},
    {"keep-alive", SIMBA_OPTION_DURATION, NULL},
    {"wait-replicas", SIMBA_OPTION_NUMBER, NULL},
    {"wait-timeout", SIMBA_OPTION_DURATION, NULL},
    {"allow-hosts", SIMBA_OPTION_TEXT, NULL},
    {"sentinel-quorum", SIMBA_OPTION_CHOICE, "majority any"},
    {"sentinel-user", SIMBA_OPTION_TEXT, NULL},
    {"sentinel-password", SIMBA_OPTION_TEXT, NULL},
    {"tls-verify", SIMBA_OPTION_SWITCH, "yes no"},
    {"tls-ca", SIMBA_OPTION_PATH, NULL},
    {"tls-cert", SIMBA_OPTION_PATH, NULL},
    {"tls-key", SIMBA_OPTION_PATH, NULL},
    {"tls-key-password", SIMBA_OPTION_TEXT, NULL},
    {"tls-server-name", SIMBA_OPTION_TEXT, NULL},
    {NULL, SIMBA_OPTION_TEXT, NULL},
};

static const struct scheme *find_scheme(const char *name)
{
    if (strncmp(name, "redis", 5) == 0)
        name += 5;
    else if (strncmp(name, "valkey", 6) == 0)
        name += 6;
    else
        return NULL;
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
        if (strcmp(schemes[i].name, name) == 0)
            return &schemes[i];
    return NULL;
}

bool sb_redis_serves(const char *scheme)
{
    return find_scheme(scheme) != NULL;
}

bool sb_redis_place_equals(const struct sb_redis_place *a, const struct sb_redis_place *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

const char *sb_redis_place_text(const struct sb_redis_place *place, char *buffer)
{
    struct sb_text text;

    sb_text_init(&text, buffer, SB_REDIS_PLACE_TEXT_MAX);
    if (place->port == 0)
        sb_text_add(&text, "%s", place->host);
    else if (strchr(place->host, ':') != NULL)
        sb_text_add(&text, "[%s]:%d", place->host, place->port);
    else
        sb_text_add(&text, "%s:%d", place->host, place->port);
    return buffer;
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* Copies a string that may be NULL. */
static int copy(char **target, const char *text, struct simba_error *error)
{
    if (text == NULL)
        return SIMBA_OK;
    *target = sb_strdup(text);
    return *target != NULL ? SIMBA_OK : sb_error_plain(error, SIMBA_ENOMEM);
}

static int read_text(simba_url *url, const char *name, char **target, struct simba_error *error)
{
    return copy(target, simba_url_param(url, name), error);
}

/* The folder of the process may be another one when the file is read again. */
static int read_path_of(simba_url *url, const char *name, char **target, struct simba_error *error)
{
    const char *path = simba_url_param(url, name);
    char buffer[PATH_MAX];

    return copy(target, path != NULL ? sb_url_full_name(path, buffer) : NULL, error);
}

static int parse_number(const char *name, const char *text, int64_t most, int64_t *target,
                        struct simba_error *error)
{
    char *end;
    long long value = strtoll(text, &end, 10);

    if (*text < '0' || *text > '9' || *end != '\0' || value > most)
        return sb_error_set(error, SIMBA_EINVAL, "%s is no number from 0 to %lld", name,
                            (long long)most);
    *target = value;
    return SIMBA_OK;
}

static int read_number(simba_url *url, const char *name, int64_t most, int64_t *target,
                       struct simba_error *error)
{
    const char *text = simba_url_param(url, name);

    return text != NULL ? parse_number(name, text, most, target, error) : SIMBA_OK;
}

static int read_duration(simba_url *url, const char *name, int64_t least_ms, int64_t *target,
                         struct simba_error *error)
{
    char text[32];
    int code = simba_url_duration(url, name, target, error);

    if (code != SIMBA_OK || *target >= least_ms)
        return code;
    return sb_error_set(error, SIMBA_EINVAL, "%s is %s; it must be at least %lld ms", name,
                        simba_duration_format(*target, text, sizeof text), (long long)least_ms);
}

/* ---- Where ----------------------------------------------------------------------------------- */

static int add_place(struct sb_redis_options *o, const char *host, int port,
                     struct simba_error *error)
{
    struct sb_redis_place *place = &o->places[o->place_count];

    if (o->place_count == SB_REDIS_PLACES_MAX)
        return sb_error_set(error, SIMBA_EINVAL, "the URL has more than %d hosts",
                            SB_REDIS_PLACES_MAX);
    if (!sb_text_copy(place->host, sizeof place->host, host))
        return sb_error_set(error, SIMBA_EINVAL, "host %zu of the URL is longer than %d bytes",
                            o->place_count + 1, SB_REDIS_HOST_MAX - 1);
    place->port = port;
    o->place_count++;
    return SIMBA_OK;
}

static int read_socket(struct sb_redis_options *o, simba_url *url, struct simba_error *error)
{
    const char *path = simba_url_path(url);

    if (simba_url_host_count(url) > 0)
        return sb_error_set(error, SIMBA_EINVAL,
                            "a URL with +unix has no host; write redis+unix:/path/of/socket");
    if (strncmp(path, "~/", 2) == 0)
        return sb_error_set(error, SIMBA_EINVAL,
                            "the path %s opens with '~', which a shell knows, but not a URL; write "
                            "it in full",
                            path);
    if (path[0] == '\0' || strlen(path) >= 108) /* what fits into sockaddr_un */
        return sb_error_set(error, SIMBA_EINVAL,
                            "the path of a unix socket has 1 to 107 bytes from the root, this one "
                            "has %zu",
                            strlen(path));
    return add_place(o, path, 0, error);
}

static int read_hosts(struct sb_redis_options *o, simba_url *url, struct simba_error *error)
{
    int usual = o->mode == SB_REDIS_SENTINEL ? SENTINEL_PORT : PORT;
    size_t count = simba_url_host_count(url);
    int code = SIMBA_OK;

    if (count == 0)
        return add_place(o, "localhost", usual, error);
    if (count > 1 && o->mode == SB_REDIS_SINGLE)
        return sb_error_set(error, SIMBA_EINVAL,
                            "the URL names %zu hosts; use redis+sentinel:// or redis+cluster:// "
                            "for more than one",
                            count);
    for (size_t i = 0; i < count && code == SIMBA_OK; i++) {
        int port = simba_url_port(url, i);

        code = add_place(o, simba_url_host(url, i), port > 0 ? port : usual, error);
    }
    return code;
}

/* What stands behind the hosts: /DB, or /MASTER and perhaps /DB. */
static int read_path(struct sb_redis_options *o, simba_url *url, struct simba_error *error)
{
    const char *rest = simba_url_path(url);
    const char *slash;

    rest += rest[0] == '/';
    if (o->mode == SB_REDIS_SENTINEL) {
        slash = strchr(rest, '/');
        o->master_name = sb_strdup(rest);
        if (o->master_name == NULL)
            return sb_error_plain(error, SIMBA_ENOMEM);
        if (slash != NULL)
            o->master_name[slash - rest] = '\0';
        if (o->master_name[0] == '\0')
            return sb_error_set(error, SIMBA_EINVAL,
                                "the URL names no master; write redis+sentinel://HOSTS/MASTER");
        rest = slash != NULL ? slash + 1 : "";
    }
    if (rest[0] == '\0')
        return SIMBA_OK;
    if (simba_url_param(url, "db") != NULL)
        return sb_error_set(error, SIMBA_EINVAL,
                            "the URL names the database twice, in its path and by db");
    if (o->mode == SB_REDIS_SINGLE && simba_url_host_count(url) == 0 &&
        !isdigit((unsigned char)rest[0]))
        return sb_error_set(error, SIMBA_EINVAL,
                            "the URL has no host behind '//': write %s://localhost, for example",
                            simba_url_scheme(url));
    return parse_number("the database in the URL's path", rest, DATABASE_MAX, &o->database, error);
}

static int read_places(struct sb_redis_options *o, const struct scheme *scheme, simba_url *url,
                       struct simba_error *error)
{
    int code;

    if (scheme->path)
        return read_socket(o, url, error);
    code = read_hosts(o, url, error);
    return code == SIMBA_OK ? read_path(o, url, error) : code;
}

/* ---- Whom and how ---------------------------------------------------------------------------- */

static int read_credentials(struct sb_redis_options *o, simba_url *url, struct simba_error *error)
{
    int code = copy(&o->credentials.user, simba_url_user(url), error);

    if (code == SIMBA_OK)
        code = sb_secret_take(&o->credentials.password, url, "password", error);
    if (code == SIMBA_OK && o->credentials.user != NULL && o->credentials.password.text == NULL)
        return sb_error_set(error, SIMBA_EINVAL, "the URL has a user and no password");
    if (o->mode != SB_REDIS_SENTINEL)
        return code;
    if (code == SIMBA_OK)
        code = read_text(url, "sentinel-user", &o->sentinel_credentials.user, error);
    if (code == SIMBA_OK)
        code = sb_secret_take(&o->sentinel_credentials.password, url, "sentinel-password", error);
    return code;
}

static int read_quorum(struct sb_redis_options *o, simba_url *url, struct simba_error *error)
{
    const char *word;

    if (o->mode != SB_REDIS_SENTINEL)
        return SIMBA_OK;
    word = simba_url_param(url, "sentinel-quorum");
    if (word != NULL && strcmp(word, "majority") != 0 && strcmp(word, "any") != 0)
        return sb_error_set(error, SIMBA_EINVAL,
                            "sentinel-quorum is neither \"majority\" nor \"any\"");
    o->sentinel_any = word != NULL && strcmp(word, "any") == 0;
    return SIMBA_OK;
}

static int read_timeouts(struct sb_redis_options *o, simba_url *url, struct simba_error *error)
{
    int code = read_duration(url, "connect-timeout", 1, &o->connect_timeout_ms, error);

    if (code == SIMBA_OK)
        code = read_duration(url, "command-timeout", 1, &o->command_timeout_ms, error);
    if (code == SIMBA_OK)
        code = read_duration(url, "idle-timeout", 1, &o->idle_timeout_ms, error);
    if (code == SIMBA_OK)
        code = read_duration(url, "keep-alive", 0, &o->keep_alive_ms, error);
    if (code == SIMBA_OK)
        code = read_number(url, "wait-replicas", WAIT_REPLICAS_MAX, &o->wait_replicas, error);
    if (code == SIMBA_OK)
        code = read_duration(url, "wait-timeout", 1, &o->wait_timeout_ms, error);
    if (code == SIMBA_OK && o->wait_timeout_ms >= o->command_timeout_ms)
        return sb_error_set(error, SIMBA_EINVAL,
                            "wait-timeout must be less than command-timeout: a server that waits "
                            "for its replicas is silent");
    if (code == SIMBA_OK && o->wait_replicas > 0 && o->wait_timeout_ms >= o->transition_ms)
        return sb_error_set(error, SIMBA_EINVAL,
                            "wait-timeout must be less than the transition: a renewal has no "
                            "longer for its replicas");
    return code;
}

/* Without TLS nobody asks for these, and so they are refused. */
static int read_tls(struct sb_redis_options *o, simba_url *url, struct simba_error *error)
{
    const char *verify;
    int code = SIMBA_OK;

    if (!o->tls)
        return SIMBA_OK;
    verify = simba_url_param(url, "tls-verify");
    if (verify != NULL && strcmp(verify, "yes") != 0 && strcmp(verify, "no") != 0)
        return sb_error_set(error, SIMBA_EINVAL, "tls-verify is neither \"yes\" nor \"no\"");
    o->tls_verify = verify == NULL || strcmp(verify, "yes") == 0;
    code = read_path_of(url, "tls-ca", &o->tls_ca, error);
    if (code == SIMBA_OK)
        code = read_path_of(url, "tls-cert", &o->tls_cert, error);
    if (code == SIMBA_OK)
        code = read_path_of(url, "tls-key", &o->tls_key, error);
    if (code == SIMBA_OK)
        code = sb_secret_take(&o->tls_key_password, url, "tls-key-password", error);
    if (code == SIMBA_OK)
        code = read_text(url, "tls-server-name", &o->tls_server_name, error);
    if (code == SIMBA_OK && (o->tls_cert == NULL) != (o->tls_key == NULL))
        return sb_error_set(error, SIMBA_EINVAL, "tls-cert and tls-key need each other");
    return code;
}

/* CLIENT SETNAME takes no spaces and nothing unprintable. */
static int read_name(struct sb_redis_options *o, simba_url *url, struct simba_error *error)
{
    const char *name = simba_url_param(url, "client-name");

    if (name == NULL)
        name = CLIENT_NAME;
    for (const char *c = name; *c != '\0'; c++)
        if (*c < '!' || *c > '~')
            return sb_error_set(error, SIMBA_EINVAL,
                                "client-name has a character other than visible ASCII");
    return copy(&o->client_name, name, error);
}

static int check_database(const struct sb_redis_options *o, struct simba_error *error)
{
    if (o->mode == SB_REDIS_CLUSTER && o->database != 0)
        return sb_error_set(error, SIMBA_EINVAL, "a cluster has database 0 only, not %lld",
                            (long long)o->database);
    return SIMBA_OK;
}

/* ---- The whole ------------------------------------------------------------------------------- */

static int read_all(struct sb_redis_options *o, const struct scheme *scheme, simba_url *url,
                    struct simba_error *error)
{
    int code = read_places(o, scheme, url, error);

    if (code == SIMBA_OK)
        code = read_credentials(o, url, error);
    if (code == SIMBA_OK)
        code = read_quorum(o, url, error);
    if (code == SIMBA_OK && o->mode != SB_REDIS_SINGLE) /* that one is sent nowhere */
        code = read_text(url, "allow-hosts", &o->allow_hosts, error);
    if (code == SIMBA_OK)
        code = read_number(url, "db", DATABASE_MAX, &o->database, error);
    if (code == SIMBA_OK)
        code = check_database(o, error);
    if (code == SIMBA_OK)
        code = read_name(o, url, error);
    if (code == SIMBA_OK)
        code = read_timeouts(o, url, error);
    if (code == SIMBA_OK)
        code = read_tls(o, url, error);
    if (code == SIMBA_OK)
        code = simba_url_check_params(url, error);
    return code;
}

int sb_redis_options_read(struct sb_redis_options *o, const struct simba_backend_config *config,
                          struct simba_error *error)
{
    const struct scheme *scheme = find_scheme(simba_url_scheme(config->url));
    int code;

    memset(o, 0, sizeof *o);
    if (scheme == NULL)
        return sb_error_set(error, SIMBA_EINVAL, "the scheme '%s' is not one of Redis",
                            simba_url_scheme(config->url));
    o->mode = scheme->mode;
    o->tls = scheme->tls;
    o->connect_timeout_ms = CONNECT_TIMEOUT_MS;
    o->command_timeout_ms = COMMAND_TIMEOUT_MS;
    o->idle_timeout_ms = IDLE_TIMEOUT_MS;
    o->keep_alive_ms = KEEP_ALIVE_MS;
    o->wait_timeout_ms = WAIT_TIMEOUT_MS;
    o->transition_ms = config->transition_ms;
    o->lease_ms = config->ttl_ms + config->transition_ms;
    code = read_all(o, scheme, config->url, error);
    if (code != SIMBA_OK)
        sb_redis_options_free(o);
    return code;
}

void sb_redis_options_free(struct sb_redis_options *o)
{
    sb_free(o->master_name);
    sb_free(o->allow_hosts);
    sb_free(o->credentials.user);
    sb_secret_clear(&o->credentials.password);
    sb_free(o->sentinel_credentials.user);
    sb_secret_clear(&o->sentinel_credentials.password);
    sb_free(o->client_name);
    sb_free(o->tls_ca);
    sb_free(o->tls_cert);
    sb_free(o->tls_key);
    sb_secret_clear(&o->tls_key_password);
    sb_free(o->tls_server_name);
    memset(o, 0, sizeof *o);
}
