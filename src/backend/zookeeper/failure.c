/*
 * failure.c - the errors of the client library. Owns the sentences.
 */
#include "backend/zookeeper/failure.h"

#include "backend/zookeeper/library.h"
#include "base/error.h"

#include <stddef.h>

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
