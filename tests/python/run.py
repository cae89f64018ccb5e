#!/usr/bin/env python3
"""Builds the Python package against the library of the build folder and runs its tests; prints TAP.

    run.py ROOT BUILD PART [arguments of pytest]

PART is a store, or `rest` for what needs no particular one; the parts run side by side.
"""
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile

ROOT, BUILD, PART, *ARGUMENTS = sys.argv[1:]
KEPT = os.path.join(BUILD, "tests/python/kept")  # the extension module, and what mypy found

PKG_CONFIG = """
Name: simba
Description: the library of a build folder
Version: 0
Cflags: -I{root}/include
Libs: -L{build} -lsimba
"""


def read(path):
    with open(path, "rb") as file:
        return file.read()


def make_native(package, environment):
    """The extension module: once for each header, whichever part comes first. Returns what went wrong."""
    sources = [os.path.join(package, "native_build.py"), os.path.join(ROOT, "include/simba/simba.h")]
    key = hashlib.sha256(sys.version.encode() + b"".join(map(read, sources))).hexdigest()[:16]
    kept = os.path.join(KEPT, f"native-{key}.so")
    os.makedirs(KEPT, exist_ok=True)
    with open(os.path.join(KEPT, "lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(kept):
            made = subprocess.run([sys.executable, "native_build.py"], cwd=package, env=environment, check=False,
                                  capture_output=True, text=True)
            if made.returncode != 0:
                return made.stderr
            folder = os.path.join(package, "simba_lock")
            found, = (name for name in os.listdir(folder) if name.startswith("_native.") and name.endswith(".so"))
            os.replace(shutil.move(os.path.join(folder, found), kept + ".new"), kept)
    shutil.copy(kept, os.path.join(package, "simba_lock/_native.so"))
    return None


def main():
    with tempfile.TemporaryDirectory(prefix="simba-python-") as folder:
        package = os.path.join(folder, "python")
        shutil.copytree(os.path.join(ROOT, "bindings/python"), package)
        with open(os.path.join(folder, "simba.pc"), "w", encoding="utf-8") as file:
            file.write(PKG_CONFIG.format(root=ROOT, build=BUILD))
        environment = dict(os.environ, PKG_CONFIG_PATH=folder, PYTHONPATH=package, PYTHONDONTWRITEBYTECODE="1",
                           SIMBA_ROOT=ROOT, SIMBA_PART=PART, SIMBA_MYPY=os.path.join(KEPT, "mypy"),
                           SIMBA_PROGRAM=os.path.join(BUILD, "simba"),
                           SIMBA_COUNTER=os.path.join(BUILD, "tests/python/simba-counter"))
        environment.pop("LD_LIBRARY_PATH", None)  # the module finds the library by itself
        wrong = make_native(package, environment)
        if wrong is not None:
            print("1..1\nnot ok 1 - the extension module is built\n" + wrong, flush=True)
            return 1
        tap = os.dup(1)  # what pytest itself prints is no TAP
        environment["SIMBA_TAP"] = str(tap)
        return subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *ARGUMENTS,
                               os.path.join(ROOT, "tests/python")], cwd=package, env=environment, check=False,
                              stdout=sys.stderr if ARGUMENTS else subprocess.DEVNULL, pass_fds=[tap]).returncode


if __name__ == "__main__":
    sys.exit(main())
