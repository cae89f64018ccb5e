#!/usr/bin/env python3
"""`simba prune`, and what `simba status` and `simba watch` show of names.

    prune_test.py STORE RAISE     sqlite, redis, postgres, mariadb, zookeeper or etcd; the program of raise.c
"""
import contextlib
import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
import time

import stores
from program import PROGRAM, Simba, case, contains, equal, read, run, true, wait_until

THE = stores.OneStore(sys.argv[1])
REMEMBERS = sys.argv[1] not in ("zookeeper", "etcd")  # which have nothing of a name that nobody uses
HOLD = ["sh", "-c", "echo $SIMBA_FENCE >held.new; mv held.new held; exec sleep 100"]


def on_stores_that_remember(function):
    return THE.case(function) if REMEMBERS else function


def ended(program, code=0):
    equal(program.wait(), code)
    return program


def out(*arguments):
    return read(ended(run(*arguments)).out)


def token(mutex):
    return int(out("lock", mutex, "--", "sh", "-c", "echo $SIMBA_FENCE"))


def names(prefix, *options):
    return [one["mutex"] for one in json.loads(out("status", "--json", prefix + "*", *options))]


def prune(*arguments):
    return {one["mutex"]: one["action"] for one in json.loads(out("prune", "--json", *arguments))}


def removed(mutex):
    """On MySQL the number that a new name begins with grows by one a second."""
    wait_until(lambda: prune(mutex, "--unused-for", "0s") == {mutex: "removed"}, "it is removed")


def hold(mutex, *options):
    holder = Simba("--ttl", "20s", "lock", *options, mutex, "--", *HOLD)
    wait_until(lambda: os.path.exists("held"), "it is held")
    return holder


def on_a_terminal(*arguments):
    """What the program shows on one of 80 columns."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    subprocess.run([PROGRAM, "-q", *arguments], stdin=subprocess.DEVNULL, stdout=slave, check=True)
    os.close(slave)
    shown = b""
    with contextlib.suppress(OSError):  # the end of a terminal
        while True:
            shown += os.read(master, 4096)
    os.close(master)
    return shown.decode()


def let_go(holder):
    holder.end()
    os.unlink("held")


@on_stores_that_remember
def names_that_nobody_uses_go_and_their_tokens_never_go_back(prefix):
    first = token(prefix + "a")
    holder = hold(prefix + "held")
    equal(prune(prefix + "*", "--unused-for", "1s"), {prefix + "a": "noted", prefix + "held": "kept"})
    time.sleep(5 if sys.argv[1] == "mariadb" else 1.1)  # see `removed`
    said = out("prune", prefix + "*", "--unused-for", "1s", "--dry-run")
    contains(said, f"would remove {prefix}a, unused for ")
    contains(said, f"would keep {prefix}held: held by ")
    equal(names(prefix), [prefix + "a", prefix + "held"])
    contains(out("prune", prefix + "*", "--unused-for", "1s"), f"removed {prefix}a, unused for ")
    equal(names(prefix), [prefix + "held"])
    let_go(holder)
    last = first
    for _ in range(3):
        now = token(prefix + "a")
        true(now > last, f"{now} after {last}")
        last = now
        removed(prefix + "a")


@THE.case
def a_name_that_the_store_does_not_know_is_not_removed(prefix):
    token(prefix + "known")
    contains(out("prune", prefix + "misspelt", "--unused-for", "0s", "--dry-run"), "the store does not know it")
    equal(prune(prefix + "misspelt", "--unused-for", "0s"), {prefix + "misspelt": "kept"})
    equal(out("prune", prefix + "misspelt", "--unused-for", "0s"),
          f"kept {prefix}misspelt: the store does not know it\n0 removed, 1 kept\n")


@on_stores_that_remember
def a_name_that_was_used_meanwhile_stays(prefix):
    token(prefix + "a")
    equal(prune(prefix + "*", "--unused-for", "1s"), {prefix + "a": "noted"})
    time.sleep(1.1)
    token(prefix + "a")
    equal(prune(prefix + "*", "--unused-for", "1s"), {prefix + "a": "noted"})
    equal(prune(prefix + "*", "--unused-for", "1h"), {prefix + "a": "kept"})


@on_stores_that_remember
def what_a_schedule_remembers_stays_as_long(prefix):
    ended(run("lock", "--once-per", "1h", prefix + "job", "--", "true"))
    ended(run("prune", prefix + "*", "--unused-for", "2s"))
    time.sleep(1)
    equal(prune(prefix + "*", "--unused-for", "1h"), {prefix + "job": "kept"})
    contains(ended(run("lock", "--once-per", "1h", prefix + "job", "--", "true")).said(), "once per 1h")
    removed(prefix + "job")
    equal(out("lock", "--once-per", "1h", prefix + "job", "--", "echo", "ran"), "ran\n")


@on_stores_that_remember
def a_semaphore_stays_while_one_of_its_slots_is_held(prefix):
    gate = prefix + "render"
    holder = hold(gate, "--slots", "2")
    true(gate in names(prefix) and prune(gate, "--unused-for", "0s") == {gate: "kept"}, "the gate is kept")
    contains(out("prune", gate, "--unused-for", "0s"), "holds a slot")
    equal(run("lock", "--slots", "3", gate, "--", "true").code, 78)
    let_go(holder)
    removed(gate)
    ended(run("lock", "--slots", "3", gate, "--", "true"))  # nobody knows of the 2


@on_stores_that_remember
def a_semaphore_stays_while_a_slot_is_held_that_a_resize_took_away(prefix):
    gate = prefix + "shrunk"
    holder = hold(gate, "--slots", "2")
    second = Simba("lock", "--slots", "2", gate, "--", "sh", "-c", ": >second; exec sleep 100")
    wait_until(lambda: os.path.exists("second"), "the second slot is held")
    out("semaphore", "resize", gate, "1")
    let_go(holder)
    equal(prune(gate, "--unused-for", "0s"), {gate: "kept"})
    second.end()
    removed(gate)


@on_stores_that_remember
def prune_and_contenders_do_not_disturb_each_other(prefix):
    """A contender that comes while its name is removed owns as ever, with a larger token."""
    mutex = prefix + "busy"
    rounds, pause = (3, 2.5) if sys.argv[1] == "mariadb" else (40, 0)
    script = (f"for i in $(seq {rounds}); do \"$SIMBA_PROGRAM\" lock {mutex} -- "
              f"sh -c 'echo $SIMBA_FENCE >>tokens' || echo failed >>tokens; sleep {pause}; done")
    busy = subprocess.Popen(["sh", "-c", script])
    count = 0
    while busy.poll() is None:
        count += list(prune(mutex, "--unused-for", "0s").values()).count("removed")
    true(count > 0, "the name was removed in between")
    tokens = read("tokens").split()
    equal(len(tokens), rounds)
    true(all(int(a) < int(b) for a, b in zip(tokens, tokens[1:])), f"tokens grow: {tokens}")


def raised(mutex, fence):
    return subprocess.run([sys.argv[2], os.environ["SIMBA_URL"], mutex, str(fence)], check=True,
                          stdout=subprocess.PIPE, text=True).stdout.strip()


@THE.case
def tokens_begin_above_what_they_were_raised_to(prefix):
    if not REMEMBERS:
        contains(raised(prefix + "a", 7), "its tokens are numbers of its own")
        return
    for mutex, used in ((prefix + "new", False), (prefix + "used", True)):
        fence = (token(mutex) if used else 0) + 2000000000000000
        equal(raised(mutex, fence), "raised")
        true(token(mutex) > fence, "it begins above")
        equal(raised(mutex, 1), "raised")  # which is less: nothing goes back
        true(token(mutex) > fence + 1, "it does not go back")
    if sys.argv[1] != "sqlite":  # which has one floor for all
        holder = hold(prefix + "held")
        equal(raised(prefix + "held", 3000000000000000), "in use")
        let_go(holder)


@THE.case
def status_shows_what_is_held_and_by_whom(prefix):
    token(prefix + "free")
    holder = hold(prefix + "held", "--note", "nightly run")
    heading, row = out("status", prefix + "*").splitlines()
    equal(heading.split(), ["MUTEX", "OWNER", "HOST", "SINCE", "LEASE", "FENCE", "WAITERS", "NOTE"])
    equal(row.split()[0], prefix + "held")
    owner = json.loads(out("status", "--json", prefix + "held"))[0]["owner"]
    name, _, rest = owner.partition("@")
    host, _, random = rest.partition("~")
    equal(row.split()[1], f"{name}~{random.split()[0]}")
    equal(row.split()[2], host)
    true(row.endswith("nightly run"), row)
    shown = on_a_terminal("status", prefix + "held").splitlines()
    row = next(line for line in shown if line.startswith(prefix))
    true(len(row.partition("nightly run")[0]) <= 80, f"it fits into a terminal: {row}")
    equal(row.split()[:3], [prefix + "held", f"{name}~{random.split()[0]}", host])
    if REMEMBERS:
        contains(out("status", "--all"), prefix + "free")
        equal(names(prefix), [prefix + "free", prefix + "held"])
        equal(names(prefix, "--held"), [prefix + "held"])
    contains(out("status", prefix + "free"), prefix + "free")
    let_go(holder)


@on_stores_that_remember
def status_shows_since_when_it_is_held_whatever_the_tokens_are(prefix):
    """Tokens of Redis are times of the day unless there were larger ones; and a name may have been forgotten."""
    def held_s(mutex):
        return json.loads(out("status", "--json", mutex))[0]["held_ms"] / 1000

    mutex = prefix + "m"
    for fence in (1, 3000000000000000):
        equal(raised(mutex, fence), "raised")
        begin = time.monotonic()
        holder = hold(mutex)
        wait_until(lambda: held_s(mutex) > 1, "it has been held for more than a second")
        true(held_s(mutex) <= time.monotonic() - begin, "it has been held since before")
        true(0 <= json.loads(out("status", "--json", mutex + "*"))[0]["held_ms"] / 1000 <= time.monotonic() - begin,
             "the list says something else")
        let_go(holder)
        if fence == 1:
            removed(mutex)


@THE.case
def watch_without_names_follows_new_ones_too(prefix):
    before = hold(prefix + "before")
    watch = Simba("watch")
    wait_until(lambda: f"{prefix}before  owned by " in read(watch.out), "it tells of what is held")
    let_go(before)
    wait_until(lambda: f"{prefix}before  free, was owned by " in read(watch.out), "it tells of the release")
    after = hold(prefix + "after")
    wait_until(lambda: f"{prefix}after  owned by " in read(watch.out), "it finds the new one")
    let_go(after)
    wait_until(lambda: f"{prefix}after  free, was owned by " in read(watch.out), "it follows the new one")
    equal(watch.end(), 0)


@case
def prune_wants_to_be_told_for_how_long():
    program = run("prune")
    equal(program.wait(), 64)
    contains(program.said(), "--unused-for 30d")


if __name__ == "__main__":
    sys.exit(THE.main())
