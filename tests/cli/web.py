"""What tests of the program ask over HTTP."""
import http.client
import json
import re
import socket
import subprocess
import threading
import time

from program import wait_until


def port_of(program, kind="http"):
    """Where a program says that it listens."""
    return int(wait_until(lambda: re.search(rf"listening on {kind}://127\.0\.0\.1:(\d+)/", program.said()),
                          "it listens")[1])


def ask(port, path, method="GET", body=None, headers=None):
    """The status and the body of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def ask_json(port, path):
    status, body = ask(port, path)
    return status, json.loads(body)


def metric(text, line):
    """The value of a line of /metrics, or None."""
    found = re.search(rf"^{re.escape(line)} (\S+)$", text, re.M)
    return float(found[1]) if found else None


def check_metrics(text):
    """What promtool thinks of the text."""
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True, check=False)
    return checked.returncode, checked.stdout + checked.stderr


class Attack:
    """200 clients that send nothing, half a head, a byte now and then, too much, or nonsense, and read no answer. Those
    that the server gets rid of come again."""

    COUNT = 200
    BEGINS = [b"", b"GET /leader HT", b"\0\xff\x16\x03\x01nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nX: " + b"x" * 60000,
              b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 50, b"POST / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n"]

    def __init__(self, port):
        self.port = port
        self.opened = 0
        self.clients = {}
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def _open(self, place):
        client = socket.socket()
        client.setblocking(False)
        client.connect_ex(("127.0.0.1", self.port))
        self.clients[place] = client
        self.opened += 1

    def _send(self, place, data):
        """The other side may not have taken it up yet, have closed it, or not read what was sent before."""
        try:
            self.clients[place].send(data)
            return True
        except BlockingIOError:
            return True
        except OSError:
            return False

    def _run(self):
        for place in range(self.COUNT):
            self._open(place)
        rounds = 0
        while not self.ends.wait(0.02):
            rounds += 1
            for place in range(self.COUNT):
                begin = self.BEGINS[place % len(self.BEGINS)]
                if not self._send(place, begin if rounds % 10 == 1 else b"x"):
                    self.clients[place].close()
                    self._open(place)

    def __enter__(self):
        self.thread.start()
        wait_until(lambda: self.opened >= self.COUNT)
        return self

    def __exit__(self, *unused):
        self.ends.set()
        self.thread.join()
        for client in self.clients.values():
            client.close()


class Polled(threading.Thread):
    """Asks for a path over and over, and keeps when it asked, when the answer came, and what it said."""

    def __init__(self, port, path):
        super().__init__(daemon=True)
        self.port, self.path = port, path
        self.answers = []
        self.refused = 0
        self.ends = threading.Event()

    def run(self):
        while not self.ends.wait(0.005):
            begun = time.monotonic()
            try:
                status, told = ask_json(self.port, self.path)
            except (OSError, http.client.HTTPException):
                self.refused += 1  # it was closed as the oldest of too many
                continue
            self.answers.append((begun, time.monotonic(), status, told))

    def end(self):
        self.ends.set()
        self.join()
        return self.answers


def renewals_in(answers):
    """Of /leader: each makes the lease longer."""
    left = [told["lease_left_ms"] for *_, told in answers]
    return sum(later > earlier for earlier, later in zip(left, left[1:]))
