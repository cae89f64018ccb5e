#!/usr/bin/env python3
"""A server in the place of PostgreSQL answers something else than it was asked: too few columns, too many rows or results,
half a message, a proof of the password that takes hours. The client leaves it, and neither crashes nor hangs nor fills the
memory.
"""
import base64
import contextlib
import os
import struct
import sys
import time

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path += [os.path.join(TESTS, "lib"), os.path.join(TESTS, "cli")]
from program import Simba, case, contains, equal, limit_memory, main, now, read, run, true, wait_until
from postgres_fake import (DONE, PATH, SASL, SASL_CONTINUE, TABLE, Answering, FakeServer, ask_for, columns, end,
                           message, one_row, row)

LOCK = ["lock", "-n", "m", "--", "true"]
COPIES = [message(kind, b"\0\0\1\0\0") for kind in (b"G", b"H", b"W")]


def url(fake, more="connect-timeout=5s&timeout=5s"):
    return f"postgres://u:secret@127.0.0.1:{fake.port}/d?{more}"


@case
def a_server_that_answers_as_it_was_asked_is_used():
    """The test itself: what the other cases see is what they change."""
    with Answering() as fake:
        equal(run("-u", url(fake), "status").code, 0)
        equal(run("-u", url(fake), *LOCK).code, 75)


@case
def answers_of_another_shape_are_refused():
    nothing = columns(0) + message(b"D", b"\0\0") + end()
    odd = [("current_schema", answer, "status") for answer in
           (columns(2) + end(), one_row("x"), DONE, nothing, PATH + PATH, columns(2) + row("a", "b") * 2 + end())]
    odd += [("to_regclass", answer, "status") for answer in (one_row("public"), nothing, DONE, TABLE + end(), *COPIES)]
    odd += [("ORDER BY mutex", answer, "status") for answer in (nothing, one_row("m", "a", "1"), DONE, *COPIES)]
    odd += [("UPDATE", answer, "lock") for answer in (nothing, DONE, columns(1) + end() + end(), *COPIES)]
    with contextlib.ExitStack() as stack:
        started = []
        for statement, answer, verb in odd:
            fake = stack.enter_context(Answering({statement: answer}))
            started.append((Simba("-u", url(fake), *(LOCK if verb == "lock" else [verb])), statement, answer))
        for client, statement, answer in started:
            code = client.wait()
            true(code > 0, f"{statement}: {answer}: ended by signal {-code}")
            contains(client.said(), "answers something else than it was asked")


@case
def the_connection_that_hears_of_releases_is_left_as_well():
    for chat in (columns(0) + message(b"D", b"\0\0") + end(), *COPIES):
        with Answering(chat=chat) as fake:
            waiter = Simba("-u", url(fake), "--log-level", "info", "lock", "m", "--", "true")
            wait_until(lambda: "the client polls for releases" in waiter.said(), "it has tried to listen")
            equal(waiter.end(), 143)


MOST, LEAST = str(2**63 - 1), str(-2**63)


@case
def times_at_the_ends_of_the_numbers_are_held_there():
    """Sums of them must not turn round: a lease without an end would have ended."""
    with Answering({"ORDER BY mutex": one_row("m", "another", MOST, MOST, MOST, "1", "-9", "0", "0")}) as fake:
        client = run("-u", url(fake), "status")
        equal(client.code, 0)
        contains(read(client.out), "another")
    with contextlib.ExitStack() as stack:
        started = []
        for times in ((MOST, MOST, MOST, LEAST), (LEAST, LEAST, LEAST, MOST), ("0", LEAST, MOST, "-1")):
            owned = one_row("m", "another", *times[:3], MOST, times[3], MOST, MOST)
            fake = stack.enter_context(Answering({"RETURNING": owned, "ORDER BY mutex": owned, "WHERE mutex": owned}))
            started += [Simba("-u", url(fake), *command) for command in (
                ["status"], ["status", "--json", "m"], ["lock", "-w", "300ms", "m", "--", "true"],
                ["lock", "--exact-id", "another", "-w", "300ms", "m", "--", "true"])]
        for client in started:
            true(client.wait() >= 0 and "runtime error" not in client.said(), client.said())


# ---- Logging in -----------------------------------------------------------------------------------


def ask_for_iterations(count):
    def talk(fake):
        fake.say(ask_for(SASL, b"SCRAM-SHA-256\0\0"))
        nonce = fake.take().split(b"r=")[1]
        fake.say(ask_for(SASL_CONTINUE, b"r=" + nonce + b"XYZ,s=" + base64.b64encode(b"salt") + b",i=" + count))
        fake.proof = fake.take()
    return talk


@case
def a_proof_of_the_password_that_takes_hours_is_refused():
    for count in (b"2147483647", b"4294967295000", b" +1000001", b"-2294967296", b"0"):
        with FakeServer(ask_for_iterations(count)) as fake:
            client = run("-u", url(fake), "status")
            equal(client.code, 77)
            contains(client.said(), "iterations")


@case
def a_proof_that_takes_a_moment_is_given():
    with FakeServer(ask_for_iterations(b"4096")) as fake:
        true(run("-u", url(fake), "status").code != 0, "the server is no server")
        contains(fake.proof.decode(), ",p=")


HALF_MESSAGES = [b"R", b"R\0\0", b"R\0\0\0\x20\0\0", b"R\0\0\7\xd0\0\0\0\x0a" + b"x" * 500]


def stop_in_the_middle(half):
    def talk(fake):
        fake.say(half)
        fake.take()  # until the client leaves
    return talk


@case
def a_server_that_stops_in_the_middle_of_a_login_message_is_left_at_the_connect_timeout():
    begin = now()
    with contextlib.ExitStack() as stack:
        started = []
        for half in HALF_MESSAGES:
            for verb in (["status"], LOCK, ["bench", "cycle"]):
                fake = stack.enter_context(FakeServer(stop_in_the_middle(half)))
                started.append(Simba("-u", url(fake, "connect-timeout=2s"), *verb))
        for client in started:
            equal(client.wait(), 69)
            contains(client.said(), "cannot connect in time")
    true(now() - begin < 10, f"{now() - begin:.1f} s")


class HalfLogin(Answering):
    """Lets the first connection in, which contends, and stops in the middle of the login of all others."""

    def __init__(self):
        super().__init__()
        self.talk = HalfLogin._stop_or_answer

    def _stop_or_answer(self):
        if self.connections > 1:
            stop_in_the_middle(HALF_MESSAGES[2])(self)
        self._answer()


@case
def so_is_it_by_the_connection_that_hears_of_releases():
    with HalfLogin() as fake:
        waiter = Simba("-u", url(fake, "connect-timeout=1s"), "--log-level", "info", "lock", "m", "--", "true")
        wait_until(lambda: "the client polls for releases" in waiter.said(), "it has tried to listen")
        equal(waiter.end(), 143)


# ---- Memory ---------------------------------------------------------------------------------------


def status_in(fake, mebibytes):
    return run("-u", url(fake, "timeout=40s"), "status", "--json", preexec_fn=limit_memory(mebibytes))


def say_rows(fake, count):
    few = row(*[""] * 2, *["0"] * 7) * 1000
    fake.say(columns(9))
    for _ in range(count // 1000):
        fake.say(few)
    fake.say(end())


@case
def a_long_list_is_taken_however_much_of_it_waits():
    """It comes faster than it is read."""
    with Answering({"ORDER BY mutex": lambda fake: say_rows(fake, 300000)}) as fake:
        equal(status_in(fake, 1536).code, 0)


@case
def a_list_of_more_than_a_million_rows_is_refused():
    with Answering({"ORDER BY mutex": lambda fake: say_rows(fake, 1100000)}) as fake:
        client = status_in(fake, 1536)
        equal(client.code, 69)
        true("the server sends data that the client did not ask for" in client.said() or
             "did not answer within" in client.said(), client.said())  # a slow machine takes long for so many


@case
def a_row_without_end_in_the_list_is_refused():
    def talk(fake):
        fake.say(columns(9), row(*["0"] * 9), b"D", struct.pack(">IHI", 0x0fffffff, 9, 0x0ffffff0))
        while True:
            fake.say(bytes(65536))
    with Answering({"ORDER BY mutex": talk}) as fake:
        client = status_in(fake, 512)
        equal(client.code, 69)
        true("the server sends data that the client did not ask for" in client.said() or
             "insufficient data" in client.said() or  # libpq may take in a row as long as it claims to be,
             "cannot allocate memory for input buffer" in client.said(), client.said())  # up to the limit of this test


NOTE = message(b"A", struct.pack(">I", 7) + b"simba_mutex\0other\0")


def settings(seed, count):
    """Of ever new names, 29,000 bytes each: libpq keeps all of them."""
    return b"".join(message(b"S", b"%d.%d\0" % (seed, i) + b"v" * 29000 + b"\0") for i in range(count))


def say_between_rows(make):
    """350 MB, never much between two rows."""
    def talk(fake):
        fake.say(columns(9))
        for i in range(6000):
            fake.say(make(i), row(f"m{i}", "", *["0"] * 6))
        fake.say(end())
    return talk


@case
def what_comes_between_the_rows_of_a_list_is_limited():
    for make in (lambda i: settings(i, 2), lambda _: message(b"A", bytes(4) + b"c\0" + b"x" * 58000 + b"\0")):
        with Answering({"ORDER BY mutex": say_between_rows(make)}) as fake:
            client = status_in(fake, 256)
            equal(client.code, 69)
            contains(client.said(), "the server sends data that the client did not ask for")


@case
def a_connection_that_fills_up_is_replaced():
    """Each answer is below all limits. The waiter comes again and again, because the lease is always about to end."""
    filled = {}  # by connection, in answers with a mebibyte each

    def talk(fake):
        soon = int(time.time() * 1000) + 20
        filled[fake] = filled.get(fake, 0) + 1
        fake.say(settings(filled[fake], 36), one_row("m", "another", "1", str(soon), str(soon), "1", str(soon - 20), "0", "0"))
    with Answering({"RETURNING": columns(9) + end("UPDATE 0"), "WHERE mutex": talk}, chat=one_row("7")) as fake:
        waiter = Simba("-u", url(fake), "lock", "m", "--", "true")
        wait_until(lambda: sum(filled.values()) >= 24, "it has asked often")
        equal(waiter.end(), 143)
    true(max(filled.values()) <= 17, f"{max(filled.values())} answers over one connection")


class Loud(Answering):
    """Talks all the time to a client that listens: a release, and settings."""

    def _answer_simply(self, statement):
        self.say(one_row("7") + message(b"Z", b"I"))
        for i in range(1000 if b"LISTEN" in statement else 0):
            self.say(settings(i, 8), NOTE)


@case
def the_connection_that_hears_of_releases_is_left_when_it_fills_up():
    with Loud() as fake:
        waiter = Simba("-u", url(fake), "--log-level", "info", "lock", "m", "--", "true")
        wait_until(lambda: "the server sends data that the client did not ask for" in waiter.said(), "it is left")
        equal(waiter.end(), 143)


if __name__ == "__main__":
    sys.exit(main())
