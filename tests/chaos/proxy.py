"""A forwarder between one client and one server that misbehaves on demand.

    pass      forwards
    delay     forwards later, in both directions
    lag       forwards at once to the server, and later what it replies
    hold      nothing moves; what was sent meanwhile arrives when it is over, late
    drop      what is sent is thrown away, in both directions
    swallow   the server gets everything, its replies are thrown away
    mute      what the client sends is thrown away
    hold-replies  what the server says arrives when it is over, late
    half-open the server's side is closed, and the client is not told
    refuse    nobody listens, and what was connected is reset

Whatever threw bytes away ends with a reset, since the rest of such a stream would mean something else.
"""
import collections
import errno
import selectors
import socket
import struct
import threading
import time

from servers import free_port

TURN_SECONDS = 0.02
PIECE = 65536
CONNECT_SECONDS = 5
REFUSE_SECONDS = 0.3
RESETS_AFTERWARDS = {"drop", "swallow", "mute", "half-open"}
RESET = struct.pack("ii", 1, 0)  # SO_LINGER that makes close() send a reset


def close_with_reset(end):
    try:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    except OSError:
        pass
    end.close()


class Pair:
    """One connection: two ends, and what is on its way between them."""

    def __init__(self, client, server):
        self.ends = [client, server]
        self.pending = [collections.deque(), collections.deque()]  # to each end: (due, bytes)
        self.is_cut = False

    def is_client(self, end):
        return end is self.ends[0]

    def other(self, end):
        return self.ends[1] if self.is_client(end) else self.ends[0]


class Proxy(threading.Thread):
    def __init__(self, server_port, address="127.0.0.1"):
        super().__init__(daemon=True)
        self.server_port = server_port
        self.address = address
        self.port = free_port()
        self.mode = "pass"
        self.delay = 0.0
        self.resets = 0
        self.cut_next = False  # the next request is forwarded by half, then all is reset
        self._wanted = "pass"
        self._reset_now = False
        self._is_stopped = False
        self._pairs = []
        self._listen_at = 0.0
        self._selector = selectors.DefaultSelector()
        self._listen()
        self.start()

    # ---- What the nemesis calls, from its own thread ----

    def set_mode(self, mode, delay=0.0):
        self.delay = delay
        self._wanted = mode

    def reset(self):
        self._reset_now = True

    def cut_mid_command(self):
        self.cut_next = True

    def heal(self):
        self.cut_next = False
        self.set_mode("pass")

    def stop(self):
        self._is_stopped = True
        self.join()

    # ---- The thread ----

    def _listen(self):
        """Later, while a child that another thread starts still has the old listener: until it runs its program."""
        try:
            self._listener = socket.create_server((self.address, self.port), backlog=64)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            self._listen_at = time.monotonic() + TURN_SECONDS
            return
        self._selector.register(self._listener, selectors.EVENT_READ, None)

    def _unlisten(self):
        self._selector.unregister(self._listener)
        self._listener.close()
        self._listener = None

    def run(self):
        while not self._is_stopped:
            self._turn()
        for pair in list(self._pairs):
            self._close(pair)
        if self._listener is not None:
            self._unlisten()
        self._selector.close()

    def _turn(self):
        if self._wanted != self.mode:
            self._change()
        if self._listener is None and self.mode != "refuse" and time.monotonic() >= self._listen_at:
            self._listen()
        if self._reset_now:
            self._reset_now = False
            self._reset_all()
        pause = 0.002 if any(map(any, (pair.pending for pair in self._pairs))) else TURN_SECONDS
        if self.mode == "hold":
            time.sleep(pause)
            return
        for key, _ in self._selector.select(pause):
            if key.data is None:
                self._accept()
            elif key.data in self._pairs:
                self._receive(key.data, key.fileobj)
        self._deliver()

    def _change(self):
        before, self.mode = self.mode, self._wanted
        if before in RESETS_AFTERWARDS or self.mode == "refuse":
            self._reset_all()
        if self.mode == "refuse" and self._listener is not None:
            self._unlisten()
        if self.mode == "half-open":
            for pair in self._pairs:
                self._cut_server(pair)

    def _accept(self):
        client, _ = self._listener.accept()
        try:
            server = socket.create_connection(("127.0.0.1", self.server_port), CONNECT_SECONDS)
        except OSError:
            close_with_reset(client)
            self._refuse_for_a_while()
            return
        pair = Pair(client, server)
        for end in pair.ends:
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            end.settimeout(CONNECT_SECONDS)
            self._selector.register(end, selectors.EVENT_READ, pair)
        self._pairs.append(pair)
        if self.mode == "half-open":
            self._cut_server(pair)

    def _refuse_for_a_while(self):
        """As the server itself does while it is down: a client with several servers goes on to the next."""
        self._unlisten()
        self._listen_at = time.monotonic() + REFUSE_SECONDS

    def _cut_server(self, pair):
        if not pair.is_cut:
            pair.is_cut = True
            self._selector.unregister(pair.ends[1])
            close_with_reset(pair.ends[1])

    def _receive(self, pair, end):
        try:
            data = end.recv(PIECE)
        except OSError:
            data = b""
        if not data:
            self._close(pair)
        elif pair.is_cut or self.mode == "drop":
            pass
        elif self.mode == "swallow" and not pair.is_client(end):
            pass
        elif self.mode == "mute" and pair.is_client(end):
            pass
        elif self.cut_next and pair.is_client(end):
            self._forward(pair, pair.other(end), data[:len(data) // 2])
            self.cut_next = False
            self._reset_all()
        else:
            late = self.mode == "delay" or (self.mode == "lag" and not pair.is_client(end))
            due = time.monotonic() + (self.delay if late else 0)
            pair.pending[pair.is_client(end)].append((due, data))

    def _deliver(self):
        now = time.monotonic()
        for pair in list(self._pairs):
            held = self.mode == "hold-replies"
            for end, pending in list(zip(pair.ends, pair.pending))[held:]:
                while pending and pending[0][0] <= now and pair in self._pairs:
                    self._forward(pair, end, pending.popleft()[1])

    def _forward(self, pair, end, data):
        try:
            end.sendall(data)
        except OSError:
            self._close(pair)

    def _reset_all(self):
        for pair in list(self._pairs):
            self.resets += 1
            self._close(pair)

    def _close(self, pair):
        if pair not in self._pairs:
            return
        self._pairs.remove(pair)
        for pending in pair.pending:
            pending.clear()
        for end in pair.ends[:1] if pair.is_cut else pair.ends:
            self._selector.unregister(end)
            close_with_reset(end)
