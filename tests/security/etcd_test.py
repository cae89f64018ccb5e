#!/usr/bin/env python3
"""etcd and those who are not to be trusted: servers that lie, and a user who may write beside the mutexes."""
import os
import signal
import ssl
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))
from etcd_fake import (FRAME_MAX, PING, Fake, field, grant, header, key_value, literal, message, operation,
                       txn_answer)
from program import Simba, case, contains, equal, limit_memory, main, read, run, true, wait_until
from servers import Etcd

LEASE = 0x1234
OTHER = key_value(b"tests/m/1111", 7, 0x1111)
ENDS = [-2**63, -5, 0, 1, 2**62, 2**63 - 1]
OK, UNAVAILABLE, LOST, CONTENDED, DENIED = 0, 69, 70, 75, 77


def url(port, user="", tls=""):
    return f"etcd{tls}://{user}127.0.0.1:{port}/tests?ttl=2s&transition=2s"


def alive(ttl=60):
    return header() + field(2, LEASE) + field(3, ttl)


# ---- What makes no sense -------------------------------------------------------------------------

class Numbers(Fake):
    """`revision` stands where a server counts; somebody else owns, or this client, by `mine`."""

    revision, mine, ttl = 10, False, 60

    def answer(self, name, data):
        if name == "Grant":
            return grant(LEASE, self.ttl)
        if name == "KeepAlive":
            return alive(self.ttl)
        if name == "Txn":
            key = key_value(b"tests/m/1234", self.revision, LEASE) if self.mine else OTHER
            return txn_answer(field(3, b""), operation(key), operation(key), revision=self.revision)
        return super().answer(name, data)


@case
def revisions_that_no_server_has_counted_to_are_errors_and_no_tokens():
    for mine in (False, True):
        for revision in ENDS:
            with Numbers() as fake:
                fake.revision, fake.mine = revision, mine
                program = run("-u", url(fake.port), "lock", "-n", "m", "--", "sh", "-c", "echo $SIMBA_FENCE >token")
                true(program.code in (UNAVAILABLE, CONTENDED), f"{revision}: {program.code}, {program.said()}")
                contains(program.said(), "cannot be understood")
                equal(read("token"), "")


@case
def no_lease_is_believed_in_for_longer_than_was_asked_for():
    class Silent(Numbers):
        """From the win on."""

        mine, ttl, wins = True, 2**63 - 1, 0

        def answer(self, name, data):
            if self.wins > 0:
                return None
            type(self).wins += name == "Txn"
            return super().answer(name, data)

    with Silent() as fake:
        program = run("-u", url(fake.port).replace("2s", "1s"), "lock", "-w", "1s", "m", "--", "sleep", "100")
        equal(program.code, LOST)
        contains(program.said(), "could not be renewed: stopping the command")


@case
def random_bytes_in_the_place_of_messages_are_errors():
    class Garbage(Fake):
        turn = 0

        def answer(self, name, data):
            type(self).turn += 1
            if self.turn == 1:
                return super().answer(name, data)
            return bytes((self.turn * 37 + i * i * 11) % 256 for i in range(self.turn * 3))

    with Garbage() as fake:
        for verb in (["status"], ["doctor"], ["lock", "-n", "m", "--", "true"], ["prune", "--unused-for", "0s"]):
            for _ in range(4):
                program = run("-u", url(fake.port), *verb)
                true(program.code >= 0, f"{verb}: signal {-program.code}, {program.said()}")


# ---- Without end ---------------------------------------------------------------------------------

class Endless(Fake):
    """Answers the first question, and the second without end."""

    turn = 0

    def answer(self, name, data):
        type(self).turn += 1
        if self.turn == 1:
            return super().answer(name, data)
        self.flood()

    def converse(self):
        try:
            super().converse()
        except OSError:
            type(self).turn += 1


def expect_bounded(fake, said, mebibytes=256):
    program = run("-u", url(fake.port), "status", preexec_fn=limit_memory(mebibytes))
    equal(program.code, UNAVAILABLE)
    contains(program.said(), said)


@case
def a_message_of_many_empty_parts_takes_no_more_memory_than_one_of_few():
    """Which is less than there is: otherwise it would be understood."""
    for part in (b"\x12\x00", b"\x78\x00"):  # a key; a field that nobody knows
        class Amplified(Endless):
            def flood(self):
                self.send(self.begin(self.stream))
                self.send(self.data(self.stream, message(part * (4 * 1024 * 1024 - 8))))
                self.send(self.end(self.stream))

        with Amplified() as fake:
            expect_bounded(fake, "cannot be understood", 4096)


@case
def frames_without_end_end_the_call():
    class Data(Endless):
        def flood(self):
            self.send(self.begin(self.stream) + self.data(self.stream, b"\0\0\x7f\xff\xff"))
            while True:
                self.send(self.data(self.stream, b"x" * FRAME_MAX))

    class Headers(Endless):
        def flood(self):
            self.send(self.frame(1, 0, self.stream, b"\x88"))
            while True:
                self.send(self.frame(9, 0, self.stream, literal(b"a" * 100, b"b" * 100) * 50))

    class Pings(Endless):
        def flood(self):
            while True:
                self.send(self.frame(PING, 0, 0, b"12345678") * 5000)

    with Data() as fake:
        expect_bounded(fake, "cannot be understood, or is too long")
    with Headers() as fake:
        expect_bounded(fake, "broke the HTTP/2 protocol")
    with Pings() as fake:
        expect_bounded(fake, "broke the HTTP/2 protocol")


def make_certificate(name):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", f"{name}.key", "-out", f"{name}.crt"], check=True, capture_output=True)


class Tls(Fake):
    certificate = "good"

    def converse(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{self.certificate}.crt", f"{self.certificate}.key")
        context.set_alpn_protocols(["h2"])
        self.client = context.wrap_socket(self.client, server_side=True)
        super().converse()


@case
def a_server_that_asks_and_does_not_read_is_left():
    class Asks(Tls, Endless):
        def flood(self):
            while True:  # a record each: more at a time would break the protocol
                self.send(self.frame(PING, 0, 0, b"12345678") * 900)

    class Cancels(Endless):
        """Says of each watch that follows that it is too old, before it was asked for."""

        def answer(self, name, data):
            if name == "Watch":
                self.send(self.begin(self.stream))
                number = 0
                while True:
                    numbers = range(number + 1, number + 1001)
                    self.send(self.data(self.stream, b"".join(
                        message(header() + field(2, one) + field(4, 1) + field(5, 5)) for one in numbers)))
                    number += 1000
            return Fake.answer(self, name, data)

    make_certificate("good")
    with Asks() as fake:
        program = run("-u", url(fake.port, tls="s") + f"&tls-ca={os.getcwd()}/good.crt", "status",
                      preexec_fn=limit_memory(512))
        equal(program.code, UNAVAILABLE)
        contains(program.said(), "does not read what it is sent")
    with Cancels() as fake:
        program = Simba("-u", url(fake.port).replace("2s", "500ms"), "watch", "m" * 200)
        wait_until(lambda: "for longer than a lease" in program.said(), "it misses the answers")
        peak = [line for line in read(f"/proc/{program.pid}/status").split("\n") if line.startswith("VmHWM")]
        true(int(peak[0].split()[1]) < 256 * 1024, peak[0])
        program.end()


# ---- Passwords -----------------------------------------------------------------------------------

@case
def the_password_goes_to_no_server_that_is_not_the_one_of_the_url():
    make_certificate("good")
    make_certificate("evil")
    ca = f"&tls-ca={os.getcwd()}/good.crt"
    user = "simba:geheim@"

    class Hears(Tls):
        heard_names = []

        def answer(self, name, data):
            self.heard_names.append((name, data))
            return field(2, b"token") if name == "Authenticate" else super().answer(name, data)

    class Plain(Hears):
        converse = Fake.converse

    def tried(fake, more=""):
        fake.heard_names.clear()
        program = run("-u", url(fake.port, user, "s") + more, "status")
        return program.code, fake.heard_names

    with Hears() as fake:
        code, names = tried(fake, ca)
        equal((code, names[0][0]), (OK, "Authenticate"))
        contains(names[0][1], b"geheim")
        equal(tried(fake, "&tls-server-name=other.example" + ca), (UNAVAILABLE, []))
        equal(tried(fake), (UNAVAILABLE, []))
    with Hears() as fake:
        fake.certificate = "evil"
        equal(tried(fake, ca), (UNAVAILABLE, []))
    with Plain() as fake:
        equal(tried(fake, ca), (UNAVAILABLE, []))


# ---- Users of the store ---------------------------------------------------------------------------

class Server:
    def __enter__(self):
        self.server = Etcd()
        self.server.start()
        return self.server

    def __exit__(self, *unused):
        self.server.stop()


@case
def keys_that_another_user_has_made_do_not_stop_an_operator():
    with Server() as server:
        store = f"etcd://127.0.0.1:{server.port}/tests?ttl=2s&transition=2s"
        lease = server.ctl("lease", "grant", "600").split()[1].lstrip("0")
        for key, value in ((f"tests/\x1b[2Jevil\n/{lease}", "me\x1b]0;owned\x07"), (f"tests/{'n' * 300}/{lease}", "x"),
                           (f"tests/q/{lease}", "\u202e\u009bid" * 200), ("tests/alone", "x")):
            server.ctl("put", f"--lease={lease}", key, value)
        server.ctl("put", "tests/.simba/q/handover", "99999999999999999999999 zzz" * 300)
        listed = run("-u", store, "status")
        equal(listed.code, OK)
        true(not any(one in read(listed.out) for one in "\x1b\x07\u202e\u009b"), read(listed.out))
        contains(run("-u", store, "prune", "--unused-for", "0s").said(), "left out 1 of 2 names")
        equal(run("-u", store, "release", "--force", "q").code, OK)
        equal(run("-u", store, "lock", "-n", "q", "--", "true").code, OK)


@case
def a_user_without_rights_takes_nothing_but_can_keep_a_dead_owner_alive():
    """The limit is etcd's: it asks nobody who he is who lists leases, names their keys or keeps them alive."""
    with Server() as server:
        for words in ("user add root:r", "user grant-role root root", "user add other:x", "user add locker:y",
                      "role add locker", "role grant-permission locker --prefix=true readwrite tests/",
                      "user grant-role locker locker", "auth enable"):
            server.ctl(*words.split())
        store = url(server.port, "locker:y@").replace("2s", "1s")
        owner = Simba("-u", store, "lock", "m", "--", "sleep", "100")
        wait_until(lambda: "held" in read(run("-u", store, "status", "--json").out), "it owns")
        lease = server.ctl("--user", "other:x", "lease", "list").split()[-1]
        for words in (["get", "tests/", "--prefix"], ["put", "tests/m/0", "x"], ["del", "tests/", "--prefix"],
                      ["lease", "revoke", lease]):
            try:
                raise AssertionError(server.ctl("--user", "other:x", *words))
            except subprocess.CalledProcessError as refused:
                contains(refused.stderr, "permission denied")
        denied = run("-u", url(server.port, "other:x@"), "lock", "-n", "m", "--", "true")
        equal(denied.code, DENIED)
        try:
            contains(server.ctl("lease", "timetolive", lease, "--keys"), "tests/m/")
        except subprocess.CalledProcessError as refused:  # newer servers keep the names of keys to themselves
            contains(refused.stderr, "user name is empty")
        with subprocess.Popen(["etcdctl", f"--endpoints=http://127.0.0.1:{server.port}", "lease", "keep-alive", lease],
                              stdout=subprocess.DEVNULL) as keeper:
            owner.end(signal.SIGKILL)
            equal(run("-u", store, "lock", "-w", "4", "m", "--", "true").code, CONTENDED)
            keeper.kill()
        equal(run("-u", store, "lock", "-w", "30", "m", "--", "true").code, OK)


if "etcd" not in os.environ["SIMBA_STORES"].split() or Etcd.missing():
    print("1..0 # SKIP etcd is not here")
    sys.exit(77)
sys.exit(main())
