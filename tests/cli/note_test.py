#!/usr/bin/env python3
"""`--note`: what an owner says of itself is shown by status and watch."""
import json
import signal
import sys

from program import Simba, case, contains, equal, main, number, read, run

HOLD = "echo $$ >pid.new; mv pid.new pid; echo \"$SIMBA_CONTENDER_ID\"; exec sleep 100"


@case
def status_and_those_who_wait_are_told_the_note():
    for verb in (["lock"], ["lead"], ["schedule", "--every", "1h"]):
        holder = Simba("--exact-id", "me", *verb, "--note", "db1: nightly", "m", "--", "bash", "-c", HOLD)
        number("pid")
        owner = json.loads(read(run("status", "--json", "m").out))[0]["owner"]
        equal(owner, "me (db1: nightly)")
        equal(read(run("status").out).splitlines()[1].split("  ")[-1], "db1: nightly")
        contains(run("lock", "-n", "m", "--", "true").said(), "me (db1: nightly)")
        equal(read(holder.out), "me (db1: nightly)\n")
        holder.end(signal.SIGTERM)
        run("lock", "m", "--", "rm", "pid")


@case
def an_id_that_the_library_made_keeps_its_form():
    program = run("lock", "--note", "why", "m", "--", "sh", "-c", "echo \"$SIMBA_CONTENDER_ID\"")
    words = read(program.out).strip().split(" ", 1)
    equal(words[1], "(why)")
    contains(words[0], "@")
    contains(words[0], "~")


@case
def notes_that_do_not_fit_are_78():
    program = run("lock", "--note", "x" * 127, "m", "--", "true")
    equal(program.code, 78)
    contains(program.said(), "--note is too long")
    equal(run("lock", "--note", "a@@b", "m", "--", "true").code, 78)
    equal(run("lock", "--note", "a\nb", "m", "--", "true").code, 78)
    equal(run("--exact-id", "i", "lock", "--note", "x" * 124, "m", "--", "true").code, 0)


if __name__ == "__main__":
    sys.exit(main())
