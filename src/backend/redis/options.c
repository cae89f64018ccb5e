/*
 * options.c - reads the URL. Owns the names and the defaults of the options; connects to nothing.
 *
 * No sentence quotes a user or a password.
 */
#include "backend/redis/options.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

#define PORT 6379
#define SENTINEL_PORT 26379
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

enum condition { WITH_TLS = 1, WITH_SENTINELS = 2, WITH_OTHER_HOSTS = 4 };

#define AT(member) offsetof(struct sb_redis_options, member)

/* Member, otherwise, least, most, when. */
const struct sb_url_option sb_redis_option_table[] = {
    SB_URL_OPTION(NUMBER, "db", NULL, AT(database), 0, 0, DATABASE_MAX, 0),
    SB_URL_OPTION(TEXT, "client-name", NULL, AT(client_name), 0, 0, 0, 0),
    SB_URL_OPTION(DURATION, "connect-timeout", NULL, AT(connect_timeout_ms), 5000, 1, 0, 0),
    SB_URL_OPTION(DURATION, "command-timeout", NULL, AT(command_timeout_ms), 2000, 1, 0, 0),
    SB_URL_OPTION(DURATION, "idle-timeout", NULL, AT(idle_timeout_ms), 15000, 1, 0, 0),
    SB_URL_OPTION(DURATION, "keep-alive", NULL, AT(keep_alive_ms), 15000, 0, 0, 0),
    SB_URL_OPTION(NUMBER, "wait-replicas", NULL, AT(wait_replicas), 0, 0, WAIT_REPLICAS_MAX, 0),
    SB_URL_OPTION(DURATION, "wait-timeout", NULL, AT(wait_timeout_ms), 500, 1, 0, 0),
    SB_URL_OPTION(TEXT, "allow-hosts", NULL, AT(allow_hosts), 0, 0, 0, WITH_OTHER_HOSTS),
    SB_URL_OPTION(CHOICE, "sentinel-quorum", "majority any", AT(sentinel_any), 0, 0, 0,
                  WITH_SENTINELS),
    SB_URL_OPTION(TEXT, "sentinel-user", NULL, AT(sentinel_credentials.user), 0, 0, 0,
                  WITH_SENTINELS),
    SB_URL_OPTION(TEXT, "sentinel-password", NULL, AT(sentinel_credentials.password), 0, 0, 0,
                  WITH_SENTINELS),
    SB_URL_OPTION(SWITCH, "tls-verify", "yes no", AT(trust.verify), true, 0, 0, WITH_TLS),
    SB_URL_OPTION(PATH, "tls-ca", NULL, AT(trust.ca), 0, 0, 0, WITH_TLS),
    SB_URL_OPTION(PATH, "tls-cert", NULL, AT(trust.cert), 0, 0, 0, WITH_TLS),
    SB_URL_OPTION(PATH, "tls-key", NULL, AT(trust.key), 0, 0, 0, WITH_TLS),
    SB_URL_OPTION(TEXT, "tls-key-password", NULL, AT(trust.key_password), 0, 0, 0, WITH_TLS),
    SB_URL_OPTION(TEXT, "tls-server-name", NULL, AT(trust.server_name), 0, 0, 0, WITH_TLS),
    SB_URL_OPTIONS_END,
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

/* ---- Where ----------------------------------------------------------------------------------- */

static int add_place(struct sb_redis_options *o, const char *host, int port,
                     struct simba_error *error)
{
    struct sb_wire_place *place = &o->places[o->place_count];

    if (o->place_count == SB_REDIS_PLACES_MAX)
        return sb_error_set(error, SIMBA_EINVAL, "the URL has more than %d hosts",
                            SB_REDIS_PLACES_MAX);
    if (!sb_text_copy(place->host, sizeof place->host, host))
        return sb_error_set(error, SIMBA_EINVAL, "host %zu of the URL is longer than %d bytes",
                            o->place_count + 1, SB_WIRE_HOST_MAX - 1);
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
                            "the path %s begins with '~', which only a shell expands: write the "
                            "full path",
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
        return sb_error_set(error, SIMBA_EINVAL, "the URL names no host: write %s://localhost",
                            simba_url_scheme(url));
    if (!sb_url_read_number(rest, &o->database) || o->database > DATABASE_MAX)
        return sb_error_set(error, SIMBA_EINVAL,
                            "the path of the URL is not a database number (0 to %d)", DATABASE_MAX);
    return SIMBA_OK;
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
    const char *user = simba_url_user(url);
    int code = sb_secret_take(&o->credentials.password, url, "password", error);

    if (code != SIMBA_OK)
        return code;
    if (user != NULL && o->credentials.password.text == NULL)
        return sb_error_set(error, SIMBA_EINVAL, "the URL has a user and no password");
    o->credentials.user = user != NULL ? sb_strdup(user) : NULL;
    return user == NULL || o->credentials.user != NULL ? SIMBA_OK
                                                       : sb_error_plain(error, SIMBA_ENOMEM);
}

/* CLIENT SETNAME takes no spaces and nothing unprintable. */
static int check_name(struct sb_redis_options *o, struct simba_error *error)
{
    if (o->client_name == NULL)
        o->client_name = sb_strdup(CLIENT_NAME);
    if (o->client_name == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    for (const char *c = o->client_name; *c != '\0'; c++)
        if (*c < '!' || *c > '~')
            return sb_error_set(error, SIMBA_EINVAL,
                                "client-name has a character other than visible ASCII");
    return SIMBA_OK;
}

/* What one option forbids another one. */
static int check_together(const struct sb_redis_options *o, struct simba_error *error)
{
    if (o->mode == SB_REDIS_CLUSTER && o->database != 0)
        return sb_error_set(error, SIMBA_EINVAL, "a cluster has database 0 only, not %lld",
                            (long long)o->database);
    if (o->wait_timeout_ms >= o->command_timeout_ms)
        return sb_error_set(error, SIMBA_EINVAL,
                            "wait-timeout must be less than command-timeout: a server that waits "
                            "for its replicas is silent");
    if (o->wait_replicas > 0 && o->wait_timeout_ms >= o->transition_ms)
        return sb_error_set(
            error, SIMBA_EINVAL,
            "wait-timeout must be less than the transition, in which a renewal must end");
    if ((o->trust.cert == NULL) != (o->trust.key == NULL))
        return sb_error_set(error, SIMBA_EINVAL, "tls-cert and tls-key must be given together");
    return SIMBA_OK;
}

/* ---- The whole ------------------------------------------------------------------------------- */

/* The option is there, also as the -file or -env of a password. */
static bool is_given(simba_url *url, const char *name)
{
    static const char *const endings[] = {"", "-file", "-env"};
    char whole[64];
    struct sb_text text;

    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        sb_text_init(&text, whole, sizeof whole);
        sb_text_add(&text, "%s%s", name, endings[i]);
        if (simba_url_param(url, whole) != NULL)
            return true;
    }
    return false;
}

/* "the option 'tls-ca' needs TLS: write rediss://" */
static int refuse_option(const struct sb_url_option *row, const struct scheme *scheme,
                         const simba_url *url, struct simba_error *error)
{
    const char *name = simba_url_scheme(url);
    int length = (int)(strlen(name) - strlen(scheme->name)); /* of "redis" or "valkey" */
    const char *tls = scheme->tls ? "s" : "";

    if (row->when == WITH_TLS)
        return sb_error_set(error, SIMBA_ECONFIG, "the option '%s' needs TLS: write %.*ss%s://",
                            row->declared.name, length, name, scheme->path ? "" : scheme->name);
    if (row->when == WITH_SENTINELS)
        return sb_error_set(error, SIMBA_ECONFIG,
                            "the option '%s' needs sentinels: write %.*s%s+sentinel://",
                            row->declared.name, length, name, tls);
    return sb_error_set(error, SIMBA_ECONFIG,
                        "the option '%s' needs sentinels or a cluster: write %.*s%s+sentinel:// or "
                        "%.*s%s+cluster://",
                        row->declared.name, length, name, tls, length, name, tls);
}

/* Every option of the URL has been read, or is refused. */
static int check_params(unsigned conditions, const struct scheme *scheme, simba_url *url,
                        struct simba_error *error)
{
    for (const struct sb_url_option *row = sb_redis_option_table; row->declared.name != NULL; row++)
        if (row->when != 0 && (row->when & conditions) == 0 && is_given(url, row->declared.name))
            return refuse_option(row, scheme, url, error);
    return simba_url_check_params(url, error);
}

/* Options of TLS and of sentinels are refused without them. A single server sends us nowhere. The
 * database of the path comes behind the option, which the path excludes. */
static int read_all(struct sb_redis_options *o, const struct scheme *scheme, simba_url *url,
                    struct simba_error *error)
{
    unsigned conditions = (o->tls ? WITH_TLS : 0U) |
                          (o->mode == SB_REDIS_SENTINEL ? WITH_SENTINELS : 0U) |
                          (o->mode != SB_REDIS_SINGLE ? WITH_OTHER_HOSTS : 0U);
    int code = sb_url_options_fill(sb_redis_option_table, conditions, url, o, error);

    if (code == SIMBA_OK)
        code = read_places(o, scheme, url, error);
    if (code == SIMBA_OK)
        code = read_credentials(o, url, error);
    if (code == SIMBA_OK)
        code = check_name(o, error);
    if (code == SIMBA_OK)
        code = check_together(o, error);
    return code == SIMBA_OK ? check_params(conditions, scheme, url, error) : code;
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
    o->transition_ms = config->transition_ms;
    o->lease_ms = config->ttl_ms + config->transition_ms;
    code = read_all(o, scheme, config->url, error);
    if (code != SIMBA_OK)
        sb_redis_options_free(o);
    return code;
}

void sb_redis_options_free(struct sb_redis_options *o)
{
    sb_url_options_clear(sb_redis_option_table, o);
    sb_free(o->master_name);
    sb_free(o->credentials.user);
    sb_secret_clear(&o->credentials.password);
    memset(o, 0, sizeof *o);
}
