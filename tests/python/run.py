#!/usr/bin/env python3
"""Builds the Python package against the library of the build folder and runs its tests; prints TAP.

    run.py ROOT BUILD [arguments of pytest]
"""
import os
import shutil
import subprocess
import sys
import tempfile

ROOT, BUILD, *ARGUMENTS = sys.argv[1:]

PKG_CONFIG = """
Name: simba
Description: the library of a build folder
Version: 0
Cflags: -I{root}/include
Libs: -L{build} -lsimba
"""


def main():
    with tempfile.TemporaryDirectory(prefix="simba-python-") as folder:
        package = os.path.join(folder, "python")
        shutil.copytree(os.path.join(ROOT, "bindings/python"), package)
        with open(os.path.join(folder, "simba.pc"), "w", encoding="utf-8") as file:
            file.write(PKG_CONFIG.format(root=ROOT, build=BUILD))
        environment = dict(os.environ, PKG_CONFIG_PATH=folder, LD_LIBRARY_PATH=BUILD, PYTHONPATH=package,
                           PYTHONDONTWRITEBYTECODE="1", SIMBA_ROOT=ROOT, SIMBA_PACKAGE=package,
                           SIMBA_PROGRAM=os.path.join(BUILD, "simba"),
                           SIMBA_COUNTER=os.path.join(BUILD, "tests/python/simba-counter"))
        made = subprocess.run([sys.executable, "native_build.py"], cwd=package, env=environment, check=False,
                              capture_output=True, text=True)
        if made.returncode != 0:
            print("1..1\nnot ok 1 - the extension module is built\n" + made.stderr, flush=True)
            return 1
        tap = os.dup(1)  # what pytest itself prints is no TAP
        environment["SIMBA_TAP"] = str(tap)
        return subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *ARGUMENTS,
                               os.path.join(ROOT, "tests/python")], cwd=package, env=environment, check=False,
                              stdout=subprocess.DEVNULL, pass_fds=[tap]).returncode


if __name__ == "__main__":
    sys.exit(main())
