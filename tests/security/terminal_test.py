#!/usr/bin/env python3
"""Names and ids that another client wrote to the store do not command the terminal of the one who looks."""
import json
import os
import sqlite3
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))
from program import Simba, case, contains, equal, main, read, run, true, wait_until

# Control characters of seven and of eight bits, such as CSI and OSC; what turns the direction of writing, breaks lines
# or is not seen at all.
HOSTILE = ("\x1b[2J\x07\x7f\x85\x90\x9b2J\x9d\u061c\u200b\u200e\u200f\u2028\u2029\u202a\u202d\u202e\u2060\u2066\u2067"
           "\u2069\ufeff\U000e0041\u034f\u115f\u2800\u3164\ufe0f\uffa0\U000e0100\u0600\u070f\ufff0\U000110bd\U00013430\U0001bca0\U0001d159")
OWNER = f"a{HOSTILE}z"
NAME = "m" + "\x9b\u202e\u2067" + "n"


def plant():
    """As a client could that writes to the store without asking this library."""
    equal(run("lock", "m", "--", "true").code, 0)
    store = sqlite3.connect("store.db")
    with store:
        store.execute("UPDATE simba_mutex SET owner_id = ?, ttl_at = 1 << 60, transition_at = 1 << 60", (OWNER,))
        columns = [row[1] for row in store.execute("PRAGMA table_info(simba_mutex)")]
        others = ", ".join(name for name in columns if name not in ("id", "mutex"))
        store.execute(f"INSERT INTO simba_mutex (mutex, {others}) SELECT ?, {others} FROM simba_mutex", (NAME,))
    store.close()


def harmless(program):
    said = read(program.out) + read(program.err)
    found = [hex(ord(one)) for one in said if one in HOSTILE and not " " <= one <= "~"]
    true(not found, f"{found} in {said!r}")
    return said


@case
def tables_and_messages_show_no_hostile_character():
    plant()
    for arguments in (("status",), ("status", "m"), ("lock", "-n", "m", "--", "true"),
                      ("lock", "-n", NAME, "--", "true"), ("lock", "-w", "200ms", "m", "--", "true"),
                      ("--log-level", "debug", "lock", "-n", "m", "--", "true"),
                      ("release", "m", "--force"), ("release", NAME, "--force")):
        said = harmless(run(*arguments))
        true("a?" in said or "m?" in said, f"{arguments} does not show it: {said!r}")


@case
def json_escapes_hostile_characters_and_keeps_them():
    plant()
    program = run("status", "--json")
    harmless(program)
    rows = json.loads(read(program.out))
    equal([row["owner"] for row in rows], [OWNER, OWNER])
    equal(sorted(row["mutex"] for row in rows), sorted(["m", NAME]))
    program = run("release", "--json", "m", "--force")
    harmless(program)
    contains(json.dumps(json.loads(read(program.out))), json.dumps(OWNER))


@case
def watching_shows_no_hostile_character():
    plant()
    for form in ([], ["--json"]):
        program = Simba("watch", *form, "m", NAME)
        wait_until(lambda: read(program.out).count("\n") >= 2, "both are shown")
        program.end()
        said = harmless(program)
        true("a?" in said or "a\\u001b" in said, said)


if __name__ == "__main__":
    sys.exit(main())
