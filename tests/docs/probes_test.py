#!/usr/bin/env python3
"""The static tracepoints are in the program and in the library, with the arguments that the page tells.

    probes_test.py PAGE FILE...
"""
import re
import subprocess
import sys

PAGE, *FILES = sys.argv[1:]


def notes_of(path):
    """The arguments of each tracepoint of a file, as often as it stands there."""
    text = subprocess.run(["readelf", "--wide", "--notes", path], check=True, capture_output=True, text=True).stdout
    found = {}
    for name, arguments in re.findall(r"Provider: simba\n\s*Name: (\w+)\n.*\n\s*Arguments: (.*)", text):
        found.setdefault(name, []).append(len(re.findall(r"-?\d+@", arguments)))
    return found


def main():
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    told = {name: len([cell for cell in cells.split("|")[2:] if cell.strip()])
            for name, cells in re.findall(r"^\| `(\w+)` (\|.*)\|$", page, re.M)}
    used = set(re.findall(r":simba:(\w+)", page))
    wrong = [f"{FILES[0]}: the page tells of {told}"] if len(told) != 6 else []
    wrong += [f"the page uses {name}, which it does not list" for name in used - told.keys()]
    wrong += [f"the page does not use {name}" for name in told.keys() - used]
    for path in FILES:
        notes = notes_of(path)
        wrong += [f"{path} has {name}, which the page does not list" for name in notes.keys() - told.keys()]
        wrong += [f"{path}: {name} has {notes.get(name)} arguments, {count} on the page"
                  for name, count in told.items() if set(notes.get(name, [])) != {count}]
    print("1..1")
    print("not ok 1 - tracepoints" if wrong else "ok 1 - tracepoints")
    for line in wrong:
        print("#", line)
    return 1 if wrong else 0


sys.exit(main())
