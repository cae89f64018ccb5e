/*
 * url.c - takes a store's URL apart, in one copy of its text, and remembers which parameters were
 * asked for.
 *
 * Everything here comes from outside, so everything is bounded. No sentence of an error quotes a
 * part that may be a password: not a user, not a port that is no number, not a value.
 */
#include "base/url_parts.h"

#include "base/alloc.h"
#include "base/error.h"

#include <arpa/inet.h>
#include <string.h>

#define URL_MAX 4096 /* bytes */

/* ---- Pieces ---------------------------------------------------------------------------------- */

/* Ends the string at its first `delimiter`; returns what follows it, NULL where there is none. */
static char *split(char *text, char delimiter)
{
    char *found = strchr(text, delimiter);

    if (found == NULL)
        return NULL;
    *found = '\0';
    return found + 1;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* The byte that "%41" stands for; -1 where the two digits are missing or stand for NUL. */
static int escaped_byte(const char *text)
{
    int high = hex_value(text[1]);
    int low = high < 0 ? -1 : hex_value(text[2]);
    int byte = low < 0 ? -1 : high * 16 + low;

    return byte > 0 ? byte : -1;
}

/* Decodes in place; `part` names the text in an error. */
static int decode(char *text, const char *part, struct simba_error *error)
{
    char *out = text;

    for (const char *in = text; *in != '\0'; in++) {
        int byte;

        if (*in != '%') {
            *out++ = *in;
            continue;
        }
        byte = escaped_byte(in);
        if (byte < 0)
            return sb_error_set(error, SIMBA_EINVAL,
                                "a '%%' in the URL's %s is not followed by two hex digits other "
                                "than 00",
                                part);
        *out++ = (char)byte;
        in += 2;
    }
    *out = '\0';
    return SIMBA_OK;
}

static bool has_control(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return true;
    return false;
}

/* ---- Scheme ---------------------------------------------------------------------------------- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Cuts off the scheme in lower case; returns what follows its ':', NULL where there is none. */
static char *take_scheme(struct simba_url *url)
{
    char *rest = split(url->text, ':');

    if (rest == NULL || !is_letter(url->text[0]))
        return NULL;
    for (char *c = url->text; *c != '\0'; c++) {
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c - 'A' + 'a');
        else if (strchr("abcdefghijklmnopqrstuvwxyz0123456789+-.", *c) == NULL)
            return NULL;
    }
    url->scheme = url->text;
    return rest;
}

/* ---- Hosts ----------------------------------------------------------------------------------- */

static bool read_port(const char *text, int *ret_port)
{
    int port = 0;
    size_t length = strlen(text);

    if (length == 0 || length > 5 || strspn(text, "0123456789") != length)
        return false;
    for (; *text != '\0'; text++)
        port = port * 10 + (*text - '0');
    if (port < 1 || port > 65535)
        return false;
    *ret_port = port;
    return true;
}

/* The address without its zone, as in fe80::1%eth0, must be one. */
static bool is_ipv6(const char *name)
{
    char address[INET6_ADDRSTRLEN];
    size_t length = strcspn(name, "%");
    struct in6_addr ignored;

    if (length >= sizeof(address))
        return false;
    memcpy(address, name, length);
    address[length] = '\0';
    return inet_pton(AF_INET6, address, &ignored) == 1;
}

/* Cuts "[::1]:70" into name and port; *ret_port is NULL where there is none. */
static int split_bracketed(char **name, char **ret_port, struct simba_error *error)
{
    char *rest;
    int code;

    (*name)++;
    rest = split(*name, ']');
    if (rest == NULL || (*rest != '\0' && *rest != ':'))
        return sb_error_set(error, SIMBA_EINVAL,
                            "a host of the URL opens with '[' and is not like [::1] or [::1]:70");
    code = decode(*name, "host", error);
    if (code != SIMBA_OK)
        return code;
    if (!is_ipv6(*name))
        return sb_error_set(error, SIMBA_EINVAL,
                            "the text in brackets in the URL is not an IPv6 address");
    *ret_port = *rest == ':' ? rest + 1 : NULL;
    return SIMBA_OK;
}

/* A folder of sockets may have any name. What looks like a user and a password is not quoted. */
static int check_decoded(const char *name, struct simba_error *error)
{
    if (*name == '/' || strpbrk(name + 1, ":@") == NULL)
        return SIMBA_OK;
    return sb_error_set(error, SIMBA_EINVAL, "a host of the URL has an encoded ':' or '@' in it");
}

static int split_plain(char *name, char **ret_port, struct simba_error *error)
{
    int code;

    *ret_port = split(name, ':');
    if (*ret_port != NULL && strchr(*ret_port, ':') != NULL)
        return sb_error_set(error, SIMBA_EINVAL,
                            "a host of the URL has more than one ':'; an IPv6 address stands in "
                            "brackets");
    code = decode(name, "host", error);
    return code == SIMBA_OK && *name != '\0' ? check_decoded(name, error) : code;
}

static int add_host(struct simba_url *url, char *text, struct simba_error *error)
{
    struct host *host;
    char *name = text;
    char *port = NULL;
    int code;

    if (url->host_count == SB_URL_HOSTS_MAX)
        return sb_error_set(error, SIMBA_EINVAL, "the URL has more than %d hosts",
                            SB_URL_HOSTS_MAX);
    code = *name == '[' ? split_bracketed(&name, &port, error) : split_plain(name, &port, error);
    if (code != SIMBA_OK)
        return code;
    if (*name == '\0' || has_control(name))
        return sb_error_set(error, SIMBA_EINVAL,
                            "host %zu of the URL is empty or has a control character",
                            url->host_count + 1);
    host = &url->hosts[url->host_count];
    host->name = name;
    if (port != NULL && !read_port(port, &host->port))
        return sb_error_set(
            error, SIMBA_EINVAL,
            "the port of host %zu of the URL is no number from 1 to 65535 (a '/' or "
            "'?' in a password must be percent-encoded)",
            url->host_count + 1);
    url->host_count++;
    return SIMBA_OK;
}

static int take_hosts(struct simba_url *url, char *text, struct simba_error *error)
{
    int code = SIMBA_OK;

    if (*text == '\0')
        return SIMBA_OK;
    while (text != NULL && code == SIMBA_OK) {
        char *next = split(text, ',');

        code = add_host(url, text, error);
        text = next;
    }
    return code;
}

/* ---- User and password ----------------------------------------------------------------------- */

static int take_user(struct simba_url *url, char *text, struct simba_error *error)
{
    char *password = split(text, ':');
    int code = decode(text, "user", error);

    if (code == SIMBA_OK && password != NULL)
        code = decode(password, "password", error);
    if (code != SIMBA_OK)
        return code;
    url->user = *text != '\0' ? text : NULL;
    url->password = password;
    return SIMBA_OK;
}

/* `text` is "user:password@h1:1,h2:2", each part but the hosts being optional. */
static int take_authority(struct simba_url *url, char *text, struct simba_error *error)
{
    char *at = strrchr(text, '@');
    int code;

    if (at == NULL)
        return take_hosts(url, text, error);
    *at = '\0';
    code = take_user(url, text, error);
    return code == SIMBA_OK ? take_hosts(url, at + 1, error) : code;
}

/* ---- Parameters ------------------------------------------------------------------------------ */

static int add_param(struct simba_url *url, char *name, struct simba_error *error)
{
    char *value = split(name, '=');
    int code = decode(name, "parameter name", error);

    if (code == SIMBA_OK && value != NULL)
        code = decode(value, "parameter value", error);
    if (code != SIMBA_OK)
        return code;
    if (value == NULL || *name == '\0')
        return sb_error_set(error, SIMBA_EINVAL, "parameter %zu of the URL is not like name=value",
                            url->param_count + 1);
    if (sb_url_find_param(url, name) != NULL)
        return sb_error_set(error, SIMBA_EINVAL, "the URL has the parameter '%.50s' twice", name);
    if (url->param_count == SB_URL_PARAMS_MAX)
        return sb_error_set(error, SIMBA_EINVAL, "the URL has more than %d parameters",
                            SB_URL_PARAMS_MAX);
    url->params[url->param_count].name = name;
    url->params[url->param_count].value = value;
    url->param_count++;
    return SIMBA_OK;
}

static int take_params(struct simba_url *url, char *text, struct simba_error *error)
{
    int code = SIMBA_OK;

    if (text == NULL || *text == '\0')
        return SIMBA_OK;
    while (text != NULL && code == SIMBA_OK) {
        char *next = split(text, '&');

        code = add_param(url, text, error);
        text = next;
    }
    return code;
}

/* ---- The whole ------------------------------------------------------------------------------- */

/* Moves the authority, which "//" opens, one byte to the left, so that a NUL fits between it and
 * the path that follows without a delimiter of its own. */
static char *take_slashes(char *text, char **ret_authority)
{
    size_t length;

    if (strncmp(text, "//", 2) != 0)
        return text;
    length = strcspn(text + 2, "/");
    memmove(text + 1, text + 2, length);
    text[1 + length] = '\0';
    *ret_authority = text + 1;
    return text + 2 + length;
}

static const char no_scheme[] =
    "the URL does not begin with a scheme, such as sqlite: for the path "
    "of a file, redis:// or postgres://";

/* A text without any ':' and '@' is most often the path of a file. One that has parameters may hold
 * a password. */
static int fail_path(const char *text, struct simba_error *error)
{
    size_t before = strcspn(text, "/");

    if (strchr(text, '=') != NULL)
        return sb_error_set(error, SIMBA_EINVAL, "%s", no_scheme);

    if (before > 0 && strncmp(text + before, "//", 2) == 0)
        return sb_error_set(error, SIMBA_EINVAL,
                            "the URL '%.60s' has no ':' behind its scheme: write %.*s:%.60s", text,
                            (int)before, text, text + before);
    if (text[0] == '~')
        return sb_error_set(
            error, SIMBA_EINVAL,
            "the URL '%.60s' does not begin with a scheme: for a file write sqlite: "
            "and its whole path, without '~'",
            text);
    return sb_error_set(
        error, SIMBA_EINVAL,
        "the URL '%.60s' does not begin with a scheme: for a file write sqlite:%.60s", text, text);
}

static int fail_scheme(const char *text, bool has_colon, struct simba_error *error)
{
    if (*text == '\0')
        return sb_error_set(
            error, SIMBA_EINVAL,
            "the URL is empty: it opens with a scheme, such as sqlite: or redis://");
    if (!has_colon && strchr(text, '@') == NULL)
        return fail_path(text, error);
    return sb_error_set(error, SIMBA_EINVAL, "%s", no_scheme);
}

static int take_apart(struct simba_url *url, struct simba_error *error)
{
    bool has_colon = strchr(url->text, ':') != NULL;
    char *path = take_scheme(url);
    char *authority = NULL;
    char *params;
    int code;

    if (path == NULL)
        return fail_scheme(url->text, has_colon, error);
    params = split(path, '?');
    path = take_slashes(path, &authority);
    url->path = path;
    code = decode(path, "path", error);
    if (code == SIMBA_OK && authority != NULL)
        code = take_authority(url, authority, error);
    return code == SIMBA_OK ? take_params(url, params, error) : code;
}

int sb_url_parse(const char *text, simba_url **ret_url, struct simba_error *error)
{
    struct simba_url *url;
    size_t length;
    int code;

    if (text == NULL)
        return sb_error_set(error, SIMBA_EINVAL, "the URL is missing");
    length = strlen(text);
    if (length > URL_MAX)
        return sb_error_set(error, SIMBA_EINVAL, "the URL is %zu bytes long; the limit is %d",
                            length, URL_MAX);
    if (has_control(text))
        return sb_error_set(error, SIMBA_EINVAL, "the URL has a control character");
    url = sb_alloc_zero(sizeof(*url) + length + 1);
    if (url == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    memcpy(url->text, text, length + 1);
    url->text_size = length + 1;
    code = take_apart(url, error);
    if (code != SIMBA_OK)
        sb_url_free(url);
    else
        *ret_url = url;
    return code;
}

/* Passwords do not stay in memory that is freed. */
void sb_url_free(simba_url *url)
{
    if (url == NULL)
        return;
    for (size_t i = 0; i < url->secret_count; i++) {
        explicit_bzero(url->secrets[i], strlen(url->secrets[i]));
        sb_free(url->secrets[i]);
    }
    explicit_bzero(url->text, url->text_size);
    sb_free(url);
}

/* ---- Accessors ------------------------------------------------------------------------------- */

const char *simba_url_scheme(const simba_url *url)
{
    return url->scheme;
}

size_t simba_url_host_count(const simba_url *url)
{
    return url->host_count;
}

const char *simba_url_host(const simba_url *url, size_t index)
{
    return index < url->host_count ? url->hosts[index].name : NULL;
}

int simba_url_port(const simba_url *url, size_t index)
{
    return index < url->host_count ? url->hosts[index].port : 0;
}

const char *simba_url_path(const simba_url *url)
{
    return url->path;
}

/* ---- Options, and which of them were asked for ----------------------------------------------- */

static void mark_used(struct param *param)
{
    for (; param != NULL; param = param->source)
        param->used = true;
}

/* Remembers the known names that unknown parameters may be misspellings of. */
static void offer(simba_url *url, const char *name)
{
    for (size_t i = 0; i < url->param_count; i++)
        sb_near_offer(&url->params[i].near, url->params[i].name, name);
}

struct param *sb_url_find_param(simba_url *url, const char *name)
{
    for (size_t i = 0; i < url->param_count; i++)
        if (strcmp(url->params[i].name, name) == 0)
            return &url->params[i];
    return NULL;
}

size_t sb_url_param_count(const simba_url *url)
{
    return url->param_count;
}

const char *sb_url_param_name(const simba_url *url, size_t index)
{
    return url->params[index].name;
}

const char *sb_url_param_value(const simba_url *url, size_t index)
{
    return url->params[index].value;
}

const char *simba_url_user(const simba_url *url)
{
    mark_used(url->user_source);
    return url->user;
}

const char *simba_url_password(const simba_url *url)
{
    mark_used(url->password_source);
    return url->password;
}

const char *simba_url_param(simba_url *url, const char *name)
{
    struct param *param = sb_url_find_param(url, name);

    mark_used(param);
    offer(url, name);
    return param != NULL ? param->value : NULL;
}

int simba_url_duration(simba_url *url, const char *name, int64_t *value, struct simba_error *error)
{
    const char *text;
    struct simba_error why;

    if (url == NULL || name == NULL || value == NULL)
        return sb_error_set(error, SIMBA_EMISUSE,
                            "simba_url_duration needs a URL, the name of a parameter and value");
    text = simba_url_param(url, name);
    if (text == NULL || simba_duration_parse(text, value, &why) == SIMBA_OK)
        return SIMBA_OK;
    return sb_error_set(error, why.code, "the URL's parameter '%s': %s", name, why.text);
}

static const struct param *find_unused(const simba_url *url)
{
    for (size_t i = 0; i < url->param_count; i++)
        if (!url->params[i].used)
            return &url->params[i];
    return NULL;
}

const char *sb_url_unused_param(const simba_url *url)
{
    const struct param *unused = find_unused(url);

    return unused != NULL ? unused->name : NULL;
}

/* Stores that have hosts have users. */
static struct sb_near find_meant(const simba_url *url, const struct param *unused)
{
    static const char *const names[] = {"user", "password", "password-file", "password-env"};
    struct sb_near near = unused->near;

    for (size_t i = 0; i < sizeof names / sizeof names[0] && url->host_count > 0; i++)
        sb_near_offer(&near, unused->name, names[i]);
    return near;
}

int simba_url_check_params(const simba_url *url, struct simba_error *error)
{
    const struct param *unused;
    struct sb_near near;

    if (url == NULL)
        return sb_error_set(error, SIMBA_EMISUSE, "simba_url_check_params needs a URL");
    unused = find_unused(url);
    if (unused == NULL)
        return SIMBA_OK;
    near = find_meant(url, unused);
    if (near.name[0] == '\0' || near.distance == 0)
        return sb_error_set(error, SIMBA_ECONFIG,
                            "a URL that begins with '%s:' has no option '%.100s'", url->scheme,
                            unused->name);
    return sb_error_set(error, SIMBA_ECONFIG,
                        "a URL that begins with '%s:' has no option '%.100s'; did you mean '%s'?",
                        url->scheme, unused->name, near.name);
}
