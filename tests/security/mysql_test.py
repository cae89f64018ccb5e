#!/usr/bin/env python3
"""MySQL servers that want the password or the client's files, and option files that somebody else has written."""
import os
import ssl
import subprocess
import sys
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))
from mysql_fake import CLIENT_LOCAL_FILES, OK, FakeServer
from program import PATIENCE, case, contains, equal, main, now, read, run, true, write

SECRET = "s3cr3t-w0rd"
FILE = "what only the client may read"
UNAVAILABLE, DENIED, CONFIG = 69, 77, 78


def ask(server, options="", credentials=f"app:{SECRET}@", environment=None, times=1):
    """A look at the store that the server plays."""
    hosts = ",".join([f"127.0.0.1:{server.port}"] * times)
    store = f"mysql://{credentials}{hosts}/db?connect-timeout=3s{options}"
    return run("-u", store, "status", env={"HOME": os.getcwd(), **(environment or {})})


def option_file(text, mode=0o600):
    write(".my.cnf", text)
    os.chmod(".my.cnf", mode)


def certificate(name):
    """One that is its own authority, for a server at 127.0.0.1."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-keyout", f"{name}.key", "-out", f"{name}.pem", "-days", "2", "-subj", "/CN=127.0.0.1", "-addext",
                    "subjectAltName=IP:127.0.0.1"], check=True, stderr=subprocess.DEVNULL)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{name}.pem", f"{name}.key")
    return context


def unheard(server):
    true(SECRET.encode() not in server.heard, f"the server was told the password: {server.heard!r}")


# ---- Ways to log in -------------------------------------------------------------------------------------------


def wanting(plugin, data=b"abcdefghijklmnopqrst\0"):
    return lambda server: server.ask_for(plugin, data)


def asking_for_key(plugin):
    """Has the client encrypt the password with whatever key the server sends."""
    def talk(server):
        server.ask_for(plugin)
        server.say(b"\1\4")
        server.asked = server.take()
    return talk


@case
def a_password_is_not_said_to_a_server_that_asks_for_it():
    for plugin, data in ((b"mysql_clear_password", b""), (b"dialog", b"\4Password: "), (b"dialog", b"\2Password: ")):
        with FakeServer(wanting(plugin, data)) as server:
            program = ask(server)
            unheard(server)
            equal(program.code, DENIED)
            contains(program.said(), "tls=on")


@case
def nor_to_one_that_asks_for_it_in_its_greeting():
    for plugin in (b"mysql_clear_password", b"dialog"):
        with FakeServer(wanting(plugin, b""), plugin=plugin) as server:
            ask(server)
            unheard(server)


def ask_at(path, options=""):
    return run("-u", f"mysql://app:{SECRET}@/db?connect-timeout=3s&socket={path}{options}", "status",
               env={"HOME": os.getcwd()})


@case
def tls_is_refused_on_a_socket_before_the_server_hears_anything():
    """The client library takes a socket for safe, whatever the server offers."""
    path = os.path.abspath("sock")
    with FakeServer(asking_for_key(b"caching_sha2_password"), path=path) as server:
        for options in ("&tls=on", "&tls=on&tls-verify=no"):
            program = ask_at(path, options)
            equal((program.code, server.heard), (CONFIG, b""))
            contains(program.said(), "name a port")
        option_file(f"[client]\nsocket={path}\n")
        program = run("-u", f"mysql://app:{SECRET}@localhost/db?tls=on", "status", env={"HOME": os.getcwd()})
        equal((program.code, server.heard), (CONFIG, b""))
        ask_at(path)
        true(server.heard, "the twin: without TLS the server hears the user")


@case
def nor_is_it_encrypted_for_a_server_that_sends_a_key():
    for plugin in (b"caching_sha2_password", b"sha256_password"):
        with FakeServer(asking_for_key(plugin)) as server:
            server.asked = None
            program = ask(server)
            unheard(server)
            equal(server.asked, None)
            equal(program.code, DENIED)


@case
def nor_over_tls_that_is_not_verified():
    context = certificate("fake")
    for plugin in (b"mysql_clear_password", b"dialog"):
        with FakeServer(wanting(plugin, b""), tls=context) as server:
            program = ask(server, "&tls=on&tls-verify=no")
            unheard(server)
            equal(program.code, DENIED)


@case
def over_tls_that_is_verified_it_may_be_said():
    """The twin: the fake server can hear it."""
    with FakeServer(wanting(b"mysql_clear_password", b""), tls=certificate("fake")) as server:
        ask(server, f"&tls-ca={os.getcwd()}/fake.pem")
        contains(server.heard.decode("latin1"), SECRET)


# ---- TLS ------------------------------------------------------------------------------------------------------


@case
def a_server_without_the_tls_that_was_asked_for_hears_nothing():
    for options in ("&tls=on", "&tls=on&tls-verify=no", "&tls-ca=/etc/ssl/certs/ca-certificates.crt"):
        with FakeServer() as server:
            program = ask(server, options)
            equal(program.code, UNAVAILABLE)
            contains(program.said(), "TLS")
            true(server.connections > 0, "it was asked")
            equal(server.heard, b"")


@case
def nor_does_one_whose_version_ends_behind_the_look_at_its_greeting():
    for length in (497, 520):
        with FakeServer(version=b"9" * length) as server:
            program = ask(server, "&tls=on")
            equal(program.code, UNAVAILABLE)
            contains(program.said(), "does not offer it")
            true(server.connections > 0, "it was asked")
            equal(server.heard, b"")


@case
def a_server_that_reports_progress_before_its_greeting_is_left():
    """The client library crashes, or goes on to the greeting that follows."""
    for version in (b"5.7.99-fake", b"5.5.5-10.11.6-MariaDB"):
        for options in ("", "&tls=off", "&tls=on"):
            with FakeServer(version=version, first=b"\xff\xff\xff\1\1\1\0\0\0\1x") as server:
                program = ask(server, options)
                equal(program.code, UNAVAILABLE)
                contains(program.said(), "did not begin with a MySQL greeting")
                equal(server.heard, b"")


@case
def a_wrong_certificate_is_refused_whatever_an_option_file_says():
    fake = certificate("fake")
    certificate("right")
    here = os.getcwd()
    for line in ("", "ssl-verify-server-cert=0", "disable-ssl-verify-server-cert", f"ssl-ca={here}/fake.pem",
                 f"ssl-ca={here}/fake.pem\nssl-verify-server-cert=0", "skip-ssl", "ssl=0"):
        option_file(f"[client]\n{line}\n[simba]\n{line}\n")
        for options in (f"&tls=on&tls-ca={here}/right.pem", "&tls=on"):
            with FakeServer(wanting(b"mysql_clear_password", b""), tls=fake) as server:
                program = ask(server, options)
                equal(program.code, UNAVAILABLE)
                true(b"app" not in server.heard, f"{line}: the server heard {server.heard!r}")


class HalfServer(FakeServer):
    """Stops in the middle of its greeting."""

    def __init__(self, length):
        self.length = length
        super().__init__()

    def _greet(self):
        self.client.sendall((b"\x4a\0\0\0\x0a5.7.99-fake\0" + b"\1" * 40)[:self.length])
        self.take()  # until the client leaves


@case
def a_server_that_stops_in_the_middle_of_its_greeting_is_left():
    for length in (1, 4, 30):
        with HalfServer(length) as server:
            begin = now()
            program = run("-u", f"mysql://app:{SECRET}@127.0.0.1:{server.port}/db?connect-timeout=500ms", "status")
            equal(program.code, UNAVAILABLE)
            contains(program.said(), "did not answer in time")
            true(now() - begin < 10, "it took longer than connect-timeout")


class SlowServer(FakeServer):
    """Begins a record of TLS, and sends a byte of it now and then."""

    def encrypt(self):
        self.client.sendall(b"\x16\x03\x03\x40\x00")
        begin = now()
        while now() - begin < PATIENCE:
            self.client.sendall(b"\2")
            time.sleep(0.05)


@case
def a_server_that_agrees_on_tls_without_end_is_left():
    for options in ("", "&tls-verify=no"):
        with SlowServer(tls=True) as server:
            begin = now()
            program = run("-u", f"mysql://app:{SECRET}@127.0.0.1:{server.port}/db?connect-timeout=500ms&tls=on{options}",
                          "status")
            equal(program.code, UNAVAILABLE)
            contains(program.said(), "did not answer in time")
            true(now() - begin < 10, "it took longer than connect-timeout")


# ---- Files of the client's ------------------------------------------------------------------------------------


def asking_for_file(server):
    """Answers the first statement with a request for a file."""
    server.say(OK)
    server.take()
    server.say(b"\xfb" + b"secret.txt")
    server.take()


@case
def no_server_is_given_a_file():
    write("secret.txt", FILE)
    for line in ("", "local-infile=1", "local-infile"):
        option_file(f"[client]\n{line}\n[simba]\n{line}\n")
        with FakeServer(asking_for_file) as server:
            ask(server)
            equal(server.flags() & CLIENT_LOCAL_FILES, 0)
            true(FILE.encode() not in server.heard, "the server was given the file")


@case
def no_code_is_loaded_from_a_folder_that_somebody_names():
    write("planted.c", """#include <stdio.h>
        __attribute__((constructor)) static void run(void) { FILE *f = fopen("loaded", "w"); if (f) fclose(f); }""")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "planted.so", "planted.c"], check=True)
    here = os.getcwd()
    option_file(f"[client]\nplugin-dir={here}\ndefault-auth=planted\n[simba]\nplugin_dir={here}\n")
    for environment in ({}, {"MARIADB_PLUGIN_DIR": here}):
        with FakeServer(wanting(b"planted", b"")) as server:
            ask(server, environment=environment)
            true(not os.path.exists("loaded"), "the planted code ran")


# ---- A replica ------------------------------------------------------------------------------------------------


def read_only_is(word):
    """Answers that question so, and hangs up at the next one."""
    def talk(server):
        server.say(OK)
        while True:
            statement = server.take()
            if b"binlog_format" in statement:
                server.say_values(b"binlog_format", b"ROW")
                continue
            if b"@@global.read_only" in statement:
                server.say_values(word)
                server.after = server.take()
                return
            server.say(OK)
    return talk


@case
def what_newer_servers_say_of_being_read_only_is_understood():
    for word, writable in ((b"0", True), (b"OFF", True), (b"off", True), (b"1", False), (b"ON", False),
                           (b"NO_LOCK", False), (b"NO_LOCK_NO_ADMIN", False), (b"", False)):
        with FakeServer(read_only_is(word)) as server:
            server.after = b""
            program = ask(server, times=2)
            equal((word, b"lock_wait_timeout" in server.after), (word, writable))
            equal("read-only" in program.said(), not writable)


# ---- Option files ---------------------------------------------------------------------------------------------


@case
def an_option_file_says_who_connects():
    option_file(f"[mysqld]\nuser=wrong\n# user=wrong\n[simba]\nuser = file-user\n"
                f"password = \"{SECRET}\"\nport=1\n[other]\npassword=wrong\n")
    with FakeServer() as server:
        ask(server, credentials="")
        equal(server.user(), "file-user")
        true(server.is_scramble(SECRET), "the password is not that of the file")
        unheard(server)


@case
def an_option_file_may_include_others():
    os.mkdir("more")
    write("more/b.cnf", f"[client]\npassword={SECRET}\n")
    write("more/a.cnf", "[client]\npassword=wrong\nuser=included\n")
    write("more/c.txt", "[client]\npassword=wrong\n")
    option_file(f"!includedir {os.getcwd()}/more\n")
    with FakeServer() as server:
        ask(server, credentials="")
        equal(server.user(), "included")
        true(server.is_scramble(SECRET), "the password is not that of the last file")


def refused(server, what):
    program = ask(server, credentials="")
    equal(program.code, CONFIG)
    contains(program.said(), what)
    equal(server.connections, 0)


@case
def an_option_file_that_others_may_write_is_refused():
    with FakeServer() as server:
        for mode in (0o602, 0o620, 0o666):
            option_file("[client]\nuser=planted\n", mode)
            refused(server, ".my.cnf is refused")
        option_file(f"[client]\nuser=a\n!include {os.getcwd()}/included.cnf\n")
        write("included.cnf", "[client]\nuser=planted\n")
        os.chmod("included.cnf", 0o622)
        refused(server, "included.cnf is refused")


@case
def so_is_one_of_another_user():
    if os.getuid() != 0:
        return  # only root can give a file away
    option_file("[client]\nuser=planted\n")
    os.chown(".my.cnf", 65534, 65534)
    with FakeServer() as server:
        refused(server, ".my.cnf is refused")


@case
def so_is_one_that_is_no_file():
    os.mkfifo(".my.cnf", 0o600)
    with FakeServer() as server:
        refused(server, "no regular file")


@case
def a_link_to_nothing_is_no_option_file():
    for target in ("/dev/null", "missing"):
        os.symlink(target, ".my.cnf")
        with FakeServer() as server:
            ask(server, credentials="someone@")
            equal(server.user(), "someone")
        os.remove(".my.cnf")


@case
def an_option_file_is_not_looked_at_where_the_url_says_all():
    option_file("[client]\nuser=planted\n", 0o666)
    with FakeServer() as server:
        ask(server)
        equal(server.user(), "app")
        true(server.is_scramble(SECRET), "the password is not that of the URL")


if __name__ == "__main__":
    if "mariadb" not in os.environ.get("SIMBA_STORES", "mariadb").split():
        print("1..0 # SKIP there is no MySQL in this build")
        sys.exit(0)
    sys.exit(main())
