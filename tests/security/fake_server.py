"""What the lying servers of these tests have in common: they listen, and serve connections one after the other."""
import copy
import socket
import threading


class Listener:
    """A server on a port of its own, or at a path, while a `with` lasts. Each kind says in `converse` what it does with
    a client. `together`: it serves all clients at the same time, each with a copy of itself."""

    together = False

    def __init__(self, path=None):
        self.heard = b""
        self.connections = 0
        if path is None:
            self.listener = socket.create_server(("127.0.0.1", 0))
            self.port = self.listener.getsockname()[1]
        else:
            self.listener = socket.create_server(path, family=socket.AF_UNIX)
        self.thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *unused):
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listener.close()
        self.thread.join(10)

    def _serve(self):
        while True:
            try:
                self.client, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            if self.together:
                threading.Thread(target=copy.copy(self)._serve_client, daemon=True).start()
            else:
                self._serve_client()

    def _serve_client(self):
        try:
            self.client.settimeout(10)
            if self.client.family == socket.AF_INET:
                self.client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.converse()
        except (OSError, EOFError):  # an error of TLS is an OSError
            pass
        self.client.close()

    def _take(self, count):
        """Exactly so many bytes of the client's."""
        data = b""
        while len(data) < count:
            more = self.client.recv(count - len(data))
            if not more:
                raise EOFError
            data += more
        return data
