#!/usr/bin/env python3
"""The program beside etcdctl on the same names: they exclude each other, and stand in one queue.

    mixed_test.py mixed [HAND-OVERS]     each way; the default is what the suite has time for
"""
import base64
import json
import os
import re
import signal
import subprocess
import sys
import threading

from stage import HOLD, LONG, Running, etcdctl, keys, main, mode, owner, status  # which adds the folders of the others
from clock import PATIENCE
from program import PROGRAM, Simba, contains, equal, lines, number, run, true, wait_until

HAND_OVERS = int(sys.argv[2]) if len(sys.argv) > 2 else 60
CROWD = 120  # what etcd takes in one transaction
CONTENDERS = 2  # of each kind

# Fails where somebody else is inside, and appends what it owns by.
CRITICAL = 'mkdir inside || echo overlap 0 >>log; echo "$1 ${ETCD_LOCK_REV:-$SIMBA_FENCE}" >>log; rmdir inside'
LOOP = "set -e; while ! test -e enough; do \"$@\" -- sh -c '" + CRITICAL + "' x $KIND; done"


class Loop:
    """A process that takes the lock again and again."""

    def __init__(self, kind, *command):
        self.process = subprocess.Popen(["bash", "-c", LOOP, "x", *command], stdin=subprocess.DEVNULL,
                                        env={**os.environ, "KIND": kind})

    def goes_on(self):
        return self.process.poll() is None

    def end(self):
        equal(self.process.wait(PATIENCE), 0)


class Campaigns(threading.Thread):
    """etcdctl is elected again and again; it runs no command, so this thread is what it protects. Its token is what it
    could read while it had its key."""

    def __init__(self):
        super().__init__(daemon=True)
        self.start()

    def run(self):
        while not os.path.exists("enough"):
            campaign = etcdctl("elect", "tests/m", "theirs")
            if campaign.stdout.readline():
                self.lead()
            campaign.send_signal(signal.SIGINT)
            campaign.communicate()

    @staticmethod
    def lead():
        try:
            os.mkdir("inside")
        except FileExistsError:
            tell("overlap 0")
        answer = json.loads(Running.server.ctl("get", "tests/none", "-w", "json"))
        tell(f"elect {answer['header']['revision']}")
        os.rmdir("inside")

    def goes_on(self):
        return self.is_alive()

    def end(self):
        self.join(PATIENCE)
        true(not self.is_alive(), "a campaign does not end")


def tell(line):
    with open("log", "a", encoding="ascii") as log:
        log.write(line + "\n")


def said():
    return [line.split() for line in lines("log")]


def hand_overs(one, other):
    names = [name for name, _ in said()]
    turns = list(zip(names, names[1:]))
    return min(turns.count((one, other)), turns.count((other, one)))


def compete(theirs, make):
    loops = [make() for _ in range(CONTENDERS)]
    loops += [Loop("simba", PROGRAM, "lock", "m") for _ in range(CONTENDERS)]
    wait_until(lambda: hand_overs(theirs, "simba") >= HAND_OVERS or not all(loop.goes_on() for loop in loops),
               "hand-overs each way", PATIENCE + HAND_OVERS)
    with open("enough", "w", encoding="ascii"):
        pass
    for loop in loops:
        loop.end()
    true(hand_overs(theirs, "simba") >= HAND_OVERS, f"{said()}")
    print(f"# {theirs}: {hand_overs(theirs, 'simba')} hand-overs each way, {len(said())} terms", flush=True)
    tokens = [int(token) for _, token in said()]
    wrong = [pair for pair in zip(said(), said()[1:]) if int(pair[0][1]) >= int(pair[1][1])]
    true(not wrong and 0 not in tokens, f"overlaps, or tokens that do not grow: {wrong}")
    wait_until(lambda: not keys(), "nothing stays")


@mode("mixed")
def locks_of_etcdctl_and_simba_do_not_overlap_and_tokens_grow_across_both():
    address = f"--endpoints=http://127.0.0.1:{Running.server.port}"
    compete("lock", lambda: Loop("lock", "etcdctl", address, "lock", "tests/m"))


@mode("mixed")
def elections_of_etcdctl_and_locks_of_simba_do_not_overlap_and_tokens_grow_across_both():
    compete("elect", Campaigns)


@mode("mixed")
def an_election_of_etcdctl_is_waited_for_and_shown():
    campaign = etcdctl("elect", "tests/m", "their-proposal")
    wait_until(lambda: keys(), "it campaigns")
    equal(owner("m"), "their-proposal")
    equal(run("lock", "-n", "m", "--", "true").code, 75)
    waiter = Simba(*LONG, "lock", "m", "--", *HOLD)
    wait_until(lambda: len(keys()) == 2, "it waits")
    campaign.send_signal(signal.SIGINT)
    campaign.communicate()
    number("pid")
    second = etcdctl("elect", "tests/m", "again")
    wait_until(lambda: len(keys()) == 2, "it waits for simba")
    equal(waiter.end(), 128 + signal.SIGTERM)
    contains(second.stdout.readline(), "tests/m/")
    second.send_signal(signal.SIGINT)
    second.communicate()


def handed(*command):
    """The key and the token that a command finds under a lock, and the one key that is there meanwhile."""
    with open("words", "w", encoding="ascii") as words:
        subprocess.run([*command, "--", "sh", "-c", "env | grep ^ETCD_LOCK_ | sort; etcdctl $0 get --prefix tests/ -w json",
                        f"--endpoints=http://127.0.0.1:{Running.server.port}"], check=True, stdout=words)
    *found, answer = lines("words")
    there = [one for one in json.loads(answer)["kvs"] if b"/.simba/" not in base64.b64decode(one["key"])]
    equal(len(there), 1)
    return dict(one.split("=", 1) for one in found), there[0], json.loads(answer)["header"]["revision"]


@mode("mixed")
def a_command_finds_what_etcdctl_lock_hands_to_its_command():
    address = f"--endpoints=http://127.0.0.1:{Running.server.port}"
    theirs, _, _ = handed("etcdctl", address, "lock", "tests/m")
    ours, key, revision = handed("env", "ETCD_LOCK_KEY=of an outer lock", "ETCD_LOCK_REV=7", PROGRAM, "lock", "m")
    equal(set(ours), set(theirs))
    form = r"tests/m/[0-9a-f]+"
    true(re.fullmatch(form, theirs["ETCD_LOCK_KEY"]) and re.fullmatch(form, ours["ETCD_LOCK_KEY"]), f"{theirs} {ours}")
    equal(ours["ETCD_LOCK_KEY"], base64.b64decode(key["key"]).decode())
    true(key["create_revision"] <= int(ours["ETCD_LOCK_REV"]) <= revision, f"{ours} {key} {revision}")
    true(int(theirs["ETCD_LOCK_REV"]) < int(ours["ETCD_LOCK_REV"]), f"{theirs} {ours}")


@mode("mixed")
def a_command_under_a_set_or_a_slot_finds_nothing_of_etcdctl():
    for more in (["--all", "a", "b"], ["--slots", "2", "s"]):
        equal(run("lock", *more, "--", "sh", "-c", "echo ${ETCD_LOCK_KEY-none} >key").code, 0)
        equal(lines("key"), ["none"])


@mode("mixed")
def a_lock_of_etcdctl_can_be_taken_away():
    holder = etcdctl("lock", "tests/m")
    contains(holder.stdout.readline(), "tests/m/")
    equal(run("release", "--force", "m").code, 0)
    equal(run("lock", "-n", "m", "--", "true").code, 0)
    holder.send_signal(signal.SIGINT)
    holder.communicate()


# ---- The queue -----------------------------------------------------------------------------------


@mode("mixed")
def the_queue_is_shown_in_its_order_with_contenders_of_both():
    campaign = etcdctl("elect", "tests/m", "first")
    wait_until(lambda: len(keys()) == 1, "the first leads")
    second = Simba(*LONG, "--exact-id", "second", "lock", "m", "--", "true")
    wait_until(lambda: len(keys()) == 2, "the second waits")
    third = etcdctl("elect", "tests/m", "third")
    wait_until(lambda: len(keys()) == 3, "the third waits")
    fourth = etcdctl("lock", "tests/m")
    wait_until(lambda: len(keys()) == 4, "the fourth waits")
    fifth = Simba(*LONG, "--exact-id", "fifth", "lock", "m", "--", "true")
    wait_until(lambda: len(keys()) == 5, "the fifth waits")
    found = status("m")
    equal((found["owner"], found["waiters"]), ("first", 4))
    nameless = found["queue"][2]
    contains(nameless, "lease-")
    true(any(key.endswith("/" + nameless[len("lease-"):]) for key in keys()), nameless)
    equal(found["queue"], ["second", "third", nameless, "fifth"])
    for one in (third, fourth, campaign):
        one.send_signal(signal.SIGINT)
        one.communicate()
    equal((second.wait(), fifth.wait()), (0, 0))


@mode("mixed")
def a_long_queue_is_shown_whole():
    lease = Running.server.ctl("lease", "grant", "600").split()[1]
    for crowd in range(3):
        puts = "".join(f"put --lease={lease} tests/m/{crowd}-{number_of:03} w\n" for number_of in range(CROWD))
        Running.server.ctl("txn", told=f"\n{puts}\n\n")
    found = status("m")
    equal((found["waiters"], len(found["queue"])), (3 * CROWD - 1, 3 * CROWD - 1))
    Running.server.ctl("lease", "revoke", lease)


@mode("mixed")
def a_server_that_stands_still_does_not_hold_up_a_question():
    Running.server.process.send_signal(signal.SIGSTOP)
    program = Simba("status", "m")
    code = program.wait()
    Running.server.process.send_signal(signal.SIGCONT)
    equal(code, 69)
    contains(program.said(), f"127.0.0.1:{Running.server.port}")


if __name__ == "__main__":
    sys.exit(main())
