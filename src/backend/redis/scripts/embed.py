#!/usr/bin/env python3
"""Prints the Lua scripts as a C source: the table of script.h.

    embed.py COMMON SCRIPT...

COMMON stands before every script. Lines of comment and empty lines are left out.
"""
import hashlib
import os
import sys


def read(path):
    with open(path, encoding="utf-8") as file:
        lines = [line.rstrip() for line in file]
    return [line for line in lines if line.strip() and not line.lstrip().startswith("--")]


def quote(line):
    return '"' + line.replace("\\", "\\\\").replace('"', '\\"') + '\\n"'


def entry(path, lines):
    text = "".join(line + "\n" for line in lines)
    name = os.path.splitext(os.path.basename(path))[0]
    sha1 = hashlib.sha1(text.encode()).hexdigest()
    quoted = "\n".join("     " + quote(line) for line in lines)
    return f'    {{"{name}", "{sha1}",\n{quoted}}},'


def main():
    common = read(sys.argv[1])
    print('#include "backend/redis/scripts/script.h"\n')
    print("const struct sb_redis_script sb_redis_scripts[SB_REDIS_SCRIPT_COUNT] = {")
    for path in sys.argv[2:]:
        print(entry(path, common + read(path)))
    print("};")


main()
