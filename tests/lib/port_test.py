#!/usr/bin/env python3
"""The ports of tests that run at the same time, in C and in Python, are different ones.

    port_test.py HOLDER

So many are taken that those who choose by chance would meet: three times 300 of 17,000, which happens 15 times.
"""
import subprocess
import sys

from servers import free_port

COUNT = 300


def start_holder():
    return subprocess.Popen([sys.argv[1], str(COUNT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ports_of(holder):
    return [int(line) for line in iter(holder.stdout.readline, "all\n")]


def main():
    holders = [start_holder(), start_holder()]
    ports = [free_port() for _ in range(COUNT)]
    for holder in holders:
        ports += ports_of(holder)
    for holder in holders:
        holder.communicate()
    good = len(ports) == len(set(ports)) == 3 * COUNT
    print("1..1")
    print(f"{'ok' if good else 'not ok'} 1 - no port is given to two tests")
    if not good:
        print(f"# {len(ports)} ports, {len(ports) - len(set(ports))} of them twice")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
