#!/usr/bin/env python3
"""The program at a terminal, under a real interactive shell: programs that read keys, job control, and what
a wait shows. The test plays the terminal."""
import fcntl
import os
import pty
import re
import signal
import struct
import sys
import termios

from program import (PROGRAM, Simba, case, contains, equal, is_alive, is_free, lines, main, number,
                     read, steal, true, url, wait_until, write)

PROMPT = "ready> "
HOLD = "echo $$ >holder; exec sleep 100"

# Lets no renewal come through for longer than a lease.
BLOCK = """
import sqlite3, time
sqlite3.connect("store.db", timeout=20, isolation_level=None).execute("BEGIN EXCLUSIVE")
time.sleep(3)
"""

# Reads single keys without echo, as an editor does, until it gets a q; says when the window changes.
EDITOR = r"""
import os, signal, sys, termios, tty
before = termios.tcgetattr(0)
signal.signal(signal.SIGWINCH, lambda *_: os.write(1, b"<resized>"))
tty.setraw(0)
os.write(1, b"<editing>")
while True:
    key = os.read(0, 1)
    os.write(1, b"<" + (b"^C" if key == b"\3" else key) + b">")
    if key == b"q":
        break
termios.tcsetattr(0, termios.TCSADRAIN, before)
sys.exit(9)
"""


class Shell:
    """bash at a terminal of 100 columns."""

    def __init__(self, **environment):
        self.seen = ""
        pid, self.fd = pty.fork()
        if pid == 0:
            os.environ.update({"PS1": PROMPT, "TERM": "xterm", "S": PROGRAM, **environment})
            if "NO_COLOR" not in environment:
                os.environ.pop("NO_COLOR", None)
            os.execlp("bash", "bash", "--norc", "--noprofile", "--noediting", "-i")
        self.pid = pid
        os.set_blocking(self.fd, False)
        self.resize(100)
        self.expect(re.escape(PROMPT))

    def resize(self, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))

    def _read(self):
        try:
            self.seen += os.read(self.fd, 65536).decode(errors="replace")
        except (BlockingIOError, OSError):
            pass

    def expect(self, pattern):
        """Waits until the terminal shows it, and forgets what was shown up to there."""
        def look():
            self._read()
            return re.search(pattern, self.seen)
        try:
            found = wait_until(look, pattern)
        except TimeoutError as missing:
            raise AssertionError(f"{missing}; the terminal shows {self.seen!r}") from None
        before, self.seen = self.seen[:found.end()], self.seen[found.end():]
        return before

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def command(self, line):
        self.type(line + "\n")
        self.expect(re.escape(line) + r"\r?\n")

    def has_stopped_job(self):
        """Until the shell knows, fg would not continue a job."""
        self.command("jobs -s; echo that is all")
        return "Stopped" in self.expect(r"that is all\r?\n")

    def expect_end(self, code):
        """Waits for the end of the command, and for its exit code."""
        self.expect(re.escape(PROMPT))
        self.command("echo code $?")
        equal(int(re.search(r"code (\d+)", self.expect(r"code \d+\r?\n")).group(1)), code)

    def end(self):
        self.command("exit")
        os.waitpid(self.pid, 0)
        os.close(self.fd)


def is_stopped(pid):
    return read(f"/proc/{pid}/stat").rpartition(")")[2].split()[:1] == ["T"]


def patient_store(ttl="10s", transition="6s"):
    os.environ["SIMBA_URL"] = url(ttl=ttl, transition=transition)


def patient_shell():
    patient_store()
    return Shell()


def start_holder(identity, **lease):
    """Somebody else, who has the mutex."""
    patient_store(**lease)
    holder = Simba("--exact-id", identity, "lock", "m", "--", "bash", "-c", HOLD)
    number("holder")
    return holder


@case
def a_program_that_reads_keys_works_under_lock():
    patient_store()
    write("editor.py", EDITOR)
    shell = Shell()
    shell.command(f"$S lock m -- {sys.executable} editor.py")
    shell.expect("<editing>")
    shell.type("a\x03")
    shell.expect("<a>.*<\\^C>")
    shell.resize(60)
    shell.expect("<resized>")
    shell.type("q")
    shell.expect_end(9)
    shell.command("stty -a | grep -o ' echo '")
    shell.expect(" echo ")
    shell.end()


@case
def a_program_that_is_killed_leaves_the_terminal_as_it_was():
    write("editor.py", EDITOR)
    write("script", f"$S lock m -- {sys.executable} editor.py\nstty -a | grep -o ' echo '\n")
    shell = Shell()
    shell.command("bash script")
    shell.expect("<editing>")
    steal()
    shell.expect(" echo ")
    shell.expect(re.escape(PROMPT))
    shell.end()


@case
def ctrl_c_ends_the_command_and_the_shell_goes_on():
    shell = patient_shell()
    for verb in ("lock", "lead"):
        shell.command(f"$S {verb} m -- bash -c '{HOLD}'")
        number("holder")
        shell.type("\x03")
        shell.expect_end(128 + signal.SIGINT if verb == "lock" else 0)
        os.remove("holder")
    true(is_free(), "somebody still owns")
    shell.end()


@case
def ctrl_c_ends_the_script_around_it_too():
    shell = patient_shell()
    holder = None
    for _ in range(2):  # while the command runs, and while somebody else has the mutex
        write("script", f"$S lock m -- bash -c '{HOLD}'\necho the script goes on\n")
        shell.command("bash script; echo it ended with $?")
        if holder is None:
            number("holder")
        else:
            shell.expect("waiting for 'm'")
        shell.type("\x03")
        shown = shell.expect(re.escape(PROMPT))
        true("goes on" not in shown, f"the script was not interrupted: {shown!r}")
        if holder is None:
            os.remove("holder")
            holder = start_holder("another")
    holder.end()
    shell.end()


@case
def a_script_goes_on_when_the_command_has_an_answer_to_ctrl_c():
    shell = patient_shell()
    write("script", "$S lock m -- bash -c 'trap \"exit 130\" INT; echo $$ >holder; while :; do sleep 0.01;"
          " done'\necho the script goes on after $?\n")
    shell.command("bash script")
    number("holder")
    shell.type("\x03")
    shell.expect("the script goes on after 130")
    shell.end()


@case
def ctrl_z_does_nothing_where_there_is_no_shell():
    patient_store()
    for arguments in (("lock", "m", "--", "bash", "-c", "echo $$ >holder; read line; echo got $line; exit 7"),
                      ("lead", "--restart", "never", "m", "--", "bash", "-c",
                       "echo $$ >holder; until [ -e go ]; do sleep 0.01; done; exit 7")):
        pid, fd = pty.fork()
        if pid == 0:
            os.execl(PROGRAM, PROGRAM, *arguments)
        command = number("holder")
        os.write(fd, b"\x1a")
        wait_until(lambda: b"not stopped" in os.read(fd, 65536), "it says that it goes on")
        wait_until(lambda: not is_stopped(command), "the command goes on")
        os.write(fd, b"words\n")
        write("go", "")
        equal(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 7)
        os.close(fd)
        os.remove("holder")
        os.remove("go")


@case
def ctrl_c_between_two_runs_ends_it():
    shell = patient_shell()
    shell.command("$S lead --restart-delay 1h m -- false")
    shell.expect("starts again in 1h")
    shell.type("\x03")
    shell.expect_end(0)
    shell.end()


@case
def ctrl_z_stops_the_job_and_fg_goes_on_with_it():
    shell = patient_shell()
    for verb in ("lock", "lead --restart never", "schedule --every 1h"):
        shell.command(f"$S {verb} m -- bash -c 'echo $$ >holder; until [ -e go ]; do sleep 0.01; done;"
                      " echo so far; exit 3'")
        command = number("holder")
        shell.type("\x1a")
        shell.expect(r"stopped: the command is killed and 'm' passes to others in 1\ds unless")
        shell.expect("Stopped")
        wait_until(lambda: is_stopped(command), "it is stopped")
        shell.command("fg")
        write("go", "")
        shell.expect("so far")
        if verb.startswith("schedule"):
            shell.expect("failed with exit code 3")
            shell.type("\x03")
        shell.expect_end(0 if verb.startswith("schedule") else 3)
        os.remove("holder")
        os.remove("go")
    shell.end()


@case
def a_stopped_job_is_killed_at_the_end_of_its_lease():
    shell = Shell()
    shell.command(f"$S lock m -- bash -c '{HOLD}'")
    command = number("holder")
    shell.type("\x1a")
    shell.expect("Stopped")
    wait_until(lambda: not is_alive(command))
    shell.command("fg")
    shell.expect_end(70)
    shell.end()


@case
def the_keys_are_for_the_other_end_of_a_pipeline():
    shell = patient_shell()
    shell.command("$S lock m -- bash -c 'echo page; sleep 0.2; echo two' |"
                  " (read line; read key </dev/tty; echo $line and $key; cat)")
    shell.type("a key\n")
    shell.expect("page and a key")
    shell.expect("two")
    shell.expect(re.escape(PROMPT))
    shell.command(f"$S lock m -- bash -c '{HOLD}' | cat")
    number("holder")
    shell.type("\x03")
    shell.expect(re.escape(PROMPT))
    true(is_free(), "somebody still owns")
    shell.end()


# What prompts for a password does, in a pipeline with somebody who only writes.
ASKS = ("bash -c 'stty -echo </dev/tty; echo $$ >holder; read word; stty echo </dev/tty;"
        " echo it is $word; exec sleep 0.01'")


@case
def a_command_in_a_pipeline_or_a_script_has_the_terminal_when_it_asks_for_it():
    shell = patient_shell()
    write("script", f"$S lock m -- {ASKS} | cat\necho the script goes on\n")
    for line in (f"$S lock m -- {ASKS} | cat", "bash script", "bash script | cat"):
        shell.command(line)
        number("holder")
        shell.type("secret\n")
        shown = shell.expect("it is secret")
        true("stopped" not in shown, f"it was stopped: {shown!r}")
        if "script" in line:
            shell.expect("the script goes on")
        shell.expect_end(0)
        os.remove("holder")
    shell.end()


@case
def both_ends_of_a_pipeline_read_from_the_terminal_in_turn():
    shell = patient_shell()
    shell.command("$S lock m -- bash -c 'read a </dev/tty; echo $a; until [ -e go ]; do sleep 0.01; done;"
                  " read c </dev/tty; echo $c' |"
                  " (read a; echo first $a; read b </dev/tty; echo then $b; >go; read c; echo last $c)")
    for word, shown in (("one", "first one"), ("two", "then two"), ("three", "last three")):
        shell.type(word + "\n")
        shell.expect(shown)
    shell.expect_end(0)
    shell.end()


@case
def two_locks_in_one_pipeline_read_from_the_terminal_in_turn():
    shell = patient_shell()
    shell.command("$S lock a -- bash -c 'read a </dev/tty; echo $a; until [ -e go ]; do sleep 0.01; done;"
                  " read c </dev/tty; echo $c' |"
                  " $S lock b -- bash -c 'read a; echo first $a; read b </dev/tty; echo then $b; >go;"
                  " read c; echo last $c'")
    for word, shown in (("one", "first one"), ("two", "then two"), ("three", "last three")):
        shell.type(word + "\n")
        shell.expect(shown)
    shell.expect_end(0)
    true(is_free("a") and is_free("b"), "somebody still owns")
    shell.end()


@case
def two_locks_in_one_pipeline_that_ask_at_once_both_get_the_terminal():
    shell = patient_shell()
    shell.command("$S lock a -- bash -c '>a; read line </dev/tty; echo $line >>got' |"
                  " $S lock b -- bash -c '>b; read line </dev/tty; echo $line >>got; cat'")
    wait_until(lambda: os.path.exists("a") and os.path.exists("b"), "both run")
    for count, word in enumerate(("one", "two"), 1):
        shell.type(word + "\n")
        wait_until(lambda: len(lines("got")) == count, word)
    equal(lines("got"), ["one", "two"])
    shell.expect_end(0)
    shell.end()


@case
def ctrl_c_and_ctrl_z_are_for_two_locks_in_one_pipeline():
    shell = patient_shell()
    shell.command("$S lock a -- bash -c 'echo $$ >holder; exec sleep 100' |"
                  " $S lock b -- bash -c 'read line </dev/tty; echo got $line; exec cat'")
    command = number("holder")
    shell.type("one\n")
    shell.expect("got one")
    shell.type("\x1a")
    shell.expect("Stopped")
    wait_until(shell.has_stopped_job, "the shell knows of it")
    wait_until(lambda: is_stopped(command), "it is stopped")
    shell.command("fg")
    wait_until(lambda: not is_stopped(command), "it goes on")
    shell.type("\x03")
    shell.expect(re.escape(PROMPT))
    true(is_free("a") and is_free("b"), "somebody still owns")
    shell.end()


@case
def ctrl_c_and_ctrl_z_are_for_the_whole_pipeline_once_the_command_has_the_terminal():
    shell = patient_shell()
    write("script", "$S lock m -- bash -c 'read a; echo $$ >holder; echo got $a; read b; echo got $b' | cat\n"
          "echo the script goes on\n")
    for keys in ("\x1a", "\x03"):
        shell.command("bash script")
        shell.type("one\n")
        shell.expect("got one")
        number("holder")
        shell.type(keys)
        if keys == "\x1a":
            shell.expect("Stopped")
            wait_until(shell.has_stopped_job, "the shell knows of it")
            shell.command("fg")
            shell.type("two\n")
            shell.expect("got two")
            shell.expect("the script goes on")
        shown = shell.expect(re.escape(PROMPT))
        true("goes on" not in shown, f"the script was not interrupted: {shown!r}")
        os.remove("holder")
    true(is_free(), "somebody still owns")
    shell.end()


@case
def a_pipeline_in_the_background_stops_as_a_whole_when_the_command_asks_for_the_terminal():
    shell = patient_shell()
    shell.command("$S lock m -- bash -c 'read line </dev/tty; echo got $line' | cat &")
    shell.expect("stopped: the command is killed")
    wait_until(shell.has_stopped_job, "the shell knows of it")
    shell.command("fg")
    shell.type("words\n")
    shell.expect("got words")
    shell.expect_end(0)
    shell.end()


@case
def a_command_that_nobody_can_give_the_terminal_is_hung_up():
    shell = patient_shell()
    for script, code in (("read line </dev/tty", "sending it SIGHUP"),
                         ('trap "" HUP; read line </dev/tty', "has not ended in time: killing it")):
        shell.command(f"( $S lock -k 200ms m -- bash -c 'echo $$ >holder; {script}' 2>said & )")
        command = number("holder")
        wait_until(lambda: not is_alive(command))
        wait_until(is_free)
        contains(read("said"), code)
        contains(read("said"), "simba: the command waits for a terminal that it cannot get: sending it SIGHUP\n")
        true("stopped" not in read("said"), f"more than that is said: {read('said')!r}")
        os.remove("holder")
    shell.end()


@case
def a_terminal_that_is_given_at_once_is_no_reason_to_warn():
    shell = patient_shell()
    shell.command("$S lock a -- $S lock b -- bash -c 'read line </dev/tty; echo got $line' | cat")
    shell.type("one\n")
    shown = shell.expect(re.escape(PROMPT))
    contains(shown, "got one")
    true("stopped" not in shown, f"it was stopped: {shown!r}")
    shell.end()


@case
def a_command_whose_input_is_a_file_reads_from_the_terminal():
    shell = patient_shell()
    shell.command("$S lock m -- bash -c 'read line </dev/tty; echo got $line' </dev/null")
    shell.type("words\n")
    shell.expect("got words")
    shell.expect_end(0)
    shell.end()


@case
def ctrl_c_ends_a_leader_whose_command_takes_it_lightly():
    shell = patient_shell()
    shell.command("$S lead --stop-timeout 300ms m -- bash -c 'trap : INT; echo $$ >holder;"
                  " while :; do sleep 0.05; done'")
    number("holder")
    shell.type("\x03")
    shell.expect_end(0)
    shell.end()


@case
def the_command_of_a_leader_does_not_wait_for_the_terminal():
    shell = patient_shell()
    shell.command("$S lead -q --restart never m -- bash -c 'read line; echo end of input; exit 4'")
    shell.expect("end of input")
    shell.expect_end(4)
    shell.end()


@case
def the_command_of_a_leader_that_opens_the_terminal_does_not_stop_it():
    shell = patient_shell()
    for verb in ("lead --restart never", "schedule --every 1h"):
        shell.command(f"$S {verb} -q m -- bash -c 'stty tostop </dev/tty; echo words; stty -tostop </dev/tty;"
                      " read line </dev/tty; exit 4'")
        shell.expect("words")
        if verb.startswith("schedule"):
            shell.expect("failed with exit code 4")
            shell.type("\x03")
        shell.expect_end(0 if verb.startswith("schedule") else 4)
    shell.end()


@case
def a_command_of_a_leader_that_insists_on_the_terminal_is_hung_up():
    """An interactive shell stops itself until it gets the terminal, whatever was ignored before."""
    shell = patient_shell()
    shell.command("$S lead -q --restart never m -- bash --norc --noprofile -i")
    shell.expect("waits for a terminal that it cannot get: sending it SIGHUP")
    shell.expect_end(128 + signal.SIGHUP)
    shell.end()


@case
def the_jobs_of_a_shell_end_with_the_lease():
    shell = patient_shell()
    shell.command("$S lock m -- bash --norc --noprofile --noediting -i")
    shell.expect(re.escape(PROMPT))
    shell.command("sleep 100 & echo $! >job")
    job = number("job")
    steal()
    shell.expect("is lost")
    wait_until(lambda: not is_alive(job))
    shell.expect_end(70)
    shell.end()


@case
def bg_lets_the_command_go_on_and_it_stops_when_it_reads():
    shell = patient_shell()
    shell.command("$S lock m -- bash -c 'echo $$ >holder; sleep 0.2; read line; echo got $line'")
    number("holder")
    shell.type("\x1a")
    shell.expect("Stopped")
    shell.command("bg")
    shell.expect("stopped: the command is killed")
    wait_until(shell.has_stopped_job, "the shell knows of it")
    shell.command("fg")
    shell.type("words\n")
    shell.expect("got words")
    shell.expect_end(0)
    shell.end()


@case
def a_wait_shows_the_owner_and_that_it_renews_in_one_line():
    holder = start_holder("holder", ttl="1s", transition="4s")
    shell = Shell()
    shell.resize(200)
    shell.command("$S lock m -- echo it-runs")
    for seconds in range(2, 5):
        shell.expect(rf"{seconds}s: waiting for 'm', 1st in line, held by holder for at least \d+s; [^\r]*store: sqlite:")
    shell.expect(r"held by holder for at least \d+s; lease renewed; store: sqlite:")
    true("\n" not in shell.seen, f"more than one line: {shell.seen!r}")
    holder.end()
    shown = shell.expect("it-runs")
    true(shown.endswith("\r\x1b[Kit-runs"), f"it is not wiped out: {shown!r}")
    shell.expect(re.escape(PROMPT))
    shell.end()


@case
def status_at_a_terminal_says_which_store_it_is():
    shell = Shell()
    equal(Simba("lock", "m", "--", "true").wait(), 0)
    shell.command("$S status --all")
    shell.expect(r"the store is\s+sqlite:.*store.db")
    shell.expect("MUTEX")
    shell.expect(r"\x1b\[2mm .*\r\n\x1b\[0m")  # what is free is dim
    shell.expect(re.escape(PROMPT))
    shell.command("$S -q --no-color status")
    shown = shell.expect(re.escape(PROMPT))
    true("the store is" not in shown and "\x1b" not in shown, f"not quiet or not plain: {shown!r}")
    shell.end()


def shown_in_place(shell):
    """How long the next text is that is written over."""
    shell.expect(r"\r\x1b\[K")
    return len(shell.expect(r"\r\x1b\[K").replace("\r\x1b[K", ""))


@case
def a_wait_is_not_wider_than_the_terminal_and_ctrl_c_ends_it():
    holder = start_holder("h" * 100)
    shell = Shell()
    shell.resize(40)
    shell.command("$S lock m -- true")
    shell.expect(r"s: 'm', held by hhhh*\.\.\.hhhh*")
    for columns in (40, 80, 180):  # the window may change meanwhile
        shell.resize(columns)
        wait_until(lambda: columns - 20 <= shown_in_place(shell) <= columns - 1, f"a line of {columns} columns")
    shell.type("\x03")
    shell.expect_end(128 + signal.SIGINT)
    holder.end()
    shell.end()


@case
def the_names_are_seen_whole_at_80_columns():
    holder = start_holder("0:22771@192.0.2.200~zkn2vl (by ann)")
    shell = Shell()
    shell.resize(80)
    shell.command("$S lock m -- true")
    shell.expect(r"1s: 'm', 1st in line, held by 0:22771@192\.0\.2\.200~zkn2vl \(by ann\)\r")
    shell.type("\x03")
    shell.expect_end(128 + signal.SIGINT)
    shell.command("$S --ttl 1m lock nightly-report -- $S lock -q m -- true & sleep 0.5; $S lock nightly-report -- true")
    shell.expect(r"1s: 'nightly-report', 1st in line, held by [^\r]{20,30}\r")
    shell.type("\x03")
    shell.command("kill %1; wait; echo it-is-over")
    shell.expect("it-is-over\r")
    holder.end()
    shell.end()


@case
def a_wait_can_be_silenced_and_a_background_job_writes_one_line():
    holder = start_holder("holder")
    shell = Shell()
    shell.command("$S lock -q -w 1500ms m -- true")
    shown = shell.expect(re.escape(PROMPT))
    equal(shown, PROMPT)
    shell.command("$S lock -w 3500ms m -- true & wait")
    shown = shell.expect("Exit 75")
    equal(shown.count("waiting for 'm'"), 1)
    true("\x1b" not in shown, f"it moves the cursor: {shown!r}")
    holder.end()
    shell.end()


def warning_shown(**environment):
    """What a warning of the library looks like: a renewal that comes to nothing. On a busy machine the lease may end first."""
    write("block.py", BLOCK)
    for _ in range(10):
        shell = Shell(**environment)
        shell.command(f"$S lock m -- {sys.executable} block.py")
        shown = shell.expect("warning:|" + re.escape(PROMPT))
        if "warning:" in shown:
            shell.expect(re.escape(PROMPT))
        shell.end()
        if "warning:" in shown:
            return shown
    raise AssertionError("no renewal was tried before the lease ended")


@case
def warnings_are_coloured_on_a_terminal_unless_no_color_says_no():
    contains(warning_shown(), "\x1b[33mwarning:")
    true("\x1b[33m" not in warning_shown(NO_COLOR="1"), "NO_COLOR is not respected")
    true("\x1b" not in warning_shown(TERM="dumb"), "the terminal cannot do it")


@case
def a_hang_up_ends_a_leader_and_its_command():
    shell = patient_shell()
    shell.command(f"$S lead m -- bash -c '{HOLD}'")
    command = number("holder")
    os.close(shell.fd)
    wait_until(lambda: not is_alive(command))
    wait_until(is_free)
    os.waitpid(shell.pid, 0)


if __name__ == "__main__":
    sys.exit(main())
