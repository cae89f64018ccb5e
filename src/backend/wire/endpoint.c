/*
 * endpoint.c - places of servers and their addresses. Connects to nothing; knows no loop.
 */
#include "backend/wire/stream.h"

#include "base/error.h"
#include "base/text.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

bool sb_wire_place_equals(const struct sb_wire_place *a, const struct sb_wire_place *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

const char *sb_wire_place_text(const struct sb_wire_place *place, char *buffer)
{
    struct sb_text text;

    sb_text_init(&text, buffer, SB_WIRE_PLACE_TEXT_MAX);
    if (place->port == 0)
        sb_text_add(&text, "%s", place->host);
    else if (strchr(place->host, ':') != NULL)
        sb_text_add(&text, "[%s]:%d", place->host, place->port);
    else
        sb_text_add(&text, "%s:%d", place->host, place->port);
    return buffer;
}

/* ---- Looking up ------------------------------------------------------------------------------ */

static int look_up(const struct sb_wire_place *place, int flags, struct addrinfo **ret_list)
{
    struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
    char port[16];

    snprintf(port, sizeof port, "%d", place->port);
    return getaddrinfo(place->host, port, &hints, ret_list);
}

bool sb_wire_place_must_be_looked_up(const struct sb_wire_place *place)
{
    struct addrinfo *list = NULL;

    if (place->port == 0)
        return false;
    if (look_up(place, AI_NUMERICHOST, &list) != 0)
        return true;
    freeaddrinfo(list);
    return false;
}

int sb_wire_endpoint_resolve(const struct sb_wire_place *place,
                             struct sb_wire_endpoint *ret_endpoint, struct simba_error *error)
{
    struct sb_wire_endpoint endpoint = {.place = *place};
    struct sockaddr_un *socket = (struct sockaddr_un *)&endpoint.addresses[0];
    struct addrinfo *list = NULL;
    int code = place->port != 0 ? look_up(place, 0, &list) : 0;

    if (code != 0)
        return sb_error_set_backend(error, SIMBA_EUNAVAILABLE, code,
                                    "the host %s cannot be found: %s", place->host,
                                    gai_strerror(code));
    if (place->port == 0) {
        socket->sun_family = AF_UNIX;
        sb_text_copy(socket->sun_path, sizeof socket->sun_path, place->host);
        endpoint.address_count = 1;
    }
    for (const struct addrinfo *one = list;
         one != NULL && endpoint.address_count < SB_WIRE_ENDPOINT_ADDRESSES_MAX; one = one->ai_next)
        memcpy(&endpoint.addresses[endpoint.address_count++], one->ai_addr, one->ai_addrlen);
    if (list != NULL)
        freeaddrinfo(list);
    *ret_endpoint = endpoint;
    return SIMBA_OK;
}
