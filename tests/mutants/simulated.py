# SPDX-License-Identifier: Apache-2.0
"""Mutants that a simulator has to find: that of the machine, or that of quorums with all of their
threads. The simulator and what it simulates are built without CMake, one mutant after the other,
and hunted from seed to seed until one fails.
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

FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-DPAWL_TESTING=1", "-O2", "-g", "-w"]
FLAGS += ["-Isrc", "-Iinclude", "-Itests"]
# What only runs from a certain seed on can find: about counts, about several locks at once.
BEGINNINGS = {
    r"/(tally|leases|table_tally)\w*\.c$": "1000000000",
    r"/multi_plan\.c$": "2000000000",
    r"/(party|timers)\.c$": "3000000000",
}
BUSY_FACTOR = 6  # a hunt ends by the time of its processor, which others may have, too
HANG_S = 5  # a run that does not end is noticed by the simulator after so long
FOUND = re.compile(r"^SEED=(\d+) (\w+)(.*)$", re.M)


class Simulator:
    """What one of them is made of."""

    def __init__(self, name, sources, flags, sound):
        self.name = name
        self.sources = sources
        self.flags = flags
        self.sound = sound  # seeds that have to pass without a mutant


def find(*patterns):
    return {path for pattern in patterns for path in glob.glob(pattern)}


def machine():
    """The machine's files are those that share its private headers."""
    core = {
        path
        for path in find("src/core/*.c")
        if re.search('#include "core/(machine_parts|tally).h"', open(path, encoding="utf-8").read())
    }
    rest = find("src/base/*.c", "src/engine/memory/table*.c", "src/compound/multi_plan.c")
    sound = ("1..200", "1000000000..1000000060", "2000000000..2000000040", "3000000000..3000000040")
    simulator = find("tests/sim/*.c", "tests/sim/lib/*.c")
    return Simulator("simulate", sorted(core | rest | simulator), [], sound)


def quorum():
    """All of the library but the engines, and calls that lead elsewhere."""
    directory = "tests/sim/quorum"
    library = find("src/*.c", "src/core/*.c", "src/compound/*.c", "src/base/*.c")
    library -= {"src/core/engines.c"}
    sources = sorted(library | find("src/engine/memory/table*.c", f"{directory}/*.c"))
    with open(f"{directory}/CMakeLists.txt", encoding="utf-8") as file:
        functions = re.search(r"IN ITEMS\s+(.*?)\)", file.read(), re.S)[1].split()
    flags = [f"-Wl,--wrap={function}" for function in functions]
    return Simulator("sim-quorum", sources, flags, ("1..10",))


def is_of_quorum(mutant):
    """Its oracles have words for names."""
    named = mutant.oracle is not None and re.fullmatch("[A-Z]{3,}", mutant.oracle)
    return mutant.file.startswith("src/compound/quorum") or bool(named)


def compile_one(source, target):
    define = f'-DPAWL_TEST_SOURCE_DIR="{os.getcwd()}/tests"'
    command = [os.environ.get("CC", "cc"), *FLAGS, define, "-c", source, "-o", target]
    subprocess.run(command, check=True)
    return target


def link(simulator, objects, target):
    flags = [*simulator.flags, "-pthread", "-o", target]
    command = [os.environ.get("CC", "cc"), *objects, *flags]
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


def hunt(simulator, mutant, directory, objects, seconds):
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
    program = link(simulator, changed.values(), base)
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
            timeout=BUSY_FACTOR * seconds + HANG_S + 10,
        )
    except subprocess.TimeoutExpired:
        return Verdict(False, "the hunt did not end")
    return judge(run, time.monotonic() - start)


def check_sound(simulator, directory, objects):
    """Without a mutant nothing may fail, or every hunt would succeed."""
    program = link(simulator, objects.values(), os.path.join(directory, simulator.name))
    for seeds in simulator.sound:
        run = subprocess.run([program, "--seeds", seeds], capture_output=True, text=True)
        if run.returncode != 0:
            sys.exit(f"mutants: the code fails without a mutant:\n{run.stdout}")


def hunt_with(simulator, mutants, seconds, pool, directory):
    """{mutant: what will come of it}"""
    if not mutants:
        return {}
    paths = simulator.sources
    targets = [
        os.path.join(directory, f"{simulator.name}-{path.replace('/', '-')}.o") for path in paths
    ]
    objects = dict(zip(paths, pool.map(compile_one, paths, targets)))
    check_sound(simulator, directory, objects)
    return {m: pool.submit(hunt, simulator, m, directory, objects, seconds) for m in mutants}


def hunt_all(mutants, seconds, jobs):
    """(mutant, verdict) of each, in order."""
    of_quorum = [m for m in mutants if is_of_quorum(m)]
    others = [m for m in mutants if not is_of_quorum(m)]
    with tempfile.TemporaryDirectory(prefix="pawl-mutants-") as directory:
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            hunts = hunt_with(machine(), others, seconds, pool, directory)
            hunts |= hunt_with(quorum(), of_quorum, seconds, pool, directory)
            for mutant in mutants:
                yield mutant, hunts[mutant].result()
