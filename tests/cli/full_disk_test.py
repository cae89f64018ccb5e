#!/usr/bin/env python3
"""A full disk under an SQLite store: a running command lives on, and a client that needs room says what is wrong.

The disk is a file system of its own, in a mount namespace of the test's own.
"""
import contextlib
import os
import sqlite3
import subprocess
import sys

import program
from program import Simba, Skipped, case, contains, equal, lines, run, true, url, wait_until

OWN = "SIMBA_TEST_OWN_MOUNTS"
HOLD = ["sh", "-c", "echo $SIMBA_FENCE >held.new; mv held.new held; exec sleep 100"]
LEASE = {"ttl": "100ms", "transition": "600ms"}
RENEWALS = 40  # each is a page in the log: more than the log had room for when the disk became full


@contextlib.contextmanager
def small_disk():
    """A disk of 2 MB for the store."""
    if os.environ[OWN] != "yes":
        raise Skipped(os.environ[OWN])
    os.mkdir("disk")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=700", "none", "disk"], check=True)
    os.environ["SIMBA_URL"] = url("disk/store.db", **LEASE)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", "disk"], check=True)


def fill():
    """To the last byte: another file takes every page that is left."""
    with open("disk/filler", "wb", buffering=0) as filler:
        for size in (1 << 16, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while filler.write(b"x" * size) == size:
                    pass
    equal(os.statvfs("disk").f_bfree, 0)


def renewals(mutex="m"):
    """The version of the record, which each renewal raises."""
    store = sqlite3.connect("disk/store.db", timeout=program.PATIENCE)
    with contextlib.closing(store):
        return store.execute("SELECT version FROM simba_mutex WHERE mutex = ?", (mutex,)).fetchone()[0]


@case
def a_command_lives_on_while_the_disk_is_full_and_nobody_else_gets_its_mutex():
    with small_disk():
        owner = Simba("lock", "m", "--", *HOLD)
        wait_until(lambda: lines("held"), "the owner")
        waiter = Simba("lock", "m", "--", "sh", "-c", "date >got")
        wait_until(lambda: "waiting for 'm'" in waiter.said(), "the waiter")
        fill()
        before = renewals()
        wait_until(lambda: renewals() >= before + RENEWALS or owner.process.poll() is not None, "renewals")
        equal(owner.process.poll(), None)
        equal(owner.said(), "")
        true(not os.path.exists("got"), "the waiter got the mutex of an owner that believes")
        os.unlink("disk/filler")
        owner.end()
        equal(waiter.wait(), 0)
        equal(run("lock", "-n", "m", "--", "true").code, 0)


@case
def a_new_store_on_a_full_disk_is_refused_with_the_reason():
    with small_disk():
        fill()
        got = run("lock", "m", "--", "true")
        equal(got.code, 69)
        contains(got.said(), "full")
        os.unlink("disk/filler")
        equal(run("lock", "m", "--", "true").code, 0)


@case
def a_full_disk_keeps_nobody_from_a_mutex_that_is_or_becomes_free():
    with small_disk():
        owner = Simba("lock", "m", "--", *HOLD)
        wait_until(lambda: lines("held"), "the owner")
        fill()
        for name in ["new", "other", *["again"] * 20]:
            equal(run("lock", "-n", name, "--", "true").code, 0)
        equal(run("lock", "-n", "m", "--", "true").code, 75)
        waiter = Simba("lock", "m", "--", "true")
        wait_until(lambda: "waiting for 'm'" in waiter.said(), "the waiter")
        equal(owner.end(), 143)
        equal(waiter.wait(), 0)
        equal(owner.said(), "")


def enter_own_mounts():
    """Runs this file again in a mount namespace of its own, or notes why that cannot be."""
    try:
        begin = program.own_mounts()
        reason = "yes"
    except Skipped as skipped:
        begin, reason = ["env"], str(skipped)
    os.environ[OWN] = reason
    os.execvp(begin[0], [*begin, sys.executable, *sys.argv])


if __name__ == "__main__":
    if OWN not in os.environ:
        enter_own_mounts()
    sys.exit(program.main())
