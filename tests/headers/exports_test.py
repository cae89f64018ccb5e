#!/usr/bin/env python3
"""Shows that the shared library exports what the public headers declare, and nothing else.

    exports_test.py LIBRARY HEADERS
"""
import collections
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
    """The names by the version they are exported under."""
    command = ["nm", "--dynamic", "--defined-only", "--with-symbol-versions", "--format=posix", LIBRARY]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    names = collections.defaultdict(set)
    for line in output.splitlines():
        name, _, version = line.split()[0].partition("@@")
        names[version].add(name)
    return names


def main():
    declared, exported = declared_names(), exported_names()
    public = exported.pop("SIMBA_0", set())
    private = exported.pop("SIMBA_PRIVATE", set())
    exported.pop("", None)  # the versions themselves
    missing, extra = sorted(declared - public), sorted(public - declared)
    foreign = sorted(name for name in private if not name.startswith("sb_"))
    cases = [(len(declared) > 50, "the headers are understood"),
             (not missing, "what is declared is exported"),
             (not extra, "nothing else is exported to everybody"),
             (not foreign and not exported, "the library's own modules see its own names only")]
    print(f"1..{len(cases)}")
    for number, (good, text) in enumerate(cases, 1):
        print(f"{'ok' if good else 'not ok'} {number} - {text}")
    for name in missing:
        print(f"# missing: {name}")
    for name in extra + foreign:
        print(f"# extra: {name}")
    return 0 if all(good for good, _ in cases) else 1


if __name__ == "__main__":
    sys.exit(main())
