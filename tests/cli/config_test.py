#!/usr/bin/env python3
"""Where the program takes its store and its times from, and that nobody gets to see a password."""
import fcntl
import json
import os
import shutil
import socket
import subprocess
import sys

from program import (PATIENCE, PROGRAM, Simba, as_nobody, case, contains, equal, main, own_mounts, read, run, true,
                     wait_until, write)
from stores import Redis

NO_STORE = {"SIMBA_URL": "", "SIMBA_CONFIG": "", "SIMBA_TTL": "", "SIMBA_TRANSITION": "",
            "XDG_CONFIG_HOME": "", "XDG_STATE_HOME": ""}


def ask(server, command):
    """The answer of a Redis server, where it is one line."""
    server.socket.sendall(command.encode() + b"\r\n")
    return server.socket.recv(4096).decode().strip()


def config(name, store, more=""):
    write(name, f"simba:\n  jdbc:\n    url: sqlite:{os.getcwd()}/{store}\n{more}")
    os.chmod(name, 0o600)


def used_store(*arguments, **env):
    """Which of the files in this folder the program has used, by what it left there."""
    for name in os.listdir():
        if ".db" in name:
            os.remove(name)
    program = run(*arguments, "lock", "m", "--", "true",
                  env={**NO_STORE, "HOME": os.getcwd(), **env})
    equal((program.code, program.said()), (0, ""))
    if os.path.exists(".local"):
        shutil.rmtree(".local")
        return "default"
    return " ".join(name for name in os.listdir() if name.endswith(".db"))


# ---- No store -----------------------------------------------------------------------------------

@case
def a_fleet_can_refuse_the_store_that_nobody_named():
    home = {**NO_STORE, "HOME": os.getcwd()}
    verbs = (["lock", "m", "--", "true"], ["lead", "m", "--", "true"], ["status"], ["watch", "m"], ["init"])
    for verb in verbs:
        program = run(*verb, env={**home, "SIMBA_REQUIRE_URL": "1"})
        equal(program.code, 78)
        contains(program.said(), "simba: no store is named, and SIMBA_REQUIRE_URL refuses the default one")
    true(not os.path.exists(".local"), "it was created")
    write("off.yaml", "simba: {enabled: false}\n")
    for verb in verbs:
        equal(run(*verb, env={**home, "SIMBA_CONFIG": "off.yaml"}).code, 78)
    named = {"SIMBA_REQUIRE_URL": "1", "SIMBA_CONFIG": "off.yaml", "SIMBA_URL": f"sqlite:{os.getcwd()}/named.db"}
    equal(used_store(**named), "named.db")
    for value in ("", "0"):
        equal(used_store(SIMBA_REQUIRE_URL=value), "default")


@case
def lead_and_schedule_name_their_store_first_and_say_that_the_default_one_is_of_this_host():
    home = {**NO_STORE, "HOME": os.getcwd()}
    default = f"simba: the store is sqlite:{os.getcwd()}/.local/state/simba/simba.db, since none is named: " \
        "it reaches this host only"
    for verb in (["lead", "--restart", "never", "m"], ["schedule", "--every", "1s", "m"]):
        command = ["sh", "-c", "kill $PPID"] if verb[0] == "schedule" else ["true"]
        for env, first in ((home, default), ({"SIMBA_URL": "sqlite:named.db"}, "simba: the store is sqlite:named.db")):
            program = run(*verb, "--", *command, env=env)
            equal((program.code, program.said().splitlines()[0]), (0, first))
        true("the store" not in run("-q", *verb, "--", *command, env=home).said(), "it is not quiet")


@case
def a_command_that_runs_simba_finds_the_store_that_it_runs_under():
    config("flag.yaml", "file.db")
    other = {**NO_STORE, "HOME": os.getcwd(), "SIMBA_URL": f"sqlite:{os.getcwd()}/other.db", "SIMBA_CONFIG": "none.yaml"}
    for given in (["-u", "sqlite:jobs%20of%20mine.db"], ["-u", f"sqlite:{os.getcwd()}/a.db?ttl=5s"], ["-c", "flag.yaml"]):
        for verb in (["lock"], ["lead", "--restart", "never"]):
            program = run("-q", *given, *verb, "m", "--", "sh", "-c", "cd /; $0 status --json m", PROGRAM, env=other)
            equal((program.code, program.said()), (0, ""))
            contains(read(program.out), '"state":"held"')
    program = run("lock", "m", "--", "sh", "-c", "echo $SIMBA_URL $SIMBA_CONFIG", env=other)
    equal(read(program.out).split(), [other["SIMBA_URL"], "none.yaml"])


@case
def memory_is_read_as_a_configuration_when_nobody_can_change_it_any_more():
    fd = os.memfd_create("store", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.write(fd, f"simba: {{url: 'sqlite:{os.getcwd()}/memory.db'}}\n".encode())
    seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK
    os.fchmod(fd, 0o400)
    for added, code in ((0, 78), (fcntl.F_SEAL_SHRINK, 78), (seals, 0), (0, 0)):
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, added)
        equal(run("-c", f"/dev/fd/{fd}", "lock", "m", "--", "true", pass_fds=(fd,)).code, code)
    os.close(fd)
    true(os.path.exists("memory.db"), "it used another store")


# ---- Precedence ---------------------------------------------------------------------------------

@case
def the_store_is_what_the_first_source_names():
    config("flag.yaml", "flag-file.db")
    config("env.yaml", "env-file.db")
    flag_url, env_url = f"sqlite:{os.getcwd()}/flag-url.db", f"sqlite:{os.getcwd()}/env-url.db"
    everything = {"SIMBA_URL": env_url, "SIMBA_CONFIG": "env.yaml"}
    os.mkdir(".config")
    config(".config/simba.yaml", "user.db")
    equal(used_store("-u", flag_url, **everything), "flag-url.db")
    equal(used_store("--config", "flag.yaml", **everything), "flag-file.db")
    equal(used_store(**everything), "env-url.db")
    equal(used_store(SIMBA_CONFIG="env.yaml"), "env-file.db")
    equal(used_store(), "user.db")
    os.mkdir("elsewhere")
    config("elsewhere/simba.yaml", "xdg.db")
    equal(used_store(XDG_CONFIG_HOME=os.path.abspath("elsewhere")), "xdg.db")
    shutil.rmtree(".config")
    equal(used_store(), "default")


@case
def the_file_of_the_system_comes_after_that_of_the_user():
    os.mkdir("etc")
    config("etc/simba.yaml", "system.db")
    os.chmod("etc/simba.yaml", 0o644)
    script = f'mount --bind etc /etc && exec "{PROGRAM}" lock m -- true'
    namespace = own_mounts()
    env = {**os.environ, **NO_STORE, "HOME": os.getcwd()}
    subprocess.run([*namespace, "sh", "-c", script], env=env, timeout=PATIENCE, check=True)
    true(os.path.exists("system.db"), "the system's file was not used")
    os.remove("system.db")
    os.mkdir(".config")
    config(".config/simba.yaml", "user.db")
    subprocess.run([*namespace, "sh", "-c", script], env=env, timeout=PATIENCE, check=True)
    true(os.path.exists("user.db"), "the user's file was not used")
    true(not os.path.exists("system.db"), "the system's file was used")


def lease(*arguments, **env):
    """What is left of the ttl and of all of the lease right after it was acquired, in whole seconds."""
    program = run(*arguments, "lock", "m", "--", "sh", "-c",
                  f'"{PROGRAM}" status --json m', env={**NO_STORE, **env})
    equal((program.code, program.said()), (0, ""))
    mutex = json.loads(read(program.out))[0]
    return round(mutex["ttl_ms"] / 1000), round(mutex["transition_ms"] / 1000)


@case
def the_times_are_what_the_first_source_says():
    config("c.yaml", "c.db", "    ttl: PT20S\n    transition: 30s\n")
    named = {"SIMBA_CONFIG": "c.yaml"}
    equal(lease(**named), (20, 50))
    equal(lease(SIMBA_TTL="40s", **named), (40, 70))
    equal(lease(SIMBA_TTL="40s", SIMBA_TRANSITION="50s", **named), (40, 90))
    equal(lease("--ttl", "60s", SIMBA_TTL="40s", **named), (60, 90))
    config("c.yaml", "c.db")
    equal(lease(**named), (10, 16))


@case
def two_stores_on_the_command_line_are_one_too_many():
    config("c.yaml", "c.db")
    for arguments in (("-u", "sqlite:a", "-c", "c.yaml", "status"),
                      ("-u", "sqlite:a", "status", "-c", "c.yaml")):
        program = run(*arguments)
        equal(program.code, 64)
        contains(program.said(), "--url and --config")


# ---- Errors -------------------------------------------------------------------------------------

@case
def what_is_wrong_with_a_file_is_told_with_its_place():
    config("c.yaml", "c.db", "    tll: 20s\n")
    for arguments in (("status",), ("watch", "m"), ("lock", "m", "--", "true"), ("init",), ("tck",)):
        program = run("-c", "c.yaml", *arguments)
        equal(program.code, 78)
        equal(program.said(), "simba: c.yaml:4:5: unknown key 'simba.jdbc.tll';"
                              " did you mean 'simba.jdbc.ttl'?\n")
    program = run("-c", "missing.yaml", "status")
    equal(program.code, 78)
    contains(program.said(), "there is no configuration file missing.yaml")


def pipe_of(text):
    """The end of a pipe to read from, with a short text in it."""
    reader, writer = os.pipe()
    os.write(writer, text.encode())
    os.close(writer)
    return os.fdopen(reader)


@case
def what_is_wrong_with_the_url_of_a_file_is_told_with_its_place():
    for url, sentence in (
            ("redis://127.0.0.1:1?no-such-option=1", "simba.url: a URL that begins with 'redis:' has no"),
            ("sqlite:a.db?ttl=soon", "simba.url?ttl: 'soon' is not a duration"),
            ("sqlite:a.db?transition=1ms", "simba.url: transition 1ms is too short"),
            ("sqlite://a.db", "simba.url: the URL names a host, but SQLite has none"),
            ("sqlit:a.db", "simba.url: no store is known for URLs that begin with 'sqlit:';"
                           " did you mean sqlite:?"),
            ("memory:x", "simba.url: the store memory: belongs to one process")):
        write("c.yaml", f"simba:\n  url: {url}\n")
        for verb in (("status",), ("lock", "m", "--", "true")):
            program = run("-c", "c.yaml", *verb)
            equal(program.code, 78)
            contains(program.said(), "simba: c.yaml:2:8: " + sentence)


@case
def the_url_of_a_jvm_is_told_what_to_leave_out():
    for arguments in (("-u", "jdbc:mysql://h/d"), ("-c", "c.yaml")):
        write("c.yaml", "simba:\n  url: jdbc:mysql://h/d\n")
        program = run(*arguments, "status")
        equal(program.code, 78)
        contains(program.said(), "leave out 'jdbc:'")
        true("this build has" not in program.said(), program.said())


def redis_config(line):
    write("c.yaml", f"simba:\n  redis:\n    url: redis://127.0.0.1:1\n    {line}\n")
    os.chmod("c.yaml", 0o644)


@case
def a_password_that_is_not_where_the_file_says_is_told_with_its_place():
    redis_config("password-file: none")
    program = run("-c", "c.yaml", "status")
    equal(program.code, 78)
    equal(program.said(), "simba: c.yaml:4:20: simba.redis.password-file: the password file "
          f"{os.getcwd()}/none cannot be read: No such file or directory\n")
    redis_config("password-env: NONE")
    program = run("-c", "c.yaml", "status")
    equal(program.code, 78)
    equal(program.said(), "simba: c.yaml:4:19: simba.redis.password-env: the environment variable 'NONE',"
          " which should hold a password, is not set\n")


@case
def a_password_file_that_must_not_be_read_is_77():
    if not as_nobody():
        return
    redis_config("password-file: secret")
    write("secret", "s3cret\n")
    os.chmod("secret", 0o600)
    os.chmod(".", 0o755)
    program = run("-c", "c.yaml", "status", **as_nobody())
    equal(program.code, 77)
    contains(program.said(), "simba: c.yaml:4:20: simba.redis.password-file: the password file")


@case
def paths_in_a_file_are_relative_to_its_folder():
    os.mkdir("etc")
    write("etc/c.yaml", "simba: {url: 'sqlite:jobs.db'}\n")
    os.mkdir("elsewhere")
    for where, name in ((".", "etc/c.yaml"), ("etc", "c.yaml"), ("elsewhere", "../etc/c.yaml")):
        program = run("-c", name, "lock", "m", "--", "true", cwd=where)
        equal((program.code, program.said()), (0, ""))
        true(os.path.exists("etc/jobs.db"), "the store is not beside the file")
        for file in os.listdir("etc"):
            if file.startswith("jobs.db"):
                os.remove("etc/" + file)


@case
def paths_in_a_pipe_are_relative_to_the_working_folder():
    program = run("-c", "/dev/stdin", "lock", "m", "--", "true", stdin=pipe_of("simba.url: sqlite:jobs.db"))
    equal((program.code, program.said()), (0, ""))
    true(os.path.exists("jobs.db"), "the store is not in the working folder")


@case
def the_store_is_shown_without_its_password_where_that_is_wanted():
    program = run("-u", "redis://u:s3cret@127.0.0.1:1", "--log-level", "info", "lock", "-n", "m", "true")
    equal(program.code, 69)
    contains(program.said(), "the store is redis://")
    true("s3cret" not in program.said(), program.said())


@case
def a_file_that_cannot_be_looked_at_is_not_passed_over():
    os.chmod(".", 0o777)
    os.mkdir("home")
    os.chmod("home", 0o777)
    folder = os.path.abspath("home/.config")
    env = {**NO_STORE, "HOME": os.path.abspath("home")}

    def attempt():
        return run("lock", "m", "--", "touch", "ran", env=env, **as_nobody())

    os.mkdir(folder)
    for target in ("gone.yaml", "simba.yaml"):  # a dangling link and one that leads to itself
        os.symlink(target, f"{folder}/simba.yaml")
        program = attempt()
        equal(program.code, 78)
        contains(program.said(), "simba.yaml")
        os.remove(f"{folder}/simba.yaml")
    if as_nobody():
        os.chmod(folder, 0o600)  # root's: nobody else can search it
        program = attempt()
        equal(program.code, 77)
        contains(program.said(), f"the folder of the configuration {folder}/simba.yaml cannot be entered")
        contains(program.said(), "--url")
    true(not os.path.exists("ran") and not os.path.exists("home/.local"), "another store was used")


@case
def a_home_that_is_none_is_not_created():
    missing = os.path.abspath("missing")
    write("file", "")
    for home, sentence in ((missing, f"HOME is '{missing}', which is no folder that exists"),
                           (os.path.abspath("file"), "no folder that exists"),
                           (os.path.abspath("file") + "/home", "no folder that exists"),
                           ("relative", "HOME is 'relative', which is not an absolute path"),
                           ("", "HOME is empty")):
        for arguments in (("lock", "m", "--", "touch", "ran"), ("status",), ("init",)):
            program = run(*arguments, env={**NO_STORE, "HOME": home})
            equal(program.code, 78)
            contains(program.said(), sentence)
            contains(program.said(), "--url or SIMBA_URL")
    unset = {name: value for name, value in os.environ.items() if name != "HOME"}
    program = subprocess.run([PROGRAM, "status"], env={**unset, **NO_STORE}, check=False,
                             capture_output=True, text=True, timeout=PATIENCE)
    equal(program.returncode, 78)
    contains(program.stderr, "HOME is not set")
    true(not any(os.path.exists(name) for name in ("missing", "relative", "ran")), "it was created")


@case
def a_store_of_one_process_is_refused_however_it_is_written():
    for scheme in ("memory", "MEMORY", "Memory"):
        program = run("-u", f"{scheme}:", "lock", "m", "--", "touch", "ran")
        equal(program.code, 78)
        contains(program.said(), "belongs to one process")
    true(not os.path.exists("ran"), "the command has run")


@case
def an_unknown_option_of_a_url_is_told_before_anybody_connects():
    program = run("-u", "redis://127.0.0.1:1?no-such-option=1", "status")
    equal(program.code, 78)
    contains(program.said(), "no-such-option")


@case
def a_bad_environment_is_told_by_name():
    for name in ("SIMBA_TTL", "SIMBA_TRANSITION"):
        program = run("status", env={name: "soon"})
        equal(program.code, 78)
        contains(program.said(), name)


@case
def a_bad_environment_does_not_stand_before_the_help():
    bad = {"SIMBA_LOG": "loud", "SIMBA_TTL": "soon"}
    for arguments in (("--help",), ("--version",), ("lock", "--help"), ("help", "lock")):
        program = run(*arguments, env=bad)
        equal((program.code, program.said()), (0, ""))
    equal(run("--log-level", "warn", "--ttl", "10s", "--transition", "6s", "lock", "m", "true",
              env=bad).code, 0)


@case
def empty_and_useless_values_are_refused():
    for arguments in (("-c", "", "status"), ("lock", "--note", "", "m", "true"),
                      ("lock", "--hold-at-most", "0s", "m", "true"), ("help", "lock", "more")):
        program = run(*arguments)
        equal(program.code, 64)
        contains(program.said(), "Try 'simba")
    equal(run("help", "help").code, 0)


@case
def a_store_of_the_file_that_is_missing_is_not_taken_for_the_default_one():
    config("c.yaml", "c.db")
    program = run("-c", "c.yaml", "status")
    equal(program.code, 69)
    contains(program.said(), "c.db")
    true(not os.path.exists("c.db"), "it was created")


# ---- Passwords ----------------------------------------------------------------------------------

class Silent:
    """A server that takes connections and says nothing."""

    def __enter__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        return self

    def __exit__(self, *unused):
        self.socket.close()


def command_line(pid):
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read().replace(b"\0", b" ").decode()


@case
def a_password_on_the_command_line_is_taken_out_of_ps():
    with Silent() as server:
        for form in (f"redis://user:s3cret@127.0.0.1:{server.port}",
                     f"redis://127.0.0.1:{server.port}?password=s3cret&user=u"):
            for arguments in (("-u", form), ("--url=" + form,)):
                program = Simba(*arguments, "status")
                wait_until(lambda: "***" in command_line(program.pid), "the password is hidden")
                true("s3cret" not in command_line(program.pid), command_line(program.pid))
                contains(command_line(program.pid), "127.0.0.1")
                program.end()
                true("s3cret" not in program.said(), program.said())


@case
def passwords_come_from_files_and_the_environment():
    if shutil.which("redis-server") is None:
        return
    server = Redis()
    try:
        equal(ask(server, "CONFIG SET requirepass s3cret"), "+OK")
        url = f"redis://127.0.0.1:{server.port}"
        write("secret", "s3cret\n")
        write("wrong", "wr0ng\n")
        env = {"SIMBA_URL": "", "THE_PASSWORD": "s3cret"}
        equal(run("-u", url + "?password-file=secret", "status", env=env).code, 0)
        equal(run("-u", url + "?password-env=THE_PASSWORD", "status", env=env).code, 0)
        for key, value in (("password-file", "secret"), ("password-env", "THE_PASSWORD"),
                           ("password", "s3cret")):
            write("c.yaml", f"simba.redis:\n  url: {url}\n  {key}: {value}\n")
            os.chmod("c.yaml", 0o600)
            program = run("-c", "c.yaml", "status", env=env)
            equal((program.code, program.said()), (0, ""))
        for refused in ("?password-file=wrong", "?password=wr0ng", ""):
            program = run("-u", url + refused, "--log-level", "debug", "status", env=env)
            equal(program.code, 77)
            true("wr0ng" not in program.said(), program.said())
        equal(run("-u", url + "?password-file=missing", "status", env=env).code, 78)
        equal(run("-u", url + "?password-env=MISSING", "status", env=env).code, 78)
    finally:
        server.stop()


@case
def a_file_with_a_password_must_not_be_everybodys():
    write("c.yaml", "simba: {redis: {url: 'redis://127.0.0.1:1', password: s3cret}}")
    for mode, who in ((0o666, "every user"), (0o660, "its group")):
        os.chmod("c.yaml", mode)
        program = run("-c", "c.yaml", "status")
        equal(program.code, 78)
        equal(program.said(), f"simba: the configuration file c.yaml is refused: {who} can write to it; run chmod go-w c.yaml\n")
    os.chmod("c.yaml", 0o644)
    program = run("-c", "c.yaml", "status")
    equal(program.code, 69)
    contains(program.said(), "warning: c.yaml holds a password and can be read by everybody")
    os.chmod("c.yaml", 0o600)
    program = run("-c", "c.yaml", "status")
    equal(program.code, 69)
    true("warning" not in program.said() and "s3cret" not in program.said(), program.said())


@case
def a_store_without_users_refuses_a_password():
    program = run("-u", "sqlite:x.db?password=s3cret", "lock", "m", "--", "true")
    equal(program.code, 78)
    contains(program.said(), "has no option 'password'")
    true("s3cret" not in program.said(), program.said())


@case
def a_section_that_is_not_enabled_needs_no_store():
    write("c.yaml", "simba:\n  url: 'sqlite:jobs.db'\n  zookeeper: {url: 'nosuch://h', any: 1, enabled: false}\n")
    equal(run("-c", "c.yaml", "lock", "m", "--", "true").code, 0)
    write("c.yaml", "simba:\n  url: 'sqlite:jobs.db'\n  zookeeper: {url: 'nosuch://h'}\n")
    equal(run("-c", "c.yaml", "lock", "m", "--", "true").code, 78)


def piped(text):
    """A descriptor that gives the text once."""
    reader, writer = os.pipe()
    os.write(writer, text.encode())
    os.close(writer)
    return reader


@case
def what_comes_from_a_pipe_is_read_once_however_often_the_store_is_tried():
    config = piped("simba: {redis: {url: 'redis://127.0.0.1:1'}}\n")
    password = piped("s3cret\n")
    for option in (("-c", f"/dev/fd/{config}"), ("-u", f"redis://127.0.0.1:1?password-file=/dev/fd/{password}")):
        program = run(*option, "lock", "-w", "500ms", "m", "--", "true", env=NO_STORE,
                      pass_fds=(config, password))
        equal(program.code, 69)
        contains(program.said(), "connection refused")
    os.close(config)
    os.close(password)


@case
def a_warning_about_the_file_is_told_once_beside_an_error():
    redis_config("password: s3cret")
    for wait in (("-w", "500ms"), ()):
        program = run("-c", "c.yaml", "lock", *wait, "m", "--", "true")
        equal(program.code, 69)
        equal(program.said().count("can be read by everybody"), 1)
        contains(program.said(), "connection refused")


if __name__ == "__main__":
    sys.exit(main())
