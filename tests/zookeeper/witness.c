/*
 * witness.c - a client that is not ours.
 */
#include "witness.h"

#define SESSION_MS 10000
#define UUID "00000000-0000-4000-8000-000000000000"

static void path_of(char path[1024], const char *mutex, const char *node)
{
    snprintf(path, 1024, "/simba/%s%s%s", mutex, node != NULL ? "/" : "", node != NULL ? node : "");
}

static void on_event(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    (void)handle;
    (void)type;
    (void)path;
    (void)context;
}

static bool is_connected(void *user)
{
    return zoo_state(user) == ZOO_CONNECTED_STATE;
}

void witness_open(struct witness *w, const struct server *server, const clientid_t *id)
{
    char host[64];

    snprintf(host, sizeof host, "127.0.0.1:%d", server->port);
    zoo_set_debug_level((ZooLogLevel)0);
    w->handle = zookeeper_init(host, on_event, SESSION_MS, id, NULL, 0);
    assert_non_null(w->handle);
    if (!test_wait(is_connected, w->handle))
        fail_msg("no session on port %d", server->port);
}

void witness_close(struct witness *w)
{
    zookeeper_close(w->handle);
    w->handle = NULL;
}

/* The witness itself has to be able to give them back, so that one right stays. */
void witness_lock(struct witness *w, const char *mutex, bool locked)
{
    struct ACL entry = {locked ? ZOO_PERM_ADMIN : ZOO_PERM_ALL, ZOO_ANYONE_ID_UNSAFE};
    struct ACL_vector acl = {1, &entry};
    char path[1024];

    path_of(path, mutex, NULL);
    assert_int_equal(zoo_set_acl(w->handle, path, -1, &acl), ZOK);
}

static bool is_settled(void *user)
{
    return is_connected(user) || zoo_state(user) == ZOO_EXPIRED_SESSION_STATE;
}

/* A client that connects with a session takes it over, and the other takes it back; so it is closed
 * again and again until the server does not know it any more. */
void witness_expire(const struct server *server, const clientid_t *id)
{
    char host[64];
    bool expired = false;

    snprintf(host, sizeof host, "127.0.0.1:%d", server->port);
    for (int i = 0; !expired; i++) {
        zhandle_t *handle = zookeeper_init(host, on_event, SESSION_MS, id, NULL, 0);

        assert_in_range(i, 0, 1000);
        assert_non_null(handle);
        assert_true(test_wait(is_settled, handle));
        expired = zoo_state(handle) == ZOO_EXPIRED_SESSION_STATE;
        zookeeper_close(handle);
    }
}

static const char *sequence(const char *name)
{
    const char *latch = strstr(name, "latch-");

    return latch != NULL ? latch + 6 : name;
}

static int compare(const void *a, const void *b)
{
    return strcmp(sequence(a), sequence(b));
}

struct witness_nodes witness_list(struct witness *w, const char *mutex)
{
    struct witness_nodes nodes = {0};
    struct String_vector strings = {0, NULL};
    char path[1024];
    int code;

    path_of(path, mutex, NULL);
    code = zoo_get_children(w->handle, path, 0, &strings);
    if (code == ZNONODE)
        return nodes;
    assert_int_equal(code, ZOK);
    for (int i = 0; i < strings.count && i < WITNESS_NODES_MAX; i++)
        snprintf(nodes.names[nodes.count++], sizeof nodes.names[0], "%s", strings.data[i]);
    deallocate_String_vector(&strings);
    qsort(nodes.names, (size_t)nodes.count, sizeof nodes.names[0], compare);
    return nodes;
}

int witness_count(struct witness *w, const char *mutex)
{
    return witness_list(w, mutex).count;
}

const char *witness_read(struct witness *w, const char *mutex, const char *node)
{
    static char text[1024];
    char path[1024];
    int length = sizeof text - 1;

    path_of(path, mutex, node);
    assert_int_equal(zoo_get(w->handle, path, 0, text, &length, NULL), ZOK);
    text[length > 0 ? length : 0] = '\0';
    return text;
}

struct Stat witness_stat(struct witness *w, const char *mutex, const char *node)
{
    struct Stat stat;
    char path[1024];

    path_of(path, mutex, node);
    assert_int_equal(zoo_exists(w->handle, path, 0, &stat), ZOK);
    return stat;
}

static void make_parent(struct witness *w, const char *path)
{
    int code = zoo_create(w->handle, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, NULL, 0);

    assert_true(code == ZOK || code == ZNODEEXISTS);
}

const char *witness_join(struct witness *w, const char *mutex, const char *id)
{
    static char name[1024];
    char path[1024];

    make_parent(w, "/simba");
    path_of(path, mutex, NULL);
    make_parent(w, path);
    path_of(path, mutex, "_c_" UUID "-latch-");
    assert_int_equal(zoo_create(w->handle, path, id, (int)strlen(id), &ZOO_OPEN_ACL_UNSAFE,
                                ZOO_EPHEMERAL_SEQUENTIAL, name, sizeof name),
                     ZOK);
    return strrchr(name, '/') + 1;
}

void witness_delete(struct witness *w, const char *mutex, const char *node)
{
    char path[1024];

    path_of(path, mutex, node);
    assert_int_equal(zoo_delete(w->handle, path, -1), ZOK);
}

bool witness_try_delete(struct witness *w, const char *mutex, const char *node)
{
    char path[1024];
    int code;

    path_of(path, mutex, node);
    code = zoo_delete(w->handle, path, -1);
    return code == ZOK || code == ZNONODE;
}
