/*
 * endpoint.c - looks names of hosts up. Knows no loop.
 */
#include "backend/redis/wire/endpoint.h"

#include "base/error.h"
#include "base/text.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

static int look_up(const struct sb_redis_place *place, int flags, struct addrinfo **ret_list)
{
    struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
    char port[16];

    snprintf(port, sizeof port, "%d", place->port);
    return getaddrinfo(place->host, port, &hints, ret_list);
}

bool sb_redis_endpoint_must_be_looked_up(const struct sb_redis_place *place)
{
    struct addrinfo *list = NULL;

    if (place->port == 0)
        return false;
    if (look_up(place, AI_NUMERICHOST, &list) != 0)
        return true;
    freeaddrinfo(list);
    return false;
}

static void take_socket(struct sb_redis_endpoint *endpoint)
{
    struct sockaddr_un *address = (struct sockaddr_un *)&endpoint->addresses[0];

    address->sun_family = AF_UNIX;
    sb_text_copy(address->sun_path, sizeof address->sun_path, endpoint->place.host);
    endpoint->address_count = 1;
}

static void take_list(struct sb_redis_endpoint *endpoint, const struct addrinfo *list)
{
    for (; list != NULL && endpoint->address_count < SB_REDIS_ENDPOINT_ADDRESSES_MAX;
         list = list->ai_next)
        memcpy(&endpoint->addresses[endpoint->address_count++], list->ai_addr, list->ai_addrlen);
}

int sb_redis_endpoint_resolve(const struct sb_redis_place *place,
                              struct sb_redis_endpoint *ret_endpoint, struct simba_error *error)
{
    struct addrinfo *list = NULL;
    int code;

    if (place->port != 0) {
        code = look_up(place, 0, &list);
        if (code != 0)
            return sb_error_set_backend(error, SIMBA_EUNAVAILABLE, code,
                                        "the host %s cannot be found: %s", place->host,
                                        gai_strerror(code));
    }
    memset(ret_endpoint, 0, sizeof *ret_endpoint);
    ret_endpoint->place = *place;
    if (place->port == 0)
        take_socket(ret_endpoint);
    else
        take_list(ret_endpoint, list);
    if (list != NULL)
        freeaddrinfo(list);
    return SIMBA_OK;
}
