/*
 * names.h - the names of nodes, and the order of the participants of a latch. Pure, but for the
 * uuids.
 *
 *     BASE/MUTEX/_c_<uuid>-latch-<sequence>
 *
 * BASE is the chroot and "/simba". What follows "latch-" decides the order, as Curator's
 * LeaderLatch has it; the uuid lets a creator find its node when the reply to the create was lost.
 */
#ifndef SB_ZK_NAMES_H
#define SB_ZK_NAMES_H

#include <simba/simba.h>

#define SB_ZK_UUID_SIZE 37   /* of a uuid in its usual form, with the NUL */
#define SB_ZK_NODE_MAX 255   /* bytes in the name of a node that we can deal with */
#define SB_ZK_PATH_SIZE 1088 /* of any path that we build, with the NUL */
#define SB_ZK_BASE_MAX 512   /* bytes in BASE */

/* What a list of children says about a latch. */
struct sb_zk_ranks {
    size_t count;
    size_t ahead;                    /* of mine */
    bool found;                      /* one of them is mine */
    bool too_long;                   /* the name of one that matters does not fit */
    char mine[SB_ZK_NODE_MAX + 1];   /* the first of those with my uuid */
    char leader[SB_ZK_NODE_MAX + 1]; /* the first of all */
    char before[SB_ZK_NODE_MAX + 1]; /* the last before mine; empty where mine is the first */
};

/* Whether the servers take all characters of a name or path; `what` it is. */
int sb_zk_check_characters(const char *what, const char *name, struct simba_error *error);

/* Whether a mutex of this name can be a node. */
int sb_zk_check_mutex(const char *mutex, struct simba_error *error);

/* A random uuid. */
void sb_zk_make_uuid(char ret_uuid[SB_ZK_UUID_SIZE]);

/* BASE/MUTEX, BASE/MUTEX/NODE or, with `uuid`, what the name of a new node begins with. They return
 * false when it does not fit. */
bool sb_zk_mutex_path(char ret_path[SB_ZK_PATH_SIZE], const char *base, const char *mutex);
bool sb_zk_node_path(char ret_path[SB_ZK_PATH_SIZE], const char *base, const char *mutex,
                     const char *node);
bool sb_zk_new_node_path(char ret_path[SB_ZK_PATH_SIZE], const char *base, const char *mutex,
                         const char *uuid);

/* Where the properties of a mutex are: a folder beside that of the latches, and a node in it. */
bool sb_zk_property_path(char ret_path[SB_ZK_PATH_SIZE], const char *base, const char *mutex,
                         const char *name);
bool sb_zk_properties_path(char ret_path[SB_ZK_PATH_SIZE], const char *base, const char *mutex);

/* The mutex of a property's path; false for any other path. */
bool sb_zk_split_property_path(const char *path, const char *base,
                               char ret_mutex[SIMBA_MUTEX_MAX + 1]);

/* Takes BASE/MUTEX or BASE/MUTEX/NODE apart; *ret_node is "" or points into `path`. False when the
 * path is not below `base`, or its mutex has a name that none can have. */
bool sb_zk_split_path(const char *path, const char *base, char ret_mutex[SIMBA_MUTEX_MAX + 1],
                      const char **ret_node);

/* Orders two nodes as all participants do: negative when `a` comes first. */
int sb_zk_compare(const char *a, const char *b);

/* Whether the number of a node is negative: the servers have counted beyond 32 bits. */
bool sb_zk_is_overflown(const char *node);

/* Looks for the first of the children and for mine. `uuid` may be NULL: none is mine. */
void sb_zk_rank(const char *const *children, size_t count, const char *uuid,
                struct sb_zk_ranks *ret_ranks);

/* The contender's id from a node's data: at most SIMBA_ID_MAX bytes, control characters replaced.
 * Where the participant told none, the node's name stands for it. */
void sb_zk_read_id(const char *data, size_t length, const char *node,
                   char ret_id[SIMBA_ID_MAX + 1]);

#endif
