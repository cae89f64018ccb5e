#!/usr/bin/env python3
"""Hostile modules: the program, and the library in an application, load code only from users who could replace the
program or the library itself.

    modules_test.py APPLICATION WAY

The application is any that opens the URL of its argument; WAY leads from the folder of the program to that of the
library. The hostile user is a real one, 65534, and the victim is
root. So the test needs root; it says so where it has not.
"""
import glob
import os
import re
import shutil
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))
from program import PROGRAM, as_nobody, case, contains, main, true, write

APPLICATION, WAY = os.path.abspath(sys.argv[1]), sys.argv[2]
BUILD = os.path.dirname(PROGRAM)
HOSTILE = 65534
GROUP = 54321  # no one's; only the right of the group counts
FOLDER = os.path.basename(glob.glob(os.path.join(BUILD, "simba-[0-9]*[0-9]"))[0])
MODULES = [re.search("simba-([a-z]+).so", path).group(1)
           for path in glob.glob(os.path.join(BUILD, FOLDER, "simba-*.so"))]

PLANTED = """
#include <stdio.h>
__attribute__((constructor)) static void tell(void) { fputs("planted", stderr); }
"""


def folder(path, owner=0, group=None, mode=0o755):
    os.makedirs(path, exist_ok=True)
    os.chown(path, owner, owner if group is None else group)
    os.chmod(path, mode)
    return path


def put(source, path, owner=0, group=None, mode=0o755):
    shutil.copy(source, path)
    os.chown(path, owner, owner if group is None else group)
    os.chmod(path, mode)
    return path


def link(target, path, owner=0):
    os.symlink(target, path)
    os.lchown(path, owner, owner)


def plant(place, name=f"simba-{MODULES[0] if MODULES else ''}.so", **rights):
    """Code that tells when it is loaded."""
    if not os.path.exists("planted.so"):
        write("planted.c", PLANTED)
        subprocess.run(["cc", "-shared", "-fPIC", "planted.c", "-o", "planted.so"], check=True)
    return put("planted.so", os.path.join(place, name), **rights)


def open_store(program, **more):
    """What is said; the module that belongs to the program would refuse the parameter."""
    url = f"{MODULES[0]}://127.0.0.1:1?no-such-option=1"
    arguments = [url] if program == APPLICATION else ["-u", url, "status"]
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, check=False, **more).stderr


def start(program, verb):
    """What the program behind a verb says, or the one that is to start it."""
    return subprocess.run([program, verb, "--url", "no-such-store:"], capture_output=True, text=True, timeout=60,
                          check=False).stderr


def refused(text, *words):
    """Another module may be loaded, or program be started, from where the program is installed."""
    true("planted" not in text, f"the code of another user was run: {text}")
    for word in words if "no-such-" not in text else ():
        contains(text, word)


def loaded(text):
    contains(text, "planted")


# ---- Beside the program -------------------------------------------------------------------------

@case
def a_link_of_another_user_beside_the_program_is_not_followed():
    place = folder("place", group=GROUP, mode=0o1775)
    program = put(PROGRAM, "place/simba")
    link(".", f"place/{FOLDER}", HOSTILE)
    plant(place, owner=HOSTILE)
    refused(open_store(os.path.abspath(program)), os.path.abspath("place"), "user 65534")


@case
def a_module_of_another_user_is_not_used():
    place = folder(f"place/{FOLDER}")
    program = os.path.abspath(put(PROGRAM, "place/simba"))
    module = plant(place)
    loaded(open_store(program))
    os.chown(module, HOSTILE, HOSTILE)
    refused(open_store(program), os.path.abspath(module), "it belongs to user 65534")
    os.remove(module)
    folder("his", HOSTILE)
    link(os.path.abspath(plant("his")), module)
    refused(open_store(program), os.path.abspath(module), "user 65534")


@case
def a_module_that_others_may_write_is_not_used():
    place = folder(f"place/{FOLDER}")
    program = os.path.abspath(put(PROGRAM, "place/simba"))
    module = plant(place)
    for path in (module, place, "place"):
        for mode, words in ((0o775, "its group can write"), (0o777, "every user can write"), (0o1777, "every user can write"),
                            (0o1775, "its group can write")):
            if path == "place" and mode == 0o775:
                continue  # they can replace the program
            os.chown(path, 0, GROUP)
            os.chmod(path, mode)
            refused(open_store(program), os.path.abspath(module), words)
        os.chmod(path, 0o755)
    loaded(open_store(program))


@case
def a_library_that_another_user_puts_above_the_modules_is_not_loaded():
    """Modules look for their libraries in the folder above them first."""
    folder("place", group=GROUP, mode=0o1775)
    place = folder(f"place/{FOLDER}")
    program = os.path.abspath(put(PROGRAM, "place/simba"))
    put(os.path.join(BUILD, FOLDER, f"simba-{MODULES[0]}.so"), f"{place}/simba-{MODULES[0]}.so")
    plant("place", "libsimba.so.0", owner=HOSTILE)
    refused(open_store(program), os.path.abspath(place), "its group can write")


@case
def a_program_of_another_user_is_not_started():
    """Behind the verbs tck and bench are programs in the same folder."""
    place = folder(f"place/{FOLDER}")
    program = os.path.abspath(put(PROGRAM, "place/simba"))
    for verb in ("tck", "bench"):
        path = f"{place}/simba-{verb}"
        write(path, "#!/bin/sh\necho planted >&2\n")
        os.chmod(path, 0o755)
        loaded(start(program, verb))
        os.chown(path, HOSTILE, HOSTILE)
        refused(start(program, verb), os.path.abspath(path), "it belongs to user 65534")
        os.chown(path, 0, 0)
        os.chmod(path, 0o777)
        refused(start(program, verb), os.path.abspath(path), "every user can write")


# ---- On the way to the library ------------------------------------------------------------------

@case
def a_tree_that_another_user_puts_near_the_program_is_not_used():
    folder("open", mode=0o1777)
    folder("open/tool")
    program = os.path.abspath(put(PROGRAM, "open/tool/simba"))
    folder("share", group=GROUP, mode=0o2775)
    library = os.path.normpath(f"open/tool/{WAY}")
    folder(os.path.dirname(library), HOSTILE)
    link(os.path.abspath("share"), library, HOSTILE)
    link(".", f"share/{FOLDER}", HOSTILE)
    plant("share", owner=HOSTILE)
    refused(open_store(program), os.path.abspath(library))


@case
def a_link_of_another_user_to_a_trusted_place_is_not_followed():
    folder("open", mode=0o1777)
    folder("open/tool")
    program = os.path.abspath(put(PROGRAM, "open/tool/simba"))
    plant(folder(f"unpacked/{FOLDER}"))
    library = os.path.normpath(f"open/tool/{WAY}")
    folder(os.path.dirname(library), HOSTILE)
    link(os.path.abspath("unpacked"), library, HOSTILE)
    refused(open_store(program), os.path.abspath(f"{library}/{FOLDER}"), "user 65534")


# ---- The library in an application --------------------------------------------------------------

def application(place):
    return open_store(APPLICATION, env={**os.environ, "LD_LIBRARY_PATH": os.path.abspath(place)})


@case
def the_library_uses_no_module_of_another_user():
    folder("place", mode=0o1777)
    put(os.path.join(BUILD, "libsimba.so.0"), "place/libsimba.so.0")
    place = folder(f"place/{FOLDER}", HOSTILE)
    module = plant(place, owner=HOSTILE)
    refused(application("place"), os.path.abspath(module), "user 65534")
    os.chown(place, 0, 0)
    os.chown(module, 0, 0)
    refused(application("place"), os.path.abspath(module), "every user can write")
    os.chmod("place", 0o755)
    loaded(application("place"))


# ---- What works as before -----------------------------------------------------------------------

@case
def users_who_can_replace_the_program_may_have_built_the_module():
    """A tree of another user, also where users have a group of their own and let it write."""
    os.chmod(".", 0o755)
    folder("his", HOSTILE, mode=0o775)
    program = os.path.abspath(put(PROGRAM, "his/simba", owner=HOSTILE, mode=0o775))
    module = plant(folder(f"his/{FOLDER}", HOSTILE, mode=0o775), owner=HOSTILE, mode=0o775)
    loaded(open_store(program))
    loaded(open_store(program, **as_nobody()))
    put(os.path.join(BUILD, "libsimba.so.0"), "his/libsimba.so.0", owner=HOSTILE, mode=0o775)
    loaded(application("his"))
    os.chown(program, 0, 0)  # in his folder
    loaded(open_store(program))
    os.chown(module, 0, GROUP)  # another group may write it
    refused(open_store(program), os.path.abspath(module), "its group can write")


@case
def a_build_in_a_folder_that_others_share_works():
    """A checkout that belongs to another user than the build, below folders that everybody may write."""
    for mode in (0o777, 0o1777):
        name = f"mounted{mode:o}"
        folder(name, mode=mode)
        folder(f"{name}/checkout", HOSTILE, mode=0o777)
        place = folder(f"{name}/checkout/build/{FOLDER}")
        program = os.path.abspath(put(PROGRAM, f"{name}/checkout/build/simba"))
        link(os.path.join("..", os.path.basename(plant(os.path.dirname(place)))), f"{place}/simba-{MODULES[0]}.so")
        loaded(open_store(program))


def may_run():
    if os.getuid() != 0:
        return "it takes root to be attacked as root"
    if not MODULES:
        return "no store is loaded"
    if not shutil.which("cc"):
        return "there is no cc"
    return None


if __name__ == "__main__":
    if may_run():
        print(f"1..0 # SKIP {may_run()}")
        sys.exit(0)
    sys.exit(main())
