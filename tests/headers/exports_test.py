#!/usr/bin/env python3
"""Shows that the shared library exports what the public headers declare, and nothing else, but for tck.h, which the kit's
archive defines; and that modules find in the program all that they find in the library.

    exports_test.py LIBRARY HEADERS PROGRAM KIT
"""
import glob
import re
import subprocess
import sys

LIBRARY, HEADERS, PROGRAM, KIT = sys.argv[1:]


def declared_names(paths):
    names = set()
    for path in paths:
        with open(path, encoding="utf-8") as file:
            names.update(re.findall(r"^SIMBA_API [^;]*?\b(simba_\w+)\(", file.read(), re.MULTILINE))
    return names


def exported_names(path):
    """Each with its type, as nm tells it."""
    command = ["nm", "--dynamic", "--defined-only", "--format=posix", path]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {line.split()[0]: line.split()[1] for line in output.splitlines()}


def defined_names(archive):
    command = ["nm", "--defined-only", "--extern-only", "--format=posix", archive]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {line.split()[0] for line in output.splitlines() if line}


def main():
    of_kit = declared_names([HEADERS + "/tck.h"])
    declared, types = declared_names(glob.glob(HEADERS + "/*.h")) - of_kit, exported_names(LIBRARY)
    exported = set(types)
    absent = sorted(exported - set(exported_names(PROGRAM)))
    data = sorted(name for name in exported if types[name] != "T")
    private = {name for name in exported if name.startswith("simba_private_")}
    missing, extra = sorted(declared - exported), sorted(exported - declared - private)
    cases = [(len(declared) > 50, "the headers are understood"),
             (not missing, "what is declared is exported"),
             (not extra, "nothing else is, but for what the library's own modules use"),
             (not data, "all are functions: data would be shared where program and library are in one process"),
             (not absent, "the program exports the same"),
             (of_kit and of_kit <= defined_names(KIT), "the kit defines what its header declares")]
    print(f"1..{len(cases)}")
    for number, (good, text) in enumerate(cases, 1):
        print(f"{'ok' if good else 'not ok'} {number} - {text}")
    for name in missing:
        print(f"# missing: {name}")
    for name in extra:
        print(f"# extra: {name}")
    for name in data:
        print(f"# no function: {name}")
    for name in absent:
        print(f"# absent in the program: {name}")
    return 0 if all(good for good, _ in cases) else 1


if __name__ == "__main__":
    sys.exit(main())
