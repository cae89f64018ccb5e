/*
 * rights.c - compares the ACL of a node with that of a node that the servers made for the client's
 * own user.
 */
#include "backend/zookeeper/ops/ops.h"
#include "base/error.h"

#include <string.h>

/* The name of an identity, for digest without the hash of its password. */
static size_t shown_length(const char *name)
{
    const char *hash = strncmp(name, "digest:", 7) == 0 ? strrchr(name, ':') : NULL;

    return hash != NULL ? (size_t)(hash - name) : strlen(name);
}

/* To a client that may not administer a node the server shows "x" in the place of each hash.
 * Anybody can log in with the name of another user and a password of their own. */
static bool is_masked(const char *name)
{
    return strcmp(name + shown_length(name), ":x") == 0;
}

/* Whether one of the client's identities has the same name, hashes aside. */
static bool is_namesake(const struct sb_zk_call *own, const char *name)
{
    size_t length = shown_length(name);

    for (size_t i = 0; i < own->count; i++)
        if (shown_length(own->names[i]) == length && strncmp(own->names[i], name, length) == 0)
            return true;
    return false;
}

const char *sb_zk_rights_stranger(const struct sb_zk_call *own, const struct sb_zk_call *node)
{
    for (size_t i = 0; i < node->count; i++) {
        const char *name = node->names[i];
        bool found = false;

        for (size_t j = 0; j < own->count; j++)
            found |= strcmp(own->names[j], name) == 0;
        if (!found || is_masked(name))
            return name;
    }
    return NULL;
}

void sb_zk_rights_refuse(struct simba_error *error, const simba_backend *store, const char *path,
                         const char *rights, const struct sb_zk_call *own, const char *stranger)
{
    const char *option =
        store->options.acl == SB_ZK_ACL_CREATOR ? "acl=creator" : "acl=creator-read";
    int length = (int)shown_length(stranger);

    if (is_masked(stranger) && is_namesake(own, stranger))
        sb_error_set(error, SIMBA_EDENIED,
                     "%s: the ACL of the node %s lets %.*s %s, and hides whether its "
                     "password is that of the URL; give the user of the URL all rights (cdrwa), "
                     "others none of these, or delete the node",
                     option, path, length, stranger, rights);
    else
        sb_error_set(error, SIMBA_EDENIED,
                     "%s: the ACL of the node %s lets %.*s %s; give these rights to the user of "
                     "the URL alone, or delete the node",
                     option, path, length, stranger, rights);
}
