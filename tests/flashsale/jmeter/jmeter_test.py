#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The JMeter plan of the flash sale, without a window: what its .jtl says agrees with the books.
run.sh makes the JMeter."""

import collections
import csv
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import stage as stages  # noqa: E402
from stage import expect, expect_true  # noqa: E402

CASES, case = stages.cases()

PLAN = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                    "../../../apps/flashsale/load/flashsale.jmx")


def run_plan(stage, shop, **properties):
    """How often each answer came, by what was asked, the status, and whether JMeter likes it."""
    home = os.environ["JMETER_HOME"]
    jtl = os.path.join(stage.directory, "orders.jtl")
    command = ["java", "-Xmx256m", "-Djava.awt.headless=true", f"-Djmeter.home={home}",
               f"-Djava.util.prefs.userRoot={stage.directory}", "-cp", f"{home}/lib/*",
               "org.apache.jmeter.NewDriver", "-n", "-t", PLAN, "-l", jtl,
               "-j", os.path.join(stage.directory, "jmeter.log"), f"-Jport={shop.port}",
               *(f"-J{name}={value}" for name, value in properties.items())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120,
                          cwd=stage.directory)
    expect_true(os.path.exists(jtl), f"a .jtl; JMeter said {done.stdout}{done.stderr}")
    with open(jtl, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return collections.Counter(
        (row["label"], row["responseCode"], row["success"]) for row in rows)


@case
def the_plan_sells_out(stage):
    redis = stage.redis()
    shop = stage.serve(redis)
    answers = run_plan(stage, shop, users=50, orders=4, stock=150, strategy="pawl")
    expect(answers, {("set the stock", "200", "true"): 1, ("order", "201", "true"): 150,
                     ("order", "409", "true"): 50}, "answers")
    code, out, said = stage.run("audit", "--redis", redis.url())
    expect(code, 0, f"audit: {out}{said}")
    expect({row["strategy"] for row in stages.records(redis, "10001")}, {"pawl"}, "strategies")


@case
def what_the_shop_does_not_know_is_an_error(stage):
    shop = stage.serve(stage.redis())
    answers = run_plan(stage, shop, users=2, orders=1, stock=5, strategy="soup")
    expect(answers, {("set the stock", "200", "true"): 1, ("order", "400", "false"): 2}, "answers")


if __name__ == "__main__":
    sys.exit(stages.run_all(CASES, __doc__))
