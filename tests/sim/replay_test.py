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
        "one seed is traced, not several": subprocess.run(
            [program, "--trace", "1", "--seeds", "2"], capture_output=True, check=False
        ).returncode == 64,
    }
    print(f"1..{len(cases)}")
    for number, (name, passed) in enumerate(cases.items(), 1):
        print(f"{'ok' if passed else 'not ok'} {number} - {name}")
    return 0 if all(cases.values()) else 1


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
