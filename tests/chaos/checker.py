"""Judges a run by its journals alone. Each rule is a function of the history that yields what is broken.

What no library can prevent is excused, in the windows that the nemesis names, and measured:

    overlap   A store that lost its data, or whose clock was stepped, gives a mutex to another while the old owner still
              believes: for at most a lease.
    split     A fail-over may lose leases that no replica had, and a master that was cut off may go on serving for a while:
              from the first to the last instant with two owners it takes at most a lease.
    equal     Contenders were given one id: each believes until its next renewal, for at most a lease.
    tokens    A store that lost its data may begin its tokens anew.
    crash     A process without memory may end.
    denied    While a password is changed the program may be refused.

Everything else holds always, whatever was done to whom.
"""
import collections
import dataclasses

from history import Term, fault_spans, load, terms_of, windows_of
from lease import LEASE_SECONDS, MUTEXES

PROGRAM_EXITS = {0, 69, 70, 75, 137, 143}  # its own codes, and those of a command that was killed
EXCUSED_EXITS = [(78, "tokens"),           # while a server that lost its data has no database yet
                 (77, "tokens"),           # or no user
                 (77, "denied")]           # while a new password is not known to both
ENDED_BY_FORCE = {"doubt", "killed", "crashed"}  # terms that nobody gave back
UNAVAILABLE = "69"
LOST = -20  # SIMBA_ELOST
AGREED_NS = int(6e9)  # a fail-over, and what an attempt before it may last
LED_NS = int(1.5e9)   # in which a leader writes, whatever it does besides
LEASE_NS = int(LEASE_SECONDS * 1e9)
EXCUSES = ("overlap", "split", "tokens", "crash", "denied")
CALLBACKS = ["begin-acquired", "end-acquired", "begin-released", "end-released"]


@dataclasses.dataclass
class Breach:
    rule: str
    at: int
    text: str


class History:
    """What the rules look at."""

    def __init__(self, events):
        self.events = events
        self.terms = terms_of(events)
        self.excused = {what: windows_of(events, what) for what in EXCUSES}
        self.equals = {event.words[0] for event in events if event.kind == "equal"}
        self.start = events[0].at if events else 0

    def is_excused(self, what, at):
        return any(begin <= at <= end for begin, end in self.excused[what])

    def losses_before(self, at):
        """How often tokens have begun anew."""
        return sum(1 for begin, _ in self.excused["tokens"] if begin <= at)

    def of(self, *kinds):
        return [event for event in self.events if event.kind in kinds]

    def terms_by_mutex(self):
        found = collections.defaultdict(list)
        for term in self.terms:
            found[term.mutex].append(term)
        return found

    def seconds(self, at):
        return (at - self.start) / 1e9


def overlaps(terms):
    """Pairs of terms of different owners, the second of which began before the first had ended."""
    going_on = []
    for term in terms:
        going_on = [other for other in going_on if other.end > term.begin]
        for other in going_on:
            if other.key() != term.key():
                yield other, term
        going_on.append(term)


@dataclasses.dataclass
class Overlap:
    first: Term
    second: Term
    excuse: str  # or None
    begin: int
    end: int

    def text(self):
        return (f"'{self.first.mutex}': {self.second.who} (token {self.second.fence}) owns while {self.first.who}"
                f" (token {self.first.fence}) does, for {(self.end - self.begin) / 1e6:.1f} ms")


def excuse_of(history, first, second):
    if {first.process(), second.process()} & history.equals:
        return "equal"
    return next((what for what in ("overlap", "split") if history.is_excused(what, second.begin)), None)


def all_overlaps(history):
    """Of each mutex, in the order of time: {mutex: [Overlap]}."""
    return {mutex: [Overlap(first, second, excuse_of(history, first, second), second.begin,
                            min(first.end, second.end)) for first, second in overlaps(terms)]
            for mutex, terms in history.terms_by_mutex().items()}


def episodes(found):
    """Overlaps that follow each other within a lease, together: (begin, end) of each."""
    begin = end = None
    for overlap in found:
        if end is not None and overlap.begin > end + LEASE_NS:
            yield begin, end
            begin = end = None
        begin, end = begin or overlap.begin, max(end or 0, overlap.end)
    if end is not None:
        yield begin, end


def check_one_owner(history):
    """At most one owner believes at any instant; nothing runs under a lease that another has."""
    for mutex, found in all_overlaps(history).items():
        for overlap in found:
            if overlap.excuse is None:
                yield overlap.begin, overlap.text()
            elif overlap.end - overlap.begin > LEASE_NS:
                yield overlap.begin, overlap.text() + ", longer than a lease"
        for begin, end in episodes(one for one in found if one.excuse == "split"):
            if end - begin > 2 * LEASE_NS:  # sentinels may promote the old master again at once
                yield begin, (f"'{mutex}': two owners again and again, for {(end - begin) / 1e6:.1f} ms,"
                              " longer than two leases")


def check_slots(history):
    """Nobody has a slot beyond the number of slots, and never do more believe than there are slots."""
    for event in history.of("semaphore"):
        name, slots = event.words[0], int(event.words[1])
        going_on = []
        for term in history.terms:
            base, _, slot = term.mutex.rpartition("#")
            if base != name:
                continue
            if int(slot) >= slots:
                yield term.begin, f"'{name}': {term.who} has slot {slot} of {slots}"
            going_on = [other for other in going_on if other.end > term.begin] + [term]
            if len(going_on) > slots and not any(history.is_excused(what, term.begin) for what in ("overlap", "split")):
                yield term.begin, f"'{name}': more than {slots} believe: " + " ".join(one.who for one in going_on)


def check_whole(history):
    """Who says that it has a slot has one, and who says that it has a set has all of it."""
    for event in history.of("partial"):
        yield event.at, f"{event.words[1]} says that it owns, and has no token of '{event.words[0]}'"


def check_turns(history):
    """After everything has healed, each that takes slots or sets gets one within the bound."""
    for event in history.of("unserved"):
        yield event.at, f"{event.words[0]} gets no turn {event.words[1]} s after all has healed"


def check_tokens(history):
    """Every term has a larger token than all that ended before, since the store last lost its data, and no two have the
    same."""
    for mutex, terms in history.terms_by_mutex().items():
        before, losses = [], 0
        for term in terms:
            if history.losses_before(term.begin) > losses:
                before, losses = [], history.losses_before(term.begin)
            if history.is_excused("tokens", term.begin) or any(one.key() == term.key() for one in before):
                continue
            slack = LEASE_NS if history.is_excused("split", term.begin) else 0  # two servers grant at once
            wrong = [one.fence for one in before if one.fence == term.fence
                     or (one.fence > term.fence and one.end <= term.begin - slack)]
            if wrong:
                yield term.begin, f"'{mutex}': {term.who} has token {term.fence} after {max(wrong)}"
            before.append(term)


class _Callbacks:
    """Where one contender is in its round of callbacks."""

    def __init__(self):
        self.expected = {"begin-acquired"}
        self.is_stopped = False

    def take(self, event):
        """What is wrong with this event, or None."""
        if event.kind == "starting":
            self.is_stopped = False
            return None
        if event.kind == "stopped":
            return self._stop(int(event.words[2]))
        if self.is_stopped and event.kind.startswith("begin-"):
            return f"{event.kind} after its stop has returned"
        wrong = event.kind not in self.expected
        place = CALLBACKS.index(event.kind)
        expected, self.expected = self.expected, {CALLBACKS[(place + 1) % len(CALLBACKS)]}
        return f"{event.kind} where {' or '.join(expected)} belongs" if wrong else None

    def _stop(self, code):
        self.is_stopped = True
        between = self.expected <= {"begin-acquired", "begin-released"}
        if code == 0 and not between:
            return "its stop returns while a callback runs"
        # A callback that cannot begin before a stop is given up is dropped.
        self.expected = {"begin-acquired"} if code == 0 or between else self.expected
        return None


def check_callbacks(history):
    """on_acquired and on_released alternate, one at a time, none after the stop has returned."""
    members = collections.defaultdict(_Callbacks)
    for event in history.of("starting", "stopped", *CALLBACKS):
        if event.words[0] == "lead":
            wrong = members[event.words[1]].take(event)
            if wrong:
                yield event.at, f"{event.words[1]}: {wrong}"


def check_losses(history):
    """A release is not told lost before the lease is over by the owner's own clock: until then nobody else can have had
    it."""
    ended = {}  # who: when its last term was over
    for event in history.of("unlocked", "stopped"):
        _, who, code = event.words
        since, ended[who] = ended.get(who, history.start), event.at
        terms = [term for term in history.terms
                 if term.who == who and term.how == "yield" and since < term.begin < event.at]
        excused = who.split("/")[0] in history.equals or any(
            begin <= event.at and end >= since for what in ("overlap", "split", "tokens")
            for begin, end in history.excused[what])
        if int(code) == LOST and terms and all(term.deadline > event.at for term in terms) and not excused:
            yield event.at, f"{who} is told that '{terms[0].mutex}' was lost, within its lease"


def check_resource(history):
    """The resource takes no lower token after a higher one, and no update is lost."""
    highest, counters = {}, {}
    for event in history.of("write", "forget"):
        if event.kind == "forget":
            highest.clear()
            continue
        mutex, fence, who, value = event.words
        fence, value = int(fence), int(value)
        if fence < highest.get(mutex, 0):
            yield event.at, f"'{mutex}': the resource took token {fence} of {who} after a higher one"
        if value != counters.get(mutex, 0) + 1 and not history.is_excused("tokens", event.at):
            yield event.at, f"'{mutex}': an update was lost: {who} wrote {value}" \
                            f" after {counters.get(mutex, 0)}"
        highest[mutex], counters[mutex] = fence, value


def check_leaders(history):
    """After everything has healed there is a leader within the bound."""
    for event in history.of("unled"):
        yield event.at, f"'{event.words[0]}': nobody leads {event.words[1]} s after all has healed"


def check_reach(history):
    """While all workers reach a majority that serves, and after the time that it needs to agree, all mutexes are led, and
    no worker is told that the store cannot be reached. Nothing is demanded where another fault strikes meanwhile."""
    spans = fault_spans(history.events)
    for begin, end in windows_of(history.events, "reach", "demand"):
        if sum(since < end and until > begin for _, _, since, until in spans) > 1:
            continue
        late = [event for event in history.of("exit", "unreachable", "write") if begin + AGREED_NS < event.at < end]
        led = {event.words[0] for event in late if event.kind == "write"}
        for mutex in MUTEXES:
            if mutex not in led and end - begin > AGREED_NS + LED_NS:
                yield end, f"'{mutex}': nobody leads, though a majority of the servers can be reached"
        for event in late:
            if event.kind == "unreachable":
                yield event.at, f"{event.words[1]} cannot reach a store that serves"
            elif event.kind == "exit" and event.words[0].startswith("p") and event.words[1] == UNAVAILABLE:
                yield event.at, f"{event.words[0]} cannot reach a store that serves"


def check_leftovers(history):
    """At the end no thread, no descriptor, no process is left, and nothing on the store."""
    for event in history.of("left"):
        threads, descriptors = map(int, event.words)
        if threads > 0 or descriptors > 0:
            yield event.at, f"a worker leaves {threads} threads and {descriptors} descriptors"
    for event in history.of("remains"):
        yield event.at, "left behind: " + " ".join(event.words)


def check_ends(history):
    """Workers end as they were told, the program with a code of its own, and forked children own nothing."""
    for event in history.of("exit"):
        who, code = event.words[0], int(event.words[1])
        allowed = PROGRAM_EXITS if who.startswith("p") else {0}
        if any(code == known and history.is_excused(what, event.at) for known, what in EXCUSED_EXITS):
            continue
        if code not in allowed and not history.is_excused("crash", event.at):
            yield event.at, f"{who} ended with {code}"
    for event in history.of("forked"):
        if event.words != ["0"]:
            yield event.at, f"a forked child is not dead to its parent's handles: {event.words[0]}"
    for event in history.of("broken"):
        if not history.is_excused("crash", event.at):
            yield event.at, "a worker is broken: " + " ".join(event.words)


def check_shown(history):
    """A run in which nobody led or wrote has shown nothing."""
    written = {event.words[0] for event in history.of("write")}
    slots = [f"{event.words[0]}#{slot}" for event in history.of("semaphore") for slot in range(int(event.words[1]))]
    for mutex in MUTEXES + slots + [name for event in history.of("sets") for name in event.words]:
        if mutex not in written:
            yield history.start, f"'{mutex}': nothing was written under it"


RULES = {
    "one owner": check_one_owner,
    "no more than the slots": check_slots,
    "all of a set": check_whole,
    "tokens grow": check_tokens,
    "callbacks alternate": check_callbacks,
    "no false loss": check_losses,
    "fenced resource": check_resource,
    "leader after healing": check_leaders,
    "turn after healing": check_turns,
    "within reach": check_reach,
    "nothing left": check_leftovers,
    "orderly ends": check_ends,
    "something shown": check_shown,
}


def judge(history):
    """All breaches, in the order of time."""
    found = [Breach(name, at, text) for name, rule in RULES.items() for at, text in rule(history)]
    return sorted(found, key=lambda breach: breach.at)


def changes(history):
    """Pairs of terms of one mutex, where the owner changed from the first to the second."""
    for terms in history.terms_by_mutex().values():
        yield from ((one, other) for one, other in zip(terms, terms[1:]) if one.key() != other.key())


def gaps_after_healing(history):
    """For each fault that ends while no other is under way, and each mutex that nobody owns then, though somebody always
    wants it: the seconds until it is owned again."""
    spans = fault_spans(history.events)
    for _, _, _, healed in spans:
        if any(begin < healed < end for _, _, begin, end in spans):
            continue
        for mutex, terms in history.terms_by_mutex().items():
            if mutex in MUTEXES and not any(term.begin <= healed < term.end for term in terms):
                later = [term.begin for term in terms if term.begin > healed]
                yield from [(later[0] - healed) / 1e9] if later else []


def count(history):
    """What the table of a run tells."""
    passed_on = [one.how for one, _ in changes(history)]
    excused = [one for found in all_overlaps(history).values() for one in found if one.excuse]
    waits = [float(event.words[1]) for event in history.of("led")]
    return {
        "faults": len(history.of("fault")),
        "terms": len({(term.mutex, *term.key()) for term in history.terms}),
        "hand-overs": sum(how not in ENDED_BY_FORCE for how in passed_on),
        "fail-overs": sum(how in ENDED_BY_FORCE for how in passed_on),
        "leases lost": len(history.of("doubt")),
        "writes": len(history.of("write")),
        "stale uses refused": len(history.of("refuse-read", "refuse-write")),
        "excused overlaps": len(excused),
        "longest overlap": max([(one.end - one.begin) / 1e9 for one in excused], default=0.0),
        "slowest leader": max(waits, default=0.0),
        "after healing": list(gaps_after_healing(history)),
    }


def check_folder(folder):
    """A run's history and what is broken in it."""
    history = History(load(folder))
    return history, judge(history)

