/*
 * call.h - asynchronous calls to the servers. Each ends exactly once, on the loop, by its `done`.
 *
 * A call of an older handle ends with ZCONNECTIONLOSS, one of an older session with
 * ZSESSIONEXPIRED, whatever the server said: nothing of an older session changes a newer one. So do
 * those that the client library has forgotten: when a handle is closed it does not call all
 * completions that it owes.
 */
#ifndef SB_ZK_CALL_H
#define SB_ZK_CALL_H

#include "backend/zookeeper/handle/session.h"
#include "backend/zookeeper/names.h"

#include <simba/simba.h>

struct sb_zk_call {
    struct simba_task task; /* first: the call is the task */
    void (*done)(struct sb_zk_call *call);
    void *user;
    struct sb_zk_session *session;
    struct sb_zk_handle *handle; /* it was made on; once it has ended, only to be compared */
    struct sb_zk_call *next;     /* of the handle */
    struct sb_zk_call **link;    /* NULL: it was not made on any */
    unsigned number;             /* of the session */
    int64_t sent_ms;
    bool is_sync;
    int32_t rights;                /* masters, writers: those that count */
    int code;                      /* ZOK, or what the library or the server said */
    struct Stat stat;              /* create, exists, get, set, masters */
    char text[SB_ZK_NODE_MAX + 1]; /* create: the node's name; get: the id in its data */
    char *value;  /* get_value: where the data goes, of SIMBA_PROPERTY_VALUE_MAX + 1 bytes */
    char **names; /* names: `count` of them, the receiver's to free */
    size_t count;
    struct sb_zk_ranks *ranks; /* rank: where the result goes */
    char uuid[SB_ZK_UUID_SIZE];
};

/* Whether a code says that nobody knows what became of a call. */
bool sb_zk_is_lost(int code);

/* `done`, `user` and `session` are set before. An ephemeral node has `id` as its data; a container
 * has none, and is a plain node on servers that do not know containers. */
void sb_zk_create_latch(struct sb_zk_call *call, const char *path, const char *id);
void sb_zk_create_parent(struct sb_zk_call *call, const char *path, bool container);
void sb_zk_delete(struct sb_zk_call *call, const char *path);
void sb_zk_exists(struct sb_zk_call *call, const char *path, bool watch);
void sb_zk_get(struct sb_zk_call *call, const char *path, bool watch);

/* A plain node that holds a value: creates it, overwrites it, reads it (`value` is set before). */
void sb_zk_create_value(struct sb_zk_call *call, const char *path, const char *value);
void sb_zk_set_value(struct sb_zk_call *call, const char *path, const char *value);
void sb_zk_get_value(struct sb_zk_call *call, const char *path);

/* Children, ranked (`ranks` and `uuid` are set before; an empty uuid: none is mine) or as a list of
 * names. */
void sb_zk_rank_children(struct sb_zk_call *call, const char *path, bool watch);
void sb_zk_name_children(struct sb_zk_call *call, const char *path);
void sb_zk_free_names(char **names, size_t count);

/* The identities that may create, delete or administer, as a list of names of the form scheme:id;
 * and those that may also write. */
void sb_zk_name_masters(struct sb_zk_call *call, const char *path);
void sb_zk_name_writers(struct sb_zk_call *call, const char *path);

/* Ends when the leader of the ensemble has answered, and so has all that was called before; what is
 * read afterwards is at least as new. */
void sb_zk_sync(struct sb_zk_call *call);

/* Ends the calls of a handle that has been closed. */
void sb_zk_calls_end(struct sb_zk_handle *handle);

/* Takes back watches on a path that nobody waits for any more. */
void sb_zk_unwatch_node(struct sb_zk_session *session, const char *path);
void sb_zk_unwatch_children(struct sb_zk_session *session, const char *path);

/* ---- Errors ---------------------------------------------------------------------------------- */

/* Writes code and sentence for a code of the client library (ZNOAUTH ...); returns the code. */
int sb_zk_fail(struct simba_error *error, int zk_code);

#endif
