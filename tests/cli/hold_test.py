#!/usr/bin/env python3
"""`simba lock --hold-at-least` and `--hold-at-most`."""
import os
import signal
import sys

from program import (LEASE, Simba, case, contains, equal, is_alive, is_free, main, now, number, read,
                     run, stays_taken, steal, true, wait_until, write)


BEGUN = "1500ms"  # a shell has read its command by then, also on a slow machine


def lock(*options, script):
    return Simba("lock", *options, "m", "--", "bash", "-c", script)


@case
def the_mutex_stays_taken_for_the_minimum_and_is_renewed_meanwhile():
    begin = now()
    program = lock("--hold-at-least", "2s", script="echo done >done; exit 5")
    wait_until(lambda: os.path.exists("done"))
    stays_taken(begin + 2)  # longer than the lease
    equal(program.wait(), 5)
    true(now() - begin >= 2, f"it ended after {now() - begin}")
    true(is_free(), "it was not given back")
    true(LEASE < 1.5, "the lease is too long for this test")


@case
def a_command_longer_than_the_minimum_is_not_held_up():
    begin = now()
    equal(lock("--hold-at-least", "100ms", script="sleep 0.3").wait(), 0)
    true(now() - begin < 5, f"it took {now() - begin}")


@case
def a_signal_ends_the_hold_and_the_exit_code_is_that_of_the_command():
    for number_of in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        program = lock("--hold-at-least", "1h", script="echo $$ >pid.new; mv pid.new pid; exit 5")
        command = number("pid")
        os.remove("pid")
        wait_until(lambda: not os.path.exists(f"/proc/{command}"))
        equal(program.end(number_of), 5)
        true(is_free(), "it was not given back")


def children(pid):
    return [child for child in read(f"/proc/{pid}/task/{pid}/children").split()]


@case
def nobody_who_has_ended_is_left_while_the_mutex_is_held():
    program = lock("--hold-at-least", "1h", "--leave-running",
                   script="(until [ -e go ]; do sleep 0.01; done) & echo $! >orphan.new; mv orphan.new orphan")
    orphan = number("orphan")
    wait_until(lambda: children(program.pid) == [str(orphan)], "the guardian is gone")
    write("go", "")
    wait_until(lambda: children(program.pid) == [], "the orphan is collected")
    equal(program.end(), 0)


@case
def a_command_that_was_told_to_end_is_not_held_on_for():
    program = lock("--hold-at-least", "1h", script="echo $$ >pid; exec sleep 100")
    number("pid")
    begin = now()
    equal(program.end(), 128 + signal.SIGTERM)
    true(now() - begin < 5, f"it took {now() - begin}")


@case
def a_command_that_never_ran_is_not_held_on_for():
    equal(run("lock", "--hold-at-least", "1h", "m", "--", "no-such-command").code, 127)


@case
def a_lease_that_is_lost_ends_the_hold_and_is_70():
    program = lock("--hold-at-least", "1h", script="touch done")
    wait_until(lambda: os.path.exists("done"))
    steal()
    equal(program.wait(), 70)
    contains(program.said(), "the lease of 'm' was lost before its minimum was over")


@case
def a_command_that_takes_too_long_is_stopped_and_is_124():
    begin = now()
    program = lock("--hold-at-most", BEGUN, script="echo $$ >pid; exec sleep 100")
    equal(program.wait(), 124)
    true(1.5 <= now() - begin < 10, f"it took {now() - begin}")
    true(not is_alive(number("pid")), "it is alive")
    contains(program.said(), "the time of --hold-at-most for 'm' is over: stopping the command")
    true(is_free(), "it was not given back")


@case
def one_that_does_not_end_is_killed_with_its_group():
    program = lock("--hold-at-most", BEGUN, "-k", "100ms",
                   script="trap '' TERM; sleep 100 & echo $! >inner; echo $$ >pid;"
                          "while :; do sleep 0.02; done")
    equal(program.wait(), 124)
    true(not is_alive(number("pid")), "it is alive")
    wait_until(lambda: not is_alive(number("inner")))
    contains(program.said(), "the command has not ended in time: killing it")


@case
def one_that_ends_well_when_it_is_asked_is_124_all_the_same():
    equal(lock("--hold-at-most", "200ms",
               script="trap 'exit 0' TERM; while :; do sleep 0.02; done").wait(), 124)


@case
def the_minimum_may_not_be_longer_than_the_maximum():
    equal(run("lock", "--hold-at-least", "2s", "--hold-at-most", "1s", "m", "true").code, 64)


if __name__ == "__main__":
    sys.exit(main())
