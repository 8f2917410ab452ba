#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clang-tidy and clang's own warnings find nothing in the library, the command and the flash sale:
tidy.py ROOT BUILD_DIR

The checks are those of .clang-tidy; how each file is compiled is in the build directory's
compile_commands.json.
"""

import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile

import tools
import tree

PARTS = ("src", "apps", "cli")
TESTING_OBJECTS = "pawl_testing.dir"  # the same files once more


def commands(root, build):
    """The entries of compile_commands.json for the files of these parts, each file once."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        entries = json.load(file)
    places = tuple(os.path.join(os.path.realpath(root), part, "") for part in PARTS)
    return [
        entry
        for entry in entries
        if os.path.realpath(entry["file"]).startswith(places)
        and TESTING_OBJECTS not in entry["command"]
    ]


def tidy(program, root, commands_dir, path):
    """What clang-tidy says about one file, or ""."""
    config = f"--config-file={os.path.join(root, '.clang-tidy')}"
    command = [program, "--quiet", config, "-p", commands_dir, path]
    result = subprocess.run(command, capture_output=True, text=True)
    return result.stdout + result.stderr if result.returncode != 0 else ""


def main():
    root = os.path.abspath(tree.argument(1, "the root of the tree"))
    build = tree.argument(2, "the build directory")
    program = tools.find("clang-tidy")
    if program is None:
        return tools.SKIPPED
    entries = commands(root, build)
    if not entries:
        print(f"{build}/compile_commands.json: nothing from {root}; is this the build?")
        return 1
    with tempfile.TemporaryDirectory(prefix="pawl-tidy-") as commands_dir:
        path = os.path.join(commands_dir, "compile_commands.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(entries, file)
        with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
            jobs = [pool.submit(tidy, program, root, commands_dir, e["file"]) for e in entries]
            outputs = [job.result() for job in jobs]
    # A header's offence is seen from every file that includes it.
    found = "\n".join(outputs).replace(root + "/", "")
    places = sorted(set(re.findall(r"^\S+?:\d+:\d+: (?:error|warning): .*$", found, re.M)))
    for place in places:
        print(place)
    if any(outputs):
        print(f"tidy: {len(places)} places; `clang-tidy-14 -p {build} FILE` explains them")
        if not places:
            print(found)
        return 1
    print(f"tidy: {len(entries)} files in order")
    return 0


if __name__ == "__main__":
    sys.exit(main())
