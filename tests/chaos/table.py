"""The table of all runs of a call: a row for each store, and how often each fault struck."""
import collections
import statistics

from faults import FAULTS

COLUMNS = ["faults", "terms", "hand-overs", "fail-overs", "leases lost", "writes", "stale uses refused",
           "excused overlaps"]


class Row:
    def __init__(self):
        self.runs = 0
        self.seconds = 0.0
        self.breaches = 0
        self.counts = collections.Counter()
        self.longest = 0.0
        self.slowest = 0.0
        self.gaps = []  # from the healing of a fault to the next owner, in seconds

    def cells(self):
        return [str(self.runs), f"{self.seconds / 60:.1f}",
                *(str(self.counts[name]) for name in COLUMNS),
                f"{self.longest:.2f} s", f"{self.slowest:.1f} s",
                f"{1000 * statistics.median(self.gaps):.0f} ms ({len(self.gaps)})" if self.gaps else "-",
                str(self.breaches)]


class Table:
    def __init__(self):
        self.rows = collections.defaultdict(Row)
        self.faults = collections.Counter()
        self.reasons = {}       # fault: why it could not strike on some store
        self.possible = set()   # faults that could on another
        self.seeds = set()

    def add(self, outcome):
        row = self.rows[outcome.plan.store]
        row.runs += 1
        row.seconds += outcome.seconds
        row.breaches += len(outcome.breaches) + (outcome.trouble is not None)
        row.counts.update({name: outcome.counts.get(name, 0) for name in COLUMNS})
        row.longest = max(row.longest, outcome.counts.get("longest overlap", 0.0))
        row.slowest = max(row.slowest, outcome.counts.get("slowest leader", 0.0))
        row.gaps += outcome.counts.get("after healing", [])
        self.faults.update(outcome.faults)
        self.reasons.update(outcome.skipped)
        self.possible |= FAULTS.keys() - outcome.skipped.keys()
        self.seeds.add(outcome.plan.seed)

    def lines(self):
        heads = ["store", "runs", "minutes", *COLUMNS, "longest overlap", "slowest leader",
                 "owned again after healing, p50 (cases)", "violations"]
        yield "| " + " | ".join(heads) + " |"
        yield "| --- " * len(heads) + "|"
        for store, row in self.rows.items():
            yield "| " + " | ".join([store, *row.cells()]) + " |"
        yield ""
        yield "| fault | struck |"
        yield "| --- | --- |"
        for name, times in sorted(self.faults.items()):
            yield f"| {name} | {times} |"
        never = [f"{name} ({self.why_not(name)})" for name in sorted(FAULTS) if name not in self.faults]
        if never:
            yield ""
            yield "Not struck: " + ", ".join(never) + "."
        yield ""
        yield f"Seeds {min(self.seeds, default=0)} to {max(self.seeds, default=0)}."

    def why_not(self, name):
        return "not drawn" if name in self.possible else self.reasons.get(name, "no run")

    def show(self):
        for line in self.lines():
            print("# " + line)

    def write(self, path):
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in self.lines())
