#!/usr/bin/env python3
"""What hostile commands and hostile users of the same machine can do to a mutex on SQLite. The hostile user is nobody
(65534), which root becomes for the attack. The victim is root, or another user (1) where root uses no such database.
Tests that need two users say so where they are not run by root.
"""
import ctypes
import os
import shutil
import signal
import sqlite3
import stat
import struct
import subprocess
import sys
import time

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path += [os.path.join(TESTS, "lib"), os.path.join(TESTS, "cli")]
from program import PROGRAM, Simba, case, contains, equal, is_alive, main, now, number, read, run, true, url, wait_until, write

AT_ONCE = 0.8  # seconds; what a waiter does without being told takes longer

# Does to the descriptor of its owner's life whatever can be done to one, and tells what came of it.
ATTACK = """
import fcntl, os, struct, sys, time
fd = next(int(fd) for fd in os.listdir("/proc/self/fd") if os.path.realpath("/proc/self/fd/" + fd).endswith("-life"))
if sys.argv[1] == "drop" and os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
def lock(kind, fd):
    fcntl.fcntl(fd, 37, struct.pack("hhqqixxxx", kind, 0, 0, 0, 0))  # F_OFD_SETLK, the whole file
told = []
try:
    os.write(fd, b"x")
    told.append("written")
except OSError:
    pass
try:
    lock(fcntl.F_WRLCK, fd)
    told.append("locked")
except OSError:
    pass
lock(fcntl.F_UNLCK, fd)
os.close(fd)
with open("open/told.new", "w") as file:
    print("done", *told, file=file)
os.rename("open/told.new", "open/told")
time.sleep(100)
"""


def store():
    return url(ttl="10s", transition="6s")


def place_attack():
    """The script, and a folder to tell in for who has dropped its rights."""
    write("attack.py", ATTACK)
    os.makedirs("open", exist_ok=True)
    os.chmod("open", 0o777)
    os.chmod(".", 0o755)


def attack(*how):
    place_attack()
    owner = Simba("-u", store(), "lock", "m", "--", "python3", "attack.py", *how)
    wait_until(lambda: os.path.exists("open/told"), "the attack has been tried")
    return owner


def is_taken():
    return run("-u", store(), "lock", "-n", "m", "--", "true").code == 75


@case
def a_command_cannot_give_up_the_mutex_of_its_owner():
    for how in ("keep", "drop"):
        owner = attack(how)
        true(is_taken(), "the mutex was given away under its owner")
        equal(read("open/told"), "done\n")
        equal(owner.end(), 128 + signal.SIGTERM)
        os.remove("open/told")


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(child) for child in file.read().split()]


def guardian_of(owner, command):
    return next(pid for pid in children_of(owner.pid) if pid != command)


class Held:
    """A process that a debugger has stopped: the kernel continues others when their parent ends."""

    SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17

    def __init__(self, pid):
        self.pid = pid
        self.ptrace = ctypes.CDLL(None, use_errno=True).ptrace
        self.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]

    def ask(self, request):
        if self.ptrace(request, self.pid, None, None) != 0:
            raise OSError(ctypes.get_errno(), "ptrace")

    def __enter__(self):
        self.ask(self.SEIZE)
        self.ask(self.INTERRUPT)
        os.waitpid(self.pid, 0)

    def __exit__(self, *unused):
        self.ask(self.DETACH)


@case
def the_guardian_keeps_the_mutex_until_a_command_is_dead_that_has_given_up_its_part():
    """What the command has started is the guardian's to kill, once the program is gone."""
    place_attack()
    owner = Simba("-u", store(), "lock", "m", "--", "sh", "-c", "python3 attack.py keep & echo $! >left; echo $$ >pid; wait")
    wait_until(lambda: os.path.exists("open/told"), "the attack has been tried")
    left, guardian = number("left"), guardian_of(owner, number("pid"))
    with Held(guardian):
        owner.end(signal.SIGKILL)
        true(is_alive(left), "the guardian stands still")
        true(is_taken(), "the mutex was given away under what the command has started")
    wait_until(lambda: not is_alive(left), "the guardian has killed it")
    wait_until(lambda: not is_taken(), "the mutex is free")


@case
def what_a_command_has_started_keeps_the_mutex_while_it_lives():
    """Nobody is left to kill it."""
    owner = Simba("-u", store(), "lock", "m", "--", "sh", "-c",
                  "setsid sh -c 'echo $$ >left; exec sleep 100' & echo $$ >pid; wait")
    left, guardian = number("left"), guardian_of(owner, number("pid"))
    os.kill(guardian, signal.SIGSTOP)
    os.kill(owner.pid, signal.SIGSTOP)
    os.kill(guardian, signal.SIGKILL)
    owner.end(signal.SIGKILL)
    waiter = Simba("-u", store(), "lock", "m", "--", "sh", "-c", "echo $$ >began")
    wait_until(lambda: any("inotify" in link for link in links(waiter.pid)), "the waiter watches")
    end = now() + 0.5
    while now() < end:
        true(not os.path.exists("began"), "the mutex was given away")
        time.sleep(0.02)
    os.kill(left, signal.SIGKILL)
    killed = now()
    wait_until(lambda: os.path.exists("began"), "the waiter's command runs")
    true(now() - killed < AT_ONCE, f"it took {now() - killed:.3f} s")
    equal(waiter.wait(), 0)


def links(pid):
    try:
        return [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    except OSError:
        return []


# ---- Files that another user has planted ----

NOBODY = 65534
VICTIM = 1  # of Debian: daemon, which has a group of its own


def needs_two_users():
    """Whether a case cannot be shown here."""
    if os.getuid() != 0:
        print("# only root can become another user to plant a file")
    return os.getuid() != 0


def as_nobody(statement):
    """Runs a line of the shell as the hostile user."""
    subprocess.run(["sh", "-ec", statement], check=True, user=NOBODY, group=NOBODY, extra_groups=[])


def run_by(user, group=None):
    """For run: as that user."""
    return {} if user == 0 else {"user": user, "group": user if group is None else group, "extra_groups": []}


def make_folder(name, mode, user=0):
    os.chmod(".", 0o755)
    os.mkdir(name)
    os.chown(name, user, user)
    os.chmod(name, mode)


def lock_on(path, **more):
    return run("-u", f"sqlite:{path}?ttl=10s&transition=6s", "lock", "-n", "m", "--", "true", **more)


def make_store(path):
    """A database of root's, with nothing beside it."""
    store = sqlite3.connect(path)
    store.execute("CREATE TABLE precious (x)")
    store.close()
    os.chmod(path, 0o600)


def expect_refusal(path, word, **more):
    program = lock_on(path, **more)
    equal(program.code, 77)
    contains(program.said(), word)


def content(path):
    with open(path, "rb") as file:
        return file.read()


@case
def a_link_that_another_user_has_planted_is_not_followed():
    if needs_two_users():
        return
    make_folder("private", 0o700)
    make_store("private/victim.db")
    before = content("private/victim.db")
    for name, mode, user in (("sticky", 0o1777, 0), ("open", 0o777, 0), ("theirs", 0o755, NOBODY)):
        make_folder(name, mode, user)
        as_nobody(f"ln -s ../private/victim.db {name}/jobs.db; ln -s ../private {name}/folder")
        expect_refusal(f"{name}/jobs.db", f"{name}/jobs.db")
        expect_refusal(f"{name}/folder/new.db", f"{name}/folder")
    equal(os.listdir("private"), ["victim.db"])
    equal(content("private/victim.db"), before)


@case
def links_that_no_other_user_can_have_placed_are_followed():
    make_folder("private", 0o700, os.getuid())
    make_folder("sticky", 0o1777, os.getuid())
    for folder in ("private", "sticky"):
        os.mkdir(f"{folder}/real")
        os.symlink("real/jobs.db", f"{folder}/jobs.db")
        os.symlink(os.path.realpath(f"{folder}/real"), f"{folder}/folder")
        equal(lock_on(f"{folder}/folder/jobs.db").code, 0)
        equal(lock_on(f"{folder}/jobs.db").code, 0)
        equal(lock_on(f"{folder}/real/../folder/./jobs.db").code, 0)
        true("jobs.db" in os.listdir(f"{folder}/real"), "one file for all names")


def make_shared(folder, database):
    """A folder and a database in it, each given as (mode, user, group); no database: None."""
    shutil.rmtree("shared", ignore_errors=True)
    os.mkdir("shared")
    if database is not None:
        make_store("shared/jobs.db")
        set_rights("shared/jobs.db", *database)
    set_rights("shared", *folder)


def set_rights(path, mode, user, group):
    os.chown(path, user, group)
    os.chmod(path, mode)


@case
def a_database_is_refused_where_a_user_who_may_not_write_it_may_create_files():
    """Files that lie beside it in time are taken by SQLite, whichever user put them there: so no other user may."""
    if needs_two_users():
        return
    os.chmod(".", 0o755)
    for me in (0, VICTIM):
        private, of_group = (0o600, me, me), (0o660, me, NOBODY)
        for folder, database in (((0o1777, 0, 0), None), ((0o1777, 0, 0), private), ((0o777, me, me), private),
                                 ((0o757, me, me), None), ((0o1777, 0, 0), (0o666, NOBODY, NOBODY)),
                                 ((0o3777, 0, NOBODY), of_group), ((0o770, me, NOBODY), None),
                                 ((0o770, me, NOBODY), private), ((0o770, me, NOBODY), (0o660, me, me)),
                                 ((0o770, me, NOBODY), (0o640, me, NOBODY)),
                                 ((0o755, NOBODY, NOBODY), None), ((0o755, NOBODY, NOBODY), private)):
            make_shared(folder, database)
            before = os.listdir("shared")
            expect_refusal("shared/jobs.db", "mkdir -m 700", **run_by(me))
            equal(os.listdir("shared"), before)
        for folder, database in (((0o755, me, me), None), ((0o770, me, me), None), ((0o755, me, me), private)):
            make_shared(folder, database)
            equal(lock_on("shared/jobs.db", **run_by(me)).code, 0)


def lock_where(mount, path, me):
    """As that user, in a mount namespace of its own; None where the machine does not let us."""
    namespace = ["unshare", "--mount", "sh", "-c", mount + ' && exec "$@"', "sh"]
    if subprocess.run([*namespace, "true"], check=False, capture_output=True).returncode != 0:
        print("# mounting is not allowed here")
        return None
    user = ["setpriv", f"--reuid={me}", f"--regid={me}", "--clear-groups"]
    return subprocess.run([*namespace, *user, PROGRAM, "-u", f"sqlite:{path}", "lock", "-n", "m", "--", "true"],
                          check=False, capture_output=True, text=True)


@case
def a_group_that_is_also_another_users_is_not_one_users_alone():
    """As the group of his that stands with his name; the list of the group's members does not name him."""
    if needs_two_users():
        return
    os.chmod(".", 0o755)
    for me in (0, VICTIM):
        write("passwd", read("/etc/passwd") + f"bob:x:4242:{me}::/:/bin/sh\n")
        make_shared((0o770, me, me), None)
        alone = lock_where("true", "shared/jobs.db", me)
        both = lock_where("mount --bind passwd /etc/passwd", "shared/jobs.db", me)
        if alone is None or both is None:
            return
        equal((alone.returncode, alone.stderr), (0, ""))
        equal(both.returncode, 77)
        contains(both.stderr, "mkdir -m 700")


def give_right(path, user):
    """An access control list: that user may write the folder, beside its owner."""
    entries = ((1, 7, 2 ** 32 - 1), (2, 7, user), (4, 0, 2 ** 32 - 1), (16, 7, 2 ** 32 - 1), (32, 0, 2 ** 32 - 1))
    os.setxattr(path, "system.posix_acl_access", struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *e) for e in entries))


@case
def a_folder_that_another_user_may_write_by_a_list_is_not_one_users_alone():
    """Such a list shows as rights of the group."""
    if needs_two_users():
        return
    os.chmod(".", 0o755)
    for me in (0, VICTIM):
        make_shared((0o700, me, me), None)
        try:
            give_right("shared", NOBODY)
        except OSError as error:
            print(f"# no access control lists here: {error}")
            return
        as_nobody(": >shared/jobs.db-wal")
        expect_refusal("shared/jobs.db", "mkdir -m 700", **run_by(me))
        equal(os.listdir("shared"), ["jobs.db-wal"])


@case
def root_uses_a_database_of_another_user_in_a_folder_of_its_own():
    """As root SQLite gives the files beside it to that user: nobody else can have placed them."""
    if needs_two_users():
        return
    os.chmod(".", 0o755)
    make_shared((0o755, 0, 0), (0o600, NOBODY, NOBODY))
    equal(lock_on("shared/jobs.db").code, 0)


def make_used(folder, database):
    """The same with a database that its users have used."""
    make_shared(folder, database)
    equal(lock_on("shared/jobs.db", **run_by(NOBODY)).code, 0)
    store = sqlite3.connect("shared/jobs.db")
    store.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    store.close()
    as_nobody("rm -f shared/jobs.db-*")


@case
def root_gives_no_file_of_its_own_to_users_who_may_rename_it():
    """As root SQLite gives the files beside a database to its owner and group, whatever they were before."""
    if needs_two_users():
        return
    os.chmod(".", 0o755)
    for folder, database in (((0o700, NOBODY, NOBODY), (0o600, NOBODY, NOBODY)),
                             ((0o755, NOBODY, NOBODY), (0o600, NOBODY, NOBODY)),
                             ((0o2770, 0, NOBODY), (0o660, NOBODY, NOBODY)),
                             ((0o2770, 0, NOBODY), (0o660, 0, NOBODY)),
                             ((0o3770, 0, NOBODY), (0o660, 0, NOBODY))):
        for suffix in ("-wal", "-shm", "-journal", "-wake", "-life"):
            make_used(folder, database)
            make_folder("his", 0o755, NOBODY)
            write("his/secret", "precious")
            set_rights("his/secret", 0o640, 0, 0)
            as_nobody(f"mv his/secret shared/jobs.db{suffix}")
            for verb in (["status"], ["lock", "-n", "m", "--", "true"]):
                program = run("-u", "sqlite:shared/jobs.db", *verb)
                status = os.stat(f"shared/jobs.db{suffix}")
                equal((status.st_uid, status.st_gid, status.st_mode & 0o777), (0, 0, 0o640))
                equal(read(f"shared/jobs.db{suffix}"), "precious")
                equal(program.code, 77)
                contains(program.said(), "sudo -u")
            os.rmdir("his")


@case
def files_that_another_user_has_planted_beside_the_database_are_not_used():
    if needs_two_users():
        return
    os.chmod(".", 0o755)
    for me in (0, VICTIM):
        for suffix in ("-wal", "-shm", "-journal", "-wake", "-life"):
            for folder, database in (((0o1777, 0, 0), (0o600, me, me)), ((0o3777, 0, 4), (0o660, me, 4))):
                make_shared(folder, database)
                as_nobody(f"umask 0; : >shared/jobs.db{suffix}")
                before = content("shared/jobs.db")
                expect_refusal("shared/jobs.db", "mkdir -m 700", **run_by(me))
                equal(content("shared/jobs.db"), before)
                equal(os.stat(f"shared/jobs.db{suffix}").st_uid, NOBODY)


@case
def what_members_of_its_group_put_beside_the_database_leads_nobody_to_another_file():
    """They may write the database, but not what is named by a link."""
    if needs_two_users():
        return
    make_folder("private", 0o700, VICTIM)
    for make_link in (lambda to, name: os.symlink("../" + to, name), os.link):  # fs.protected_hardlinks may be off
        for suffix in ("-wal", "-shm", "-journal", "-wake", "-life"):
            write("private/victim", "precious")
            os.chown("private/victim", VICTIM, VICTIM)
            make_shared((0o2770, 0, NOBODY), (0o660, VICTIM, NOBODY))
            make_link("private/victim", f"shared/jobs.db{suffix}")
            if os.path.islink(f"shared/jobs.db{suffix}"):
                os.lchown(f"shared/jobs.db{suffix}", NOBODY, NOBODY)
            done = lock_on("shared/jobs.db", **run_by(VICTIM, NOBODY))
            equal(done.code, 0 if suffix in ("-wake", "-life") else 77)  # done without
            equal(read("private/victim"), "precious")


@case
def another_name_of_a_file_is_not_taken_for_the_database_of_a_shared_folder():
    if needs_two_users():
        return
    make_folder("private", 0o700, os.getuid())
    make_store("private/victim.db")
    set_rights("private/victim.db", 0o660, 0, NOBODY)
    make_shared((0o2770, 0, NOBODY), None)
    os.link("private/victim.db", "shared/jobs.db")  # as others can where fs.protected_hardlinks is off
    expect_refusal("shared/jobs.db", "more than one name")
    expect_refusal("private/victim.db", "more than one name")
    os.remove("shared/jobs.db")
    equal(lock_on("private/victim.db").code, 0)


@case
def users_who_share_a_database_by_its_group_are_not_kept_from_it():
    if needs_two_users():
        return
    os.chmod(".", 0o755)
    make_shared((0o2770, 0, NOBODY), (0o660, 0, NOBODY))
    for user in (NOBODY, VICTIM, NOBODY):
        equal(lock_on("shared/jobs.db", **run_by(user, NOBODY)).code, 0)


@case
def root_shares_a_database_with_a_group_in_a_folder_that_root_alone_may_write():
    if needs_two_users():
        return
    os.chmod(".", 0o755)
    make_shared((0o755, 0, 0), (0o660, 0, NOBODY))
    for user in (0, NOBODY, VICTIM, 0, NOBODY):
        equal(lock_on("shared/jobs.db", **run_by(user, NOBODY)).code, 0)
    equal({os.stat(f"shared/{name}").st_gid for name in os.listdir("shared")}, {NOBODY})
    equal(len(os.listdir("shared")), 5)


# ---- A schema of a user who may write the database ----

ENDLESS = "(WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT count(*) FROM r)"
HUGE = "length(hex(randomblob(100000000)))"


def change_schema(*statements):
    """Of a new database; returns its URL."""
    if os.path.exists("jobs.db"):
        for name in os.listdir("."):
            if name.startswith("jobs.db"):
                os.remove(name)
    equal(lock_on("jobs.db").code, 0)
    store = sqlite3.connect("jobs.db")
    for statement in statements:
        store.execute(statement)
    store.commit()
    store.close()
    return "sqlite:jobs.db?busy-timeout=300ms"


def put_view(name):
    return (f"ALTER TABLE {name} RENAME TO real", f"CREATE VIEW {name.upper()} AS SELECT * FROM real WHERE {ENDLESS}")


def ends(place, words, *command):
    """The program fails, and says why."""
    program = run("-u", place, *command)
    true(program.code > 0, f"exit code {program.code}")
    contains(program.said(), words)


@case
def a_view_in_the_place_of_a_table_is_not_used():
    for name in ("simba_mutex", "simba_meta"):
        place = change_schema(*put_view(name))
        for command in (["status"], ["lock", "-w", "2s", "m", "--", "true"], ["init"]):
            ends(place, "view", *command)


@case
def a_view_in_the_place_of_the_properties_is_not_used():
    place = change_schema(f"CREATE VIEW simba_property AS SELECT mutex, '' AS name, '' AS value, 0 AS written_at FROM"
                          f" simba_mutex WHERE {ENDLESS}")
    ends(place, "view", "lock", "--once-per", "1h", "m", "--", "true")
    equal(run("-u", place, "lock", "m", "--", "true").code, 0)


@case
def a_virtual_table_in_the_place_of_a_table_is_not_used():
    """Its module would read data of an attacker's making, which SQLite's own tables do not."""
    for name in ("simba_mutex", "simba_meta"):
        place = change_schema(f"ALTER TABLE {name} RENAME TO real", f"CREATE VIRTUAL TABLE {name} USING fts5(name, value, since_fence)")
        for command in (["status"], ["lock", "-w", "2s", "m", "--", "true"]):
            ends(place, "no such module", *command)
    place = change_schema("CREATE VIRTUAL TABLE simba_property USING fts5(mutex, name, value, written_at)")
    ends(place, "no such module", "lock", "--once-per", "1h", "m", "--", "true")
    equal(run("-u", place, "lock", "m", "--", "true").code, 0)


@case
def a_trigger_that_does_not_end_holds_up_no_client():
    for event in ("UPDATE", "INSERT"):
        place = change_schema(f"CREATE TRIGGER t BEFORE {event} ON simba_mutex BEGIN SELECT {ENDLESS}; END")
        ends(place, "did not end a statement", "lock", "-w", "2s", "m" if event == "UPDATE" else "new", "--", "true")


SLOW = ("CREATE TABLE few(x); INSERT INTO few VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10)",
        "SELECT count(instr(replace(hex(zeroblob({bytes})), '0', 'a'), replace(hex(zeroblob({bytes} / 2)), '0', 'a')"
        " || a.x || b.x || c.x || d.x || 'b')) FROM few a, few b, few c, few d, few e, few f")


@case
def a_trigger_of_slow_functions_holds_up_no_client():
    """A function is one step of SQLite's machine, however long it takes."""
    for size in (499000, 8000):
        place = change_schema(*SLOW[0].split(";"), "CREATE TRIGGER t BEFORE UPDATE ON simba_mutex BEGIN"
                              f" {SLOW[1].format(bytes=size)}; END")
        started = time.monotonic()
        ends(place, "too long" if size > 8192 else "did not end a statement", "lock", "-w", "2s", "m", "--", "true")
        true(time.monotonic() - started < 20, f"{size} bytes: {time.monotonic() - started:.1f} s")


@case
def a_trigger_makes_no_huge_values():
    place = change_schema(f"CREATE TRIGGER t BEFORE UPDATE ON simba_mutex BEGIN SELECT {HUGE}; END")
    ends(place, "too long", "lock", "-w", "2s", "m", "--", "true")


# ---- A forged journal ----


def forge_journal(database, victim):
    """A rollback journal without pages that names another file as its super-journal."""
    magic, size = bytes.fromhex("d9d505f920a163d7"), 4096
    victim = os.path.abspath(victim).encode()
    pages = os.path.getsize(database) // size
    head = (magic + struct.pack(">IIIII", 0, 0, pages, 512, size)).ljust(512, b"\0")
    tail = struct.pack(">I", 0x40000000 // size + 1) + victim + struct.pack(">II", len(victim), sum(victim)) + magic
    with open(f"{database}-journal", "wb") as journal:
        journal.write(head + tail)


@case
def a_journal_that_names_another_file_deletes_nothing():
    equal(lock_on(os.path.abspath("store.db")).code, 0)
    write("thesis", "precious")
    for command in (("status",), ("lock", "-n", "m", "--", "true")):
        forge_journal("store.db", "thesis")
        program = run("-u", f"sqlite:{os.path.abspath('store.db')}", *command)
        equal((program.code, read("thesis")), (77, "precious"))
        contains(program.said(), "had a -journal that names another file to delete")
    equal(lock_on(os.path.abspath("store.db")).code, 0)


@case
def a_device_is_not_taken_for_an_empty_database():
    """One whose size is 0, as that of a disk is: what it holds would be overwritten."""
    if os.getuid() != 0:
        print("# only root can make a device")
        return
    make_folder("private", 0o700)
    try:
        os.mknod("private/disk", stat.S_IFBLK | 0o600, os.makedev(7, 250))  # a loop device that nobody has set up
    except PermissionError:
        print("# this root may make no device")
        os.mkfifo("private/disk")
    program = lock_on("private/disk")
    equal(program.code, 78)
    contains(program.said(), "is no plain file")
    equal(os.listdir("private"), ["disk"])


# ---- The default store in the home of another user ----


def lock_at_home(home):
    """Without a store: the default one."""
    env = {"SIMBA_URL": "", "SIMBA_CONFIG": "", "XDG_CONFIG_HOME": "", "XDG_STATE_HOME": "", "HOME": os.path.abspath(home)}
    return run("lock", "-n", "m", "--", "true", env=env)


@case
def no_folder_is_created_through_another_users_home():
    if needs_two_users():
        return
    make_folder("target", 0o700)
    for place in (".local", ".local/state", ".local/state/simba"):
        make_folder("home", 0o755, NOBODY)
        as_nobody(f"cd home; mkdir -p $(dirname {place}); ln -s {os.path.abspath('target')} {place}")
        equal(lock_at_home("home").code, 77)
        equal(os.listdir("target"), [])
        shutil.rmtree("home")
    make_folder("home", 0o755, NOBODY)
    program = lock_at_home("home")
    equal(program.code, 77)
    contains(program.said(), "belongs to another user")
    equal(os.listdir("home"), [])


@case
def the_folders_of_the_default_store_are_created_through_links_of_ones_own():
    make_folder("home", 0o755, os.getuid())
    make_folder("target", 0o755, os.getuid())
    os.symlink("../target", "home/.local")
    equal(lock_at_home("home").code, 0)
    equal(lock_at_home("home").code, 0)
    true(os.path.exists("target/state/simba/simba.db"), "the store is there")


if __name__ == "__main__":
    sys.exit(main())
