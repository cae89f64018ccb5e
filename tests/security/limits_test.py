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
    contains(read(run("status").out), "used-once")


if __name__ == "__main__":
    sys.exit(main())
