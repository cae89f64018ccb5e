#!/usr/bin/env python3
"""`simba bench`: each question is answered, on a file and on a server, in the form that is documented; nothing
stays on the store, whatever happens. What the numbers are is hardly looked at."""
import json
import os
import signal
import sqlite3
import sys

from program import Simba, case, contains, equal, main, now, read, run, true, wait_until
from stores import Postgres, Redis

# No owner loses its lease on a machine that is busy with other tests.
SMALL = ["--count", "2", "--rounds", "2", "--mutexes", "20", "--contenders", "8", "--processes",
         "2", "--window", "100ms", "--ttl", "1s", "--transition", "4s"]
DISTRIBUTION = {"what", "unit", "count", "min", "p50", "p99", "max", "mean", "round_low",
                "round_high"}
MEASURES = {
    "cycle": {"simba", "raw"},
    "beside": {"simba", "raw"},
    "handover": {"simba", "raw"},
    "many": {"lateness"},
    "contention": {"simba", "raw"},
    "failover": {"simba", "raw", "after_lease", "multiple", "jitter", "jitter_after_lease", "turn_after_lease"},
    "is-owner": {"simba", "raw"},
}
NUMBERS = {
    "cycle": {"per_second"},
    "beside": set(),
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
        return [name for (name,) in store.execute("SELECT mutex FROM simba_mutex UNION SELECT mutex FROM simba_waiter")]
    finally:
        store.close()


def names_or_none():
    try:
        return names_left()
    except sqlite3.OperationalError:  # the table is not there yet
        return []


def has_names():
    return names_or_none() != []


def ask(*arguments):
    """The answers to questions, as JSON."""
    program = run("bench", "--json", *arguments)
    equal((program.code, program.said()), (0, ""))
    return json.loads(read(program.out))


def answer_of(server, command):
    """A short answer of Redis, as the server sends it."""
    server.socket.sendall(f"{command}\r\n".encode())
    return server.socket.recv(64).decode().rstrip("\r\n")


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
    contains(program.said(), "cleaning up; another signal leaves at once")
    equal(names_left(), [])


# It takes a while to remove the name that is the first to be there.
SLOW = """CREATE TRIGGER slow BEFORE DELETE ON simba_mutex WHEN old.mutex LIKE 'bench-%raw' BEGIN
    SELECT (WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 400000)
            SELECT count(*) FROM number);
END"""


@case
def a_signal_when_the_first_name_is_there_leaves_nothing():
    """By that name it finds out whether it may remove names."""
    equal(run("lock", "m", "--", "true").code, 0)
    store = sqlite3.connect("store.db", timeout=30, isolation_level=None)
    store.execute("DELETE FROM simba_mutex")
    store.execute(SLOW)
    store.close()
    program = Simba("bench", "contention", "--contenders", "4", "--window", "1h")
    wait_until(has_names, "it has begun")
    equal(program.end(signal.SIGINT), -signal.SIGINT)
    contains(program.said(), "cleaning up; another signal leaves at once")
    equal(names_left(), [])


@case
def json_that_a_signal_ends_is_whole():
    program = Simba("bench", "--json", "cycle", "contention", "--count", "2", "--rounds", "2",
                    "--contenders", "4", "--window", "1h")
    wait_until(lambda: any("contention" in name for name in names_or_none()), "it contends")
    equal(program.end(signal.SIGTERM), 128 + signal.SIGTERM)
    answer = json.loads(read(program.out))
    equal((list(answer["questions"]), answer["error"]), (["cycle"], f"signal {signal.SIGTERM:d} came"))


@case
def without_a_store_a_file_of_its_own_is_measured():
    os.mkdir("tmp", 0o700)
    os.mkdir("state")
    nothing = {"SIMBA_URL": "", "SIMBA_CONFIG": "", "HOME": os.getcwd() + "/state",
               "XDG_STATE_HOME": os.getcwd() + "/state",
               "XDG_CONFIG_HOME": os.getcwd() + "/state", "TMPDIR": os.getcwd() + "/tmp"}
    program = run("bench", "cycle", "--count", "2", "--rounds", "1", env=nothing)
    equal((program.code, os.listdir("tmp"), os.listdir("state")), (0, [], []))
    contains(program.said(), "no store is named")
    contains(read(program.out), f"{os.getcwd()}/tmp/simba-bench-")


@case
def failover_kills_at_most_a_hundred():
    """Of a count that is meant for other questions. It is ended when the owners of the first round are there."""
    program = Simba("bench", "failover", "--count", "101", "--rounds", "1")
    wait_until(lambda: len(names_or_none()) >= 100 or program.process.poll() is not None, "owners")
    equal(len([name for name in names_or_none() if "failover" in name]), 100)
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


@case
def a_store_that_was_not_used_has_nothing_left_on_it():
    for url, code in [("redis://127.0.0.1:1", 69), ("sqlite:no/such/folder/store.db", 69),
                      ("nonsense://host", 78)]:
        for form in [[], ["--json"]]:
            program = run("bench", "--url", url, "cycle", *form)
            equal((url, program.code, read(program.out)), (url, code, ""))
            true("are left" not in program.said(), f"nothing is left: {program.said()}")
            equal(len(program.said().splitlines()), 1)


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
        equal(answer_of(server, "DBSIZE"), ":0")
    finally:
        server.stop()


@case
def a_password_that_can_be_read_once_is_enough():
    if not Redis.exists():
        return
    server = Redis()
    try:
        equal(answer_of(server, "ACL SETUSER simba on >s3cret ~* &* +@all"), "+OK")
        for arguments in (["bench", "--json", "cycle", "handover", *SMALL], ["tck", "--case", "start"]):
            reader, writer = os.pipe()
            os.write(writer, b"s3cret\n")
            os.close(writer)
            url = f"redis://simba@127.0.0.1:{server.port}?password-file=/dev/fd/{reader}"
            program = run(*arguments, "--url", url, pass_fds=[reader])
            os.close(reader)
            equal((arguments, program.code, program.said()), (arguments, 0, ""))
            true("s3cret" not in read(program.out), "the password is not shown")
    finally:
        server.stop()


@case
def a_server_that_denies_the_plain_client_is_left_clean():
    """The rights that docs/stores/redis.md calls the smallest, with a user's own name for `simba bench`."""
    if not Redis.exists():
        return
    server = Redis()
    try:
        equal(answer_of(server, "ACL SETUSER simba on >secret ~simba:{* &simba:{* +evalsha +eval +get +set +del "
                                "+pexpire +pttl +time +zadd +zrem +zrange +zpopmin +zcard +publish +subscribe "
                                "+unsubscribe +ping +scan +client|setname +select"), "+OK")
        url = f"redis://simba:secret@127.0.0.1:{server.port}"
        program = run("bench", "--url", url, "contention", *SMALL)
        equal((program.code, read(program.out)), (77, ""))
        contains(program.said(), "script|load")
        equal(answer_of(server, "DBSIZE"), ":0")
        equal(answer_of(server, "ACL SETUSER simba +script|load"), "+OK")
        ask("--url", url, "cycle", "contention", *SMALL)
        equal(answer_of(server, "DBSIZE"), ":0")
    finally:
        server.stop()


@case
def a_right_that_is_missing_is_told_before_anything_is_there():
    """Those that are needed only later: to hear of a hand-over, and to remove what was made."""
    if not Redis.exists():
        return
    server = Redis()
    try:
        for right in ["subscribe", "del", "scan"]:
            equal(answer_of(server, f"ACL SETUSER simba reset on >secret ~* &* +@all -{right}"), "+OK")
            program = run("bench", "--url", f"redis://simba:secret@127.0.0.1:{server.port}", "handover", *SMALL)
            equal((right, program.code, read(program.out)), (right, 77, ""))
            contains(program.said(), right)
            equal((right, answer_of(server, "DBSIZE")), (right, ":0"))
    finally:
        server.stop()


@case
def benches_on_one_database_do_not_hear_each_other():
    if not Postgres.exists():
        return
    server = Postgres()
    try:
        programs = [Simba("bench", "--json", "handover", "--url", server.url, "--count", "20", "--rounds", "1")
                    for _ in range(2)]
        for program in programs:
            equal((program.wait(), program.said()), (0, ""))
            true(json.loads(read(program.out))["questions"]["handover"]["measures"]["raw"]["min"] > 0,
                 "it was heard after it was said")
    finally:
        server.stop()


def contends(server):
    return answer_of(server, "EVAL \"return #redis.call('keys', '*contention*')\" 0") != ":0"


@case
def a_server_that_dies_meanwhile_is_unavailable():
    if not Redis.exists():
        return
    server = Redis()
    try:
        program = Simba("bench", "--json", "cycle", "contention", "--url", server.url + "&stop-timeout=1s",
                        "--count", "2", "--rounds", "1", "--contenders", "4", "--window", "3s")
        wait_until(lambda: contends(server), "it contends")
    finally:
        server.stop()
    equal(program.wait(), 69)
    equal(list(json.loads(read(program.out))["questions"]), ["cycle"])
    said = program.said().splitlines()
    contains(said[-1], "are left on the store")


# Makes a stranger the owner of the mutex of a cycle while nobody is; how many wait for him.
TAKE = """
local waiting = 0
for _, fence in ipairs(redis.call('keys', '*cycle-0}:fence')) do
    local mutex = string.sub(fence, 1, -7)
    redis.call('set', mutex, 'stranger', 'NX')
    waiting = waiting + redis.call('zcard', mutex .. ':contender')
end
return waiting""".replace("\n", " ")


def waits_for_a_stranger(server):
    return answer_of(server, f'EVAL "{TAKE}" 0') == ":1"


def holds(server):
    return answer_of(server, "EVAL \"return #redis.call('keys', '*many-*}')\" 0") == ":20"


@case
def nobody_waits_for_ever_for_a_server_that_was_killed():
    """One in the middle of an acquire, another while it holds."""
    if not Redis.exists():
        return
    server = Redis()
    try:
        url = server.url + "&stop-timeout=1s"
        programs = [Simba("bench", "cycle", "--url", url, "--count", "1000000"),
                    Simba("bench", "many", "--url", url, "--mutexes", "20", "--rounds", "100")]
        wait_until(lambda: waits_for_a_stranger(server), "the one waits")
        wait_until(lambda: holds(server), "the other holds")
        server.process.kill()
    finally:
        server.stop()
    for program in programs:
        equal(program.wait(), 69)
        contains(program.said().splitlines()[-1], "are left on the store")


@case
def contenders_whom_a_dead_server_never_answers_end_it_in_time():
    """When the first of so many processes owns, the others have hardly begun."""
    if not Redis.exists():
        return
    server = Redis()
    try:
        program = Simba("bench", "contention", "--url", server.url, "--contenders", "64", "--processes", "32")
        wait_until(lambda: contends(server), "the first one contends")
        server.process.kill()
    finally:
        server.stop()
    begin = now()
    equal(program.wait(), 69)
    true(now() - begin < 40, f"it took {now() - begin}")


@case
def turns_are_those_of_the_url():
    if not Redis.exists():
        return
    server = Redis()
    try:
        failover = ask("failover", "--url", server.url + "&turn=7ms", "--count", "2", "--rounds",
                       "1")["questions"]["failover"]["measures"]
        equal(failover["turn_after_lease"]["what"], "the same with turns of 7 ms")
    finally:
        server.stop()


if __name__ == "__main__":
    sys.exit(main())
