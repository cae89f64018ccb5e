#!/usr/bin/env python3
"""What operators type all day, on a terminal of 80x24: no line is broken by the terminal, and nothing that matters is
cut off. The default ids are used, and the fences of the store, which are long on Redis.

    columns_test.py STORE       sqlite, redis, postgres or mariadb
"""
import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios

import stores
from program import PROGRAM, Simba, contains, equal, read, run, true, wait_until

NAME = sys.argv[1]
ONE = stores.OneStore(NAME)
COLUMNS, ROWS = 80, 24
SEQUENCE = r"\033\[[?0-9;]*[a-zA-Z]"
LEASE = ["--ttl", "10s", "--transition", "30s"]  # is not lost on a busy machine


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, *arguments):
        self.keys, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.process = subprocess.Popen([PROGRAM, *LEASE, *arguments], stdin=slave, stdout=slave, stderr=slave,
                                        env={**os.environ, "TERM": "xterm"}, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)
        os.set_blocking(self.keys, False)
        self.bytes = b""

    def text(self):
        with contextlib.suppress(OSError):  # there is nothing, or nobody has the terminal any more
            while more := os.read(self.keys, 65536):
                self.bytes += more
        return re.sub(SEQUENCE, "", self.bytes.decode(errors="replace"))

    def await_text(self, pattern):
        try:
            wait_until(lambda: re.search(pattern, self.text()))
        except TimeoutError as late:
            raise AssertionError(f"{pattern!r} is not in: {self.text()}") from late

    def end(self):
        """The exit code and the text, whose lines are checked. A line that is updated in place counts each time."""
        wait_until(lambda: self.text() is not None and self.process.poll() is not None)
        text = self.text()
        os.close(self.keys)
        for line in re.split(r"[\r\n]+", text):
            true(len(line) <= COLUMNS, f"a line of {len(line)} columns: {line}")
        return self.process.returncode, " ".join(text.split())


def shows(code, pattern, *arguments):
    """What the program says on the terminal, as one line."""
    terminal = Terminal(*arguments)
    got, text = terminal.end()
    equal((arguments, got), (arguments, code))
    true(re.search(pattern, text), f"{arguments}: {pattern!r} is not in: {text}")
    return text


def on_terminal(function):
    def wrapped(prefix):
        os.environ["SIMBA_URL"] = ONE.store.url.partition("?")[0]  # as an operator writes it
        function(prefix)
    wrapped.__name__ = function.__name__
    return ONE.case(wrapped)


def leading(mutex):
    leader = Simba(*LEASE, "lead", mutex, "--", "sleep", "100")
    wait_until(lambda: "leading" in leader.said())
    return leader


@on_terminal
def who_owns_and_who_waits(prefix):
    mutex = prefix + "nightly"
    leader = leading(mutex)
    owner = rf"\d+:{leader.pid}~\w{{6}}"
    waiter = Terminal("lock", mutex, "--", "sleep", "1")
    waiter.await_text(rf"'{mutex}', 1st in line, held by \d+:{leader.pid}@")
    for arguments in (["status"], ["status", mutex], ["status", "--all", prefix + "*"], ["top", "--once"]):
        text = shows(0, rf"{mutex} {owner} .* \d{{1,16}} 1\b", *arguments)
        true("..." not in text, f"it is cut: {text}")
    watch = Terminal("watch", mutex)
    watch.await_text(rf"owned by \d+:{leader.pid}@\S+,\s+fence\s+\d+\s")
    watch.process.send_signal(signal.SIGINT)
    equal(watch.end()[0], 0)
    shows(75, rf"was not acquired: held by \d+:{leader.pid}@", "lock", "-n", mutex, "--", "true")
    shows(75, rf"was not acquired in 1s: held by \d+:{leader.pid}@", "lock", "-w", "1", mutex, "--", "true")
    shows(0, f"{mutex} has passed from .* to ", "handover", mutex)
    equal(waiter.end()[0], 0)
    equal(leader.end(), 0)


@on_terminal
def who_owns_now_also_to_a_waiter_far_back(prefix):
    """A release tells the first waiters only, and these leases are long."""
    mutex = prefix + "nightly"
    owners = [leading(mutex)]
    for place in (1, 2):
        owners.append(Simba(*LEASE, "lead", mutex, "--", "sleep", "100"))
        wait_until(lambda at=place: f"{at}{'st' if at == 1 else 'nd'} in line" in owners[-1].said())
    waiter = Terminal("lock", mutex, "--", "true")
    for owner in owners:
        waiter.await_text(rf"held by \d+:{owner.pid}@")
        if owner is not owners[-1]:
            equal(owner.end(), 0)
    equal(owners[-1].end(), 0)
    equal(waiter.end()[0], 0)


@on_terminal
def what_is_refused(prefix):
    mutex = prefix + "nightly"
    leader = leading(mutex)
    shows(75, "nobody waits for .* asks it all the same", "handover", mutex)
    shows(75, "host2 does not wait", "handover", mutex, "--to", "host2")
    equal(leader.end(), 0)
    shows(64, "which term\\?", "release", mutex)
    shows(64, "which term\\?", "renew", mutex)
    shows(64, "for itself|runs under", "lock", mutex, "--", PROGRAM, "lock", mutex, "--", "true")
    shows(0, "", "lock", "--slots", "2", prefix + "render", "--", "true")
    shows(78, "has 2 slots, not 3", "lock", "--slots", "3", prefix + "render", "--", "true")


@on_terminal
def when_a_job_has_run_and_will_run(prefix):
    mutex = prefix + "nightly"
    shows(0, "", "lock", "--once-per", "24h", mutex, "--", "true")
    shows(0, r"was run by \S+ .* with exit code 0: once per 1d", "lock", "--once-per", "24h", mutex, "--", "true")
    schedule = Terminal("schedule", mutex, "--at", "02:30", "--", "true")
    schedule.await_text("leading")
    wait_until(lambda: "Next run: in" in read(run("status", mutex).out))
    shows(0, r"Last run: by \S+ .*Next run: in", "status", mutex)
    schedule.process.send_signal(signal.SIGTERM)
    equal(schedule.end()[0], 0)
    shows(0, "would keep", "prune", prefix + "*", "--unused-for", "30d", "--dry-run")


@on_terminal
def whether_the_store_can_be_relied_on(prefix):
    shows(0, "", "lock", prefix + "m", "--", "true")
    text = Terminal("doctor").end()[1]
    contains(text, "'simba-doctor' acquired")
    true(re.search(r" \d+ problems?, \d+ warnings?, \d+ ok$", text), text)


@on_terminal
def every_help(_prefix):
    text = shows(0, "Verbs:", "--help")
    verbs = re.findall(r"^  (\w+) +\w", read(run("--help").out).partition("Verbs:")[2].partition("Options")[0], re.M)
    true(len(verbs) > 15, text)
    for verb in verbs:
        shows(0, f"Usage: simba {verb}", verb, "--help")


if __name__ == "__main__":
    sys.exit(ONE.main())
