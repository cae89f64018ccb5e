#!/usr/bin/env python3
"""The etcd store on real servers: the kit, and failures of servers, leases, watches and logins.

    etcd_test.py kit | failures | cluster
"""
import json
import os
import signal
import subprocess
import sys

from stage import HOLD, LONG, Running, etcdctl, keys, kill, main, mode, url  # which adds the folders of the others
import servers
from clock import PATIENCE
from cuts import Relay
from program import PROGRAM, Simba, contains, equal, is_alive, now, number, read, run, true, wait_until


# ---- The kit -------------------------------------------------------------------------------------


@mode("kit", "cluster")
def the_kit_passes():
    processes = [] if Running.members else ["--processes", "3"]
    subprocess.run([PROGRAM, "tck", *processes], check=True, timeout=PATIENCE * 4)


# ---- Leases --------------------------------------------------------------------------------------


@mode("failures")
def a_lease_that_was_revoked_ends_the_term():
    holder = Simba("--ttl", "1s", "--transition", "2s", "lock", "m", "--", *HOLD)
    command = number("pid")
    lease = keys()[0].rpartition("/")[2]
    Running.server.ctl("lease", "revoke", lease)
    equal(holder.wait(), 70)
    true(not is_alive(command), "the command goes on")


@mode("failures")
def a_key_that_was_deleted_ends_the_term():
    holder = Simba("--ttl", "1s", "--transition", "2s", "lock", "m", "--", *HOLD)
    number("pid")
    Running.server.ctl("del", keys()[0])
    equal(holder.wait(), 70)


@mode("failures")
def a_process_that_stood_still_until_its_lease_ended_owns_no_more():
    first = Simba("--ttl", "400ms", "--transition", "600ms", "lock", "m", "--", *HOLD)
    number("pid")
    first.send(signal.SIGSTOP)
    equal(run("lock", "-w", "20s", "m", "--", "true").code, 0)
    first.send(signal.SIGCONT)
    equal(first.wait(), 70)


@mode("failures")
def two_contenders_of_one_client_have_keys_of_their_own():
    """The kit's contests would hang otherwise; here the keys are counted."""
    contest = Simba(*LONG, "lead", "m", "--", *HOLD)
    number("pid")
    other = Simba(*LONG, "lead", "m", "--", "true")
    wait_until(lambda: len(keys()) == 2, "both have a key")
    equal(len({key.rpartition("/")[2] for key in keys()}), 2)
    equal(other.end(), 0)
    wait_until(lambda: len(keys()) == 1, "the waiter's key goes")
    equal(contest.end(), 0)
    wait_until(lambda: not keys(), "nothing stays")


# ---- Watches -------------------------------------------------------------------------------------


@mode("failures")
def a_watch_whose_revision_was_compacted_still_wakes():
    holder = etcdctl("lock", "tests/m")
    contains(holder.stdout.readline(), "tests/m/")
    relay = Relay(Running.server.port)
    waiter = Simba("-u", url(port=relay.port), *LONG, "lock", "m", "--", "true")
    wait_until(lambda: len(keys()) == 2, "it waits")
    relay.stop()
    holder.send_signal(signal.SIGINT)
    holder.communicate()
    wait_until(lambda: len(keys()) == 1, "the owner has gone")
    for _ in range(3):
        Running.server.ctl("put", "other", "x")
    revision = json.loads(Running.server.ctl("get", "other", "-w", "json"))["header"]["revision"]
    Running.server.ctl("compaction", str(revision))
    relay = Relay(Running.server.port, relay.port)
    equal(waiter.wait(), 0)
    relay.stop()


# ---- The server ----------------------------------------------------------------------------------


@mode("failures")
def an_owner_outlives_a_restart_of_the_server():
    """With the tokens of its users, which it forgets."""
    server = servers.Etcd()
    server.start()
    for words in ("user add root:r1ght", "user grant-role root root", "auth enable"):
        server.ctl(*words.split())
    address = f"etcd://root:r1ght@127.0.0.1:{server.port}/tests"
    holder = Simba("-u", address, "--ttl", "2s", "--transition", "10s", "lock", "m", "--", "sh", "-c", "touch ready; until test -e enough; do sleep 0.02; done")
    wait_until(lambda: os.path.exists("ready"), "it holds")
    kill(server)
    server.launch()
    server.await_service()
    equal(run("-u", address, "lock", "-n", "m", "--", "true").code, 75)
    begin = now()
    wait_until(lambda: now() > begin + 3 or holder.process.poll() is not None)  # it has renewed
    true(holder.process.poll() is None, holder.said())
    with open("enough", "w", encoding="ascii"):
        pass
    equal(holder.wait(), 0)
    server.stop()


@mode("failures")
def a_space_alarm_says_what_to_do():
    server = servers.Etcd()
    server.more = ("--quota-backend-bytes", "65536")
    server.start()
    address = f"etcd://127.0.0.1:{server.port}/tests"
    try:
        for index in range(40):
            server.ctl("put", f"key-{index}", "x" * 16000)
    except subprocess.CalledProcessError as full:
        contains(full.stderr, "space exceeded")
    contains(server.ctl("alarm", "list"), "NOSPACE")
    locker = run("-u", address, "lock", "m", "--", "true")
    equal(locker.code, 69)
    contains(locker.said(), "etcdctl alarm disarm")
    doctor = run("-u", address, "doctor", "--json", "--read-only")
    contains(read(doctor.out), "alarm disarm")
    server.stop()


@mode("failures")
def wrong_credentials_and_rights_are_77():
    server = servers.Etcd()
    server.start()
    equal(run("-u", f"etcd://nobody:x@127.0.0.1:{server.port}", "lock", "m", "--", "true").code, 78)
    for words in ("user add root:r1ght", "user grant-role root root", "user add small:pw", "role add some",
                  "role grant-permission some --prefix=true readwrite mine/", "user grant-role small some", "auth enable"):
        server.ctl(*words.split())
    for user, prefix, code in (("root:wr0ng@", "mine", 77), ("", "mine", 77), ("small:pw@", "other", 77),
                               ("small:pw@", "mine", 0)):
        done = run("-u", f"etcd://{user}127.0.0.1:{server.port}/{prefix}", "lock", "m", "--", "true")
        true(done.code == code, f"{user} {prefix}: {done.code}, {done.said()}")
    server.stop()


# ---- The cluster ---------------------------------------------------------------------------------


def member_status(member):
    return json.loads(member.ctl("endpoint", "status", "-w", "json"))[0]["Status"]


def leader():
    status = member_status(next(one for one in Running.members if one.is_up()))
    return next(one for one in Running.members
                if one.is_up() and member_status(one)["header"]["member_id"] == status["leader"])


@mode("cluster")
def an_owner_survives_each_member_that_stands_still():
    holder = Simba("--ttl", "2s", "--transition", "20s", "lock", "m", "--", *HOLD)
    number("pid")
    for member in Running.members:
        member.process.send_signal(signal.SIGSTOP)
        begin = now()
        wait_until(lambda: now() > begin + 4 or holder.process.poll() is not None)
        member.process.send_signal(signal.SIGCONT)
        true(holder.process.poll() is None, holder.said())
    equal(holder.end(), 128 + signal.SIGTERM)


@mode("cluster")
def without_a_majority_an_owner_ends_by_its_own_clock():
    holder = Simba("--ttl", "1s", "--transition", "2s", "lock", "m", "--", *HOLD)
    command = number("pid")
    for member in Running.members[1:]:
        member.process.send_signal(signal.SIGSTOP)
    begin = now()
    equal(holder.wait(), 70)
    true(now() - begin < 4 and not is_alive(command), f"it took {now() - begin}")
    for member in Running.members[1:]:
        member.process.send_signal(signal.SIGCONT)
    equal(run("lock", "-w", "30s", "m", "--", "true").code, 0)


@mode("cluster")
def an_owner_survives_the_death_of_the_leader():
    holder = Simba("--ttl", "2s", "--transition", "20s", "lock", "m", "--", *HOLD)
    number("pid")
    dead = leader()
    kill(dead)
    begin = now()
    wait_until(lambda: now() > begin + 5 or holder.process.poll() is not None)
    true(holder.process.poll() is None, holder.said())
    equal(holder.end(), 128 + signal.SIGTERM)
    equal(run("lock", "-w", "20s", "m", "--", "true").code, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] == "cluster"))
