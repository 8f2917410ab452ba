#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`pawl top`, `ls`, `break`, `watch` and `bench` on a real terminal (tmux): what is on the screen,
keys, questions, a resize, ^C, ^Z and fg, and the terminal as it was before after every way out.

terminal.py --pawl FILE --programs DIR
"""

import argparse
import os
import re
import subprocess
import sys
import time
import traceback

import runner
import tmux

LOCKS = 30


class Place:
    """A backend with locks that are held, and a terminal."""

    def __init__(self, options, columns=100, rows=20):
        self.stage = runner.Stage("file", options)
        self.columns, self.rows = columns, rows
        self.holders = []

    def __enter__(self):
        self.stage.__enter__()
        self.terminal = tmux.Terminal(
            self.stage.directory, self.stage.environment(), self.columns, self.rows)
        return self

    def __exit__(self, *_):
        self.let_go()
        self.terminal.__exit__()
        self.stage.__exit__()

    def hold(self, *names):
        for name in names:
            log = open(os.path.join(self.stage.work, f"{time.monotonic_ns()}.log"), "w+b")
            holder = subprocess.Popen(
                [os.path.join(self.stage.options.programs, "hold"), name],
                env=self.stage.environment(), stdout=log, stdin=subprocess.DEVNULL)
            self.holders.append(holder)
            end = time.monotonic() + 20
            while os.path.getsize(log.name) == 0:
                assert time.monotonic() < end, "the holder does not get its lock"
                time.sleep(0.02)
            log.close()

    def let_go(self):
        for holder in self.holders:
            holder.terminate()
            holder.wait()
        self.holders = []

    def start_top(self, line="pawl top --every 300ms"):
        self.terminal.run("stty -a >before; " + line + "; echo \"status $?\"")
        self.terminal.await_text("q quit")
        assert self.terminal.is_alternate(), "not in the alternate buffer"
        assert not self.terminal.cursor_is_visible(), "the cursor is visible"

    def await_rows(self, patterns):
        """Rows of one screen, each as its pattern says. A picture may be caught half drawn."""
        count = max(patterns) + 1
        self.terminal.await_screen(
            lambda rows: len(rows) >= count
            and all(re.match(pattern, rows[i]) for i, pattern in patterns.items()), patterns)

    def check_restored(self, status):
        """The shell's screen is back, and its terminal is as it was."""
        self.terminal.await_text(f"status {status}")
        assert not self.terminal.is_alternate(), "still in the alternate buffer"
        assert self.terminal.cursor_is_visible(), "the cursor is still hidden"
        rows = self.terminal.screen()
        assert rows[0].startswith("$ stty"), f"the shell's screen is not back: {rows}"
        self.terminal.run("stty -a >after; cmp before after && echo same")
        self.terminal.await_screen(lambda rows: "same" in rows, "same")


def test_locks_come_and_go(options):
    with Place(options) as place:
        place.hold("jobs")
        place.start_top()
        place.await_rows({
            0: r"pawl top  \d\d:\d\d:\d\d  every 300ms  file://",
            1: r"1 held",
            4: r"NAME +HOLDER +HELD +LEFT +WAITERS +RATE/s +~HOLD +~WAIT",
            5: r"jobs +\S+:\d+ hold +>\d+\.\d+s +-",
            -1: r"q quit"})
        place.hold("mail")
        place.terminal.await_text("2 held")
        place.let_go()
        place.terminal.await_text("0 held")
        place.terminal.type("q")
        place.check_restored(0)


def test_every_order(options):
    with Place(options) as place:
        place.hold("b", "a")
        place.start_top()
        for order in ("held", "rate", "name", "waiters"):
            place.terminal.type("s")
            place.terminal.await_text("s order: " + order)
        place.terminal.type("sss")
        place.terminal.await_screen(
            lambda rows: [row[:2] for row in rows[5:7]] == ["a ", "b "], "a before b")
        place.terminal.type("q")
        place.check_restored(0)


def test_pause(options):
    with Place(options) as place:
        place.hold("jobs")
        place.start_top()
        place.terminal.await_text("1 held")
        place.terminal.type("p")
        place.terminal.await_text("PAUSED")
        before = place.terminal.await_rest(0.5)
        place.hold("mail")
        time.sleep(1)  # three pictures' time, in which nothing may happen
        assert place.terminal.screen() == before, "a paused picture has changed"
        place.terminal.type("p")
        place.terminal.await_text("2 held")
        place.terminal.type("q")
        place.check_restored(0)


def test_interrupt(options):
    with Place(options) as place:
        place.start_top()
        place.terminal.press("C-c")
        # bash does not go on with the line after ^C; $? is asked for in another one.
        place.terminal.await_prompt()
        place.terminal.run('echo "status $?"')
        place.check_restored(130)


def test_kill(options):
    for number, status in (("TERM", 143), ("HUP", 129), ("QUIT", 131), ("ABRT", 134)):
        with Place(options) as place:
            place.start_top("bash -c 'ulimit -c 0; echo $$ >pid; exec pawl top --every 300ms'")
            with open(os.path.join(place.stage.directory, "pid"), encoding="utf-8") as file:
                pid = file.read().strip()
            subprocess.run(["kill", "-" + number, pid], check=True)
            place.check_restored(status)


def test_stop_and_go_on(options):
    with Place(options) as place:
        place.hold("jobs")
        place.start_top()
        for _ in range(2):
            place.terminal.press("C-z")
            place.terminal.await_text("Stopped")
            assert not place.terminal.is_alternate(), "stopped in the alternate buffer"
            assert place.terminal.cursor_is_visible(), "stopped without a cursor"
            place.terminal.run("echo typed | tr a-z A-Z")
            place.terminal.await_text("TYPED")
            place.terminal.run("clear; fg")
            place.terminal.await_text("q quit")
            place.terminal.await_text("1 held")
            assert place.terminal.is_alternate(), "not in the alternate buffer again"
        place.terminal.type("q")
        place.terminal.await_prompt()
        place.terminal.run("clear; stty -a >after; cmp before after && echo same")
        place.terminal.await_screen(lambda rows: "same" in rows, "same")


def test_resize(options):
    with Place(options) as place:
        place.hold(*(f"lock-{number:02}-" + "x" * 50 for number in range(LOCKS)))
        place.start_top("pawl top --every 10m --sort name")
        place.terminal.await_text("16 more locks")
        for columns, rows in ((60, 12), (120, 40), (30, 8), (100, 20)):
            place.terminal.resize(columns, rows)
            left_out = max(0, LOCKS - max(1, rows - 6))
            wanted = f"{left_out} more locks" if left_out else "q quit"
            place.terminal.await_screen(
                lambda screen: any(wanted in row for row in screen)
                and screen[0].startswith("pawl top")
                and all(len(row) <= columns for row in screen), f"{columns} columns: {wanted}")
        for columns, rows in ((20, 5), (5, 1), (100, 20)):
            place.terminal.resize(columns, rows)
            place.terminal.await_screen(
                lambda screen: screen and screen[0].startswith("pawl top"[: columns - 3])
                and len(screen) == min(rows, 20), "the first lines")
        place.terminal.type("q")
        place.terminal.await_text("status 0")


def test_count(options):
    with Place(options) as place:
        place.terminal.run("stty -a >before; pawl top --every 300ms --count 3; echo \"status $?\"")
        place.check_restored(0)


def test_a_table_fits_the_terminal(options):
    with Place(options, columns=60, rows=20) as place:
        place.hold("a" * 100, "東京" * 30)
        place.terminal.run("clear; pawl ls")
        rows = place.terminal.await_screen(
            lambda rows: len(rows) >= 4 and rows[-1] == "$", "a table of two rows")
        assert rows[0].startswith("NAME") and len(rows) == 4, rows
        assert re.match(r"a+\.\.\. ", rows[1]) and re.match("[東京]+\\.\\.\\. ", rows[2]), rows
        place.terminal.run("clear; pawl ls | cat")
        place.terminal.await_text("a" * 60)


QUESTION = "Take the lock away? [y/N]"


def ask_to_break(place):
    place.terminal.clear()
    place.terminal.run("pawl break jobs; echo \"status $?\"")
    rows = place.terminal.await_text(QUESTION)
    for label in ("name      jobs", "pid ", "command   hold", "owner "):
        assert any(row.strip().startswith(label) for row in rows), f"no {label} in {rows}"


def test_break_asks(options):
    with Place(options) as place:
        place.hold("jobs")
        for answer in ("", "n", "what?", "yesterday"):
            ask_to_break(place)
            place.terminal.run(answer)
            place.terminal.await_text("nothing was done")
            place.terminal.await_text("status 1")
        ask_to_break(place)
        place.terminal.press("C-d")
        place.terminal.await_text("status 1")
        ask_to_break(place)
        place.terminal.press("C-c")
        place.terminal.await_prompt()
        place.terminal.run("clear; pawl show -q jobs && echo still held")
        place.terminal.await_text("still held")
        ask_to_break(place)
        place.terminal.run("yes")
        place.terminal.await_text("'jobs' was taken away; it was held by")
        place.terminal.await_text("status 0")


def test_break_asks_again_if_the_holder_has_changed(options):
    with Place(options) as place:
        place.hold("jobs")
        ask_to_break(place)
        place.let_go()
        place.hold("jobs")
        place.terminal.run("y")
        place.terminal.await_text("meanwhile the holder has changed")
        place.terminal.await_screen(
            lambda rows: sum(QUESTION in row for row in rows) == 2, "the question once more")
        place.let_go()
        place.terminal.run("y")
        place.terminal.await_text("'jobs' is not held; nothing was done")
        place.terminal.await_text("status 1")


def test_watch_ends_on_interrupt(options):
    with Place(options) as place:
        place.terminal.run("clear; pawl watch --every 100ms")
        place.terminal.await_text("pawl watch: ")
        place.hold("jobs")
        place.terminal.await_text("acquired")
        place.terminal.press("C-c")
        rows = place.terminal.await_prompt()
        assert sum("pawl watch" in row for row in rows) <= 3, f"it is not quiet: {rows}"
        place.terminal.run("status=$?; clear; echo \"status $status\"")
        place.terminal.await_text("status 130")


def test_bench_shows_that_it_is_at_it_and_ends_on_interrupt(options):
    with Place(options) as place:
        place.terminal.run("clear; pawl bench --seconds 60")
        place.terminal.await_text("others will notice")
        place.terminal.await_screen(
            lambda rows: re.search(r"one thread: \d+ s to go", " ".join(rows)), "progress")
        place.terminal.press("C-c")
        place.terminal.await_text("interrupted; all locks are released")
        place.terminal.await_prompt()
        place.terminal.run("status=$?; clear; echo \"status $status\"; ls locks | wc -l")
        place.terminal.await_screen(lambda rows: rows[:2] == ["status 130", "0"], "nothing left")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pawl", required=True, type=os.path.abspath)
    parser.add_argument("--programs", required=True, type=os.path.abspath)
    parser.add_argument("-k", default="", help="only the tests whose name has this")
    options = parser.parse_args()
    passed = failed = 0
    for name, test in list(globals().items()):
        if not name.startswith("test_") or options.k not in name:
            continue
        try:
            test(options)
            passed += 1
        except Exception:  # whatever it is, the other tests are run
            print(f"{name}:\n{traceback.format_exc()}", flush=True)
            failed += 1
    print(f"[  PASSED  ] {passed} test(s).")
    if failed:
        print(f"[  FAILED  ] {failed} test(s).")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
