/*
 * options.c - reads the URL. Owns the names and the defaults of the options; connects to nothing.
 *
 * No sentence quotes a user or a password.
 */
#include "backend/etcd/options.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "base/time.h"

#include <stddef.h>
#include <string.h>

#define PORT 2379
#define TIMEOUT_MAX_MS (24 * 3600 * 1000)
#define SILENCE_MIN_MS 250
#define SILENCE_MAX_MS 5000
#define SILENCE_PARTS 4 /* of a lease: with several members there is time to find another one */

#define WITH_TLS 1U
#define AT(member) offsetof(struct sb_etcd_options, member)

/* Member, otherwise, least, most, when. */
const struct sb_url_option sb_etcd_option_table[] = {
    SB_URL_OPTION(DURATION, "connect-timeout", NULL, AT(connect_timeout_ms), 5000, 1,
                  TIMEOUT_MAX_MS, 0),
    SB_URL_OPTION(DURATION, "command-timeout", NULL, AT(silence_ms), 0, 1, TIMEOUT_MAX_MS, 0),
    SB_URL_OPTION(SWITCH, "tls-verify", "yes no", AT(trust.verify), true, 0, 0, WITH_TLS),
    SB_URL_OPTION(PATH, "tls-ca", NULL, AT(trust.ca), 0, 0, 0, WITH_TLS),
    SB_URL_OPTION(PATH, "tls-cert", NULL, AT(trust.cert), 0, 0, 0, WITH_TLS),
    SB_URL_OPTION(PATH, "tls-key", NULL, AT(trust.key), 0, 0, 0, WITH_TLS),
    SB_URL_OPTION(TEXT, "tls-key-password", NULL, AT(trust.key_password), 0, 0, 0, WITH_TLS),
    SB_URL_OPTION(TEXT, "tls-server-name", NULL, AT(trust.server_name), 0, 0, 0, WITH_TLS),
    SB_URL_OPTIONS_END,
};

static bool is_tls(const char *scheme)
{
    return strcmp(scheme, "etcds") == 0;
}

bool sb_etcd_serves(const char *scheme)
{
    return strcmp(scheme, "etcd") == 0 || is_tls(scheme);
}

/* ---- Where ----------------------------------------------------------------------------------- */

static int add_place(struct sb_etcd_options *o, const char *host, int port,
                     struct simba_error *error)
{
    struct sb_wire_place *place = &o->places[o->place_count];

    if (o->place_count == SB_ETCD_PLACES_MAX)
        return sb_error_set(error, SIMBA_EINVAL, "the URL names more than %d hosts",
                            SB_ETCD_PLACES_MAX);
    if (!sb_text_copy(place->host, sizeof place->host, host) || host[0] == '\0')
        return sb_error_set(error, SIMBA_EINVAL, "host %zu of the URL needs 1 to %d bytes",
                            o->place_count + 1, SB_WIRE_HOST_MAX - 1);
    place->port = port > 0 ? port : PORT;
    o->place_count++;
    return SIMBA_OK;
}

static int read_hosts(struct sb_etcd_options *o, simba_url *url, struct simba_error *error)
{
    size_t count = simba_url_host_count(url);
    int code = SIMBA_OK;

    if (count == 0)
        return add_place(o, "localhost", PORT, error);
    for (size_t i = 0; i < count && code == SIMBA_OK; i++)
        code = add_place(o, simba_url_host(url, i), simba_url_port(url, i), error);
    return code;
}

/* Keys of etcd may begin with a slash and may not: etcd://HOST/locks is "locks/", and
 * etcd://HOST//locks is "/locks/". */
static int read_prefix(struct sb_etcd_options *o, simba_url *url, struct simba_error *error)
{
    const char *path = simba_url_path(url);
    struct sb_text prefix;

    path += path[0] == '/';
    sb_text_init(&prefix, o->prefix, sizeof o->prefix);
    if (path[0] != '\0')
        sb_text_add(&prefix, "%s%s", path, path[strlen(path) - 1] == '/' ? "" : "/");
    if (prefix.cut)
        return sb_error_set(error, SIMBA_EINVAL, "the prefix in the URL has more than %d bytes",
                            SB_ETCD_PREFIX_MAX - 1);
    return SIMBA_OK;
}

/* ---- Who and how ----------------------------------------------------------------------------- */

static int read_credentials(struct sb_etcd_options *o, simba_url *url, struct simba_error *error)
{
    const char *user = simba_url_user(url);
    int code = sb_secret_take(&o->password, url, "password", error);

    if (code != SIMBA_OK)
        return code;
    if ((user == NULL) != (o->password.text == NULL))
        return sb_error_set(error, SIMBA_EINVAL,
                            "a login at etcd needs a user and a password in the URL");
    o->user = user != NULL ? sb_strdup(user) : NULL;
    return user == NULL || o->user != NULL ? SIMBA_OK : sb_error_plain(error, SIMBA_ENOMEM);
}

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

/* Every option of the URL has been read, or is refused. */
static int check_params(const struct sb_etcd_options *o, simba_url *url, struct simba_error *error)
{
    for (const struct sb_url_option *row = sb_etcd_option_table; row->declared.name != NULL; row++)
        if (row->when == WITH_TLS && !o->tls && is_given(url, row->declared.name))
            return sb_error_set(error, SIMBA_ECONFIG, "the option '%s' needs TLS: write etcds://",
                                row->declared.name);
    if ((o->trust.cert == NULL) != (o->trust.key == NULL))
        return sb_error_set(error, SIMBA_EINVAL, "tls-cert and tls-key must be given together");
    return simba_url_check_params(url, error);
}

static int64_t usual_silence_ms(const struct sb_etcd_options *o)
{
    int64_t parts = o->place_count > 1 ? SILENCE_PARTS : 1;

    return sb_earlier(sb_max(o->lease_ms / parts, SILENCE_MIN_MS), SILENCE_MAX_MS);
}

int sb_etcd_options_read(struct sb_etcd_options *o, const struct simba_backend_config *config,
                         struct simba_error *error)
{
    int code;

    o->tls = is_tls(simba_url_scheme(config->url));
    o->trust.protocol = "h2";
    o->ttl_ms = config->ttl_ms;
    o->lease_ms = sb_later(config->ttl_ms, config->transition_ms);
    code = sb_url_options_fill(sb_etcd_option_table, o->tls ? WITH_TLS : 0U, config->url, o, error);
    if (code == SIMBA_OK)
        code = read_hosts(o, config->url, error);
    if (code == SIMBA_OK)
        code = read_prefix(o, config->url, error);
    if (code == SIMBA_OK)
        code = read_credentials(o, config->url, error);
    if (o->silence_ms == 0)
        o->silence_ms = usual_silence_ms(o);
    return code == SIMBA_OK ? check_params(o, config->url, error) : code;
}

void sb_etcd_options_free(struct sb_etcd_options *o)
{
    sb_url_options_clear(sb_etcd_option_table, o);
    sb_free(o->user);
    sb_secret_clear(&o->password);
    memset(o, 0, sizeof *o);
}
