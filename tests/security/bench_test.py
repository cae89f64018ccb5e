#!/usr/bin/env python3
"""Hostile servers and the plain clients of `simba bench`, which use the client libraries without Simba's backends. A relay
in front of a real server passes all on, but for what a case twists. Bench ends with an error: it does not crash, wait for
ever, fill the memory or show the password.
"""
import contextlib
import itertools
import os
import socket
import struct
import sys
import threading

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path += [os.path.join(TESTS, "lib"), os.path.join(TESTS, "cli")]
from postgres_fake import columns, pump, row
from program import Simba, case, contains, equal, limit_memory, main, now, read, run, true
from servers import Mariadb, Postgres, Redis

BENCH = ["bench", "--count", "2", "--rounds", "1", "cycle"]
SECRET = "s3cr3t-w0rd"
UNAVAILABLE, TIMED_OUT = 69, 75


class Relay:
    """`twist` is given what a client sends; what it returns is sent back in the place of an answer, piece by piece. None:
    the server answers. `twisted` counts those, and `sent` the bytes of their pieces."""

    def __init__(self, port, twist):
        self.behind, self.twist, self.twisted, self.sent = port, twist, 0, 0
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=16)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self.serve, args=(self.listener.accept()[0],), daemon=True).start()

    def serve(self, client):
        with contextlib.suppress(OSError), client, socket.create_connection(("127.0.0.1", self.behind)) as server:
            threading.Thread(target=pump, args=(server, client), daemon=True).start()
            while data := client.recv(65536):
                pieces = self.twist(data)
                if pieces is None:
                    server.sendall(data)
                    continue
                self.twisted += 1
                for piece in pieces:
                    client.sendall(piece)
                    self.sent += len(piece)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


@contextlib.contextmanager
def served(kind):
    """None where there is no such server, or no backend for it."""
    stores = os.environ.get("SIMBA_STORES", "").split()
    if kind.missing() or kind.__name__.lower() not in stores:
        yield None
        return
    server = kind()
    server.start()
    try:
        yield server
    finally:
        server.stop()


def without_end(piece):
    while True:
        yield piece


# ---- Redis ----------------------------------------------------------------------------------------


def twist_redis(command, *pieces):
    return lambda data: pieces if command in data else None


LONG_NAME = b"$1048576\r\n" + b"x" * 1048576 + b"\r\n"
REDIS = {
    "no list": (twist_redis(b"MATCH", b":1\r\n"), "something else than it was asked"),
    "a list of one": (twist_redis(b"MATCH", b"*1\r\n$1\r\n0\r\n"), "something else than it was asked"),
    "a cursor that is none": (twist_redis(b"MATCH", b"*2\r\n:0\r\n:0\r\n"), "something else than it was asked"),
    "keys without names": (twist_redis(b"MATCH", b"*2\r\n$1\r\n0\r\n*2\r\n:1\r\n$-1\r\n"), None),
    "a scan without end": (twist_redis(b"MATCH", b"*2\r\n$1\r\n7\r\n*0\r\n"), "does not end"),
    "a list without end": (lambda data: without_end(b"*2\r\n$1\r\n0\r\n*100000000\r\n" + b"$1\r\nx\r\n" * 1000)
                           if b"MATCH" in data else None, "too long or malformed"),
    "a line without end": (lambda data: without_end(b"+" + b"x" * 100000) if b"MATCH" in data else None,
                           "too long or malformed"),
    "long names without end": (lambda data: itertools.chain([b"*2\r\n$1\r\n0\r\n*200000\r\n"], without_end(LONG_NAME))
                               if b"MATCH" in data else None, "too long or malformed"),
    "no statistics": (twist_redis(b"commandstats", b":1\r\n"), None),
    "no hash of a script": (twist_redis(b"\r\nLOAD\r\n", b":1\r\n"), "something else than it was asked"),
}


@case
def the_plain_client_of_redis_leaves_a_server_that_lies():
    with served(Redis) as server, contextlib.ExitStack() as stack:
        if server is None:
            return
        started = []
        for name, (twist, why) in REDIS.items():
            relay = stack.enter_context(Relay(server.port, twist))
            program = Simba("-u", f"redis://127.0.0.1:{relay.port}", *BENCH, preexec_fn=limit_memory(512))
            started.append((name, relay, program, why))
        for name, relay, program, why in started:
            code = program.wait()
            equal((name, code), (name, code if why and code in (UNAVAILABLE, TIMED_OUT) else 0))
            contains(program.said(), why or "")
            true(relay.twisted > 0 or name == "no statistics", f"{name}: nothing was twisted")
            true(relay.sent < 64 << 20, f"{name}: it took {relay.sent >> 20} MiB in")  # 16, and what the kernel keeps


@case
def nor_does_it_show_what_a_server_says_about_the_password():
    """The backend's own client is let in: it logs in together with other commands."""
    def twist(data):
        if b"AUTH" not in data:
            return None
        count = data.count(b"*") - data.count(b"* ")
        return [b"+OK\r\n" * count] if count > 1 else [f"-ERR unknown command 'AUTH', with args '{SECRET}'\r\n".encode()]
    with served(Redis) as server:
        if server is None:
            return
        with Relay(server.port, twist) as relay:
            program = run("-u", f"redis://:{SECRET}@127.0.0.1:{relay.port}", *BENCH)
            true(program.code != 0, "the password was refused")
            contains(program.said(), "takes no password")
            true(SECRET not in program.said() + read(program.out), "the password is shown")


# ---- SQL ------------------------------------------------------------------------------------------


def is_own(data):
    """Only the plain clients delete rows of mutexes, and only that of PostgreSQL asks by the simple protocol."""
    return (b"DELETE FROM" in data and b"simba_waiter" not in data) or (data[:1] == b"Q" and b"to_regclass" in data)


@contextlib.contextmanager
def ends(url, why):
    """Starts the benchmark; behind the block it ends in time, and says why."""
    begin = now()
    program = Simba("-u", url, *BENCH, preexec_fn=limit_memory(1024))
    yield
    code = program.wait()
    true(code in (UNAVAILABLE, TIMED_OUT), f"{code}: {program.said()}")
    contains(program.said(), why)
    true(now() - begin < 50, f"{now() - begin:.0f} s")


@case
def the_plain_client_of_postgresql_leaves_a_server_that_is_silent_or_floods():
    rows = row("x" * 8000) * 100
    with served(Postgres) as server, contextlib.ExitStack() as stack:
        if server is None:
            return
        for twist, why in ((lambda data: [] if is_own(data) else None, "did not answer in time"),
                           (lambda data: (columns(1) if i == 0 else rows for i, _ in enumerate(without_end(b"")))
                            if is_own(data) else None, "data that the client did not ask for"),
                           (lambda data: without_end(struct.pack(">cIBH", b"G", 7, 0, 0)) if is_own(data) else None, "by hand")):
            relay = stack.enter_context(Relay(server.port, twist))
            stack.enter_context(ends(f"postgres://simba@127.0.0.1:{relay.port}/simba?tls=off", why))


@case
def the_plain_client_of_mysql_leaves_a_server_that_is_silent():
    with served(Mariadb) as server:
        if server is None:
            return
        with Relay(server.port, lambda data: [] if is_own(data) else None) as relay:
            with ends(f"mysql://root@127.0.0.1:{relay.port}/simba", "by hand"):
                pass


if __name__ == "__main__":
    sys.exit(main())
