"""All stores, by their names."""
from etcd_store import Etcd, EtcdCluster
from redis_groups import RedisCluster, RedisClusterAsync, RedisSentinel, RedisSentinelAsync
from redis_store import Redis
from sql_store import Mariadb, Postgres, PostgresStandby
from sqlite_store import Sqlite
from zookeeper_store import Zookeeper, ZookeeperEnsemble

STORES = {store.name: store for store in (
    Sqlite, Redis, RedisSentinel, RedisSentinelAsync, RedisCluster, RedisClusterAsync, Mariadb, Postgres,
    PostgresStandby, Zookeeper, ZookeeperEnsemble, Etcd, EtcdCluster)}
