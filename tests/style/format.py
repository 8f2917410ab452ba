#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clang-format has nothing to change: format.py ROOT

To mend what it finds: clang-format-14 -i FILE
"""

import os
import re
import subprocess
import sys

import tools
import tree


def main():
    root = tree.argument(1, "the root of the tree")
    program = tools.find("clang-format")
    if program is None:
        return tools.SKIPPED
    files = tree.c_files(root)
    if not files:
        print("format: no C files found; is this the root of the tree?")
        return 1
    style = os.path.join(root, ".clang-format")
    if not os.path.isfile(style):
        print(f"{style}: missing")
        return 1
    command = [program, f"--style=file:{style}", "--dry-run", "--Werror", *files]
    result = subprocess.run(command, cwd=root, capture_output=True, text=True)
    lines = re.findall(r"^\S+?:\d+:\d+: (?:error|warning): .*$", result.stderr, re.M)
    for line in lines:
        print(line)
    if result.returncode != 0:
        print(f"format: {len(lines)} places; mend them with {os.path.basename(program)} -i FILE")
        if not lines:
            print(result.stderr)
        return 1
    print(f"format: {len(files)} files in order")
    return 0


if __name__ == "__main__":
    sys.exit(main())
