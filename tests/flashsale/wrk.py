#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""wrk against the shop: what it was answered agrees with the books."""

import os
import re
import shutil
import subprocess
import sys

import stage as stages
from stage import expect, expect_true

CASES, case = stages.cases()

LOAD_DIR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../apps/flashsale/load")


def run_wrk(url, connections, seconds):
    """So many orders of each kind."""
    done = subprocess.run(
        ["wrk", "-t2", f"-c{connections}", f"-d{seconds}s", "-s", os.path.join(LOAD_DIR, "wrk.lua"),
         url + "/items/10001/orders"], capture_output=True, text=True, timeout=60)
    expect(done.returncode, 0, f"exit status: {done.stdout}{done.stderr}")
    match = re.search(r"orders: sold (\d+), sold out (\d+), busy (\d+), other (\d+)", done.stdout)
    expect_true(match, f"a line of ours in {done.stdout!r}")
    expect_true("Socket errors" not in done.stdout, f"errors: {done.stdout}")
    return [int(count) for count in match.groups()]


@case
def sells_out_under_wrk(stage):
    redis = stage.redis()
    shop = stage.serve(redis, "--strategy", "pawl")
    shop.put("10001", stock=100)
    sold, sold_out, busy, other = run_wrk(shop.url, 16, 4)
    expect((sold, busy, other), (100, 0, 0), "sold, busy, other")
    expect_true(sold_out > 0, "sold out")
    code, out, said = stage.run("audit", "--redis", redis.url())
    expect(code, 0, f"audit: {out}{said}")


@case
def an_unknown_item_is_neither(stage):
    shop = stage.serve(stage.redis())
    sold, sold_out, busy, other = run_wrk(shop.url, 4, 1)
    expect((sold, sold_out, busy), (0, 0, 0), "sold, sold out, busy")
    expect_true(other > 0, "other answers")


if __name__ == "__main__":
    if not shutil.which("wrk"):
        print("wrk: skipped: it is not installed; apt-get install wrk")
        sys.exit(stages.SKIPPED)
    sys.exit(stages.run_all(CASES, __doc__))
