#!/usr/bin/env python3
"""`simba top` as a user sees it, on a terminal of the test's own.

    top_test.py STORE       sqlite, redis, postgres or mariadb
"""
import fcntl
import json
import os
import pty
import re
import select
import signal
import sqlite3
import struct
import subprocess
import sys
import termios

import stores
from program import PROGRAM, Simba, Skipped, contains, equal, lines, read, run, true, wait_until

ONE = stores.OneStore(sys.argv[1])
FOREIGN = "UPDATE simba_mutex SET owner_id = ?, ttl_at = 1 << 50, transition_at = 1 << 50 WHERE mutex = ?"
LEASE = ["--ttl", "500ms", "--transition", "5s"]  # renewed often, and not lost on a busy machine
ENTER_SCREEN, LEAVE_SCREEN = "\033[?1049h", "\033[?1049l"
SEQUENCE = r"\033\[[?0-9;]*[a-zA-Z]"
UP, DOWN, PAGE_DOWN, ESCAPE = "\033[A", "\033[B", "\033[6~", "\033"


class Terminal:
    """A terminal, `simba top` on it, and the picture that it shows."""

    def __init__(self, *options, columns=80, rows=24, env=None, url=None):
        self.master, self.slave = pty.openpty()
        self.resize(columns, rows)
        self.modes = termios.tcgetattr(self.slave)
        self.written = b""
        environment = {**os.environ, "TERM": "xterm", **(env or {})}
        if url is not None:
            environment["SIMBA_URL"] = url
        self.process = subprocess.Popen([PROGRAM, *LEASE, "top", "--interval", "200ms", *options], stdin=self.slave,
                                        stdout=self.slave, stderr=self.slave, env=environment, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)

    def resize(self, columns, rows):
        self.columns, self.rows = columns, rows
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys):
        os.write(self.master, keys.encode())

    def read(self):
        while select.select([self.master], [], [], 0)[0]:
            self.written += os.read(self.master, 65536)
        return self.written.decode(errors="replace")

    def picture(self):
        """The lines of the last picture that is whole."""
        for text in reversed(self.read().split("\033[H")[1:]):
            picture = [re.sub(SEQUENCE, "", line).rstrip("\r") for line in text.split("\n")]
            if len(picture) == self.rows:
                return picture
        return []

    def line(self, pattern):
        """Waits for a line in the picture."""
        def found():
            return next((line for line in self.picture() if re.search(pattern, line)), None)
        try:
            return wait_until(found)
        except TimeoutError as late:
            raise AssertionError(f"{pattern!r} is not in:\n" + "\n".join(self.picture())) from late

    def without(self, pattern):
        wait_until(lambda: self.picture() and not any(re.search(pattern, line) for line in self.picture()),
                   f"no {pattern!r}")

    def wait(self):
        """The exit code; the terminal is as it was."""
        wait_until(lambda: self.read() is not None and self.process.poll() is not None, "it ends")
        text = self.read()
        equal(termios.tcgetattr(self.slave), self.modes)
        true(text.rindex(LEAVE_SCREEN) > text.rindex(ENTER_SCREEN), "it leaves the alternate screen")
        contains(text[text.rindex(ENTER_SCREEN):], "\033[?25h")
        return self.process.returncode


def status(mutex):
    return json.loads(read(run("status", "--json", mutex).out))[0]


def member(name, mutex, verb="lead"):
    return Simba(*LEASE, "--id", name, verb, mutex, "--", "bash", "-c",
                 "trap 'exit 0' TERM; echo $0 >>ran; while :; do sleep 0.05; done", name)


def members(mutex, *names):
    """The first one owns, the others wait in this order."""
    programs = []
    for count, name in enumerate(names):
        programs.append(member(name, mutex))
        if count == 0:
            wait_until(lambda: lines("ran") == [names[0]], "the first one runs")
        else:
            wait_until(lambda count=count: status(mutex)["waiters"] == count, f"{count} waiters")
    return programs


def end(*programs):
    for program in programs:
        program.end()


@ONE.case
def it_shows_owners_queue_and_a_hand_over(prefix):
    mutex = prefix + "job"
    programs = members(mutex, "A", "B", "C")
    with Terminal() as top:
        top.line(rf"^> ?{mutex} +A~.* 2( |$)")
        top.line(r"^held \d+ of \d+   waiting 2   hand-overs 0/min   losses 0   by name")
        top.line(r"answered \d\d:\d\d:\d\d")
        top.type("\r")
        top.line(rf"^Waiting for {mutex}, the next one first:")
        top.line(r"^  1  B~\w+, for ")
        top.line(r"^  2  C~\w+, for ")
        top.type("h")
        top.line(rf"^y/n  hand {mutex} over to the first in line\? It is with A~")
        top.type("n")
        top.line("^q quit")
        equal(lines("ran"), ["A"])
        top.type("h")
        top.line("y/n")
        top.type("y")
        top.line(rf"{mutex} has passed from A~\w+ to B~")
        top.line(rf"^> ?{mutex} +B~")
        top.line("hand-overs 1/min   losses 0")
        wait_until(lambda: lines("ran") == ["A", "B"], "B runs")
        top.type("q")
        equal(top.wait(), 0)
    end(*reversed(programs))


@ONE.case
def nobody_is_asked_where_nobody_waits(prefix):
    programs = members(prefix + "job", "A")
    with Terminal() as top:
        top.line(rf"^> ?{prefix}job +A~")
        top.type("h")
        top.line(rf"nobody waits, so the owner keeps it: {prefix}job")
        top.type("q")
        equal(top.wait(), 0)
    end(*programs)


@ONE.case
def rows_are_selected_filtered_and_sorted(prefix):
    programs = members(prefix + "one", "A", "B")
    programs += [member("X", prefix + name) for name in ("three", "two")]
    with Terminal() as top:
        for name in ("one", "three", "two"):
            top.line(rf"^[> ] ?{prefix}{name} +[AX]~")
        top.line(rf"^> ?{prefix}one")
        for keys, name in [("j", "three"), (DOWN, "two"), (DOWN, "two"), ("k", "three"), (UP, "one"), (PAGE_DOWN, "two")]:
            top.type(keys)
            top.line(rf"^> ?{prefix}{name} ")
        top.type("/")
        top.line("^filter: _")
        top.type("t*w\177w")
        top.line("^filter: t[*]w_")
        top.line("no mutex matches")
        top.type(ESCAPE)
        top.line(rf"^>?.*{prefix}one")
        top.type("/*-two\r")
        top.line(r"filter '[*]-two'")
        top.without(rf"{prefix}(one|three)")
        top.type("/\r")
        top.line(rf"{prefix}one")
        for name in ("since", "waiters", "hand-overs", "name"):
            top.type("s")
            top.line(f"   by {name}")
        top.type("?")
        top.line("^q +quit")
        top.type(" ")
        top.line(f"{prefix}one")
        top.type("q")
        equal(top.wait(), 0)
    end(*reversed(programs))


@ONE.case
def a_lease_that_runs_out_is_a_loss(prefix):
    mutex = prefix + "job"
    programs = members(mutex, "A")
    with Terminal() as top:
        top.line(rf"^> ?{mutex} +A~")
        programs[0].stop()
        top.line("losses 1")
        top.line(rf"{mutex}: the lease of A~\w+ has run out")
        top.line(rf"^> ?{mutex} +\(free\)")
        top.type("q")
        equal(top.wait(), 0)
    programs[0].send(signal.SIGCONT)
    end(*programs)


@ONE.case
def every_end_restores_the_terminal(prefix):
    for number, code in [(signal.SIGTERM, 0), (signal.SIGINT, 0), (signal.SIGHUP, 128 + signal.SIGHUP)]:
        with Terminal() as top:
            top.line("^q quit")
            top.process.send_signal(number)
            equal(top.wait(), code)
    with Terminal() as top:
        top.line("^q quit")
        top.type("\003")
        equal(top.wait(), 0)
    with Terminal(url="nonsense://x") as top:
        equal(top.wait(), 78)
        contains(top.read(), "nonsense")


@ONE.case
def ctrl_z_gives_the_terminal_back_and_fg_takes_it_again(prefix):
    """A shell: it continues what was stopped."""
    script = f'set -m; "{PROGRAM}" top --interval 200ms; stty -a >modes; : >stopped; read -r line; fg; echo "$?" >ended'
    master, slave = pty.openpty()
    shell = subprocess.Popen(["bash", "-c", script], stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                             env={**os.environ, "TERM": "xterm"}, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    text = ""

    def wrote(part):
        nonlocal text
        while select.select([master], [], [], 0)[0]:
            text += os.read(master, 65536).decode(errors="replace")
        return part in text
    wait_until(lambda: wrote("q quit"), "a picture")
    os.write(master, b"\032")
    wait_until(lambda: wrote("") and os.path.exists("stopped"), "it stops")
    contains(text, LEAVE_SCREEN)
    true(re.search(r"(?<!-)icanon", read("modes")) and re.search(r"(?<!-)echo ", read("modes")), read("modes"))
    text = ""
    os.write(master, b"\n")
    wait_until(lambda: wrote(ENTER_SCREEN) and wrote("q quit"), "a picture again")
    os.write(master, b"q")
    wait_until(lambda: wrote("") and lines("ended") == ["0"], "it ends")
    shell.wait()
    os.close(master)
    os.close(slave)


@ONE.case
def it_fits_into_small_terminals_and_follows_their_size(prefix):
    programs = members(prefix + "a-mutex-with-a-very-long-name-that-goes-on-and-on", "A-contender-with-a-long-name", "B")
    with Terminal() as top:
        for columns, rows in [(80, 24), (40, 8), (60, 10), (120, 40)]:
            top.resize(columns, rows)
            row = top.line(rf"^> ?{prefix[:4]}.*A")
            true(all(len(line) <= columns for line in top.picture()), top.picture())
            true("..." in row or columns == 120, row)
            top.line("MUTEX +OWNER.* SINCE +LEASE")
            top.type("h")
            top.line("^y/n  hand ")
            top.type("n")
        top.resize(39, 7)
        top.line("^too small: 39x7")
        top.line("^needs 40x8")
        top.type("q")
        equal(top.wait(), 0)
    end(*reversed(programs))


@ONE.case
def a_lease_of_a_year_leaves_room_for_the_rest(prefix):
    """What a move leaves on the old store, and what a script has acquired."""
    mutex = prefix + "moved"
    term = json.loads(read(run("acquire", "--exact-id", "ann", "--for", "8783h59m59s", "--json", mutex).out))
    with Terminal() as top:
        top.line(rf"^. ?{mutex} .* 365d23h ")
        top.line("LEASE +FENCE +WAITERS +HANDOVERS")
        top.type("q")
        equal(top.wait(), 0)
    contains(read(run("status", mutex).out), " 365d23h ")
    equal(run("release", "--id", term["id"], "--fence", str(term["fence"]), mutex).code, 0)


@ONE.case
def without_colour_nothing_is_coloured(prefix):
    programs = members(prefix + "job", "A")
    for options, env in [(["--no-color"], {}), ([], {"NO_COLOR": "1"}), ([], {})]:
        with Terminal(*options, env=env) as top:
            top.line(rf"^> ?{prefix}job +A~")
            coloured = re.search(r"\033\[[0-9;]*m", top.read()) is not None
            equal(coloured, not options and not env)
            top.type("q")
            equal(top.wait(), 0)
    end(*programs)


@ONE.case
def without_a_screen_it_prints_once(prefix):
    programs = members(prefix + "job", "A", "B")
    for top in [run("top"), run("top", "--once")]:
        equal(top.code, 0)
        text = read(top.out)
        contains(text, "simba top  " + ONE.store.url.partition(":")[0])
        true(re.search(rf"^ +{prefix}job +A~.* 1 ", text, re.M), text)
        equal(re.search(r"\033", text), None)
    with Terminal(env={"TERM": "dumb"}) as top:
        wait_until(lambda: top.read() is not None and top.process.poll() is not None, "it ends")
        contains(top.read(), f"{prefix}job")
        equal("\033" in top.read(), False)
    end(*reversed(programs))


@ONE.case
def hostile_names_are_printed_as_question_marks(prefix):
    """The program refuses such names; another program may have written them."""
    if ONE.name != "sqlite":
        raise Skipped("a row is easily written on SQLite")
    run("lock", prefix + "foreign", "--", "true")
    path = re.match("sqlite:([^?]*)", os.environ["SIMBA_URL"])[1]
    with sqlite3.connect(path, timeout=60) as store:
        store.execute(FOREIGN, ("E\033[2J\nvil\u202e", prefix + "foreign"))
    store.close()
    with Terminal() as top:
        top.line(rf"^[> ] ?{prefix}foreign +E\?\[2J\?vil\?")
        equal("\033[2J" in top.read(), False)
        top.type("q")
        equal(top.wait(), 0)


@ONE.case
def a_store_that_goes_away_is_told_and_comes_back(prefix):
    if ONE.name != "redis":
        raise Skipped("there is no server, or it is slow to come back")
    server = stores.Redis()
    os.environ["SIMBA_URL"] = server.url
    with Terminal() as top:
        top.line("no mutex is held")
        server.process.kill()
        server.process.wait()
        top.line(r"^THE STORE IS AWAY since \d\d:\d\d:\d\d: ")
        server.launch()
        server.await_service()
        top.without("AWAY")
        server.pause()
        top.line(r"^THE STORE IS AWAY since \d\d:\d\d:\d\d: .* answer")
        server.go_on()
        top.without("AWAY")
        server.pause()
        top.line("AWAY")
        top.type("q")  # and a store that hangs delays nobody
        equal(top.wait(), 0)
    server.stop()


@ONE.case
def a_store_that_is_away_at_first_is_waited_for(prefix):
    if ONE.name == "sqlite":
        raise Skipped("there is no server")
    with Terminal(url=ONE.store.url.replace(str(ONE.store.port), str(stores.free_port()))) as top:
        top.line(r"^THE STORE IS AWAY since")
        top.line("no answer yet")
        top.type("q")
        equal(top.wait(), 0)


sys.exit(ONE.main())
