"""An etcd that lies: HTTP/2, gRPC and the messages of etcd, as far as a client of Simba asks for them.

The paths of requests are compared in the form that the client's library gives them, by Huffman's code: the server
announces that it remembers no headers, so they are the same each time.
"""
from fake_server import Listener

PREFACE = 24
DATA, HEADERS, RST, SETTINGS, PING = 0, 1, 3, 4, 6
END_STREAM, ACK, END_HEADERS = 1, 1, 4
FRAME_MAX = 16384
PATHS = {bytes.fromhex("60a924882d9dcb6571af" + code): name for code, name in {
    "9b8b1b4754c5": "Range", "9b8b1bfcd5": "Txn", "9ca34158ce51a0b8ac1d49": "Grant",
    "9ca34158ce51a0b98a5ae1a0ddcb": "KeepAlive", "9ca34158ce51a0bb4bdcfd4b": "Revoke", "c86924ec721a493f": "Watch",
    "0da99d886d4ce5a92620d25f": "Authenticate", "a066a925a87510ac6e48d36a3f": "Status"}.items()}


def varint(number):
    number &= (1 << 64) - 1
    text = b""
    while number > 127:
        text += bytes([number & 127 | 128])
        number >>= 7
    return text + bytes([number])


def field(number, value):
    """A number, or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def header(revision=10, term=2):
    return field(1, field(1, 1) + field(2, 1) + field(3, revision) + field(4, term))


def grant(lease=0x1234, ttl=60):
    return header() + field(2, lease) + field(3, ttl)


def key_value(key, created, lease, value=b"somebody"):
    return field(1, key) + field(2, created) + field(3, created) + field(4, 1) + field(5, value) + field(6, lease)


def range_answer(*key_values, more=False):
    return header() + b"".join(field(2, one) for one in key_values) + field(3, int(more)) + field(4, len(key_values))


def operation(*key_values):
    """A range in the answer of a transaction."""
    return field(3, field(1, range_answer(*key_values)))


def txn_answer(*operations, succeeded=True, revision=10):
    return header(revision) + field(2, int(succeeded)) + b"".join(operations)


def message(data):
    """In its frame of gRPC."""
    return b"\0" + len(data).to_bytes(4, "big") + data


def literal(name, value):
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


class Fake(Listener):
    """Serves each client alone with what `answer` makes of the name of a call and its bytes: those of a message; None:
    no answer yet. It may send frames of its own. A text is a refusal, with the status 13."""

    together = True

    def answer(self, name, data):
        defaults = {"Range": range_answer(), "Grant": grant(), "Revoke": header(), "KeepAlive": None, "Watch": None,
                    "Txn": txn_answer(field(3, b""), operation(), operation()), "Status": header() + field(2, b"3.4.23")}
        return defaults[name]

    def frame(self, kind, flags=0, stream=0, data=b""):
        return len(data).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + data

    def data(self, stream, data):
        """Messages, in frames of HTTP/2."""
        return b"".join(self.frame(DATA, 0, stream, data[at:at + FRAME_MAX]) for at in range(0, len(data), FRAME_MAX))

    def begin(self, stream):
        return self.frame(HEADERS, END_HEADERS, stream, b"\x88" + literal(b"content-type", b"application/grpc"))

    def end(self, stream, status=b"0", text=b""):
        trailers = literal(b"grpc-status", status) + (literal(b"grpc-message", text) if text else b"")
        return self.frame(HEADERS, END_HEADERS | END_STREAM, stream, trailers)

    def send(self, data):
        self.client.sendall(data)

    def reply(self, stream, name, answer, is_whole):
        if answer is None:
            return
        if stream not in self.begun:
            self.begun.add(stream)
            self.send(self.begin(stream))
        if isinstance(answer, str):
            self.send(self.end(stream, b"13", answer.encode()))
            return
        self.send(self.data(stream, message(answer)))
        if is_whole:
            self.send(self.end(stream))

    def converse(self):
        self._take(PREFACE)
        self.begun, self.names, bodies = set(), {}, {}
        self.send(self.frame(SETTINGS, 0, 0, b"\0\1\0\0\0\0" + b"\0\4\0\x0f\xff\xff"))
        while True:
            head = self._take(9)
            data = self._take(int.from_bytes(head[:3], "big"))
            kind, flags, stream = head[3], head[4], int.from_bytes(head[5:], "big")
            if kind == SETTINGS and not flags & ACK:
                self.send(self.frame(SETTINGS, ACK))
            elif kind == HEADERS:
                self.names[stream] = max((path for path in PATHS if path in data), key=len, default=b"")
                self.names[stream] = PATHS.get(self.names[stream], "")
                bodies[stream] = b""
            elif kind == DATA and stream in self.names:
                bodies[stream] += data
                name, is_whole = self.names[stream], bool(flags & END_STREAM)
                while len(bodies[stream]) >= 5 and (is_whole or name in ("KeepAlive", "Watch")):
                    length = int.from_bytes(bodies[stream][1:5], "big") + 5
                    if len(bodies[stream]) < length:
                        break
                    body, bodies[stream] = bodies[stream][5:length], bodies[stream][length:]
                    self.stream = stream
                    self.reply(stream, name, self.answer(name, body), is_whole)
