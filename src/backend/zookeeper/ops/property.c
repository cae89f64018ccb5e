/*
 * property.c - GET_PROPERTY and SET_PROPERTY. A property is the data of a plain node; the folder of
 * a mutex's properties stands beside that of the latches, where no participant looks.
 *
 *    GET  [watch the node] -> [check rights] -> write the folder: its time is now -> read the node
 *    SET  [read the owner] -> [check rights] -> write the node
 *          a folder or node that is missing is made
 *
 * The node is watched, also where it is missing, if the client has observers of the mutex.
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

/* What has rights: the witness, the folder of all properties, that of the mutex, the property. */
enum { OWN, BASE, FOLDER, NODE, COUNT };

struct property {
    struct sb_zk_call call; /* first */
    struct sb_zk_call rights[COUNT];
    unsigned under_way; /* of the rights */
    bool checked;
    struct sb_zk_listing listing;
    simba_backend *store;
    bool writes;
    char mutex[SIMBA_MUTEX_MAX + 1];
    char id[SIMBA_ID_MAX + 1]; /* the write needs that this one owns; empty: it does not */
    char value[SIMBA_PROPERTY_VALUE_MAX + 1];
    char folder[SB_ZK_PATH_SIZE];
    char node[SB_ZK_PATH_SIZE];
    char witness[SB_ZK_PATH_SIZE]; /* empty: there is none */
    int64_t witness_czxid;
    size_t made; /* bytes of the folder's path that are there */
    unsigned rounds;
    struct simba_request reading; /* of the owner */
    struct simba_property found;
    struct simba_error error;
};

/* The call of the job, to be made by the caller. */
static struct sb_zk_call *next_call(struct property *p, void (*done)(struct sb_zk_call *call))
{
    memset(&p->call, 0, sizeof p->call);
    p->call.done = done;
    p->call.session = &p->store->session;
    p->call.value = p->found.value;
    return &p->call;
}

static void answer(struct property *p)
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

static void on_witness_deleted(struct sb_zk_call *call)
{
    answer((struct property *)call); /* if it is still there it ends with the session */
}

static void finish(struct property *p)
{
    if (p->witness[0] != '\0' && p->store->session.up)
        sb_zk_delete(next_call(p, on_witness_deleted), p->witness);
    else
        answer(p);
}

static void fail(struct property *p, int zk_code)
{
    sb_zk_fail(&p->error, zk_code);
    if (p->writes && sb_zk_is_lost(zk_code))
        p->error.code = SIMBA_EUNKNOWN;
    finish(p);
}

/* ---- The folder ------------------------------------------------------------------------------ */

static void begin(struct property *p);
static void create_node(struct property *p);

static bool needs_check(const struct property *p)
{
    return p->store->options.acl != SB_ZK_ACL_OPEN && !p->checked;
}

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
    } else if (needs_check(p)) {
        begin(p);
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

static void work(struct property *p)
{
    if (p->writes)
        sb_zk_set_value(next_call(p, on_written), p->node, p->value);
    else
        sb_zk_set_value(next_call(p, on_clock), p->folder, "");
}

/* ---- Rights ----------------------------------------------------------------------------------
 *
 * With acl=creator nobody but the client's user may change what is remembered. Anybody may have
 * made the folders before. A witness, an ephemeral node in the folder of the mutex, shows by its
 * ACL who the client is, as a latch does for a contender (acquire.c). The ACLs are read in this
 * order:
 *
 *     base      is good: from here on no stranger can delete the folder or change this ACL
 *     folder    is good: the same for what is in it
 *     property  is good, or missing: nobody else writes it
 *     witness   is the one that this session created: it was there all the time
 *
 * Until it is deleted, after the work, both folders have children and cannot be exchanged. */

static void refuse_rights(struct property *p, const char *base)
{
    const char *const paths[COUNT] = {[BASE] = base, [FOLDER] = p->folder, [NODE] = p->node};
    const char *stranger = NULL;
    int at = BASE;

    while (at < COUNT &&
           (stranger = sb_zk_rights_stranger(&p->rights[OWN], &p->rights[at])) == NULL)
        at++;
    if (stranger != NULL)
        sb_zk_rights_refuse(&p->error, p->store, paths[at],
                            at == NODE ? SB_ZK_WRITERS : SB_ZK_MASTERS, &p->rights[OWN], stranger);
    else if (p->rights[OWN].stat.czxid != p->witness_czxid)
        sb_error_set(&p->error, SIMBA_EDENIED,
                     "another user has replaced a node in %s: delete that node in ZooKeeper",
                     p->folder);
}

static void base_of(const struct property *p, char ret_path[SB_ZK_PATH_SIZE])
{
    sb_text_copy(ret_path, SB_ZK_PATH_SIZE, p->folder);
    *strrchr(ret_path, '/') = '\0';
}

static void on_rights(struct sb_zk_call *call)
{
    struct property *p = call->user;
    char base[SB_ZK_PATH_SIZE];
    int code = ZOK;

    if (--p->under_way > 0)
        return;
    for (size_t i = 0; i < COUNT && code == ZOK; i++)
        if (i != NODE || p->rights[i].code != ZNONODE)
            code = p->rights[i].code;
    base_of(p, base);
    if (code == ZOK)
        refuse_rights(p, base);
    for (size_t i = 0; i < COUNT; i++)
        sb_zk_free_names(p->rights[i].names, p->rights[i].count);
    p->checked = code == ZOK && p->error.code == SIMBA_OK;
    if (code != ZOK)
        fail(p, code);
    else if (!p->checked)
        finish(p);
    else
        work(p);
}

static struct sb_zk_call *rights_call(struct property *p, size_t index)
{
    struct sb_zk_call *call = &p->rights[index];

    memset(call, 0, sizeof *call);
    call->done = on_rights;
    call->user = p;
    call->session = &p->store->session;
    return call;
}

static void on_witness(struct sb_zk_call *call)
{
    struct property *p = (struct property *)call;
    char base[SB_ZK_PATH_SIZE];

    if (call->code == ZNONODE && p->writes) {
        make_folder(p);
    } else if (call->code == ZNONODE) {
        finish(p); /* nobody has written anything */
    } else if (call->code == ZNOAUTH) {
        sb_error_set_backend(&p->error, SIMBA_EDENIED, ZNOAUTH,
                             "the ACL of the node %s does not let the user of the URL create nodes "
                             "in it; give this user all rights (cdrwa), or delete the node",
                             p->folder);
        finish(p);
    } else if (call->code != ZOK) {
        fail(p, call->code); /* a witness that was made all the same ends with the session */
    } else if (!sb_zk_property_path(p->witness, p->store->options.base, p->mutex, call->text)) {
        fail(p, ZBADARGUMENTS);
    } else {
        p->witness_czxid = call->stat.czxid;
        p->under_way = COUNT;
        base_of(p, base);
        sb_zk_name_masters(rights_call(p, BASE), base);
        sb_zk_name_masters(rights_call(p, FOLDER), p->folder);
        sb_zk_name_writers(rights_call(p, NODE), p->node);
        sb_zk_name_masters(rights_call(p, OWN), p->witness);
    }
}

/* No property has a capital in its name. */
static void create_witness(struct property *p)
{
    char path[SB_ZK_PATH_SIZE];

    if (sb_zk_property_path(path, p->store->options.base, p->mutex, "WITNESS-"))
        sb_zk_create_latch(next_call(p, on_witness), path, "");
    else
        fail(p, ZBADARGUMENTS);
}

static void begin(struct property *p)
{
    if (needs_check(p))
        create_witness(p);
    else
        work(p);
}

/* ---- The watch ------------------------------------------------------------------------------- */

static void on_watched(struct sb_zk_call *call)
{
    begin((struct property *)call); /* a hint: what has failed is told by the next call */
}

/* True: it is on its way, and the reading follows. */
static bool watch(struct property *p, const char *name)
{
    struct sb_zk_mutex *mutex = sb_zk_mutex_find(&p->store->mutexes, p->mutex);

    if (p->writes || mutex == NULL || mutex->observers == 0)
        return false;
    sb_text_copy(mutex->property, sizeof mutex->property, name);
    sb_zk_exists(next_call(p, on_watched), p->node, true);
    return true;
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
    } else if (!watch(p, request->property)) {
        begin(p);
    }
}
