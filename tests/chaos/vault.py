"""The fenced resource: a counter for each mutex behind a unix socket, as a storage service would keep it.

It takes a read or a write whose token is not lower than any it has seen, and refuses the others. A read
counts: a worker that reads with a token and writes later must know that nobody older wrote in between. It checks nothing
else, so that an update can be lost when two use the same token; the checker finds that in its journal.
"""
import os
import socket
import socketserver
import threading

from clock import now_ns


class Vault:
    def __init__(self, folder):
        self.path = os.path.join(folder, "vault")
        self.lock = threading.Lock()
        self.highest = {}
        self.counters = {}
        self.last_write = {}  # mutex: (seconds, who)
        self.last_turn = {}   # who: seconds
        self.journal = open(os.path.join(folder, "vault.journal"), "w", encoding="ascii")
        self._server = _Server(self.path, self)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def answer(self, line):
        verb, mutex, fence, who, *value = line.split()
        fence = int(fence)
        with self.lock:
            if fence < self.highest.get(mutex, 0):
                self._note(f"refuse-{verb}", mutex, fence, who)
                return "stale"
            self.highest[mutex] = fence
            if verb == "read":
                return f"ok {self.counters.get(mutex, 0)}"
            self.counters[mutex] = int(value[0])
            at = self._note("write", mutex, fence, who, value[0])
            self.last_write[mutex] = (at / 1e9, who)
            self.last_turn[who] = at / 1e9
            return "ok"

    def _note(self, *words):
        at = now_ns()
        self.journal.write(" ".join(map(str, (at, *words))) + "\n")
        return at

    def holder(self, mutex):
        """Who wrote last."""
        with self.lock:
            return self.last_write.get(mutex, (0, None))

    def last_turn_of(self, who):
        """When it wrote last."""
        with self.lock:
            return self.last_turn.get(who, 0)

    def forget_tokens(self):
        """What an operator does where tokens begin anew because the store lost its data."""
        with self.lock:
            self.highest.clear()
            self._note("forget")

    def stop(self):
        self._server.shutdown()
        self._server.server_close()
        with self.lock:
            self.journal.close()


class _Session(socketserver.StreamRequestHandler):
    def handle(self):
        try:
            for line in self.rfile:
                self.wfile.write((self.server.vault.answer(line.decode()) + "\n").encode())
        except (ConnectionError, ValueError):  # its client was killed; a line may be half written
            pass


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, path, vault):
        self.vault = vault
        super().__init__(path, _Session)

    def handle_error(self, request, client_address):
        if not isinstance(request, socket.socket):
            super().handle_error(request, client_address)
