"""PostgreSQL servers that lie: they ask for any way to log in, answer anything, and write down all that they are told."""
import copy
import socket
import struct
import threading

from fake_server import Listener

TLS_WANTED, GSS_WANTED = 80877103, 80877104
OK, CLEARTEXT, MD5, SASL, SASL_CONTINUE = 0, 3, 5, 10, 11


def message(kind, body=b""):
    return kind + struct.pack(">I", len(body) + 4) + body


def ask_for(method, data=b""):
    return message(b"R", struct.pack(">I", method) + data)


WELCOME = ask_for(OK) + message(b"S", b"server_version\x0015.0\0") + message(b"K", struct.pack(">II", 7, 7)) + message(b"Z", b"I")


class FakeServer(Listener):
    """Serves connections one after the other. `heard` has what clients have said behind their first message; `talk` is
    what it does then. `behind` goes out together with the answer that there is no TLS."""

    def __init__(self, talk, behind=b""):
        self.talk, self.behind = talk, behind
        super().__init__()

    def converse(self):
        self._greet()
        self.talk(self)

    def _greet(self):
        wanted = TLS_WANTED
        while wanted in (TLS_WANTED, GSS_WANTED):
            header = self._take(4)
            self.first = header + self._take(struct.unpack(">I", header)[0] - 4)
            wanted, = struct.unpack(">I", self.first[4:8])
            if wanted in (TLS_WANTED, GSS_WANTED):
                self.say(b"N" + self.behind)

    def say(self, *messages):
        self.client.sendall(b"".join(messages))

    def take_message(self):
        """Kind and body of a message of the client's."""
        header = self._take(5)
        body = self._take(struct.unpack(">I", header[1:])[0] - 4)
        self.heard += header + body
        return header[:1], body

    def take(self):
        return self.take_message()[1]


# ---- Answers ----------------------------------------------------------------------------------------


def columns(count):
    return message(b"T", struct.pack(">H", count) + (b"c\0" + struct.pack(">IHIhih", 0, 0, 25, -1, -1, 0)) * count)


def row(*values):
    return message(b"D", struct.pack(">H", len(values)) +
                   b"".join(struct.pack(">i", len(value)) + value for value in map(str.encode, values)))


def end(tag="SELECT 1"):
    return message(b"C", tag.encode() + b"\0")


def one_row(*values):
    return columns(len(values)) + row(*values) + end()


DONE = message(b"n") + end("SET")
PATH = one_row("public", "public")
TABLE = one_row("public", "postgres", "t", "66", "128", "p", "", "", "t")
FAR = "9999999999999"
OWNED = one_row("m", "another", "1", FAR, FAR, "1", "1", "0", "0")
# What a server answers on which another client owns all mutexes, and has none in its list; the first text that is part
# of a statement counts.
ANSWERS = {"current_schema": PATH, "relkind": columns(1) + end("SELECT 0"), "to_regclass": TABLE, "RETURNING version": columns(1) + end("UPDATE 0"),
           "RETURNING": columns(9) + end("UPDATE 0"), "ORDER BY mutex": columns(9) + end("SELECT 0"),
           "WHERE mutex": OWNED, "set_config": one_row("100ms", "")}


class Answering(FakeServer):
    """Serves all connections at once, and answers statements by `answers`, which come before ANSWERS."""

    def __init__(self, answers=None, chat=None):
        self.answers = [*(answers or {}).items(), *ANSWERS.items()]
        self.chat = chat  # answers what comes by the simple protocol: how releases are heard of
        super().__init__(Answering._answer)

    def converse(self):
        one = copy.copy(self)
        one.client = self.client.dup()
        threading.Thread(target=one._converse_alone, daemon=True).start()

    def _converse_alone(self):
        try:
            super().converse()
        except (OSError, EOFError):
            pass
        self.client.close()

    def _find(self, statement):
        return next((answer for text, answer in self.answers if text in statement), DONE)

    def _execute(self, name, statement):
        answer = self._find(statement)
        self.say((b"" if name else message(b"1")) + message(b"2"))
        if callable(answer):
            answer(self)
        else:
            self.say(answer)

    def _answer(self):
        statements, name = {}, ""
        self.say(WELCOME)
        while True:
            kind, body = self.take_message()
            if kind == b"P":
                name, statement = body.decode().split("\0")[:2]
                statements[name] = statement
                self.say(message(b"1") if name else b"")
            elif kind == b"B":
                name = body.split(b"\0")[1].decode()
            elif kind == b"E":
                self._execute(name, statements[name])
            elif kind == b"S":
                self.say(message(b"Z", b"I"))
            elif kind == b"Q":
                self._answer_simply(body)

    def _answer_simply(self, _):
        self.say(self.chat + message(b"Z", b"I"))


class Middle(Answering):
    """Passes the first connection on to a server, and asks each that comes later for the password itself."""

    def __init__(self, port):
        self.behind_port = port
        self.told = []
        super().__init__()

    def _converse_alone(self):
        try:
            self._greet()
            if self.connections == 1:
                self._pass_on()
            else:
                self.told.append(self._ask())
        except (OSError, EOFError):
            pass
        self.client.close()

    def _ask(self):
        """What the client says to that; nothing where it leaves."""
        self.say(ask_for(CLEARTEXT))
        try:
            return self.client.recv(200)
        except ConnectionError:
            return b""

    def _pass_on(self):
        server = socket.create_connection(("127.0.0.1", self.behind_port))
        server.sendall(self.first)
        self.client.settimeout(None)
        threading.Thread(target=pump, args=(server, self.client), daemon=True).start()
        pump(self.client, server)


def pump(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass
