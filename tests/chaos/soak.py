#!/usr/bin/env python3
"""Many mutexes under faults for a long time: memory, descriptors and threads must not grow.

    soak.py --programs FOLDER [--store NAME] [--minutes N] [--mutexes N] [--seed N]

Two processes contend for all mutexes. Faults strike for most of a minute; then all is healed, every mutex has an
owner again, and both processes tell what they use. The last third of what they told is compared with the
third after the first calm.
"""
import argparse
import os
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from clock import now, wait_until
from history import load, parse
from process import Process, adopt_orphans
from proxy import Proxy
from run import Programs
from stores import STORES

MODES = ["delay", "hold", "drop", "swallow", "half-open", "refuse"]
LEASE = "ttl=2s&transition=3s&jitter=0ms..500ms"
CALM_SECONDS = 20   # of every minute
HEAL_SECONDS = 120  # for all mutexes to be owned again
GROWTH = 1.10
SPARE = {"resident": 3072, "heap": 1024, "descriptors": 2, "threads": 4}
FIELDS = ["resident", "heap", "descriptors", "threads", "owned", "losses", "errors"]


def parse_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", required=True)
    parser.add_argument("--store", default="redis", choices=[name for name, store in STORES.items()
                                                             if store.is_proxied])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--mutexes", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


class Soaker:
    """One process, behind a proxy of its own."""

    def __init__(self, name, store, folder, program, mutexes):
        self.name = name
        self.journal = os.path.join(folder, name + ".journal")
        self.proxies = [Proxy(server.port) for server in store.entrances()]
        url = store.url([("127.0.0.1", proxy.port) for proxy in self.proxies])
        self.process = Process([program, name, url, self.journal, str(mutexes)],
                               os.path.join(folder, name + ".log"))
        self.told = 0

    def set_mode(self, mode, delay=0.0):
        for proxy in self.proxies:
            proxy.set_mode(mode, delay)

    def use(self):
        """What it uses now."""
        os.kill(self.process.pid, signal.SIGUSR1)
        found = wait_until(lambda: self._told_more("use"), f"{self.name} tells what it uses", HEAL_SECONDS)
        self.told = len(found)
        return dict(zip(FIELDS, map(int, found[-1].words)))

    def _told_more(self, kind):
        with open(self.journal, encoding="utf-8") as lines:
            found = [event for event in parse(lines) if event.kind == kind]
        return found if len(found) > self.told else None

    def await_opened(self):
        wait_until(lambda: os.path.exists(self.journal) and self._told_more("opened"),
                   f"{self.name} takes part", HEAL_SECONDS)

    def end(self):
        self.process.ask_to_end()
        code = self.process.end()
        for proxy in self.proxies:
            proxy.stop()
        return code


def trouble(soakers, store, dice, seconds):
    """Faults, one after another, on one process, on both, or on the server."""
    end = now() + seconds
    while now() < end:
        victim = dice.choice(soakers)
        if dice.random() < 0.2:
            store.servers[0].freeze()
            time.sleep(dice.uniform(0.2, 2))
            store.servers[0].go_on()
        elif dice.random() < 0.2:
            victim.process.freeze()
            time.sleep(dice.uniform(1, 8))
            victim.process.go_on()
        else:
            victim.set_mode(dice.choice(MODES), dice.uniform(0.01, 0.5))
            time.sleep(dice.uniform(0.5, 8))
            victim.set_mode("pass")
        time.sleep(dice.uniform(0.1, 1))


def take_samples(soakers, mutexes):
    """When every mutex is owned; nearly, for some are just being handed over."""
    samples = []

    def all_owned():
        samples[:] = [soaker.use() for soaker in soakers]
        return sum(sample["owned"] for sample in samples) >= mutexes - 5
    wait_until(all_owned, "every mutex is owned again", HEAL_SECONDS)
    return samples


def growth(series):
    """What has grown, in words: the last third against the second."""
    third = max(len(series) // 3, 1)
    found = []
    for field, spare in SPARE.items():
        before = statistics.median(sample[field] for sample in series[-2 * third:-third] or series[:1])
        after = statistics.median(sample[field] for sample in series[-third:])
        if after > before * GROWTH + spare:
            found.append(f"{field} grew from {before:.0f} to {after:.0f}")
    return found


def show(minute, name, sample):
    print(f"# {minute:6.1f} min {name}: " + ", ".join(f"{field} {value}" for field, value in sample.items()),
          flush=True)


def soak(options, store, folder, soakers):
    dice = random.Random(options.seed)
    series = {soaker.name: [] for soaker in soakers}
    begin = now()
    while not series["s0"] or now() - begin < 60 * options.minutes:
        if series["s0"]:
            trouble(soakers, store, dice, 60 - CALM_SECONDS)
        for soaker, sample in zip(soakers, take_samples(soakers, options.mutexes)):
            series[soaker.name].append(sample)
            show((now() - begin) / 60, soaker.name, sample)
    broken = [" ".join(event.words) for event in load(folder) if event.kind == "broken"]
    return broken + [f"{name}: {text}" for name, samples in series.items() for text in growth(samples)]


def main():
    options = parse_options()
    missing = STORES[options.store].missing()
    if missing:
        print(f"ok 1 - {options.store} # SKIP {missing}\n1..1")
        return 0
    adopt_orphans()
    programs = Programs(os.path.abspath(options.programs))
    folder = tempfile.mkdtemp(prefix="simba-soak-")
    os.chmod(folder, 0o755)
    store = STORES[options.store](os.path.join(folder, "store"))
    store.lease = LEASE
    soakers = []
    try:
        store.start()
        soakers = [Soaker(f"s{i}", store, folder, programs.soak, options.mutexes) for i in range(2)]
        for soaker in soakers:
            soaker.await_opened()
        faults = soak(options, store, folder, soakers)
    finally:
        codes = [soaker.end() for soaker in soakers]
        store.stop()
        shutil.rmtree(folder, ignore_errors=True)
    faults += [f"a process ended with {code}" for code in codes if code != 0]
    print(f"{'not ok' if faults else 'ok'} 1 - {options.mutexes} mutexes on {options.store} for"
          f" {options.minutes:g} minutes use no more than at the beginning")
    for fault in faults:
        print("# " + fault)
    print("1..1")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
