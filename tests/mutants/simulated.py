# SPDX-License-Identifier: Apache-2.0
"""Mutants that the simulator has to find: the machine, the memory engine's table and the simulator
are built without CMake, one mutant after the other, and hunted from seed to seed until one fails.
"""

import concurrent.futures
import glob
import os
import re
import subprocess
import sys
import tempfile
import time

from mutant import Verdict

FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-O2", "-g", "-w", "-Isrc", "-Iinclude", "-Itests"]
SOUND_SEEDS = (
    "1..200",
    "1000000000..1000000060",
    "2000000000..2000000040",
    "3000000000..3000000040",
)
# What only runs from a certain seed on can find: about counts, about several locks at once.
BEGINNINGS = {
    r"/(tally|leases|table_tally)\w*\.c$": "1000000000",
    r"/multi_plan\.c$": "2000000000",
    r"/party\.c$": "3000000000",
}
HANG_S = 5  # a run that does not end is noticed by the simulator after so long
FOUND = re.compile(r"^SEED=(\d+) (\w+)(.*)$", re.M)


def sources():
    """The machine's files are those that share its private headers."""
    core = [
        path
        for path in glob.glob("src/core/*.c")
        if re.search('#include "core/(machine_parts|tally).h"', open(path, encoding="utf-8").read())
    ]
    rest = ["src/base/*.c", "src/engine/memory/table*.c", "src/compound/multi_plan.c"]
    rest += ["tests/sim/*.c", "tests/sim/lib/*.c"]
    return sorted(core + [path for pattern in rest for path in glob.glob(pattern)])


def compile_one(source, target):
    define = f'-DPAWL_TEST_SOURCE_DIR="{os.getcwd()}/tests"'
    command = [os.environ.get("CC", "cc"), *FLAGS, define, "-c", source, "-o", target]
    subprocess.run(command, check=True)
    return target


def link(objects, target):
    command = [os.environ.get("CC", "cc"), *objects, "-pthread", "-o", target]
    subprocess.run(command, check=True)
    return target


def judge(run, took):
    found = FOUND.search(run.stdout)
    if found:
        by = f"simulator {found.group(2)}, seed {found.group(1)}"
        return Verdict(True, by, took, found.group(1))
    if run.returncode < 0:
        return Verdict(True, "simulator, by a crash", took)
    if run.returncode != 0:
        return Verdict(False, f"the hunt failed: {run.stderr.strip()}")
    return Verdict(False, f"survived {took:.0f} s of simulation")


def hunt(mutant, directory, objects, seconds):
    text = mutant.apply()
    if text is None:
        return mutant.misfit()
    base = os.path.join(directory, mutant.name)
    with open(base + ".c", "w", encoding="utf-8") as file:
        file.write(text)
    changed = dict(objects)
    try:
        changed[mutant.file] = compile_one(base + ".c", base + ".o")
    except subprocess.CalledProcessError:
        return Verdict(False, "it does not compile: mend its new text")
    program = link(changed.values(), base)
    # Some must be found by one oracle alone, however soon another one would find them.
    believed = ["--only", mutant.oracle] if mutant.oracle else []
    for pattern, seed in BEGINNINGS.items():
        believed += ["--from", seed] if re.search(pattern, mutant.file) else []
    start = time.monotonic()
    try:
        run = subprocess.run(
            [program, "--mutant-hunt", str(seconds), *believed],
            capture_output=True,
            text=True,
            timeout=seconds + HANG_S + 10,
        )
    except subprocess.TimeoutExpired:
        return Verdict(False, "the hunt did not end")
    return judge(run, time.monotonic() - start)


def check_sound(directory, objects):
    """Without a mutant nothing may fail, or every hunt would succeed."""
    program = link(objects.values(), os.path.join(directory, "sound"))
    for seeds in SOUND_SEEDS:
        run = subprocess.run([program, "--seeds", seeds], capture_output=True, text=True)
        if run.returncode != 0:
            sys.exit(f"mutants: the code fails without a mutant:\n{run.stdout}")


def hunt_all(mutants, seconds, jobs):
    """(mutant, verdict) of each, in order."""
    with tempfile.TemporaryDirectory(prefix="pawl-mutants-") as directory:
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            paths = sources()
            targets = [os.path.join(directory, path.replace("/", "-") + ".o") for path in paths]
            objects = dict(zip(paths, pool.map(compile_one, paths, targets)))
            check_sound(directory, objects)
            hunts = [pool.submit(hunt, m, directory, objects, seconds) for m in mutants]
            for mutant, result in zip(mutants, hunts):
                yield mutant, result.result()
