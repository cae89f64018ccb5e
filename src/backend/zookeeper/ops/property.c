/*
 * property.c - GET_PROPERTY and SET_PROPERTY. A property is the data of a plain node; the folder of
 * a mutex's properties stands beside that of the latches, where no participant looks.
 *
 *     GET   write the folder: its time is now --> read the node
 *     SET   [read the owner] --> write the node; a folder or node that is missing is made
 *
 * Only a write tells the servers' clock. It also makes the read that follows see all that was
 * written before. A client that may only read is told no time.
 */
#include "backend/zookeeper/handle/call.h"
#include "backend/zookeeper/ops/ops.h"
#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/text.h"
#include "base/time.h"

#include <string.h>

#define ROUNDS_MAX 3 /* because another client creates or deletes nodes at the same time */

struct property {
    struct sb_zk_call call; /* first */
    struct sb_zk_listing listing;
    simba_backend *store;
    bool writes;
    char mutex[SIMBA_MUTEX_MAX + 1];
    char id[SIMBA_ID_MAX + 1]; /* the write needs that this one owns; empty: it does not */
    char value[SIMBA_PROPERTY_VALUE_MAX + 1];
    char folder[SB_ZK_PATH_SIZE];
    char node[SB_ZK_PATH_SIZE];
    size_t made; /* bytes of the folder's path that are there */
    unsigned rounds;
    struct simba_request reading; /* of the owner */
    struct simba_property found;
    struct simba_error error;
};

static void finish(struct property *p)
{
    struct simba_reply reply = SIMBA_REPLY_INIT;

    reply.code = p->error.code;
    if (reply.code == SIMBA_OK)
        reply.property = &p->found;
    else
        reply.error = &p->error;
    sb_zk_listing_reply(&p->listing, &reply);
    sb_free(p);
}

static void fail(struct property *p, int zk_code)
{
    sb_zk_fail(&p->error, zk_code);
    if (p->writes && sb_zk_is_lost(zk_code))
        p->error.code = SIMBA_EUNKNOWN;
    finish(p);
}

/* The call of the job, to be made by the caller. */
static struct sb_zk_call *next_call(struct property *p, void (*done)(struct sb_zk_call *call))
{
    memset(&p->call, 0, sizeof p->call);
    p->call.done = done;
    p->call.session = &p->store->session;
    p->call.value = p->found.value;
    return &p->call;
}

/* ---- The folder ------------------------------------------------------------------------------ */

static void begin(struct property *p);
static void create_node(struct property *p);

static void make_next(struct property *p);

/* A folder above may be one that this client must not create nodes beside; the last one tells. */
static void on_made(struct sb_zk_call *call)
{
    struct property *p = (struct property *)call;
    bool last = p->folder[p->made] == '\0';

    if (call->code != ZOK && call->code != ZNODEEXISTS && (last || call->code != ZNOAUTH)) {
        fail(p, call->code);
    } else if (!last) {
        make_next(p);
    } else {
        create_node(p);
    }
}

static void make_next(struct property *p)
{
    char path[SB_ZK_PATH_SIZE];

    p->made += 1 + strcspn(p->folder + p->made + 1, "/");
    memcpy(path, p->folder, p->made);
    path[p->made] = '\0';
    sb_zk_create_parent(next_call(p, on_made), path, false);
}

static void make_folder(struct property *p)
{
    p->made = 0;
    if (++p->rounds > ROUNDS_MAX)
        fail(p, ZNONODE);
    else
        make_next(p);
}

/* ---- Writing --------------------------------------------------------------------------------- */

static void on_node_created(struct sb_zk_call *call)
{
    struct property *p = (struct property *)call;

    if (call->code == ZNODEEXISTS && p->rounds <= ROUNDS_MAX)
        begin(p);
    else if (call->code != ZOK)
        fail(p, call->code);
    else
        finish(p);
}

static void create_node(struct property *p)
{
    sb_zk_create_value(next_call(p, on_node_created), p->node, p->value);
}

static void on_written(struct sb_zk_call *call)
{
    struct property *p = (struct property *)call;

    if (call->code == ZNONODE)
        make_folder(p);
    else if (call->code != ZOK)
        fail(p, call->code);
    else
        finish(p);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static void on_read(struct sb_zk_call *call)
{
    struct property *p = (struct property *)call;

    if (call->code == ZOK)
        p->found.written_ms = call->stat.mtime;
    if (call->code == ZOK || call->code == ZNONODE)
        finish(p);
    else
        fail(p, call->code);
}

static void on_clock(struct sb_zk_call *call)
{
    struct property *p = (struct property *)call;

    if (call->code == ZNONODE) {
        finish(p); /* nobody has written anything */
    } else if (call->code != ZOK && call->code != ZNOAUTH) {
        fail(p, call->code);
    } else {
        p->found.store_ms = call->code == ZOK ? call->stat.mtime : 0;
        sb_zk_get_value(next_call(p, on_read), p->node);
    }
}

static void begin(struct property *p)
{
    if (p->writes)
        sb_zk_set_value(next_call(p, on_written), p->node, p->value);
    else
        sb_zk_set_value(next_call(p, on_clock), p->folder, "");
}

/* ---- The owner ------------------------------------------------------------------------------- */

static void on_owner(struct sb_zk_job *job, const struct simba_reply *reply)
{
    struct property *p = job->user;
    bool owns = reply->owner != NULL && strcmp(reply->owner, p->id) == 0;

    if (reply->code == SIMBA_OK && owns) {
        begin(p);
        return;
    }
    if (reply->code == SIMBA_OK)
        sb_error_set(&p->error, SIMBA_ELOST, "%s does not own the mutex \"%s\"", p->id, p->mutex);
    else if (reply->error != NULL)
        p->error = *reply->error;
    else
        sb_error_plain(&p->error, reply->code);
    finish(p);
}

static void read_owner(struct property *p)
{
    p->reading = (struct simba_request){
        .op = SIMBA_OP_READ,
        .mutex = p->mutex,
        .timeout_ms = sb_time_left(p->listing.deadline_ms, simba_now_ms()),
    };
    sb_zk_request_start(p->store, &p->reading, on_owner, p);
}

void sb_zk_property_start(simba_backend *store, struct simba_request *request)
{
    struct property *p = sb_alloc_zero(sizeof *p);
    const char *base = store->options.base;

    if (p == NULL) {
        sb_zk_listing_refuse(store, request);
        return;
    }
    p->store = store;
    p->writes = request->op == SIMBA_OP_SET_PROPERTY;
    SB_CHECK(request->property != NULL && (!p->writes || request->value != NULL),
             "a property has a name, and a write has a value");
    sb_text_copy(p->mutex, sizeof p->mutex, request->mutex);
    sb_text_copy(p->id, sizeof p->id, request->id != NULL ? request->id : "");
    sb_text_copy(p->value, sizeof p->value, p->writes ? request->value : "");
    sb_zk_listing_begin(&p->listing, store, request);
    if (sb_zk_check_mutex(p->mutex, &p->error) != SIMBA_OK) {
        finish(p);
    } else if (!sb_zk_properties_path(p->folder, base, p->mutex) ||
               !sb_zk_property_path(p->node, base, p->mutex, request->property)) {
        fail(p, ZBADARGUMENTS);
    } else if (p->id[0] != '\0') {
        read_owner(p);
    } else {
        begin(p);
    }
}
