#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/count_cases.py counts right, for the last line of scripts/test is what people believe.

Each case is what ctest reported about some programs, and the line and exit status to expect.
"""

import os
import subprocess
import sys
import tempfile

COUNT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts/count_cases.py")
PASSED, FAILED = "[  PASSED  ] %d test(s).\n", "[  FAILED  ] tests: %d test(s), listed below:\n"
SKIP = '<skipped message="SKIP_RETURN_CODE=77"/>'
LOST = '<skipped message="Unable to find executable"/>'


def program(status, output="", inner=""):
    content = f"{inner}<system-out>{output}</system-out>"
    return f'<testcase name="x" status="{status}">{content}</testcase>'


# what it is, programs (None: the build broke), CI, the last line, the exit status
CASES = [
    ("a group", [program("run", PASSED % 3)], "", "3 passed, 0 failed", 0),
    ("two groups", [program("run", PASSED % 3 + PASSED % 4)], "", "7 passed, 0 failed", 0),
    ("no summary", [program("run", "hello")], "", "1 passed, 0 failed", 0),
    ("failed cases", [program("fail", PASSED % 3 + FAILED % 2)], "", "3 passed, 2 failed", 1),
    ("older cmocka", [program("fail", "[  FAILED  ] 2 test(s)")], "", "0 passed, 2 failed", 1),
    ("a failed case's name", [program("fail", "[  FAILED  ] a_1")], "", "0 passed, 1 failed", 1),
    ("a crash", [program("fail", "boom")], "", "0 passed, 1 failed", 1),
    ("a crash at exit", [program("fail", PASSED % 3)], "", "3 passed, 1 failed", 1),
    ("an ignored status", [program("run", FAILED % 2)], "", "0 passed, 2 failed", 1),
    ("a skip", [program("notrun", "", SKIP)], "", "0 passed, 0 failed, 1 skipped", 0),
    ("a skip in CI", [program("notrun", "", SKIP)], "true", "0 passed, 1 failed", 1),
    ("no such program", [program("notrun", "", LOST)], "", "0 passed, 1 failed", 1),
    ("a broken build", None, "", "0 passed, 1 failed", 1),
    ("nothing ran", [], "", "0 passed, 1 failed", 1),
]


def count(programs, ci):
    with tempfile.TemporaryDirectory(prefix="pawl-count-") as directory:
        name = "dev.broken" if programs is None else "dev.xml"
        with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
            file.write(f"<testsuite>{''.join(programs or [])}</testsuite>")
        command = [sys.executable, "-B", COUNT, directory, "dev"]
        env = dict(os.environ, CI=ci)
        result = subprocess.run(command, env=env, capture_output=True, text=True)
    return (result.stdout.splitlines() or [result.stderr])[-1], result.returncode


def main():
    failed = 0
    for name, programs, ci, line, status in CASES:
        answer = count(programs, ci)
        print(f"{name}: {'ok' if answer == (line, status) else answer}")
        failed += answer != (line, status)
    print(f"[  PASSED  ] {len(CASES) - failed} test(s).")
    if failed:
        print(f"[  FAILED  ] count_selftest: {failed} test(s)")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
