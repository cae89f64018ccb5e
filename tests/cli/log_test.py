#!/usr/bin/env python3
"""The form of what the program says on standard error: text, with the time or without, or JSON."""
import json
import os
import pty
import re
import subprocess
import sys
import time

from program import PROGRAM, STAMP, Simba, case, contains, equal, main, read, run, steal, true, wait_until
from stores import free_port

LEAD = ["lead", "--restart-delay", "100s"]


def events(program):
    return [json.loads(line) for line in read(program.err).splitlines()]


def stamped(program):
    """Of how many lines there are, how many begin with the time."""
    lines = read(program.err).splitlines()
    return sum(re.match(STAMP, line) is not None for line in lines), len(lines)


@case
def each_event_of_a_leader_is_a_json_object_that_says_what_it_is_about():
    begin = time.time() * 1000
    program = Simba("--log-format", "json", "--exact-id", 'the "id"', *LEAD, "m", "--", "sh", "-c", "exit 3")
    wait_until(lambda: "exit code 3" in read(program.err))
    equal(program.end(), 0)
    seen = events(program)
    equal([event["message"].split("'")[0] for event in seen],
          ["the store is " + os.environ["SIMBA_URL"], "leading ", "the command ended with exit code 3: it starts again in 1m40s"])
    for event in seen:
        true(begin - 1 <= event["at"] <= time.time() * 1000, f"{event}")
        equal((event["level"], event["mutex"], event["id"], event["store"]), ("info", "m", 'the "id"', os.environ["SIMBA_URL"]))
    equal([event.get("fence") for event in seen], [None, 1, 1])


@case
def errors_and_warnings_have_their_level_and_no_line_is_anything_but_json():
    program = run("-u", f"redis://user:s3cret@127.0.0.1:{free_port()}", "lock", "m", "--", "true",
                  env={"SIMBA_LOG_FORMAT": "json"})
    equal(program.code, 69)
    equal([(event["level"], "refused" in event["message"]) for event in events(program)], [("error", True)])
    true("s3cret" not in read(program.err), read(program.err))
    program = Simba("--log-format=json", "--log-level", "debug", *LEAD, "m", "--", "sleep", "100")
    wait_until(lambda: "leading" in read(program.err))
    steal()
    wait_until(lambda: any(event["level"] == "error" for event in events(program)), "the loss is an error")
    equal(program.end(), 0)
    true({"info", "error"} <= {event["level"] for event in events(program)}, "levels")


@case
def a_message_as_long_as_can_be_is_a_whole_object():
    for name in ("x" * 264, "\"\\" * 132):
        holder = Simba("--exact-id", "\\" * 128, "lock", name, "--", "sh", "-c", "touch held; exec sleep 100")
        wait_until(lambda: os.path.exists("held"))
        program = run("--log-format", "json", "lock", "-n", name, "--", "true")
        equal((program.code, len(events(program))), (75, 1))
        equal(events(program)[0]["mutex"], name)
        holder.end()
        os.remove("held")


@case
def a_leader_writes_the_time_unless_the_journal_does():
    for env, expected in (({}, 3), ({"JOURNAL_STREAM": "8:1"}, 0)):
        program = Simba(*LEAD, "m", "--", "true", env=env)
        wait_until(lambda: "starts again" in read(program.err))
        equal(program.end(), 0)
        equal(stamped(program), (expected, 3))
    equal(stamped(run("-u", f"redis://127.0.0.1:{free_port()}", "lock", "m", "--", "true")), (0, 1))


@case
def a_terminal_shows_no_times():
    pid, keys = pty.fork()
    if pid == 0:
        os.execv(PROGRAM, [PROGRAM, "lead", "--restart", "never", "m", "--", "true"])
    shown = ""
    try:
        while True:
            shown += os.read(keys, 4096).decode()
    except OSError:
        os.waitpid(pid, 0)
    contains(shown, "simba: leading 'm'")
    true(not re.search(STAMP, shown, re.M), shown)


@case
def a_form_that_there_is_not_is_refused():
    equal(run("--log-format", "xml", "status").code, 64)
    program = run("status", env={"SIMBA_LOG_FORMAT": "xml"})
    equal(program.code, 78)
    contains(program.said(), "SIMBA_LOG_FORMAT: 'xml' is not a format: write text or json")
    equal(subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, check=True).stdout.count("--log-format"), 1)


if __name__ == "__main__":
    sys.exit(main())
