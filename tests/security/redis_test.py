#!/usr/bin/env python3
"""Redis and those who are not to be trusted: users with few rights on a real server, and servers that lie."""
import os
import socket
import sys
import threading
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))
from program import Simba, case, contains, equal, limit_memory, main, now, number, read, run, true, wait_until
from resp import Client, read_value
from servers import Redis, free_port

LEASE_OPTIONS = "ttl=20s&transition=10s&jitter=0ms..50ms"
DAY_US = 86400 * 1000 * 1000
HOLD = "echo $SIMBA_FENCE >owner.new; mv owner.new owner; exec sleep 600"
STEAL = "echo $SIMBA_FENCE >second.new; mv second.new second"


class Served:
    """A server with its administrator, and with a user that may do nothing but PUBLISH."""

    def __enter__(self):
        self.server = Redis()
        self.server.start()
        self.admin = Client(self.server.port)
        self.admin.ask("ACL", "SETUSER", "speaker", "on", ">secret", "resetkeys", "&*", "-@all", "+publish", "+select")
        self.speaker = Client(self.server.port, "speaker", "secret")
        return self

    def __exit__(self, *unused):
        self.speaker.close()
        self.admin.close()
        self.server.stop()

    def url(self, database=0):
        return f"redis://127.0.0.1:{self.server.port}/{database}?{LEASE_OPTIONS}"

    def now_us(self):
        seconds, micros = self.admin.ask("TIME")
        return int(seconds) * 1000000 + int(micros)

    def calls(self, command):
        stats = self.admin.ask("INFO", "commandstats")
        found = [line for line in stats.split() if line.startswith(f"cmdstat_{command}:calls=")]
        return int(found[0].split("=")[1].split(",")[0]) if found else 0

    def channel(self):
        """Of the only waiter, once it listens."""
        return wait_until(lambda: self.admin.ask("PUBSUB", "CHANNELS", "simba:{m}:*"), "a waiter listens")[0]


FORGERIES = ("released@@x", "released@@", "reserved@@x", "reserved@@", "acquired@@x", "handed@@", "released@@" + "x" * 100000)


@case
def a_user_with_nothing_but_publish_makes_no_second_owner():
    with Served() as served:
        owner = Simba("--url", served.url(), "lock", "m", "--", "sh", "-c", HOLD)
        token = number("owner")
        waiter = Simba("--url", served.url(), "lock", "m", "--", "sh", "-c", STEAL)
        channel = served.channel()
        before = served.admin.ask("GET", "simba:{m}")
        for text in FORGERIES:
            attempts = served.calls("evalsha")
            equal(served.speaker.ask("PUBLISH", channel, text), 1)
            served.speaker.ask("PUBLISH", "simba:{m}", text)
            if text.startswith("re"):
                wait_until(lambda: served.calls("evalsha") > attempts or os.path.exists("second"), "the waiter looks")
            true(not os.path.exists("second"), f"a second command runs after {text[:100]!r}")
            equal(served.admin.ask("GET", "simba:{m}"), before)
        equal(int(served.admin.ask("GET", "simba:{m}:fence")), token)
        owner.end()
        equal(waiter.wait(), 0)
        true(token < int(read("second")) < served.now_us() + DAY_US, "the token of the second term")


@case
def a_flood_of_messages_makes_a_waiter_look_once_in_a_round_trip():
    with Served() as served:
        owner = Simba("--url", served.url(), "lock", "m", "--", "sh", "-c", HOLD)
        number("owner")
        waiter = Simba("--url", served.url(), "lock", "m", "--", "sh", "-c", STEAL)
        channel = served.channel()
        wait_until(lambda: served.calls("evalsha") + served.calls("eval") >= 3, "the waiter has looked twice")
        before = served.calls("evalsha")
        # All at once, so that no attempt is answered between two of them.
        served.admin.ask("EVAL", "for i = 1, ARGV[2] do redis.call('PUBLISH', ARGV[1], 'released@@x') end", 0, channel, 2000)
        wait_until(lambda: served.calls("evalsha") > before, "the waiter looks")
        owner.end()
        equal(waiter.wait(), 0)
        true(served.calls("evalsha") - before < 200, f"{served.calls('evalsha') - before} attempts")


# ---- Servers that lie ------------------------------------------------------------------------

class Liar:
    """A server that answers each command with what `answer` makes of its words; what it says need make no sense. It
    counts its connections."""

    def __init__(self, answer, address="127.0.0.1"):
        self.answer = answer
        self.listener = socket.create_server((address, free_port()), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.connections = 0
        self.stopped = False
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        try:
            with client, client.makefile("rb") as file:
                while (words := read_value(file)) is not None:
                    for piece in self.answer(words):
                        if self.stopped:
                            return
                        client.sendall(piece)
        except OSError:
            pass  # it was hung up on

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.stopped = True
        self.listener.shutdown(socket.SHUT_RDWR)  # ends the accept, which would keep it open
        self.listener.close()


def answer_greeting(words):
    return {"PING": b"+PONG\r\n", "CLIENT": b"+OK\r\n"}.get(words[0])


def peak_memory_mb(program):
    """Of a process that lives."""
    found = [line for line in read(f"/proc/{program.pid}/status").split("\n") if line.startswith("VmHWM:")]
    return int(found[0].split()[1]) / 1024


def slots(count, port):
    """The map of a cluster of so many masters, all at one port and different hosts."""
    return b"*%d\r\n" % count + b"".join(
        b"*3\r\n:%d\r\n:%d\r\n*2\r\n$%d\r\n%s\r\n:%d\r\n"
        % (i * 16384 // count, (i + 1) * 16384 // count - 1, len(host), host, port)
        for i in range(count) for host in [b"127.1.%d.%d" % (i // 250, i % 250)])


@case
def a_map_of_too_many_masters_is_refused():
    def answer(words):
        yield slots(16384, 1) if words[0] == "CLUSTER" and words[1] == "SLOTS" else b"+OK\r\n"
    with Liar(answer) as liar:
        program = run("--url", f"redis+cluster://127.0.0.1:{liar.port}", "lock", "-n", "m", "--", "true")
        equal(program.code, 69)
        contains(program.said(), "more than 1000 masters")


@case
def masters_are_connected_to_when_they_are_needed():
    """All of them are the liar itself, which listens on all addresses of the loopback."""
    def answer(words):
        if words[0] == "CLUSTER" and words[1] == "SLOTS":
            yield slots(1000, liar.port)
        else:
            asked.append(words[0])
            yield b"-CLUSTERDOWN no\r\n" if words[0].startswith("EVAL") else b"+OK\r\n"
    asked = []
    with Liar(answer, "0.0.0.0") as liar:
        program = Simba("--url", f"redis+cluster://127.0.0.1:{liar.port}?command-timeout=1s", "lead", "m", "--", "true")
        wait_until(lambda: sum(word.startswith("EVAL") for word in asked) >= 3, "it has asked for the mutex")
        memory = peak_memory_mb(program)
        program.end()
        true(liar.connections < 50, f"{liar.connections} connections")
        true(memory < 100, f"{memory:.0f} MB")


@case
def a_list_that_does_not_end_is_left():
    def answer(words):
        if words[0] != "SCAN":
            yield {"ROLE": b"*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"}.get(words[0], b"+OK\r\n")
            return
        scans.append(words)
        keys = [b"simba:{%d-%d}" % (len(scans), i) for i in range(50000)]
        yield b"*2\r\n$1\r\n7\r\n*50000\r\n" + b"".join(b"$%d\r\n%s\r\n" % (len(key), key) for key in keys)
    scans = []
    with Liar(answer) as liar:
        program = run("--url", f"redis://127.0.0.1:{liar.port}?command-timeout=30s", "status", preexec_fn=limit_memory(1536))
        equal(program.code, 69)
        contains(program.said(), "lists more than 900000 mutexes")
        true(len(scans) <= 21, f"{len(scans)} SCANs")


def endless_line(words):
    if (known := answer_greeting(words)) is not None:
        yield known
    else:
        while True:
            yield b"+" + b"x" * 1000000


def endless_array(words):
    """Each of its parts is short enough."""
    if (known := answer_greeting(words)) is not None:
        yield known
    else:
        yield b"*200000\r\n"
        while True:
            yield b"$1048576\r\n" + b"x" * 1048576 + b"\r\n"


def dripping_line(words):
    if (known := answer_greeting(words)) is not None:
        yield known
    else:
        yield b"$1000000\r\n"
        while True:
            yield b"x"
            time.sleep(0.01)


@case
def an_endless_line_or_array_ends_the_connection_at_once():
    for answer in (endless_line, endless_array):
        with Liar(answer) as liar:
            begin = now()
            program = run("--url", f"redis://127.0.0.1:{liar.port}?command-timeout=20s", "lock", "-n", "m", "--", "true",
                          preexec_fn=limit_memory(512))
            equal(program.code, 69)
            contains(program.said(), "too long")
            true(now() - begin < 5, f"{now() - begin:.1f} s")


@case
def a_reply_that_drips_ends_the_connection_after_the_command_timeout():
    with Liar(dripping_line) as liar:
        program = Simba("--url", f"redis://127.0.0.1:{liar.port}?command-timeout=1s", "lead", "m", "--", "true")
        wait_until(lambda: liar.connections >= 4, "it has given the connection up")  # two when it was opened
        program.end()
        contains(program.said(), "takes too long")


if __name__ == "__main__":
    sys.exit(main())
