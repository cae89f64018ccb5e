#!/usr/bin/env python3
"""`simba dashboard` and those who are not to be trusted: clients, pages of other sites, users who were in its folder
before. What hostile names do to its page is in tests/cli/dashboard_test.py, which has a browser.
"""
import os
import socket
import sys
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))
from program import Simba, case, contains, equal, main, read, run, true, wait_until, write
from web import ask, port_of

HOSTILE = 65534
TOKEN = "0123456789abcdef"
STREAMS_MAX, CLIENTS = 16, 100
FORBIDDEN, UNAVAILABLE, REFUSED = 403, 503, 78


class Dashboard:
    def __init__(self, *options):
        self.options = options

    def __enter__(self):
        equal(run("lock", "m", "--", "true").code, 0)
        self.program = Simba("dashboard", "--listen", "0", "--interval", "100ms", *self.options)
        self.port = port_of(self.program)
        wait_until(lambda: self.health() == 200, "the store has answered")
        return self

    def __exit__(self, *unused):
        self.program.end()

    def health(self):
        return ask(self.port, "/healthz")[0]

    def client(self, text):
        client = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        client.sendall(text.encode())
        return client


# ---- Clients ---------------------------------------------------------------------------------

@case
def clients_that_ask_for_the_events_and_want_no_body_keep_nobody_out():
    with Dashboard() as page:
        clients = [page.client("HEAD /events HTTP/1.1\r\nHost: localhost\r\n\r\n") for _ in range(CLIENTS)]
        for client in clients:
            contains(client.recv(4000).decode(), " 200 OK\r\n")
        for _ in range(20):
            equal(page.health(), 200)
        for client in clients:
            client.close()


@case
def pages_that_are_too_many_are_refused_and_the_others_are_told_on():
    with Dashboard() as page:
        pages = [page.client("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n") for _ in range(STREAMS_MAX)]
        for client in pages:
            contains(client.recv(4000).decode(), " 200 OK\r\n")
        equal(ask(page.port, "/events")[0], UNAVAILABLE)
        clients = [page.client("GET /slow") for _ in range(CLIENTS)]
        equal(page.health(), 200)
        equal(run("lock", "news", "--", "true").code, 0)
        for client in pages:
            wait_until(lambda: b"news" in client.recv(65536), "a page is told")
        for client in pages + clients:
            client.close()


@case
def a_page_of_another_site_neither_reads_nor_acts():
    write("token", TOKEN + "\n")
    os.chmod("token", 0o600)
    with Dashboard("--allow-handover", "token") as page:
        owner = Simba("lock", "m", "--", "sleep", "100")
        wait_until(lambda: "held" in read(run("status", "--json").out), "it owns")
        release = "/release?mutex=m&owner=x&fence=1"
        # Its name leads to the loopback address now.
        for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil", "localhostx", "0.0.0.0", ""):
            equal(ask(page.port, "/", headers={"Host": host})[0], FORBIDDEN)
            equal(ask(page.port, release, "POST", headers={"Host": host, "X-Simba-Token": TOKEN})[0], FORBIDDEN)
        # A browser asks before it sends the header, and sends none of it with a form.
        status, _ = ask(page.port, release, "OPTIONS", headers={"Origin": "http://evil.example"})
        equal(status, 405)
        for token in ({}, {"X-Simba-Token": ""}, {"X-Simba-Token": TOKEN[:-1]}, {"X-Simba-Token": TOKEN + "x"}):
            equal(ask(page.port, release, "POST", "token=" + TOKEN, token)[0], FORBIDDEN)
        equal(ask(page.port, "/release?mutex=m&owner=x&fence=1&token=" + TOKEN, "POST")[0], FORBIDDEN)
        equal(ask(page.port, release + "1", "POST", headers={"X-Simba-Token": TOKEN})[0], 202)
        wait_until(lambda: "asked for by 127.0.0.1, failed" in page.program.said(), "it is told who asked")
        true(TOKEN not in page.program.said(), page.program.said())
        equal(owner.end(), 143)


# ---- Users of the same machine ---------------------------------------------------------------

def history(path):
    program = run("dashboard", "--listen", "0", "--history", path)
    equal(program.code, REFUSED)
    return program.said()


@case
def no_file_is_the_history_that_another_user_could_have_placed_there():
    os.mkdir("shared")
    os.chmod("shared", 0o1777)
    os.mkfifo("shared/fifo")
    os.symlink("/etc/passwd", "shared/link")
    write("shared/own", "")
    write("shared/target", "")
    os.chmod("shared/own", 0o666)
    os.chmod("shared/target", 0o600)
    os.link("shared/target", "shared/second")
    os.mkdir("home")
    os.symlink("/etc", "home/link")
    for path in ("fifo", "own", "second"):
        contains(history("shared/" + path), "another user may write it")
    contains(history("shared/link"), "cannot be used")
    contains(history("/dev/zero"), "another user may write it")
    if os.getuid() == 0:
        os.chmod("shared/own", 0o644)
        for path in ("shared/own", "home"):
            os.chown(path, HOSTILE, HOSTILE)
        os.lchown("home/link", HOSTILE, HOSTILE)
        contains(history("shared/own"), "another user may write it")
        for path in ("home/hour", "home/link/simba-hour"):
            contains(history(path), "belongs to user 65534")
    equal(read("shared/target"), "")
    true(not os.path.exists("home/hour") and not os.path.exists("/etc/simba-hour"), "a file was made")
    with Dashboard("--history", "shared/hour"):
        wait_until(lambda: "seen\t" in read("shared/hour"), "it is written")
        equal(os.stat("shared/hour").st_mode & 0o777, 0o600)


@case
def a_history_that_is_written_anew_follows_no_link():
    line = f"term\t{int(time.time() * 1000) - 1000}\t{int(time.time() * 1000)}\t0\t1\tsomebody\t{'m' * 200}\n"
    write("hour", line * ((16 << 20) // len(line) + 1))
    os.chmod("hour", 0o600)
    write("target", "untouched")
    os.link("target", "hour.new")
    with Dashboard("--history", "hour"):
        run("lock", "m", "--", "sleep", "0.5")
        wait_until(lambda: os.stat("hour").st_size < 16 << 20, "it is written anew")
    equal(read("target"), "untouched")


sys.exit(main())
