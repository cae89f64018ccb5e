#!/usr/bin/env python3
"""Shows that the shared library exports what the public headers declare, and nothing else.

    exports_test.py LIBRARY HEADERS
"""
import glob
import re
import subprocess
import sys

LIBRARY, HEADERS = sys.argv[1], sys.argv[2]


def declared_names():
    names = set()
    for path in glob.glob(HEADERS + "/*.h"):
        with open(path, encoding="utf-8") as file:
            names.update(re.findall(r"^SIMBA_API [^;]*?\b(simba_\w+)\(", file.read(), re.MULTILINE))
    return names


def exported_names():
    command = ["nm", "--dynamic", "--defined-only", "--format=posix", LIBRARY]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {line.split()[0] for line in output.splitlines()}


def main():
    declared, exported = declared_names(), exported_names()
    missing, extra = sorted(declared - exported), sorted(exported - declared)
    print("1..3")
    print(f"{'ok' if len(declared) > 50 else 'not ok'} 1 - the headers are understood")
    print(f"{'not ok' if missing else 'ok'} 2 - what is declared is exported")
    print(f"{'not ok' if extra else 'ok'} 3 - nothing else is exported")
    for name in missing:
        print(f"# missing: {name}")
    for name in extra:
        print(f"# extra: {name}")
    return 1 if missing or extra or len(declared) <= 50 else 0


if __name__ == "__main__":
    sys.exit(main())
