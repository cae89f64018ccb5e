"""All stores, by their names."""
from redis_store import Redis, RedisCluster, RedisSentinel
from sql_store import Mariadb, Postgres, PostgresStandby
from sqlite_store import Sqlite
from zookeeper_store import Zookeeper, ZookeeperEnsemble

STORES = {store.name: store for store in (
    Sqlite, Redis, RedisSentinel, RedisCluster, Mariadb, Postgres, PostgresStandby, Zookeeper,
    ZookeeperEnsemble)}
