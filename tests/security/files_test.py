#!/usr/bin/env python3
"""Hostile files: what the program reads must come from root or from the user it runs as.

The hostile user is a real one, 65534, and the victim is root. So the test needs root; it says so where it has not.
"""
import glob
import os
import shutil
import signal
import stat
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))
from program import (PROGRAM, OtherMounts, Simba, as_nobody, case, contains, equal, main, now, read, run, true,
                     wait_until, write)

HOSTILE = 65534
REFUSED = 78
CONFIG = "simba: {url: 'sqlite:chosen.db'}\n"


def make(path, text, owner=0, mode=0o600):
    write(path, text)
    os.chmod(path, mode)
    os.chown(path, owner, owner)


def folder(path, owner=0, mode=0o755):
    os.makedirs(path)
    os.chmod(path, mode)
    os.chown(path, owner, owner)


def fifo(path, owner=0, mode=0o600):
    os.mkfifo(path)
    os.chmod(path, mode)
    os.chown(path, owner, owner)


def lock(*options, env=None, **more):
    """Without the store that the harness names."""
    return run(*options, "lock", "-n", "m", "--", "true", env={"SIMBA_URL": "", **(env or {})}, **more)


def refused(program, *words):
    equal((program.code, program.process.returncode), (REFUSED, REFUSED))
    for word in words:
        contains(program.said(), word)
    true(not any("chosen.db" in files for _, _, files in os.walk(".")), "what the file says was used")


def used(program):
    equal((program.code, program.said()), (0, ""))


# ---- Configurations -----------------------------------------------------------------------------

@case
def root_uses_no_configuration_in_the_home_of_another_user():
    folder("home/.config", HOSTILE)
    make("home/.config/simba.yaml", CONFIG, HOSTILE)
    home = os.path.abspath("home")
    for env in ({"HOME": home, "XDG_CONFIG_HOME": ""}, {"XDG_CONFIG_HOME": f"{home}/.config"},
                {"SIMBA_CONFIG": f"{home}/.config/simba.yaml"}):
        refused(lock(env=env), "belongs to user 65534")
    refused(lock("-c", "home/.config/simba.yaml"), "belongs to user 65534")
    for verb in (["status"], ["watch", "m"], ["release", "m", "--force"], ["init"], ["tck"], ["bench"]):
        refused(run("-c", "home/.config/simba.yaml", *verb, env={"SIMBA_URL": ""}), "belongs to user 65534")


@case
def a_configuration_that_others_may_write_is_not_used():
    make("group.yaml", CONFIG, mode=0o620)
    refused(lock("-c", "group.yaml"), "its group can write")
    make("all.yaml", CONFIG, mode=0o602)
    refused(lock("-c", "all.yaml"), "every user can write")


@case
def a_configuration_that_is_a_fifo_is_refused_at_once():
    for owner in (0, HOSTILE):
        fifo(f"fifo{owner}", owner)
        begin = now()
        refused(lock("-c", f"fifo{owner}"), "is no regular file")
        true(now() - begin < 10, "it waited for a writer")
    refused(lock("-c", "/dev/zero"), "is no regular file")
    refused(lock("-c", "."), "is no regular file")


@case
def a_file_of_root_is_not_used_where_another_user_chose_it():
    """A folder of another user can name any file of root: a log has lines of anybody's choice."""
    make("real.yaml", CONFIG)
    folder("his", HOSTILE)
    os.symlink(os.path.abspath("real.yaml"), "his/link.yaml")
    make("his/moved.yaml", CONFIG)
    os.symlink("his", "way")
    for path in ("his/link.yaml", "his/moved.yaml", "way/moved.yaml", "his/../real.yaml"):
        refused(lock("-c", path), "his", "user 65534")
    folder("open", mode=0o777)
    make("open/simba.yaml", CONFIG)
    refused(lock("-c", "open/simba.yaml"), "every user can write")
    folder("shared", mode=0o775)
    make("shared/simba.yaml", CONFIG)
    refused(lock("-c", "shared/simba.yaml"), "its group can write")


@case
def in_a_folder_with_the_sticky_bit_only_what_is_ours_is_used():
    folder("sticky", mode=0o1777)
    folder("private", mode=0o700)
    config = CONFIG.replace("chosen.db", os.path.abspath("private/chosen.db"))
    make("sticky/ours.yaml", config)
    used(lock("-c", "sticky/ours.yaml"))
    make("real.yaml", config)
    os.symlink(os.path.abspath("real.yaml"), "sticky/his.yaml")
    os.lchown("sticky/his.yaml", HOSTILE, HOSTILE)
    os.remove("private/chosen.db")
    refused(lock("-c", "sticky/his.yaml"), "user 65534")
    os.symlink(os.path.abspath("real.yaml"), "sticky/link.yaml")
    used(lock("-c", "sticky/link.yaml"))


@case
def files_of_root_and_of_oneself_are_used():
    folder("his", HOSTILE)
    os.chmod(".", 0o755)
    make("root.yaml", f"simba: {{url: 'sqlite:{os.getcwd()}/his/root.db'}}\n", mode=0o644)
    make("his/own.yaml", CONFIG, HOSTILE)
    for path in ("root.yaml", "his/own.yaml"):
        used(lock("-c", path, **as_nobody()))
    true(os.path.exists("his/chosen.db") and os.path.exists("his/root.db"), "they were used")


@case
def a_pipe_that_was_handed_over_is_used():
    reader, writer = os.pipe()
    os.write(writer, CONFIG.encode())
    os.close(writer)
    used(lock("-c", f"/dev/fd/{reader}", pass_fds=[reader]))
    os.close(reader)


@case
def only_descriptors_of_the_process_itself_count():
    """Root's processes have pipes that another user writes to, such as the output of a job."""
    def lock_by(path, begin="exec"):
        reader, writer = os.pipe()
        os.write(writer, CONFIG.encode())
        os.close(writer)
        command = f'{begin} "$0" -c {path.replace("FD", str(reader))} lock -n m -- true; exit $?'
        shell = subprocess.run(["sh", "-c", command, PROGRAM], env={**os.environ, "SIMBA_URL": ""}, pass_fds=[reader],
                               check=False, capture_output=True, text=True)
        os.close(reader)
        return shell.returncode, shell.stderr
    for path in ("/dev/fd/FD", "/proc/self/fd/FD", "/proc/thread-self/fd/FD", "/proc/$$/fd/FD"):
        equal(lock_by(path), (0, ""))
        os.remove("chosen.db")
    pid = os.getpid()
    for path in (f"/proc/{pid}/fd/FD", f"/proc/{pid}/task/{pid}/fd/FD", "/proc/$$/fd/FD"):
        code, said = lock_by(path, begin="")
        equal(code, REFUSED)
        contains(said, "in /proc")
        true(not os.path.exists("chosen.db"), "it was used")


@case
def links_in_proc_are_not_followed():
    """The process decides where they lead, and the kernel does not follow them by their text."""
    database = os.path.abspath("chosen.db")
    with OtherMounts({"simba.yaml": CONFIG.replace("chosen.db", database), "password": "secret\n"}) as other:
        make("mounted/simba.yaml", CONFIG.replace("chosen.db", database))
        make("mounted/password", "secret\n")
        root = other.folder.replace("cwd", "root")
        for path in (other.folder, root + os.path.abspath("mounted"), f"{root}/../{other.folder}"):
            refused(lock("-c", f"{path}/simba.yaml"), "in /proc")
            refused(with_password(f"{path}/password"), "in /proc")
        refused(lock("-c", "/proc/self/cwd/simba.yaml", cwd=other.folder), "in /proc")
        refused(lock("-c", "simba.yaml", cwd=other.folder), "cannot be read")
        used(lock("-c", "/proc/self/../.." + os.path.abspath("mounted/simba.yaml")))


@case
def no_database_is_created_behind_a_link_in_proc():
    with OtherMounts({}) as other:
        for env in ({"XDG_STATE_HOME": other.folder}, {"HOME": other.folder, "XDG_STATE_HOME": ""}):
            equal(lock(env={"SIMBA_CONFIG": "", "XDG_CONFIG_HOME": os.getcwd(), **env}).code, 77)
        equal(lock("-u", f"sqlite:{other.folder}/chosen.db").code, 77)
        equal((os.listdir(other.folder), os.listdir("mounted")), ([], []))


@case
def a_file_behind_a_descriptor_counts_by_its_path():
    folder("private", mode=0o700)
    make("ours.yaml", CONFIG.replace("chosen.db", os.path.abspath("private/first.db")))
    with open("ours.yaml", "rb") as given:
        used(lock("-c", "/dev/stdin", stdin=given))
        os.rename("ours.yaml", "moved.yaml")
        used(lock("-c", "/dev/stdin", stdin=given))
        os.remove("moved.yaml")
        refused(lock("-c", "/dev/stdin", stdin=given), "that its path does not lead to")
    folder("his", HOSTILE)
    make("his/moved.yaml", CONFIG)
    with open("his/moved.yaml", "rb") as given:
        refused(lock("-c", "/dev/stdin", stdin=given), "his", "user 65534")


@case
def what_the_kernel_repeats_of_another_user_is_not_used():
    """The command line of a process: a file of root's by owner and mode, with the words of that user."""
    shutil.copy(shutil.which("cat"), "speaker")
    os.chmod("speaker", 0o111)  # what a user may run but not read leaves no core, and its files in /proc are root's
    os.chmod(".", 0o755)
    speaker = subprocess.Popen([CONFIG], executable=os.path.abspath("speaker"), stdin=subprocess.PIPE, **as_nobody())
    try:
        path = f"/proc/{speaker.pid}/cmdline"
        equal(os.stat(path).st_uid, 0)
        with open(path, "rb") as given:
            refused(lock("-c", "/dev/stdin", stdin=given), "is refused")
        refused(lock("-c", path), "is refused")
    finally:
        speaker.communicate()
    for path in ("/proc/sys/kernel/hostname", "/sys/kernel/uevent_seqnum"):
        if os.path.exists(path):
            with open(path, "rb") as given:
                refused(lock("-c", "/dev/stdin", stdin=given), "/proc or /sys")
            refused(lock("-c", path), "/proc or /sys")


@case
def a_file_that_is_no_configuration_is_not_quoted():
    """A user who may choose the configuration of root's can name any file that root may read."""
    secret = "$y$j9T$F5Jx5fExrKuPp53xLKQ"
    for number, text in enumerate((f"root:{secret}:20228:0:99999:7:::\n", f"simba:\n  root {secret}: 1\n",
                                   f"? {secret}\n", f"{'k' * 65}: 1\n", f"{secret}\n", f"- {secret}\n",
                                   f"a: &{secret} 1\nb: *{secret}\n", f"root:\n{secret}: [\n", f"%{secret}\n")):
        make(f"file{number}", text)
        program = lock("-c", f"file{number}")
        refused(program, f"file{number}:")
        for part in (secret, secret.lower(), "F5Jx5", "f5-jx5", "kkk"):
            true(part not in program.said(), program.said())


# ---- Password files -----------------------------------------------------------------------------

def with_password(path, **more):
    """Nothing listens there; what is refused is refused before anything is connected to."""
    return lock("-u", f"redis://127.0.0.1:1?password-file={path}", **more)


@case
def a_password_file_of_another_user_is_not_used():
    make("his", "secret\n", HOSTILE)
    refused(with_password("his"), "belongs to user 65534")
    make("group", "secret\n", mode=0o660)
    refused(with_password("group"), "its group can write")
    make("all", "secret\n", mode=0o666)
    refused(with_password("all"), "every user can write")
    make("ours", "secret\n")
    equal(with_password("ours").code, 69)


@case
def a_password_file_that_is_a_fifo_is_refused_at_once():
    for owner in (0, HOSTILE):
        fifo(f"fifo{owner}", owner)
        begin = now()
        refused(with_password(f"fifo{owner}"), "is no regular file")
        true(now() - begin < 10, "it waited for a writer")
    make("simba.yaml", "simba: {url: 'redis://127.0.0.1:1', password-file: fifo0}\n")
    refused(lock("-c", "simba.yaml"), "is no regular file")


# ---- Folders for one run ------------------------------------------------------------------------

@case
def no_folder_for_one_run_is_created_where_another_user_could_exchange_it():
    """What is removed at the end would be another folder's, and what is measured another user's file."""
    folder("his", HOSTILE)
    folder("open", mode=0o777)
    folder("shared", mode=0o775)
    folder("his/roots")
    for verb in ("tck", "bench"):
        for place, words in (("his", "user 65534"), ("his/roots", "user 65534"), ("open", "every user can write"),
                             ("shared", "its group can write")):
            before = os.listdir(place)
            env = {"SIMBA_URL": "", "SIMBA_CONFIG": "", "HOME": os.getcwd(), "TMPDIR": os.path.abspath(place)}
            refused(run(verb, env=env), words)
            equal(os.listdir(place), before)


@case
def no_folder_for_one_run_is_created_behind_a_link_in_proc():
    with OtherMounts({}) as other:
        for verb in ("tck", "bench"):
            env = {"SIMBA_URL": "", "SIMBA_CONFIG": "", "HOME": os.getcwd(), "TMPDIR": other.folder}
            refused(run(verb, env=env), "leads through /proc")
            refused(run(verb, env={**env, "TMPDIR": "/proc/self/cwd"}, cwd=other.folder), "leads through /proc")
        equal((os.listdir(other.folder), os.listdir("mounted")), ([], []))


@case
def a_link_in_the_place_of_a_folder_for_one_run_is_not_followed():
    folder("private", mode=0o700)
    env = {"SIMBA_URL": "", "SIMBA_CONFIG": "", "HOME": os.getcwd(), "TMPDIR": os.path.abspath("private")}
    for stop in (None, signal.SIGTERM):
        name = f"precious{stop}"
        folder(name)
        make(f"{name}/store.db", "precious")
        program = Simba("tck", "--case", "multi_contend", "--seconds", "1", env=env)
        [made] = wait_until(lambda: glob.glob("private/simba-tck-*/store.db-life") and glob.glob("private/simba-tck-*"))
        os.rename(made, f"moved{stop}")
        os.symlink(os.path.abspath(name), made)
        if stop is not None:
            program.send(stop)
        program.wait()
        wait_until(lambda stop=stop: os.listdir(f"moved{stop}") == [])  # by a process of its own after a signal
        equal(read(f"{name}/store.db"), "precious")
        os.remove(made)


# ---- Other rights -------------------------------------------------------------------------------

# ---- What is written -----------------------------------------------------------------------------

@case
def a_file_of_metrics_replaces_no_device_and_writes_through_no_link():
    write("target", "untouched")
    os.symlink("target", "link")
    os.link("target", "second")
    os.mkfifo("device")
    for path in ("link", "second"):
        equal(run("lock", "--metrics-file", path, "m", "--", "true").said(), "")
        contains(read(path), "simba_lock_exit_code")
        equal(read("target"), "untouched")
    contains(run("lock", "--metrics-file", "device", "m", "--", "true").said(), "'device' was not written: File exists")
    true(stat.S_ISFIFO(os.stat("device").st_mode), "it is replaced")
    if os.getuid() == 0:
        folder("shared", mode=0o1777)
        os.symlink("/etc/simba-metrics", "shared/m.prom")
        os.lchown("shared/m.prom", HOSTILE, HOSTILE)
        run("lock", "--metrics-file", "shared/m.prom", "m", "--", "true")
        true(not os.path.exists("/etc/simba-metrics"), "it wrote through a link")


@case
def a_socket_to_listen_at_removes_nothing_but_a_socket():
    write("target", "untouched")
    os.symlink("target", "socket")
    equal(run("lead", "--listen", f"unix:{os.getcwd()}/socket", "m", "--", "true").code, REFUSED)
    os.remove("socket")
    program = Simba("lead", "--listen", f"unix:{os.getcwd()}/socket", "m", "--", "sleep", "100")
    wait_until(lambda: "leading" in program.said(), "it leads")
    equal(os.stat("socket").st_mode & 0o022, 0)
    os.rename("target", "socket")
    program.end()
    equal(read("socket"), "untouched")


@case
def a_program_with_other_rights_does_not_tell_which_files_exist():
    """It is installed set-user-ID here, which it is not made for."""
    shutil.copy(PROGRAM, "simba")
    os.chmod("simba", 0o4755)
    os.chmod(".", 0o755)
    folder("private", mode=0o700)
    make("private/secret", "secret\n")
    make("private/writable", "secret\n", mode=0o666)
    os.mkfifo("private/fifo")
    os.symlink("missing", "private/link")
    said = set()
    for name in ("writable", "fifo", "missing", "link", "secret/below"):
        path = os.path.abspath(f"private/{name}")
        program = Simba("-c", path, "status", env={"SIMBA_URL": ""}, executable=os.path.abspath("simba"),
                        **as_nobody())
        equal(program.wait(), REFUSED)
        said.add(program.said().replace(name, "NAME"))
    equal(len(said), 1)


def said_of_option_file(target, **more):
    """The same words for every target, unless it makes a difference whether that is there. Nothing listens there."""
    if os.path.islink("his/.my.cnf"):
        os.remove("his/.my.cnf")
    os.symlink(target, "his/.my.cnf")
    program = run("-u", "mysql://app@127.0.0.1:1/db", "status", env={"HOME": os.path.abspath("his")}, **more)
    return program.code, program.said()


@case
def nor_by_an_option_file_that_is_a_link():
    if "mariadb" not in os.environ.get("SIMBA_STORES", "mariadb").split():
        return
    shutil.copy(PROGRAM, "simba")
    os.chmod("simba", 0o4755)
    os.chmod(".", 0o755)
    folder("his", HOSTILE)
    folder("private", mode=0o700)
    make("private/secret", "secret\n")
    targets = [os.path.abspath(f"private/{name}") for name in ("secret", "missing", "secret/below")]
    for more in ({}, {"executable": os.path.abspath("simba"), **as_nobody()}):
        equal(len({said_of_option_file(target, **more) for target in targets}), 1)


def may_run():
    if os.getuid() != 0:
        return "it takes root to be attacked as root"
    if os.statvfs("/tmp").f_flag & os.ST_NOSUID:
        return "/tmp has no set-user-ID programs"
    return None


if __name__ == "__main__":
    if may_run():
        print(f"1..0 # SKIP {may_run()}")
        sys.exit(0)
    sys.exit(main())
