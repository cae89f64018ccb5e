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

#include <string.h>

#define PORT 2181
#define HOSTS_SIZE 4096
#define AUTH_SIZE 1024
#define TLS_SIZE 4096
#define CONNECT_TIMEOUT_MS 5000
#define SESSION_TIMEOUT_MAX_MS (24 * 3600 * 1000)
#define FOLDER "/simba"

const struct simba_backend_option sb_zk_option_table[] = {
    {"session-timeout", SIMBA_OPTION_DURATION, NULL},
    {"connect-timeout", SIMBA_OPTION_DURATION, NULL},
    {"on-disconnect", SIMBA_OPTION_CHOICE, "keep release"},
    {"acl", SIMBA_OPTION_CHOICE, "open creator creator-read"},
    {"tls-ca", SIMBA_OPTION_PATH, NULL},
    {"tls-cert", SIMBA_OPTION_PATH, NULL},
    {"tls-key", SIMBA_OPTION_PATH, NULL},
    {"tls-key-password", SIMBA_OPTION_TEXT, NULL},
    {"tls-verify", SIMBA_OPTION_CHOICE, "ca"},
    {NULL, SIMBA_OPTION_TEXT, NULL},
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

static int read_acl(struct sb_zk_options *o, simba_url *url, struct simba_error *error)
{
    const char *acl = simba_url_param(url, "acl");

    if (acl == NULL || strcmp(acl, "open") == 0)
        o->acl = SB_ZK_ACL_OPEN;
    else if (strcmp(acl, "creator") == 0)
        o->acl = SB_ZK_ACL_CREATOR;
    else if (strcmp(acl, "creator-read") == 0)
        o->acl = SB_ZK_ACL_CREATOR_READ;
    else
        return sb_error_set(error, SIMBA_EINVAL,
                            "acl is '%s'; it must be open, creator or creator-read", acl);
    if (o->acl != SB_ZK_ACL_OPEN && o->auth == NULL)
        return sb_error_set(error, SIMBA_EINVAL,
                            "acl=%s needs a user and a password in the URL: nobody is the creator "
                            "otherwise",
                            acl);
    return SIMBA_OK;
}

static int read_policy(struct sb_zk_options *o, simba_url *url, struct simba_error *error)
{
    const char *policy = simba_url_param(url, "on-disconnect");

    o->release_on_disconnect = policy != NULL && strcmp(policy, "release") == 0;
    if (policy == NULL || o->release_on_disconnect || strcmp(policy, "keep") == 0)
        return SIMBA_OK;
    return sb_error_set(error, SIMBA_EINVAL, "on-disconnect is '%s'; it must be keep or release",
                        policy);
}

/* ---- How ------------------------------------------------------------------------------------- */

static int check_duration(const char *name, int64_t value_ms, struct simba_error *error)
{
    char text[32];

    if (value_ms >= 1 && value_ms <= SESSION_TIMEOUT_MAX_MS)
        return SIMBA_OK;
    return sb_error_set(error, SIMBA_EINVAL, "%s is %s; it must be between 1ms and a day", name,
                        simba_duration_format(value_ms, text, sizeof text));
}

/* A session is the lease on the server: without a wish of its own it is so long that an owner may
 * believe in it for the lease of the client. */
static int64_t session_for(int64_t lease_ms)
{
    int64_t most_ms = SESSION_TIMEOUT_MAX_MS;

    return lease_ms < most_ms * SB_ZK_LEASE_PARTS / SB_ZK_SESSION_PARTS
               ? lease_ms * SB_ZK_SESSION_PARTS / SB_ZK_LEASE_PARTS
               : most_ms;
}

static int read_times(struct sb_zk_options *o, const struct simba_backend_config *config,
                      struct simba_error *error)
{
    int code;

    o->lease_ms = config->ttl_ms + config->transition_ms;
    o->connect_timeout_ms = CONNECT_TIMEOUT_MS;
    o->session_timeout_ms = session_for(o->lease_ms);
    code = simba_url_duration(config->url, "session-timeout", &o->session_timeout_ms, error);
    if (code == SIMBA_OK)
        code = check_duration("session-timeout", o->session_timeout_ms, error);
    if (code == SIMBA_OK)
        code = simba_url_duration(config->url, "connect-timeout", &o->connect_timeout_ms, error);
    if (code == SIMBA_OK)
        code = check_duration("connect-timeout", o->connect_timeout_ms, error);
    return code;
}

/* The client library wants CA, certificate, key and the key's password in one string. */
static int read_tls(struct sb_zk_options *o, simba_url *url, struct simba_error *error)
{
    static const char *const names[] = {"tls-ca", "tls-cert", "tls-key", "tls-key-password"};
    char buffer[TLS_SIZE];
    struct sb_text text;

    if (!is_tls(simba_url_scheme(url)))
        return SIMBA_OK;
    sb_text_init(&text, buffer, sizeof buffer);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = simba_url_param(url, names[i]);

        if (value != NULL && strchr(value, ',') != NULL)
            return sb_error_set(error, SIMBA_EINVAL, "%s has a comma", names[i]);
        if (value == NULL && i < 3)
            return sb_error_set(error, SIMBA_EINVAL,
                                "zookeepers:// needs the files tls-ca, tls-cert and tls-key");
        sb_text_add(&text, "%s%s", i > 0 ? "," : "", value != NULL ? value : "");
    }
    if (text.cut)
        return sb_error_set(error, SIMBA_EINVAL, "the names of the TLS files are too long");
    return copy(&o->tls, buffer, error);
}

/* The client library checks which authority has signed a certificate, and not for which host: any
 * other server that has one could take a ZooKeeper server's place. A user who knows that there is
 * none says so. */
static int check_verify(const struct sb_zk_options *o, simba_url *url, struct simba_error *error)
{
    const char *verify = o->tls != NULL ? simba_url_param(url, "tls-verify") : NULL;

    if (o->tls == NULL || (verify != NULL && strcmp(verify, "ca") == 0))
        return SIMBA_OK;
    if (verify != NULL)
        return sb_error_set(error, SIMBA_EINVAL, "tls-verify=%s is not \"ca\"", verify);
    return sb_error_set(error, SIMBA_ECONFIG,
                        "the ZooKeeper client library checks no host name: with zookeepers:// any "
                        "certificate of tls-ca's passes for any server; where it signs those of "
                        "ZooKeeper only, add tls-verify=ca");
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

int sb_zk_options_read(struct sb_zk_options *o, const struct simba_backend_config *config,
                       struct simba_error *error)
{
    simba_url *url = config->url;
    int code = read_hosts(o, url, error);

    if (code == SIMBA_OK)
        code = read_chroot(o, url, error);
    if (code == SIMBA_OK)
        code = read_auth(o, url, error);
    if (code == SIMBA_OK)
        code = read_acl(o, url, error);
    if (code == SIMBA_OK)
        code = read_policy(o, url, error);
    if (code == SIMBA_OK)
        code = read_times(o, config, error);
    if (code == SIMBA_OK)
        code = read_tls(o, url, error);
    if (code == SIMBA_OK)
        code = check_verify(o, url, error);
    if (code == SIMBA_OK)
        code = simba_url_check_params(url, error);
    return code == SIMBA_OK ? check_tls(o, error) : code;
}

void sb_zk_options_free(struct sb_zk_options *o)
{
    sb_free(o->hosts);
    sb_free(o->base);
    sb_free(o->auth);
    sb_free(o->tls);
}
