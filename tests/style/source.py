#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a source file may contain and how long it may be: source.py ROOT

The rules are in BANNED_CALLS and in the check_ functions below. What clang-format can see is left
to clang-format (format.py).
"""

import os
import re
import statistics
import sys

import tree

LINE_COLUMNS_MAX = 100
FILE_LINES_MAX = 600
MANUAL = "include/pawl.h"  # what users read from top to bottom stays in one piece
MANUAL_LINES_MAX = 1000
FUNCTION_LINES_MAX = 70
SPDX = "SPDX-License-Identifier: Apache-2.0"
SCRIPT_DIRS = ("cmake", "scripts", "tests", ".ci")
SCRIPT_SUFFIXES = (".cmake", ".py", ".sh", "CMakeLists.txt")
CHECKERS = "tests/style/"  # they have to name what they look for


def call(names):
    """A pattern for a call of one of these functions, not of a longer name or a struct's member."""
    return rf"(?<![\w.>])(?:{names})\s*\("


# pattern, where it applies (path prefix), where it does not, what is wrong and the remedy.
BANNED_CALLS = [
    (call("time|gettimeofday"), "src/", (), "wall clock; use pawl__now_us() of base/clock.h"),
    (
        r"\bCLOCK_REALTIME\b",
        "src/",
        (
            "src/engine/file/",
            "src/engine/redis/examine_pace.c",
            "src/engine/redis/standing.c",
        ),
        "wall clock; use pawl__now_us() of base/clock.h",
    ),
    (
        call("clock_gettime"),
        "src/",
        (
            "src/base/",
            "src/engine/file/",
            "src/engine/redis/examine_pace.c",
            "src/engine/redis/standing.c",
        ),
        "a clock of its own; use pawl__now_us() of base/clock.h",
    ),
    (
        call("sleep|usleep|nanosleep|clock_nanosleep"),
        "src/",
        (),
        "bare sleep; wait for a condition with a deadline (base/wait.h)",
    ),
    (
        call("sleep|usleep"),
        "tests/",
        ("tests/support/",),
        "bare sleep; wait for a condition with a bound (tests/support)",
    ),
    (
        call("v?printf|puts|putchar|perror") + r"|\b(?:stdout|stderr)\b",
        "src/",
        (),
        "the library never prints; use the log callback or the last error",
    ),
    (
        call("abort|exit|_exit|_Exit|quick_exit"),
        "src/",
        (),
        "the library never ends the process; return a status",
    ),
    (
        call("signal|sigaction|bsd_signal"),
        "src/",
        (),
        "the library installs no signal handlers; use MSG_NOSIGNAL or block in our own thread",
    ),
    (
        call("strcpy|stpcpy|strcat|v?sprintf|gets|strncpy|strncat"),
        "src/",
        (),
        "unbounded or unterminated copy; use memcpy with a known size, or snprintf",
    ),
]


def c_lines(text):
    return text[:-1].split("\n") if text.endswith("\n") else text.split("\n")


def check_banned(path, code, offences):
    for pattern, prefix, exceptions, sentence in BANNED_CALLS:
        if not path.startswith(prefix) or path.startswith(tuple(exceptions) or ("\0",)):
            continue
        for match in re.finditer(pattern, code):
            name = match.group().rstrip("( \t\n")
            offences.append((path, tree.line_of(code, match.start()), f"{name}: {sentence}"))


def check_text(path, text, offences):
    """What holds for every kind of source file."""
    for number, line in enumerate(c_lines(text), 1):
        if len(line) > LINE_COLUMNS_MAX:
            sentence = f"{len(line)} columns; break the line, {LINE_COLUMNS_MAX} are allowed"
            offences.append((path, number, sentence))
        if line != line.rstrip():
            offences.append((path, number, "white space at the end of the line; remove it"))
        word = re.search(r"\b(TODO|FIXME|XXX)\b", line)
        if word and not path.startswith(CHECKERS):
            sentence = f"{word.group()}: do it now, or write an issue and remove the note"
            offences.append((path, number, sentence))
    if text and not text.endswith("\n"):
        offences.append((path, len(c_lines(text)), "no newline at the end of the file; add one"))


def check_opening(path, text, offences):
    """The licence, then a comment that says what the file is for."""
    lines = c_lines(text)
    if lines[0] != f"/* {SPDX} */":
        offences.append((path, 1, f"the first line must be /* {SPDX} */"))
        return
    rest = [(n, line) for n, line in enumerate(lines[1:], 2) if line.strip()]
    if not rest or not rest[0][1].startswith("/*"):
        sentence = "no opening comment; say what the file is for, how it works, what it relies on"
        offences.append((path, rest[0][0] if rest else 1, sentence))


def check_comments(path, text, offences):
    for position in tree.line_comments(text):
        offences.append((path, tree.line_of(text, position), "// comment; write /* */"))


def check_guard(path, text, offences):
    """PAWL_<DIR>_<FILE>_H; the directory may be the last one or the whole path. An application
    begins with its own name instead."""
    if not path.endswith(".h"):
        return
    parts = re.sub(r"\.h$", "", path).upper().replace("-", "_").split("/")[1:]
    names = {"PAWL_" + "_".join(parts[i:]) + "_H" for i in range(max(1, len(parts) - 1))}
    names.add("PAWL_TESTS_" + "_".join(parts) + "_H")
    if path.startswith("apps/"):
        names = {"_".join(parts) + "_H"}  # a program's own: FLASHSALE_SHOP_ORDER_H
    if parts == ["PAWL"]:
        names = {"PAWL_H"}
    match = re.search(r"^#ifndef (\w+)\n#define (\w+)$", text, re.M)
    if not match or match.group(1) != match.group(2) or match.group(1) not in names:
        line = tree.line_of(text, match.start()) if match else 1
        wanted = " or ".join(sorted(names))
        offences.append((path, line, f"include guard; #ifndef and #define {wanted}"))


def skip_parentheses(code, position):
    """The position behind the bracket that closes the one at position."""
    depth = 0
    for index in range(position, len(code)):
        depth += {"(": 1, ")": -1}.get(code[index], 0)
        if depth == 0:
            return index + 1
    return len(code)


def check_braces(path, code, offences):
    """Braces always. clang-format 14 cannot add them."""
    for match in re.finditer(r"\b(if|for|while|switch|else|do)\b", code):
        keyword, end = match.group(1), match.end()
        if keyword not in ("else", "do"):
            while end < len(code) and code[end].isspace():
                end += 1
            end = skip_parentheses(code, end)
        rest = code[end:].lstrip()
        ends_do = keyword == "while" and code[: match.start()].rstrip().endswith("}")
        if (
            rest.startswith("{")
            or (keyword == "else" and re.match(r"if\b", rest))
            or (ends_do and rest.startswith(";"))
        ):
            continue
        line = tree.line_of(code, match.start())
        offences.append((path, line, f"{keyword} without braces; add them"))


def functions(code):
    """(first line, number of lines) of each function, the lines of its head included. The style
    puts a function's braces, and only those, alone into the first column."""
    lines = code.split("\n")
    start = None
    for number, line in enumerate(lines, 1):
        if line.rstrip() == "{":
            start = number
            while start > 1 and lines[start - 2].strip() and lines[start - 2][0] not in "}#":
                start -= 1
        elif line.startswith("}") and start is not None:
            yield start, number - start + 1
            start = None


def check_lengths(path, text, code, offences, lengths):
    count = len(c_lines(text))
    allowed = MANUAL_LINES_MAX if str(path).endswith(MANUAL) else FILE_LINES_MAX
    if count > allowed:
        sentence = f"{count} lines; {allowed} are allowed: find the second room in it"
        offences.append((path, count, sentence))
    for line, length in functions(code):
        lengths.append(length)
        if length > FUNCTION_LINES_MAX:
            sentence = (
                f"function of {length} lines; {FUNCTION_LINES_MAX} are allowed: "
                "keep the branches here and move the leaves to functions of their own"
            )
            offences.append((path, line, sentence))


def check_c_file(root, path, offences, lengths):
    text = tree.read(root, path)
    code = tree.without_directives(tree.without_comments(text))
    check_text(path, text, offences)
    check_opening(path, text, offences)
    check_comments(path, text, offences)
    check_guard(path, text, offences)
    check_banned(path, code, offences)
    check_braces(path, code, offences)
    check_lengths(path, text, code, offences, lengths)


def check_script(root, path, offences):
    text = tree.read(root, path)
    check_text(path, text, offences)
    mark = "--" if path.endswith(".lua") else "#"
    if f"{mark} {SPDX}" not in c_lines(text)[:2]:
        offences.append((path, 1, f"no line '{mark} {SPDX}' among the first two"))


def script_files(root):
    found = tree.files(root, SCRIPT_DIRS, SCRIPT_SUFFIXES)
    programs = ("src", "bench", "examples", "cli", "apps")
    found += tree.files(root, programs, ("CMakeLists.txt",))
    found += tree.files(root, ("src", "apps"), (".lua",))
    found += [p for p in tree.files(root, ("scripts", ".ci")) if "." not in os.path.basename(p)]
    found += [p for p in ("CMakeLists.txt",) if os.path.isfile(os.path.join(root, p))]
    return sorted(set(found))


def main():
    root = tree.argument(1, "the root of the tree")
    offences, lengths = [], []
    c_files = tree.c_files(root)
    scripts = script_files(root)
    for path in c_files:
        check_c_file(root, path, offences, lengths)
    for path in scripts:
        check_script(root, path, offences)
    if not c_files:
        offences.append((".", 1, "no C files found; is this the root of the tree?"))
    summary = f"{len(c_files)} C files and {len(scripts)} scripts in order"
    if lengths:
        over = sum(length > 40 for length in lengths)
        summary += (
            f"; {len(lengths)} functions, median {statistics.median(lengths):.0f} lines, "
            f"{over} over 40, longest {max(lengths)}"
        )
    return tree.report("source", offences, summary)


if __name__ == "__main__":
    sys.exit(main())
