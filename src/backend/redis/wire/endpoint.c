/*
 * endpoint.c - compares names and addresses with those that may be
 * used. Connects to nothing; knows no loop.
 */
#include "backend/redis/wire/endpoint.h"

#include "base/error.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>

/* ---- Addresses ------------------------------------------------------------------------------- */

/* An address as bytes; an IPv4 address that is written as an IPv6 one is the former. */
struct address {
    unsigned char bytes[16];
    size_t length; /* 4 or 16; 0: none */
};

static struct address address_of_bytes(const void *bytes, size_t length)
{
    static const unsigned char mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    struct address address = {.length = length};

    memcpy(address.bytes, bytes, length);
    if (length == 16 && memcmp(address.bytes, mapped, sizeof mapped) == 0) {
        memmove(address.bytes, address.bytes + sizeof mapped, 4);
        address.length = 4;
    }
    return address;
}

static struct address address_of_socket(const struct sockaddr_storage *socket)
{
    if (socket->ss_family == AF_INET)
        return address_of_bytes(&((const struct sockaddr_in *)socket)->sin_addr, 4);
    if (socket->ss_family == AF_INET6)
        return address_of_bytes(&((const struct sockaddr_in6 *)socket)->sin6_addr, 16);
    return (struct address){.length = 0};
}

static struct address address_of_text(const char *text)
{
    unsigned char bytes[16];

    if (inet_pton(AF_INET, text, bytes) == 1)
        return address_of_bytes(bytes, 4);
    if (inet_pton(AF_INET6, text, bytes) == 1)
        return address_of_bytes(bytes, 16);
    return (struct address){.length = 0};
}

static bool begin_alike(const struct address *a, const struct address *b, size_t bits)
{
    size_t whole = bits / 8;
    unsigned char mask = (unsigned char)(0xff00 >> (bits % 8));

    if (a->length == 0 || a->length != b->length || memcmp(a->bytes, b->bytes, whole) != 0)
        return false;
    return bits % 8 == 0 || ((a->bytes[whole] ^ b->bytes[whole]) & mask) == 0;
}

/* ---- Patterns -------------------------------------------------------------------------------- */

struct pattern {
    char name[SB_WIRE_HOST_MAX]; /* of an address without its bits */
    struct address address;      /* none: it is a name */
    size_t bits;
    bool is_suffix; /* `name` begins with the dot */
};

/* The digits of a number from 0 to `most`; false: they are none. */
static bool read_bits(const char *text, size_t most, size_t *ret_bits)
{
    size_t bits = 0;

    if (*text == '\0')
        return false;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9' || bits > most)
            return false;
        bits = bits * 10 + (size_t)(*text - '0');
    }
    *ret_bits = bits;
    return bits <= most;
}

/* What ends in a number is an address, or half of one. */
static bool is_name(const char *text)
{
    const char *dot = strrchr(text, '.');
    const char *last = dot != NULL ? dot + 1 : text;

    return last[strspn(last, "0123456789")] != '\0' &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") ==
               strlen(text);
}

static bool read_pattern(const char *text, size_t length, struct pattern *pattern)
{
    char *slash;

    memset(pattern, 0, sizeof *pattern);
    if (length == 0 || length >= sizeof pattern->name)
        return false;
    memcpy(pattern->name, text, length);
    slash = strchr(pattern->name, '/');
    if (slash != NULL)
        *slash = '\0';
    pattern->address = address_of_text(pattern->name);
    pattern->bits = 8 * pattern->address.length;
    if (slash != NULL)
        return pattern->address.length > 0 && read_bits(slash + 1, pattern->bits, &pattern->bits);
    if (pattern->address.length > 0)
        return true;
    pattern->is_suffix = strncmp(pattern->name, "*.", 2) == 0;
    if (pattern->is_suffix)
        memmove(pattern->name, pattern->name + 1, length); /* with the NUL */
    return is_name(pattern->name + pattern->is_suffix);
}

/* Takes the next pattern off the list; false: it is none. */
static bool next_pattern(const char **list, struct pattern *pattern)
{
    size_t length = strcspn(*list, ",");
    bool is_good = read_pattern(*list, length, pattern);

    *list += length;
    *list += **list == ',';
    return is_good;
}

int sb_redis_hosts_check(const char *list, struct simba_error *error)
{
    const char *rest = list;
    size_t length = strlen(list);
    struct pattern pattern;

    while (next_pattern(&rest, &pattern))
        if (*rest == '\0' && list[length - 1] != ',')
            return SIMBA_OK;
    return sb_error_set(error, SIMBA_EINVAL,
                        "allow-hosts is no list of names, addresses, ADDRESS/BITS and *.SUFFIX "
                        "with commas between: \"%.100s\"",
                        list);
}

static bool name_matches(const struct pattern *pattern, const char *host)
{
    size_t host_length = strlen(host);
    size_t length = strlen(pattern->name);

    if (pattern->address.length > 0)
        return false;
    if (!pattern->is_suffix)
        return strcasecmp(host, pattern->name) == 0;
    return host_length > length && strcasecmp(host + host_length - length, pattern->name) == 0;
}

static bool is_listed(const char *list, const char *host, const struct address *address)
{
    struct pattern pattern;

    while (*list != '\0')
        if (next_pattern(&list, &pattern) &&
            (name_matches(&pattern, host) || begin_alike(address, &pattern.address, pattern.bits)))
            return true;
    return false;
}

/* ---- What may be used ------------------------------------------------------------------------ */

/* The URL names the sentinels, and allow-hosts the hosts of the masters: a sentinel must not get
 * the master's password by the name of a port of its own host. */
static bool only_list_decides(const struct sb_redis_options *o,
                              const struct sb_redis_credentials *credentials)
{
    return o->mode == SB_REDIS_SENTINEL && o->allow_hosts != NULL &&
           credentials != &o->sentinel_credentials;
}

/* A single server sends the client nowhere else, and a socket is a file that the user named. */
static bool is_named(const struct sb_redis_options *o,
                     const struct sb_redis_credentials *credentials,
                     const struct sb_wire_place *place)
{
    if (o->mode == SB_REDIS_SINGLE)
        return true;
    if (only_list_decides(o, credentials))
        return false;
    for (size_t i = 0; i < o->place_count; i++)
        if (strcasecmp(o->places[i].host, place->host) == 0)
            return true;
    return false;
}

/* Whether any host may be used, whatever its address is. */
static bool is_free(const struct sb_redis_options *o,
                    const struct sb_redis_credentials *credentials)
{
    bool is_proved_by_tls =
        o->tls && o->trust.verify && (o->trust.ca != NULL || o->trust.server_name != NULL);

    return o->allow_hosts == NULL && (credentials->password.text == NULL || is_proved_by_tls);
}

/* Whether a name of the URL leads to the address now. */
static bool leads_to(const struct sb_wire_place *place, const struct address *address)
{
    struct sb_wire_endpoint endpoint;

    if (sb_wire_endpoint_resolve(place, &endpoint, NULL) != SIMBA_OK)
        return false;
    for (size_t i = 0; i < endpoint.address_count; i++) {
        struct address one = address_of_socket(&endpoint.addresses[i]);

        if (begin_alike(&one, address, 8 * one.length))
            return true;
    }
    return false;
}

static bool may_be_used(const struct sb_redis_options *o,
                        const struct sb_redis_credentials *credentials, const char *host,
                        const struct address *address)
{
    if (o->allow_hosts != NULL && is_listed(o->allow_hosts, host, address))
        return true;
    if (only_list_decides(o, credentials))
        return false;
    for (size_t i = 0; i < o->place_count; i++)
        if (leads_to(&o->places[i], address))
            return true;
    return false;
}

static int refuse(const struct sb_redis_options *o, const struct sb_wire_place *place,
                  struct simba_error *error)
{
    const char *by = o->mode == SB_REDIS_SENTINEL ? "a sentinel" : "a node of the cluster";
    char where[SB_WIRE_PLACE_TEXT_MAX];

    sb_wire_place_text(place, where);
    if (o->allow_hosts != NULL)
        return sb_error_set(error, SIMBA_ECONFIG,
                            "%s names the server at %.80s, which allow-hosts does not list: the "
                            "client does not connect to it",
                            by, where);
    return sb_error_set(error, SIMBA_ECONFIG,
                        "%s names the server at %.80s, which the URL does not: the password is not "
                        "sent there. If the host is yours add allow-hosts=%.60s, or use TLS with "
                        "tls-ca",
                        by, where, place->host);
}

int sb_redis_endpoint_find(const struct sb_redis_options *o,
                           const struct sb_redis_credentials *credentials,
                           const struct sb_wire_place *place, struct sb_wire_endpoint *ret_endpoint,
                           struct simba_error *error)
{
    int code = sb_wire_endpoint_resolve(place, ret_endpoint, error);
    size_t count = 0;

    if (code != SIMBA_OK || is_named(o, credentials, place) || is_free(o, credentials))
        return code;
    for (size_t i = 0; i < ret_endpoint->address_count; i++) {
        struct address address = address_of_socket(&ret_endpoint->addresses[i]);

        if (may_be_used(o, credentials, place->host, &address))
            ret_endpoint->addresses[count++] = ret_endpoint->addresses[i];
    }
    ret_endpoint->address_count = count;
    return count > 0 ? SIMBA_OK : refuse(o, place, error);
}

bool sb_redis_endpoint_find_blocks(const struct sb_redis_options *o,
                                   const struct sb_redis_credentials *credentials,
                                   const struct sb_wire_place *place)
{
    if (sb_wire_place_must_be_looked_up(place))
        return true;
    if (is_named(o, credentials, place) || is_free(o, credentials))
        return false;
    for (size_t i = 0; i < o->place_count; i++)
        if (sb_wire_place_must_be_looked_up(&o->places[i]))
            return true;
    return false;
}
