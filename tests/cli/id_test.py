#!/usr/bin/env python3
"""`--id`: contenders that are given the same name are still different contenders."""
import re
import sys

from program import Simba, case, contains, equal, main, number, read, run, true

TELL = 'echo "$SIMBA_CONTENDER_ID"'


@case
def two_programs_with_the_same_id_do_not_own_together():
    holder = Simba("--id", "host1", "lock", "m", "--", "sh", "-c", "echo $$ >pid; exec sleep 100")
    number("pid")
    other = run("--id", "host1", "lock", "-n", "m", "--", "touch", "ran")
    equal(other.code, 75)
    contains(other.said(), "host1~")
    holder.end()


@case
def an_id_gets_a_random_part_that_no_other_run_has():
    for verb in (["lock"], ["lead", "--restart", "never"]):
        ids = {read(run("--id", "host1", *verb, "m", "--", "sh", "-c", TELL).out) for _ in range(3)}
        equal(len(ids), 3)
        true(all(re.fullmatch("host1~[0-9a-z]{6}\n", one) for one in ids), f"{ids}")


@case
def an_exact_id_stays_as_it_is():
    equal(read(run("--exact-id", "host1", "lock", "m", "--", "sh", "-c", TELL).out), "host1\n")
    noted = run("--id", "host1", "lock", "--note", "why", "m", "--", "sh", "-c", TELL)
    true(re.fullmatch(r"host1~[0-9a-z]{6} \(why\)\n", read(noted.out)), read(noted.out))


@case
def ids_that_cannot_be_are_told_of():
    both = run("--id", "a", "--exact-id", "b", "lock", "m", "--", "true")
    equal(both.code, 64)
    contains(both.said(), "--id and --exact-id")
    for option, length in (("--id", 121), ("--exact-id", 128)):
        equal(run(option, "x" * length, "lock", "m", "--", "true").code, 0)
        equal(run(option, "x" * (length + 1), "lock", "m", "--", "true").code, 78)
    equal(run("--id", "", "lock", "m", "--", "true").code, 78)


if __name__ == "__main__":
    sys.exit(main())
