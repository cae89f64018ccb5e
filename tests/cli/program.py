"""Runs the program as a user does, for tests in Python: a folder and a store of its own for each case.

A test file registers its cases with @case and ends with `sys.exit(main())`, which prints TAP. Everything
waits on a condition with a bound; a process that outlives its case fails it.
"""
import ctypes
import os
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import traceback

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from clock import PATIENCE, now, wait_until

PROGRAM = os.environ["SIMBA_PROGRAM"]
TTL, TRANSITION = 0.4, 0.6
LEASE = TTL + TRANSITION
PR_SET_CHILD_SUBREAPER = 36
STAMP = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (?=simba: )"

_cases = []
_started = []


def case(function):
    """Registers a case; its name is what it shows."""
    _cases.append(function)
    return function


def url(name="store.db", ttl="400ms", transition="600ms", more=""):
    return f"sqlite:{os.getcwd()}/{name}?ttl={ttl}&transition={transition}&jitter=0ms..50ms{more}"


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError):  # a process may go while it is looked at
        return ""


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def lines(path):
    """The whole lines of a file that may still be written."""
    return read(path).split("\n")[:-1]


def number(path):
    """Waits for a file with a whole line and returns the number in it."""
    return int(wait_until(lambda: lines(path), path)[0])


class Simba:
    """The program, started. What it says is in the files `out` and `err`. In a session of its own it has no
    terminal, whatever the test has. `within`: a command that becomes the program, as its arguments."""

    def __init__(self, *arguments, stdin=subprocess.DEVNULL, env=None, within=(), **more):
        name = f"{len(_started)}"
        self.out, self.err = "out." + name, "err." + name
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.process = subprocess.Popen([*within, PROGRAM, *arguments], stdin=stdin, stdout=out,
                                            stderr=err, start_new_session=True,
                                            env={**os.environ, **(env or {})}, **more)
        self.pid = self.process.pid
        _started.append(self)

    def wait(self):
        """The exit code, or minus the signal."""
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired as late:
            raise AssertionError("it did not end; it said: " + self.said()) from late

    def send(self, number_of):
        self.process.send_signal(number_of)

    def end(self, number_of=signal.SIGTERM):
        self.send(number_of)
        return self.wait()

    def stop(self):
        """Stops it where it is not writing to the store: a process stopped there keeps the file from all others."""
        def stands_still():
            self.send(signal.SIGSTOP)
            os.waitid(os.P_PID, self.pid, os.WSTOPPED)
            folder = f"/proc/{self.pid}/fdinfo"
            if not any(re.search(r"^lock:.* POSIX .* WRITE ", read(f"{folder}/{fd}"), re.M) for fd in os.listdir(folder)):
                return True
            self.send(signal.SIGCONT)
            return False
        wait_until(stands_still)

    def insist(self):
        """Whether it has ended; what comes right after the first signal is the same request."""
        self.send(signal.SIGTERM)
        return self.process.poll() is not None

    def said(self):
        """Without the times of a leader's lines."""
        return re.sub(STAMP, "", read(self.err), flags=re.M)

    def takes_signals(self):
        """Whether it has come so far that a signal is an event to it."""
        if self.process.poll() is not None:
            raise AssertionError(f"it ended with {self.process.returncode}: {self.said()}")
        folder = f"/proc/{self.pid}/fd"
        try:
            return any("signalfd" in os.readlink(f"{folder}/{fd}") for fd in os.listdir(folder))
        except OSError:
            return False


def run(*arguments, **more):
    """Runs the program to its end."""
    program = Simba(*arguments, **more)
    program.code = program.wait()
    return program


class Skipped(Exception):
    """Why a case cannot be tried here."""


def as_nobody():
    """For run and Simba: as a user who may not do everything, where the tests are run by one who may."""
    if os.getuid() != 0:
        return {}
    rights = {"user": 65534, "group": 65534, "extra_groups": []}
    try:
        subprocess.run([PROGRAM, "--version"], check=True, capture_output=True, timeout=PATIENCE, **rights)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Skipped(f"the tree lies where user 65534 may not run {PROGRAM}") from error
    return rights


def own_mounts():
    """The beginning of a command with mounts of its own."""
    command = ["unshare", "--mount"] + (["--map-root-user"] if os.getuid() != 0 else [])
    if shutil.which("mount") is None:
        raise Skipped("there is no mount here")
    tried = subprocess.run([*command, "mount", "-t", "tmpfs", "none", "."], check=False, capture_output=True)
    if tried.returncode != 0:
        raise Skipped("mounting is not allowed here")
    return command


class OtherMounts:
    """A process with a folder of its own mounted on an empty one, in which it is. To all others its /proc/PID/cwd reads as
    the path of the empty one, and leads into the other."""

    def __init__(self, files):
        os.makedirs("mounted")
        self.begin = own_mounts()
        self.files = files

    def __enter__(self):
        command = 'mount -t tmpfs -o mode=755 none "$0" && cd "$0" && echo && exec cat'
        self.process = subprocess.Popen([*self.begin, "sh", "-c", command, os.path.abspath("mounted")],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        equal(self.process.stdout.readline(), b"\n")
        self.folder = f"/proc/{self.process.pid}/cwd"
        for name, text in self.files.items():
            write(f"{self.folder}/{name}", text)
            os.chmod(f"{self.folder}/{name}", 0o600)
        return self

    def __exit__(self, *unused):
        self.process.communicate()


def is_sanitized():
    """Such a build needs more of all, and reserves terabytes of addresses."""
    with open(PROGRAM, "rb") as file:
        program = file.read()
    return b"__asan_init" in program or b"__tsan_init" in program


def limit_memory(mebibytes):
    """For run and Simba, as preexec_fn: so many addresses, where the build allows it."""
    def limit():
        if not is_sanitized():
            resource.setrlimit(resource.RLIMIT_AS, (mebibytes << 20, mebibytes << 20))
    return limit


def is_alive(pid):
    """A zombie is not alive."""
    text = read(f"/proc/{pid}/stat")
    return text != "" and text.rpartition(")")[2].split()[0] not in "ZX"


def is_free(mutex="m"):
    """Whether nobody owns the mutex; takes part for an instant to find out."""
    return run("lock", "-nq", mutex, "--", "true").code == 0


def stays_taken(until, mutex="m"):
    """Nobody else gets the mutex before that time. An attempt that ends later says nothing."""
    while now() < until:
        true(not is_free(mutex) or now() >= until, "the mutex was given away")


def equal(got, expected):
    if got != expected:
        raise AssertionError(f"{got!r} is not {expected!r}")


def contains(text, part):
    if part not in text:
        raise AssertionError(f"{part!r} is not in: {text}")


def true(condition, what):
    if not condition:
        raise AssertionError(what)


def clock(library, ahead_s, name="clock"):
    """For run and Simba, as env: a wall clock of its own, so many seconds ahead, by the library of set_clock.c. Calling it again
    sets the clock of those that run."""
    if not library:
        raise Skipped("nothing can be preloaded before a sanitizer")
    write(name + ".new", f"{ahead_s}\n")
    os.replace(name + ".new", name)
    return {"LD_PRELOAD": library, "SIMBA_TEST_CLOCK": os.path.abspath(name)}


class Blocked:
    """Makes the SQLite store hang for all who write, by a transaction of the test's own."""

    def __enter__(self):
        self.store = sqlite3.connect("store.db", timeout=PATIENCE, isolation_level=None)
        self.store.execute("BEGIN EXCLUSIVE")
        return self

    def lease_end(self, mutex="m"):
        """When the lease on the store ends, on now()."""
        row = self.store.execute("SELECT transition_at FROM simba_mutex WHERE mutex = ?", (mutex,))
        return row.fetchone()[0] / 1000

    def __exit__(self, *unused):
        self.store.execute("ROLLBACK")
        self.store.close()


def steal(mutex="m"):
    """Another owner appears on the store, as after a release by force."""
    store = sqlite3.connect("store.db", timeout=PATIENCE)
    with store:
        store.execute("UPDATE simba_mutex SET owner_id = 'thief', version = version + 1"
                      " WHERE mutex = ?", (mutex,))
    store.close()


def _children():
    text = read(f"/proc/self/task/{os.getpid()}/children")
    return [int(pid) for pid in text.split()]


def _reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass
    except ChildProcessError:
        pass


def _end_leftovers(servers):
    """Orphans are children of the test by now. Those that stay are killed and named; servers of the test that
    were there before may stay."""
    def left_over():
        return set(_children()) - servers

    def gone():
        _reap()
        return not left_over()
    try:
        wait_until(gone, patience=3)
        return []
    except TimeoutError:
        left = left_over()
        names = [read(f"/proc/{pid}/cmdline").replace("\0", " ") for pid in left]

        def killed():
            for pid in left_over():  # those of the dead come after them
                os.kill(pid, signal.SIGKILL)
            return gone()
        wait_until(killed)
        return names


def _run_case(function):
    """What is wrong, and why it was skipped; None where nothing is, or it was not."""
    folder = tempfile.mkdtemp(prefix="simba-cli-")
    os.chdir(folder)
    servers = set(_children())
    _started.clear()
    os.environ["SIMBA_URL"] = url()
    trouble = reason = None
    try:
        function()
    except Skipped as skipped:
        reason = str(skipped)
    except Exception:  # a failure of any kind is one of this case only
        trouble = traceback.format_exc() + "".join(
            f"\n{program.process.args} said: {program.said()}" for program in _started)
    for program in _started:
        if trouble is not None and program.process.poll() is None:
            program.process.kill()
        if program.process.poll() is not None:
            program.process.wait()
    left = _end_leftovers(servers)
    os.chdir("/")
    shutil.rmtree(folder, ignore_errors=True)
    return trouble or (f"left behind: {left}" if left else None), reason


def heed_interrupts():
    """Where a script runs the tests in the background they are ignored, and so they would be by the program."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def main():
    heed_interrupts()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    failed = 0
    for place, function in enumerate(_cases, 1):
        begin = now()
        trouble, reason = _run_case(function)
        print(f"{'ok' if trouble is None else 'not ok'} {place} - {function.__name__}"
              f" ({now() - begin:.1f} s)" + (f" # SKIP {reason}" if reason else ""), flush=True)
        if trouble is not None:
            failed += 1
            print("# " + trouble.replace("\n", "\n# "), flush=True)
    print(f"1..{len(_cases)}")
    return 1 if failed else 0
