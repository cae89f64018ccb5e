"""The protocol of Redis: a client with one connection, for tests that speak to a server as somebody else would."""
import socket


class Refused(Exception):
    """What a server says when it does not do something."""


def encode(*words):
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


def read_value(file):
    """One value: a number, a text, a list or None. None as well where the connection has ended."""
    line = file.readline().rstrip(b"\r\n")
    kind, rest = line[:1], line[1:]
    if kind == b"-":
        raise Refused(rest.decode())
    if kind == b":":
        return int(rest)
    if kind == b"$" and int(rest) >= 0:
        return file.read(int(rest) + 2)[:-2].decode(errors="replace")
    if kind == b"*" and int(rest) >= 0:
        return [read_value(file) for _ in range(int(rest))]
    return rest.decode() if kind == b"+" else None


class Client:
    def __init__(self, port, *credentials):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.file = self.socket.makefile("rb")
        if credentials:
            self.ask("AUTH", *credentials)

    def ask(self, *words):
        self.socket.sendall(encode(*words))
        return read_value(self.file)

    def close(self):
        self.file.close()
        self.socket.close()
