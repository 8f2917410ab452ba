# SPDX-License-Identifier: Apache-2.0
"""A mutant: a file of this directory, which names a source file, a piece of its text and what to
put in its place.

    what: A release frees the lock whoever holds it.
    file: src/engine/memory/table.c
    oracle: O1                              (or nothing, or the next line)
    test: promise-p3_tenures a_late_release_does_not_touch_the_next_hold
    --- old
    the text, which stands in the file exactly once
    --- new
    the mistake

With `test:` that test has to find it, and of it that case; without, the simulator has to, by that
oracle if one is named.
"""

import dataclasses
import os
import re
import sys

FORM = re.compile(
    r"what: (?P<what>[^\n]+)\nfile: (?P<file>[^\n]+)\n"
    r"(?:oracle: (?P<oracle>\w+)\n|test: (?P<test>\S+) (?P<case>[^\n]+)\n)?"
    r"--- old\n(?P<old>.*)\n--- new\n(?P<new>.*)\n",
    re.S,
)


class Mutant:
    def __init__(self, path):
        self.name = os.path.basename(path).removesuffix(".txt")
        with open(path, encoding="utf-8") as file:
            match = FORM.fullmatch(file.read())
        if not match:
            sys.exit(f"{path}: see tests/mutants/mutant.py for what it has to look like")
        self.what, self.file = match["what"], match["file"]
        self.oracle, self.test, self.case = match["oracle"], match["test"], match["case"]
        self.old, self.new = match["old"], match["new"]

    def apply(self):
        """The mutated text, or None if the place is not found exactly once."""
        with open(self.file, encoding="utf-8") as file:
            text = file.read()
        return text.replace(self.old, self.new) if text.count(self.old) == 1 else None

    def misfit(self):
        return Verdict(False, f"its text is not found exactly once in {self.file}")


@dataclasses.dataclass
class Verdict:
    killed: bool
    by: str  # who killed it, or why not
    seconds: float = 0
    seed: str = ""
    skipped: bool = False
