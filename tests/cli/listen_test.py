#!/usr/bin/env python3
"""`--listen` of `simba lead` and `simba schedule`, and `simba lock --metrics-file`."""
import os
import signal
import socket
import sys
import time

from program import (LEASE, Blocked, Simba, case, contains, equal, is_alive, main, number, read, run, steal, true, url,
                     wait_until)
from web import Attack, Polled, ask, ask_json, check_metrics, metric, port_of, renewals_in


def lead(identity, *options, script="echo $$ >pid; exec sleep 1000", **more):
    return Simba("--exact-id", identity, "lead", "--listen", "0", *options, "m", "--", "bash", "-c", script, **more)


def leads(port):
    return ask(port, "/leader")[0] == 200


@case
def all_endpoints_tell_who_leads_and_what_is_counted():
    first = lead("a")
    one = port_of(first)
    wait_until(lambda: leads(one))
    second = lead('b "x"')
    two = port_of(second)
    wait_until(lambda: ask_json(two, "/leader")[1].get("owner") == "a")
    status, told = ask_json(two, "/leader")
    equal((status, told["leader"], told["mutex"], told["id"], told["fence"]), (503, False, "m", 'b "x"', None))
    status, told = ask_json(one, "/leader")
    equal((status, told["leader"], told["owner"]), (200, True, "a"))
    true(told["fence"] > 0 and 0 < told["lease_left_ms"] <= LEASE * 1000, told)
    for port, owner in [(one, 1), (two, 0)]:
        equal(ask(port, "/healthz"), (200, "ok\n"))
        equal(ask(port, "/readyz")[0], 200)
        text = ask(port, "/metrics")[1]
        equal(metric(text, 'simba_is_owner{mutex="m"}'), owner)
        equal(metric(text, "simba_acquisitions_total"), owner)
        equal(metric(text, "simba_store_up"), 1)
        equal(check_metrics(text), (0, ""))
    equal(metric(ask(one, "/metrics")[1], 'simba_fence{mutex="m"}'), told["fence"])
    wait_until(lambda: metric(ask(one, "/metrics")[1], "simba_renewals_total") > 2)
    equal(ask(one, "/leader", "HEAD"), (200, ""))
    equal(ask(one, "/leader", "POST", "x")[0], 405)
    equal(ask(one, "/leader", "DELETE")[0], 405)
    equal(ask(one, "/nothing")[0], 404)
    equal(first.end(), 0)
    wait_until(lambda: leads(two))
    equal(second.end(), 0)


@case
def openmetrics_is_what_a_client_gets_that_asks_for_it():
    program = lead("a")
    port = port_of(program)
    wait_until(lambda: leads(port))
    text = ask(port, "/metrics", headers={"Accept": "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"})[1]
    true(text.endswith("\n# EOF\n") and text.count("# EOF") == 1, text[-200:])
    contains(text, "# TYPE simba_acquisitions counter\nsimba_acquisitions_total 1\n")
    contains(text, "# TYPE simba_command_restarts counter\nsimba_command_restarts_total 0\n")
    equal(program.end(), 0)


@case
def a_leader_that_stood_still_says_no_with_its_first_answer():
    first = lead("a")
    one = port_of(first)
    wait_until(lambda: leads(one))
    second = lead("b")
    two = port_of(second)
    wait_until(lambda: ask_json(two, "/leader")[1].get("owner") == "a")
    first.stop()
    with socket.create_connection(("127.0.0.1", one)) as waiting:
        waiting.sendall(b"GET /leader HTTP/1.0\r\n\r\n")
        wait_until(lambda: leads(two))
        first.send(signal.SIGCONT)
        contains(waiting.recv(100).decode(), " 503 ")
    equal(leads(two), True)
    equal(second.end(), 0)
    equal(first.end(), 0)


@case
def of_two_contenders_only_the_later_one_says_yes():
    """Beside hostile clients, while owners stand still for longer than the lease, or hand over."""
    programs = [lead("a"), lead("b")]
    ports = [port_of(program) for program in programs]
    polled = [Polled(port, "/leader") for port in ports]
    with Attack(ports[0]), Attack(ports[1]):
        for one in polled:
            one.start()
        for _ in range(3):
            place = wait_until(lambda: next((place + 1 for place in (0, 1) if leads_now(polled[place])), None)) - 1
            programs[place].stop()
            wait_until(lambda: leads_now(polled[1 - place]))
            programs[place].send(signal.SIGCONT)
            seen = len(polled[place].answers)
            wait_until(lambda: len(polled[place].answers) > seen + 1)
        equal(run("handover", "m").code, 0)
    yes = [answer for one in polled for answer in one.end() if answer[2] == 200]
    for begun, _, _, told in yes:
        before = [one[3]["fence"] for one in yes if one[1] < begun]
        true(told["fence"] >= max(before, default=0), f"a yes with token {told['fence']} came after {max(before, default=0)}")
    true(len({told["fence"] for *_, told in yes}) >= 4, "there were several terms")
    for program in programs:
        equal(program.end(), 0)


def leads_now(polled):
    """By the last answer."""
    return polled.answers[-1:] and polled.answers[-1][2] == 200


@case
def hostile_clients_disturb_no_renewal():
    """The lease is long, so that a busy machine alone makes no renewal late by a second."""
    transition, margin = 3, 0.05
    program = lead("a", env={"SIMBA_URL": url(ttl="1s", transition="3s")})
    port = port_of(program)
    wait_until(lambda: leads(port))
    fence = ask_json(port, "/leader")[1]["fence"]
    polled = Polled(port, "/leader")
    with Attack(port) as attack:
        polled.start()
        wait_until(lambda: len(polled.answers) > 100 and renewals_in(polled.answers) >= 4)
        true(len(os.listdir(f"/proc/{program.pid}/fd")) < 200, "it keeps all of them")
    answers = polled.end()
    equal({(status, told["fence"]) for _, _, status, told in answers}, {(200, fence)})
    late = transition - margin - min(told["lease_left_ms"] for *_, told in answers) / 1000
    print(f"# {len(answers)} answers, {polled.refused} refused, {attack.opened} hostile connections; a renewal was answered {late:.3f} s late")
    true(late < 1, f"a renewal was {late:.1f} s late")
    text = ask(port, "/metrics")[1]
    equal(sum(metric(text, f'simba_losses_total{{reason="{why}"}}') for why in
              ("not_renewed", "session_over", "same_id", "taken", "no_lease", "at_release")), 0)
    equal(program.end(), 0)


@case
def a_store_that_is_away_for_longer_than_a_lease_is_no_health():
    program = lead("a")
    port = port_of(program)
    wait_until(lambda: leads(port))
    with Blocked():
        wait_until(lambda: ask(port, "/healthz")[0] == 503)
        contains(ask(port, "/healthz")[1], "the store has not served for longer than a lease")
        equal(leads(port), False)
        text = ask(port, "/metrics")[1]
        equal(metric(text, "simba_store_up"), 0)
        equal(metric(text, 'simba_losses_total{reason="not_renewed"}'), 1)
        true(metric(text, "simba_renewal_failures_total") > 0, text)
    wait_until(lambda: ask(port, "/healthz")[0] == 200)
    wait_until(lambda: leads(port))
    equal(program.end(), 0)


@case
def before_the_store_is_reached_nothing_is_well():
    program = Simba("-u", "redis://127.0.0.1:1", "lead", "--listen", "0", "m", "--", "true")
    port = port_of(program)
    for path in ("/healthz", "/readyz", "/leader"):
        equal(ask(port, path)[0], 503)
    equal(ask(port, "/metrics")[0], 404)
    equal(program.end(), 0)


@case
def losses_are_counted_by_their_reason():
    program = lead("a")
    port = port_of(program)
    wait_until(lambda: leads(port))
    steal()
    wait_until(lambda: metric(ask(port, "/metrics")[1], 'simba_losses_total{reason="taken"}') == 1)
    program.end()


@case
def restarts_and_successful_runs_are_counted():
    program = lead("a", "--restart-delay", "10ms", "--restart-delay-max", "20ms", "--yield-after", "0",
                   script="echo x >>ran; exit 1")
    port = port_of(program)
    wait_until(lambda: (metric(ask(port, "/metrics")[1], "simba_command_restarts_total") or 0) >= 2)
    equal(program.end(), 0)
    begun = time.time()
    program = Simba("schedule", "--listen", "0", "--every", "100ms", "n", "--", "true")
    port = port_of(program)
    name = "simba_schedule_last_success_timestamp_seconds"
    wait_until(lambda: metric(ask(port, "/metrics")[1], name) or ask(port, "/metrics")[0] == 404 and None)
    true(abs(metric(ask(port, "/metrics")[1], name) - begun) < 60, begun)
    equal(metric(ask(port, "/metrics")[1], "simba_command_restarts_total"), None)
    equal(program.end(), 0)


@case
def a_killed_leader_listens_no_more():
    """Its guardian must not keep the socket."""
    program = lead("a")
    port = port_of(program)
    command = number("pid")
    program.end(signal.SIGKILL)

    def refused():
        try:
            socket.create_connection(("127.0.0.1", port), timeout=30).close()
            return False
        except ConnectionRefusedError:
            return True
    wait_until(refused)
    wait_until(lambda: not is_alive(command))


@case
def it_listens_at_a_unix_socket_and_replaces_one_that_was_left_behind():
    path = os.path.abspath("socket")

    def answer():
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            client.sendall(b"GET /leader HTTP/1.0\r\n\r\n")
            return client.recv(100).decode()
    for number_of in (signal.SIGKILL, signal.SIGTERM):
        program = lead("a", "--listen", "unix:" + path)
        wait_until(lambda: "leading" in program.said())
        contains(program.said(), f"listening on unix:{path}")
        contains(answer(), " 200 ")
        if number_of == signal.SIGKILL:
            other = run("lead", "--listen", "unix:" + path, "m", "--", "true")
            equal(other.code, 78)
            contains(other.said(), "Address already in use")
        program.end(number_of)
    equal(os.path.exists(path), False)


@case
def addresses_that_are_none_are_refused():
    for text in ("", "x", "1.2.3.4", "host.example.org:80", "::1:80", "127.0.0.1:99999", "unix:", "unix:" + "x" * 200):
        program = run("lead", "--listen", text, "m", "--", "true")
        equal((text, program.code), (text, 64))
        contains(program.said(), "use PORT, ADDRESS:PORT, [ADDRESS]:PORT or unix:PATH")


@case
def a_lock_writes_a_file_for_node_exporter():
    program = run("lock", "--metrics-file", "m.prom", 'a"b', "--", "bash", "-c", "cp m.prom meanwhile; exit 3")
    equal(program.code, 3)
    equal(metric(read("meanwhile"), 'simba_lock_running{mutex="a\\"b"}'), 1)
    equal(metric(read("m.prom"), 'simba_lock_running{mutex="a\\"b"}'), 0)
    equal(metric(read("m.prom"), 'simba_lock_exit_code{mutex="a\\"b"}'), 3)
    equal(check_metrics(read("m.prom")), (0, ""))
    equal([name for name in os.listdir() if "prom" in name], ["m.prom"])
    program = run("lock", "--metrics-file", "no/folder/m.prom", "m", "--", "true")
    equal(program.code, 0)
    contains(program.said(), "warning: 'no/folder/m.prom' was not written")


sys.exit(main())
