# SPDX-License-Identifier: Apache-2.0
"""A terminal for tests: a tmux server of its own, with one window, on a socket in a temporary
directory. Keys go in, the screen comes out as lines of text.

Without tmux the test program ends with status 77 (skipped). Screens are waited for with a bound; on
failure the last one is shown.
"""

import os
import shutil
import subprocess
import sys
import time

SCREEN_SECONDS_MAX = 30
SKIPPED = 77


class Terminal:
    """A bash in a terminal of that size, in that directory. Leave it by `with`."""

    def __init__(self, directory, environment, columns=80, rows=24):
        if not shutil.which("tmux"):
            print("no tmux; skipped")
            sys.exit(SKIPPED)
        self.socket = os.path.join(directory, "tmux.sock")
        self.environment = dict(environment, TERM="xterm", PS1="$ ", PROMPT_COMMAND="")
        self.rc = os.path.join(directory, "bashrc")
        with open(self.rc, "w", encoding="utf-8") as file:
            # A history would be written at the end, into a directory that is being removed.
            file.write("PS1='$ '\nPROMPT_COMMAND=\nset +o histexpand\nunset HISTFILE\n"
                       f"cd '{directory}'\n")
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows),
                  "bash", "--noprofile", "--rcfile", self.rc, "-i")
        self.await_screen(lambda rows: rows and rows[0].startswith("$"), "a prompt")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.tmux("kill-server", check=False)

    def tmux(self, *arguments, check=True):
        result = subprocess.run(
            ["tmux", "-S", self.socket, *arguments], env=self.environment, capture_output=True,
            text=True)
        if check and result.returncode != 0:
            raise RuntimeError(f"tmux {arguments}: {result.stderr}")
        return result.stdout

    def type(self, text):
        """As it is; Enter is "\\n"."""
        self.tmux("send-keys", "-l", text)

    def press(self, *keys):
        """By the names that tmux has for them: C-c, Enter."""
        self.tmux("send-keys", *keys)

    def run(self, line):
        self.type(line)
        self.press("Enter")

    def resize(self, columns, rows):
        self.tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def screen(self):
        """The lines that are visible, without the empty ones at the end."""
        rows = self.tmux("capture-pane", "-p").split("\n")
        while rows and not rows[-1].strip():
            rows.pop()
        return rows

    def await_screen(self, condition, what):
        """The screen, as soon as the condition holds for its lines."""
        end = time.monotonic() + SCREEN_SECONDS_MAX
        rows = self.screen()
        while not condition(rows):
            if time.monotonic() > end:
                shown = "\n".join("    " + row for row in rows)
                raise AssertionError(f"never on the screen: {what}\n{shown}")
            time.sleep(0.05)
            rows = self.screen()
        return rows

    def await_text(self, text):
        return self.await_screen(lambda rows: any(text in row for row in rows), repr(text))

    def await_prompt(self):
        return self.await_screen(lambda rows: rows[-1:] in (["$"], ["$ "]), "a prompt")

    def clear(self):
        """An empty screen, at the prompt: nothing on it can be taken for what comes next."""
        self.run("clear")
        self.await_screen(lambda rows: rows == ["$"], "an empty screen")

    def await_rest(self, seconds):
        """The screen, when it has not changed for so long."""
        end = time.monotonic() + SCREEN_SECONDS_MAX
        rows, since = self.screen(), time.monotonic()
        while time.monotonic() < since + seconds:
            if time.monotonic() > end:
                raise AssertionError("the screen changes all the time")
            time.sleep(0.05)
            now = self.screen()
            if now != rows:
                rows, since = now, time.monotonic()
        return rows

    def is_alternate(self):
        return self.tmux("display-message", "-p", "#{alternate_on}").strip() == "1"

    def cursor_is_visible(self):
        return self.tmux("display-message", "-p", "#{cursor_flag}").strip() == "1"
