"""Reads the journals of a run into events, and events into terms: who certainly believed when, with which token.

    believe MUTEX WHO FENCE DEADLINE    it owned at this instant; without news it does until DEADLINE (0: unknown)
    doubt MUTEX WHO                     it does not own any more
    yield MUTEX WHO                     it is about to give the mutex back
    alive MUTEX WHO FENCE               a process that runs under a lease of the program is alive
    begin-acquired, end-acquired, begin-released, end-released, started, stopped     the life of a contender
    write, refuse-read, refuse-write, forget                                         the fenced resource
    missed, unreachable                                                              what a locker did not get
    partial MUTEX WHO                   it says that it owns a slot or a set, and has no token of this one
    fault, healed, killed, crashed, excuse, unexcuse, demand, undemand, equal        the nemesis
    exit, unled, led, unserved, served, remains                                      the harness
    semaphore NAME SLOTS, sets NAME...                                               what it lets workers take

All instants are nanoseconds on the boot clock. A term is made of what is certain only: it begins after the first
answer that said so, and ends with the last deadline, the loss or the wish to give back, whatever came first.
"""
import dataclasses
import glob
import os

NEVER = 1 << 62


@dataclasses.dataclass(order=True)
class Event:
    at: int
    kind: str
    words: list


@dataclasses.dataclass
class Term:
    mutex: str
    who: str
    fence: int
    begin: int
    end: int
    deadline: int
    how: str = "end"  # the event that ended it, where one did

    def process(self):
        """The process, or the run of the program, that it belongs to."""
        return self.who.split("/")[0]

    def key(self):
        """Processes under one lease of the program are one owner."""
        return self.process(), self.fence


def parse(lines):
    events = []
    for line in lines:
        words = line.split()
        if len(words) > 1 and line.endswith("\n"):  # a line that was cut off by a kill says nothing
            events.append(Event(int(words[0]), words[1], words[2:]))
    return events


def load(folder):
    """All events of a run, in the order of time."""
    events = []
    for path in glob.glob(os.path.join(folder, "*.journal")):
        with open(path, encoding="utf-8", errors="replace") as lines:
            events += parse(lines)
    return sorted(events, key=lambda event: event.at)


class _Reader:
    """Follows the events of all contenders, in the order of time."""

    def __init__(self):
        self.open = {}       # (mutex, who): its term
        self.last = {}       # (mutex, who): the last instant at which it certainly believed
        self.yielding = {}   # (mutex, who): the term that it is giving back
        self.killed = set()  # processes and runs of the program
        self.terms = []

    def take(self, event):
        handler = getattr(self, "on_" + event.kind.replace("-", "_"), None)
        if handler is not None:
            handler(event)

    def on_believe(self, event):
        """What is written between the kill and the death has no deadline that anybody keeps."""
        mutex, who, fence, deadline = event.words
        if who.split("/")[0] not in self.killed:
            self._extend(event.at, mutex, who, int(fence), int(deadline))

    def on_alive(self, event):
        """Nothing can stop what has left the group of a command (it ends with a +) when the program was killed."""
        mutex, who, fence = event.words
        if who.endswith("+") and who.split("/")[0] in self.killed:
            return
        self._extend(event.at, mutex, who, int(fence), 0)

    def _extend(self, at, mutex, who, fence, deadline):
        key = mutex, who
        term = self.open.get(key)
        if term is not None and term.fence != fence:
            self._close(key, at)
            term = None
        if term is None:
            term = self.open[key] = Term(mutex, who, fence, at, at, deadline)
        term.deadline = deadline
        self.last[key] = at

    def on_doubt(self, event):
        self._close(tuple(event.words[:2]), event.at, event.kind)

    def on_yield(self, event):
        key = tuple(event.words[:2])
        self.yielding[key] = self.open.get(key)
        self._close(key, event.at, event.kind)

    def on_end_released(self, event):
        """Before that a mutex is not given back, as long as the lease lasts."""
        term = self.yielding.pop(tuple(event.words[:2]), None)
        if term is not None:
            term.end = max(term.end, min(event.at, term.deadline))

    def on_started(self, event):
        self.yielding.pop(tuple(event.words[:2]), None)

    def on_killed(self, event):
        self.killed.add(event.words[0])
        self._close_all(event.words[0], event.at, event.kind)

    def on_crashed(self, event):
        """When, nobody knows: certain is what it said itself."""
        self._close_all(event.words[0], 0, event.kind)

    def _close_all(self, process, at, how):
        for key in [key for key in self.open if key[1].split("/")[0] == process]:
            self._close(key, at, how)

    def _close(self, key, at, how="end"):
        term = self.open.pop(key, None)
        if term is not None:
            term.how = how
            term.end = max(self.last[key], min(term.deadline, at))
            self.terms.append(term)

    def finish(self):
        for key in list(self.open):
            self._close(key, NEVER)


def terms_of(events):
    """All terms, in the order in which they began."""
    reader = _Reader()
    for event in events:
        reader.take(event)
    reader.finish()
    return sorted(reader.terms, key=lambda term: term.begin)


def windows_of(events, what, verb="excuse"):
    """When a rule cannot be demanded, or can, because of what the nemesis did: [(begin, end)]."""
    windows, begin, depth = [], 0, 0
    for event in events:
        if event.kind == verb and event.words[0] == what:
            begin = event.at if depth == 0 else begin
            depth += 1
        elif event.kind == "un" + verb and event.words[0] == what:
            depth -= 1
            if depth == 0:
                windows.append((begin, event.at))
    if depth > 0:
        windows.append((begin, NEVER))
    return windows


def fault_spans(events):
    """(name, victim, begin, end) of each fault."""
    open_ones, spans = {}, []
    for event in events:
        if event.kind == "fault":
            open_ones.setdefault(event.words[0], []).append((event.at, event.words[2]))
        elif event.kind == "healed" and open_ones.get(event.words[0]):
            begin, victim = open_ones[event.words[0]].pop(0)
            spans.append((event.words[0], victim, begin, event.at))
    spans += [(name, victim, begin, NEVER) for name, rest in open_ones.items()
              for begin, victim in rest]
    return sorted(spans, key=lambda span: span[2])
