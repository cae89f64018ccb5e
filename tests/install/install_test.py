#!/usr/bin/env python3
"""Installs the build into a folder of its own and uses it as a stranger would.

    install_test.py ROOT BUILD PREFIX LIBDIR

PREFIX and LIBDIR are those of the build. What is installed lies below a temporary folder, as for a
package; pkg-config is told so by PKG_CONFIG_SYSROOT_DIR, and the CMake package finds its files by itself.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT, BUILD, PREFIX, LIBDIR = sys.argv[1:5]
FLAGS = ["-Wall", "-Wextra", "-Werror"]
SECONDS = 60

CMAKE_PROJECT = """
cmake_minimum_required(VERSION 3.16)
project(stranger C CXX)
find_package(simba {version} REQUIRED)
add_executable(shared {root}/examples/locker.c)
target_link_libraries(shared simba::simba)
add_executable(static {root}/examples/locker.c)
target_link_libraries(static simba::static)
add_executable(cpp {root}/examples/leader.cpp)
target_compile_features(cpp PRIVATE cxx_std_17)
target_link_libraries(cpp simba::simba)
add_executable(kit {work}/kit.c)
target_link_libraries(kit simba::tck)
"""

KIT_PROGRAM = """
#include <simba/tck.h>

int main(void)
{
    struct simba_tck_options options = SIMBA_TCK_OPTIONS_INIT;
    int passed = 0;

    options.url = "memory:";
    options.only = "restart";
    return simba_tck_run(&options, &passed, NULL, NULL) == SIMBA_OK && passed == 1 ? 0 : 1;
}
"""


class Tree:
    """The installed tree, and a folder to build in."""

    def __init__(self, folder):
        self.destdir = os.path.join(folder, "root")
        self.work = os.path.join(folder, "work")
        self.prefix = self.destdir + PREFIX
        self.libdir = os.path.join(self.prefix, LIBDIR)
        os.mkdir(self.work)

    def path(self, *names):
        return os.path.join(self.prefix, *names)

    def environment(self):
        return dict(os.environ, LD_LIBRARY_PATH=self.libdir, PKG_CONFIG_PATH="",
                    PKG_CONFIG_LIBDIR=os.path.join(self.libdir, "pkgconfig"),
                    PKG_CONFIG_SYSROOT_DIR=self.destdir)

    def run(self, *command):
        """Runs it in the work folder and returns what it printed; raises when it fails."""
        done = subprocess.run(command, cwd=self.work, env=self.environment(), check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=SECONDS)
        if done.returncode != 0:
            raise AssertionError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}")
        return done.stdout

    def flags(self, *options, package="simba"):
        return self.run("pkg-config", *options, package).split()


def expect(condition, sentence):
    if not condition:
        raise AssertionError(sentence)


def example(name):
    return os.path.join(ROOT, "examples", name)


# ---- The cases ------------------------------------------------------------------------------

def everything_is_in_its_place(tree):
    for name in ("bin/simba", "include/simba/simba.h", "include/simba/simba.hpp",
                 "include/simba/backend.h", "include/simba/sql.h", "include/simba/tck.h",
                 f"{LIBDIR}/libsimba.so", f"{LIBDIR}/libsimba.so.0", f"{LIBDIR}/libsimba.a",
                 f"{LIBDIR}/libsimba-tck.a", f"{LIBDIR}/pkgconfig/simba.pc",
                 f"{LIBDIR}/pkgconfig/simba-tck.pc", f"{LIBDIR}/cmake/simba/simbaConfig.cmake",
                 f"{LIBDIR}/cmake/simba/simbaConfigVersion.cmake",
                 "share/man/man1/simba.1", "share/man/man5/simba.yaml.5",
                 "share/man/man3/libsimba.3", "share/man/man3/simba_locker_acquire.3",
                 "share/bash-completion/completions/simba", "share/zsh/site-functions/_simba"):
        expect(os.path.exists(tree.path(name)), f"{name} is not installed")


def nothing_else_is_installed(tree):
    """Neither an archive of parts nor a test or an example program."""
    for folder, _, files in os.walk(tree.destdir):
        for name in files:
            path = os.path.relpath(os.path.join(folder, name), tree.prefix)
            expect("simba" in path and not re.search(r"simba-(?!tck)\w+\.a", path), f"{path} is installed")


def the_program_runs(tree):
    version = tree.run(tree.path("bin/simba"), "--version")
    expect(version == f"simba {tree.flags('--modversion')[0]}\n", f"--version prints {version}")


def instruments(tree):
    return {verb: glob.glob(os.path.join(tree.libdir, "simba-*", f"simba-{verb}"))[0] for verb in ("tck", "bench")}


def the_program_starts_its_instruments(tree):
    for verb, path in instruments(tree).items():
        done = run_verb(tree, verb, "--url", "no-such-store:")
        expect(done.returncode == 78 and "no-such-store" in done.stderr, f"{verb}: {done.stderr}")
        shutil.move(path, tree.work)
        try:
            done = run_verb(tree, verb)
            expect(done.returncode == 78 and f"simba-{verb}" in done.stderr, f"{done.returncode}: {done.stderr}")
        finally:
            shutil.move(os.path.join(tree.work, os.path.basename(path)), path)
    done = run_verb(tree, "tck", "--case", "start")
    expect("1 passed, 0 failed" in done.stdout, f"{done.stdout}{done.stderr}")


def modules(tree):
    return glob.glob(os.path.join(tree.libdir, "simba-*", "simba-*.so"))


def run_verb(tree, *arguments):
    """No LD_LIBRARY_PATH helps to find anything."""
    environment = {"PATH": os.environ["PATH"], "HOME": tree.work}
    return subprocess.run([tree.path("bin/simba"), *arguments], env=environment, check=False,
                          capture_output=True, text=True, timeout=SECONDS)


def run_status(tree, url):
    """Of a store that does not answer; only the module's own words are of interest."""
    return run_verb(tree, "--url", url, "status")


def modules_are_loaded_from_beside_the_library(tree):
    stores = [re.search("simba-([a-z]+).so", path).group(1) for path in modules(tree)]
    if not stores:
        return "no store is loaded"
    for store in stores:
        done = run_status(tree, f"{store}://127.0.0.1:1/0?no-such-option=1")
        expect("no-such-option" in done.stderr, f"{store}: {done.stderr}")
    return None


def a_missing_module_is_named(tree):
    for path in modules(tree):
        store = re.search("simba-([a-z]+).so", path).group(1)
        shutil.move(path, tree.work)
        try:
            done = run_status(tree, f"{store}://127.0.0.1:1/")
            expect(done.returncode == 78 and f"the backend '{store}' cannot be loaded" in done.stderr
                   and os.path.basename(path) in done.stderr
                   and f"; on Debian install libsimba0-{store}\n" in done.stderr, f"{done.returncode}: {done.stderr}")
        finally:
            shutil.move(os.path.join(tree.work, os.path.basename(path)), path)


def tls_without_its_module_is_refused(tree):
    """The stores that load it when a URL asks for TLS; without TLS they do without it."""
    stores = [store for store in ("redis", "etcd") if any(f"simba-{store}.so" in path for path in modules(tree))]
    for path in glob.glob(os.path.join(tree.libdir, "simba-*", "wire-tls.so")):
        shutil.move(path, tree.work)
        try:
            for store in stores:
                done = run_status(tree, f"{store}s://127.0.0.1:1/")
                expect(done.returncode == 78 and "TLS cannot be used" in done.stderr and "wire-tls.so" in done.stderr
                       and "; on Debian install libsimba0\n" in done.stderr, f"{done.returncode}: {done.stderr}")
                done = run_status(tree, f"{store}://127.0.0.1:1/")
                expect(done.returncode == 69 and "TLS" not in done.stderr, f"{done.returncode}: {done.stderr}")
        finally:
            shutil.move(os.path.join(tree.work, os.path.basename(path)), path)
    for store in stores:
        done = run_status(tree, f"{store}s://127.0.0.1:1/")
        expect(done.returncode == 69, f"{done.returncode}: {done.stderr}")


STRANGER = """
const char simba_private_{store}_module[4096];
"""


def a_module_of_another_build_is_named_with_its_path(tree):
    for path in modules(tree)[:1]:
        store = re.search("simba-([a-z]+).so", path).group(1)
        with open(os.path.join(tree.work, "stranger.c"), "w", encoding="utf-8") as file:
            file.write(STRANGER.format(store=store))
        tree.run("cc", *FLAGS, "-shared", "-fPIC", "stranger.c", "-o", "stranger.so")
        shutil.move(path, tree.work)
        shutil.copy(os.path.join(tree.work, "stranger.so"), path)
        try:
            done = run_status(tree, f"{store}://127.0.0.1:1/")
            expect(done.returncode == 78 and f"{os.path.realpath(path)} belongs to another build" in done.stderr,
                   f"{done.returncode}: {done.stderr}")
        finally:
            shutil.move(os.path.join(tree.work, os.path.basename(path)), path)


PLANTED = """
#include <stdio.h>
__attribute__((constructor)) static void tell(void) { fputs("planted", stderr); }
"""


class Plant:
    """A copy of the program with modules near it that tell when they are loaded."""

    def __init__(self, tree, place, modules_place):
        self.tree = tree
        self.root = tempfile.mkdtemp(dir=tree.work)
        self.program = os.path.join(self.root, place, "simba")
        module = modules(tree)[0]
        self.folder = os.path.join(self.root, modules_place, os.path.basename(os.path.dirname(module)))
        self.parent = os.path.dirname(self.folder)
        self.store = re.search("simba-([a-z]+).so", module).group(1)
        os.makedirs(os.path.dirname(self.program), exist_ok=True)
        os.makedirs(self.folder)
        shutil.copy(tree.path("bin/simba"), self.program)
        shutil.copy(os.path.join(tree.work, "planted.so"), os.path.join(self.folder, os.path.basename(module)))

    def tells(self):
        done = subprocess.run([self.program, "--url", f"{self.store}://127.0.0.1:1/0?no-such-option=1", "status"],
                              check=False, capture_output=True, text=True, timeout=SECONDS)
        return done.stderr


def what_others_put_near_the_program_is_not_run(tree):
    if not modules(tree):
        return "no store is loaded"
    with open(os.path.join(tree.work, "planted.c"), "w", encoding="utf-8") as file:
        file.write(PLANTED)
    tree.run("cc", *FLAGS, "-shared", "-fPIC", "planted.c", "-o", "planted.so")
    for place, modules_place in (("bin", "bin"), ("bin", LIBDIR)):
        plant = Plant(tree, place, modules_place)
        expect("planted" in plant.tells(), f"twin: nothing is run from {modules_place}")
        for folder in (plant.folder, plant.parent):
            os.chmod(folder, 0o1777)
            text = plant.tells()
            expect("planted" not in text, f"what is in the {modules_place} of all is run")
            expect(f"{plant.folder}/simba-{plant.store}.so is refused: " in text or "no-such-option" in text, text)
            os.chmod(folder, 0o755)
        if os.getuid() == 0:
            os.chown(plant.folder, 65534, 65534)
            expect("planted" not in plant.tells(), f"what is another's in {modules_place} is run")
    return None


APPLICATION = """
#include <simba/simba.h>
#include <stdio.h>
#include <stdlib.h>
/* What many string builders call their functions. */
void sb_free(void *memory) { (void)memory; abort(); }
void *sb_alloc(size_t size) { (void)size; abort(); }
int main(int argc, char **argv)
{
    simba_client *client = NULL;
    struct simba_error error;
    for (int i = 1; i < argc; i++) {
        simba_client_open(argv[i], NULL, &client, &error);
        puts(error.text);
    }
    return 0;
}
"""


def an_application_may_have_names_of_ours(tree):
    """Ours are its own business: modules must not call an application's sb_free()."""
    with open(os.path.join(tree.work, "names.c"), "w", encoding="utf-8") as file:
        file.write(APPLICATION)
    tree.run("cc", *FLAGS, "names.c", "-o", "names", *tree.flags("--cflags", "--libs"))
    stores = [re.search("simba-([a-z]+).so", path).group(1) for path in modules(tree)]
    if not stores:
        return "no store is loaded"
    text = tree.run("./names", *[f"{store}://127.0.0.1:1/0?no-such-option=1" for store in stores])
    expect(text.count("no-such-option") == len(stores), text)
    return None


PLUG_IN = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_LOCAL)
for url in sys.argv[2:]:
    error = ctypes.create_string_buffer(4096)
    client = ctypes.c_void_p()
    library.simba_client_open(url.encode(), None, ctypes.byref(client), error)
    print(error.raw)
for name in ("simba_client_open", "uv_version_string"):
    print(name, "is seen by all" if hasattr(ctypes.CDLL(None), name) else "is its own")
"""


def a_library_that_was_loaded_for_one_plug_in_loads_modules(tree):
    stores = [re.search("simba-([a-z]+).so", path).group(1) for path in modules(tree)]
    if not stores:
        return "no store is loaded"
    text = tree.run(sys.executable, "-c", PLUG_IN, os.path.join(tree.libdir, "libsimba.so"),
                    *[f"{store}://127.0.0.1:1/0?no-such-option=1" for store in stores])
    expect(text.count("no-such-option") == len(stores), text)
    expect("is seen by all" not in text, text)
    return None


TWO_COPIES = """
import ctypes, sys
for path in sys.argv[1:3]:
    library = ctypes.CDLL(path)
    error = ctypes.create_string_buffer(4096)
    library.simba_client_open(sys.argv[3].encode(), None, ctypes.byref(ctypes.c_void_p()), error)
    print(error.raw)
"""


def a_module_that_finds_another_copy_is_refused(tree):
    """The loader takes the first library of a name for all that ask for the name."""
    for path in modules(tree):
        store = re.search("simba-([a-z]+).so", path).group(1)
        copy = os.path.join(tree.work, "copy-" + store)
        os.mkdir(copy)
        shutil.copy(os.path.join(tree.libdir, "libsimba.so.0"), copy)
        shutil.copytree(os.path.dirname(path), os.path.join(copy, os.path.basename(os.path.dirname(path))))
        text = tree.run(sys.executable, "-c", TWO_COPIES, os.path.join(tree.libdir, "libsimba.so.0"),
                        os.path.join(copy, "libsimba.so.0"), f"{store}://127.0.0.1:1/0?no-such-option=1")
        expect(text.count("no-such-option") == 1 and "uses another copy" in text, text)


NAMESPACE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <simba/simba.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    void *library = dlmopen(LM_ID_NEWLM, argv[1], RTLD_NOW);
    __typeof__(&simba_client_open) open_client = library ? dlsym(library, "simba_client_open") : 0;
    simba_client *client = NULL;
    struct simba_error error = {0};
    for (int i = 2; open_client && i < argc; i++) {
        open_client(argv[i], NULL, &client, &error);
        puts(error.text);
    }
    return 0;
}
"""


def a_library_in_a_namespace_of_its_own_loads_modules(tree):
    with open(os.path.join(tree.work, "namespace.c"), "w", encoding="utf-8") as file:
        file.write(NAMESPACE)
    tree.run("cc", "-Wall", "-Werror", "namespace.c", "-o", "namespace", *tree.flags("--cflags"), "-ldl")
    stores = [re.search("simba-([a-z]+).so", path).group(1) for path in modules(tree)]
    if not stores:
        return "no store is loaded"
    for store in stores:
        text = tree.run("./namespace", os.path.join(tree.libdir, "libsimba.so"),
                        f"{store}://127.0.0.1:1/0?no-such-option=1")
        expect("no-such-option" in text, f"{store}: {text}")
    return None


def the_units_start_the_program(tree):
    for verb in ("lead", "schedule"):
        path = tree.path(f"share/doc/simba/examples/simba-{verb}@.service")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        expect(f"\nExecStart={PREFIX}/bin/simba {verb} " in text, f"{path} starts another program")


def functions_are_found_in_the_manual(tree):
    if not shutil.which("man"):
        return "there is no man"
    found = tree.run("man", "-M", tree.path("share/man"), "-w", "3", "simba_client_open")
    expect("simba_client" in found, f"man finds {found}")
    return None


def a_c_program_builds_by_pkg_config(tree):
    flags = tree.flags("--cflags", "--libs")
    expect("-lsimba" in flags and "-luv" not in flags, f"pkg-config tells {flags}")
    tree.run("cc", "-std=gnu99", *FLAGS, example("locker.c"), "-o", "shared", *flags)
    expect("libsimba.so" in tree.run("ldd", "shared"), "it is not linked to the shared library")
    expect("step 3" in tree.run("./shared", "memory:"), "it does not work")


def a_c_program_links_statically(tree):
    libraries = [flag for flag in tree.flags("--static", "--libs") if flag != "-lsimba"]
    tree.run("cc", *FLAGS, example("locker.c"), "-o", "static", *tree.flags("--cflags"),
             os.path.join(tree.libdir, "libsimba.a"), *libraries)
    expect("libsimba.so" not in tree.run("ldd", "static"), "it is linked to the shared library")
    expect("step 3" in tree.run("./static", "memory:"), "it does not work")


def the_kit_is_a_library_of_its_own(tree):
    with open(os.path.join(tree.work, "kit.c"), "w", encoding="utf-8") as file:
        file.write(KIT_PROGRAM)
    tree.run("cc", "-std=gnu99", *FLAGS, "kit.c", "-o", "kit", *tree.flags("--cflags", "--libs", package="simba-tck"))
    tree.run("./kit")
    libraries = [flag for flag in tree.flags("--static", "--libs", package="simba-tck") if flag != "-lsimba"]
    tree.run("cc", *FLAGS, "kit.c", "-o", "kit-static", *tree.flags("--cflags"), "-L" + tree.libdir, "-lsimba-tck",
             os.path.join(tree.libdir, "libsimba.a"), *libraries)
    tree.run("./kit-static")
    expect("simba_tck" not in tree.run("nm", "--dynamic", os.path.join(tree.libdir, "libsimba.so")),
           "programs that use locks carry the kit")


def a_cpp_program_builds_by_pkg_config(tree):
    if not shutil.which("c++"):
        return "there is no C++ compiler"
    tree.run("c++", "-std=c++17", *FLAGS, example("leader.cpp"), "-o", "cpp",
             *tree.flags("--cflags", "--libs"))
    expect("migrating" in tree.run("./cpp", "memory:", "0"), "it does not work")
    return None


def configure(tree, version):
    folder = os.path.join(tree.work, "cmake-" + version)
    os.mkdir(folder)
    with open(os.path.join(folder, "CMakeLists.txt"), "w", encoding="utf-8") as file:
        file.write(CMAKE_PROJECT.format(root=ROOT, version=version, work=tree.work))
    tree.run("cmake", "-S", folder, "-B", folder, f"-DCMAKE_PREFIX_PATH={tree.prefix}",
             "-DCMAKE_C_FLAGS=" + " ".join(FLAGS), "-DCMAKE_CXX_FLAGS=" + " ".join(FLAGS))
    return folder


def programs_build_by_cmake(tree):
    if not shutil.which("cmake"):
        return "there is no cmake"
    version = tree.flags("--modversion")[0]
    folder = configure(tree, version)
    tree.run("cmake", "--build", folder)
    expect("step 3" in tree.run(f"{folder}/shared", "memory:"), "the shared one does not work")
    expect("step 3" in tree.run(f"{folder}/static", "memory:"), "the static one does not work")
    expect("migrating" in tree.run(f"{folder}/cpp", "memory:", "0"), "the C++ one does not work")
    expect("libsimba.so" not in tree.run("ldd", f"{folder}/static"), "the static one is shared")
    tree.run(f"{folder}/kit")
    return None


def cmake_refuses_another_version(tree):
    if not shutil.which("cmake"):
        return "there is no cmake"
    major, minor = map(int, tree.flags("--modversion")[0].split(".")[:2])
    for version in (f"{major}.{minor + 1}", f"{major + 1}.0"):
        try:
            configure(tree, version)
        except AssertionError as refusal:
            expect(re.search("not accepted|compatible", str(refusal)), str(refusal))
        else:
            raise AssertionError(f"version {version} is found")
    return None


def a_missing_header_is_noticed(tree):
    """A twin: the check of the tree can fail."""
    shutil.move(tree.path("include/simba/simba.hpp"), tree.work)
    try:
        everything_is_in_its_place(tree)
    except AssertionError:
        return
    finally:
        shutil.move(os.path.join(tree.work, "simba.hpp"), tree.path("include/simba"))
    raise AssertionError("nothing was noticed")


CASES = [everything_is_in_its_place, nothing_else_is_installed, a_missing_header_is_noticed,
         the_program_runs, the_program_starts_its_instruments,
         modules_are_loaded_from_beside_the_library, a_missing_module_is_named,
         tls_without_its_module_is_refused,
         a_module_of_another_build_is_named_with_its_path, what_others_put_near_the_program_is_not_run,
         an_application_may_have_names_of_ours, a_library_that_was_loaded_for_one_plug_in_loads_modules,
         a_module_that_finds_another_copy_is_refused, a_library_in_a_namespace_of_its_own_loads_modules,
         the_units_start_the_program, functions_are_found_in_the_manual,
         a_c_program_builds_by_pkg_config, a_c_program_links_statically,
         the_kit_is_a_library_of_its_own, a_cpp_program_builds_by_pkg_config, programs_build_by_cmake, cmake_refuses_another_version]


def install(tree):
    subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet",
                    "--destdir", tree.destdir], check=True, stdout=subprocess.DEVNULL)


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(folder)
        install(tree)
        for number, case in enumerate(CASES, 1):
            name = case.__name__.replace("_", " ")
            try:
                reason = case(tree)
                print(f"ok {number} - {name}" + (f" # SKIP {reason}" if reason else ""))
            except AssertionError as fault:
                failed += 1
                print(f"not ok {number} - {name}\n# " + str(fault).replace("\n", "\n# "))
    print(f"1..{len(CASES)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
