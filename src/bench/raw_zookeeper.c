/*
 * raw_zookeeper.c - ZooKeeper as its C client library alone uses it.
 */
#define THREADED
#include <zookeeper/zookeeper.h>

#include "bench/machine.h"
#include "bench/raw_store.h"

#include "base/error.h"

#include <netdb.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define PORT 2181
#define SESSION_MS 30000
#define PATIENCE_S 10
#define RESOLUTION_DELAY_MS 10000
#define HOST_MAX 256
#define PATH_MAX_BYTES 512

struct zookeeper {
    zhandle_t *handle;
    sem_t deleted; /* what the watch has told */
    char host[HOST_MAX];
    int port;
    char base[PATH_MAX_BYTES];   /* the chroot and /simba */
    char folder[PATH_MAX_BYTES]; /* of the mutex by hand */
    char prefix[64];
    char node[PATH_MAX_BYTES]; /* its own */
};

static int check(int answer, struct simba_error *error)
{
    return answer == ZOK
               ? SIMBA_OK
               : sb_error_set(error, SIMBA_ESTORE, "ZooKeeper by hand: %s", zerror(answer));
}

static void on_session(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    (void)handle;
    (void)type;
    (void)state;
    (void)path;
    (void)context;
}

static void on_deleted(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    struct zookeeper *raw = context;

    (void)handle;
    (void)state;
    (void)path;
    if (type == ZOO_DELETED_EVENT)
        sem_post(&raw->deleted);
}

/* ---- Connections ----------------------------------------------------------------------------- */

/* Otherwise the client library looks up the server's name with every packet, which nobody has
 * to. */
static void resolve_seldom(zhandle_t *handle)
{
#ifdef SIMBA_HAVE_ZOOKEEPER_RESOLUTION_DELAY
    zoo_set_servers_resolution_delay(handle, RESOLUTION_DELAY_MS);
#else
    (void)handle;
#endif
}

static int connect_to(struct zookeeper *raw, struct simba_error *error)
{
    char address[HOST_MAX + 16];

    snprintf(address, sizeof address, "%s:%d", raw->host, raw->port);
    raw->handle = zookeeper_init(address, on_session, SESSION_MS, NULL, raw, ZOO_NO_LOG_CLIENTENV);
    for (int i = 0; raw->handle != NULL && i < PATIENCE_S * 1000; i++) {
        if (zoo_state(raw->handle) == ZOO_CONNECTED_STATE) {
            resolve_seldom(raw->handle);
            return SIMBA_OK;
        }
        bench_sleep_ms(1);
    }
    return sb_error_set(error, SIMBA_EUNAVAILABLE, "ZooKeeper by hand: %s does not answer",
                        address);
}

static void close_raw(void *memory)
{
    struct zookeeper *raw = memory;

    if (raw->handle != NULL)
        zookeeper_close(raw->handle);
    sem_destroy(&raw->deleted);
    free(raw);
}

static void read_url(struct zookeeper *raw, simba_url *url, const char *prefix)
{
    int port = simba_url_port(url, 0);
    const char *chroot = simba_url_path(url);

    snprintf(raw->host, sizeof raw->host, "%s", simba_url_host(url, 0));
    raw->port = port != 0 ? port : PORT;
    snprintf(raw->prefix, sizeof raw->prefix, "%s", prefix);
    snprintf(raw->base, sizeof raw->base, "%s/simba", strcmp(chroot, "/") != 0 ? chroot : "");
    snprintf(raw->folder, sizeof raw->folder, "%.400s/%sraw", raw->base, prefix);
}

/* The store itself has been opened by then, so that only the last of them is missing. */
static int create_folder(struct zookeeper *raw, struct simba_error *error)
{
    int answer =
        zoo_create(raw->handle, raw->base, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, NULL, 0);

    if (answer == ZOK || answer == ZNODEEXISTS)
        answer = zoo_create(raw->handle, raw->folder, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT,
                            NULL, 0);
    return check(answer == ZNODEEXISTS ? ZOK : answer, error);
}

static int open_raw(simba_url *url, const char *prefix, void **ret_raw, struct simba_error *error)
{
    if (simba_url_host_count(url) != 1 || simba_url_user(url) != NULL)
        return sb_error_set(error, SIMBA_EUNSUPPORTED,
                            "by hand only one server without credentials");
    struct zookeeper *raw = calloc(1, sizeof *raw);
    if (raw == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    zoo_set_debug_level((ZooLogLevel)0);
    sem_init(&raw->deleted, 0, 0);
    read_url(raw, url, prefix);
    int code = connect_to(raw, error);
    if (code == SIMBA_OK)
        code = create_folder(raw, error);
    if (code != SIMBA_OK)
        close_raw(raw);
    else
        *ret_raw = raw;
    return code;
}

/* ---- What is measured ------------------------------------------------------------------------ */

static int join(void *memory, struct simba_error *error)
{
    struct zookeeper *raw = memory;
    char name[PATH_MAX_BYTES];

    snprintf(name, sizeof name, "%.400s/latch-", raw->folder);
    return check(zoo_create(raw->handle, name, "id", 2, &ZOO_OPEN_ACL_UNSAFE,
                            ZOO_EPHEMERAL_SEQUENTIAL, raw->node, sizeof raw->node),
                 error);
}

static int leave(void *memory, struct simba_error *error)
{
    struct zookeeper *raw = memory;

    return check(zoo_delete(raw->handle, raw->node, -1), error);
}

static int cycle(void *memory, struct simba_error *error)
{
    int code = join(memory, error);

    return code == SIMBA_OK ? leave(memory, error) : code;
}

/* The owner's, which came first. */
static int watch_lowest(struct zookeeper *raw, const struct String_vector *children,
                        struct simba_error *error)
{
    char path[PATH_MAX_BYTES];
    char data[64];
    int length = sizeof data;

    for (int i = 0; i < children->count; i++)
        if (children->data[i] == NULL)
            return check(ZMARSHALLINGERROR, error);
    if (children->count <= 0)
        return check(ZNONODE, error);
    const char *lowest = children->data[0];
    for (int i = 1; i < children->count; i++)
        if (strcmp(children->data[i], lowest) < 0)
            lowest = children->data[i];
    snprintf(path, sizeof path, "%.400s/%.100s", raw->folder, lowest);
    return check(zoo_wget(raw->handle, path, on_deleted, raw, data, &length, NULL), error);
}

static int join_and_watch(void *memory, struct simba_error *error)
{
    struct zookeeper *raw = memory;
    struct String_vector children = {0, NULL};
    int code = join(raw, error);

    if (code == SIMBA_OK)
        code = check(zoo_get_children(raw->handle, raw->folder, 0, &children), error);
    if (code == SIMBA_OK)
        code = watch_lowest(raw, &children, error);
    deallocate_String_vector(&children);
    return code;
}

/* Numbers only grow and the one before it is gone, so that it is the first. */
static int await_deletion(void *memory, struct simba_error *error)
{
    struct zookeeper *raw = memory;
    struct timespec end;

    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += PATIENCE_S;
    if (sem_timedwait(&raw->deleted, &end) == 0)
        return SIMBA_OK;
    return sb_error_set(error, SIMBA_ETIMEDOUT, "ZooKeeper by hand: the watch did not fire");
}

/* ---- The server's own words ------------------------------------------------------------------ */

static int connect_socket(struct zookeeper *raw)
{
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char port[16];

    snprintf(port, sizeof port, "%d", raw->port);
    if (getaddrinfo(raw->host, port, &hints, &found) != 0)
        return -1;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    }
    if (fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) != 0) {
        close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    return fd;
}

static void read_all(int fd, char *text, size_t size)
{
    int64_t end_ms = simba_now_ms() + PATIENCE_S * 1000;
    size_t used = 0;
    ssize_t length = 1;

    while (used + 1 < size && length > 0 && simba_now_ms() < end_ms) {
        length = read(fd, text + used, size - 1 - used);
        used += length > 0 ? (size_t)length : 0;
    }
    text[used] = 0;
}

/* The word "srvr" is one that servers answer as they come. */
static int counter(void *handle, double *ret_value, struct simba_error *error)
{
    static const char field[] = "Received: ";
    char text[4096] = "";
    int fd = connect_socket(handle);

    if (fd >= 0 && write(fd, "srvr", 4) == 4)
        read_all(fd, text, sizeof text);
    if (fd >= 0)
        close(fd);
    const char *found = strstr(text, field);
    if (found == NULL)
        return sb_error_set(error, SIMBA_EUNSUPPORTED, "ZooKeeper by hand: no answer to 'srvr'");
    *ret_value = strtod(found + strlen(field), NULL);
    return SIMBA_OK;
}

/* ---- The end --------------------------------------------------------------------------------- */

static void delete_children(struct zookeeper *raw, const char *folder)
{
    struct String_vector children = {0, NULL};
    char path[PATH_MAX_BYTES];

    if (zoo_get_children(raw->handle, folder, 0, &children) != ZOK)
        return;
    for (int i = 0; i < children.count; i++) {
        if (children.data[i] == NULL)
            continue;
        snprintf(path, sizeof path, "%.400s/%.100s", folder, children.data[i]);
        zoo_delete(raw->handle, path, -1);
    }
    deallocate_String_vector(&children);
}

/* Most are empty, and those that are gone already are as good. */
static int delete_folder(struct zookeeper *raw, const char *name, struct simba_error *error)
{
    char path[PATH_MAX_BYTES];

    snprintf(path, sizeof path, "%.400s/%.100s", raw->base, name);
    int answer = zoo_delete(raw->handle, path, -1);
    if (answer == ZNOTEMPTY) {
        delete_children(raw, path);
        answer = zoo_delete(raw->handle, path, -1);
    }
    return check(answer == ZNONODE ? ZOK : answer, error);
}

static int forget(void *handle, struct simba_error *error)
{
    struct zookeeper *raw = handle;
    struct String_vector names = {0, NULL};
    int code = check(zoo_get_children(raw->handle, raw->base, 0, &names), error);

    for (int i = 0; i < names.count && code == SIMBA_OK; i++)
        if (names.data[i] != NULL && strncmp(names.data[i], raw->prefix, strlen(raw->prefix)) == 0)
            code = delete_folder(raw, names.data[i], error);
    deallocate_String_vector(&names);
    return code;
}

static const struct bench_way ways[] = {
    {.key = "raw",
     .cycle_label = "create + delete of a node",
     .handover_label = "delete of the node before it + watch",
     .cycle = cycle,
     .owner = {.own = join, .release = leave},
     .waiter = {.join = join_and_watch, .take = await_deletion, .leave = leave}},
    {.key = NULL},
};

const struct bench_raw_ops bench_raw_zookeeper = {
    .open = open_raw,
    .close = close_raw,
    .ways = ways,
    .rest_ms = 20,
    .counter_name = "packets",
    .counter = counter,
    .forget = forget,
};
