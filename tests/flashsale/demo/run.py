# SPDX-License-Identifier: Apache-2.0
"""The demonstration: some of its scenes, its table, its end, and its complaints."""

import json
import os
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
DEMO_DIR = os.path.join(ROOT, "apps", "flashsale", "demo")
sys.path[:0] = [os.path.dirname(HERE), DEMO_DIR]
import scenes  # noqa: E402
import shop as demo_shop  # noqa: E402
import stage as stages  # noqa: E402
from stage import expect, expect_true, until  # noqa: E402

DEMO = os.path.join(DEMO_DIR, "demo.py")
CHOSEN = [
    "none", "process-mutex", "setnx-once", "pawl", "pawl-fenced", "redlock", "split", "atomic"]
CASES, case = stages.cases()


def demo(stage, *arguments):
    return [sys.executable, "-B", DEMO, "--program", stage.flashsale, *arguments]


def strays(stage):
    """Processes that run in the stage's directory or below: what the demonstration started."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if stage.directory.encode() in file.read() and int(pid) != os.getpid():
                    found.append(int(pid))
        except OSError:
            pass  # it has ended meanwhile, or is not ours
    return found


@case
def scenes_end_as_predicted(stage):
    words = [word for name in CHOSEN for word in ("--strategy", name)]
    done = subprocess.run(demo(stage, "--json", *words), env=stage.environment, text=True,
                          capture_output=True, timeout=150, check=False)
    rows = [json.loads(row) for row in done.stdout.splitlines()]
    wrong = [(row["strategy"], row["fault"]) for row in rows if not row["as_predicted"]]
    expect(wrong, [], f"scenes that ended otherwise ({done.stderr[-500:]})")
    expect({row["strategy"] for row in rows}, set(CHOSEN), "strategies that were shown")
    expect(done.returncode, 0, "exit status")
    expect((strays(stage), os.listdir(stage.directory)), ([], []), "what is left behind")


@case
def only_rows_are_on_stdout(stage):
    # A cmake that builds nothing: what scripts/demo itself says comes before and after it.
    bin_directory = os.path.join(stage.directory, "bin")
    os.mkdir(bin_directory)
    with open(os.path.join(bin_directory, "cmake"), "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\necho cmake version 3.25.1\n")
    os.chmod(file.name, 0o755)
    environment = dict(stage.environment,
                       PATH=bin_directory + ":" + stage.environment["PATH"])
    done = subprocess.run([os.path.join(ROOT, "scripts", "demo"), "--json", "--strategy", "atomic"],
                          env=environment, text=True, capture_output=True, timeout=120, check=False)
    expect([row for row in done.stdout.splitlines() if not row.startswith("{")], [],
           "what is on stdout and no row")
    expect_true("==> selling" in done.stderr, f"what is going on: {done.stderr!r}")


@case
def a_busy_machine_is_named_under_the_table(stage):
    # os.getloadavg() of the demonstration says what is wanted, whatever the machine does.
    for load, wanted in ((1000.0, True), (0.0, False)):
        line = (f"import os, runpy, sys; os.getloadavg = lambda: ({load}, 0.0, 0.0);"
                "sys.path.insert(0, os.path.dirname(sys.argv[1])); del sys.argv[0];"
                "runpy.run_path(sys.argv[0], run_name='__main__')")
        done = subprocess.run([sys.executable, "-B", "-c", line, *demo(stage)[2:],
                               "--strategy", "atomic"], env=stage.environment, text=True,
                              capture_output=True, timeout=60, check=False)
        expect("The machine was busy (load average 1000.0" in done.stdout, wanted,
               f"a load of {load}: {done.stdout!r} {done.stderr[-300:]!r}")


@case
def who_has_seen_enough_may_go(stage):
    process = subprocess.Popen(demo(stage, "--json", "--strategy", "atomic"), text=True,
                               env=stage.environment, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    expect((process.wait(stages.SECONDS_MAX), said), (128 + signal.SIGPIPE, ""), "its end")
    until(lambda: not strays(stage), "everything has ended")


@case
def interrupted_it_leaves_nothing_behind(stage):
    process = subprocess.Popen(demo(stage, "--strategy", "pawl"), env=stage.environment,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    expect_true("strategy" in process.stdout.readline(), "the table has begun")
    process.send_signal(signal.SIGINT)
    expect(process.wait(stages.SECONDS_MAX), 130, "exit status")
    process.stdout.close()
    until(lambda: not strays(stage), "everything has ended")
    expect(os.listdir(stage.directory), [], "what is left behind")


@case
def a_wrong_line_is_told_before_anything_starts(stage):
    for line in (["--strategy", "nonesuch"], ["--stock", "0"], ["--clients", "x"], ["--nonsense"]):
        done = subprocess.run(demo(stage, *line), env=stage.environment, text=True,
                              capture_output=True, timeout=20, check=False)
        expect((done.returncode, done.stdout), (64, ""), f"{line}")
        expect_true("see --help" in done.stderr, f"{line}: {done.stderr!r}")


class Audits:
    """A shop of which nothing is asked but its audits."""

    def __init__(self, *sold):
        self.sold = iter(sold)

    def audit(self):
        return {"sold": next(self.sold), "oversold": 0}


@case
def a_shop_that_does_not_come_to_rest_is_told(stage):
    del stage
    expect(scenes.settled(Audits(1, 2, 3, 3, 4))["sold"], 3, "the first that stands still")
    scenes.SETTLE_S = 0.2
    restless = stages.in_background(scenes.settled, Audits(*range(10000)))
    error = restless.exception(10)
    expect(type(error), demo_shop.ShopError, f"what came of it: {error}")
    expect_true("still sells" in str(error), f"what it says: {error}")


if __name__ == "__main__":
    sys.exit(stages.run_all(CASES, __doc__))
