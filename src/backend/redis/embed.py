#!/usr/bin/env python3
"""Prints the Lua scripts as a C source: the table of script.h.

    embed.py NAME=FILE,FILE... ...

A script is made of files, which are found beside this one. Lines of comment and empty lines are left out.
"""
import hashlib
import os
import sys


def read(name):
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        lines = [line.rstrip() for line in file]
    return [line for line in lines if line.strip() and not line.lstrip().startswith("--")]


def quote(line):
    return '"' + line.replace("\\", "\\\\").replace('"', '\\"') + '\\n"'


def entry(name, files):
    lines = [line for file in files for line in read(file)]
    text = "".join(line + "\n" for line in lines)
    sha1 = hashlib.sha1(text.encode()).hexdigest()
    return f'    {{"{name}", "{sha1}",\n' + "\n".join("     " + quote(line) for line in lines) + "},"


def main():
    print('#include "backend/redis/script.h"\n')
    print("const struct sb_script sb_scripts[SB_SCRIPT_COUNT] = {")
    for argument in sys.argv[1:]:
        name, files = argument.split("=")
        print(entry(name, files.split(",")))
    print("};")


main()
