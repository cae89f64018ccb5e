/*
 * options.c - reads the URL. Owns the names and the defaults of the options; connects to nothing.
 *
 * No sentence quotes a user or a password.
 */
#include "backend/zookeeper/options.h"

#include "backend/zookeeper/names.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"

#include <stddef.h>
#include <string.h>

#define PORT 2181
#define HOSTS_SIZE 4096
#define AUTH_SIZE 1024
#define TLS_SIZE 4096
#define TIMEOUT_MAX_MS (24 * 3600 * 1000)
#define FOLDER "/simba"

#define WITH_TLS 1U
#define NOT_SAID (-1)
#define AT(member) offsetof(struct sb_zk_options, member)

/* Member, otherwise, least, most, when. */
const struct sb_url_option sb_zk_option_table[] = {
    SB_URL_OPTION(DURATION, "session-timeout", NULL, AT(session_timeout_ms), 0, 1, TIMEOUT_MAX_MS,
                  0),
    SB_URL_OPTION(DURATION, "connect-timeout", NULL, AT(connect_timeout_ms), 5000, 1,
                  TIMEOUT_MAX_MS, 0),
    SB_URL_OPTION(CHOICE, "on-disconnect", "keep release", AT(release_on_disconnect), 0, 0, 0, 0),
    SB_URL_OPTION(CHOICE, "acl", "open creator creator-read", AT(acl), SB_ZK_ACL_OPEN, 0, 0, 0),
    SB_URL_OPTION(PATH, "tls-ca", NULL, AT(tls_ca), 0, 0, 0, WITH_TLS),
    SB_URL_OPTION(PATH, "tls-cert", NULL, AT(tls_cert), 0, 0, 0, WITH_TLS),
    SB_URL_OPTION(PATH, "tls-key", NULL, AT(tls_key), 0, 0, 0, WITH_TLS),
    SB_URL_OPTION(TEXT, "tls-key-password", NULL, AT(tls_key_password), 0, 0, 0, WITH_TLS),
    SB_URL_OPTION(CHOICE, "tls-verify", "ca", AT(tls_verify), NOT_SAID, 0, 0, WITH_TLS),
    SB_URL_OPTIONS_END,
};

static bool is_tls(const char *scheme)
{
    return strcmp(scheme, "zookeepers") == 0;
}

bool sb_zk_serves(const char *scheme)
{
    return strcmp(scheme, "zookeeper") == 0 || is_tls(scheme);
}

static int copy(char **target, const char *text, struct simba_error *error)
{
    *target = sb_strdup(text);
    return *target != NULL ? SIMBA_OK : sb_error_plain(error, SIMBA_ENOMEM);
}

/* ---- Where ----------------------------------------------------------------------------------- */

static void add_host(struct sb_text *hosts, const char *host, int port)
{
    const char *comma = hosts->length > 0 ? "," : "";

    if (strchr(host, ':') != NULL) /* IPv6 */
        sb_text_add(hosts, "%s[%s]:%d", comma, host, port);
    else
        sb_text_add(hosts, "%s%s:%d", comma, host, port);
}

static int read_hosts(struct sb_zk_options *o, simba_url *url, struct simba_error *error)
{
    size_t count = simba_url_host_count(url);
    char buffer[HOSTS_SIZE];
    struct sb_text hosts;

    sb_text_init(&hosts, buffer, sizeof buffer);
    if (count == 0)
        add_host(&hosts, "localhost", PORT);
    for (size_t i = 0; i < count; i++) {
        int port = simba_url_port(url, i);

        add_host(&hosts, simba_url_host(url, i), port > 0 ? port : PORT);
    }
    if (hosts.cut)
        return sb_error_set(error, SIMBA_EINVAL, "the hosts of the URL have more than %d bytes",
                            HOSTS_SIZE - 1);
    return copy(&o->hosts, buffer, error);
}

static bool is_bad_part(const char *part, size_t length)
{
    return length == 0 || (length == 1 && part[0] == '.') ||
           (length == 2 && part[0] == '.' && part[1] == '.');
}

static int check_chroot(const char *path, struct simba_error *error)
{
    const char *part = path;

    while (*part == '/' && part[1] != '\0') {
        size_t length = strcspn(part + 1, "/");

        if (is_bad_part(part + 1, length))
            return sb_error_set(error, SIMBA_EINVAL,
                                "the chroot '%s' is no path of nodes such as /a/b", path);
        part += 1 + length;
    }
    return sb_zk_check_characters("chroot", path, error);
}

static int read_chroot(struct sb_zk_options *o, simba_url *url, struct simba_error *error)
{
    const char *path = simba_url_path(url);
    char base[SB_ZK_BASE_MAX + 1];
    size_t length = strlen(path);
    struct sb_text text;
    int code;

    code = check_chroot(path, error);
    if (code != SIMBA_OK)
        return code;
    sb_text_init(&text, base, sizeof base);
    if (length > 0 && path[length - 1] == '/')
        length--;
    sb_text_add(&text, "%.*s" FOLDER, (int)length, path);
    if (text.cut)
        return sb_error_set(error, SIMBA_EINVAL, "the chroot of the URL has more than %zu bytes",
                            SB_ZK_BASE_MAX - strlen(FOLDER));
    return copy(&o->base, base, error);
}

/* ---- Who ------------------------------------------------------------------------------------- */

static int read_auth(struct sb_zk_options *o, simba_url *url, struct simba_error *error)
{
    const char *user = simba_url_user(url);
    const char *password = simba_url_password(url);
    char auth[AUTH_SIZE];
    struct sb_text text;

    if (user == NULL && password == NULL)
        return SIMBA_OK;
    if (user == NULL || user[0] == '\0' || password == NULL)
        return sb_error_set(error, SIMBA_EINVAL,
                            "digest authentication needs a user and a password in the URL");
    if (strchr(user, ':') != NULL)
        return sb_error_set(error, SIMBA_EINVAL, "the user in the URL has a ':'");
    sb_text_init(&text, auth, sizeof auth);
    sb_text_add(&text, "%s:%s", user, password);
    if (text.cut)
        return sb_error_set(error, SIMBA_EINVAL, "user and password have more than %d bytes",
                            AUTH_SIZE - 2);
    return copy(&o->auth, auth, error);
}

/* ---- How ------------------------------------------------------------------------------------- */

/* The session is the lease on the server. By default it is so long that an owner may believe for
 * the client's whole lease. */
static int64_t session_for(int64_t lease_ms)
{
    int64_t most_ms = TIMEOUT_MAX_MS;

    return lease_ms < most_ms * SB_ZK_LEASE_PARTS / SB_ZK_SESSION_PARTS
               ? lease_ms * SB_ZK_SESSION_PARTS / SB_ZK_LEASE_PARTS
               : most_ms;
}

/* The client library wants CA, certificate, key and the key's password in one string. */
static int join_tls(struct sb_zk_options *o, struct simba_error *error)
{
    static const char *const names[] = {"tls-ca", "tls-cert", "tls-key", "tls-key-password"};
    const char *parts[] = {o->tls_ca, o->tls_cert, o->tls_key, o->tls_key_password.text};
    char buffer[TLS_SIZE];
    struct sb_text text;

    sb_text_init(&text, buffer, sizeof buffer);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (i < 3 && parts[i] == NULL)
            return sb_error_set(error, SIMBA_EINVAL,
                                "zookeepers:// needs the files tls-ca, tls-cert and tls-key");
        if (parts[i] != NULL && strchr(parts[i], ',') != NULL)
            return sb_error_set(
                error, SIMBA_EINVAL,
                "%s contains a comma, which the ZooKeeper client library does not allow", names[i]);
        sb_text_add(&text, "%s%s", i > 0 ? "," : "", parts[i] != NULL ? parts[i] : "");
    }
    if (text.cut)
        return sb_error_set(error, SIMBA_EINVAL, "the names of the TLS files are too long");
    return copy(&o->tls, buffer, error);
}

/* The client library checks which authority has signed a certificate, and not for which host: any
 * other server with such a certificate could pass for a ZooKeeper server. The user confirms that
 * there is none by tls-verify=ca. */
static int check_verify(const struct sb_zk_options *o, struct simba_error *error)
{
    if (o->tls == NULL || o->tls_verify != NOT_SAID)
        return SIMBA_OK;
    return sb_error_set(error, SIMBA_ECONFIG,
                        "the ZooKeeper client library does not check host names: any certificate "
                        "that tls-ca signed passes for any server. If tls-ca signs certificates of "
                        "ZooKeeper servers only, add tls-verify=ca");
}

static int check_tls(const struct sb_zk_options *o, struct simba_error *error)
{
#ifdef SIMBA_HAVE_ZOOKEEPER_TLS
    (void)o;
    (void)error;
    return SIMBA_OK;
#else
    if (o->tls == NULL)
        return SIMBA_OK;
    return sb_error_set(
        error, SIMBA_ECONFIG,
        "the ZooKeeper client library of this build has no TLS; use zookeeper://, or "
        "build with a library that has it");
#endif
}

static int read_options(struct sb_zk_options *o, const struct simba_backend_config *config,
                        struct simba_error *error)
{
    bool tls = is_tls(simba_url_scheme(config->url));
    int code = sb_url_options_fill(sb_zk_option_table, tls ? WITH_TLS : 0, config->url, o, error);

    if (code != SIMBA_OK)
        return code;
    o->lease_ms = config->ttl_ms + config->transition_ms;
    if (o->session_timeout_ms == 0)
        o->session_timeout_ms = session_for(o->lease_ms);
    if (o->acl != SB_ZK_ACL_OPEN && o->auth == NULL)
        return sb_error_set(error, SIMBA_EINVAL,
                            "acl=%s needs a user and a password in the URL, to be the creator",
                            simba_url_param(config->url, "acl"));
    return tls ? join_tls(o, error) : SIMBA_OK;
}

int sb_zk_options_read(struct sb_zk_options *o, const struct simba_backend_config *config,
                       struct simba_error *error)
{
    int code = read_hosts(o, config->url, error);

    if (code == SIMBA_OK)
        code = read_chroot(o, config->url, error);
    if (code == SIMBA_OK)
        code = read_auth(o, config->url, error);
    if (code == SIMBA_OK)
        code = read_options(o, config, error);
    if (code == SIMBA_OK)
        code = check_verify(o, error);
    if (code == SIMBA_OK)
        code = simba_url_check_params(config->url, error);
    return code == SIMBA_OK ? check_tls(o, error) : code;
}

void sb_zk_options_free(struct sb_zk_options *o)
{
    sb_url_options_clear(sb_zk_option_table, o);
    sb_free(o->hosts);
    sb_free(o->base);
    sb_free(o->auth);
    sb_free(o->tls);
}
