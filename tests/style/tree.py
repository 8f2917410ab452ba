# SPDX-License-Identifier: Apache-2.0
"""What the style checkers share: finding files, reading C without its comments, reporting.

An offence is (path, line, sentence). A checker collects offences and hands them to report(), which
prints them as `path:line: sentence` and gives the exit status.
"""

import os
import re
import sys

C_DIRS = ("include", "src", "cli", "apps", "tests", "bench", "examples")
C_SUFFIXES = (".c", ".h")


def files(root, dirs, suffixes=None):
    """Paths relative to root of the files under dirs, sorted. Hidden and build directories are
    left out."""
    found = []
    for directory in dirs:
        for base, children, names in os.walk(os.path.join(root, directory)):
            children[:] = [c for c in children if c[0] != "." and c not in ("build", "__pycache__")]
            for name in names:
                if suffixes is None or name.endswith(suffixes):
                    found.append(os.path.relpath(os.path.join(base, name), root))
    return sorted(found)


def c_files(root, dirs=C_DIRS):
    return files(root, dirs, C_SUFFIXES)


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
        return file.read()


TOKEN = re.compile(
    r"""(?P<block>/\*.*?\*/) | (?P<line>//[^\n]*) |
        (?P<string>"(?:[^"\\\n]|\\.)*") | (?P<char>'(?:[^'\\\n]|\\.)*')""",
    re.VERBOSE | re.DOTALL,
)


def blank(text):
    """As many characters and lines, but nothing to be found."""
    return re.sub(r"[^\n]", " ", text)


def without_comments(text, strings=False):
    """C text with comments blanked out, and also what stands in quotes unless strings is true.
    Lines and columns stay where they are."""

    def replacement(match):
        if match.lastgroup in ("block", "line"):
            return blank(match.group())
        if strings:
            return match.group()
        return match.group()[0] + blank(match.group()[1:-1]) + match.group()[-1]

    return TOKEN.sub(replacement, text)


def without_directives(code):
    """C text with preprocessor directives blanked out, continued lines included."""
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: blank(m.group()), code, flags=re.M)


def line_comments(text):
    """Positions of // comments (not of // in strings or block comments)."""
    return [m.start() for m in TOKEN.finditer(text) if m.lastgroup == "line"]


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def report(checker, offences, summary):
    """Print what was found; the exit status."""
    for path, line, sentence in sorted(offences):
        print(f"{path}:{line}: {sentence}")
    if offences:
        print(f"{checker}: {len(offences)} offences")
        return 1
    print(f"{checker}: {summary}")
    return 0


def argument(position, what):
    """A command line argument that must be there."""
    if len(sys.argv) <= position:
        sys.exit(f"{sys.argv[0]}: missing argument: {what}")
    return sys.argv[position]
