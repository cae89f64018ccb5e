"""A MySQL server that lies: it greets, asks for any way to log in, and writes down all that it is told."""
import hashlib
import struct

from fake_server import Listener

CLIENT_LOCAL_FILES, CLIENT_SSL = 0x80, 0x800
# long flag, connect with db, protocol 41, transactions, secure connection, multi results, plug-in authentication
CAPABILITIES = 0x4 | 0x8 | 0x200 | 0x2000 | 0x8000 | 0x20000 | 0x80000
SALT = b"abcdefghijklmnopqrst"
OK = b"\0\0\0\2\0\0\0"
END = b"\xfe\0\0\2\0"


def _text(data):
    return bytes([len(data)]) + data


class FakeServer(Listener):
    """Serves connections one after the other. `heard` has what clients have said, TLS taken off; `talk` is what it
    does behind the answer to its greeting, `first` a packet that it sends together with the greeting, before it."""

    def __init__(self, talk=None, plugin=b"mysql_native_password", tls=None, version=b"5.7.99-fake", first=b"",
                 path=None):
        self.talk, self.plugin, self.tls, self.version, self.first = talk, plugin, tls, version, first
        super().__init__(path)
        self.response = b""  # to the greeting

    def converse(self):
        self._greet()

    def _take(self, count):
        data = super()._take(count)
        self.heard += data
        return data

    def take(self):
        """A packet of the client's."""
        header = self._take(4)
        self.sequence = header[3] + 1
        return self._take(int.from_bytes(header[:3], "little"))

    def say(self, payload, sequence=None):
        if sequence is not None:
            self.sequence = sequence
        self.client.sendall(self._packet(payload))

    def _packet(self, payload):
        self.sequence += 1
        return len(payload).to_bytes(3, "little") + bytes([self.sequence - 1 & 255]) + payload

    def say_values(self, *values):
        """A result of one row."""
        self.say_rows([values])

    def say_rows(self, rows):
        """A result of texts; None is NULL."""
        self.say(bytes([len(rows[0])]))
        self.say_columns(len(rows[0]))
        for row in rows:
            self.say(b"".join(b"\xfb" if value is None else _text(value) for value in row))
        self.say(END)

    def say_columns(self, count):
        """What the columns of a result are, or the parameters of a statement: texts."""
        for _ in range(count):
            self.say(_text(b"def") + _text(b"") * 3 + _text(b"v") * 2 + b"\x0c\x2d\0\xff\0\0\0\xfd\0\0\0\0\0")
        if count > 0:
            self.say(END)

    def ask_for(self, plugin, data=SALT + b"\0"):
        """Another way to log in; returns what the client says to that."""
        self.say(b"\xfe" + plugin + b"\0" + data)
        return self.take()

    def _greet(self):
        flags = CAPABILITIES | (CLIENT_SSL if self.tls else 0)
        self.sequence = 0
        first = self._packet(self.first) if self.first else b""
        self.client.sendall(first + self._packet(
            b"\x0a" + self.version + b"\0" + struct.pack("<I", 1) + SALT[:8] + b"\0" + struct.pack("<H", flags & 0xffff) +
            b"\x2d" + struct.pack("<H", 2) + struct.pack("<H", flags >> 16) + bytes([21]) + b"\0" * 10 + SALT[8:] +
            b"\0" + self.plugin + b"\0"))
        self.response = self.take()
        if self.tls and struct.unpack("<I", self.response[:4])[0] & CLIENT_SSL:
            self.encrypt()
            self.response = self.take()
        if self.talk is not None:
            self.talk(self)

    def encrypt(self):
        self.client = self.tls.wrap_socket(self.client, server_side=True)

    def flags(self):
        return struct.unpack("<I", self.response[:4])[0]

    def user(self):
        return self.response[32:].split(b"\0")[0].decode()

    def is_scramble(self, password):
        """Whether the client has proved that password, without saying it."""
        once = hashlib.sha1(password.encode()).digest()
        proof = hashlib.sha1(SALT + hashlib.sha1(once).digest()).digest()
        return bytes(a ^ b for a, b in zip(once, proof)) in self.response
