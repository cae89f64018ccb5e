"""The faults of the default suite: a chosen few for each store, those that found something or nearly did."""

COMMON = ["freeze-holder-past-lease", "kill-holder", "fork-in-worker"]
NETWORK = ["drop", "swallow-replies", "reset-mid-command"]

SHORT_FAULTS = {
    "sqlite": COMMON + ["lock-file", "full-disk", "equal-ids"],
    "redis": COMMON + NETWORK + ["flush-scripts", "freeze-server-past-lease"],
    "redis-sentinel": COMMON + ["kill-server"],
    "redis-sentinel-async": ["isolate-master"],
    "redis-cluster": COMMON + ["kill-server"],
    "redis-cluster-async": ["isolate-master"],
    "mariadb": COMMON + NETWORK + ["kill-server", "lock-then-freeze-holders"],
    "postgres": COMMON + NETWORK + ["freeze-server-past-lease", "lock-table", "slew-server-clock"],
    "postgres-standby": COMMON + ["promote-standby"],
    "zookeeper": COMMON + NETWORK,
    "zookeeper-ensemble": COMMON + ["kill-server", "stall-quorum"],
    "etcd": COMMON + NETWORK + ["compact"],
    "etcd-cluster": COMMON + ["kill-server", "move-leader", "isolate-master"],
}
