#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The programs in the documentation compile and run.

snippets.py --root DIR --library LIBPAWL.SO --compiler CC "--flags=-Wall -Werror ..."

Taken from README.md and docs/*.md: every ```c block with a main function, and every ```sh block
behind the line <!-- run -->. Taken from pawl.h: the program in its opening comment. A C program is
compiled with the project's warnings and run without arguments; its exit status must be 0. Behind
the line <!-- compile only --> it is not run, and behind <!-- file: NAME.c --> it is saved under
that name, so that a shell block further down can compile it. All snippets of one document share
one directory.

Nothing of the caller's reaches them: HOME and TMPDIR are private, PAWL_URL is unset.
"""

import argparse
import dataclasses
import glob
import os
import re
import subprocess
import sys
import tempfile

RUN_SECONDS_MAX = 60


@dataclasses.dataclass
class Snippet:
    path: str  # of the document, relative to the root
    line: int  # of its first line
    language: str  # "c" or "sh"
    text: str
    run: bool
    name: str  # of the file to save it to


def marks_before(text):
    """What the <!-- --> lines at the end of the text say; blank lines among them do not matter."""
    marks = []
    for row in reversed(text.splitlines()):
        match = re.fullmatch(r" *<!-- (.*?) -->", row)
        if match:
            marks.append(match.group(1))
        elif row.strip():
            break
    return marks


def markdown_snippets(path, text):
    """The blocks of a Markdown page that are to be compiled or run."""
    snippets = []
    pattern = r"^(?P<indent> *)```(?P<language>\w+)[^\n]*\n(?P<body>.*?)^ *```"
    for match in re.finditer(pattern, text, re.M | re.S):
        language = match.group("language")
        marks = marks_before(text[: match.start()])
        line = text.count("\n", 0, match.start()) + 2
        indent = len(match.group("indent"))
        body = "".join(row[indent:] + "\n" for row in match.group("body").splitlines())
        named = [mark[6:] for mark in marks if mark.startswith("file: ")]
        name = named[0] if named else f"snippet_{line}.{language}"
        if language == "c" and re.search(r"\bint main\b", body):
            snippets.append(Snippet(path, line, "c", body, "compile only" not in marks, name))
        elif language == "sh" and "run" in marks:
            snippets.append(Snippet(path, line, "sh", body, True, name))
    return snippets


def header_snippet(path, text):
    """The program in the opening comment of pawl.h: from the run of #include lines that has pawl.h
    to the closing brace in the same column. None if there is none."""
    opening = text.split("#ifndef", 1)[0].splitlines()
    rows = [re.sub(r"^ \* ?", "", row) for row in opening]
    at = next((i for i, row in enumerate(rows) if row.strip() == "#include <pawl.h>"), None)
    if at is None:
        return None
    column = len(rows[at]) - len(rows[at].lstrip())
    while at > 0 and rows[at - 1].strip().startswith("#include"):
        at -= 1
    end = next((i for i in range(at, len(rows)) if rows[i] == " " * column + "}"), None)
    if end is None:
        return None
    body = "".join(row[column:] + "\n" for row in rows[at : end + 1])
    return Snippet(path, at + 1, "c", body, True, "header.c")


def collect(root):
    """All snippets of the tree, and complaints about documents that lack one."""
    snippets, complaints = [], []
    pages = [os.path.join(root, "README.md"), *sorted(glob.glob(os.path.join(root, "docs/*.md")))]
    for page in filter(os.path.isfile, pages):
        with open(page, encoding="utf-8") as file:
            snippets += markdown_snippets(os.path.relpath(page, root), file.read())
    if not any(s.path == "README.md" and s.language == "c" for s in snippets):
        complaints.append("README.md: no ```c block with a main function")
    with open(os.path.join(root, "include/pawl.h"), encoding="utf-8") as file:
        snippet = header_snippet("include/pawl.h", file.read())
    if snippet:
        snippets.append(snippet)
    else:
        complaints.append("include/pawl.h: no program, from #include <pawl.h> to }, in its comment")
    return snippets, complaints


def environment(root, library, work):
    """What snippets see: a private home, and pawl where compiler and loader look."""
    keep = {k: v for k, v in os.environ.items() if not k.startswith("PAWL_")}
    for name in ("home", "tmp"):
        os.makedirs(os.path.join(work, name), exist_ok=True)
    library_dir = os.path.dirname(library)
    return dict(
        keep,
        HOME=os.path.join(work, "home"),
        TMPDIR=os.path.join(work, "tmp"),
        C_INCLUDE_PATH=os.path.join(root, "include"),
        LIBRARY_PATH=library_dir,
        LD_LIBRARY_PATH=library_dir,
    )


def execute(command, directory, env):
    """None, or what went wrong."""
    try:
        result = subprocess.run(
            command,
            cwd=directory,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=RUN_SECONDS_MAX,
        )
    except subprocess.TimeoutExpired:
        return f"does not end within {RUN_SECONDS_MAX} s"
    if result.returncode != 0:
        return f"exit status {result.returncode}\n{result.stdout}"
    return None


def try_snippet(snippet, directory, env, compiler, flags):
    source = os.path.join(directory, snippet.name)
    with open(source, "w", encoding="utf-8") as file:
        file.write(snippet.text)
    if snippet.language == "sh":
        return execute(["sh", "-eu", source], directory, env)
    program = os.path.splitext(source)[0]
    command = [compiler, *flags, "-o", program, source, "-lpawl", "-pthread"]
    return execute(command, directory, env) or (
        execute([program], directory, env) if snippet.run else None
    )


def main():
    parser = argparse.ArgumentParser()
    for name in ("--root", "--library", "--compiler", "--flags"):
        parser.add_argument(name, required=True)
    options = parser.parse_args()
    snippets, complaints = collect(options.root)
    flags = options.flags.split()
    for complaint in complaints:
        print(complaint)
    failed = len(complaints)
    with tempfile.TemporaryDirectory(prefix="pawl-docs-") as work:
        env = environment(options.root, options.library, work)
        for snippet in snippets:
            directory = os.path.join(work, snippet.path.replace("/", "_"))
            os.makedirs(directory, exist_ok=True)
            wrong = try_snippet(snippet, directory, env, options.compiler, flags)
            print(f"{snippet.path}:{snippet.line}: {wrong or 'ok'}")
            failed += wrong is not None
    passed = len(snippets) + len(complaints) - failed
    print(f"[  PASSED  ] {passed} test(s).")
    if failed:
        print(f"[  FAILED  ] snippets: {failed} test(s)")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
