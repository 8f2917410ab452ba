# SPDX-License-Identifier: Apache-2.0
"""The live page in Chromium: starts a shop, and lets page.js look at it.

playwright-core comes from npm into --directory (once). No node, no npm, no Chromium or no network:
status 77, a skip.
"""

import argparse
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import stage  # noqa: E402

FETCH_SECONDS = 120
TEST_SECONDS = 150


def skip(why):
    print(f"the live page: skipped: {why}", file=sys.stderr)
    sys.exit(stage.SKIPPED)


def install(directory):
    """playwright-core in directory/node_modules."""
    os.makedirs(directory, exist_ok=True)
    shutil.copy(os.path.join(HERE, "package.json"), directory)
    if os.path.isdir(os.path.join(directory, "node_modules", "playwright-core")):
        return
    done = subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--no-package-lock"],
        cwd=directory, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)
    if done.returncode != 0:
        skip(f"npm could not fetch playwright-core: {done.stderr.strip()[-300:]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--flashsale", required=True, type=os.path.abspath)
    parser.add_argument("--directory", required=True, type=os.path.abspath)
    parser.add_argument("--screenshot", metavar="FILE", type=os.path.abspath, default=None)
    options = parser.parse_args()
    chromium = shutil.which("chromium")
    for tool in ("node", "npm", "redis-server"):
        if not shutil.which(tool):
            skip(f"there is no {tool}")
    if not chromium:
        skip("there is no chromium; apt-get install chromium")
    install(options.directory)
    with stage.Stage(options) as made:
        shop = made.serve(made.redis(), "--allow-faults", "--work", "2ms")
        words = [word for word in (shop.url, options.screenshot) if word]
        return subprocess.run(
            ["node", os.path.join(HERE, "page.js"), *words], cwd=options.directory,
            env={**os.environ, "CHROMIUM": chromium, "TMPDIR": made.directory},
            timeout=TEST_SECONDS, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
