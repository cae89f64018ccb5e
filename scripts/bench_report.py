"""Writes docs/internals/benchmarks.md and its plots from what scripts/bench has measured."""
import os
import statistics

import bench_plot as plot
import wrap_prose

NAMES = {"sqlite": "SQLite", "redis": "Redis", "postgres": "PostgreSQL", "mariadb": "MariaDB",
         "zookeeper": "ZooKeeper", "etcd": "etcd"}
PINS = {"unpinned": "all cores", "pinned": "one core"}
ROUNDS = ("the median", "from the lowest to the highest median of a round")
ALL = ("the median", "from the shortest to the longest")

INTRODUCTION = """# Benchmarks

Written by `make bench`, which measures on the machine that it runs on; do not edit it by hand.

How to read the tables:

- `simba bench` uses the library as an application does. In the same run, in turns, it uses the store's own
  client library for the least that any client would have to do. The ratio of the two says more than either:
  a slow or busy machine is slow for both.
- A row "by hand" sends the library's own scripts or statements with the plain client. The difference to the
  least is the store's work; the difference to Simba is the library's.
- A cell has the median, and in brackets the lowest and the highest median of a round. If these are far apart,
  the machine was busy.
- Every table is there twice: on all cores, where each round trip wakes a sleeping core, and with clients and
  servers pinned to one core, which compares code with code.
- Servers run on the same machine, with the settings of their packages. SQL databases and ZooKeeper sync their
  disk at every commit, SQLite does not have to ([why](sqlite.md)), Redis keeps nothing on disk.
"""

GAPS = """What lies between a number and its goal:

- Redis: a trivial script does nothing. Ours look at the owner, the counter and the queue, and tell the
  listeners: six and four commands of the server. On one core that alone is more than the goal allows; the
  rows "by hand" show what the library adds. On all cores the kernel sometimes puts client and server on the
  same core, with the same effect. A hand-over is measured after a rest, when caches are cold for more code
  than a plain client has; a waiter is told to try and then asks, as the plain client does.
- Redis beside 40 waiting clients, on all cores: without them the kernel puts client and server on one core, with
  them on two, where each round trip wakes a sleeping core. On one core the waiting clients cost nothing.
- MariaDB: our UPDATE changes five columns, the one beside it a single number. Beside 40 waiting clients: each polls
  five times a second, for releases that nobody announces.
- PostgreSQL: a cycle takes less than two updates because a release does not wait for the disk.
- SQLite: the two updates by hand are those of one process. A hand-over also wakes another process, which takes
  about as long as both updates on a virtual machine whose core sleeps, and that process finds nothing in its
  caches. To do no more than the updates and the wake-up would take twice as long as the updates.
- ZooKeeper: its client library passes everything through two threads of its own. A hand-over takes little
  longer than a delete and a watch by hand, so little is left to save beside Curator. Each
  of 1,000 contenders reads the names of all others twice for each turn, as the JVM library's do.
- `simba lock` on etcd, on one core: the server shares it, and it is the server that takes most of the time.
- `simba lock` starts four threads and two processes, `flock` one process; a third of the time is spent on
  pages that are touched for the first time.
"""


def number(value):
    return "-" if value is None else plot.number(value) if abs(value) >= 0.005 else f"{value:.3f}"


def spread(values, factor=1):
    """p50 (low .. high)"""
    return (f"{number(values['p50'] * factor)} ({number(values['round_low'] * factor)} .. "
            f"{number(values['round_high'] * factor)})")


def ratio_text(ratio):
    return f"{ratio['value']:.2f} ({ratio['low']:.2f} .. {ratio['high']:.2f})"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


class Page:
    """The text so far, and where its plots go."""

    def __init__(self, folder):
        self.folder = folder
        self.parts = [INTRODUCTION]
        os.makedirs(os.path.join(folder, "benchmarks"), exist_ok=True)

    def add(self, *parts):
        self.parts += parts

    def plot(self, name, drawing, what):
        with open(os.path.join(self.folder, "benchmarks", name), "w", encoding="utf-8") as file:
            file.write(drawing)
        self.add(f"![{what}](benchmarks/{name})\n")

    def write(self):
        with open(os.path.join(self.folder, "benchmarks.md"), "w", encoding="utf-8") as file:
            file.write(wrap_prose.wrap_document("\n".join(self.parts)))


def answers(results, question, pin):
    """(name of the store, its answer to a question) in the order of the stores."""
    for store, name in NAMES.items():
        answer = results.get("stores", {}).get(f"{store} {pin}")
        if answer is not None and question in answer["questions"]:
            yield store, name, answer["questions"][question]


# ---- The parts of the page --------------------------------------------------------------------

def tell_machine(page, results):
    answer = next(iter(results.get("stores", {}).values()), None)
    if answer is not None:
        machine = answer["machine"]
        rows = [["processor", f"{machine['cpu']}, {machine['cores']} cores"],
                ["system", machine["kernel"]], ["library", answer["simba"]]]
    else:
        rows = []
    rows += [[name, version] for name, version in results.get("versions", {}).items()]
    commits = ", ".join(f"{part} {name}" for part, name in results.get("commits", {}).items())
    loads = ", ".join(f"{part} {before:.1f} .. {after:.1f}"
                      for part, (before, after) in results.get("load", {}).items())
    rows += [["commits", commits], ["load (before .. after)", loads], ["date", results.get("date", "")]]
    page.add("## The machine\n", table(["what", ""], rows))


def tell_latency(page, results, question, title, words):
    """Tables of the library beside the raw ways."""
    page.add(f"## {title}\n", words + "\n")
    for pin, where in PINS.items():
        rows = []
        for _, name, answer in answers(results, question, pin):
            ours = answer["measures"]["simba"]
            for key, ratio in answer["ratios"].items():
                raw = answer["measures"][key]
                rows.append([name, spread(ours), number(ours["p99"]), number(ours["max"]),
                             raw["what"], spread(raw), ratio_text(ratio)])
        if rows:
            page.add(f"On {where}, in microseconds:\n",
                     table(["store", "Simba p50", "p99", "max", "beside", "p50", "ratio"], rows))
    rows = latency_bars(results, question)
    if rows:
        page.plot(f"{question}.svg", plot.bars(title + ", all cores", "us", rows, ROUNDS), title)


def latency_bars(results, question):
    rows = []
    for store, name, answer in answers(results, question, "unpinned"):
        for index, (key, measure) in enumerate(answer["measures"].items()):
            label = f"{name}: {'Simba' if key == 'simba' else measure['what']}"
            rows.append((label, measure["p50"], measure["round_low"], measure["round_high"],
                         min(index, 2)))
        for peer, values in results.get("peers", {}).get("unpinned", {}).get(store, {}).get(
                question, {}).items():
            if peer != "simba":
                rows.append((peer, values["p50"], values["round_low"], values["round_high"], 3))
        rows.append(None)
    return rows[:-1]


def tell_peers(page, results):
    if "peers" not in results:
        return
    page.add("## Beside other libraries\n",
             "The other libraries are Debian's packages, on the same server, in turns with Simba in blocks. Theirs are "
             "asked as their users would: python3-redis polls every 100 ms by default, and has neither a queue nor a "
             "fencing token. Owner and waiter are two processes, theirs as Simba's. Curator's are two virtual "
             "machines, each warmed by 3,000 cycles and by 500 hand-overs in either role before anything is measured. "
             "A hand-over ends in the thread that waits for it, theirs as Simba's. A cycle of LeaderLatch makes a new "
             "latch each time, for that is how one is given back. The ratio is Simba's to theirs: below 1 Simba is "
             "quicker.\n")
    for pin, where in PINS.items():
        rows = []
        for store, questions in results["peers"].get(pin, {}).items():
            for question, sides in questions.items():
                ours = sides["simba"]
                rows += [[NAMES[store], question, spread(ours), peer, spread(values),
                          f"{statistics.median(values['ratio']):.2f} ({min(values['ratio']):.2f} .. "
                          f"{max(values['ratio']):.2f})"]
                         for peer, values in sides.items() if peer != "simba"]
        page.add(f"On {where}, in microseconds:\n",
                 table(["store", "question", "Simba p50", "peer", "p50", "ratio"], rows))


def tell_commands(page, results):
    if "commands" not in results:
        return
    page.add("## Whole programs\n",
             "Start, acquire, run `true`, release, end; in milliseconds. `flock` knows one host and no lease, and "
             "`etcdctl` speaks to a server that syncs its disk.\n")
    for pin, where in PINS.items():
        measured = results["commands"].get(pin, {})
        flock = measured.get("flock f true")
        rows = [[f"`{name}`", spread(values), number(values["p99"]),
                 f"{values['p50'] / flock['p50']:.2f}"] for name, values in measured.items()]
        page.add(f"On {where}:\n", table(["program", "p50", "p99", "to flock"], rows))
    rows = [(name, values["p50"], values["round_low"], values["round_high"], 0 if "simba" in name else 3)
            for name, values in results["commands"]["unpinned"].items()]
    page.plot("commands.svg", plot.bars("Whole programs, all cores", "ms", rows, ROUNDS), "Whole programs")


def tell_many(page, results):
    page.add("## Many mutexes\n",
             "Mutexes held by one client of one process through several renewals. The cost of a mutex should stay the "
             "same as their number grows. Memory is resident memory from before the first mutex to when all are "
             "owned. Lateness is the time from the end of the ttl to the sending of the renewal. The processor time is that of the library's "
             "threads.\n")
    scale = results.get("scale", {})
    rows = []
    for store, name in NAMES.items():
        for count, answer in scale.get(store, {}).items():
            n, late = answer["numbers"], answer["measures"]["lateness"]
            rows.append([name, f"{int(count):,}", number(n["own_all_ms"]),
                         number(n["rss_per_mutex_bytes"]), number(n["cpu_percent"]),
                         number(n["cpu_us_per_renewal"]), number(n["raw_cpu_us_per_renewal"]),
                         number(n["commands_per_second"]), number(n["threads"]),
                         number(n["connections"]), f"{late['p99']:.0f} / {late['max']:.0f}",
                         f"{n['lost']:.0f}"])
    if not rows:
        return
    page.add("With a ttl of 10 s and a transition of 6 s, on all cores:\n",
             table(["store", "mutexes", "ms to own all", "bytes each", "% of a core", "us per renewal",
                    "us by hand", "commands or commits /s", "threads", "connections",
                    "late ms p99 / max", "lost"], rows))
    drawings = [("rss_per_mutex_bytes", "memory", "Memory per mutex", "bytes"),
                ("cpu_us_per_renewal", "processor", "Processor time per renewal", "us")]
    for key, file, title, unit in drawings:
        series = {name: [(int(count), answer["numbers"][key])
                         for count, answer in scale[store].items()]
                  for store, name in NAMES.items() if store in scale}
        page.plot(f"many-{file}.svg", plot.lines(title, unit, "mutexes of one client", series), title)
    series = {name: [(int(count), max(answer["measures"]["lateness"]["max"], 0.5))
                     for count, answer in scale[store].items()]
              for store, name in NAMES.items() if store in scale}
    title = "Latest renewal, by number of mutexes"
    page.plot("many-lateness.svg", plot.lines(title, "ms", "mutexes of one client", series), title)


def tell_contention(page, results):
    page.add("## Contention\n",
             "One mutex that a thousand contenders in four processes want. Each has it only long enough to be told, "
             "and wants it again. Fairness is 1 when turns are as even as can be.\n")
    plotted = []
    for pin, where in PINS.items():
        rows = []
        for _, name, answer in answers(results, "contention", pin):
            n = answer["numbers"]
            rows.append([name, number(n["handovers_per_second"]), spread(answer["measures"]["simba"]),
                         spread(answer["measures"]["raw"]), number(n["commands_per_handover"]),
                         f"{n['turns_least']:.0f} .. {n['turns_most']:.0f}", number(n["fairness"])])
            if pin == "unpinned":
                low, high = (1e6 / answer["measures"]["simba"][key]
                             for key in ["round_high", "round_low"])
                plotted.append((name, n["handovers_per_second"], low, high, 0))
        if rows:
            page.add(f"On {where}:\n",
                     table(["store", "hand-overs /s", "us each", "us by hand, alone",
                            "commands or commits each", "turns", "fairness"], rows))
    if plotted:
        page.plot("contention.svg", plot.bars("Hand-overs among 1,000 contenders", "per second", plotted,
                                               ("the mean rate", "from the slowest to the fastest round")),
                  "Contention")
    tell_crowd(page, results)


def crowd_numbers(results, store, key):
    """By number of contenders: (the median of the rounds, the lowest, the highest)."""
    found = {}
    for count, rounds in results.get("crowd", {}).get(store, {}).items():
        values = [one[key] for one in rounds if one[key] is not None]
        if values:
            found[count] = (statistics.median(values), min(values), max(values))
    return found


def tell_crowd(page, results):
    if "crowd" not in results:
        return
    rows = []
    for store, name in NAMES.items():
        rates, costs, evenness = (crowd_numbers(results, store, key) for key in [
            "handovers_per_second", "commands_per_handover", "fairness"])
        for count in rates:
            cells = [numbers.get(count) for numbers in (rates, costs, evenness)]
            rows.append([name, f"{int(count):,}"] + [
                "-" if cell is None else f"{number(cell[0])} ({number(cell[1])} .. {number(cell[2])})" for cell in cells]
                + [f"{rates[count][0] / next(iter(rates.values()))[0]:.2f}"])
    page.add("### By the size of the crowd\n", "Contenders in four processes, on all cores, in turns.\n",
             table(["store", "contenders", "hand-overs /s", "commands or commits each", "fairness", "to the fewest"], rows))


def tell_turns(page, results):
    page.add("### By the jitter and by turns\n",
             "How long after the end of the lease one of eight waiters in as many processes had the mutex, in "
             "milliseconds: by the jitter, where the earliest draw wins, and by turns, where they come in the "
             "order of the queue, 5 ms apart, as is the default ([tuning](../guide/tuning.md)). On ZooKeeper waiters "
             "always take turns.\n")
    head = ["store", "on", "by the jitter: min", "p50", "p99", "max", "by turns: min", "p50", "p99", "max"]
    rows, plotted = [], []
    for pin, where in PINS.items():
        for store, name, answer in answers(results, "failover", pin):
            if "turn_after_lease" not in answer["measures"]:
                continue  # it was measured before there were turns
            ways = [answer["measures"][key] for key in ["jitter_after_lease", "turn_after_lease"]]
            times = [values[key] for values in ways for key in ["min", "p50", "p99", "max"]]
            rows.append([name, where] + [number(time) if time > 0 else f"{time:.0f}" for time in times])
            if store == "redis":
                for colour, (what, values) in enumerate(zip(["by the jitter", "by turns"], ways)):
                    shown = [max(values[key], 0.1) for key in ["p50", "min", "max"]]
                    plotted.append((f"{name}, {where}, {what}", *shown, colour))
    page.add(table(head, rows))
    if plotted:
        page.plot("failover-turns.svg",
                  plot.bars("From the end of the lease to the next owner", "ms", plotted, ALL), "Turns")


def tell_failover(page, results):
    page.add("## Fail-over\n",
             "From a kill -9 of the owner to the next owner, in milliseconds, with a lease of 1 s + 2 s (ZooKeeper: "
             "of the session that the server grants for it). What was left of the lease is what the owner itself "
             "counted with; the first waiter comes at its end. On SQLite the host's kernel tells at once that the owner "
             "is dead.\n")
    plotted = []
    for pin, where in PINS.items():
        rows = []
        for _, name, answer in answers(results, "failover", pin):
            m = answer["measures"]
            rows.append([name, spread(m["simba"]), number(m["simba"]["max"]), spread(m["raw"]),
                         f"{m['after_lease']['min']:.0f} / {m['after_lease']['p50']:.0f} / "
                         f"{m['after_lease']['max']:.0f}",
                         f"{m['multiple']['p50']:.2f} (most {m['multiple']['max']:.2f})"])
            if pin == "unpinned":
                plotted.append((name, max(m["simba"]["p50"], 1), max(m["simba"]["min"], 1),
                                m["simba"]["max"], 0))
        if rows:
            page.add(f"On {where}:\n",
                     table(["store", "p50", "max", "lease left", "after its end: min / p50 / max",
                            "multiple of what was left"], rows))
    if plotted:
        page.plot("failover.svg", plot.bars("Fail-over after kill -9", "ms", plotted, ALL), "Fail-over")
    tell_turns(page, results)
    if "kills" in results:
        kills = results["kills"]
        page.add("`kill -9` of `simba lock` on SQLite, lease 10 s + 6 s, until the waiter's command runs: "
                 f"p50 {number(kills['p50'])} ms, max {number(kills['max'])} ms "
                 f"({kills['count']} times).\n")


def tell_is_owner(page, results):
    page.add("## Cost of is_owner\n",
             "`simba_contender_is_owner`, in nanoseconds, beside `clock_gettime`, which it calls to check the "
             "deadline.\n")
    rows, plotted = [], []
    for pin, where in PINS.items():
        for _, name, answer in answers(results, "is-owner", pin):
            ours, raw = answer["measures"]["simba"], answer["measures"]["raw"]
            rows.append([name, where, spread(ours), spread(raw)])
            if pin == "unpinned":
                plotted += [(f"{name}: is_owner", ours["p50"], ours["round_low"], ours["round_high"], 0),
                            (f"{name}: clock_gettime", raw["p50"], raw["round_low"],
                             raw["round_high"], 1)]
    if rows:
        page.add(table(["store", "on", "is_owner", "clock_gettime"], rows))
        page.plot("is-owner.svg", plot.bars("Cost of is_owner", "ns", plotted, ROUNDS), "Cost of is_owner")


# ---- Goals ------------------------------------------------------------------------------------

def goal_rows(results):
    """(what, goal, what was measured on one core, on all)"""
    def ratio(store, question, key="raw"):
        def text(pin):
            answer = results.get("stores", {}).get(f"{store} {pin}")
            found = answer["questions"].get(question, {}).get("ratios", {}).get(key) if answer else None
            return ratio_text(found) if found else "-"
        return text("pinned"), text("unpinned")

    def peer(pin):
        sides = results.get("peers", {}).get(pin, {}).get("zookeeper", {}).get("handover")
        return "-" if sides is None else (
            f"{statistics.median(sides['Curator LeaderLatch']['ratio']):.2f}")

    def flock(pin):
        sides = results.get("commands", {}).get(pin)
        return "-" if sides is None else (
            f"{sides['simba lock m -- true (SQLite)']['p50'] / sides['flock f true']['p50']:.2f}")

    def etcdctl(pin):
        sides = results.get("commands", {}).get(pin, {})
        if "etcdctl lock m true" not in sides:
            return "-"
        return f"{sides['simba lock m -- true (etcd)']['p50'] / sides['etcdctl lock m true']['p50']:.2f}"

    def is_owner(pin):
        values = [answer["measures"]["simba"]["p50"]
                  for _, _, answer in answers(results, "is-owner", pin)]
        return f"{statistics.median(values):.0f} ns" if values else "-"

    yield ("Redis cycle / two trivial EVALSHA", "1.15", *ratio("redis", "cycle"))
    yield ("Redis cycle / its own scripts by hand", "", *ratio("redis", "cycle", "scripts"))
    for store, goal in [("mariadb", "1.25"), ("postgres", "1.25"), ("sqlite", "1.6")]:
        yield (f"{NAMES[store]} cycle / two committed UPDATEs", goal, *ratio(store, "cycle"))
    for store in ["mariadb", "postgres"]:
        yield (f"{NAMES[store]} cycle / its own statements by hand", "",
               *ratio(store, "cycle", "statements"))
    for store, name in NAMES.items():
        yield (f"{name} cycle while 40 clients wait for other mutexes / without them", "1.05", *ratio(store, "beside"))
    for store, goal, beside in [("redis", "1.6", "PUBLISH heard + EVALSHA"),
                                ("postgres", "1.6", "NOTIFY heard + a committed UPDATE"),
                                ("mariadb", "3", "two committed UPDATEs"), ("sqlite", "2.2", "two committed UPDATEs")]:
        yield (f"{NAMES[store]} hand-over / {beside}", goal, *ratio(store, "handover"))
    yield ("etcd cycle / the same two transactions by hand", "1.2", *ratio("etcd", "cycle"))
    yield ("etcd hand-over / delete heard + read", "1.3", *ratio("etcd", "handover"))
    for store, name in NAMES.items():
        rates, costs, evenness = (crowd_numbers(results, store, key) for key in [
            "handovers_per_second", "commands_per_handover", "fairness"])
        if "10" in rates and "1000" in rates:
            yield (f"{name}, 1,000 contenders: hand-overs /s to those with 10, at least", "0.7", "-",
                   f"{rates['1000'][0] / rates['10'][0]:.2f}")
            yield (f"{name}, 1,000 contenders: fairness, at least", "0.95", "-", number(evenness["1000"][0]))
        if "1000" in costs and store in ("postgres", "mariadb"):
            yield (f"{name}, 1,000 contenders: commits per hand-over", "4", "-", number(costs["1000"][0]))
    yield ("ZooKeeper hand-over / Curator's LeaderLatch", "0.7", peer("pinned"), peer("unpinned"))
    yield ("is_owner", "40 ns", is_owner("pinned"), is_owner("unpinned"))
    yield ("`simba lock m -- true` on SQLite / `flock f true`", "2", flock("pinned"), flock("unpinned"))
    yield ("`simba lock m -- true` on etcd / `etcdctl lock m true`", "0.4", etcdctl("pinned"), etcdctl("unpinned"))
    many = results.get("scale", {}).get("etcd", {}).get("10000")
    if many is not None:
        n = many["numbers"]
        yield ("10,000 mutexes on etcd: lost, connections, bytes each", "0, 1, 1536", "-", ", ".join(
            number(n[key]) for key in ["lost", "connections", "rss_per_mutex_bytes"]))
    most = results.get("scale", {}).get("redis", {}).get("100000")
    if most is not None:
        n = most["numbers"]
        yield ("100,000 mutexes on Redis: lost, threads, connections, bytes each, % of a core",
               "0, 6, 2, 1024, 30", "-", ", ".join(number(n[key]) for key in [
                   "lost", "threads", "connections", "rss_per_mutex_bytes", "cpu_percent"]))
    if "kills" in results:
        yield ("kill -9 of `simba lock` on SQLite until the waiter's command, p50", "50 ms", "-",
               f"{number(results['kills']['p50'])} ms")


def write(results, folder):
    page = Page(folder)
    tell_machine(page, results)
    page.add("## In short\n", table(["what", "goal, at most", "one core", "all cores"],
                                    list(goal_rows(results))), GAPS)
    tell_latency(page, results, "cycle", "Acquire and release",
                 "A mutex that nobody else wants, by a locker: acquire returns, release returns.")
    tell_latency(page, results, "beside", "Beside clients that wait",
                 "Acquire and release of a mutex that nobody else wants, while 40 clients wait for 40 other mutexes, and "
                 "without them.")
    tell_latency(page, results, "handover", "Hand-over",
                 "From the owner's call of release to the return of acquire in a waiter of another process, which has "
                 "waited for some 20 to 40 ms. By hand owner and waiter are two processes, too, except on SQLite and "
                 "MariaDB: there it is two writes of one client.")
    tell_peers(page, results)
    tell_commands(page, results)
    tell_many(page, results)
    tell_contention(page, results)
    tell_failover(page, results)
    tell_is_owner(page, results)
    page.write()
