#!/usr/bin/env python3
"""Redis and those who are not to be trusted: users with few rights on a real server, and servers that lie."""
import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))
from program import Simba, case, equal, main, number, read, true, wait_until
from resp import Client
from servers import Redis

LEASE_MS = 30000
LEASE_OPTIONS = "ttl=20s&transition=10s&jitter=0ms..50ms"
DAY_US = 86400 * 1000 * 1000
HOLD = "echo $SIMBA_FENCE >owner.new; mv owner.new owner; exec sleep 600"
STEAL = "echo $SIMBA_FENCE >second.new; mv second.new second"


class Served:
    """A server with its administrator, and with a user that may do nothing but PUBLISH."""

    def __enter__(self):
        self.server = Redis()
        self.server.start()
        self.admin = Client(self.server.port)
        self.admin.ask("ACL", "SETUSER", "speaker", "on", ">secret", "resetkeys", "&*", "-@all", "+publish", "+select")
        self.speaker = Client(self.server.port, "speaker", "secret")
        return self

    def __exit__(self, *unused):
        self.speaker.close()
        self.admin.close()
        self.server.stop()

    def url(self, database=0):
        return f"redis://127.0.0.1:{self.server.port}/{database}?{LEASE_OPTIONS}"

    def now_us(self):
        seconds, micros = self.admin.ask("TIME")
        return int(seconds) * 1000000 + int(micros)

    def calls(self, command):
        stats = self.admin.ask("INFO", "commandstats")
        found = [line for line in stats.split() if line.startswith(f"cmdstat_{command}:calls=")]
        return int(found[0].split("=")[1].split(",")[0]) if found else 0

    def channel(self):
        """Of the only waiter, once it listens."""
        return wait_until(lambda: self.admin.ask("PUBSUB", "CHANNELS", "simba:{m}:*"), "a waiter listens")[0]


def forgeries(now_us):
    """What a release might say, and what none would say; with the lease, the key and the database of the waiter."""
    yield "released@@x"
    yield "released@@"
    for token in (1, now_us, now_us + 60 * 1000 * 1000, now_us + 300 * DAY_US, 9007199254740991, 2**63 - 1):
        for at in (now_us, now_us - 1000000, now_us + 1000000):
            yield f"released@@x@@handed@@{token}@@{at}@@{LEASE_MS}@@{len('simba:{m}')}@@0"
    yield "acquired@@x"
    yield "handed@@"
    yield "released@@" + "x" * 100000


@case
def a_user_with_nothing_but_publish_makes_no_second_owner():
    with Served() as served:
        owner = Simba("--url", served.url(), "lock", "m", "--", "sh", "-c", HOLD)
        token = number("owner")
        waiter = Simba("--url", served.url(), "lock", "m", "--", "sh", "-c", STEAL)
        channel = served.channel()
        before = served.admin.ask("GET", "simba:{m}")
        for text in forgeries(served.now_us()):
            attempts = served.calls("evalsha")
            equal(served.speaker.ask("PUBLISH", channel, text), 1)
            served.speaker.ask("PUBLISH", "simba:{m}", text)
            if text.startswith("released@@"):
                wait_until(lambda: served.calls("evalsha") > attempts or os.path.exists("second"), "the waiter looks")
            true(not os.path.exists("second"), f"a second command runs after {text[:100]!r}")
            equal(served.admin.ask("GET", "simba:{m}"), before)
        equal(int(served.admin.ask("GET", "simba:{m}:fence")), token)
        owner.end()
        equal(waiter.wait(), 0)
        true(token < int(read("second")) < served.now_us() + DAY_US, "the token of the second term")


@case
def a_flood_of_messages_makes_a_waiter_look_once_in_a_round_trip():
    with Served() as served:
        owner = Simba("--url", served.url(), "lock", "m", "--", "sh", "-c", HOLD)
        number("owner")
        waiter = Simba("--url", served.url(), "lock", "m", "--", "sh", "-c", STEAL)
        channel = served.channel()
        wait_until(lambda: served.calls("evalsha") + served.calls("eval") >= 3, "the waiter has looked twice")
        before = served.calls("evalsha")
        # All at once, so that no attempt is answered between two of them.
        served.admin.ask("EVAL", "for i = 1, ARGV[2] do redis.call('PUBLISH', ARGV[1], 'released@@x') end", 0, channel, 2000)
        wait_until(lambda: served.calls("evalsha") > before, "the waiter looks")
        owner.end()
        equal(waiter.wait(), 0)
        true(served.calls("evalsha") - before < 200, f"{served.calls('evalsha') - before} attempts")


if __name__ == "__main__":
    sys.exit(main())
