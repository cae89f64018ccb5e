#!/usr/bin/env python3
"""`simba doctor` as an operator uses it: on a store that is well, and on one with a setting that breaks leases.

    doctor_test.py STORE       sqlite, redis, postgres, mariadb, zookeeper or etcd
"""
import json
import os
import re
import subprocess
import sys

import stores
from program import (PATIENCE, PROGRAM, TRANSITION, Simba, Skipped, as_nobody, contains, equal, now, own_mounts, read,
                     run, true, wait_until)

NAME = sys.argv[1]


class Redis(stores.Redis):
    options = ["--appendonly", "yes"]

    def ask(self, *words):
        with self.connect() as connection, connection.makefile("r", encoding="utf-8") as answer:
            connection.sendall((" ".join(words) + "\r\n").encode())
            return answer.readline().strip()


class Postgres(stores.Postgres):
    durable = True

    def become_standby(self):
        self.process.terminate()
        self.process.wait(PATIENCE)
        self.write("data/standby.signal", "")
        self.launch()
        stores.servers.Server.await_service(self)


class Mariadb(stores.Mariadb):
    def sql(self, statement):
        return self.prepare("mariadb", "--no-defaults", f"--socket={self.folder}/sock", "-u", "root", "simba",
                            "-N", "-e", statement)


ONE = stores.OneStore(NAME, {**stores.BY_NAME, "redis": Redis, "postgres": Postgres, "mariadb": Mariadb})


def calm_url(store=None):
    """With a transition that no busy machine makes short."""
    more = "&session-timeout=8s" if NAME == "zookeeper" else ""
    return f"{(store or ONE.store).url.partition('?')[0]}?ttl=2s&transition=30s{more}"


def on_store(function):
    def wrapped():
        os.environ["SIMBA_URL"] = calm_url()
        equal(run("lock", "m", "--", "true").code, 0)
        function()
    wrapped.__name__ = function.__name__
    return ONE.case(wrapped)


def only(name):
    """For what one store has."""
    return on_store if name == NAME else lambda function: function


def doctor(*arguments):
    """The exit code and the findings, by subject."""
    program = run("doctor", "--json", *arguments)
    findings = json.loads(read(program.out))
    for finding in findings:
        equal(sorted(finding), ["advice", "severity", "subject", "text"])
        equal(finding["advice"] == "", finding["severity"] == "ok")
    equal(len({finding["subject"] for finding in findings}), len(findings))
    return program.code, {finding["subject"]: finding for finding in findings}


def finds(subject, severity, text, advice, *arguments):
    """The one finding that is not well, or the first of them."""
    code, findings = doctor(*arguments)
    equal(findings[subject]["severity"], severity)
    contains(findings[subject]["text"], text)
    contains(findings[subject]["advice"], advice)
    equal(code, {"warning": 1, "problem": 2}[severity])
    return findings


def owners():
    program = run("status", "--json", "simba-doctor")
    return json.loads(read(program.out))[0]["owner"]


@on_store
def a_store_that_is_well_is_found_well():
    program = run("doctor")
    out = read(program.out)
    equal((program.code, program.said()), (0, ""))
    contains(out, " acquired")
    contains(out, "0 problems, 0 warnings, ")
    for line in out.splitlines():
        true(len(line) <= 80, f"a line of {len(line)} columns: {line}")
        true(line == "" or re.match(r"ok       \S|                         \S|0 problems", line), line)
    equal(owners(), "")


@on_store
def the_name_that_it_used_is_gone():
    if NAME == "zookeeper":
        raise Skipped("the server removes it a minute later")
    equal(doctor()[0], 0)
    names = [mutex["mutex"] for mutex in json.loads(read(run("status", "--json").out))]
    equal([name for name in names if name.startswith("simba")], [])


@on_store
def json_tells_the_same():
    code, findings = doctor()
    equal(code, 0)
    expected = {"store", "locking", "latency"} | ({"file system", "rights", "journal", "free space"} if NAME == "sqlite" else {"tls"})
    true(expected <= set(findings), f"{sorted(findings)}")
    equal({finding["severity"] for finding in findings.values()}, {"ok"})
    if NAME == "etcd":
        true("clock" not in findings, "etcd tells nobody the time")
    elif NAME != "zookeeper":
        contains(findings["clock"]["text"], "of ours")


@on_store
def read_only_leaves_nothing_on_the_store():
    code, findings = doctor("--read-only")
    equal(code, 0)
    true("locking" not in findings, "it has acquired")


@on_store
def a_store_that_is_slow_for_its_lease_is_a_problem():
    if NAME == "sqlite":
        raise Skipped("there is no server that could stand still")
    program = Simba("doctor", "--json", "--read-only", "-u", ONE.store.url)
    while program.process.poll() is None:
        ONE.store.pause()
        try:
            begin = now()
            wait_until(lambda: now() > begin + TRANSITION * 2 / 3)
        finally:
            ONE.store.go_on()
        begin = now()
        wait_until(lambda: program.process.poll() is not None or now() > begin + 0.1)
    equal(program.wait(), 2)
    findings = {finding["subject"]: finding for finding in json.loads(read(program.out))}
    equal(findings["latency"]["severity"], "problem")
    contains(findings["latency"]["advice"], "--transition")


@on_store
def a_store_that_is_down_is_69():
    os.makedirs("none")
    url = f"sqlite:{os.getcwd()}/none/store.db" if NAME == "sqlite" else re.sub(r":\d+", f":{stores.free_port()}", calm_url())
    program = run("-u", url, "doctor")
    equal(program.code, 69)
    contains(read(program.out), "problem  store ")
    contains(read(program.out), "-> ")


@on_store
def wrong_credentials_are_77():
    if NAME in ("sqlite", "zookeeper"):
        raise Skipped("there are no passwords to be wrong")
    program = run("-u", ONE.store.denied_url, "doctor", "--json")
    equal(program.code, 77)
    findings = json.loads(read(program.out))
    equal([finding["severity"] for finding in findings], ["problem"])
    contains(findings[0]["advice"], "user and password")
    true("wr0ng" not in read(program.out) + program.said(), "the password is shown")


@on_store
def a_wrong_url_is_78():
    program = run("-u", calm_url() + "&no-such-option=1", "doctor")
    equal(program.code, 78)
    contains(read(program.out), "no-such-option")


@only("redis")
def a_server_that_evicts():
    ONE.store.ask("CONFIG", "SET", "maxmemory", "100mb")
    ONE.store.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        finds("eviction", "problem", "allkeys-lru", "noeviction")
    finally:
        ONE.store.ask("CONFIG", "SET", "maxmemory", "0")


@only("redis")
def a_server_without_persistence():
    ONE.store.ask("CONFIG", "SET", "appendonly", "no")
    try:
        finds("persistence", "problem", "none", "appendonly yes")
        ONE.store.ask("ACL", "SETUSER", "half", "on", ">half", "~*", "&*", "+@all", "-config")
        finds("persistence", "warning", "not known", "appendonly yes",
              "-u", calm_url().replace("redis://", "redis://half:half@"))
        ONE.store.ask("CONFIG", "SET", "save", '"900 1"')
        finds("persistence", "warning", "snapshots", "appendonly yes")
    finally:
        ONE.store.ask("CONFIG", "SET", "save", '""')
        ONE.store.ask("CONFIG", "SET", "appendonly", "yes")


@only("redis")
def replicas_that_lag():
    replica = Redis()
    try:
        replica.ask("REPLICAOF", "127.0.0.1", str(ONE.store.port))
        wait_until(lambda: ONE.store.ask("WAIT", "1", "100") == ":1", "the replica is linked")
        finds("replication", "warning", "1 asynchronous", "wait-replicas=1")
        findings = doctor("-u", calm_url() + "&wait-replicas=1")[1]
        equal(findings["replication"]["severity"], "ok")
        findings = finds("server", "problem", "is a replica", "name the master", "-u", calm_url(replica))
        equal(findings["locking"]["severity"], "problem")
    finally:
        replica.stop()
    wait_until(lambda: doctor()[0] == 0, "the replica is gone")
    finds("replication", "problem", "no lease is granted", "", "--read-only", "-u", calm_url() + "&wait-replicas=1")


@only("mariadb")
def a_server_that_is_read_only():
    ONE.store.sql("SET GLOBAL read_only = 1")
    try:
        findings = finds("server", "problem", "read_only is ON", "read_only = 0")
        equal(findings["locking"]["severity"], "problem")
    finally:
        ONE.store.sql("SET GLOBAL read_only = 0")


@only("mariadb")
def settings_that_lose_leases_or_connections():
    ONE.store.sql("SET GLOBAL innodb_flush_log_at_trx_commit = 2; SET GLOBAL wait_timeout = 10")
    try:
        findings = finds("durability", "warning", "is 2", "= 1", "-u", calm_url())
        equal(findings["wait_timeout"]["severity"], "warning")
    finally:
        ONE.store.sql("SET GLOBAL innodb_flush_log_at_trx_commit = 1; SET GLOBAL wait_timeout = 28800")


@only("mariadb")
def the_table_of_another_library():
    ONE.store.sql("ALTER TABLE simba_mutex DROP COLUMN term_fence, DROP COLUMN term_since, DROP COLUMN term_version,"
                      " MODIFY version int unsigned NOT NULL")
    findings = finds("table", "warning", "no columns term_", "ADD COLUMN term_fence")
    equal(findings["version column"]["severity"], "warning")
    for subject in ["table", "version column"]:
        ONE.store.sql(findings[subject]["advice"])
    equal(doctor()[0], 0)
    ONE.store.sql("ALTER TABLE simba_mutex ENGINE = Aria")
    program = run("doctor")
    ONE.store.sql("ALTER TABLE simba_mutex ENGINE = InnoDB")
    equal(program.code, 78)
    contains(" ".join(read(program.out).split()), "ALTER TABLE simba_mutex ENGINE = InnoDB")


@only("postgres")
def a_server_that_may_lose_what_it_confirmed():
    ONE.store.sql("ALTER ROLE simba SET synchronous_commit = off")
    try:
        finds("durability", "warning", "synchronous_commit is off", "synchronous_commit = on")
    finally:
        ONE.store.sql("ALTER ROLE simba RESET synchronous_commit")
    ONE.store.sql("ALTER SYSTEM SET fsync = off")
    ONE.store.sql("SELECT pg_reload_conf()")
    wait_until(lambda: ONE.store.sql("SHOW fsync") == "off\n")
    try:
        finds("durability", "problem", "fsync is off", "ALTER SYSTEM SET fsync = on")
    finally:
        ONE.store.sql("ALTER SYSTEM RESET fsync")
        ONE.store.sql("SELECT pg_reload_conf()")


@only("postgres")
def a_server_that_ends_idle_sessions():
    ONE.store.sql("ALTER ROLE simba SET idle_session_timeout = '1s'")
    try:
        finds("idle sessions", "warning", "idle_session_timeout is 1 s, not longer than the lease", "ALTER ROLE")
    finally:
        ONE.store.sql("ALTER ROLE simba RESET idle_session_timeout")


@only("postgres")
def a_table_without_the_columns_of_the_term():
    ONE.store.sql("ALTER TABLE simba_mutex DROP COLUMN term_fence, DROP COLUMN term_since, DROP COLUMN term_version")
    findings = finds("table", "warning", "no columns term_", "ADD COLUMN term_fence")
    ONE.store.sql(findings["table"]["advice"])
    equal(doctor()[0], 0)


@only("postgres")
def a_standby():
    standby = Postgres()
    url = calm_url(standby)
    try:
        equal(run("-u", url, "lock", "m", "--", "true").code, 0)
        standby.become_standby()
        findings = finds("server", "problem", "a standby", "name the primary", "-u", url)
        equal(findings["locking"]["severity"], "problem")
    finally:
        standby.stop()


@only("sqlite")
def a_store_that_nobody_has_named():
    env = {"SIMBA_URL": "", "HOME": os.getcwd(), "XDG_STATE_HOME": "", "XDG_CONFIG_HOME": ""}
    program = run("doctor", env=env)
    equal(program.code, 1)
    contains(" ".join(read(program.out).split()), "reaches this host only; it does not exist yet")
    equal(run("lock", "m", "--", "true", env=env).code, 0)
    program = run("doctor", env=env)
    equal(program.code, 1)
    contains(read(program.out), "0 problems, 1 warning, ")


@only("sqlite")
def a_full_disk():
    os.makedirs("small")
    url = f"sqlite:{os.getcwd()}/small/store.db"
    script = (f'mount -t tmpfs -o size=2m,mode=755 none small && "$0" -u {url} lock m -- true && '
              f'"$0" -u {url} doctor --json')
    done = subprocess.run([*own_mounts(), "sh", "-c", script, PROGRAM], capture_output=True, text=True,
                          check=False, timeout=PATIENCE, stdin=subprocess.DEVNULL)
    true(done.returncode in (1, 2), f"{done.returncode} {done.stderr}")
    findings = {finding["subject"]: finding for finding in json.loads(done.stdout)}
    true(findings["free space"]["severity"] != "ok", "there is no room")


@only("sqlite")
def a_file_that_the_user_may_not_write():
    rights = as_nobody()
    if not rights:
        raise Skipped("only root can be another user")
    os.chmod(".", 0o755)
    os.chmod(ONE.store.folder, 0o755)
    for name in os.listdir(ONE.store.folder):
        os.chmod(os.path.join(ONE.store.folder, name), 0o644)
    program = run("doctor", "--json", **rights)
    true(program.code in (2, 77), f"{program.code} {program.said()}")
    true(any(finding["severity"] == "problem" for finding in json.loads(read(program.out))), "it found nothing")


@only("zookeeper")
def an_ensemble_that_grants_a_shorter_session():
    finds("session", "warning", "8000 ms, and 60000 ms were asked for", "maxSessionTimeout",
          "-u", calm_url().replace("=8s", "=60s"))


if __name__ == "__main__":
    sys.exit(ONE.main())
