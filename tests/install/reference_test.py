#!/usr/bin/env python3
"""Holds the manual pages and the completions to the program and the headers, and shows that each check
can fail.

    reference_test.py ROOT PROGRAM

What `simba VERB --help` lists is in simba(1) below that verb and in both completions, and nothing else
is. The commands in the documents have no other options. Section 3 has every public function once, with the
prototype of the header. The exit codes and the variables of simba(1) are those of the program. The pages
pass the checkers that are there.
"""
import functools
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT, PROGRAM = sys.argv[1], os.path.abspath(sys.argv[2])
OPTION = re.compile(r"(?<![\w-])(--?[A-Za-z][\w-]*)")
COMMON = "Options of all verbs"


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def output(*command, **settings):
    return subprocess.run(command, check=True, capture_output=True, text=True, **settings).stdout


# ---- What the program says ------------------------------------------------------------------

@functools.lru_cache(maxsize=None)
def help_of(*verb):
    return output(PROGRAM, *verb, "--help")


def verbs():
    listed = help_of().split("Verbs:\n")[1].split("\n\n")[0]
    return re.findall(r"^  (\w+) ", listed, re.MULTILINE)


def options_below(text, heading):
    """The options at the beginnings of the lines of a list. A line without one goes on with the help of the last."""
    found = set()
    for line in text.split(f"\n{heading}:\n")[1].split("\n\n")[0].splitlines():
        found.update(*re.findall(r"^ {2,6}(-\w)?(?:, )?(--[\w-]+)", line))
    return found - {""}


def own_options(verb):
    text = help_of(verb)
    return options_below(text, "Options") if "\nOptions:\n" in text else set()


def common_options():
    return options_below(help_of("lock"), COMMON)


def difference(told, known, where):
    return ([f"{name} is not in {where}" for name in sorted(known - told)]
            + [f"{name} is only in {where}" for name in sorted(told - known)])


# ---- The documents --------------------------------------------------------------------------

def commands_in(text):
    """What begins with `simba ` in a code span or a line of code, without the command that it runs."""
    for command in re.findall(r"(?:^ *|`|\$ )(simba [^`\n]*)", text, re.MULTILINE):
        yield re.split(r" -- |  | #", command)[0]


def check_documents(texts):
    faults = []
    for command in (command for text in texts for command in commands_in(text)):
        words = command.split()[1:]
        named = [word for word in words if word in verbs()]
        known = common_options() | (own_options(named[0]) if named else set())
        faults += [f"'{command}': there is no {option}" for option in words
                   if option.startswith("-") and option.rstrip(".,;") not in known]
    return faults


# ---- simba(1) -------------------------------------------------------------------------------

def sections(page, macro="Ss"):
    parts = re.split(rf"^\.{macro} (.*)$", page, flags=re.MULTILINE)
    return dict(zip(parts[1::2], (part.split("\n.Sh ")[0] for part in parts[2::2])))


def options_of_items(text):
    """The options of `.It Fl u , -url Ar url`: each stands behind Fl or a comma."""
    found = set()
    for item in re.findall(r"^\.It (Fl .*)$", text, re.MULTILINE):
        item = re.sub(r" Ar \S+", "", item).replace("Fl ", "")
        found.update("-" + name.strip() for name in item.split(","))
    return found


def check_manual_options(page):
    parts = sections(page)
    faults = difference(options_of_items(parts.get(COMMON, "")), common_options(), COMMON)
    for verb in verbs():
        told = options_of_items(parts.get(f"simba {verb}", ""))
        faults += difference(told, own_options(verb), f"simba(1), {verb}")
    told = {name.split()[1] for name in parts if name.startswith("simba ")}
    return faults + difference(told, set(verbs()), "simba(1)")


def check_manual_codes(page):
    codes = re.search(r"enum cli_exit \{(.*?)\};", read("src/cli/cli.h"), re.DOTALL).group(1)
    known = set(re.findall(r"= (\d+)", codes))
    told = set(re.findall(r"^\.It (\d+)", sections(page, "Sh").get("EXIT STATUS", ""), re.MULTILINE))
    return difference(told, known, "EXIT STATUS")


def check_manual_variables(page):
    """Those that the program reads or sets, but for the folder of the kit's own file, and those of a store."""
    code = "".join(read(path) for path in glob.glob("src/cli/*.c", root_dir=ROOT))
    stores = "".join(read(path) for path in glob.glob("src/backend/**/*.c", root_dir=ROOT, recursive=True))
    known = set(re.findall(r'(?:getenv|environment|setenv|read_duration)\("(\w+)"', code)) - {"TMPDIR"}
    told = set()
    for item in re.findall(r"^\.It Ev (.*)$", page, re.MULTILINE):
        told.update(item.replace(",", " ").split())
    if "SIMBA_FENCE" not in code:
        return ["the variables of the command are not found in src/cli"]
    known.update({"SIMBA_MUTEX", "SIMBA_CONTENDER_ID", "SIMBA_FENCE", "SIMBA_FENCES", "SIMBA_SLOT"})
    known.update(re.findall(r"ETCD_LOCK_[A-Z]+", stores))
    return difference(told, known, "ENVIRONMENT")


# ---- Section 3 ------------------------------------------------------------------------------

def squeeze(text):
    return re.sub(r"\s*([*(),])\s*", r"\1", " ".join(text.split()))


def header_prototypes():
    found = {}
    for path in glob.glob("include/simba/*.h", root_dir=ROOT):
        text = re.sub(r"/\*.*?\*/", "", read(path), flags=re.DOTALL)
        for result, name, arguments in re.findall(
                r"^SIMBA_API\s+([^;]*?)\b(simba_\w+)\(([^;]*)\)\s*;", text, re.MULTILINE):
            found[name] = squeeze(f"{result} {name}({arguments})")
    return found


def page_prototypes(page):
    for result, name, arguments in re.findall(
            r"^\.Ft (.*)\n\.Fo (\w+)\n((?:\.Fa .*\n)*)\.Fc$", page, re.MULTILINE):
        listed = [line[4:].strip('"') for line in arguments.splitlines()]
        yield name, squeeze(f"{result.strip(chr(34))} {name}({', '.join(listed)})")


def check_prototypes(pages):
    known, told = header_prototypes(), {}
    faults = [] if len(known) > 80 else ["the headers are not understood"]
    for page in pages:
        for name, prototype in page_prototypes(page):
            if name in told:
                faults.append(f"{name} is in two pages")
            told[name] = prototype
            if not re.search(rf"^\.Nm {name}\b", page, re.MULTILINE):
                faults.append(f"{name} is not among the names of its page")
            if known.get(name, prototype) != prototype:
                faults.append(f"{name}: the page has {prototype}, the header {known[name]}")
    return faults + difference(set(told), set(known), "section 3")


def check_codes(page):
    known = set(re.findall(r"X\((E\w+),", read("include/simba/simba.h")))
    told = set(re.findall(r"^\.It Dv SIMBA_(E\w+)", page, re.MULTILINE))
    return difference(told, known, "simba_error(3)")


# ---- Checkers of pages ----------------------------------------------------------------------

def check_page(text):
    """With mandoc and man, where they are. Groff 1.23 tells, too, of prototypes that fill no line; they may not be broken."""
    faults = []
    if shutil.which("mandoc"):
        run = subprocess.run(["mandoc", "-T", "lint", "-W", "warning"], input=text, check=False,
                             capture_output=True, text=True)
        faults += run.stdout.splitlines()
    if shutil.which("man"):
        command = ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", "-"]
        run = subprocess.run(command, input=text, check=False, capture_output=True, text=True,
                             env=dict(os.environ, LC_ALL="C.UTF-8", MANROFFSEQ=""))
        faults += [line for line in run.stderr.splitlines() if not line.endswith("cannot adjust line")]
    return faults


# ---- Completions ----------------------------------------------------------------------------

BASH_OFFER = """
source completions/simba.bash
COMP_WORDS=(simba "$@"); COMP_CWORD=$#
_simba
printf '%s\\n' "${COMPREPLY[@]}"
"""


def bash_lines(*words):
    env = dict(os.environ, PATH=os.path.dirname(PROGRAM) + os.pathsep + os.environ["PATH"])
    return output("bash", "-c", BASH_OFFER, "bash", *words, cwd=ROOT, env=env).splitlines()


def bash_offers(*words):
    return set(" ".join(bash_lines(*words)).split())


def check_bash(options_of):
    faults = difference(bash_offers("") - {"help"}, set(verbs()), "bash's verbs")
    for verb in verbs():
        offered = bash_offers(verb, "-")
        faults += difference(offered, options_of(verb), f"bash's completion of {verb}")
    return faults


def bash_values():
    """After an option that takes a value no option is offered, and the value is no verb or mutex."""
    faults = []
    for verb in verbs():
        for short, name in re.findall(r"^ +(-\w)?(?:, )?(--[\w-]+) [A-Z]+ ", help_of(verb),
                                      re.MULTILINE):
            for option in filter(None, (short, name)):
                if any(word.startswith("-") for word in bash_offers(verb, option, "-")):
                    faults.append(f"bash does not know that {option} of {verb} takes a value")
    return faults


def check_bash_mutexes(expected):
    """Names are offered as they have to be typed; readline gives the URL in three words."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:{folder}/names.db"
        for name in ("a b", "a:c", "it's"):
            output(PROGRAM, "-u", url, "lock", name, "--", "true")
        store = ("-u", "sqlite", ":", f"{folder}/names.db")
        faults = []
        for typed, offered in expected:
            found = bash_lines(*store, "status", *typed)
            if found != offered:
                faults.append(f"bash offers {found} behind {typed}")
        return faults


def check_bash_commands(expected):
    """Without the package bash-completion: a command by its name, and files behind it."""
    faults = []
    for typed, offered in expected:
        found = bash_lines("-u", "sqlite", ":", "none.db", "lock", "m", *typed)
        if offered not in found or "lock" in found:
            faults.append(f"bash offers {found} behind {typed}")
    return faults


COMMANDS = [(["--", "tru"], "true"), (["tru"], "true"), (["--", "cat", "READ"], "README.md"),
            (["cat", "READ"], "README.md"),
            (["--", "cat", "-n", "docs/guide/get"], "docs/guide/getting-started.md")]


NAMES = [([""], [r"a\ b", "a:c", r"it\'s"]), (["a"], [r"a\ b", "a:c"]), (["a\\ "], [r"a\ b"]),
         (["a", ":"], ["c"]), (["a", ":", "c"], ["c"]), (["x"], [""])]


def zsh_options(verb):
    specs = output("zsh", "-fc", 'source completions/_simba; _simba_options "$1"; print -l $reply',
                   "zsh", verb, cwd=ROOT)
    return {re.match(r"(?:\(.*?\))?(--?[\w-]+)", spec).group(1) for spec in specs.splitlines()}


def zsh_verbs():
    listed = output("zsh", "-fc", "source completions/_simba; print -l $_simba_verbs", cwd=ROOT)
    return set(re.findall(r"^(\w+):", listed, re.MULTILINE))


def check_zsh(options_of):
    faults = difference(zsh_verbs() - {"help"}, set(verbs()), "zsh's verbs")
    for verb in verbs():
        faults += difference(zsh_options(verb), options_of(verb), f"zsh's completion of {verb}")
    return faults


# ---- The cases ------------------------------------------------------------------------------

def all_options(verb):
    return own_options(verb) | common_options()


def replaced(text, old, new):
    assert old in text, f"'{old}' is not in the text that it is to be replaced in"
    return text.replace(old, new)


def cases():
    """The name of each case, what it found, and whether it should have found something."""
    page = read("man/simba.1")
    pages = [read(path) for path in sorted(glob.glob("man/*.3", root_dir=ROOT))]
    yield "simba(1) has the options", check_manual_options(page), False
    yield "simba(1) has the exit codes", check_manual_codes(page), False
    yield "simba(1) has the variables", check_manual_variables(page), False
    yield "section 3 has the functions", check_prototypes(pages), False
    yield "simba_error(3) has the codes", check_codes(read("man/simba_error.3")), False
    for path in sorted(glob.glob("man/*.[135]", root_dir=ROOT)):
        yield f"{path} is well-formed", check_page(read(path)), False
    documents = glob.glob("docs/**/*.md", root_dir=ROOT, recursive=True)
    texts = [read(path) for path in ("README.md", *documents)]
    yield "the documents' commands have known options", check_documents(texts), False
    yield "bash completes the options", check_bash(all_options), False
    yield "bash knows which options take a value", bash_values(), False
    yield "bash offers mutexes as they are typed", check_bash_mutexes(NAMES), False
    yield "bash completes the command without help", check_bash_commands(COMMANDS), False
    yield "twin: a command that bash has not", check_bash_commands([(["--", "tru"], "none")]), True
    yield ("twin: a mutex of two words",
           check_bash_mutexes([([""], ["a", "b", "a:c", r"it\'s"])]), True)
    yield from zsh_cases()
    yield from twins(page, pages)


def zsh_cases():
    if not shutil.which("zsh"):
        yield "zsh completes the options # SKIP there is no zsh", [], False
        return
    yield "zsh completes the options", check_zsh(all_options), False
    yield "twin: an option that zsh does not know", check_zsh(
        lambda verb: all_options(verb) | {"--unknown"}), True


def twins(page, pages):
    yield "twin: a document with an unknown option", check_documents(["`simba lock -x N -- y`"]), True
    yield ("twin: an option is missing",
           check_manual_options(replaced(page, ".It Fl n , -no-wait", ".It Fl n")), True)
    yield ("twin: an option too many",
           check_manual_options(replaced(page, ".It Fl -print", ".It Fl -print , -draw")), True)
    yield "twin: a verb is missing", check_manual_options(replaced(page, ".Ss simba init", "")), True
    yield "twin: a code is missing", check_manual_codes(replaced(page, ".It 74", ".It 73")), True
    yield ("twin: a variable is missing",
           check_manual_variables(replaced(page, ".It Ev NOTIFY_SOCKET", ".It Ev X")), True)
    yield "twin: a page is missing", check_prototypes(pages[1:]), True
    yield "twin: a page is there twice", check_prototypes(pages + pages[:1]), True
    changed = [text.replace('.Fa "int64_t timeout_ms"', '.Fa "int timeout_ms"') for text in pages]
    yield "twin: another prototype", check_prototypes(changed), True
    yield ("twin: an option that bash does not know",
           check_bash(lambda verb: all_options(verb) | {"--unknown"}), True)
    if shutil.which("mandoc"):
        yield "twin: a malformed page", check_page(replaced(page, ".Sh NAME", ".Sh")), True


def main():
    failed = 0
    number = 0
    for number, (name, faults, expected) in enumerate(cases(), 1):
        passed = bool(faults) == expected
        failed += not passed
        print(f"{'ok' if passed else 'not ok'} {number} - {name}")
        for fault in faults if not passed else []:
            print("# " + fault)
    print(f"1..{number}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
