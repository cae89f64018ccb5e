#!/usr/bin/env python3
"""Sentinels and cluster nodes that lie about where servers are: no password goes to a host that the user did not name,
and where hosts are allowed one by one nobody is sent anywhere else.

Hosts are addresses of the loopback. The URL names 127.0.0.1; what listens on the others is the attacker's, and writes
down all that it hears.
"""
import os
import socket
import ssl
import subprocess
import sys
import threading
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))
from program import case, contains, equal, main, run, true
from resp import read_value
from servers import free_port

SECRET = "s3cr3t-w0rd"
NAMED, TRAP, OTHER_TRAP = "127.0.0.1", "127.0.0.2", "127.0.0.3"
TIMES = "ttl=20s&transition=10s&connect-timeout=1s&command-timeout=1s"


class Failure(str):
    """An error reply."""


class Status(str):
    pass


def encode(value):
    if isinstance(value, Failure):
        return b"-" + value.encode() + b"\r\n"
    if isinstance(value, Status):
        return b"+" + value.encode() + b"\r\n"
    if isinstance(value, int):
        return b":%d\r\n" % value
    if value is None:
        return b"*-1\r\n"
    if isinstance(value, str):
        return b"$%d\r\n%s\r\n" % (len(value), value.encode())
    return b"*%d\r\n" % len(value) + b"".join(encode(one) for one in value)


class Fake:
    """A server that answers by a table of its own. `heard` has the words of all commands; `met` counts connections."""

    def __init__(self, host, tls=None):
        self.host, self.port = host, free_port()
        self.tls = tls
        self.heard, self.met = [], 0
        self.listener = socket.create_server((host, self.port))
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.met += 1
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        try:
            with (self.tls.wrap_socket(connection, server_side=True) if self.tls else connection) as stream:
                with stream.makefile("rb") as file:
                    while (words := read_value(file)) is not None:
                        self.heard.append(words)
                        stream.sendall(encode(self.answer([words[0].upper(), *words[1:]])))
        except (OSError, ValueError):
            pass

    def answer(self, words):
        return Status("PONG" if words[0] == "PING" else "OK")

    def passwords(self):
        return [words for words in self.heard if SECRET in words]

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.listener.close()


class Master(Fake):
    """Grants whatever it is asked for, and takes it back."""

    def answer(self, words):
        if words[0] == "ROLE":
            return ["master", 0, []]
        if words[0] == "EVALSHA":
            return Failure("NOSCRIPT")
        if words[0] == "EVAL" and "ZPOPMIN" in words[1]:  # a release, of the token behind the keys and the id
            return int(words[4 + int(words[2])])
        if words[0] == "EVAL":
            return time.time_ns() // 1000
        return super().answer(words)


class Sentinel(Fake):
    """Names `master`; `peers` are the other sentinels that it tells of."""

    def __init__(self, host, number, master, peers=(), tls=None):
        self.id = f"{number:040x}"
        self.master, self.peers = master, peers
        super().__init__(host, tls)

    def answer(self, words):
        if words[0] != "SENTINEL":
            return super().answer(words)
        if words[1] == "myid":
            return self.id
        if words[1] == "sentinels":
            return [["ip", peer.host, "port", str(peer.port), "runid", peer.id] for peer in self.peers]
        return [self.master.host, str(self.master.port)]

    def url(self, credentials="", more="", tls=""):
        return f"redis{tls}+sentinel://{credentials}{self.host}:{self.port}/main?{TIMES}{more}"


class Node(Fake):
    """Says that all slots are at `other`, or sends every command there."""

    def __init__(self, host, other, moves=False):
        self.other, self.moves = other, moves
        super().__init__(host)

    def answer(self, words):
        place = self if self.moves else self.other
        if words[0] == "CLUSTER":
            return [[0, 16383, [place.host, place.port, "x" * 40]]]
        if words[0] in ("EVAL", "EVALSHA"):
            return Failure(f"MOVED 1 {self.other.host}:{self.other.port}")
        return super().answer(words)

    def url(self, credentials="", more=""):
        return f"redis+cluster://{credentials}{self.host}:{self.port}?{TIMES}{more}"


def lock(url):
    return run("-u", url, "lock", "-n", "m", "--", "true")


def expect_refused(program, trap, *parts):
    equal(trap.passwords(), [])
    equal(trap.met, 0)
    equal(program.code, 78)
    contains(program.said(), f"{trap.host}:{trap.port}")
    for part in parts:
        contains(program.said(), part)
    true(SECRET not in program.said(), "the password is shown")


# ---- Sentinels -----------------------------------------------------------------------------------

@case
def a_sentinel_gets_no_password_sent_to_a_host_of_its_choice():
    with Master(TRAP) as trap, Sentinel(NAMED, 1, trap) as sentinel:
        expect_refused(lock(sentinel.url(f"simba:{SECRET}@")), trap, "allow-hosts")


@case
def a_host_that_is_allowed_gets_the_password():
    with Master(TRAP) as master, Sentinel(NAMED, 1, master) as sentinel:
        for hosts in (TRAP, "127.0.0.0/30", "example.org,127.0.0.2"):
            master.heard.clear()
            equal(lock(sentinel.url(f"simba:{SECRET}@", f"&allow-hosts={hosts}")).code, 0)
            true(master.passwords(), "the master got no password")


@case
def the_host_of_a_sentinel_may_be_that_of_the_master():
    with Master(NAMED) as master, Sentinel(NAMED, 1, master) as sentinel:
        equal(lock(sentinel.url(f"simba:{SECRET}@")).code, 0)
        true(master.passwords(), "the master got no password")
        url = sentinel.url(f"simba:{SECRET}@").replace(NAMED, "localhost")  # named by what it is called
        equal(lock(url).code, 0)


@case
def with_a_list_of_hosts_the_host_of_a_sentinel_gets_no_password_of_the_master():
    with Master(NAMED) as trap, Sentinel(NAMED, 1, trap) as sentinel:
        url = sentinel.url(f"simba:{SECRET}@", f"&allow-hosts={OTHER_TRAP}")
        expect_refused(lock(url), trap, "allow-hosts")
        expect_refused(lock(url.replace(NAMED, "localhost")), trap, "allow-hosts")
        sentinel.master = sentinel  # its own port is no better
        equal(lock(url).code, 78)
        equal(sentinel.passwords(), [])


@case
def without_a_password_a_sentinel_may_name_any_host():
    with Master(TRAP) as master, Sentinel(NAMED, 1, master) as sentinel:
        equal(lock(sentinel.url()).code, 0)


@case
def hosts_that_are_not_allowed_are_not_even_connected_to():
    with Master(TRAP) as trap, Sentinel(NAMED, 1, trap) as sentinel:
        for hosts in ("127.0.0.3", "127.0.0.4/30", "127.0.0.20", ".example.org"):
            expect_refused(lock(sentinel.url("", f"&allow-hosts={hosts}")), trap, "allow-hosts")


@case
def the_password_of_the_sentinels_goes_to_no_sentinel_of_their_choice():
    with Master(NAMED) as master, Sentinel(TRAP, 2, master) as trap, \
            Sentinel(NAMED, 1, master, [trap]) as sentinel:
        expect_refused(lock(sentinel.url("", f"&sentinel-password={SECRET}")), trap, "allow-hosts")
        true(sentinel.passwords(), "the sentinel that is named got no password")


@case
def one_sentinel_of_three_moves_nobody_by_inventing_others():
    """It tells of eight sentinels, which are all its own and say what it says."""
    with Master(NAMED) as master, Master(TRAP) as trap:
        invented = [Sentinel(OTHER_TRAP, 100 + i, trap) for i in range(8)]
        honest = [Sentinel(NAMED, i, master) for i in (1, 2)]
        liar = Sentinel(NAMED, 3, trap, invented)
        honest[0].peers, honest[1].peers = (honest[1], liar), (honest[0], liar)
        url = f"redis+sentinel://{','.join(f'{NAMED}:{one.port}' for one in [liar, *honest])}/main?{TIMES}"
        program = lock(url)
        equal(trap.met, 0)
        if program.code != 0:  # the honest ones, which are a majority of the named, may answer first
            equal(program.code, 69)  # there are nine, as far as anybody can tell: nothing is granted
            contains(program.said(), "sentinels")
        for one in [*invented, *honest, liar]:
            one.listener.close()


# ---- Clusters ------------------------------------------------------------------------------------

@case
def a_map_of_a_cluster_gets_no_password_sent_to_a_host_of_its_choice():
    with Master(TRAP) as trap, Node(NAMED, trap) as node:
        expect_refused(lock(node.url(f"simba:{SECRET}@")), trap, "allow-hosts")


@case
def a_redirection_gets_no_password_sent_to_a_host_of_its_choice():
    with Master(TRAP) as trap, Node(NAMED, trap, moves=True) as node:
        expect_refused(lock(node.url(f"simba:{SECRET}@")), trap, "allow-hosts")


@case
def a_cluster_is_followed_where_that_is_allowed():
    for moves in (False, True):
        with Master(TRAP) as master, Node(NAMED, master, moves) as node:
            equal(lock(node.url(f"simba:{SECRET}@", f"&allow-hosts={TRAP}")).code, 0)
            true(master.passwords(), "the master got no password")
            equal(lock(node.url()).code, 0)
            before = master.met
            equal(lock(node.url("", "&allow-hosts=127.0.0.9")).code, 78)
            equal(master.met, before)


# ---- TLS -----------------------------------------------------------------------------------------

def make_certificate(name, address, authority=None):
    """NAME.crt and NAME.key, by itself or by an authority."""
    by = ["-x509"] if authority is None else ["-x509", "-CA", f"{authority}.crt", "-CAkey", f"{authority}.key"]
    subprocess.run(["openssl", "req", *by, "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "2", "-subj", f"/CN={name}", "-addext", f"subjectAltName=IP:{address}",
                    "-keyout", f"{name}.key", "-out", f"{name}.crt"], check=True, capture_output=True)


def speak_tls(name):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{name}.crt", f"{name}.key")
    return context


@case
def tls_that_verifies_nothing_or_trusts_everybody_is_no_reason_to_send_it():
    make_certificate("ca", NAMED)
    make_certificate("sentinel", NAMED, "ca")
    make_certificate("good", TRAP, "ca")
    make_certificate("evil", TRAP)
    with Master(TRAP, speak_tls("evil")) as trap, Master(TRAP, speak_tls("good")) as good, \
            Sentinel(NAMED, 1, trap, tls=speak_tls("sentinel")) as sentinel:
        ca = os.path.abspath("ca.crt")
        expect_refused(lock(sentinel.url(f"simba:{SECRET}@", "&tls-verify=no", "s")), trap, "allow-hosts")
        # Its own authority has not signed the trap's certificate.
        program = lock(sentinel.url(f"simba:{SECRET}@", f"&tls-ca={ca}", "s"))
        equal(program.code, 69)
        equal(trap.passwords(), [])
        sentinel.master = good
        equal(lock(sentinel.url(f"simba:{SECRET}@", f"&tls-ca={ca}", "s")).code, 0)
        true(good.passwords(), "a server that the user's authority vouches for got no password")
        # Any authority of the system would vouch for a host of the attacker's.
        good.heard.clear()
        program = run("-u", sentinel.url(f"simba:{SECRET}@", "", "s"), "lock", "-n", "m", "--", "true",
                      env={"SSL_CERT_FILE": ca})
        equal(program.code, 78)
        contains(program.said(), "allow-hosts")
        equal(good.passwords(), [])


# ---- The option ----------------------------------------------------------------------------------

@case
def a_pattern_that_is_none_is_told():
    for pattern in ("", "10.0.0.0/33", "10.0.0.0/x", "10.0.0.0/", "a/8", "*", "a,,b", "*.", "*.1", "10.0.0", "fe80::/129", "a b"):
        program = run("-u", f"redis+sentinel://127.0.0.1:1/main?allow-hosts={pattern.replace(' ', '%20')}", "status")
        equal(program.code, 78)
        contains(program.said(), "allow-hosts")
    program = run("-u", "redis://127.0.0.1:1?allow-hosts=10.0.0.1", "status")
    equal(program.code, 78)  # one server has no choice of hosts


if __name__ == "__main__":
    sys.exit(main())
