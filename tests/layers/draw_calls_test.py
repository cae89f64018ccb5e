#!/usr/bin/env python3
"""The graphs of scripts/draw-calls have all sources and no cycle; its pictures in docs/internals name files that exist.

    draw_calls_test.py ROOT
"""
import glob
import importlib.machinery
import importlib.util
import os
import re
import subprocess
import sys

ROOT = sys.argv[1]
PAGES = {"redis": "redis.md", "sql": "sql.md", "zookeeper": "zookeeper.md", "etcd": "etcd.md"}


def load(name):
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), os.path.join(ROOT, "scripts", name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


PICTURES, CYCLES = load("draw-calls").PICTURES, load("check-layers").cycles


def sources(stores):
    backend = os.path.join(ROOT, "src", "backend")
    return {os.path.relpath(path, backend) for store in stores
            for path in glob.glob(os.path.join(backend, store, "**", "*.c"), recursive=True)}


def check_graph(text, wanted):
    """What is wrong with a graph in the language of Graphviz."""
    nodes = set(re.findall(r'^ *"([^"]+)" \[label=', text, re.MULTILINE))
    graph = {node: set() for node in nodes}
    for start, end in re.findall(r'^ *"([^"]+)" -> "([^"]+)";$', text, re.MULTILINE):
        graph.setdefault(start, set()).add(end)
    wrong = [f"{node} is missing or unknown" for node in sorted(nodes ^ wanted)]
    return wrong + ["a cycle: " + " ".join(cycle) for cycle in CYCLES(graph)]


def check_picture(text, wanted):
    """What is wrong with a picture."""
    named = set(re.findall(r">([\w.]+\.c)</text>", text))
    wrong = [f"there is no {name}: run `make pictures`" for name in sorted(named - {os.path.basename(p) for p in wanted})]
    return wrong if named else ["it names no file"]


def cases():
    for name, stores in PICTURES.items():
        wanted = sources(stores)
        text = subprocess.run([os.path.join(ROOT, "scripts", "draw-calls"), *stores], check=True, capture_output=True,
                              text=True).stdout
        yield f"{name}: the graph has all sources and no cycle", check_graph(text, wanted), False
        with open(os.path.join(ROOT, "docs", "internals", f"calls-{name}.svg"), encoding="utf-8") as file:
            picture = file.read()
        yield f"{name}: the picture names files that exist", check_picture(picture, wanted), False
        with open(os.path.join(ROOT, "docs", "internals", PAGES[name]), encoding="utf-8") as file:
            linked = f"](calls-{name}.svg)" in file.read()
        yield f"{name}: its page shows the picture", [] if linked else [f"{PAGES[name]} does not"], False
    two = '  "a.c" [label="a.c"];\n  "b.c" [label="b.c"];\n  "a.c" -> "b.c";\n'
    yield "twin: a cycle", check_graph(two + '  "b.c" -> "a.c";\n', {"a.c", "b.c"}), True
    yield "twin: a source is missing", check_graph(two, {"a.c", "b.c", "c.c"}), True
    yield "twin: a file that is gone", check_picture("<text>gone.c</text>", {"redis/redis.c"}), True
    yield "twin: an empty picture", check_picture("<svg/>", {"redis/redis.c"}), True


def main():
    failed = number = 0
    for number, (name, wrong, must_fail) in enumerate(cases(), 1):
        good = bool(wrong) == must_fail
        failed += not good
        print(f"{'ok' if good else 'not ok'} {number} - {name}")
        for line in [] if good else wrong:
            print(f"# {line}")
    print(f"1..{number}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
