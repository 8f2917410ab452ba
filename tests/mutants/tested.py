# SPDX-License-Identifier: Apache-2.0
"""Mutants that a named case of a test program has to find: on real servers, files and processes.

They are built in a copy of the tree, so that nobody who works in the tree notices; one at a time,
so that only what depends on the changed file is built again. The copy and its build stay where they
are, which makes the next time quicker. First each case is run without any mutant, and has to pass.

A case of the command's tests often fails by waiting in vain, which takes 20 s. So the command is
put aside, and the case runs while others are built and run.

A torture has themes instead of cases; any of its oracles may object, and the verdict says which
did.
"""

import concurrent.futures
import filecmp
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from mutant import Verdict

LEFT_OUT = {".git", ".github", "build", "__pycache__"}
OPTIONS = [
    "-DCMAKE_BUILD_TYPE=Debug",
    "-DCMAKE_C_FLAGS_DEBUG=-O1",
    "-DPAWL_WERROR=OFF",
    "-DPAWL_EXAMPLES=OFF",
    "-DPAWL_BENCH=OFF",
    "-DPAWL_APPS=OFF",
]
LIMIT_S = 60  # a case that has not ended by then never will
TORTURE_S = 240
TORTURE_ROUND_S = 20
ASIDE_MAX = 4  # cases of the command's tests at a time
FAILED = re.compile(r"^\[  (?:FAILED|ERROR )  \] (\w.*)$", re.M)  # ERROR: in its teardown, too
PASSED = re.compile(r"^\[  PASSED  \] (\d+) test", re.M)
OBJECTED = re.compile(r"^    (O\d|complaints) .* [1-9]\d*$", re.M)
SKIPPED = 77


def copy_tree(source, target):
    """Make the target like the source; what is the same already keeps its time."""
    os.makedirs(target, exist_ok=True)
    names = set(os.listdir(source)) - LEFT_OUT
    for name in set(os.listdir(target)) - names:
        path = os.path.join(target, name)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.remove(path)
    for name in sorted(names):
        one, other = os.path.join(source, name), os.path.join(target, name)
        if os.path.isdir(one):
            copy_tree(one, other)
        elif not os.path.exists(other) or not filecmp.cmp(one, other, shallow=False):
            shutil.copyfile(one, other)
            shutil.copymode(one, other)


class ToolFailed(SystemExit):
    """Ends the script, unless it is the mutant that cannot be built."""


class Workshop:
    """The copy of the tree, and its build."""

    def __init__(self, root, directory):
        self.tree = os.path.join(directory, "tree")
        self.build = os.path.join(directory, "build")
        copy_tree(root, self.tree)
        compiler = [f"-DCMAKE_C_COMPILER={os.environ['CC']}"] if "CC" in os.environ else []
        places = ["-S", self.tree, "-B", self.build]
        self.run_tool("cmake", *places, "-G", "Ninja", *OPTIONS, *compiler)

    def run_tool(self, *command):
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if run.returncode != 0:
            raise ToolFailed(f"mutants: {' '.join(command[:2])} failed:\n{run.stdout}")

    def make(self, tests):
        # The command's tests use programs that other tests start; each of those has them made.
        targets = {"pawl-command" if is_of_command(test) else test for test in tests}
        if "pawl-command" in targets:
            targets.add("test_program_hold")
        self.run_tool("ninja", "-C", self.build, *sorted(targets))

    def write(self, path, text):
        with open(os.path.join(self.tree, path), "w", encoding="utf-8") as file:
            file.write(text)

    def command(self):
        return os.path.join(self.build, "cli", "pawl")

    def plan(self, test, case, pawl):
        """How to run the case: the command line, and what to add to the environment."""
        programs = os.path.join(self.build, "tests")
        if is_torture(test):
            directory = os.path.join(self.build, "tests", "torture")
            options = ["--seconds", str(TORTURE_S), "--round", str(TORTURE_ROUND_S), "--seed", "1"]
            options += ["--theme", case, "--directory", directory]
            return [os.path.join(programs, test), *options], {}
        if not is_of_command(test):
            preload = os.path.join(programs, "only.so")
            return [os.path.join(programs, test)], {"LD_PRELOAD": preload, "PAWL_TEST_ONLY": case}
        base = os.path.join(self.tree, "tests", "cli", test.removeprefix("cli-"))
        runner = os.path.join(self.tree, "tests", "cli", "runner.py")
        script = [base + ".py"] if os.path.exists(base + ".py") else [runner, base + ".cases"]
        options = ["--pawl", pawl, "--programs", programs, "-k", case]
        return [sys.executable, "-B", *script, *options], {}


def is_of_command(test):
    return test.startswith("cli-")


def is_torture(test):
    return test.startswith("torture-")


def run_case(plan, limit_s=LIMIT_S):
    """(exit status or None if it did not end, what was said, how long it took)"""
    command, more = plan
    environment = {key: value for key, value in os.environ.items() if key != "PAWL_URL"} | more
    begin = time.monotonic()
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment,
        start_new_session=True,
    ) as process:
        try:
            said = process.communicate(timeout=limit_s)[0]
            status = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said = process.communicate()[0]
            status = None
    return status, said, time.monotonic() - begin


def check_sound(workshop, test, case):
    """Whether the case can run here; it must pass as long as nothing is broken."""
    if is_torture(test):
        return True
    status, said, _ = run_case(workshop.plan(test, case, workshop.command()))
    passed = PASSED.search(said)
    if status == SKIPPED or (status == 0 and "[  SKIPPED ]" in said):
        return False
    if status != 0 or not passed or int(passed.group(1)) == 0:
        sys.exit(f"mutants: {test} {case} does not pass without a mutant:\n{said}")
    return True


def judge_torture(test, said, took):
    who = OBJECTED.findall(said)
    by = f"{test}: {', '.join(who)}" if who else f"survived {test}:\n{said}"
    return Verdict(bool(who), by, took)


def judge(mutant, status, said, took):
    who = f"{mutant.test} {mutant.case}"
    if status is None:
        return Verdict(True, f"{who} (never ended)", took)
    if status < 0:
        return Verdict(True, f"{who} (crashed)", took)
    if is_torture(mutant.test):
        return judge_torture(mutant.test, said, took)
    if status != 0 and (is_of_command(mutant.test) or mutant.case in FAILED.findall(said)):
        return Verdict(True, who, took)
    if status != 0:
        return Verdict(False, f"{who} ended with {status}, but not by failing:\n{said}")
    return Verdict(False, f"survived {who}")


def hunt(workshop, mutant, aside, pool):
    """The verdict, or what will have it."""
    text = mutant.apply()
    if text is None:
        return mutant.misfit()
    with open(mutant.file, encoding="utf-8") as file:
        sound = file.read()
    workshop.write(mutant.file, text)
    try:
        workshop.make([mutant.test])
        if not is_of_command(mutant.test):
            plan = workshop.plan(mutant.test, mutant.case, "")
            limit_s = TORTURE_S + LIMIT_S if is_torture(mutant.test) else LIMIT_S
            return judge(mutant, *run_case(plan, limit_s))
        directory = os.path.join(aside, mutant.name)
        os.mkdir(directory)
        pawl = shutil.copy(workshop.command(), directory)
        plan = workshop.plan(mutant.test, mutant.case, pawl)
        return pool.submit(lambda: judge(mutant, *run_case(plan)))
    except ToolFailed as failure:
        return Verdict(False, f"cannot be built: {failure}")
    finally:
        workshop.write(mutant.file, sound)


def hunt_all(mutants, root, directory):
    """(mutant, verdict) of each, in order."""
    workshop = Workshop(root, directory)
    cases = sorted({(mutant.test, mutant.case) for mutant in mutants})
    workshop.make({test for test, _ in cases})
    can_run = {key: check_sound(workshop, *key) for key in cases}
    found = {}
    with tempfile.TemporaryDirectory(prefix="pawl-mutants-") as aside:
        with concurrent.futures.ThreadPoolExecutor(ASIDE_MAX) as pool:
            for mutant in sorted(mutants, key=lambda one: not is_of_command(one.test)):
                if can_run[mutant.test, mutant.case]:
                    found[mutant] = hunt(workshop, mutant, aside, pool)
                else:
                    why = f"{mutant.test} {mutant.case} cannot run here"
                    found[mutant] = Verdict(False, why, skipped=True)
            for mutant in mutants:
                verdict = found[mutant]
                yield mutant, verdict if isinstance(verdict, Verdict) else verdict.result()
