#!/usr/bin/env python3
"""A password stays out of sight: of ps, of /proc, of what is said and of what is logged. And what ps shows of
the guardian."""
import glob
import os
import re
import shutil
import signal
import subprocess
import sys

from program import (PROGRAM, Simba, Skipped, case, contains, equal, main, number, read, run, true, url, wait_until, write)
from stores import Redis, free_port

SECRET = "s3cr3t-w0rd"
HOLD = "echo $$ >pid.new; mv pid.new pid; exec sleep 100"


def store():
    """Nobody listens there."""
    return f"redis://user:{SECRET}@127.0.0.1:{free_port()}"


def line_of(pid):
    return read(f"/proc/{pid}/cmdline").rstrip("\0").replace("\0", " ")


def children(pid):
    return [int(child) for child in read(f"/proc/{pid}/task/{pid}/children").split()]


def guardian_of(program):
    """The child of the program that is not the command."""
    command = number("pid")
    return [child for child in children(program.pid) if child != command][0]


def hidden(text, where):
    true(SECRET not in text, f"the password is in {where}: {text}")


@case
def the_guardian_tells_in_ps_whose_it_is():
    program = Simba("lock", "m", "--", "bash", "-c", HOLD)
    guardian = guardian_of(program)
    wait_until(lambda: line_of(guardian) == f"simba: guardian of {program.pid}", "it has its title")
    equal(read(f"/proc/{guardian}/comm"), "simba-guardian\n")
    equal(read(f"/proc/{guardian}/environ").rstrip("\0"), "")
    contains(line_of(program.pid), "lock m -- bash -c")
    program.end()


@case
def a_title_that_is_longer_than_the_command_line_is_whole():
    os.environ["PATH"] = os.getcwd() + ":" + os.environ["PATH"]
    os.symlink("/bin/sleep", "s")
    program = Simba("lock", "m", "s", "9")
    wait_until(lambda: any(line_of(child) == f"simba: guardian of {program.pid}"
                           for child in children(program.pid)), "it has its title")
    program.end()


@case
def a_password_on_the_command_line_is_not_seen_in_ps():
    secret = store()
    for arguments in (["-u", secret], [f"-u{secret}"], ["--url", secret], [f"--url={secret}"]):
        program = Simba("lock", "-w", "1h", *arguments, "m", "--", "true")
        wait_until(program.takes_signals)
        hidden(line_of(program.pid), "ps")
        contains(line_of(program.pid), "redis://user:***@127.0.0.1")
        equal(program.end(), 128 + signal.SIGTERM)
        hidden(program.said(), "what was said")


@case
def a_password_in_the_environment_is_not_seen_in_proc_and_passed_on():
    secret = store()
    program = Simba("lock", "-w", "1h", "m", "--", "true", env={"SIMBA_URL": secret})
    wait_until(program.takes_signals)
    hidden(read(f"/proc/{program.pid}/environ"), "/proc/PID/environ")
    program.end()


def with_user(redis, password):
    """The URL of a user of that server."""
    redis.socket.sendall(f"ACL SETUSER user on >{password} ~* &* +@all\r\n".encode())
    contains(redis.socket.recv(4096).decode(), "OK")
    return f"redis://user:{password}@127.0.0.1:{redis.port}"


def a_password_of_the_command_line_reaches_the_command_by_a_descriptor():
    """Of the environment it is passed on as it is."""
    redis = Redis()
    try:
        secret = with_user(redis, SECRET)
        program = run("lock", "m", "--", "sh", "-c", "echo $SIMBA_URL", env={"SIMBA_URL": secret})
        equal((program.code, read(program.out)), (0, secret + "\n"))
        write("c.yaml", f"simba: {{redis: {{url: '{secret}'}}}}\n")
        os.chmod("c.yaml", 0o600)
        for given in (["-u", secret], ["-c", "c.yaml"]):
            look = f"env; cd /; $0 status --json m; exec 3</dev/null; $0 lock other -- $0 status --json m"
            program = run(*given, "--exact-id", "outer", "lock", "m", "--", "sh", "-c", look, PROGRAM)
            equal((program.code, program.said()), (0, ""))
            hidden(read(program.out), "the environment or what was printed")
            true(not re.search("^SIMBA_URL", read(program.out), re.M), "there is another store, too")
            equal(read(program.out).count('"owner":"outer"'), 2)
    finally:
        redis.stop()


def files_that_the_url_names_stay_those_of_the_working_folder():
    """The command may go where others can put a file of that name."""
    redis = Redis()
    try:
        plain = with_user(redis, SECRET).replace(f":{SECRET}", "")
        os.makedirs("here/there & there")
        os.chdir("here")
        write("word", SECRET)
        os.chmod("word", 0o600)
        write("there & there/word", "another")
        look = "cd 'there & there'; echo $SIMBA_URL; $0 status --json m"
        program = run("-u", f"{plain}?password-file=word", "--exact-id", "outer", "lock", "m", "--",
                      "sh", "-c", look, PROGRAM)
        equal((program.code, program.said()), (0, ""))
        contains(read(program.out), f"password-file={os.getcwd()}/word")
        contains(read(program.out), '"owner":"outer"')
        os.chdir("there & there")
        program = run("-u", "sqlite:a.db?create=yes", "lock", "m", "--", "sh", "-c",
                      "cd /; echo $SIMBA_URL; $0 status", PROGRAM)
        equal((program.code, program.said()), (0, ""))
        contains(read(program.out), "there%20%26%20there/a.db?create=yes")
    finally:
        redis.stop()


def a_command_that_gives_up_its_rights_cannot_read_the_password():
    """Nor can one that keeps them read it from the descriptor itself."""
    python = shutil.which("python3", path="/usr/bin:/bin")
    if os.getuid() != 0 or python is None:
        raise Skipped("only root can become another user, who needs a Python that all may run")
    redis = Redis()
    try:
        look = """if True:
            import os
            path = os.environ["SIMBA_CONFIG"]
            os.fstat(int(path.rsplit("/", 1)[1]))
            def attempt(read):
                try:
                    print(read())
                except OSError as error:
                    print(type(error).__name__, error.strerror)
            attempt(lambda: os.pread(int(path.rsplit("/", 1)[1]), 1000, 0))
            attempt(lambda: open(path).read())
            """
        other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        for become, readable in (([], True), (other, False)):
            program = run("-u", with_user(redis, SECRET), "lock", "m", "--", *become, python, "-c", look)
            equal((program.code, program.said()), (0, ""))
            by_descriptor, by_path = read(program.out).split("\n", 1)
            equal(by_descriptor, "OSError Bad file descriptor")
            equal(SECRET in by_path, readable)
            true(readable or by_path.startswith("PermissionError"), by_path)
    finally:
        redis.stop()


def a_password_of_stars_is_one():
    redis = Redis()
    try:
        program = run("-u", with_user(redis, "***"), "--exact-id", "outer", "lock", "m", "--",
                      "sh", "-c", "echo $SIMBA_URL $SIMBA_CONFIG; $0 status --json m", PROGRAM)
        equal((program.code, program.said()), (0, ""))
        true(read(program.out).startswith("/dev/fd/"), read(program.out))
        contains(read(program.out), '"owner":"outer"')
    finally:
        redis.stop()


if Redis.exists():
    case(a_password_of_the_command_line_reaches_the_command_by_a_descriptor)
    case(files_that_the_url_names_stay_those_of_the_working_folder)
    case(a_command_that_gives_up_its_rights_cannot_read_the_password)
    case(a_password_of_stars_is_one)


def copy_with_tellers():
    """The program, beside programs for tck and bench that tell how they were started."""
    folder = os.path.basename(glob.glob(os.path.join(os.path.dirname(PROGRAM), "simba-[0-9]*[0-9]"))[0])
    os.makedirs(f"place/{folder}", 0o755)
    for verb in ("tck", "bench"):
        path = f"place/{folder}/simba-{verb}"
        write(path, "#!/bin/sh\ntr '\\0' '\\n' </proc/$$/cmdline | tail -n +3\necho \"$SIMBA_URL\"\n")
        os.chmod(path, 0o755)
    return os.path.abspath(shutil.copy(PROGRAM, "place/simba"))


def told(program, *arguments):
    """The arguments, and SIMBA_URL, of the program that was started."""
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, check=False)
    equal((done.returncode, done.stderr), (0, ""))
    *passed, given = done.stdout.splitlines()
    return passed, given


@case
def the_programs_behind_verbs_are_given_the_password_out_of_sight():
    secret, program = store(), copy_with_tellers()
    for arguments, left in ((["-u", secret], []), ([f"-u{secret}"], []), (["--url", secret], []),
                            ([f"--url={secret}"], []), (["-qu", secret], ["-q"]), ([f"-qu{secret}"], ["-q"])):
        for verb in ("tck", "bench"):
            equal(told(program, *arguments, verb, "--processes", "2"), ([*left, verb, "--processes", "2"], secret))
            equal(told(program, "-q", verb, *arguments), (["-q", verb, *left], secret))
            equal(told(program, verb, *arguments, "--ttl=2s"), ([verb, *left, "--ttl=2s"], secret))


@case
def what_has_no_password_is_passed_on_as_it_is():
    program = copy_with_tellers()
    os.environ["SIMBA_URL"] = secret = store()
    for arguments in (["bench", "--url", "redis://user@host"], ["bench", "-u", ""], ["tck"], ["tck", "-c", "file"]):
        equal(told(program, *arguments), (arguments, secret))


@case
def no_verb_tells_a_password_in_an_error_or_a_log():
    secret = store()
    for arguments in (["lock", "m", "--", "true"], ["lock", "-n", "m", "--", "true"],
                      ["lock", "-w", "1200ms", "m", "--", "true"], ["lead", "-w", "0s", "m", "--", "true"],
                      ["schedule", "-w", "200ms", "--every", "1s", "m", "--", "true"], ["status"], ["watch", "m"],
                      ["release", "-f", "m"], ["init"], ["init", "--print"], ["tck", "--case", "start"],
                      ["bench", "cycle"]):
        for given in (["-u", secret, "--log-level", "debug"], ["-u", secret + "?nonsense=1"]):
            program = run(*given, *arguments)
            hidden(program.said() + read(program.out), f"what {arguments} said")
            true(program.code != 0 or arguments[0] == "init", f"{arguments} succeeded")


@case
def a_url_in_the_wrong_place_is_not_repeated_with_its_password():
    secret = store()
    for arguments in ([secret, "status"], [f"--ur={secret}", "status"], ["init", secret], ["tck", secret],
                      ["bench", secret], ["tck", "--case", secret],
                      ["help", "lock", secret], ["help", secret], ["status", f"--urll={secret}"]):
        program = run(*arguments)
        equal(program.code, 64)
        hidden(program.said(), f"what {arguments} said")


@case
def the_wait_names_the_store_without_its_password():
    program = Simba("-u", store(), "lock", "-w", "1h", "m", "--", "true")
    wait_until(lambda: "waiting for 'm'" in program.said(), "it waits")
    true(re.search(r"store: redis://user:\*\*\*@127.0.0.1:\d+", program.said()), program.said())
    hidden(program.said(), "what was said")
    program.end()


if __name__ == "__main__":
    sys.exit(main())
