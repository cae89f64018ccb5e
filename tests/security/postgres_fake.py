"""A PostgreSQL server that lies: it asks for any way to log in, and writes down all that it is told."""
import struct

from fake_server import Listener

TLS_WANTED, GSS_WANTED = 80877103, 80877104
OK, CLEARTEXT, MD5, SASL = 0, 3, 5, 10


def message(kind, body=b""):
    return kind + struct.pack(">I", len(body) + 4) + body


def ask_for(method, data=b""):
    return message(b"R", struct.pack(">I", method) + data)


WELCOME = ask_for(OK) + message(b"S", b"server_version\x0015.0\0") + message(b"K", bytes(8)) + message(b"Z", b"I")


class FakeServer(Listener):
    """Serves connections one after the other. `heard` has what clients have said behind their first message; `talk` is
    what it does then. `behind` goes out together with the answer that there is no TLS."""

    def __init__(self, talk, behind=b""):
        self.talk, self.behind = talk, behind
        super().__init__()

    def converse(self):
        self._greet()
        self.talk(self)

    def _take(self, count):
        data = b""
        while len(data) < count:
            more = self.client.recv(count - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def _greet(self):
        wanted = TLS_WANTED
        while wanted in (TLS_WANTED, GSS_WANTED):
            wanted, = struct.unpack(">I", self._take(struct.unpack(">I", self._take(4))[0] - 4)[:4])
            if wanted in (TLS_WANTED, GSS_WANTED):
                self.say(b"N" + self.behind)

    def say(self, *messages):
        self.client.sendall(b"".join(messages))

    def take(self):
        """A message of the client's."""
        header = self._take(5)
        body = self._take(struct.unpack(">I", header[1:])[0] - 4)
        self.heard += header + body
        return body
