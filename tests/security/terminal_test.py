#!/usr/bin/env python3
"""Names and ids that another client wrote to the store do not command the terminal of the one who looks."""
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
COMPLETIONS = os.path.join(HERE, "../../completions")
sys.path.append(os.path.join(HERE, "../cli"))
from program import Simba, case, contains, equal, main, read, run, true, wait_until

# Control characters of seven and of eight bits, such as CSI and OSC; what turns the direction of writing, breaks lines
# or is not seen at all.
HOSTILE = ("\x1b[2J\x07\x7f\x85\x90\x9b2J\x9d\u061c\u200b\u200e\u200f\u2028\u2029\u202a\u202d\u202e\u2060\u2066\u2067"
           "\u2069\ufeff\U000e0041\u034f\u115f\u2800\u3164\ufe0f\uffa0\U000e0100\u0600\u070f\ufff0\U000110bd\U00013430\U0001bca0\U0001d159")
OWNER = f"a{HOSTILE}z"
NAME = "m" + "\x9b\u202e\u2067" + "n"


def plant(owner=OWNER):
    """As a client could that writes to the store without asking this library."""
    equal(run("lock", "m", "--", "true").code, 0)
    store = sqlite3.connect("store.db")
    with store:
        store.execute("UPDATE simba_mutex SET owner_id = ?, ttl_at = 1 << 60, transition_at = 1 << 60", (owner,))
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


@case
def a_log_in_json_has_whole_objects_only():
    plant(owner=OWNER + '"}\n{"level":"forged","x":"\\')
    for arguments in (("lock", "-n", "m", "--", "true"), ("--log-level", "debug", "lock", "-n", NAME, "--", "true")):
        program = run("--log-format", "json", *arguments)
        harmless(program)
        told = [json.loads(line) for line in read(program.err).splitlines()]
        true(told and all(line["level"] != "forged" and "message" in line for line in told), told)


@case
def an_id_tells_the_service_manager_nothing():
    """A line of its own would be a variable, such as another main process."""
    plant(owner="a\nMAINPID=1\nREADY=1\x1b[2Jz")
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(os.path.abspath("notify"))
    manager.settimeout(10)
    program = Simba("lead", "m", "--", "true", env={"NOTIFY_SOCKET": os.path.abspath("notify")})
    told = ""
    while "held by a" not in told:
        told = manager.recv(4096).decode()
        true("\n" not in told.rstrip("\n") and "\x1b" not in told and "MAINPID=1\n" not in told, repr(told))
    contains(told, "held by a?MAINPID=1?READY=1?[2Jz")
    equal(program.end(), 0)
    manager.close()


# Each prints what the shell would put into the line, as its own words: one a line.
COMPLETE = {
    "bash": """source simba.bash; COMP_WORDS=(simba lead ''); COMP_CWORD=2; _simba
               for typed in "${COMPREPLY[@]}"; do eval "printf '%s\\n' $typed"; done""",
    "zsh": """source ./_simba; typeset -A opt_args; store=(); compadd() { print -rl -- $names }; _simba_mutexes""",
}


@case
def a_completion_offers_no_name_that_is_a_command_or_an_option():
    names = ["$(touch ran)", "`touch ran`", "a;touch ran", "a b"]
    for name in (*names, "--health=touch ran", "-cother.yml"):
        equal(run("lock", "--", name, "--", "true").code, 0)
    environment = {**os.environ, "SIMBA_URL": f"sqlite:{os.path.abspath('store.db')}",
                   "PATH": f"{os.path.dirname(os.environ['SIMBA_PROGRAM'])}:{os.environ['PATH']}"}
    for shell in filter(shutil.which, COMPLETE):
        offered = subprocess.run([shell, "-c", COMPLETE[shell]], env=environment, check=True, timeout=60, text=True,
                                 stdout=subprocess.PIPE, cwd=COMPLETIONS).stdout.splitlines()
        equal((shell, sorted(offered)), (shell, sorted(names)))
        true(not os.path.exists(os.path.join(COMPLETIONS, "ran")), f"{shell} ran a name")


if __name__ == "__main__":
    sys.exit(main())
