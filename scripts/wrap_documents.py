#!/usr/bin/env python3
"""Keeps the prose of the documents within their width.

    wrap_documents.py [--fix] FILE...

Wraps paragraphs and items of lists that have a line which is too wide; tables, code, headings and pictures
stay as they are. Without --fix it names the files that would change, and fails if there are any.
"""
import re
import sys

COLUMNS = 110
ITEM = re.compile(r"( {0,3})([-*]|\d+\.) +(?=\S)")
MARK = re.compile(r"([-*+>|=]|#+|\d+[.)])$")  # at the start of a line it would mean something else
KEPT = ("#", "|", "!", "<")


def wrap(words, first, others):
    """Returns lines of at most COLUMNS, if the words allow it, behind their indentations."""
    lines, line = [], first + words[0]
    for word in words[1:]:
        if len(line) + 1 + len(word) > COLUMNS and not MARK.match(word):
            lines.append(line)
            line = others + word
        else:
            line += " " + word
    return [*lines, line]


def wrapped(text):
    """Returns the text of a document with its paragraphs wrapped."""
    lines, paragraph, code = [], [], False

    def end_paragraph():
        if any(len(line) > COLUMNS for line in paragraph):
            item = ITEM.match(paragraph[0])
            first = f"{item.group(1)}{item.group(2)} " if item else ""
            words = " ".join([paragraph[0][item.end() if item else 0:], *paragraph[1:]]).split()
            paragraph[:] = wrap(words, first, " " * len(first))
        lines.extend(paragraph)
        paragraph.clear()

    for line in text.split("\n"):
        if line.startswith("```"):
            code = not code
        if code or line.startswith(("```", *KEPT)) or not line.strip() or (
                line.startswith("    ") and not paragraph):
            end_paragraph()
            lines.append(line)
        else:
            if ITEM.match(line):
                end_paragraph()
            paragraph.append(line)
    end_paragraph()
    return "\n".join(lines)


def main():
    paths = [argument for argument in sys.argv[1:] if argument != "--fix"]
    changed = 0
    for path in paths:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        if wrapped(text) == text:
            continue
        if "--fix" in sys.argv[1:]:
            with open(path, "w", encoding="utf-8") as file:
                file.write(wrapped(text))
        else:
            changed += 1
            print(f"{path}: prose is not wrapped at {COLUMNS} columns; 'make format' does it",
                  file=sys.stderr)
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
