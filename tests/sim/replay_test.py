#!/usr/bin/env python3
"""Shows that a seed is a run: the same seed gives the same bytes, another seed gives others.

    replay_test.py SIMBA_SIM
"""
import re
import subprocess
import sys


def trace(program, seed):
    return subprocess.run([program, "--trace", str(seed)], check=True, capture_output=True).stdout


def main():
    program = sys.argv[1]
    cases = {
        "the same seed gives the same run": all(
            trace(program, seed) == trace(program, seed) for seed in range(1, 11)
        ),
        "another seed gives another run": trace(program, 1) != trace(program, 2),
        "a seed needs no other seed before it": run_alone(program),
        "the events of a seed are those of its trace": all(
            same_events(program, seed) for seed in range(1, 11)
        ),
        "one seed is traced, not several": subprocess.run(
            [program, "--trace", "1", "--seeds", "2"], capture_output=True, check=False
        ).returncode == 64,
    }
    print(f"1..{len(cases)}")
    for number, (name, passed) in enumerate(cases.items(), 1):
        print(f"{'ok' if passed else 'not ok'} {number} - {name}")
    return 0 if all(cases.values()) else 1


def same_events(program, seed):
    """What a program is told of the contenders is what a person reads, each request and answer of it."""
    events = subprocess.run(
        [program, "--events", str(seed)], check=True, capture_output=True, text=True,
    ).stdout
    read = trace(program, seed).decode()
    return all(
        len(re.findall(event, events, re.MULTILINE)) == len(re.findall(line, read, re.MULTILINE)) > 0
        for event, line in (
            ("^event=send ", r" c\d+ sends "),
            ("^event=apply ", r" store: c\d+ #"),
            ("^event=take ", r" c\d+ answer #"),
        )
    )


def run_alone(program):
    """What a seed does must not depend on the seeds that ran in the same memory before it."""
    counts = []
    for first, seeds in ((1, 20), (1, 10), (11, 10)):
        output = subprocess.run(
            [program, "--first", str(first), "--seeds", str(seeds)],
            check=True, capture_output=True, text=True,
        ).stdout
        counts.append(int(re.search(r"^ *(\d+) events$", output, re.MULTILINE).group(1)))
    return counts[0] == counts[1] + counts[2]


if __name__ == "__main__":
    sys.exit(main())
