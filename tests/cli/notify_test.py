#!/usr/bin/env python3
"""What a service manager is told, on sockets that the test listens on, and the example units.

    notify_test.py [FOLDER OF UNITS]
"""
import glob
import os
import shutil
import signal
import socket
import subprocess
import sys

from program import (PATIENCE, PROGRAM, Blocked, Simba, case, contains, equal, main, now, number,
                     read, run, true, wait_until)

UNITS = sys.argv[1] if len(sys.argv) > 1 else None
HOLD = "echo $$ >pid.new; mv pid.new pid; exec sleep 100"


class Manager:
    """A socket as systemd has it: a file, or a name without one."""

    def __init__(self, abstract=False):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.settimeout(PATIENCE)
        name = f"simba-test-{os.getpid()}" if abstract else os.path.abspath("notify")
        self.socket.bind("\0" + name if abstract else name)
        self.environment = {"NOTIFY_SOCKET": "@" + name if abstract else name}

    def next(self):
        """The variables of the next message."""
        text = self.socket.recv(4096).decode()
        return dict(line.split("=", 1) for line in text.splitlines())

    def until(self, variable, value=None):
        """The messages up to the one with this variable, and this part of its value."""
        seen = []
        while not seen or variable not in seen[-1] or (value or "") not in seen[-1][variable]:
            seen.append(self.next())
        return seen

    def drain(self):
        """What has come."""
        seen = []
        self.socket.setblocking(False)
        try:
            while True:
                seen.append(self.next())
        except BlockingIOError:
            self.socket.settimeout(PATIENCE)
            return seen

    def fill(self):
        """Leaves no room for a message."""
        sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        sender.setblocking(False)
        try:
            while True:
                sender.sendto(b"FULL=1", self.socket.getsockname())
        except BlockingIOError:
            sender.close()

    def close(self):
        self.socket.close()


@case
def lock_is_ready_when_the_command_starts_on_either_kind_of_socket():
    for abstract in (False, True):
        manager = Manager(abstract)
        program = Simba("lock", "m", "--", "bash", "-c", HOLD, env=manager.environment)
        contains(manager.next()["STATUS"], "holding 'm', fence ")
        equal(manager.next(), {"READY": "1"})
        number("pid")
        equal(program.end(), 128 + signal.SIGTERM)
        equal(manager.next(), {"STOPPING": "1"})
        manager.close()


@case
def a_late_word_of_readiness_does_not_replace_what_was_told_after_it():
    holder = Simba("--exact-id", "holder", "lead", "m", "--", "bash", "-c", HOLD)
    number("pid")
    for _ in range(10):
        manager = Manager()
        waiter = Simba("lead", "-q", "m", "--", "sleep", "100", env=manager.environment)
        seen = manager.until("STATUS", "held by holder")
        if not any("READY" in message for message in seen):
            seen += manager.until("READY")
        equal([message for message in seen if "READY" in message], [{"READY": "1"}])
        contains([message["STATUS"] for message in seen if "STATUS" in message][-1], "held by holder")
        equal(waiter.end(), 0)
        manager.close()
        os.remove("notify")
    holder.end()


def watched(manager, usec="200000", pid=None):
    return {**manager.environment, "WATCHDOG_USEC": usec, **({"WATCHDOG_PID": pid} if pid else {})}


def pings(seen):
    return sum(message.get("WATCHDOG") == "1" for message in seen)


@case
def a_watchdog_hears_twice_in_its_interval_while_all_is_well():
    holder = Simba("--exact-id", "holder", "lead", "m", "--", "bash", "-c", HOLD)
    number("pid")
    for arguments in (["lock", "other", "--", "sleep", "100"], ["lead", "m", "--", "true"],
                      ["schedule", "--every", "1h", "third", "--", "true"]):
        manager = Manager()
        program = Simba(*arguments, env=watched(manager))
        begin = now()
        for _ in range(6):
            manager.until("WATCHDOG")
        true(now() - begin >= 0.45, f"six times in {now() - begin}")
        program.end()
        manager.close()
        os.remove("notify")
    holder.end()


@case
def a_watchdog_of_another_process_or_none_hears_nothing():
    for environment in ({"WATCHDOG_USEC": "200000", "WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "x"},
                        {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "-5"}, {}):
        manager = Manager()
        program = Simba("lock", "m", "--", "sleep", "0.3", env={**manager.environment, **environment})
        equal(pings(manager.until("STOPPING")), 0)
        equal(program.wait(), 0)
        manager.close()
        os.remove("notify")


@case
def a_manager_that_has_no_room_is_told_of_readiness_when_it_has():
    manager = Manager()
    manager.fill()
    program = Simba("lock", "m", "--", "bash", "-c", HOLD, env=manager.environment)
    number("pid")
    true(not any("READY" in message for message in manager.drain()), "there was room")
    manager.until("READY")
    program.end()
    manager.close()


@case
def a_watchdog_hears_from_a_command_that_has_its_time_to_end():
    manager = Manager()
    program = Simba("lock", "m", "--", "bash", "-c", "trap '' TERM; echo $$ >pid; while :; do sleep 0.01; done",
                    env=watched(manager, "20000"))
    number("pid")
    with Blocked():
        wait_until(lambda: "could not be renewed: stopping" in program.said())
        manager.drain()
        manager.until("WATCHDOG")
        true("killing the command" not in program.said(), "it had its time")
        equal(program.wait(), 70)
    manager.close()


@case
def a_lock_that_waits_is_not_ready():
    holder = Simba("lock", "m", "--", "bash", "-c", HOLD)
    number("pid")
    manager = Manager()
    waiter = Simba("lock", "m", "--", "true", env=manager.environment)
    wait_until(lambda: "waiting for" in waiter.said())
    holder.end()
    contains(manager.next()["STATUS"], "holding 'm'")
    equal(waiter.wait(), 0)
    manager.close()


@case
def lead_is_ready_when_it_stands_by_and_tells_who_leads():
    holder = Simba("--exact-id", "holder", "lead", "m", "--", "bash", "-c", HOLD)
    number("pid")
    manager = Manager()
    waiter = Simba("lead", "m", "--", "sleep", "100", env=manager.environment)
    seen = manager.until("STATUS", "waiting for 'm', held by holder")
    if not any("READY" in message for message in seen):  # two threads report
        seen += manager.until("READY")
    equal([message.get("READY") for message in seen].count("1"), 1)
    holder.end()
    manager.until("STATUS", "leading 'm', fence ")
    with Blocked():
        manager.until("STATUS", "the command does not run now")
        manager.until("STATUS", "waiting for 'm'")
    manager.until("STATUS", "leading 'm', fence ")
    waiter.send(signal.SIGTERM)
    manager.until("STOPPING")
    equal(waiter.wait(), 0)
    equal(manager.drain(), [])  # it does not wait any more
    manager.close()


@case
def a_leader_is_ready_when_the_store_is_there_and_its_start_does_not_time_out():
    manager = Manager()
    address = f"sqlite:{os.getcwd()}/later/store.db"
    program = Simba("-u", address, "lead", "m", "--", "sleep", "100", env=manager.environment)
    for _ in range(3):
        equal(manager.next(), {"EXTEND_TIMEOUT_USEC": "30000000", "STATUS": "waiting for the store " + address})
    contains(program.said(), "simba: warning: waiting for the store: ")
    os.mkdir("later")
    seen = manager.until("READY")
    true(all("STATUS" in message for message in seen[:-1]), f"{seen}")
    manager.until("STATUS", "leading 'm', fence ")
    equal(program.end(), 0)
    equal(program.said().count("waiting for the store"), 1)
    manager.close()


@case
def a_leader_that_waits_for_its_store_ends_when_it_is_told_to_or_its_wait_ends():
    address = f"sqlite:{os.getcwd()}/later/store.db"
    for verb in (["lead"], ["schedule", "--every", "1h"]):
        program = Simba("-u", address, *verb, "m", "--", "true")
        wait_until(lambda: "waiting for the store" in program.said())
        equal(program.end(), 0)
        program = run("-u", address, *verb, "-w", "300ms", "m", "--", "true")
        equal(program.code, 69)
        contains(program.said(), "simba: the store could not be reached in 300ms: ")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        begin = now()
        program = run("-u", f"redis://127.0.0.1:{silent.getsockname()[1]}", "lead", "-w", "300ms", "m", "--", "true")
        equal((program.code, program.said().splitlines()[1:]), (69, ["simba: the store could not be reached in 300ms"]))
        true(now() - begin < 4, "it waits for the store to answer")


@case
def schedule_tells_of_its_runs_and_of_what_it_still_holds():
    manager = Manager()
    program = Simba("schedule", "m", "--every", "1h", "--hold-at-least", "1h", "--", "true",
                    env=manager.environment)
    equal(manager.until("READY")[-1]["READY"], "1")
    manager.until("STATUS", "the command runs")
    manager.until("STATUS", "does not run now")
    program.send(signal.SIGTERM)
    manager.until("STOPPING")
    manager.until("STATUS", "holding 'm' for 59m")
    wait_until(program.insist, "it ends")
    equal(program.wait(), 0)
    manager.close()


@case
def the_socket_is_not_passed_on_unless_that_is_wanted():
    manager = Manager()
    for verb in (["lock", "m"], ["lead", "--restart", "never", "m"]):
        program = run(*verb, "--", "sh", "-c", "echo \"[$NOTIFY_SOCKET$WATCHDOG_USEC$WATCHDOG_PID]\"",
                      env={**manager.environment, "WATCHDOG_USEC": "9", "WATCHDOG_PID": "9"})
        equal(read(program.out), "[]\n")
        program = run(*verb[:-1], "--pass-notify", "m", "--", "sh", "-c", "echo \"[$NOTIFY_SOCKET]\"",
                      env=manager.environment)
        equal(read(program.out), f"[{manager.environment['NOTIFY_SOCKET']}]\n")
    manager.close()


@case
def a_manager_that_does_not_listen_or_does_not_read_holds_nobody_up():
    for name in ("/no/such/socket", "@no-such-socket", "relative", "/", "", "x" * 500,
                 "/" + "x" * 500):
        equal(run("lock", "m", "--", "true", env={"NOTIFY_SOCKET": name}).code, 0)
    manager = Manager()
    filler = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    filler.setblocking(False)
    try:
        while True:
            filler.sendto(b"x" * 1000, manager.environment["NOTIFY_SOCKET"])
    except BlockingIOError:
        pass
    equal(run("lock", "m", "--", "true", env=manager.environment).code, 0)
    filler.close()
    manager.close()


def verify(folder):
    """What systemd-analyze says of the units of a folder."""
    said = ""
    for unit in sorted(glob.glob(folder + "/*.service")):
        ran = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], check=False,
                             capture_output=True, text=True)
        said += ran.stderr + ("" if ran.returncode == 0 else f"exit code {ran.returncode}\n")
    return said


def the_example_units_are_valid():
    for unit in glob.glob(UNITS + "/*.service"):
        text = read(unit).replace("/usr/bin/simba", PROGRAM)
        name = os.path.basename(unit).replace("@", "@x")
        with open(name, "w", encoding="utf-8") as file:
            file.write(text)
    true(len(glob.glob("*.service")) == 2, "there are two units")
    equal(verify("."), "")
    for name in glob.glob("*.service"):
        with open(name, "a", encoding="utf-8") as file:
            file.write("[Service]\nRestartSecs=5s\n")
    contains(verify("."), "RestartSecs")  # the check can fail


if UNITS is not None and shutil.which("systemd-analyze") is not None:
    case(the_example_units_are_valid)

if __name__ == "__main__":
    sys.exit(main())
