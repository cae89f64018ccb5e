#!/usr/bin/env python3
"""Shows that scripts/check-layers can fail: each rule has a twin of the tree that breaks it.

    check_layers_test.py CHECK_LAYERS COMPILER...
"""
import os
import subprocess
import sys
import tempfile

CHECK_LAYERS, COMPILER = sys.argv[1], sys.argv[2:]

CLEAN = {
    "include/simba/simba.h": "#include <stdint.h>\n",
    "src/base/text.h": "#include <simba/simba.h>\n",
    "src/core/machine.c": '#include "base/text.h"\n#include <string.h>\n#include <simba/backend.h>\n',
    "src/backend/sqlite/driver.c": '#include "backend/sql/repository.h"\n#include <sqlite3.h>\n',
    "src/backend/registry.c": '#include "backend/sqlite/sqlite.h"\n',
    "src/backend/redis/redis.c": '#include "backend/redis/request/request.h"\n',
    "src/backend/redis/request/request.h": "void sb_redis_request_start(void);\n",
    "src/backend/redis/request/request.c":
        '#include "backend/redis/wire/stream.h"\n\nstatic void helper(void)\n{\n    sb_redis_stream_open();\n}\n\n'
        "void sb_redis_request_start(void)\n{\n    helper();\n}\n",
    "src/backend/redis/request/nodes.h": "struct simba_backend {\n    int count;\n};\n",
    "src/backend/redis/wire/stream.h": "void sb_redis_stream_open(void);\n",
    "src/backend/redis/wire/stream.c":
        "void sb_redis_stream_open(void)\n{\n    /* sb_redis_request_start() */\n}\n",
    "src/runtime/loop.c": "#include <uv.h>\n",
    "src/bench/raw_sqlite.c": '#include "backend/sqlite/driver.h"\n',
    "src/api/client.c": '#include "runtime/loop.h"\n#include "backend/registry.h"\n',
}

# The case, the file that breaks a rule, its text, and what must be reported of it.
BROKEN = [
    ("base includes upwards", "src/base/bad.c", '#include "core/machine.h"\n', "upwards"),
    ("runtime includes upwards", "src/runtime/bad.c", '#include "api/client.h"\n', "upwards"),
    ("core includes a system header", "src/core/bad.c", "#include <time.h>\n", "<time.h>"),
    ("core includes the allocator", "src/core/bad.c", '#include "base/alloc.h"\n', "base/alloc.h"),
    ("a spaced include is seen", "src/core/bad.h", "  #  include <stdlib.h>\n", "<stdlib.h>"),
    ("backends see each other", "src/backend/memory/bad.c",
     '#include "backend/sqlite/driver.h"\n', "backend memory includes"),
    ("a layer sees into a backend", "src/api/bad.c",
     '#include "backend/sqlite/driver.h"\n', "the backend's own"),
    ("a plain client sees into another backend", "src/bench/raw_redis.c",
     '#include "backend/sqlite/driver.h"\n', "the backend's own"),
    ("the program sees into the library", "src/cli/bad.c", '#include "api/client.h"\n', "is public"),
    ("the api sees libuv", "src/api/bad.c", "#include <uv.h>\n", "<uv.h>"),
    ("the api sees into the runtime", "src/api/bad.c",
     '#include "runtime/service_state.h"\n', "the runtime's own"),
    ("an include escapes from src", "src/base/bad.c", '#include "../x.h"\n', "not a path below src"),
    ("a folder without a layer", "src/misc/bad.c", "\n", "in no layer"),
    ("a part of a store includes upwards", "src/backend/redis/wire/bad.c",
     '#include "backend/redis/request/request.h"\n', "not below it"),
    ("parts of one row of a store see each other", "src/backend/redis/pubsub/bad.c",
     '#include "backend/redis/topology/cluster.h"\n', "not below it"),
    ("a file of a store is in no part", "src/backend/redis/misc/bad.h", "\n", "in no part"),
    ("two files call each other", "src/backend/redis/wire/stream.c",
     "void sb_redis_stream_open(void)\n{\n    sb_redis_request_start();\n}\n", "call each other"),
    ("two files call each other, the type on a line of its own", "src/backend/redis/wire/stream.c",
     "struct sb_redis_stream *\nsb_redis_stream_open(void)\n{\n    sb_redis_request_start();\n}\n", "call each other"),
    ("a function lacks the prefix", "src/backend/redis/wire/bad.c", "int sb_bad(int x)\n{\n    return x;\n}\n", "sb_bad"),
    ("a struct lacks the prefix", "src/backend/redis/wire/bad.h", "struct sb_bad {\n    int x;\n};\n", "sb_bad"),
    ("an enum lacks the prefix", "src/backend/redis/wire/bad.h", "enum sb_bad {\n    ONE\n};\n", "sb_bad"),
    ("a type of functions lacks the prefix", "src/backend/redis/wire/bad.h",
     "typedef void sb_bad(int x, int y);\n", "sb_bad"),
    ("a variable lacks the prefix", "src/backend/redis/wire/bad.h", "extern const int sb_bad[2];\n", "sb_bad"),
    ("a macro lacks the prefix", "src/backend/redis/wire/bad.h", "#define SB_BAD 1\n", "SB_BAD"),
    ("a prefix is another folder's", "src/base/bad.c", "void sb_redis_bad(void)\n{\n}\n", "prefix of backend/redis"),
    ("a public header drags libuv in", "include/simba/bad.h", "#include <uv.h>\n", "public header"),
]

# The case, the source of the core's archive, and what must be reported of it, None for nothing.
OBJECTS = [
    ("pure code passes", "int f(int x);\nint f(int x) { return x + 1; }\n", None),
    ("a table of constants passes",
     'const char *f(int i);\nstatic const char *const t[] = {"a", "b"};\n'
     "const char *f(int i) { return t[i]; }\n", None),
    ("a call of malloc", "#include <stdlib.h>\nvoid *f(void);\nvoid *f(void) { return malloc(1); }\n",
     "calls malloc"),
    ("a call of the clock", "#include <time.h>\nlong f(void);\nlong f(void) { return time(0); }\n",
     "calls time"),
    ("a variable", "int f(void);\nint f(void) { static int n; return ++n; }\n", "a variable: n"),
]


def write_tree(root, files):
    for path, text in files.items():
        path = os.path.join(root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def build_archive(root, source):
    write_tree(root, {"object.c": source})
    path = os.path.join(root, "object")
    subprocess.run([*COMPILER, "-O1", "-fPIC", "-c", path + ".c", "-o", path + ".o"], check=True)
    subprocess.run(["ar", "rc", path + ".a", path + ".o"], check=True)
    return path + ".a"


def check(files, source=None):
    """The exit code and the output of check-layers on a tree, and on an archive where given."""
    with tempfile.TemporaryDirectory() as root:
        write_tree(root, files)
        command = [CHECK_LAYERS, root]
        if source is not None:
            command.append(build_archive(root, source))
        run = subprocess.run(command, check=False, capture_output=True, text=True)
        return run.returncode, run.stdout + run.stderr


def cases():
    code, output = check(CLEAN)
    yield "a clean tree passes", code == 0 and output == "", output
    for name, path, text, expected in BROKEN:
        code, output = check({**CLEAN, path: text})
        yield name, code == 1 and expected in output and path in output, output
    for name, source, expected in OBJECTS:
        code, output = check(CLEAN, source)
        good = code == 0 and output == "" if expected is None else code == 1 and expected in output
        yield "core objects: " + name, good, output


def main():
    failed = 0
    number = 0
    for number, (name, good, output) in enumerate(cases(), 1):
        print(f"{'ok' if good else 'not ok'} {number} - {name}")
        if not good:
            failed += 1
            print("# " + output.replace("\n", "\n# "))
    print(f"1..{number}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
