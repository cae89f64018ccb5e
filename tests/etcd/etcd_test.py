#!/usr/bin/env python3
"""The etcd store on real servers: the kit, and failures of servers, leases, watches and logins.

    etcd_test.py kit | failures LATE_LOOP_TEST CLIENT TURNS | cluster
"""
import base64
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading

from stage import HOLD, LONG, Running, etcdctl, keys, kill, main, mode, url  # which adds the folders of the others
import servers
from clock import PATIENCE
from cuts import Relay
from program import PROGRAM, Simba, contains, equal, is_alive, now, number, read, run, true, wait_until, write


# ---- The kit -------------------------------------------------------------------------------------


@mode("kit", "cluster")
def the_kit_passes():
    processes = [] if Running.members else ["--processes", "3"]
    subprocess.run([PROGRAM, "tck", *processes], check=True, timeout=PATIENCE * 4)


# ---- Leases --------------------------------------------------------------------------------------


@mode("failures")
def a_lease_that_was_revoked_ends_the_term():
    holder = Simba("--ttl", "1s", "--transition", "2s", "lock", "m", "--", *HOLD)
    command = number("pid")
    lease = keys()[0].rpartition("/")[2]
    Running.server.ctl("lease", "revoke", lease)
    equal(holder.wait(), 70)
    true(not is_alive(command), "the command goes on")


@mode("failures")
def a_key_that_was_deleted_ends_the_term():
    holder = Simba("--ttl", "1s", "--transition", "2s", "lock", "m", "--", *HOLD)
    number("pid")
    Running.server.ctl("del", keys()[0])
    equal(holder.wait(), 70)


@mode("failures")
def a_process_that_stood_still_until_its_lease_ended_owns_no_more():
    first = Simba("--ttl", "400ms", "--transition", "600ms", "lock", "m", "--", *HOLD)
    number("pid")
    first.send(signal.SIGSTOP)
    equal(run("lock", "-w", "20s", "m", "--", "true").code, 0)
    first.send(signal.SIGCONT)
    equal(first.wait(), 70)


@mode("failures")
def an_answer_that_came_while_the_loop_did_not_run_is_read():
    address = url("?command-timeout=200ms")
    done = subprocess.run([sys.argv[2], address], check=False, capture_output=True, text=True, timeout=PATIENCE * 2)
    equal((done.returncode, done.stdout if done.returncode else ""), (0, ""))


@mode("failures")
def two_contenders_of_one_client_have_keys_of_their_own():
    """The kit's contests would hang otherwise; here the keys are counted."""
    contest = Simba(*LONG, "lead", "m", "--", *HOLD)
    number("pid")
    other = Simba(*LONG, "lead", "m", "--", "true")
    wait_until(lambda: len(keys()) == 2, "both have a key")
    equal(len({key.rpartition("/")[2] for key in keys()}), 2)
    equal(other.end(), 0)
    wait_until(lambda: len(keys()) == 1, "the waiter's key goes")
    equal(contest.end(), 0)
    wait_until(lambda: not keys(), "nothing stays")


# ---- Connections ---------------------------------------------------------------------------------


class Counting(Relay):
    """Knows how often it was connected to."""

    def __init__(self):
        self.accepted = 0
        super().__init__(Running.server.port)

    def accept(self):
        self.accepted += 1
        super().accept()


@mode("failures")
def a_key_that_is_made_anew_while_its_watch_begins_is_not_taken_for_the_one_before():
    """A wake-up that is lost costs a lease."""
    begin = now()
    subprocess.run([sys.argv[4], url("?ttl=20s&transition=20s"), "200"], check=True, timeout=PATIENCE * 4)
    true(now() - begin < 20, f"it took {now() - begin}")


@mode("failures")
def a_client_asks_its_first_question_on_the_connection_that_it_keeps():
    relay = Counting()
    equal(run("-u", url(port=relay.port), "lock", "m", "--", "true").code, 0)
    equal(relay.accepted, 1)
    relay.stop()


@mode("failures")
def a_client_owns_more_mutexes_than_may_join_queues_at_a_time():
    done = run("bench", "many", "--mutexes", "2000", "--rounds", "1", "--ttl", "2s", "--transition", "20s", "--json")
    equal(done.code, 0)
    numbers = json.loads(read(done.out))["questions"]["many"]["numbers"]
    equal((numbers["mutexes"], numbers["lost"], numbers["connections"]), (2000, 0, 1))


class Encrypted(servers.Etcd):
    """It wants a certificate of its clients, too."""

    def endpoint(self):
        return super().endpoint().replace("http:", "https:")

    def ctl(self, *arguments, told=""):
        files = zip(("cacert", "cert", "key"), ("ca.pem", "client.pem", "client.key"))
        return super().ctl(*(f"--{what}={os.path.abspath(file)}" for what, file in files), *arguments, told=told)


def certify(name, *more):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
                    "2", "-subj", "/CN=" + name, "-keyout", name + ".key", "-out", name + ".pem", *more],
                   check=True, stderr=subprocess.DEVNULL)


@mode("failures")
def servers_and_clients_prove_who_they_are_by_certificates():
    certify("ca")
    for name in ("server", "client"):
        certify(name, "-CA", "ca.pem", "-CAkey", "ca.key", "-addext", "subjectAltName=IP:127.0.0.1")
    server = Encrypted()
    files = zip(("cert", "key", "trusted-ca"), ("server.pem", "server.key", "ca.pem"))
    server.more = ("--client-cert-auth", *(f"--{what}-file={os.path.abspath(file)}" for what, file in files))
    server.start()
    known, proof = "tls-ca=ca.pem", "tls-cert=client.pem&tls-key=client.key"
    for options, code, words in ((f"{known}&{proof}", 0, ""), (f"tls-verify=no&{proof}", 0, ""),
                                 (proof, 69, "has a certificate that is not trusted"),
                                 (known, 77, "(tls-cert, tls-key)"),
                                 (f"{known}&{proof}&tls-server-name=other", 69, "is not trusted")):
        done = run("-u", f"etcds://127.0.0.1:{server.port}/tests?{options}", "lock", "m", "--", "true")
        true(done.code == code and words in done.said(), f"{options}: {done.code}, {done.said()}")
    server.stop()


# ---- Lost replies --------------------------------------------------------------------------------


class Lossy(Relay):
    """From when it is told on, the server gets everything, and nothing of what it says arrives: until `mend`, which
    breaks the connection."""

    def __init__(self):
        self.word = None  # of the client, from which on replies are lost
        self.losing = False
        super().__init__(Running.server.port)

    def passes(self, data, to_server):
        self.losing |= to_server and self.word is not None and self.word in data
        return to_server or not self.losing

    def mend(self):
        with self.lock:
            self.word, self.losing = None, False
        self.reset()


def created():
    """{key: its creation}, as the server tells it."""
    told = json.loads(Running.server.ctl("get", "--prefix", "tests/", "-w", "json"))
    return {base64.b64decode(one["key"]).decode(): one["create_revision"] for one in told.get("kvs", [])}


def through(relay, *arguments):
    return Simba("-u", url(port=relay.port), *LONG, *arguments)


@mode("failures")
def a_creation_whose_reply_was_lost_is_repeated_and_finds_its_own_key():
    """Another waits behind it meanwhile, and would own if the key went."""
    relay = Lossy()
    relay.word = b"tests/m/"
    holder = through(relay, "lock", "m", "--", *HOLD)
    wait_until(lambda: len(keys()) == 1, "the server has made the key")
    before = created()
    waiter = Simba(*LONG, "lock", "m", "--", "touch", "overtaken")
    wait_until(lambda: len(keys()) == 2, "another waits")
    relay.mend()
    number("pid")
    equal({key: revision for key, revision in created().items() if key in before}, before)
    true(not os.path.exists("overtaken"), "the other has owned")
    equal(holder.end(), 128 + signal.SIGTERM)
    equal(waiter.wait(), 0)
    wait_until(lambda: not keys(), "nothing stays")
    relay.stop()


@mode("failures")
def a_release_whose_reply_was_lost_is_one():
    relay = Lossy()
    holder = through(relay, "lock", "m", "--", "sh", "-c", "touch ready; until test -e enough; do sleep 0.02; done")
    wait_until(lambda: os.path.exists("ready"), "it holds")
    relay.losing = True
    write("enough", "")
    wait_until(lambda: not keys(), "the server has deleted the key")
    true(holder.process.poll() is None, holder.said())
    relay.mend()
    equal(holder.wait(), 0)
    relay.stop()


class Client:
    """Of client.c, through a relay."""

    def __init__(self, relay):
        self.process = subprocess.Popen([sys.argv[3], url(port=relay.port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, bufsize=1)

    def tell(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")

    def answer(self):
        """The code, the token, whether the release was missed, and the owner."""
        code, token, missed, owner_id = self.process.stdout.readline().rstrip("\n").split(" ", 3)
        return int(code), int(token), missed == "1", owner_id

    def ask(self, *words):
        self.tell(*words)
        return self.answer()

    def acquire(self):
        """The token."""
        self.settle()
        code, token, _, owner_id = self.ask("acquire", "a")
        equal((code, owner_id), (0, "a"))
        return token

    def settle(self):
        """There is a connection again, and what was left to do on it has been done."""
        wait_until(lambda: self.ask("read", "nobody")[0] == 0, "it is connected")
        equal(self.ask("read", "a")[0], 0)

    def end(self):
        self.process.stdin.close()
        equal(self.process.wait(PATIENCE), 0)
        self.process.stdout.close()


def fails(answer):
    true(answer[0] != 0, f"it was answered: {answer}")


@mode("failures")
def a_release_that_was_carried_out_without_an_answer_is_not_lost_when_it_is_repeated():
    """The client looks after the key as soon as it has a connection, before it is asked again."""
    relay = Lossy()
    client = Client(relay)
    token = client.acquire()
    relay.losing = True
    client.tell("release", "a", token)
    wait_until(lambda: not keys(), "the server has deleted the key")
    relay.mend()
    fails(client.answer())
    client.settle()
    equal(client.ask("release", "a", token), (0, 0, False, ""))
    client.end()
    relay.stop()


@mode("failures")
def a_release_that_did_not_get_through_is_not_lost_when_it_is_repeated():
    relay = Relay(Running.server.port)
    client = Client(relay)
    token = client.acquire()
    relay.stop()
    fails(client.ask("release", "a", token))
    relay = Relay(Running.server.port, relay.port)
    client.settle()
    wait_until(lambda: not keys(), "the client has deleted the key")
    equal(client.ask("read", "a")[0], 0)
    equal(client.ask("release", "a", token), (0, 0, False, ""))
    client.end()
    relay.stop()


@mode("failures")
def a_release_that_is_repeated_is_lost_when_the_key_was_deleted_by_force():
    relay = Relay(Running.server.port)
    client = Client(relay)
    token = client.acquire()
    Running.server.ctl("del", keys()[0])
    for _ in range(2):
        equal(client.ask("release", "a", token), (0, 0, True, ""))
    client.end()
    relay.stop()


# ---- Requests that are carried out late ----------------------------------------------------------


class Late(Lossy):
    """From when it is told to `keep` on, a connection whose client names a key stands still: what is said on it is for
    the server when `deliver` is told, also when the client has given that connection up."""

    def __init__(self):
        self.keeps = False
        self.kept = {}  # {the server's end: what it is to be told}
        super().__init__()

    def keep(self):
        self.keeps = True

    def pass_on(self, end):
        server = self.to_server.get(end)
        if end not in self.clients or not self.keeps:
            super().pass_on(end)
            return
        data = end.recv(65536)
        if server in self.kept or b"tests/m/" in data:
            self.kept[server] = self.kept.get(server, b"") + data
        else:
            server.sendall(data)

    def abandon(self):
        """Waits until something is kept, and closes the client's ends; the server's stay. Later connections work."""
        wait_until(lambda: self.kept, "it has something for the server")
        with self.lock:
            self.keeps = False
            for end in list(self.clients):
                self.clients.discard(end)
                del self.to_server[self.to_server.pop(end)]
                end.close()

    def deliver(self):
        """Returns when the server has answered."""
        (end, data), = self.kept.items()
        end.settimeout(PATIENCE)
        end.sendall(data)
        told = b""
        while not ends_a_call(told):
            told += end.recv(65536)
        end.close()


def ends_a_call(told):
    """Whether there are trailers in it, which are compressed: headers that end a stream."""
    while len(told) >= 9:
        length = int.from_bytes(told[:3], "big")
        if told[3] == 1 and told[4] & 1:
            return True
        told = told[9 + length:]
    return False


def late_relay():
    relay = Late()
    return relay, Client(relay)


def owns_after_delivery(relay, client):
    """What is carried out late leaves the key of the term that has begun meanwhile."""
    token = client.acquire()
    before = created()
    relay.deliver()
    equal(created(), before)
    equal(client.ask("guard", "a", token), (0, token, False, "a"))
    equal(client.ask("release", "a", token), (0, 0, False, ""))
    client.end()
    relay.stop()


def create_without_an_answer(relay, client):
    """The client does not know that the key is there."""
    relay.word = b"tests/m/"
    client.tell("acquire", "a")
    wait_until(keys, "the server has made the key")
    relay.mend()
    fails(client.answer())


@mode("failures")
def a_release_that_is_carried_out_late_leaves_the_next_term():
    relay, client = late_relay()
    token = client.acquire()
    relay.keep()
    client.tell("release", "a", token)
    relay.abandon()
    fails(client.answer())
    owns_after_delivery(relay, client)


@mode("failures")
def a_release_of_a_key_that_may_be_there_leaves_the_next_term_when_it_is_carried_out_late():
    relay, client = late_relay()
    create_without_an_answer(relay, client)
    relay.keep()
    client.tell("release", "a", 0)
    relay.abandon()
    fails(client.answer())
    owns_after_delivery(relay, client)


@mode("failures")
def the_search_for_a_key_that_may_come_late_leaves_the_next_term():
    """A creation without an answer may be carried out again: so the client looks for the key when its term is over, too."""
    relay, client = late_relay()
    create_without_an_answer(relay, client)
    equal(client.ask("release", "a", client.acquire()), (0, 0, False, ""))
    relay.keep()
    relay.abandon()
    owns_after_delivery(relay, client)


@mode("failures")
def a_creation_that_is_carried_out_late_goes_again():
    relay, client = late_relay()
    relay.keep()
    client.tell("acquire", "a")
    relay.abandon()
    fails(client.answer())
    token = client.acquire()
    begin = now()
    wait_until(lambda: now() > begin + 1)  # a search that is due while it owns is made up for
    equal(client.ask("release", "a", token), (0, 0, False, ""))
    relay.deliver()
    wait_until(keys, "the server has made the key")
    begin = now()
    wait_until(lambda: not keys(), "the client has deleted it")
    true(now() - begin < 10, f"it took {now() - begin}")  # it looks every 2 s, and a lease lasts 30 s
    client.end()
    relay.stop()


# ---- What Jepsen found of locks on etcd ----------------------------------------------------------


@mode("failures")
def jepsen_a_waiter_whose_lease_ended_while_it_stood_still_does_not_win_with_the_key_before_it():
    """The client library of that time watched the key before its own only: when that went, it believed."""
    first = etcdctl("lock", "tests/m")
    contains(first.stdout.readline(), "tests/m/")
    waiter = Simba("--ttl", "400ms", "--transition", "600ms", "lock", "m", "--", "touch", "believed")
    wait_until(lambda: len(keys()) == 2, "it waits")
    waiter.send(signal.SIGSTOP)
    wait_until(lambda: len(keys()) == 1, "its lease ends")
    second = etcdctl("lock", "tests/m")
    wait_until(lambda: len(keys()) == 2, "another waits")
    first.send_signal(signal.SIGINT)
    first.communicate()
    contains(second.stdout.readline(), "tests/m/")
    waiter.send(signal.SIGCONT)
    wait_until(lambda: len(keys()) == 2, "it waits again, behind the other")
    true(not os.path.exists("believed"), "it believes without a key")
    second.send_signal(signal.SIGINT)
    second.communicate()
    equal(waiter.wait(), 0)


@mode("failures")
def jepsen_a_waiter_whose_lease_was_revoked_asks_for_its_own_key_when_the_one_before_it_goes():
    """The two deletions are one after the other, so their events come together."""
    first = etcdctl("lock", "tests/m")
    contains(first.stdout.readline(), "tests/m/")
    waiter = Simba(*LONG, "lock", "m", "--", "sh", "-c", "echo $SIMBA_FENCE >token")
    wait_until(lambda: len(keys()) == 2, "it waits")
    leases = [key.rpartition("/")[2] for key in sorted(keys(), key=created().get)]
    waiter.send(signal.SIGSTOP)
    for lease in reversed(leases):
        Running.server.ctl("lease", "revoke", lease)
    second = etcdctl("lock", "tests/m")
    key = second.stdout.readline().strip()
    since = created()[key]
    waiter.send(signal.SIGCONT)
    wait_until(lambda: len(keys()) == 2, "it waits again, behind the other")
    true(not os.path.exists("token"), "it believes without a key")
    for one in (first, second):
        one.send_signal(signal.SIGINT)
        one.communicate()
    equal(waiter.wait(), 0)
    true(number("token") > since, "its token is of the term behind the other's")


@mode("failures")
def jepsen_a_lock_that_was_lost_is_noticed_before_another_owns():
    """The command ends by the clock of its host, while nothing is heard of the store."""
    relay = Relay(Running.server.port)
    holder = Simba("-u", url(port=relay.port), "--ttl", "1s", "--transition", "2s", "lock", "m", "--", *HOLD)
    command = number("pid")
    relay.block(True)
    other = run("lock", "-w", "30s", "m", "--", "sh", "-c", f"kill -0 {command} 2>/dev/null && touch both; true")
    equal((other.code, os.path.exists("both")), (0, False))
    equal(holder.wait(), 70)
    relay.stop()


# ---- Watches -------------------------------------------------------------------------------------


@mode("failures")
def a_watch_whose_revision_was_compacted_still_wakes():
    holder = etcdctl("lock", "tests/m")
    contains(holder.stdout.readline(), "tests/m/")
    relay = Relay(Running.server.port)
    waiter = Simba("-u", url(port=relay.port), *LONG, "lock", "m", "--", "true")
    wait_until(lambda: len(keys()) == 2, "it waits")
    relay.stop()
    holder.send_signal(signal.SIGINT)
    holder.communicate()
    wait_until(lambda: len(keys()) == 1, "the owner has gone")
    for _ in range(3):
        Running.server.ctl("put", "other", "x")
    revision = json.loads(Running.server.ctl("get", "other", "-w", "json"))["header"]["revision"]
    Running.server.ctl("compaction", str(revision))
    relay = Relay(Running.server.port, relay.port)
    equal(waiter.wait(), 0)
    relay.stop()


# ---- The server ----------------------------------------------------------------------------------


@contextlib.contextmanager
def logins(*more):
    """A server that wants a login, and a URL that has one."""
    server = servers.Etcd()
    server.more = more
    server.start()
    for words in ("user add root:r1ght", "user grant-role root root", "auth enable"):
        server.ctl(*words.split())
    yield server, f"etcd://root:r1ght@127.0.0.1:{server.port}/tests"
    server.stop()


def contender(address, *command):
    return Simba("-u", address, "--log-level", "debug", *LONG, "lock", "m", "--", *command)


def owns_soon(waiter):
    begin = now()
    equal(waiter.wait(), 0)
    true(now() - begin < 5, f"it was not woken, it took {now() - begin}")


@mode("failures")
def a_waiter_hears_of_a_release_after_the_server_has_forgotten_its_login():
    with logins() as (server, address):
        holder = contender(address, *HOLD)
        number("pid")
        waiter = contender(address, "true")
        wait_until(lambda: "held by" in waiter.said(), "it waits")
        kill(server)
        server.launch()
        server.await_service()
        wait_until(lambda: "logs in again" in waiter.said(), "its watch was refused")
        equal(holder.end(), 128 + signal.SIGTERM)
        owns_soon(waiter)


@mode("failures")
def a_waiter_that_changes_its_watch_after_its_token_has_expired_hears_of_a_release():
    with logins("--auth-token-ttl", "1") as (_, address):
        holder = contender(address, *HOLD)
        number("pid")
        between = contender(address, "true")
        wait_until(lambda: "held by" in between.said(), "it waits")
        waiter = contender(address, "true")
        wait_until(lambda: "held by" in waiter.said(), "it waits")
        begin = now()
        wait_until(lambda: now() > begin + 3)
        between.end()
        wait_until(lambda: "logs in again" in waiter.said(), "its next watch was refused")
        equal(holder.end(), 128 + signal.SIGTERM)
        owns_soon(waiter)


class Counted(Relay):
    """Knows how much the client has sent."""
    messages = 0

    def passes(self, _data, to_server):
        self.messages += to_server
        return True


@mode("failures")
def a_key_before_mine_that_another_program_has_named_is_watched():
    lease = Running.server.ctl("lease", "grant", "60").split()[1]
    Running.server.ctl("put", "--lease=" + lease, "tests/m/host-17", "x")
    relay = Counted(Running.server.port)
    waiter = Simba("-u", url(port=relay.port), *LONG, "lock", "m", "--", "true")
    wait_until(lambda: "held by x" in waiter.said(), "it waits")
    sent = relay.messages
    begin = now()
    wait_until(lambda: now() > begin + 1)
    true(relay.messages - sent < 20, f"it sent {relay.messages - sent} messages in a second")
    Running.server.ctl("del", "tests/m/host-17")
    owns_soon(waiter)
    relay.stop()


@mode("failures")
def a_waiter_that_stops_while_it_connects_anew_leaves_no_key():
    holder = Simba(*LONG, "lock", "m", "--", *HOLD)
    number("pid")
    for late in (0, 0.001, 0.003, 0.01, 0.03, 0.1):
        relay = Relay(Running.server.port)
        waiter = Simba("-u", url(port=relay.port), *LONG, "lock", "m", "--", "true")
        wait_until(lambda: len(keys()) == 2, "it waits")
        relay.reset()
        begin = now()
        wait_until(lambda at=begin + late: now() >= at)
        equal(waiter.end(), 128 + signal.SIGTERM)
        wait_until(lambda: len(keys()) == 1, "its key goes")
        relay.stop()
    equal(holder.end(), 128 + signal.SIGTERM)


@mode("failures")
def a_waiter_whose_server_falls_silent_ends_in_order():
    holder = Simba(*LONG, "lock", "m", "--", *HOLD)
    number("pid")
    for broken in (False, True):
        relay = Relay(Running.server.port)
        waiter = Simba("-u", url("?ttl=300ms&transition=700ms", port=relay.port), "lock", "-w", "2s", "m", "--", "true")
        wait_until(lambda: "held by" in waiter.said(), "it waits")
        relay.block(True)
        if broken:
            relay.reset()
        code = waiter.wait()
        true(code in (69, 75), f"{code}: {waiter.said()}")
        relay.block(False)
        relay.stop()
    equal(holder.end(), 128 + signal.SIGTERM)


@mode("failures")
def an_owner_outlives_a_restart_of_the_server():
    """With the tokens of its users, which it forgets."""
    with logins() as (server, address):
        holder = Simba("-u", address, "--ttl", "2s", "--transition", "10s", "lock", "m", "--", "sh", "-c", "touch ready; until test -e enough; do sleep 0.02; done")
        wait_until(lambda: os.path.exists("ready"), "it holds")
        kill(server)
        server.launch()
        server.await_service()
        equal(run("-u", address, "lock", "-n", "m", "--", "true").code, 75)
        begin = now()
        wait_until(lambda: now() > begin + 3 or holder.process.poll() is not None)  # it has renewed
        true(holder.process.poll() is None, holder.said())
        write("enough", "")
        equal(holder.wait(), 0)


@mode("failures")
def tokens_of_a_login_that_expire_are_renewed():
    """Every second: those of a holder that renews, and of a waiter that has to watch again."""
    with logins("--auth-token-ttl", "1") as (_, address):
        holder = Simba("-u", address, "--ttl", "3s", "--transition", "10s", "lock", "m", "--", *HOLD)
        number("pid")
        waiter = contender(address, "true")
        wait_until(lambda: "held by" in waiter.said(), "it waits")
        begin = now()
        wait_until(lambda: now() > begin + 5 or holder.process.poll() is not None)  # the token is none any more
        true(holder.process.poll() is None, holder.said())
        equal(holder.end(), 128 + signal.SIGTERM)
        owns_soon(waiter)


class Refusing(threading.Thread):
    """Answers every call as an etcd in trouble does, in just enough HTTP/2 for that. To bring a real one behind with its
    work takes thousands of requests at once, and to cut one member off a network of its own."""

    SETTINGS, HEADERS, LAST, BOTH = 4, 1, 1, 5

    def __init__(self, status, sentence):
        super().__init__(daemon=True)
        fields = {"content-type": "application/grpc", "grpc-status": f"{status}", "grpc-message": sentence}
        self.answer = b"\x88" + b"".join(bytes([0, len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
                                         for name, value in fields.items())
        self.port = servers.free_port()
        self.listener = socket.create_server(("127.0.0.1", self.port))
        self.start()

    def run(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:  # closed
                return
            with client, client.makefile("rwb") as stream, contextlib.suppress(OSError):
                self.client = client
                self.serve(stream)

    def serve(self, stream):
        def send(kind, flags, number_of, payload=b""):
            stream.write(len(payload).to_bytes(3, "big") + bytes([kind, flags]) + number_of.to_bytes(4, "big") + payload)
            stream.flush()
        stream.read(24)  # the preface
        send(self.SETTINGS, 0, 0)
        while len(head := stream.read(9)) == 9:
            stream.read(int.from_bytes(head[:3], "big"))
            if head[3] in (0, self.HEADERS) and head[4] & self.LAST:
                send(self.HEADERS, self.BOTH, int.from_bytes(head[5:], "big"), self.answer)
            elif head[3] == self.SETTINGS and not head[4] & self.LAST:
                send(self.SETTINGS, self.LAST, 0)

    def stop(self):
        """Ends the connection, too."""
        self.listener.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self.client.shutdown(socket.SHUT_RDWR)
        self.join()
        self.listener.close()


@mode("failures")
def a_server_with_too_many_requests_says_what_to_do_and_is_waited_for():
    busy = Refusing(8, "etcdserver: too many requests")
    locker = run("-u", url(port=busy.port), "lock", "m", "--", "true")
    equal(locker.code, 69)
    contains(locker.said(), "too many requests")
    contains(locker.said(), "look at its disk and its load")
    leader = Simba("-u", url(port=busy.port), *LONG, "lead", "m", "--", *HOLD)
    wait_until(lambda: "too many requests" in leader.said(), "it says so")
    busy.stop()
    relay = Relay(Running.server.port, busy.port)
    number("pid")
    equal(leader.end(), 0)
    relay.stop()


@mode("failures")
def a_member_that_has_no_leader_is_passed_over_when_a_client_is_opened():
    alone = Refusing(14, "etcdserver: no leader")
    address = f"etcd://127.0.0.1:{alone.port},127.0.0.1:{Running.server.port}/tests"
    locker = run("-u", address, "lock", "m", "--", "true")
    equal((locker.code, locker.said()), (0, ""))
    alone.stop()


def fill(server):
    """Until the alarm is on, and there is no room for a transaction that writes nothing either."""
    for index in range(100):
        try:
            server.ctl("put", f"key-{index}", "x" * (16000 if index < 2 else 500))
        except subprocess.CalledProcessError as full:
            contains(full.stderr, "space exceeded")
            break
    contains(server.ctl("alarm", "list"), "NOSPACE")


@mode("failures")
def an_owner_keeps_its_lease_and_can_release_while_the_space_alarm_is_on():
    server = servers.Etcd()
    server.more = ("--quota-backend-bytes", "65536")
    server.start()
    address = f"etcd://127.0.0.1:{server.port}/tests"
    holder = Simba("-u", address, "--ttl", "1s", "--transition", "5s", "lock", "m", "--", *HOLD)
    number("pid")
    fill(server)
    begin = now()
    wait_until(lambda: now() > begin + 8 or holder.process.poll() is not None)  # more than its lease
    true(holder.process.poll() is None, holder.said())
    equal(holder.end(), 128 + signal.SIGTERM)
    equal(server.ctl("get", "--prefix", "--keys-only", "tests/").split(), [])
    server.stop()


@mode("failures")
def a_space_alarm_says_what_to_do():
    server = servers.Etcd()
    server.more = ("--quota-backend-bytes", "65536")
    server.start()
    address = f"etcd://127.0.0.1:{server.port}/tests"
    fill(server)
    locker = run("-u", address, "lock", "m", "--", "true")
    equal(locker.code, 69)
    contains(locker.said(), "etcdctl alarm disarm")
    doctor = run("-u", address, "doctor", "--json", "--read-only")
    contains(read(doctor.out), "alarm disarm")
    server.stop()


@mode("failures")
def wrong_credentials_and_rights_are_77():
    server = servers.Etcd()
    server.start()
    equal(run("-u", f"etcd://nobody:x@127.0.0.1:{server.port}", "lock", "m", "--", "true").code, 78)
    for words in ("user add root:r1ght", "user grant-role root root", "user add small:pw", "role add some",
                  "role grant-permission some --prefix=true readwrite mine/", "user grant-role small some", "auth enable"):
        server.ctl(*words.split())
    for user, prefix, code in (("root:wr0ng@", "mine", 77), ("", "mine", 77), ("small:pw@", "other", 77),
                               ("small:pw@", "mine", 0)):
        done = run("-u", f"etcd://{user}127.0.0.1:{server.port}/{prefix}", "lock", "m", "--", "true")
        true(done.code == code, f"{user} {prefix}: {done.code}, {done.said()}")
    server.stop()


# ---- The cluster ---------------------------------------------------------------------------------


def member_status(member):
    return json.loads(member.ctl("endpoint", "status", "-w", "json"))[0]["Status"]


def leader():
    status = member_status(next(one for one in Running.members if one.is_up()))
    return next(one for one in Running.members
                if one.is_up() and member_status(one)["header"]["member_id"] == status["leader"])


@mode("cluster")
def an_owner_survives_each_member_that_stands_still():
    holder = Simba("--ttl", "2s", "--transition", "20s", "lock", "m", "--", *HOLD)
    number("pid")
    for member in Running.members:
        member.process.send_signal(signal.SIGSTOP)
        begin = now()
        wait_until(lambda: now() > begin + 4 or holder.process.poll() is not None)
        member.process.send_signal(signal.SIGCONT)
        true(holder.process.poll() is None, holder.said())
    equal(holder.end(), 128 + signal.SIGTERM)


@mode("cluster")
def without_a_majority_an_owner_ends_by_its_own_clock():
    holder = Simba("--ttl", "1s", "--transition", "2s", "lock", "m", "--", *HOLD)
    command = number("pid")
    for member in Running.members[1:]:
        member.process.send_signal(signal.SIGSTOP)
    begin = now()
    equal(holder.wait(), 70)
    true(now() - begin < 4 and not is_alive(command), f"it took {now() - begin}")
    for member in Running.members[1:]:
        member.process.send_signal(signal.SIGCONT)
    equal(run("lock", "-w", "30s", "m", "--", "true").code, 0)


@mode("cluster")
def doctor_names_a_version_whose_old_leaders_end_leases():
    version = member_status(Running.members[0])["version"]
    late = tuple(int(word) for word in version.split(".")) < ((3, 4, 31) if version.startswith("3.4") else (3, 5, 13))
    said = json.loads(read(run("doctor", "--json").out))
    found = next(finding for finding in said if finding["subject"] == "version")
    equal((found["severity"], version in found["text"]), ("warning" if late else "ok", True))


@mode("cluster")
def a_waiter_on_a_member_that_had_no_leader_for_a_while_hears_of_a_release():
    """Such a member ends the stream of watches, and the connection goes on."""
    long = ["-u", url("?ttl=60s&transition=30s", members=Running.members[:1])]
    holder = Simba(*long, "lock", "m", "--", *HOLD)
    number("pid")
    waiter = Simba(*long, "lock", "m", "--", "true")
    wait_until(lambda: len(keys()) == 2, "it waits")
    for member in Running.members[1:]:
        member.process.send_signal(signal.SIGSTOP)
    begin = now()
    wait_until(lambda: now() > begin + 8)
    for member in Running.members[1:]:
        member.process.send_signal(signal.SIGCONT)
    Running.members[0].await_service()
    equal(holder.end(), 128 + signal.SIGTERM)
    owns_soon(waiter)


@mode("cluster")
def an_owner_and_a_waiter_survive_moves_of_the_leader():
    holder = Simba("--ttl", "1s", "--transition", "10s", "lock", "m", "--", *HOLD)
    number("pid")
    waiter = Simba(*LONG, "lock", "m", "--", "true")
    wait_until(lambda: len(keys()) == 2, "it waits")
    for _ in range(4):
        before = leader()
        others = [one for one in Running.members if one is not before]
        before.ctl("move-leader", f"{member_status(others[0])['header']['member_id']:x}")
        wait_until(lambda one=others[0]: leader() is one, "it leads")
    true(holder.process.poll() is None and waiter.process.poll() is None, holder.said() + waiter.said())
    equal(len(keys()), 2)
    equal(holder.end(), 128 + signal.SIGTERM)
    equal(waiter.wait(), 0)


@mode("cluster")
def a_member_without_a_majority_is_named_with_the_reason():
    """A client that knows one member only."""
    os.environ["SIMBA_URL"] = url(port=Running.members[0].port)
    for member in Running.members[1:]:
        member.process.send_signal(signal.SIGSTOP)
    wait_until(lambda: member_status(Running.members[0]).get("leader", 0) == 0, "it has no leader")
    program = run("lock", "-w", "10s", "m", "--", "true")
    for member in Running.members[1:]:
        member.process.send_signal(signal.SIGCONT)
    equal(program.code, 69)
    contains(program.said(), "majority")
    contains(program.said(), f"127.0.0.1:{Running.members[0].port}")
    equal(run("lock", "-w", "30s", "m", "--", "true").code, 0)


@mode("cluster")
def an_owner_and_a_waiter_survive_the_death_of_the_leader():
    """The last case: what a case starts, such as that member, ends with it."""
    holder = Simba("--ttl", "2s", "--transition", "20s", "lock", "m", "--", *HOLD)
    number("pid")
    waiter = Simba(*LONG, "lock", "m", "--", "true")
    wait_until(lambda: len(keys()) == 2, "it waits")
    kill(leader())
    begin = now()
    wait_until(lambda: now() > begin + 5 or holder.process.poll() is not None)
    true(holder.process.poll() is None and waiter.process.poll() is None, holder.said() + waiter.said())
    equal(holder.end(), 128 + signal.SIGTERM)
    equal(waiter.wait(), 0)
    equal(run("lock", "-w", "20s", "m", "--", "true").code, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] == "cluster"))
