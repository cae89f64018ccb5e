#!/usr/bin/env python3
"""Writes a call of every public function that takes a handle, and what it has to answer when the handle is closed.

    closed_calls.py OUTPUT HEADER...

A parameter or a result of a type that it does not know is an error: a new function is tested, or the build fails.
"""
import re
import sys

HANDLES = ["client", "contender", "locker", "observer", "scheduler", "repository"]

DECLARATION = re.compile(r"^SIMBA_API ([^;()]*?)\b(simba_\w+)\(([^;]*)\);", re.MULTILINE)
TAKES_HANDLE = re.compile(rf"\bsimba_({'|'.join(HANDLES)}) \*\w")
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)

# What is given besides handles, by the type. A pointer to anything else is a place for a result.
VALUES = {"int": "1", "int64_t": "100", "uint64_t": "1", "size_t": "1", "const char *": '"m"',
          "const char *const *": "names", "struct simba_error *": "&error",
          "enum simba_metrics_format": "SIMBA_METRICS_PROMETHEUS",
          "const struct simba_handover *": "&request"}

# What is answered, by the type of the result.
ANSWERS = {"int": "SIMBA_ECLOSED", "bool": "false", "int64_t": "0", "uint64_t": "0",
           "enum simba_status": "SIMBA_INITIAL", "const char *": '""', "void": None}
EXCEPTIONS = {"simba_client_event_fd": "-1", "simba_client_life_fd": "-1", "simba_locker_slot": "-1",
              "simba_scheduler_should_stop": "true"}


def type_and_name(parameter):
    match = re.fullmatch(r"(.*?[\s*])(\w+)", " ".join(parameter.split()))
    return match.group(1).strip(), match.group(2)


def handle_of(kind):
    match = re.fullmatch(r"(?:const )?simba_(\w+) \*", kind)
    return match.group(1) if match and match.group(1) in HANDLES else None


def argument(kind, name, macros):
    """The expression that is passed, and the declaration that it needs."""
    if handle_of(kind):
        return f"closed->{handle_of(kind)}", None
    if kind in VALUES:
        return VALUES[kind], None
    match = re.fullmatch(r"(?:const )?(.*?) ?\*", kind)
    if not match:
        raise SystemExit(f"{name}: the type '{kind}' is not known")
    pointed = match.group(1)
    macro = re.sub(r"^struct (simba_\w+)$", lambda m: m.group(1).upper() + "_INIT", pointed)
    return f"&{name}", f"{pointed}{'' if pointed.endswith('*') else ' '}{name}" + (f" = {macro}" if macro in macros else "")


def check(result, function, call):
    expected = EXCEPTIONS.get(function, ANSWERS[result])
    if expected is None:
        return f"{call};"
    if result == "const char *":
        return f'expect_text("{function}", {call}, {expected});'
    return f'expect("{function}", (long long){call}, {expected});'


def write_call(result, function, parameters, macros):
    arguments = [argument(kind, name, macros) for kind, name in parameters]
    lines = [f"    {declaration};" for _, declaration in arguments if declaration]
    call = f"{function}({', '.join(expression for expression, _ in arguments)})"
    return "\n".join([f"static void call_{function}(const struct closed *closed)", "{", *lines,
                      f"    {check(result, function, call)}", "}", ""])


def main():
    output, headers = sys.argv[1], sys.argv[2:]
    functions = []
    for path in headers:
        with open(path, encoding="utf-8") as file:
            text = COMMENT.sub("", file.read())
        macros = set(re.findall(r"#define (\w+_INIT)", text))
        for result, function, parameters in DECLARATION.findall(text):
            if TAKES_HANDLE.search(parameters):
                pairs = [type_and_name(parameter) for parameter in parameters.split(",")]
                functions.append((function, write_call(" ".join(result.split()), function, pairs, macros)))
    with open(output, "w", encoding="utf-8") as file:
        file.write("\n".join(text for _, text in functions))
        file.write("\nstatic void (*const calls[])(const struct closed *closed) = {\n")
        file.writelines(f"    call_{function},\n" for function, _ in functions)
        file.write("};\n")


if __name__ == "__main__":
    main()
