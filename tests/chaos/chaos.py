#!/usr/bin/env python3
"""Real processes on real servers under faults that are drawn from a seed, judged from outside.

    chaos.py --programs FOLDER [--store NAME]... [--seed N] [--seconds N] [--minutes N] [--faults NAME,...]
             [--each] [--short] [--groups] [--kept-seeds] [--keep FOLDER] [--timeline] [--table FILE]

Prints TAP, a line for each run with its seed. With --minutes runs follow each other, store after store, until the
time is over; in every second round workers take groups, as with --groups in all of them: slots of a semaphore, and
sets of mutexes. A run that breaks a rule leaves its journals and a timeline in the folder of --keep, and prints the
command that plays its schedule again.
"""
import argparse
import os
import random
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from clock import now
from process import adopt_orphans
from run import Plan, Programs, run
from short import SHORT_FAULTS
from stores import STORES
from table import Table

RUN_SECONDS = 20
BREACHES_SHOWN = 20
KEPT_SEEDS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "seeds.txt")


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", required=True, help="the build folder")
    parser.add_argument("--store", action="append", choices=sorted(STORES))
    parser.add_argument("--seed", type=int)
    parser.add_argument("--seconds", type=float, default=RUN_SECONDS, help="of faults in a run")
    parser.add_argument("--minutes", type=float, default=0, help="of all runs together")
    parser.add_argument("--faults", help="only these")
    parser.add_argument("--each", action="store_true", help="each fault once, in a drawn order")
    parser.add_argument("--short", action="store_true", help="the chosen few of the default suite")
    parser.add_argument("--groups", action="store_true", help="workers take slots of a semaphore and sets as well")
    parser.add_argument("--kept-seeds", action="store_true", help="also those of seeds.txt")
    parser.add_argument("--keep", default=tempfile.gettempdir(),
                        help="where journals and timelines of failed runs go")
    parser.add_argument("--timeline", action="store_true", help="keep those of all runs")
    parser.add_argument("--table", help="write the table of all runs to this file")
    return parser.parse_args()


def kept_plans(names):
    """Runs that broke a rule once."""
    with open(KEPT_SEEDS, encoding="utf-8") as lines:
        for line in lines:
            words = line.split("#")[0].split()
            if words and words[0] in names:
                yield Plan(words[0], int(words[1]), float(words[2]))


def faults_of(options, store):
    if options.faults:
        return options.faults.split(",")
    return SHORT_FAULTS[store] if options.short else None


def plans(options, names):
    """One run for each store, or more until the time is over."""
    first = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    end = now() + 60 * options.minutes
    turn = 0
    while turn == 0 or now() < end:
        for name in names:
            if turn == 0 or now() < end:
                yield Plan(name, first + turn, options.seconds, faults_of(options, name),
                           options.each or options.short, options.groups or turn % 2 == 1)
        turn += 1
    if options.kept_seeds:
        yield from kept_plans(names)


def tell(number, outcome):
    plan = outcome.plan
    counts = ", ".join(f"{name} {value if isinstance(value, int) else round(value, 2)}"
                       for name, value in outcome.counts.items() if not isinstance(value, list))
    print(f"{'not ok' if outcome.failed() else 'ok'} {number} - {plan.store} seed {plan.seed}"
          f" ({outcome.seconds:.0f} s: {counts})")
    if outcome.kept:
        print(f"# journals and timeline: {outcome.kept}")
    if outcome.failed():
        tell_failure(outcome)
    sys.stdout.flush()


def tell_failure(outcome):
    for breach in outcome.breaches[:BREACHES_SHOWN]:
        print(f"# {breach.rule}: {breach.text} (at {breach.at})")
    for line in (outcome.trouble or "").splitlines():
        print(f"# {line}")
    for strike in outcome.schedule:
        print(f"# {strike.at:6.2f} s: {strike.name} for {strike.seconds:.2f} s")
    print(f"# again: {outcome.plan.command()}")


def runnable(names):
    """The stores that can be run here, and for the others the reason."""
    reasons = {name: STORES[name].missing() for name in names}
    return [name for name in names if reasons[name] is None], \
           {name: reason for name, reason in reasons.items() if reason is not None}


def main():
    options = parse()
    adopt_orphans()
    programs = Programs(os.path.abspath(options.programs))
    names, missing = runnable(options.store or list(STORES))
    number, failed, table = 0, 0, Table()
    for number, (name, reason) in enumerate(missing.items(), 1):
        print(f"ok {number} - {name} # SKIP {reason}")
    for number, plan in enumerate(plans(options, names), number + 1):
        outcome = run(plan, programs, options.keep, options.timeline)
        failed += outcome.failed()
        tell(number, outcome)
        table.add(outcome)
    print(f"1..{number}")
    table.show()
    if options.table:
        table.write(options.table)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
