#!/usr/bin/env python3
"""Keeps the prose of documents and of comments within its width.

    wrap_prose.py [--fix] FILE...

Wraps paragraphs and items of lists that have a line which is too wide, in Markdown and in the block comments
of C. Tables, code, headings and pictures stay as they are. Without --fix it names the files that would
change, and fails if there are any.
"""
import re
import sys

DOCUMENT_COLUMNS = 110
COMMENT_COLUMNS = 100
ITEM = re.compile(r"( *)([-*]|\d+\.) +(?=\S)")
MARK = re.compile(r"([-*+>|=]|#+|\d+[.)])$")  # at the start of a line it would mean something else
GLUE = "\x01"  # a space at which no line is broken
KEPT = ("#", "|", "!", "<")


def wrap(words, first, others, columns):
    """Returns lines of at most `columns`, if the words allow it, behind their indentations."""
    lines, line = [], first + words[0]
    for word in words[1:]:
        if len(line) + 1 + len(word) > columns and not MARK.match(word):
            lines.append(line)
            line = others + word
        else:
            line += " " + word
    return [*lines, line]


def wrap_paragraph(paragraph, columns):
    """Returns the lines of a paragraph, wrapped if one of them is too wide."""
    if all(len(line) <= columns for line in paragraph):
        return paragraph
    item = ITEM.match(paragraph[0])
    first = item.group(0) if item else re.match(" *", paragraph[0]).group()
    words = " ".join([paragraph[0][len(first):], *paragraph[1:]]).split()
    return wrap(words, first, " " * len(first), columns)


def wrap_document(text):
    """Returns the text of a Markdown file with its paragraphs wrapped."""
    lines, paragraph, code = [], [], False

    def end_paragraph():
        lines.extend(wrap_paragraph(paragraph, DOCUMENT_COLUMNS))
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


def is_picture(line):
    """Whether a line is drawn or set in columns, so that its spaces must stay."""
    return re.search(r"\S {3,}\S|---|\|.*\|", line) is not None


def wrap_comment(lines, indent):
    """Returns the lines inside a comment, wrapped. `indent` is what stands before its asterisks."""
    columns = COMMENT_COLUMNS - indent - len(" * ")
    result, paragraph = [], []

    def end_paragraph():
        picture = any(is_picture(ITEM.sub("", line, count=1)) for line in paragraph)
        result.extend(paragraph if picture else wrap_paragraph(paragraph, columns))
        paragraph.clear()

    for line in lines:
        if not line.strip():
            end_paragraph()
            result.append(line)
            continue
        depth = len(re.match(" *", line).group())
        if ITEM.match(line):
            end_paragraph()
        elif paragraph:
            item = ITEM.match(paragraph[0])
            usual = len(item.group()) if item else len(re.match(" *", paragraph[0]).group())
            if depth != usual:
                end_paragraph()
        paragraph.append(line)
    end_paragraph()
    return result


COMMENT = re.compile(r"^( *)/\*(?!\*)(.*?)\*/$", re.S | re.M)


def wrap_one(match):
    """Returns a block comment that stands alone, wrapped."""
    whole, indent, body = match.group(0), match.group(1), match.group(2)
    if all(len(line) <= COMMENT_COLUMNS for line in whole.split("\n")) or "*/" in body:
        return whole
    lines = body.split("\n")
    opens, closes = not lines[0].strip(), len(lines) > 1 and not lines[-1].strip()
    inner = lines[1 if opens else 0:-1 if closes else None]
    texts = [inner[0] if not opens else re.sub(r"^ *\*", "", inner[0])]
    texts += [re.sub(r"^ *\*", "", line) for line in inner[1:]]
    texts = [text[1:] if text.startswith(" ") else text for text in texts]
    if not closes:
        texts[-1] = texts[-1].rstrip() + GLUE + "*/"  # the end stays on the line of the last word
    wrapped = [f"{indent} * {text}".rstrip() for text in wrap_comment(texts, len(indent))]
    if opens:
        wrapped.insert(0, f"{indent}/*")
    else:
        wrapped[0] = indent + "/* " + wrapped[0][len(indent) + 3:]
    if closes:
        wrapped.append(f"{indent} */")
    return "\n".join(wrapped).replace(GLUE, " ")


HEADING = re.compile(r"^/\* ---- (.*?) -+ \*/$", re.M)


def wrap_source(text):
    """Returns the text of a C file with its headings as wide as its lines, and its comments wrapped."""
    text = HEADING.sub(lambda m: f"/* ---- {m[1]} ".ljust(COMMENT_COLUMNS - 3, "-") + " */", text)
    return COMMENT.sub(wrap_one, text)


def main():
    paths = [argument for argument in sys.argv[1:] if argument != "--fix"]
    failed = False
    for path in paths:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        result = wrap_document(text) if path.endswith(".md") else wrap_source(text)
        if result != text and "--fix" in sys.argv[1:]:
            with open(path, "w", encoding="utf-8") as file:
                file.write(result)
        elif result != text:
            failed = True
            print(f"{path}: prose is not wrapped; 'make format' does it", file=sys.stderr)
        if path.endswith(".md"):
            continue
        for number, line in enumerate(result.split("\n"), 1):
            if len(line) > COMMENT_COLUMNS:
                failed = True
                print(f"{path}:{number}: more than {COMMENT_COLUMNS} columns", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
