#!/usr/bin/env python3
"""`simba release`: a mutex is taken from its owner, who learns of it, and the next waiter gets it."""
import json
import os
import shutil
import sys

from program import (Simba, case, contains, equal, is_free, main, now, number, read,
                     run, true, wait_until)
from stores import Redis


def ask(server, command):
    """The answer of a Redis server, where it is one line."""
    server.socket.sendall(command.encode() + b"\r\n")
    return server.socket.recv(4096).decode().strip()


def hold(contender="holder"):
    """A command that runs under the mutex until it is told to end."""
    program = Simba("--exact-id", contender, "lock", "m", "--", "sh", "-c",
                    f"echo $$ >{contender}.new; mv {contender}.new {contender}; exec sleep 100")
    number(contender)
    return program


def check_take_over():
    """On whatever store SIMBA_URL names. The lease is long, so that only the release can end it soon."""
    holder = hold()
    waiter = Simba("--exact-id", "waiter", "lock", "m", "--", "sh", "-c", "echo $SIMBA_FENCE >won")
    wait_until(lambda: "waiting" in waiter.said(), "the waiter waits")
    begin = now()
    released = run("release", "m", "--force", "--json")
    equal(released.code, 0)
    told = json.loads(read(released.out))
    equal((told["mutex"], told["released"], told["owner"]), ("m", True, "holder"))
    number("won")
    equal(waiter.wait(), 0)
    true(now() - begin < 10, f"the waiter came after {now() - begin} s")
    equal(holder.wait(), 70)
    true(now() - begin < 15, f"the owner learned of it after {now() - begin} s")
    true(is_free(), "somebody owns it")


def with_times(url, ttl="2s", transition="60s"):
    return url.replace("ttl=400ms", f"ttl={ttl}").replace("transition=600ms",
                                                          f"transition={transition}")


@case
def on_sqlite_the_owner_loses_it_and_the_waiter_wins():
    os.environ["SIMBA_URL"] = with_times(os.environ["SIMBA_URL"])
    check_take_over()


@case
def on_redis_the_owner_loses_it_and_the_waiter_wins():
    if shutil.which("redis-server") is None:
        return
    server = Redis()
    os.environ["SIMBA_URL"] = with_times(server.url)
    try:
        check_take_over()
    finally:
        server.stop()


@case
def on_redis_it_is_taken_from_an_owner_of_the_jvm_library():
    if shutil.which("redis-server") is None:
        return
    server = Redis()
    os.environ["SIMBA_URL"] = server.url
    try:
        equal(ask(server, "SET simba:{m} 0:1@10.0.0.1 PX 60000"), "+OK")
        released = run("release", "m", "--force")
        equal(released.code, 0)
        contains(read(released.out), "m has been taken from 0:1@10.0.0.1")
        equal(ask(server, "EXISTS simba:{m}"), ":0")
    finally:
        server.stop()


GONE = "'m' was lost before the command ended: another process may have run meanwhile"


def hold_until_told():
    """A command that runs under the mutex until the file `end` is there."""
    program = Simba("--exact-id", "holder", "lock", "m", "--", "sh", "-c",
                    "echo $$ >holder.new; mv holder.new holder; "
                    "while ! test -e end; do sleep 0.02; done")
    number("holder")
    return program


def check_end_after_a_loss(lose, other="other"):
    """The owner's first renewal would come in a minute, so that only the release can find the loss."""
    holder = hold_until_told()
    lose()
    equal(run("--exact-id", other, "lock", "m", "--", "true").code, 0)
    with open("end", "w", encoding="utf-8"):
        pass
    equal(holder.wait(), 70)
    equal([line for line in holder.said().splitlines() if "was lost before" in line],
          [f"simba: {GONE}"])
    os.unlink("end")
    os.unlink("holder")
    ended = run("lock", "m", "--", "true")
    equal((ended.code, ended.said()), (0, ""))


def release_by_force():
    equal(run("release", "m", "--force").code, 0)


@case
def a_command_that_ends_after_the_mutex_was_taken_away_fails():
    os.environ["SIMBA_URL"] = with_times(os.environ["SIMBA_URL"], "60s")
    check_end_after_a_loss(release_by_force)
    check_end_after_a_loss(lambda: None, "holder")


@case
def on_redis_a_command_that_ends_after_the_mutex_was_taken_away_fails():
    if shutil.which("redis-server") is None:
        return
    server = Redis()
    os.environ["SIMBA_URL"] = with_times(server.url, "60s")
    try:
        check_end_after_a_loss(release_by_force)
        check_end_after_a_loss(lambda: equal(ask(server, "FLUSHALL"), "+OK"))
        check_end_after_a_loss(lambda: None, "holder")
    finally:
        server.stop()


@case
def a_leader_that_ends_after_the_mutex_was_taken_away_warns():
    os.environ["SIMBA_URL"] = with_times(os.environ["SIMBA_URL"], "60s")
    leader = Simba("lead", "m", "--", "sh", "-c", "echo $$ >led.new; mv led.new led; exec sleep 100")
    number("led")
    release_by_force()
    equal(leader.end(), 0)
    contains(leader.said(), "warning: 'm' was lost before it was released: another process may have led meanwhile")


@case
def an_owner_that_renews_all_the_time_is_released():
    os.environ["SIMBA_URL"] = with_times(os.environ["SIMBA_URL"], "1ms", "60s")
    holder = hold()
    equal(run("release", "m", "-f").code, 0)
    equal(holder.wait(), 70)


@case
def the_text_says_what_was_taken_from_whom():
    holder = hold("the-owner")
    released = run("release", "m", "--force")
    equal(released.code, 0)
    contains(read(released.out), "m has been taken from the-owner, fence ")
    holder.wait()


@case
def a_mutex_that_is_free_is_no_error():
    equal(run("lock", "m", "--", "true").code, 0)
    for name in ("m", "never-seen"):
        released = run("release", name, "--force")
        equal(released.code, 0)
        contains(read(released.out), f"{name} is free")
        released = run("release", name, "--force", "--json")
        told = json.loads(read(released.out))
        equal(told, {"mutex": name, "released": False, "owner": "", "fence": None})


@case
def without_force_nothing_is_taken():
    holder = hold()
    refused = run("release", "m")
    equal(refused.code, 64)
    contains(refused.said(), "--force")
    true(not is_free(), "it was taken")
    holder.end()


@case
def wrong_command_lines_and_names_are_told():
    equal(run("release", "--force").code, 64)
    equal(run("release", "a", "b", "--force").code, 64)
    equal(run("release", " ", "--force").code, 78)
    equal(run("-u", "sqlite:missing.db", "release", "m", "--force").code, 69)
    true(not os.path.exists("missing.db"), "the file was created")


if __name__ == "__main__":
    sys.exit(main())
