#!/usr/bin/env python3
"""What SECURITY.md says is not protected, seen to be so: a reader must not trust in more than there is."""
import os
import signal
import sqlite3
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))
from program import Simba, case, contains, equal, is_alive, main, number, read, run, steal, true, url, wait_until

# Stops the program and its guardian, which a process of the same user may.
STOP = ("kill -STOP $PPID; for pid in $(cat /proc/$PPID/task/$PPID/children); do"
        " [ $pid = $$ ] || kill -STOP $pid; done; echo $$ >pid.new; mv pid.new pid; exec sleep 100")


@case
def a_command_can_stop_its_supervision_and_outlive_its_lease():
    program = Simba("lock", "m", "--", "bash", "-c", STOP)
    command = number("pid")
    other = run("lock", "-w", "30s", "m", "--", "true")
    equal(other.code, 0)
    true(is_alive(command), "the command has ended: the limit is gone, so the documents are wrong")
    os.kill(command, signal.SIGKILL)
    for pid in read(f"/proc/{program.pid}/task/{program.pid}/children").split():
        os.kill(int(pid), signal.SIGCONT)
    program.send(signal.SIGCONT)
    wait_until(lambda: program.process.poll() is not None, "the program ends")


# Takes a shared lock on all bytes of the file of lives, as a user without other rights.
LOCK_LIVES = """
import fcntl, os, struct, time
fd = next(int(fd) for fd in os.listdir("/proc/self/fd") if os.path.realpath("/proc/self/fd/" + fd).endswith("-life"))
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
fcntl.fcntl(fd, 37, struct.pack("hhqqixxxx", fcntl.F_RDLCK, 0, 0, 0, 0))  # F_OFD_SETLK
print("locked", flush=True)
time.sleep(100)
"""


def start_owner(store, mutex):
    """Returns it with the pids of its command and its guardian."""
    owner = Simba("-u", store, "lock", mutex, "--", "sh", "-c", f"echo $$ >{mutex}; exec sleep 100")
    number(mutex)
    return owner, [int(pid) for pid in read(f"/proc/{owner.pid}/task/{owner.pid}/children").split()]


@case
def a_command_on_sqlite_can_hide_the_death_of_other_owners_until_their_lease_ends():
    """Of those that began before it while it runs; of later ones for good."""
    store = url(ttl="60s", transition="60s")
    early = start_owner(store, "early")
    hostile = Simba("-u", store, "lock", "m", "--", "python3", "-c", LOCK_LIVES)
    wait_until(lambda: "locked" in read(hostile.out), "the command has locked the lives")
    late = start_owner(store, "late")
    for owner, family in (early, late):
        owner.end(signal.SIGKILL)
        wait_until(lambda pids=family: not any(is_alive(pid) for pid in pids), "command and guardian of the owner are gone")
    for mutex in ("early", "late"):
        equal(run("-u", store, "lock", "-n", mutex, "--", "true").code, 75)
    equal(hostile.end(), 128 + signal.SIGTERM)
    equal(run("-u", store, "lock", "-w", "30s", "early", "--", "true").code, 0)


@case
def a_client_that_may_write_to_the_store_can_take_a_mutex_away():
    program = Simba("lock", "m", "--", "sh", "-c", "echo $$ >pid; exec sleep 100")
    number("pid")
    steal()
    equal(program.wait(), 70)
    store = sqlite3.connect("store.db")
    equal(store.execute("SELECT owner_id FROM simba_mutex WHERE mutex = 'm'").fetchone(), ("thief",))
    store.close()


@case
def a_command_inherits_the_environment_with_the_url():
    program = run("lock", "m", "--", "sh", "-c", 'echo "$SIMBA_URL $SIMBA_MUTEX $SIMBA_CONTENDER_ID $SIMBA_FENCE"')
    said = read(program.out).split()
    equal((said[0], said[1], len(said)), (url(), "m", 4))


@case
def a_name_stays_in_the_store_after_its_last_use():
    equal(run("lock", "used-once", "--", "true").code, 0)
    contains(read(run("status", "--all").out), "used-once")


if __name__ == "__main__":
    sys.exit(main())
