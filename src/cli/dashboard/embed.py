#!/usr/bin/env python3
"""Makes a C source of the files of the dashboard's page.

    embed.py OUTPUT FILE...
"""
import os
import sys

TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
SIZE_MAX = 100 * 1000


def main():
    output, files = sys.argv[1], sys.argv[2:]
    sizes = sum(os.path.getsize(path) for path in files)
    if sizes > SIZE_MAX:
        sys.exit(f"the page has {sizes} bytes: more than {SIZE_MAX}")
    entries = []
    with open(output, "w", encoding="ascii") as source:
        source.write('#include "cli/dash_page.h"\n')
        for number, path in enumerate(files):
            with open(path, "rb") as file:
                data = file.read()
            source.write(f"\nstatic const unsigned char file_{number}[] = {{\n")
            for at in range(0, len(data), 24):
                source.write(",".join(map(str, data[at:at + 24])) + ",\n")
            source.write("};\n")
            name, end = os.path.splitext(os.path.basename(path))
            entries.append((f"/{'' if name == 'page' and end == '.html' else name + end}", TYPES[end], number))
        source.write("\nconst struct cli_dash_file cli_dash_files[] = {\n")
        for path, kind, number in entries:
            source.write(f'    {{"{path}", "{kind}", file_{number}, sizeof file_{number}}},\n')
        source.write("    {0},\n};\n")


main()
