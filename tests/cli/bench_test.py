#!/usr/bin/env python3
"""`simba bench`: each question is answered, on a file and on a server, in the form that is documented; nothing
stays on the store, whatever happens. What the numbers are is hardly looked at."""
import json
import signal
import sqlite3
import sys

from program import Simba, case, contains, equal, main, read, run, true, wait_until
from stores import Redis

SMALL = ["--count", "2", "--rounds", "2", "--mutexes", "20", "--contenders", "8", "--processes",
         "2", "--window", "100ms"]
DISTRIBUTION = {"what", "unit", "count", "min", "p50", "p99", "max", "mean", "round_low",
                "round_high"}
MEASURES = {
    "cycle": {"simba", "raw"},
    "handover": {"simba", "raw"},
    "many": {"lateness"},
    "contention": {"simba", "raw"},
    "failover": {"simba", "raw", "after_lease", "multiple", "jitter",
                 "jitter_after_lease", "turn_after_lease"},
    "is-owner": {"simba", "raw"},
}
NUMBERS = {
    "cycle": {"per_second"},
    "handover": set(),
    "many": {"mutexes", "own_all_ms", "rss_per_mutex_bytes", "renewals_per_second",
             "commands_per_second", "cpu_percent", "cpu_us_per_renewal", "raw_cpu_us_per_renewal",
             "threads", "connections", "lost", "errors"},
    "contention": {"contenders", "processes", "handovers_per_second", "commands_per_handover",
                   "turns_least", "turns_most", "fairness"},
    "failover": set(),
    "is-owner": set(),
}


def names_left():
    store = sqlite3.connect("store.db", timeout=30)
    try:
        return [name for (name,) in store.execute("SELECT mutex FROM simba_mutex")]
    finally:
        store.close()


def has_names():
    try:
        return names_left() != []
    except sqlite3.OperationalError:  # the table is not there yet
        return False


def ask(*arguments):
    """The answers to questions, as JSON."""
    program = run("bench", "--json", *arguments)
    equal((program.code, program.said()), (0, ""))
    return json.loads(read(program.out))


def check_distribution(values):
    equal(set(values), DISTRIBUTION)
    true(values["min"] <= values["p50"] <= values["p99"] <= values["max"], f"in order: {values}")
    true(values["min"] <= values["round_low"] <= values["round_high"] <= values["max"],
         f"rounds within: {values}")


@case
def all_questions_are_answered_with_the_documented_keys():
    answer = ask(*SMALL)
    equal(set(answer), {"simba", "store", "machine", "questions"})
    equal(set(answer["machine"]), {"cpu", "kernel", "cores", "cores_allowed", "load"})
    equal(list(answer["questions"]), list(MEASURES))
    for name, question in answer["questions"].items():
        equal(set(question["measures"]), MEASURES[name])
        equal(set(question["numbers"]), NUMBERS[name])
        for values in question["measures"].values():
            check_distribution(values)
    equal(names_left(), [])


@case
def the_numbers_are_those_of_the_run():
    questions = ask("cycle", "many", "contention", *SMALL)["questions"]
    equal(list(questions), ["cycle", "many", "contention"])
    equal(questions["cycle"]["measures"]["simba"]["count"], 4)
    ratio = questions["cycle"]["ratios"]["raw"]
    true(0 < ratio["low"] <= ratio["high"], f"a ratio: {ratio}")
    many = questions["many"]["numbers"]
    equal((many["mutexes"], many["lost"], many["commands_per_second"]), (20, 0, None))
    equal(questions["contention"]["numbers"]["contenders"], 8)


@case
def people_read_a_table():
    program = run("bench", "cycle", "--count", "2", "--rounds", "2")
    equal(program.code, 0)
    for part in ["store    sqlite:", "cycle: ", "p50", "acquire + release", "committed UPDATEs",
                 "times as long as", "cycles per second"]:
        contains(read(program.out), part)


@case
def the_lease_is_that_of_the_options():
    failover = ask("failover", "--count", "2", "--rounds", "1", "--ttl", "200ms", "--transition",
                   "400ms")["questions"]["failover"]["measures"]
    true(0 < failover["raw"]["p50"] <= 600, f"what is left of 600 ms: {failover['raw']}")


@case
def a_dead_owner_has_one_successor_that_counts():
    """The kills are two thirds of a second apart, and then the waiters are killed, who succeed each other."""
    failover = ask("failover", "--count", "3", "--rounds", "1", "--ttl", "2s", "--transition",
                   "6s")["questions"]["failover"]["measures"]
    for key in ["simba", "jitter"]:
        true(failover[key]["p50"] < 500, f"on SQLite at once: {key} {failover[key]}")


@case
def a_signal_ends_it_and_nothing_stays():
    program = Simba("bench", "contention", "--contenders", "4", "--window", "1h")
    wait_until(has_names, "it contends")
    equal(program.end(signal.SIGINT), -signal.SIGINT)
    equal(names_left(), [])


@case
def wrong_command_lines_are_usage_errors():
    for arguments in [["nonsense"], ["--count", "0"], ["--rounds", "x"], ["--mutexes", "-1"],
                      ["--contenders", "1"], ["--processes", "1000"], ["--window", "0s"],
                      ["--nonsense"]]:
        program = run("bench", *arguments)
        equal((arguments, program.code, read(program.out)), (arguments, 64, ""))


@case
def stores_that_cannot_be_measured_say_so():
    equal(run("bench", "--url", "memory:").code, 78)
    equal(run("bench", "--url", "redis://127.0.0.1:1", "cycle").code, 69)


@case
def a_server_is_counted_on_and_left_clean():
    if not Redis.exists():
        return
    server = Redis()
    try:
        questions = ask("--url", server.url, "cycle", "handover", "many", *SMALL)["questions"]
        for name in ["cycle", "handover"]:
            equal(set(questions[name]["measures"]), {"simba", "raw", "scripts"})
            equal(set(questions[name]["ratios"]), {"raw", "scripts"})
        true(questions["many"]["numbers"]["commands_per_second"] > 0, "commands were counted")
        server.socket.sendall(b"DBSIZE\r\n")
        equal(server.socket.recv(64), b":0\r\n")
    finally:
        server.stop()


if __name__ == "__main__":
    sys.exit(main())
