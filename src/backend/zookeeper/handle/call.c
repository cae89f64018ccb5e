/*
 * call.c - from the client library's completions to the loop, and what its errors mean. Completions
 * run on a thread of the library: they copy what they are given and post it.
 */
#include "backend/zookeeper/handle/call.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/text.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

bool sb_zk_is_lost(int code)
{
    return code == ZCONNECTIONLOSS || code == ZOPERATIONTIMEOUT || code == ZCLOSING;
}

/* ---- The way back ---------------------------------------------------------------------------- */

static void run_done(struct simba_task *task)
{
    struct sb_zk_call *call = (struct sb_zk_call *)task;

    SB_CHECK(call->done != NULL, "a call ends by its function");
    if (call->link != NULL) {
        SB_CHECK(*call->link == call, "a call is in the list of its handle");
        *call->link = call->next;
        if (call->next != NULL)
            call->next->link = call->link;
    }
    call->link = NULL;
    if (call->number != call->session->number)
        call->code = ZSESSIONEXPIRED;
    else if (call->handle != call->session->handle)
        call->code = ZCONNECTIONLOSS;
    else if (call->code == ZOK && call->is_sync)
        sb_zk_liveness_answer(&call->session->liveness, call->sent_ms, simba_now_ms());
    call->done(call);
}

/* Completions that were called have been posted before the handle's end was, so that none comes
 * later. */
void sb_zk_calls_end(struct sb_zk_handle *handle)
{
    while (handle->calls != NULL) {
        handle->calls->code = ZCLOSING;
        run_done(&handle->calls->task);
    }
}

static void end(struct sb_zk_call *call, int code)
{
    const struct simba_backend_host *host = call->session->host;

    call->code = code;
    call->task.run = run_done;
    host->post(host, &call->task);
}

static struct sb_zk_call *call_of(const void *data)
{
    return (struct sb_zk_call *)(uintptr_t)data;
}

static void on_created(int code, const char *path, const struct Stat *stat, const void *data)
{
    struct sb_zk_call *call = call_of(data);
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;

    if (code == ZOK && stat != NULL)
        call->stat = *stat;
    sb_text_copy(call->text, sizeof call->text, slash != NULL ? slash + 1 : "");
    end(call, code);
}

static void on_void(int code, const void *data)
{
    end(call_of(data), code);
}

static void on_stat(int code, const struct Stat *stat, const void *data)
{
    struct sb_zk_call *call = call_of(data);

    if (code == ZOK && stat != NULL)
        call->stat = *stat;
    end(call, code);
}

/* `text` holds the node's name until now, which stands for a participant that tells no id. */
static void on_data(int code, const char *value, int length, const struct Stat *stat,
                    const void *data)
{
    struct sb_zk_call *call = call_of(data);
    char node[SB_ZK_NODE_MAX + 1];

    if (code == ZOK && stat != NULL) {
        call->stat = *stat;
        sb_text_copy(node, sizeof node, call->text);
        sb_zk_read_id(value, value != NULL && length > 0 ? (size_t)length : 0, node, call->text);
    }
    end(call, code);
}

static void on_value(int code, const char *value, int length, const struct Stat *stat,
                     const void *data)
{
    struct sb_zk_call *call = call_of(data);

    if (code == ZOK && stat != NULL) {
        call->stat = *stat;
        if (value != NULL && length > 0)
            sb_text_printable(call->value, SIMBA_PROPERTY_VALUE_MAX + 1, value, (size_t)length);
    }
    end(call, code);
}

/* The library passes on what a server says: names may be missing, and their number may be
 * negative. */
static int check_names(int code, const struct String_vector *strings)
{
    if (code != ZOK || strings == NULL)
        return code;
    if (strings->count < 0)
        return ZSYSTEMERROR;
    for (int32_t i = 0; i < strings->count; i++)
        if (strings->data[i] == NULL)
            return ZSYSTEMERROR;
    return ZOK;
}

static void on_children(int code, const struct String_vector *strings, const void *data)
{
    struct sb_zk_call *call = call_of(data);
    size_t count;

    code = check_names(code, strings);
    count = code == ZOK && strings != NULL ? (size_t)strings->count : 0;
    sb_zk_rank(count > 0 ? (const char *const *)strings->data : NULL, count,
               call->uuid[0] != '\0' ? call->uuid : NULL, call->ranks);
    end(call, code);
}

void sb_zk_free_names(char **names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sb_free(names[i]);
    sb_free(names);
}

static int copy_names(struct sb_zk_call *call, const struct String_vector *strings)
{
    size_t count = (size_t)strings->count;

    call->names = sb_alloc_zero((count + 1) * sizeof *call->names);
    if (call->names == NULL)
        return ZSYSTEMERROR;
    for (call->count = 0; call->count < count; call->count++) {
        call->names[call->count] = sb_strdup(strings->data[call->count]);
        if (call->names[call->count] == NULL) {
            sb_zk_free_names(call->names, call->count);
            call->names = NULL;
            call->count = 0;
            return ZSYSTEMERROR;
        }
    }
    return ZOK;
}

static void on_names(int code, const struct String_vector *strings, const void *data)
{
    struct sb_zk_call *call = call_of(data);

    call->names = NULL;
    call->count = 0;
    code = check_names(code, strings);
    if (code == ZOK && strings != NULL)
        code = copy_names(call, strings);
    end(call, code);
}

/* In a list that has room for all. */
static int add_master(struct sb_zk_call *call, const struct Id *id)
{
    size_t size;
    char *name;

    if (id->scheme == NULL || id->id == NULL)
        return ZSYSTEMERROR;
    size = strlen(id->scheme) + strlen(id->id) + 2;
    name = sb_alloc(size);
    if (name == NULL)
        return ZSYSTEMERROR;
    snprintf(name, size, "%s:%s", id->scheme, id->id);
    call->names[call->count++] = name;
    return ZOK;
}

static void on_masters(int code, struct ACL_vector *acl, struct Stat *stat, const void *data)
{
    struct sb_zk_call *call = call_of(data);
    int32_t count = code == ZOK && acl != NULL ? acl->count : 0;

    if (code == ZOK && (count <= 0 || stat == NULL))
        code = ZSYSTEMERROR; /* every node has an ACL */
    if (code == ZOK)
        call->stat = *stat;
    if (code == ZOK) {
        call->names = sb_alloc_zero((size_t)count * sizeof *call->names);
        code = call->names != NULL ? ZOK : ZSYSTEMERROR;
    }
    for (int32_t i = 0; code == ZOK && i < count; i++)
        if ((acl->data[i].perms & call->rights) != 0)
            code = add_master(call, &acl->data[i].id);
    end(call, code);
}

static void on_synced(int code, const char *path, const void *data)
{
    (void)path;
    end(call_of(data), code);
}

/* ---- The way there --------------------------------------------------------------------------- */

/* The handle, or NULL where there is none; then the call ends with an error. */
static zhandle_t *begin(struct sb_zk_call *call)
{
    struct sb_zk_session *session = call->session;

    SB_CHECK(call->link == NULL, "a call is made once at a time");
    SB_CHECK(!session->up || session->handle != NULL, "a session that is up has a handle");
    call->handle = session->handle;
    call->number = session->number;
    call->sent_ms = simba_now_ms();
    if (!session->up) {
        end(call, ZCONNECTIONLOSS);
        return NULL;
    }
    call->next = call->handle->calls;
    call->link = &call->handle->calls;
    if (call->next != NULL)
        call->next->link = &call->next;
    call->handle->calls = call;
    return call->handle->zk;
}

/* The library refused the call: no completion will come. */
static void check(struct sb_zk_call *call, int code)
{
    if (code != ZOK)
        end(call, code);
}

static const struct ACL_vector *acl_of(const struct sb_zk_call *call)
{
    switch (call->session->options->acl) {
    case SB_ZK_ACL_CREATOR:
        return &ZOO_CREATOR_ALL_ACL;
    case SB_ZK_ACL_CREATOR_READ:
        return &call->session->creator_read;
    default:
        return &ZOO_OPEN_ACL_UNSAFE;
    }
}

void sb_zk_create_latch(struct sb_zk_call *call, const char *path, const char *id)
{
    zhandle_t *zk = begin(call);

    if (zk != NULL)
        check(call, zoo_acreate2(zk, path, id, (int)strlen(id), acl_of(call),
                                 ZOO_EPHEMERAL_SEQUENTIAL, on_created, call));
}

void sb_zk_create_parent(struct sb_zk_call *call, const char *path, bool container)
{
    zhandle_t *zk = begin(call);

    if (zk != NULL)
        check(call, zoo_acreate2(zk, path, "", 0, acl_of(call),
                                 container ? ZOO_CONTAINER : ZOO_PERSISTENT, on_created, call));
}

void sb_zk_delete(struct sb_zk_call *call, const char *path)
{
    zhandle_t *zk = begin(call);

    if (zk != NULL)
        check(call, zoo_adelete(zk, path, -1, on_void, call));
}

void sb_zk_exists(struct sb_zk_call *call, const char *path, bool watch)
{
    zhandle_t *zk = begin(call);

    if (zk != NULL)
        check(call, zoo_awexists(zk, path, watch ? sb_zk_handle_on_node : NULL, call->handle,
                                 on_stat, call));
}

void sb_zk_get(struct sb_zk_call *call, const char *path, bool watch)
{
    zhandle_t *zk = begin(call);
    const char *slash = strrchr(path, '/');

    if (zk == NULL)
        return;
    sb_text_copy(call->text, sizeof call->text, slash != NULL ? slash + 1 : path);
    check(call,
          zoo_awget(zk, path, watch ? sb_zk_handle_on_node : NULL, call->handle, on_data, call));
}

void sb_zk_create_value(struct sb_zk_call *call, const char *path, const char *value)
{
    zhandle_t *zk = begin(call);

    if (zk != NULL)
        check(call, zoo_acreate2(zk, path, value, (int)strlen(value), acl_of(call), ZOO_PERSISTENT,
                                 on_created, call));
}

void sb_zk_set_value(struct sb_zk_call *call, const char *path, const char *value)
{
    zhandle_t *zk = begin(call);

    if (zk != NULL)
        check(call, zoo_aset(zk, path, value, (int)strlen(value), -1, on_stat, call));
}

void sb_zk_get_value(struct sb_zk_call *call, const char *path)
{
    zhandle_t *zk = begin(call);

    if (zk != NULL)
        check(call, zoo_awget(zk, path, NULL, NULL, on_value, call));
}

void sb_zk_rank_children(struct sb_zk_call *call, const char *path, bool watch)
{
    zhandle_t *zk = begin(call);

    if (zk != NULL)
        check(call, zoo_awget_children(zk, path, watch ? sb_zk_handle_on_node : NULL, call->handle,
                                       on_children, call));
}

void sb_zk_name_children(struct sb_zk_call *call, const char *path)
{
    zhandle_t *zk = begin(call);

    if (zk != NULL)
        check(call, zoo_awget_children(zk, path, NULL, NULL, on_names, call));
}

static void name_holders(struct sb_zk_call *call, const char *path, int32_t rights)
{
    zhandle_t *zk = begin(call);

    call->rights = rights;
    if (zk != NULL)
        check(call, zoo_aget_acl(zk, path, on_masters, call));
}

void sb_zk_name_masters(struct sb_zk_call *call, const char *path)
{
    name_holders(call, path, ZOO_PERM_CREATE | ZOO_PERM_DELETE | ZOO_PERM_ADMIN);
}

void sb_zk_name_writers(struct sb_zk_call *call, const char *path)
{
    name_holders(call, path, ZOO_PERM_CREATE | ZOO_PERM_DELETE | ZOO_PERM_ADMIN | ZOO_PERM_WRITE);
}

void sb_zk_sync(struct sb_zk_call *call)
{
    zhandle_t *zk = begin(call);

    call->is_sync = true;
    if (zk != NULL)
        check(call, zoo_async(zk, call->session->options->base, on_synced, call));
}

/* ---- Taking watches back --------------------------------------------------------------------- */

static void on_unwatched(int code, const void *data)
{
    (void)code; /* it has fired, or will find nobody */
    (void)data;
}

/* The header says that the completion is a pointer to a function pointer; the library calls what it
 * is given. Watches of a single watcher it forgets without telling the server, all watches of a
 * path it takes back. */
static void unwatch(struct sb_zk_session *session, const char *path, ZooWatcherType type)
{
    union {
        void_completion_t function;
        void_completion_t *as_declared;
    } completion = {.function = on_unwatched};

    if (session->up)
        zoo_aremove_all_watches(session->handle->zk, path, type, 0, completion.as_declared, NULL);
}

void sb_zk_unwatch_node(struct sb_zk_session *session, const char *path)
{
    unwatch(session, path, ZWATCHTYPE_DATA);
}

void sb_zk_unwatch_children(struct sb_zk_session *session, const char *path)
{
    unwatch(session, path, ZWATCHTYPE_CHILD);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

struct meaning {
    int zk_code;
    int code;
    const char *text;
};

static const struct meaning meanings[] = {
    {ZCONNECTIONLOSS, SIMBA_EUNAVAILABLE, "the connection to ZooKeeper broke"},
    {ZOPERATIONTIMEOUT, SIMBA_EUNAVAILABLE, "ZooKeeper did not answer in time"},
    {ZCLOSING, SIMBA_EUNAVAILABLE, "the connection to ZooKeeper is being closed"},
    {ZSESSIONEXPIRED, SIMBA_EUNAVAILABLE, "the session with ZooKeeper is over"},
    {ZSESSIONMOVED, SIMBA_EUNAVAILABLE, "the session has moved to another ZooKeeper server"},
    {ZINVALIDSTATE, SIMBA_EUNAVAILABLE, "there is no session with ZooKeeper"},
    {ZNOAUTH, SIMBA_EDENIED, "ZooKeeper does not permit this: the ACL of a node forbids it"},
    {ZAUTHFAILED, SIMBA_EDENIED, "ZooKeeper refused the credentials"},
    {ZINVALIDACL, SIMBA_EDENIED, "ZooKeeper refused the ACL: is the user authenticated?"},
    {ZBADARGUMENTS, SIMBA_EINVAL, "ZooKeeper allows no node of this name"},
    {ZNOCHILDRENFOREPHEMERALS, SIMBA_ESTORE, "a node on the way to the mutex is ephemeral"},
    {ZNONODE, SIMBA_EUNAVAILABLE, "nodes of the mutex vanish while they are used"},
    {ZSYSTEMERROR, SIMBA_ESTORE, "the ZooKeeper client library failed"},
    {ZMARSHALLINGERROR, SIMBA_ENOMEM, "the ZooKeeper client library has no memory"},
};

int sb_zk_fail(struct simba_error *error, int zk_code)
{
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++)
        if (meanings[i].zk_code == zk_code)
            return sb_error_set_backend(error, meanings[i].code, zk_code, "%s", meanings[i].text);
    return sb_error_set_backend(error, SIMBA_ESTORE, zk_code, "ZooKeeper said: %s",
                                zerror(zk_code));
}
