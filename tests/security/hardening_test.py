#!/usr/bin/env python3
"""What is built is hardened, in every build: looks at the files themselves.

    hardening_test.py FORTIFIED PROGRAM LIBRARY MODULE...

Modules are built as the library is; not all of them call something that can be checked. FORTIFIED is `yes` where the build can check calls of the C library (not without optimisation, not under sanitizers).
"""
import os
import re
import subprocess
import sys

FORTIFIED, FILES = sys.argv[1] == "yes", sys.argv[2:]


def readelf(option, path):
    return subprocess.run(["readelf", "-W", option, path], check=True, capture_output=True, text=True,
                          env={**os.environ, "LC_ALL": "C"}).stdout


def segments(path):
    """The kind, the offset in the file and the flags of each."""
    return re.findall(r"^  (\w+) +(0x\w+) 0x\w+ 0x\w+ 0x\w+ 0x\w+ ([RWE ]{3})", readelf("-l", path), re.MULTILINE)


def relocations_are_read_only(path):
    return any(kind == "GNU_RELRO" for kind, _, _ in segments(path))


def symbols_are_bound_at_once(path):
    return re.search(r"\((?:FLAGS|FLAGS_1)\).*\bNOW\b", readelf("-d", path)) is not None


def code_is_apart_from_data(path):
    """The headers, at the beginning of the file, and constants are not in the segment that can be executed."""
    code = [int(offset, 16) for kind, offset, flags in segments(path) if kind == "LOAD" and "E" in flags]
    return len(code) == 1 and code[0] > 0


def nothing_is_written_and_executed(path):
    stack = [flags for kind, _, flags in segments(path) if kind == "GNU_STACK"]
    return len(stack) == 1 and not any("W" in flags and "E" in flags for _, _, flags in segments(path))


def is_position_independent(path):
    return "DYN (" in readelf("-h", path)


def stack_is_protected(path):
    return "__stack_chk_fail" in readelf("--dyn-syms", path)


def calls_are_fortified(path):
    return re.search(r"\b__\w+_chk\b(?<!__stack_chk)", readelf("--dyn-syms", path)) is not None


CHECKS = [relocations_are_read_only, symbols_are_bound_at_once, code_is_apart_from_data,
          nothing_is_written_and_executed, is_position_independent, stack_is_protected]


def twin(folder="/tmp"):
    """A file without any of it, which each check must refuse; None without a compiler."""
    path = os.path.join(folder, f"simba-hardening-{os.getpid()}")
    flags = ["-no-pie", "-fno-stack-protector", "-U_FORTIFY_SOURCE", "-Wl,-z,norelro", "-Wl,-z,lazy",
             "-Wl,-z,noseparate-code", "-Wl,-z,execstack"]
    done = subprocess.run(["cc", *flags, "-x", "c", "-", "-o", path], input="int main(void) { return 0; }",
                          text=True, check=False, capture_output=True)
    return path if done.returncode == 0 else None


def cases():
    for path in FILES:
        for check in CHECKS:
            yield f"{os.path.basename(path)}: {check.__name__}", check(path)
    for path in FILES[:2] if FORTIFIED else []:
        yield f"{os.path.basename(path)}: calls_are_fortified", calls_are_fortified(path)
    bare = twin()
    for check in CHECKS + [calls_are_fortified] if bare else []:
        yield f"twin: not {check.__name__}", not check(bare)
    if bare:
        os.remove(bare)


def main():
    number = failed = 0
    for number, (name, passed) in enumerate(cases(), 1):
        failed += not passed
        print(f"{'ok' if passed else 'not ok'} {number} - {name}")
    print(f"1..{number}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
