#!/usr/bin/env python3
"""Holds the documents to the code, and shows that each check can fail.

    docs_test.py ROOT PROGRAM COMPILER...

The README is short. Its C program is the example and compiles. Its commands run, and those of the pages on
the command line, the first steps and migration. The exit codes are those of the program. The layers of the
architecture are those that are checked. What a document names (a file, a heading, a make target, a
function) exists. The pages on configuration have all options. The pages on testing know every folder of
tests, every mutant, and no story that is not told. The pictures are whole, and the demo can be recorded.
"""
import glob
import os
import re
import signal
import subprocess
import sys
import tempfile
from xml.etree import ElementTree

ROOT, PROGRAM, COMPILER = sys.argv[1], os.path.abspath(sys.argv[2]), sys.argv[3:]

DOCUMENTS = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md",
             *sorted(glob.glob("docs/**/*.md", root_dir=ROOT, recursive=True))]
COMMANDS_HEADING = "## From the shell"
TASKS = "docs/guide/tasks.md"
SHORT_LEASE = {"SIMBA_TTL": "1s", "SIMBA_TRANSITION": "6s"}  # requests to hand over are heard after a ttl
START, START_HEADING = "docs/guide/getting-started.md", "## On one machine"
COMMAND_LINE, COMMAND_LINE_HEADING = "docs/guide/command-line.md", "## Sixty seconds"
README_LINES = 130
ARCHITECTURE_WORDS = 2500
NAME = re.compile(r"\b(?:simba_[a-z][a-z0-9_]*[a-z0-9]|SIMBA_[A-Z][A-Z0-9_]*[A-Z0-9]"
                  r"|sb_[a-z][a-z0-9_]*[a-z0-9]|SB_[A-Z][A-Z0-9_]*[A-Z0-9])\b")
PATH = re.compile(r"(?<![\w/.-])(?:src|include|tests|examples|scripts|docs|\.ci)/[\w./-]*[\w]")
SOURCE = re.compile(r"`([\w/-]+\.(?:c|h|lua))`")
PLACEHOLDERS = {"NAME.c", "src/backend/NAME", "tests/sim/mutants/NAME.patch", "simba_noun_verb",
                "sb_module_verb"}
COMMAND_SECONDS = 60


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def section(text, heading):
    """What stands below a heading, up to the next of its kind."""
    _, _, rest = text.partition(heading + "\n")
    return rest.split("\n## ")[0]


# Each check takes the text of a document and returns what is wrong with it, a sentence each.

def check_quickstart(readme):
    if blocks(readme, "c") == [read("examples/quickstart.c")]:
        return []
    return ["the README's C program is not examples/quickstart.c"]


def compile_program(source, language, standard):
    """Returns what the compiler says against it."""
    command = [*COMPILER, f"-std={standard}", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
               "-I", os.path.join(ROOT, "include"), "-x", language, "-"]
    run = subprocess.run(command, input=source, check=False, capture_output=True, text=True)
    return run.stderr.strip() if run.returncode != 0 else ""


def check_compiles(text, block="c", language="c", standard="c99"):
    said = [compile_program(source, language, standard) for source in blocks(text, block)]
    return [f"the program does not compile: {why}" for why in said if why] if said else [
        f"there is no program in {language}"]


def check_compiles_cpp(text):
    return check_compiles(text, "cpp", "c++", "c++17")


def check_exit_codes(page):
    """Compares the numbers of the table with those of enum cli_exit."""
    codes = re.search(r"enum cli_exit \{(.*?)\};", read("src/cli/cli.h"), re.DOTALL).group(1)
    known = {int(number) for number in re.findall(r"= (\d+)", codes)}
    told = {int(number) for number in
            re.findall(r"^\| (\d+)(?: \+ n)? \|", section(page, "## Exit codes"), re.MULTILINE)}
    if not known:
        return ["the exit codes in src/cli/cli.h are not understood"]
    return [f"exit code {code} is only in {'src/cli/cli.h' if code in known else 'the page'}"
            for code in sorted(known ^ told)]


def check_length(readme):
    lines = len(readme.splitlines())
    return [f"the README has {lines} lines"] if lines > README_LINES else []


def check_layers(architecture):
    """The rows of the table, from the highest layer down, are those of scripts/check-layers."""
    checked = re.search(r"^LAYERS = \[(.*?)\]", read("scripts/check-layers"), re.MULTILINE).group(1)
    checked = re.findall(r'"(\w+)"', checked)[::-1]
    told = re.findall(r"^\| `src/(\w+)` \|", section(architecture, "## Layers"), re.MULTILINE)
    return [] if told == checked else [f"the layers are {checked}, the document has {told}"]


def check_names(text):
    code = "".join(known_code())
    return [f"nothing is called {name}" for name in sorted(set(NAME.findall(text)))
            if name not in PLACEHOLDERS and not re.search(rf"\b{name}\b", code)]


def known_code():
    for top in ("include", "src", "bindings"):
        for path, _, files in os.walk(os.path.join(ROOT, top)):
            for name in files:
                yield read(os.path.join(path, name))


def check_paths(text, document="README.md"):
    """Paths in the text, and what links point to, relative to the document."""
    faults = [f"there is no {path}" for path in sorted(set(PATH.findall(text)))
              if path not in PLACEHOLDERS and not os.path.exists(os.path.join(ROOT, path))]
    for link, heading in re.findall(r"\]\(([^)#\s]*)(#[^)\s]+)?\)", text):
        target = os.path.join(os.path.dirname(document), link) if link else document
        if re.match(r"https?:", link):
            continue
        if not os.path.exists(os.path.join(ROOT, target)):
            faults.append(f"the link to {link} leads nowhere")
        elif heading and heading[1:] not in anchors(read(target) if link else text):
            faults.append(f"{target} has no heading {heading}")
    return faults


def anchors(text):
    """The headings as links name them."""
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        yield re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def check_sources(text):
    """Sources by the end of their path: the pages of maintainers leave out the folder that they are about."""
    known = [path for top in ("src", "include", "tests", "examples", "bench")
             for path in glob.glob(f"{top}/**/*.*", root_dir=ROOT, recursive=True)]
    return [f"no source is called {name}" for name in sorted(set(SOURCE.findall(text)))
            if name not in PLACEHOLDERS and not any(f"/{path}".endswith(f"/{name}") for path in known)]


def check_targets(text):
    targets = set(re.findall(r"^([a-z0-9-]+):", read("Makefile"), re.MULTILINE))
    named = set(re.findall(r"(?:`|^    )make ([a-z0-9-]+)", text, re.MULTILINE))
    return [f"the Makefile has no target {name}" for name in sorted(named - targets)]


# ---- The pages on configuration -------------------------------------------------------------

OPTION = re.compile(r'SB_URL_OPTION\(\w+,[\s\\]+"([a-z-]+)"|\{[\s\\]*"([a-z-]+)",[\s\\]+SIMBA_OPTION_')
ASKED = re.compile(r'\b(?:simba_url_\w+|read_\w+)\((?:config->)?url, "([a-z-]+)"')


def declared_options():
    found = OPTION.findall("".join(known_code()))
    return {name for pair in found for name in pair if name} | {"password-file", "password-env"}


def check_options(text):
    """Every option that a client or a store declares is told."""
    declared = declared_options()
    if len(declared) < 20:
        return ["the tables of options are not understood"]
    return [f"the option '{name}' is missing" for name in sorted(declared)
            if not re.search(rf"(?<![\w-]){name}(?![\w-])", text)]


def check_declared(sources):
    """What a store asks of its URL stands in a table: otherwise a file could not have it."""
    asked = set(ASKED.findall(sources))
    return [f"no table declares '{name}'" for name in sorted(asked - declared_options())]


# ---- The page on testing --------------------------------------------------------------------

def rows(text, heading):
    """The cells of each row of the tables below a heading, their headings left out."""
    lines = [line for line in section(text, heading).splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines
            if not line.startswith("| ---")]


def check_folders(testing):
    """Every folder of tests is in the first table."""
    folders = {path for path in glob.glob("tests/*", root_dir=ROOT)
               if os.path.isdir(os.path.join(ROOT, path))}
    return [f"{folder} is not in the table of suites"
            for folder in sorted(folders - set(PATH.findall(testing.split("\n## ")[0])))]


def check_mutants(mutants):
    """The rows of the tables are the patches, with the rules that they name."""
    faults = []
    for folder, title in (("tests/sim/mutants", "# Mutants of the simulator"),
                          ("tests/sim/groups/mutants", "## Semaphores and sets")):
        there = set()
        for patch in glob.glob(os.path.join(ROOT, folder, "*.patch")):
            rule = re.search(r"^Rule: (.*)$", read(patch), re.MULTILINE).group(1)
            there.add((os.path.basename(patch)[: -len(".patch")], rule))
        told = {(row[0], row[1]) for row in rows(mutants, title)[1:]}
        faults += [f"the mutant '{name}' ({rule}) is only in "
                   f"{folder if (name, rule) in there else 'the document'}"
                   for name, rule in sorted(there ^ told)]
    return faults


def check_stories(simulator):
    """A story is named by its file and by words of its title, `...` for the others."""
    named = re.findall(r"\b([a-z]+): (\*[^*]+\*(?:, \*[^*]+\*)*)", section(simulator, "## Failures"))
    faults = [] if named else ["no story is named"]
    for name, titles in named:
        path = f"tests/scenario/{name}.txt"
        told = read(path) if os.path.exists(os.path.join(ROOT, path)) else ""
        told = re.findall(r"^== (.*)$", told, re.MULTILINE)
        for words in (title.replace("...", "").strip() for title in titles.strip("*").split("*, *")):
            if not any(words in title for title in told):
                faults.append(f"{path} has no story '{words}'")
    return faults


def check_protections(security):
    """Each row of the tables on what is protected names a test."""
    told = rows(security, "## What Simba protects")
    told = [row for row in told if row[0] != "attacker"]
    faults = [f"'{row[0]}' names no test" for row in told
              if not any(path.startswith("tests/") for path in PATH.findall(row[-1]))]
    return faults if len(told) > 5 else ["the tables of SECURITY.md are not understood"]


# ---- The commands of the documents, run as they are printed --------------------------------

def start_command(command, folder):
    """Starts it as a user would."""
    environment = {"PATH": os.path.join(folder, "bin") + ":" + os.environ["PATH"], "HOME": folder, **SHORT_LEASE}
    environment.update({name: value for name, value in os.environ.items()
                        if name.endswith("SAN_OPTIONS")})
    return subprocess.Popen(["sh", "-c", "exec " + command], cwd=folder, env=environment,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)


def run_command(command, folder):
    """Runs it to its end. Some go on until they are interrupted, once they printed."""
    run = start_command(command, folder)
    output = ""
    if re.search(" (watch|lead|schedule) ", command):
        output = run.stdout.readline()
        run.send_signal(signal.SIGINT)
    try:
        output += run.communicate(timeout=COMMAND_SECONDS)[0]
    except subprocess.TimeoutExpired:
        run.kill()
        run.communicate()
        return f"'{command}' did not end within {COMMAND_SECONDS} s"
    if run.returncode == 0:
        return ""
    return f"'{command}' ended with {run.returncode}: {output.strip()}"


def prepare_folder(folder, report="exit 0"):
    """The program, and the scripts that the documents' commands run."""
    os.mkdir(os.path.join(folder, "bin"))
    os.symlink(PROGRAM, os.path.join(folder, "bin", "simba"))
    for name, script in (("backup.sh", "exit 0"), ("build.sh", "exit 0"), ("deploy.sh", "exit 0"),
                         ("report.sh", report), ("upload.sh", "exit 0"), ("check-api", "exit 0"),
                         ("dispatcher", "echo leading; exec sleep 60"), ("api", "exec sleep 60")):
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{script}\n")
        os.chmod(path, 0o755)


def check_commands(text, heading=COMMANDS_HEADING):
    """Runs them as they are printed, but nobody waits half a minute for `sleep 30`."""
    commands = [line.split("  #")[0].strip().replace("sleep 30", "sleep 1")
                for block in blocks(section(text, heading), "sh")
                for line in block.splitlines() if line.strip()]
    if not commands:
        return [f"the section '{heading}' shows no command"]
    with tempfile.TemporaryDirectory() as folder:
        prepare_folder(folder)
        return list(filter(None, (run_command(command, folder) for command in commands)))


def check_scripts(text):
    """Each block is a script."""
    with tempfile.TemporaryDirectory() as folder:
        prepare_folder(folder)
        faults = []
        for number, block in enumerate(blocks(text, "sh")):
            name = f"script{number}.sh"
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(block)
            faults.append(run_command(f"sh -e ./{name}", folder))
        return list(filter(None, faults)) if faults else ["the page shows no script"]


def check_tasks(text):
    """The commands between the paragraphs, from the first to the last. At the one that asks to hand over there are three
    hosts, and the first of them leads; a move is one to a new store."""
    commands = re.findall(r"^    (simba .*?)(?:  #.*)?$", text, re.MULTILINE) + re.findall(r"`(simba (?:schedule|migrate) [^`]*)`", text)
    with tempfile.TemporaryDirectory() as folder:
        prepare_folder(folder)
        hosts = []
        faults = []
        for command in commands:
            if " handover " in command and not hosts:
                hosts = [lead_as(host, folder) for host in ("host1", "host3", "host2")]
            command = command.replace("FROM TO", "sqlite:$HOME/.local/state/simba/simba.db sqlite:new.db")
            if " migrate " in command:
                faults += [end_host(host) for host in hosts]
            faults.append(run_command(command, folder))
        verbs = {word for command in commands for word in command.split()} & {"schedule", "handover", "migrate", "lead", "status"}
        return list(filter(None, faults)) if len(verbs) == 5 else [f"the page has only commands with {verbs}"]


def lead_as(host, folder):
    """Starts it, and waits until it takes part: in this order they are in line."""
    run = start_command(f"simba --id {host} lead dispatcher -- ./dispatcher", folder)
    for line in run.stdout:
        if "leading" in line or "waiting for" in line:
            break
    return run


def end_host(run):
    run.terminate()
    return "" if wait_for(run) == 0 else f"a host ended with {run.returncode}"


def check_cron(page, machines=3):
    """Where a page shows a crontab line, all machines start it and one of them runs the job."""
    lines = set(re.findall(r"(simba (?:-q )?lock [^`\n]*nightly -- \./report\.sh)", page))
    faults = [] if lines else ["the page shows no crontab line"]
    for line in lines:
        with tempfile.TemporaryDirectory() as folder:
            prepare_folder(folder, report="echo >>ran")
            ran = os.path.join(folder, "ran")
            open(ran, "w", encoding="utf-8").close()
            runs = [start_command(line, folder) for _ in range(machines)]
            codes = [wait_for(run) for run in runs]
            count = os.path.getsize(ran)
        if count != 1 or codes != [0] * machines:
            faults.append(f"'{line}' on {machines} machines ran {count} times; exit codes {codes}")
    return faults


def wait_for(run):
    try:
        run.communicate(timeout=COMMAND_SECONDS)
    except subprocess.TimeoutExpired:
        run.kill()
        run.communicate()
    return run.returncode


def check_equivalents(migration):
    """What the page on migration offers in place of other commands runs, with something to run."""
    commands = [re.sub(r"\b1m\b", "1s", span).replace("NAME", "name").replace("COMMAND", "./backup.sh")
                for row in re.findall(r"^\|.*\|$", migration, re.MULTILINE)
                for span in re.findall(r"`(simba (?:-q )?lock [^`]*NAME -- [^`]*)`", row)]
    if len(commands) < 5:
        return ["the commands of the page are not understood"]
    with tempfile.TemporaryDirectory() as folder:
        prepare_folder(folder)
        return list(filter(None, (run_command(command, folder) for command in commands)))


# ---- The width ------------------------------------------------------------------------------

def wrap(text, *options, name="page.md"):
    """Runs the script on a file; returns its exit code and what the file is then."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        run = subprocess.run([os.path.join(ROOT, "scripts/wrap_prose.py"), *options, path],
                             check=False, capture_output=True)
        return run.returncode, read(path)


def check_words(architecture):
    words = len(architecture.split())
    return [f"the page has {words} words"] if words > ARCHITECTURE_WORDS else []


def check_width(text):
    return ["prose is too wide"] if wrap(text)[0] != 0 else []


def check_wrapping():
    """What is wrapped has the same words, keeps its list, and is not wrapped again."""
    page = "# Page\n\n- " + "word " * 30 + "1 - 2\n- item\n\n| " + "cell " * 30 + "|\n"
    code, fixed = wrap(page, "--fix")
    faults = [] if code == 0 and fixed != page else ["a wide item was not wrapped"]
    if fixed.split() != page.split() or fixed.count("\n- ") != 2:
        faults.append(f"the page has changed: {fixed}")
    return faults + check_width(fixed)


def check_wrapping_of_comments():
    """A wide comment is wrapped, a picture and code stay; a wide line of code is refused."""
    picture = " *     a ---> b\n"
    source = "/*\n * 1. " + "word " * 30 + "end\n *\n" + picture + " */\nint a; /* " + "b " * 9 + "*/\n"
    code, fixed = wrap(source, "--fix", name="page.c")
    faults = [] if code == 0 and "\n *    word" in fixed else [f"the comment is not wrapped: {fixed}"]
    if picture not in fixed or fixed.replace("*", "").split() != source.replace("*", "").split():
        faults.append(f"the source has changed: {fixed}")
    if wrap("int " + "a" * 100 + ";\n", name="page.c")[0] == 0:
        faults.append("a wide line of code is not refused")
    return faults


# ---- The pictures ---------------------------------------------------------------------------

def check_picture(text):
    """A picture is XML, and refers to nothing outside of itself."""
    try:
        ElementTree.fromstring(text)
    except ElementTree.ParseError as why:
        return [f"the picture is not XML: {why}"]
    return ["the picture refers to something outside"] if re.search(r"(?:href|src)=|url\(", text) else []


def check_demo(path):
    """The script records the demo, and the recording shows a leader after each end of another."""
    with tempfile.TemporaryDirectory() as folder:
        made = os.path.join(folder, "demo.svg")
        run = subprocess.run([os.path.join(ROOT, path), PROGRAM, made, "300"], check=False,
                             capture_output=True, text=True, timeout=COMMAND_SECONDS)
        if run.returncode != 0:
            return [f"{path} ended with {run.returncode}: {run.stderr.strip()}"]
        return check_recording(read(made))


def check_recording(picture):
    shown = re.findall(r">([^<>]+)</text>", picture)
    wanted = ["LEADS, fence", "killed with SIGKILL", "stopped, handed over", "Shown: 3 processes"]
    return [f"the recording does not show '{words}'" for words in wanted
            if not any(words in line for line in shown)] + check_picture(picture)


# ---- The cases -----------------------------------------------------------------------------

def replaced(text, old, new):
    assert old in text, f"'{old}' is not in the document that it is to be replaced in"
    return text.replace(old, new)


def cases():
    """The name of each case, what it found, and whether it should have found something."""
    readme, architecture = read("README.md"), read("docs/internals/architecture.md")
    yield "the C program is the example", check_quickstart(readme), False
    yield "the C program compiles", check_compiles(readme), False
    yield "the commands run", check_commands(readme), False
    yield "the README is short", check_length(readme), False
    yield "twin: a README with a line more", check_length("\n" * (README_LINES + 1)), True
    yield "the architecture is short", check_words(architecture), False
    yield "twin: a word more", check_words("word " * (ARCHITECTURE_WORDS + 1)), True
    yield (f"{COMMAND_LINE}: the commands run",
           check_commands(read(COMMAND_LINE), COMMAND_LINE_HEADING), False)
    yield f"{START}: the commands run", check_commands(read(START), START_HEADING), False
    yield f"{START}: the C program compiles", check_compiles(read(START)), False
    if compile_program("int main() {}", "c++", "c++17") == "":
        yield f"{START}: the C++ program compiles", check_compiles_cpp(read(START)), False
        yield ("twin: a C++ program with an error",
               check_compiles_cpp(replaced(read(START), "scoped_lock lock", "scoped_lock key")), True)
    migration = read("docs/guide/migration.md")
    yield "docs/guide/migration.md: the commands run", check_equivalents(migration), False
    yield ("twin: a command with an unknown option",
           check_equivalents(replaced(migration, "simba lock -w 30s", "simba lock --waiting 30s")), True)
    tasks = read(TASKS)
    yield f"{TASKS}: the scripts run", check_scripts(tasks), False
    yield f"{TASKS}: the commands run", check_tasks(tasks), False
    yield "twin: a host that does not wait", check_tasks(replaced(tasks, "--to host2 ", "--to host4 ")), True
    yield "twin: a script with an unknown option", check_scripts(replaced(tasks, "--for 10m", "--fore 10m")), True
    for page in (TASKS, START):
        yield f"{page}: a crontab line runs the job once", check_cron(read(page)), False
    yield ("twin: a crontab line that waits",
           check_cron("simba lock nightly -- ./report.sh"), True)
    yield (f"{COMMAND_LINE}: the exit codes are the program's",
           check_exit_codes(read(COMMAND_LINE)), False)
    yield "the layers are those that are checked", check_layers(architecture), False
    for document in DOCUMENTS:
        text = read(document)
        yield f"{document}: names exist", check_names(text), False
        yield f"{document}: paths and links exist", check_paths(text, document), False
        if document.startswith("docs/internals/"):
            yield f"{document}: sources exist", check_sources(text), False
        yield f"{document}: make targets exist", check_targets(text), False
        yield f"{document}: width", check_width(text), False
    configuration = read("docs/guide/configuration.md")
    yield "docs/guide/configuration.md: all options", check_options(configuration), False
    yield "man/simba.yaml.5: all options", check_options(read("man/simba.yaml.5")), False
    yield "every option that is read is declared", check_declared("".join(known_code())), False
    yield "twin: an option is missing", check_options(configuration.replace("idle-timeout", "")), True
    yield ("twin: an option that is not declared",
           check_declared("".join(known_code()) + 'simba_url_param(url, "colour")'), True)
    testing = read("docs/internals/testing.md")
    yield "docs/internals/testing.md: all folders of tests", check_folders(testing), False
    simulator = read("docs/internals/simulator.md")
    mutants = read("docs/internals/mutants.md")
    yield "docs/internals/mutants.md: all mutants", check_mutants(mutants), False
    yield "docs/internals/simulator.md: the stories exist", check_stories(simulator), False
    security = read("SECURITY.md")
    yield "SECURITY.md: each line names its test", check_protections(security), False
    yield ("twin: a line without a test",
           check_protections(replaced(security, "| `tests/fuzz` |", "| |")), True)
    yield "scripts/record-demo: the demo shows its leaders", check_demo("scripts/record-demo"), False
    yield "docs/demo.svg: a recording of the demo", check_recording(read("docs/demo.svg")), False
    yield "twin: a recording without a leader", check_recording("<svg><text>waits</text></svg>"), True
    for picture in sorted(glob.glob("docs/**/*.svg", root_dir=ROOT, recursive=True)):
        yield f"{picture}: a picture", check_picture(read(picture)), False
    yield "twin: a picture that is cut off", check_picture("<svg>"), True
    yield from twins(readme, architecture)
    yield from testing_twins(testing, mutants)


def twins(readme, architecture):
    program = replaced(readme, "&lock, &error", "&lock, error")
    yield "twin: another program", check_quickstart(program), True
    yield "twin: a program with an error", check_compiles(program), True
    yield "twin: no program", check_compiles(""), True
    yield ("twin: an unknown option",
           check_commands(f"{COMMANDS_HEADING}\n```sh\nsimba status --jason\n```\n"), True)
    yield "twin: no command", check_commands(""), True
    yield ("twin: an exit code is missing",
           check_exit_codes(replaced(read(COMMAND_LINE), "| 70 |", "| x |")), True)
    yield ("twin: an exit code too many",
           check_exit_codes(replaced(read(COMMAND_LINE), "| 70 |", "| 73 |")), True)
    yield ("twin: a layer is missing",
           check_layers(replaced(architecture, "`src/tck` |", "x |")), True)
    yield "twin: an unknown name", check_names("`simba_contender_begin`"), True
    yield "twin: an unknown path", check_paths("see src/core/clock.c"), True
    yield "twin: an unknown source", check_sources("see `topology/clock.c`"), True
    yield "twin: a dead link", check_paths("[x](docs/x.md)"), True
    yield "twin: a heading that is not there", check_paths("[x](CONTRIBUTING.md#no-such-one)"), True
    yield "wide prose is wrapped", check_wrapping(), False
    yield "wide comments are wrapped", check_wrapping_of_comments(), False
    yield "twin: a line that is too wide", check_width("word " * 30), True
    yield "twin: an unknown target", check_targets("`make world`"), True
    yield ("twin: an unknown target with a known beginning",
           check_targets("    make sim-world      all of it"), True)


def testing_twins(testing, mutants):
    yield "twin: a folder is missing", check_folders(replaced(testing, "`tests/fuzz` |", "|")), True
    yield ("twin: a mutant is missing",
           check_mutants(replaced(mutants, "| no-margin |", "| no-marge |")), True)
    yield ("twin: a rule has changed",
           check_mutants(replaced(mutants, "| a stop has a bound |", "| no bound |")), True)
    yield ("twin: an unknown story",
           check_stories("## Failures\nacquire: *A reply later than the lease*, *A tale*"), True)
    yield ("twin: a story in another file",
           check_stories("## Failures\nstop: *A reply later than the lease*"), True)
    yield "twin: no story", check_stories(""), True


def main():
    failed = 0
    number = 0
    for number, (name, faults, expected) in enumerate(cases(), 1):
        passed = bool(faults) == expected
        failed += not passed
        print(f"{'ok' if passed else 'not ok'} {number} - {name}")
        for fault in faults if not passed else []:
            print("# " + fault.replace("\n", "\n# "))
    print(f"1..{number}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
