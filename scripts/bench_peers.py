"""Other locks beside ours: libraries that answer lines of measurements, and programs that are run."""
import json
import os
import random
import signal
import statistics
import subprocess
import tempfile
import time

SIDE_JARS = ["curator-recipes", "curator-framework", "curator-client", "zookeeper", "zookeeper-jute",
             "guava", "failureaccess", "slf4j-api", "slf4j-nop", "netty-all", "netty-common",
             "netty-handler", "netty-transport", "netty-buffer", "metrics-core", "snappy-java"]


def simba_bench(program, url, *arguments):
    done = subprocess.run([program, "bench", "--json", "-u", url, *arguments], check=False, capture_output=True,
                          text=True)
    if done.returncode != 0:
        raise RuntimeError(f"simba bench {' '.join(arguments)} on {url}: {done.stderr}")
    return json.loads(done.stdout)


def ask_program(program, url, question, count):
    """The library's median of so many measurements."""
    answer = simba_bench(program, url, question, "--rounds", "1", "--count", str(count))
    return answer["questions"][question]["measures"]["simba"]["p50"]


def summarize(values):
    ordered = sorted(values)
    return {"count": len(ordered), "min": ordered[0], "p50": statistics.median(ordered),
            "p99": ordered[round(0.99 * (len(ordered) - 1))], "max": ordered[-1]}


def in_rounds(rounds):
    """Lists of measurements, one for each round, as `simba bench` tells them."""
    medians = [statistics.median(values) for values in rounds]
    return {**summarize([value for values in rounds for value in values]),
            "round_low": min(medians), "round_high": max(medians), "medians": medians}


class Peer:
    """A program that answers "QUESTION COUNT" by a line of microseconds."""

    def __init__(self, name, command):
        self.name = name
        self.complaints = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.complaints, text=True)

    def ask(self, question, count):
        self.process.stdin.write(f"{question} {count}\n")
        self.process.stdin.flush()
        answer = [float(word) for word in self.process.stdout.readline().split()]
        if len(answer) != count:
            self.complaints.seek(0)
            raise RuntimeError(f"{self.name} did not answer {question} {count}: "
                               f"{self.complaints.read()[-2000:]}")
        return answer

    def stop(self):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.complaints.close()


def python_peer(name, kind, address, root, python="/usr/bin/python3"):
    """By default with Debian's interpreter, which has Debian's packages."""
    return Peer(name, [python, os.path.join(root, "bench/peers.py"), kind, address])


def curator_classes(root, folder):
    """Compiles Curator's side; returns its class path."""
    jars = ":".join(f"/usr/share/java/{name}.jar" for name in SIDE_JARS)
    subprocess.run(["javac", "-cp", jars, "-d", folder, os.path.join(root, "bench/CuratorPeer.java")],
                   check=True)
    return f"{folder}:{jars}"


def curator_peer(name, recipe, address, classes):
    return Peer(name, ["java", "-cp", classes, "CuratorPeer", recipe, address])


# ---- Programs -------------------------------------------------------------------------------

def run_ms(command):
    begin = time.monotonic()
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return (time.monotonic() - begin) * 1000


def measure_commands(commands, rounds, count):
    """Runs commands to their end, in turns. `commands`: by name. Returns milliseconds."""
    measured = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            run_ms(command)  # the first of a block finds its files in memory
            measured[name].append([run_ms(command) for _ in range(count)])
    return {name: in_rounds(values) for name, values in measured.items()}


def kill_owner_ms(program, url, mutex):
    """From the kill -9 of an owner to the start of the waiter's command. Generator of two steps, so that
    many of them can be under way: yields once when the waiter waits, then the milliseconds."""
    lock = [program, "lock", "-q", "-u", url, mutex, "--"]
    owner = subprocess.Popen([*lock, "sleep", "1000"], stdin=subprocess.DEVNULL)
    while not _owns(program, url, mutex):
        time.sleep(0.01)
    waiter = subprocess.Popen([*lock, "date", "+%s.%N"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, text=True)
    yield None
    killed = time.time()
    owner.send_signal(signal.SIGKILL)
    started = float(waiter.communicate()[0])
    owner.wait()
    yield (started - killed) * 1000


def _owns(program, url, mutex):
    done = subprocess.run([program, "status", "-u", url, "--json", mutex], check=False,
                          capture_output=True, text=True)
    return '"state":"held"' in done.stdout.replace(" ", "")


def measure_kills(program, rounds):
    """Kill -9 of `simba lock` on SQLite with the usual lease, one after the other."""
    values = []
    with tempfile.TemporaryDirectory(prefix="simba-bench-") as folder:
        for number in range(rounds):
            steps = kill_owner_ms(program, f"sqlite:{folder}/store.db", f"kill-{number}")
            next(steps)
            time.sleep(0.3 + random.random())  # the waiter waits, and the lease is some time old
            values.append(next(steps))
    return summarize(values)
