#!/usr/bin/env python3
"""No one sees a password: not in the messages of the program, not in ps, not in `status`, on any store that has
passwords, whether the password is right or wrong. Files that the program creates are private.
"""
import os
import shutil
import stat
import subprocess
import sys
import tempfile

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path += [os.path.join(TESTS, "lib"), os.path.join(TESTS, "chaos")]
from clock import wait_until
from process import adopt_orphans, tree_of
from redis_store import Redis, RedisServer
from sql_store import Mariadb, Postgres
from zookeeper_store import Zookeeper

PROGRAM, BUILT = os.environ["SIMBA_PROGRAM"], os.environ["SIMBA_STORES"].split()
SECRET = "s3cr3t-w0rd"
WRONG = "wr0ng-w0rd"
LEASE = "ttl=2s&transition=2s"


def redis(folder):
    store = Redis(folder)
    store.servers = [RedisServer(os.path.join(folder, "guarded"), None, "--requirepass", SECRET)]
    store.servers[0].serves = store.servers[0].is_up  # it answers nobody without the password
    store.start()
    return store, "redis://:{secret}@127.0.0.1:{port}?" + LEASE


def postgres(folder):
    store = Postgres(folder)
    store.start()
    server = store.servers[0]
    server.sql(f"CREATE ROLE guarded LOGIN PASSWORD '{SECRET}'")
    server.sql("GRANT ALL ON SCHEMA public TO guarded")
    with open(os.path.join(server.folder, "data", "pg_hba.conf"), "w", encoding="ascii") as file:
        file.write("host all guarded 127.0.0.1/32 scram-sha-256\nlocal all all trust\n")
    server.sql("SELECT pg_reload_conf()")
    return store, "postgres://guarded:{secret}@127.0.0.1:{port}/simba?" + LEASE


def mariadb(folder):
    store = Mariadb(folder)
    store.start()
    server = store.servers[0]
    server.sql(f"CREATE USER guarded@'%' IDENTIFIED BY '{SECRET}'")
    server.sql("GRANT ALL ON simba.* TO guarded@'%'")
    return store, "mysql://guarded:{secret}@127.0.0.1:{port}/simba?" + LEASE


def zookeeper(folder):
    """It refuses no password; with another one the nodes are somebody else's."""
    store = Zookeeper(folder)
    store.start()
    return store, "zookeeper://guarded:{secret}@127.0.0.1:{port}?acl=creator&" + LEASE


STORES = {"redis": (redis, Redis), "postgres": (postgres, Postgres), "mariadb": (mariadb, Mariadb),
          "zookeeper": (zookeeper, Zookeeper)}


def run(*arguments, **more):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL, check=False, **more)


def expect_hidden(text, where):
    for word in (SECRET, WRONG):
        assert word not in text, f"{where} shows the password: {text}"


def check_said(url, expected, *arguments):
    result = run("-u", url, "--log-level", "debug", *arguments)
    assert result.returncode in expected, f"{arguments}: {result.returncode} {result.stderr}"
    expect_hidden(result.stdout + result.stderr, " ".join(arguments))


def command_lines(pid):
    lines = []
    for one in tree_of(pid):
        try:
            with open(f"/proc/{one}/cmdline", "rb") as file:
                lines.append(file.read().decode(errors="replace"))
        except OSError:  # it has gone meanwhile
            pass
    return lines


def check_ps(url, folder):
    """The program, its guardian and its command, while a mutex is held."""
    held = os.path.join(folder, "held")
    holder = subprocess.Popen([PROGRAM, "-u", url, "lock", "m", "--", "sh", "-c",
                               f"touch {held}; exec sleep 60"], stdin=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: os.path.exists(held), "the mutex is held")
        lines = command_lines(holder.pid)
        assert len(lines) >= 2, f"only {lines} run"
        for line in lines:
            expect_hidden(line, "ps")
        check_said(url, {0}, "status", "--json")
        check_said(url, {75}, "lock", "-n", "m", "--", "true")
    finally:
        holder.terminate()
        holder.wait()


def a_password_is_not_shown(make, folder):
    store, form = make(os.path.join(folder, "store"))
    try:
        port = store.servers[0].port
        url = form.format(secret=SECRET, port=port)
        wait_until(lambda: run("-u", url, "status").returncode == 0, "the store can be used")
        check_ps(url, folder)
        wrong = form.format(secret=WRONG, port=port)
        check_said(wrong, {0, 77}, "status")
        check_said(wrong, {69, 70, 75, 77}, "lock", "-n", "m", "--", "true")
        gone = form.format(secret=SECRET, port=1)
        check_said(gone, {69}, "status")
    finally:
        store.stop()


# Not as a URL is written, or not where one belongs.
MISPLACED = [f"redis://u:{SECRET}@127.0.0.1:1", f"redis://127.0.0.1:1;password={SECRET}", f"redis://h#password={SECRET}",
             f"redis://h/0,password={SECRET}", f"redis://[u:{SECRET}]", f"redis:u:{SECRET}", f"redis://u:{SECRET}",
             f"redis://u:a b {SECRET}@h", f"redis://u:it's{SECRET}@h", f"postgres://h?password%3D{SECRET}",
             f"jdbc:sqlserver://h;user=u;password={SECRET}", f"mysql://u:{SECRET}@h:port/db"]


def a_password_in_the_wrong_place_is_not_shown(folder):
    path = os.path.join(folder, "c.yaml")
    for text in MISPLACED:
        with open(path, "w", encoding="ascii") as file:
            file.write(f'simba.url: "{text}"\n')
        for arguments, environment in (
                (["-u", text, "status", "m"], {}), (["-c", text, "status", "m"], {}), (["-c", path, "status", "m"], {}),
                (["status", "m"], {"SIMBA_CONFIG": text}), ([text], {}), (["status", "--ulr=" + text], {}),
                (["-u", "memory:", "lock", "m", "--", text], {}), (["-u", f"sqlite:{folder}/s.db", "lock", "m", text], {})):
            result = run("--log-level", "debug", *arguments, env={**os.environ, "HOME": folder, **environment})
            assert result.returncode > 0, f"{arguments}, {environment}: {result.returncode}"
            expect_hidden(result.stdout + result.stderr, f"{arguments}, {environment}")


# Runs in the place of the program: tells the store, and the command lines of itself and of the process above it.
SPY = """#!/bin/sh
{ echo "$SIMBA_URL"; tr '\\0' ' ' </proc/$PPID/cmdline; echo; echo "simba $*"; } >"$SPIED"
"""
COMPLETE = {
    "bash": """source simba.bash; COMP_WORDS=(simba -u redis : "${1#redis:}" status ''); COMP_CWORD=6; _simba""",
    "zsh": """source ./_simba; typeset -A opt_args=(-u "$1"); store=(); compadd() { }; _simba_mutexes""",
}


def a_completion_does_not_show_a_password(shell, folder):
    spied, program = os.path.join(folder, "spied"), os.path.join(folder, "simba")
    url = f"redis://u:{SECRET}@h"
    with open(program, "w", encoding="ascii") as file:
        file.write(SPY)
    os.chmod(program, 0o755)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "SPIED": spied, "SIMBA_URL": "memory:"}
    subprocess.run([shell, "-c", COMPLETE[shell], shell, url], env=environment, check=True, timeout=60,
                   cwd=os.path.join(os.path.dirname(TESTS), "completions"))
    with open(spied, encoding="ascii") as file:
        store, *lines = file.read().splitlines()
    expect_hidden("\n".join(lines), "ps")
    assert store == url, f"the completion asks {store}"
    assert "timeout 1 simba" in lines[0] and "status" in lines[1], f"{lines} were seen"


def what_the_program_creates_is_private(folder, umask):
    """Also where the user lets everybody read what he creates, or nobody, not even himself."""
    result = run("lock", "m", "--", "true", env={"HOME": folder, "PATH": os.environ["PATH"]}, umask=umask)
    assert result.returncode == 0, result.stderr
    found = [os.path.join(path, name) for path, folders, files in os.walk(folder)
             for name in folders + files]
    assert any(name.endswith(".db") for name in found), f"no store among {found}"
    for path in found:
        mode = stat.S_IMODE(os.stat(path).st_mode)
        assert mode == (0o700 if os.path.isdir(path) else 0o600), f"{path} has the mode {mode:o}"


def cases():
    for umask in (0, 0o777):
        yield (f"what the program creates by itself is private, with the umask {umask:03o}",
               lambda folder, one=umask: what_the_program_creates_is_private(folder, one), None)
    yield "a password in the wrong place is not shown", a_password_in_the_wrong_place_is_not_shown, None
    for shell in COMPLETE:
        yield (f"{shell}: a completion does not show a password",
               lambda folder, one=shell: a_completion_does_not_show_a_password(one, folder),
               None if shutil.which(shell) else f"there is no {shell}")
    for name in [name for name in BUILT if name in STORES]:
        make, store = STORES[name]
        yield (f"{name}: a password is not shown",
               lambda folder, one=make: a_password_is_not_shown(one, folder), store.missing())


def try_case(function):
    """What is wrong, or None."""
    folder = tempfile.mkdtemp(prefix="simba-security-")
    os.chmod(folder, 0o755)
    try:
        function(folder)
        return None
    except (AssertionError, TimeoutError, RuntimeError) as error:
        return str(error)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    adopt_orphans()
    number = failed = 0
    for number, (name, function, missing) in enumerate(cases(), 1):
        if missing:
            print(f"ok {number} - {name} # SKIP {missing}")
            continue
        trouble = try_case(function)
        print(f"{'not ok' if trouble else 'ok'} {number} - {name}", flush=True)
        failed += trouble is not None
        for line in (trouble or "").splitlines():
            print(f"# {line}")
    print(f"1..{number}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
