#!/usr/bin/env python3
"""`simba init`, `simba tck`, files that are somebody else's, and what new users stumble over."""
import os
import sqlite3
import subprocess
import signal
import sys

from program import (PATIENCE, PROGRAM, Blocked, Simba, as_nobody, case, contains, equal, is_alive, main,
                     number, own_mounts, read, run, true, wait_until, write)


def said_by(program):
    return read(program.out)


def file_bytes(path):
    with open(path, "rb") as file:
        return file.read()


@case
def init_creates_the_table_and_is_harmless_when_it_is_there():
    first = run("init")
    equal(first.code, 0)
    contains(said_by(first), "simba_mutex has been created")
    equal(run("lock", "m", "--", "true").code, 0)
    again = run("init")
    equal(again.code, 0)
    contains(said_by(again), "is there already")
    contains(said_by(run("status", "--all")), "m ")


@case
def a_table_that_lacks_a_column_is_refused_by_its_name():
    database = sqlite3.connect("foreign.db")
    database.execute("create table simba_mutex(mutex int)")
    database.commit()
    database.close()
    for verb in (("init",), ("lock", "m", "--", "true")):
        program = run("-u", "sqlite:foreign.db", *verb)
        equal(program.code, 69)
        contains(program.said(), "does not fit: no such column: version")


@case
def init_without_a_url_sets_up_the_default_store():
    env = {"SIMBA_URL": "", "SIMBA_CONFIG": "", "HOME": os.getcwd(), "XDG_CONFIG_HOME": "",
           "XDG_STATE_HOME": ""}
    equal(run("init", env=env).code, 0)
    true(os.path.exists(".local/state/simba/simba.db"), "the default store is missing")


@case
def a_long_message_keeps_its_reason():
    """The folder cannot be created, because a file is in its way."""
    os.makedirs("/".join(["x" * 200] * 4))
    parent = "/".join([os.getcwd(), *["x" * 200] * 4, "file"])
    with open(parent, "w", encoding="ascii"):
        pass
    env = {"SIMBA_URL": "", "SIMBA_CONFIG": "", "HOME": os.getcwd(), "XDG_CONFIG_HOME": "",
           "XDG_STATE_HOME": parent}
    program = run("init", env=env)
    equal(program.code, 78)
    contains(program.said(), "simba: cannot create the folder '/")
    contains(program.said(), "/file/simba': Not a directory\n")


@case
def init_says_that_other_stores_need_nothing():
    for url in ("redis://nowhere", "memory:x"):
        program = run("-u", url, "init")
        equal(program.code, 0)
        contains(said_by(program), "nothing to create")


@case
def init_prints_the_statement_for_an_administrator():
    for url in ("mysql://nowhere/jobs", "postgres://nowhere/jobs"):
        program = run("-u", url, "init", "--print")
        equal(program.code, 0)
        contains(said_by(program), "CREATE TABLE IF NOT EXISTS simba_mutex")
        contains(said_by(program), "-- the users of the table need: GRANT SELECT, INSERT, UPDATE")
        true(said_by(program).endswith(";\n"), "it does not end like a statement")
    for url, comment in (("sqlite:x.db", "creates the tables of an SQLite file by itself"),
                         ("redis://nowhere", "redis needs nothing"),
                         ("zookeeper://nowhere", "zookeeper needs nothing")):
        program = run("-u", url, "init", "--print")
        equal(program.code, 0)
        true(said_by(program).startswith("-- "), "a database would take it for a statement")
        contains(said_by(program), comment)
    true(not os.path.exists("x.db"), "it was created")


@case
def init_refuses_a_url_that_no_store_serves_in_the_words_of_the_other_verbs():
    for url in ("nonsense:x", "REDDIS://x"):
        expected = run("-u", url, "status").said()
        contains(expected, "; did you mean redis://?" if url == "REDDIS://x" else "; this build has ")
        for arguments in (["init"], ["init", "--print"]):
            program = run("-u", url, *arguments)
            equal((program.code, program.said()), (78, expected))


@case
def init_refuses_what_is_no_store():
    equal(run("init", "extra").code, 64)
    equal(run("-u", "sqlite:no/such/folder/x.db", "init").code, 69)


@case
def looking_at_a_foreign_file_changes_nothing_in_it():
    store = sqlite3.connect("foreign.db")
    store.execute("CREATE TABLE theirs (a)")
    store.commit()
    store.close()
    before = file_bytes("foreign.db")
    for arguments in (("status",), ("status", "m"), ("watch", "m"), ("release", "m", "--force")):
        program = run("-u", "sqlite:foreign.db", *arguments)
        equal(program.code, 69)
        contains(program.said(), "has no table simba_mutex")
    equal(file_bytes("foreign.db"), before)
    equal(sorted(name for name in os.listdir() if name.startswith("foreign")), ["foreign.db"])
    equal(run("-u", "sqlite:foreign.db", "lock", "m", "--", "true").code, 0)
    contains(said_by(run("-u", "sqlite:foreign.db", "status", "--all")), "m ")


@case
def a_file_that_may_not_be_created_is_unreachable_and_not_contended():
    for arguments in (("lock", "m", "--", "true"), ("init",), ("status",)):
        program = run("-u", "sqlite:missing.db?create=no", *arguments)
        equal(program.code, 69)
        contains(program.said(), "there is no database")


@case
def a_folder_without_permission_is_told_from_one_that_is_missing():
    os.makedirs("closed/folder")
    os.chmod("closed", 0)
    os.chmod(".", 0o755)
    for name in ("closed/x.db", "closed/folder/x.db"):
        for arguments in (("lock", "m", "--", "true"), ("status",)):
            program = run("-u", f"sqlite:{os.getcwd()}/{name}", *arguments, **as_nobody())
            equal(program.code, 77)
            contains(program.said(), "Permission denied")
    equal(run("-u", "sqlite:missing/x.db", "lock", "m", "--", "true").code, 69)


@case
def a_file_that_cannot_be_used_is_told_with_what_refuses():
    equal(run("lock", "m", "--", "true").code, 0)
    os.chmod(".", 0o755)
    for mode, verb, sentence in ((0o600, ("status",), "cannot be read: Permission denied"),
                                 (0o600, ("lock", "m", "--", "true"), "cannot be read: Permission denied"),
                                 (0o644, ("lock", "m", "--", "true"), "cannot be written: Permission denied")):
        os.chmod("store.db", mode)
        program = run(*verb, **as_nobody())
        if as_nobody():
            equal(program.code, 77)
            contains(program.said(), sentence)


@case
def a_file_system_that_is_read_only_is_told_as_that():
    os.mkdir("disk")
    equal(run("-u", "sqlite:disk/x.db", "lock", "m", "--", "true").code, 0)
    namespace = own_mounts()
    mount = "mount --bind disk disk && mount -o remount,bind,ro disk"
    for name, sentence in (("x.db", "x.db cannot be written: Read-only file system"),
                           ("new.db", "new.db cannot be created in")):
        done = subprocess.run([*namespace, "sh", "-c", mount + ' && exec "$0" "$@"', PROGRAM, "-u",
                               f"sqlite:disk/{name}", "lock", "m", "--", "true"], check=False,
                              capture_output=True, text=True, timeout=PATIENCE)
        equal(done.returncode, 77)
        contains(done.stderr, sentence)
        contains(done.stderr, "Read-only file system")


@case
def a_folder_that_is_closed_under_a_holder_is_told_as_that():
    os.mkdir("work")
    os.chmod(".", 0o755)
    if as_nobody():
        os.chown("work", 65534, 65534)
    url = f"sqlite:{os.getcwd()}/work/x.db?ttl=400ms&transition=600ms"
    holder = Simba("-u", url, "lock", "m", "--", "sleep", "100", **as_nobody())
    # Not as root, who would own the files of a log that he is the first to open.
    wait_until(lambda: "m " in read(run("-u", url, "status", **as_nobody()).out), "it holds")
    os.chmod("work", 0)
    equal(holder.wait(), 70)
    os.chmod("work", 0o700)
    contains(holder.said(), "Permission denied")
    true("deleted or replaced" not in holder.said(), holder.said())


@case
def a_database_with_a_hard_link_is_refused_by_either_name():
    """SQLite has a log for each name, and each log could have an owner."""
    os.mkdir("other", 0o700)
    equal(run("-u", "sqlite:x.db", "lock", "m", "--", "true").code, 0)
    os.link("x.db", "other/y.db")
    for name in ("x.db", "other/y.db"):
        for verb in (("lock", "m", "--", "true"), ("lock", "-w", "1h", "m", "--", "true"), ("status",)):
            program = run("-u", "sqlite:" + name, *verb)
            equal(program.code, 77)
            contains(program.said(), f"find / -samefile {os.getcwd()}/{name}")
    equal(os.listdir("other"), ["y.db"])
    os.remove("other/y.db")
    equal(run("-u", "sqlite:x.db", "lock", "m", "--", "true").code, 0)


@case
def a_hard_link_made_under_a_holder_ends_its_lease_and_lets_nobody_in():
    lease = "?ttl=1s&transition=1s"
    holder = Simba("-u", "sqlite:x.db" + lease, "lock", "m", "--", "sh", "-c", "echo $$ >pid; exec sleep 100")
    command = number("pid")
    os.link("x.db", "y.db")
    while is_alive(command):
        equal(run("-u", "sqlite:y.db" + lease, "lock", "-n", "m", "--", "true").code, 77)
    equal(holder.wait(), 70)
    contains(holder.said(), "find / -samefile")
    os.remove("y.db")
    equal(run("-u", "sqlite:x.db" + lease, "lock", "m", "--", "true").code, 0)


@case
def a_database_that_is_mounted_without_its_folder_is_refused():
    os.mkdir("here", 0o700)
    os.mkdir("there", 0o700)
    write("there/x.db", "")
    equal(run("-u", "sqlite:here/x.db", "lock", "m", "--", "true").code, 0)
    namespace = own_mounts()
    for mount, code in (("mount --bind here/x.db there/x.db", 77), ("mount --bind here there", 0)):
        done = subprocess.run([*namespace, "sh", "-c", mount + ' && exec "$0" "$@"', PROGRAM, "-u", "sqlite:there/x.db",
                               "lock", "m", "--", "true"], check=False, capture_output=True, text=True, timeout=PATIENCE)
        equal(done.returncode, code)
        true(code == 0 or "mount the folder of the database" in done.stderr, done.stderr)
        equal(os.listdir("there"), ["x.db"])


@case
def the_kit_runs_on_a_file_of_its_own_where_no_store_is_named():
    os.mkdir("tmp", 0o700)
    env = {"SIMBA_URL": "", "SIMBA_CONFIG": "", "HOME": os.getcwd(), "XDG_CONFIG_HOME": "",
           "XDG_STATE_HOME": "", "TMPDIR": os.path.abspath("tmp")}
    program = run("tck", "--case", "start", env=env)
    equal(program.code, 0)
    contains(said_by(program), "1 passed, 0 failed")
    contains(program.said(), "removed afterwards")
    equal(os.listdir("tmp"), [])
    true(not os.path.exists(".local"), "it used the default store")


def folders_in(folder):
    """Without files, which the thread sanitizer creates for an instant."""
    return [entry.path for entry in os.scandir(folder) if entry.is_dir()]


@case
def a_kit_that_is_interrupted_leaves_no_folder():
    os.mkdir("tmp", 0o700)
    env = {"SIMBA_URL": "", "TMPDIR": os.path.abspath("tmp"), "HOME": os.getcwd(),
           "XDG_STATE_HOME": "", "XDG_CONFIG_HOME": ""}
    for number_of in (signal.SIGTERM, signal.SIGINT):
        program = Simba("tck", env=env)
        wait_until(lambda: any(map(os.listdir, folders_in("tmp"))))
        equal(program.end(number_of), -number_of)
        wait_until(lambda: folders_in("tmp") == [], "the folder goes")


@case
def help_is_a_command_too():
    equal(said_by(run("help")), said_by(run("--help")))
    for verb in ("lock", "status", "watch", "release", "init", "tck"):
        equal(said_by(run("help", verb)), said_by(run(verb, "--help")))
        contains(said_by(run("help")), "  " + verb)
    equal(run("help", "nonsense").code, 64)


@case
def a_url_without_a_scheme_and_a_number_without_a_unit_get_a_hint():
    program = run("-u", "jobs.db", "status")
    equal(program.code, 78)
    contains(program.said(), "write sqlite:jobs.db")
    program = run("--ttl", "10", "status")
    equal(program.code, 64)
    contains(program.said(), "10s")


@case
def a_lease_that_cannot_be_renewed_is_told_in_plain_words():
    holder = Simba("lock", "m", "--", "sh", "-c", "echo $$ >pid; exec sleep 100")
    number("pid")
    with Blocked():
        equal(holder.wait(), 70)
    contains(holder.said(), "mutex 'm': cannot renew: ")


# ---- Standard output that cannot be written -----------------------------------------------------

def check_output(redirection, arguments, code, sentence):
    """By a shell, which can close a descriptor."""
    command = f'set -o pipefail; "$0" "$@" {redirection}'
    done = subprocess.run(["bash", "-c", command, PROGRAM, *arguments], capture_output=True,
                          text=True, timeout=PATIENCE, check=False)
    equal(done.returncode, code)
    equal(done.stderr, sentence)


@case
def a_result_that_cannot_be_written_is_an_error_with_its_reason():
    equal(run("lock", "m", "--", "true").code, 0)
    for arguments in (("status",), ("watch", "m"), ("--help",), ("init",)):
        check_output(">/dev/full", arguments, 74,
                     "simba: standard output: No space left on device\n")
        check_output(">&-", arguments, 74, "simba: standard output: Bad file descriptor\n")


@case
def a_reader_that_left_is_no_error():
    equal(run("lock", "m", "--", "true").code, 0)
    for arguments in (("status",), ("watch", "m")):
        check_output("| true", arguments, 0, "")


@case
def a_command_gets_the_streams_as_they_were():
    check_output(">&-", ("lock", "m", "--", "sh", "-c", "exit 3"), 3, "")


@case
def a_scheme_may_be_written_in_capitals():
    program = run("-u", f"SQLITE:{os.getcwd()}/store.db", "init", "--print")
    equal(program.code, 0)
    contains(read(program.out), "creates the tables of an SQLite file by itself")


if __name__ == "__main__":
    sys.exit(main())
