# SPDX-License-Identifier: Apache-2.0
"""Each script for users says how it is used, under its own name, and builds nothing for that."""

import argparse
import os
import subprocess
import sys
import tempfile

SCRIPTS = ["scripts/test", "scripts/demo", "scripts/torture", "scripts/release", "bench/run",
           "bench/run_command", "bench/ls_million", "bench/flashsale"]
BUILDERS = ["cmake", "ninja", "make", "cc"]


def make_builders(directory):
    """Programs that only leave a trace of having been called."""
    for name in BUILDERS:
        path = os.path.join(directory, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n: >\"$(dirname \"$0\")/built\"\nexit 1\n")
        os.chmod(path, 0o755)


def complaint(root, script):
    """What is wrong with its help; None: nothing."""
    with tempfile.TemporaryDirectory(prefix="pawl-help-") as directory:
        make_builders(directory)
        environment = dict(os.environ, PATH=directory + ":" + os.environ["PATH"],
                           PAWL_BENCH_BUILD=os.path.join(directory, "build"))
        done = subprocess.run([os.path.join(root, script), "--help"], env=environment, text=True,
                              capture_output=True, timeout=60, check=False)
        if os.path.exists(os.path.join(directory, "built")):
            return "builds first"
    if done.returncode != 0 or not done.stdout.startswith(f"usage: {script} "):
        return f"{done.returncode}, {done.stdout[:80]!r} {done.stderr[-200:]!r}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", required=True, type=os.path.abspath)
    root = parser.parse_args().root
    wrong = {script: complaint(root, script) for script in SCRIPTS}
    failed = 0
    for script, what in wrong.items():
        if what is not None:
            print(f"{script} --help: {what}")
            failed += 1
    print(f"[  PASSED  ] {len(wrong) - failed} test(s).")
    if failed:
        print(f"[  FAILED  ] {failed} test(s).")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
