#!/usr/bin/env python3
"""A MySQL server that answers statements with more or less than was asked: columns, parameters, NULL. The client has
room for what it has asked for, and must neither read nor write beside it.
"""
import os
import struct
import sys
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))
from mysql_fake import END, OK, FakeServer
from program import Simba, case, contains, equal, main, read, run, true, wait_until

UNAVAILABLE = 69
QUERY, PREPARE, EXECUTE, CLOSE = b"\3", b"\x16", b"\x17", b"\x19"
COLUMNS = 10
WAITS_MAX = 1000  # in a second
NO_SUCH_TABLE = 1146
TABLE = [b"BASE TABLE", b"InnoDB"]
DESCRIPTION = [[None, None, None, None, None, *TABLE],
               [b"mutex", b"66", b"1", b"varchar", b"0", None, None], [b"owner_id", b"128", b"1", b"varchar", b"0", None, None],
               *([name, None, None, b"bigint", b"1", None, None]
                 for name in (b"acquired_at", b"ttl_at", b"transition_at", b"version"))]


class Store:
    """Plays a store with a mutex `m`. `null`: and one of which it knows nothing."""

    def __init__(self, description=None, more_parameters=0, columns=COLUMNS, columns_later=COLUMNS, null=False):
        self.description = description or DESCRIPTION
        self.more_parameters, self.columns, self.columns_later = more_parameters, columns, columns_later
        self.null = null
        self.executed = 0

    def __call__(self, server):
        server.say(OK)
        while True:
            packet = server.take()
            command, text = packet[:1], packet[1:]
            if command == QUERY:
                self.answer(server, text)
            elif command == PREPARE:
                self.prepare(server, text)
            elif command == EXECUTE:
                self.execute(server, struct.unpack("<I", text[:4])[0])
            elif command != CLOSE:
                server.say(OK)

    def answer(self, server, text):
        if b"binlog_format" in text:
            server.say_values(b"binlog_format", b"ROW")
        elif b"read_only" in text:
            server.say_values(b"0")
        elif b"simba_waiter" in text and b"SELECT" in text[:6]:
            server.say_values(b"1")
        elif b"information_schema" in text:
            server.say_rows(self.description)
        else:
            server.say(OK)

    def prepare(self, server, text):
        """The number of a statement tells later whether it has rows."""
        parameters = text.count(b"?") + self.more_parameters
        columns = self.columns if text.startswith(b"SELECT") else 0
        server.say(b"\0" + struct.pack("<IHH", 1 if columns else 2, columns, parameters) + b"\0\0\0")
        server.say_columns(parameters)
        server.say_columns(columns)

    def execute(self, server, number):
        self.executed += 1
        if number != 1:
            server.say(OK)
            return
        count = self.columns_later
        server.say(bytes([count]))
        server.say_columns(count)
        values = [b"m", b"owner", b"0", b"0", b"0", b"0", b"0", b"0", b"0", b"0"]
        values = (values + [b"9" * 40] * count)[:count]
        nulls = (count + 9) // 8
        server.say(b"\0" + b"\0" * nulls + b"".join(bytes([len(value)]) + value for value in values))
        if self.null:
            server.say(b"\0" + b"\xff" * nulls)
        server.say(END)


class Exchanged(Store):
    """Its table goes after a while, and when the client looks for it a view is in the place. `late` counts what is asked of that."""

    described, late = 0, 0

    def answer(self, server, text):
        if b"information_schema" in text and b"simba_waiter" not in text:
            self.described += 1
            self.description = DESCRIPTION if self.described == 1 else [[None, None, None, None, None, b"VIEW", None]]
        super().answer(server, text)

    def execute(self, server, number):
        self.late += self.described > 1
        if self.executed < 3:  # the client is at work
            super().execute(server, number)
            return
        server.say(b"\xff" + struct.pack("<H", NO_SUCH_TABLE) + b"#42S02no table")


class Restless(Store):
    """Another owns the mutex, and the first of the line is a waiter of this client. The connection that waits for a
    wake-up is woken at once, always: `end` is what ends its wait, None is the value NULL."""

    def __init__(self, end):
        super().__init__()
        self.end, self.trials, self.waits = end, 0, 0

    def answer(self, server, text):
        if b"GET_LOCK" not in text:
            super().answer(server, text)
        elif b"_held', 5)" not in text:
            server.say_values(b"1")
        else:
            self.waits += 1
            server.say_values(None if self.waits == 1 else self.end)  # the first is the trial

    def prepare(self, server, text):
        """The number of a statement is that of its columns."""
        columns = text[:text.find(b"FROM")].count(b",") + 1 if b"SELECT" in text[:7] else 0
        columns = 12 if b"count(*)" in text else 4 if b"UNION" in text else COLUMNS if columns else 0
        server.say(b"\0" + struct.pack("<IHH", columns, columns, text.count(b"?")) + b"\0\0\0")
        server.say_columns(text.count(b"?"))
        server.say_columns(columns)

    def execute(self, server, number):
        if number == 0:
            server.say(OK)
            return
        row = [b"m", b"owner", b"1000", b"20000", b"30000", b"7", b"1500", b"0", b"0", b"0", b"1", b"0"][:number]
        server.say(bytes([number]))
        server.say_columns(number)
        if number != 4:
            server.say(b"\0" + b"\0" * ((number + 9) // 8) + b"".join(bytes([len(value)]) + value for value in row))
        server.say(END)


def url(server):
    return f"mysql://app:word@127.0.0.1:{server.port}/db?connect-timeout=3s&timeout=2s"


def ask(store, *command):
    with FakeServer(store) as server:
        return run("-u", url(server), *command)


def refused(store, *commands, why="not what was asked for"):
    for command in commands or (["status"], ["status", "m"], ["lock", "-n", "m", "--", "true"]):
        program = ask(store, *command)
        equal((command, program.code), (command, UNAVAILABLE))
        contains(program.said(), why)


@case
def a_store_that_tells_the_truth_is_read():
    """The twin: the others are not refused because of how the fake speaks."""
    program = ask(Store(), "status", "m")
    equal((program.code, program.said()), (0, ""))
    contains(read(program.out), "m")


@case
def a_row_of_more_or_fewer_columns_is_not_taken():
    for count in (1, 9, 11, 12, 60, 200):
        refused(Store(columns=count, columns_later=count), ["status"], ["status", "m"])


@case
def nor_is_one_whose_number_of_columns_changes_behind_the_preparation():
    """Which newer client libraries find out themselves."""
    for count in (1, 9, 11, 60):
        refused(Store(columns_later=count), ["status"], ["status", "m"], why="MySQL: ")


@case
def a_statement_of_more_or_fewer_parameters_is_not_sent():
    for more in (1, 30, 200):
        store = Store(more_parameters=more)
        refused(store)
        equal(store.executed, 0)
    store = Store(more_parameters=-1)
    refused(store, ["status", "m"], ["lock", "-n", "m", "--", "true"])
    equal(store.executed, 0)


@case
def a_row_of_nulls_is_empty():
    """And shows nothing of what was in its place in the memory."""
    program = ask(Store(null=True), "status", "--json")
    equal(program.code, 0)
    equal(read(program.out).count('"m"'), 1)


@case
def a_table_is_described_by_all_that_was_asked_for():
    for row in ([b"version"], [b"version", b"A" * 120], [b"mutex", b"A" * 64], [b"mutex", b"66", b"1", b"varchar", b"0"],
                [b"mutex"] + [b"1"] * 7):
        refused(Store([row]))


@case
def what_is_unknown_of_the_table_is_no_table():
    """NULL in every place."""
    program = ask(Store([[None] * 7]), "status")
    equal(program.code, 77)
    contains(program.said(), "BASE TABLE")


@case
def a_view_that_takes_the_place_of_the_table_is_not_asked():
    store = Exchanged()
    with FakeServer(store) as server:
        watch = Simba("-u", url(server), "watch", "m")
        wait_until(lambda: store.late > 0 or server.connections > 1, "the client goes on")
        watch.end()
    equal(store.late, 0)
    contains(watch.said(), "VIEW")


@case
def a_server_that_ends_every_wait_at_once_is_not_asked_without_a_pause():
    for end in (None, b"0", b"1"):
        store = Restless(end)
        with FakeServer(store) as server:
            server.together = True
            lock = Simba("-u", url(server), "lock", "m", "--", "true")
            wait_until(lambda: store.waits > 1, "the client waits")
            before, begin = store.waits, time.monotonic()
            wait_until(lambda: time.monotonic() - begin > 2, "2 s are over")
            rate = (store.waits - before) / (time.monotonic() - begin)
            print(f"# {end}: {rate:.0f} waits a second")
            lock.end()
        true(rate < WAITS_MAX, f"the client began {rate:.0f} waits a second")


@case
def what_is_unknown_of_a_column_does_no_harm():
    for name in (None, b"mutex", b"owner_id", b"version"):
        others = [row for row in DESCRIPTION if row[0] != name]
        program = ask(Store([[name, None, None, None, None, *TABLE], *others]), "status", "m")
        equal((program.code, program.said()), (0, ""))


if __name__ == "__main__":
    if "mariadb" not in os.environ.get("SIMBA_STORES", "mariadb").split():
        print("1..0 # SKIP there is no MySQL in this build")
        sys.exit(0)
    sys.exit(main())
