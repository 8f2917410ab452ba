#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""snippets.py sees what it should and fails when it should: snippets_selftest.py CC

Each case is a small tree with a library of one function, a README and a pawl.h.
"""

import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
HEADER = """/* SPDX */
/* pawl.h
 *
 *     #include <stdio.h>
 *     #include <pawl.h>
 *
 *     int main(void)
 *     {
 *         if (1) {
 *             puts("header");
 *         }
 *         return pawl_answer() - %d;
 *     }
 *
 * More words. */
#ifndef PAWL_H
#define PAWL_H
int pawl_answer(void);
#endif
"""
GOOD = "```c\n#include <pawl.h>\nint main(void)\n{\n    return pawl_answer() - 42;\n}\n```\n"
BAD = GOOD.replace("42", "41")

# name, README.md, what the header's program expects, exit status, words in the output
CASES = [
    ("all is well", GOOD, 42, 0, ["README.md:2: ok", "include/pawl.h:4: ok", "] 2 test(s)"]),
    ("a program fails", GOOD + "\n" + BAD, 42, 1, ["README.md:10: exit status 1"]),
    ("the header's program fails", GOOD, 41, 1, ["include/pawl.h:4: exit status 1"]),
    ("no program in the README", "words\n", 42, 1, ["README.md: no ```c block"]),
    ("a warning", GOOD.replace("return", "int unused; return"), 42, 1, ["unused"]),
    ("compile only", GOOD + "\n<!-- compile only -->\n" + BAD, 42, 0, ["README.md:11: ok"]),
    ("in a list", "1. so:\n\n   " + GOOD.replace("\n", "\n   "), 42, 0, ["README.md:4: ok"]),
    ("a fragment", GOOD + "```c\nnot C at all\n```\n", 42, 0, ["] 2 test(s)"]),
    ("a shell block", GOOD + "<!-- run -->\n```sh\nfalse\necho on\n```\n", 42, 1, [":10: exit"]),
    ("an unmarked one", GOOD + "```sh\nfalse\n```\n", 42, 0, ["] 2 test(s)"]),
    (
        "a file for a shell block",
        "<!-- file: a.c -->\n" + GOOD + "<!-- run -->\n```sh\ncc a.c -lpawl -o b\n./b\n```\n",
        42,
        0,
        ["README.md:11: ok"],
    ),
    (
        "nothing of the caller's",
        GOOD + '<!-- run -->\n```sh\ntest -z "${PAWL_URL-}"\ntest "$HOME" != /caller\n```\n',
        42,
        0,
        ["README.md:10: ok"],
    ),
]


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def run_case(compiler, case):
    """None, or what is wrong."""
    _, readme, expected, status, words = case
    with tempfile.TemporaryDirectory(prefix="pawl-docs-") as root:
        write(f"{root}/README.md", readme)
        write(f"{root}/include/pawl.h", HEADER % expected)
        write(f"{root}/answer.c", "int pawl_answer(void);\nint pawl_answer(void) { return 42; }\n")
        library = f"{root}/libpawl.so"
        subprocess.run(
            [compiler, "-shared", "-fPIC", "-o", library, f"{root}/answer.c"], check=True
        )
        command = [sys.executable, "-B", f"{HERE}/snippets.py", "--root", root]
        command += ["--library", library, "--compiler", compiler, "--flags=-Wall -Werror"]
        env = dict(os.environ, PAWL_URL="redis://somebody", HOME="/caller")
        result = subprocess.run(command, env=env, capture_output=True, text=True)
    output = result.stdout + result.stderr
    missing = [word for word in words if word not in output]
    if result.returncode != status or missing:
        return f"exit status {result.returncode}, missing {missing} in:\n{output}"
    return None


def main():
    failed = 0
    for case in CASES:
        wrong = run_case(sys.argv[1], case)
        print(f"{case[0]}: {wrong or 'ok'}")
        failed += wrong is not None
    print(f"[  PASSED  ] {len(CASES) - failed} test(s).")
    if failed:
        print(f"[  FAILED  ] snippets_selftest: {failed} test(s)")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
