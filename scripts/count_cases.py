#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Count test cases over the stages of scripts/test: count_cases.py DIR STAGE...

DIR holds <stage>.xml, which ctest wrote with --output-junit, or <stage>.broken if the stage could
not be built. A test program's cases are those in its cmocka summaries ("[  PASSED  ] 3 test(s).");
a program without one counts as one case, and one that failed has at least one failed case. Prints
what failed and what was skipped by name, then the line `N passed, N failed`. With CI=true a skipped
case is a failed one.
"""

import os
import re
import sys
import xml.etree.ElementTree

SUMMARY = re.compile(r"\[  (PASSED|FAILED|SKIPPED) *\] (?:[^\n]*?: )?(\d+) test\(s\)")


class Tally:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.notes = []  # what failed or was skipped, by name

    def fail(self, count, note):
        self.failed += count
        self.notes.append("failed:  " + note)

    def skip(self, count, note, skip_is_failure):
        if skip_is_failure:
            self.fail(count, note + " (skipped, which counts as failed where CI=true)")
        else:
            self.skipped += count
            self.notes.append("skipped: " + note)


def count_program(tally, name, case, skip_is_failure):
    """Add one test program, as ctest's <testcase> describes it."""
    counts = {"PASSED": 0, "FAILED": 0, "SKIPPED": 0}
    output = case.findtext("system-out") or ""
    for kind, count in SUMMARY.findall(output):
        counts[kind] += int(count)
    tally.passed += counts["PASSED"]

    status, reason = case.get("status"), case.find("skipped")
    if status == "notrun" and "SKIP_RETURN_CODE" in (reason.get("message") or ""):
        tally.skip(max(1, counts["SKIPPED"]), name, skip_is_failure)
    elif status == "run" and counts["FAILED"] == 0:
        if counts["SKIPPED"] > 0:
            tally.skip(counts["SKIPPED"], name, skip_is_failure)
        elif counts["PASSED"] == 0:
            tally.passed += 1
    elif status != "disabled":
        message = reason.get("message") if reason is not None else None
        tally.fail(max(1, counts["FAILED"]), f"{name} ({message})" if message else name)


def count_stage(tally, directory, stage, skip_is_failure):
    report = os.path.join(directory, stage + ".xml")
    if os.path.exists(os.path.join(directory, stage + ".broken")):
        tally.fail(1, f"{stage}: the build")
    elif not os.path.exists(report):
        tally.fail(1, f"{stage}: ctest left no report")
    else:
        for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
            count_program(tally, f"{stage}: {case.get('name')}", case, skip_is_failure)


def main():
    directory, stages = sys.argv[1], sys.argv[2:]
    tally = Tally()
    for stage in stages:
        count_stage(tally, directory, stage, os.environ.get("CI") == "true")
    if tally.passed + tally.failed + tally.skipped == 0:
        tally.fail(1, "no test was found")
    for note in tally.notes:
        print(note)
    skipped = f", {tally.skipped} skipped" if tally.skipped else ""
    print(f"{tally.passed} passed, {tally.failed} failed{skipped}")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
