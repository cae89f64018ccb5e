#!/usr/bin/env python3
"""A ZooKeeper server that names children that have no names, or fewer than none. What else a server can do to the client
library is a limit that SECURITY.md tells.
"""
import os
import struct
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))
from fake_server import Listener
from program import case, contains, equal, main, read, run

UNAVAILABLE, TIMED_OUT = 69, 75
PING, CLOSE = 11, -11
CREATE, EXISTS, DATA, CHILDREN, SYNC, CHILDREN_AND_STAT, CREATE_AND_STAT, CONTAINER = 1, 3, 4, 8, 9, 12, 15, 19
STAT = b"\0" * 68


def buffer(data):
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def children(names):
    return struct.pack(">i", len(names)) + b"".join(map(buffer, names))


class Store(Listener):
    """Every node is there, without data; `list` is what stands for the children of each."""

    def __init__(self, names):
        self.list = names
        super().__init__()

    def take(self):
        return self._take(struct.unpack(">i", self._take(4))[0])

    def converse(self):
        self.take()
        self.client.sendall(buffer(struct.pack(">iiq", 0, 60000, 1) + buffer(b"p" * 16) + b"\0"))
        while True:
            packet = self.take()
            number, kind = struct.unpack(">ii", packet[:8])
            self.client.sendall(buffer(struct.pack(">iqi", number, 7, 0) + self.body(kind, packet[8:])))
            if kind == CLOSE:
                return

    def body(self, kind, text):
        path = text[:4 + struct.unpack(">i", text[:4])[0]] if len(text) > 4 else b""
        if kind in (CREATE, SYNC):
            return path
        if kind in (CREATE_AND_STAT, CONTAINER):
            return path + STAT
        if kind == DATA:
            return buffer(b"") + STAT
        if kind in (CHILDREN, CHILDREN_AND_STAT):
            return self.list + (STAT if kind == CHILDREN_AND_STAT else b"")
        return STAT if kind == EXISTS else b""


def ask(names, *command):
    with Store(names) as server:
        return run("-u", f"zookeeper://127.0.0.1:{server.port}", *command)


@case
def a_store_that_tells_the_truth_is_read():
    """The twin: the others are not refused because of how the fake speaks."""
    for command in (["status"], ["status", "m"]):
        program = ask(children([b"_c_0123456789abcdef0123456789abcdef-latch-0000000001"]), *command)
        equal((command, program.code, program.said()), (command, 0, ""))
        contains(read(program.out), "latch")


@case
def children_without_names_are_no_children():
    for names in (children([None]), children([b"m", None, b"n"]), children([None] * 3), struct.pack(">i", -7)):
        for code, *command in ((UNAVAILABLE, "status"), (UNAVAILABLE, "status", "m"),
                               (TIMED_OUT, "lock", "-w", "500ms", "m", "--", "true")):
            program = ask(names, *command)
            equal((names, command, program.code), (names, command, code))
            contains(program.said(), "library failed")


if __name__ == "__main__":
    if "zookeeper" not in os.environ.get("SIMBA_STORES", "zookeeper").split():
        print("1..0 # SKIP there is no ZooKeeper in this build")
        sys.exit(0)
    sys.exit(main())
