#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The completions, in the shells that they are for: completion.py --pawl FILE --programs DIR

bash: the file is sourced and its function called as readline would. zsh and fish, where they are
installed: zsh in a terminal (tmux), with Tab pressed; fish by `complete -C`. Every command that
`pawl --help` lists and every option that `pawl COMMAND --help` lists must be offered, so the
completions cannot fall behind.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import traceback

import runner
import tmux

HERE = os.path.dirname(os.path.abspath(__file__))
COMPLETION = os.path.join(HERE, "..", "..", "cli", "completion")

BASH = r"""
source "$1"
COMP_LINE=$2 COMP_POINT=${#2} COMP_TYPE=9 COMP_KEY=9
_pawl pawl 2>&1
printf '%s\n' "${COMPREPLY[@]}"
"""


def help_of(options, *command):
    return subprocess.run(
        [options.pawl, *command, "--help"], capture_output=True, text=True, check=True).stdout


def commands_of(options):
    text = help_of(options).split("Commands:\n")[1].split("\n\n")[0]
    return [row.split()[0] for row in text.split("\n")]


def options_of(options, command):
    """The long options that the help of a command explains, at the beginning of a line."""
    rows = [row for row in help_of(options, command).split("\n") if re.match(r"  -", row)]
    return sorted({word for row in rows for word in re.findall(r"--[a-z][a-z-]+", row[:26])})


def run(stage, *command):
    result = subprocess.run(
        command, cwd=stage.work, env=stage.environment(), capture_output=True, text=True,
        timeout=60)
    return result.stdout


def bash(stage, line):
    out = run(stage, "bash", "-c", BASH, "bash", os.path.join(COMPLETION, "pawl.bash"), line)
    return [row for row in out.split("\n") if row]


def fish(stage, line):
    source = os.path.join(COMPLETION, "pawl.fish")
    script = "source $argv[1]; complete -C $argv[2]"
    out = run(stage, "fish", "--no-config", "-c", script, source, line)
    return [row.split("\t")[0] for row in out.split("\n") if row]


def check_offers(shell, stage, options):
    """What both shells must offer."""
    commands = sorted(commands_of(options))
    assert sorted(shell(stage, "pawl ")) == sorted(commands + ["help"]), shell(stage, "pawl ")
    assert sorted(shell(stage, "pawl help ")) == commands, shell(stage, "pawl help ")
    missing = {"-n", "-w", "-E", "-q", "-c"} - set(shell(stage, "pawl run -"))
    assert not missing, f"{shell.__name__} does not offer {missing} for run"
    assert shell(stage, "pawl do") == ["doctor"], shell(stage, "pawl do")
    for command in commands_of(options):
        offered = shell(stage, f"pawl {command} --")
        missing = set(options_of(options, command)) - set(offered)
        assert not missing, f"{shell.__name__} does not offer {missing} for {command}"
    assert set(shell(stage, "pawl top --sort ")) == {"waiters", "held", "rate", "name"}
    assert shell(stage, "pawl run --kind r") == ["read"], shell(stage, "pawl run --kind r")
    assert sorted(shell(stage, "pawl show --kind ")) == ["latch", "semaphore"]
    assert sorted(shell(stage, "pawl show ")) == ["jobs:1", "jobs:2", "mail"]
    assert shell(stage, "pawl break ma") == ["mail"], shell(stage, "pawl break ma")
    assert shell(stage, "pawl --url file:///nowhere show ma") == []
    assert "true" in shell(stage, "pawl run mail tru"), shell(stage, "pawl run mail tru")
    assert "true" in shell(stage, "pawl run -w 5 mail -- tru")


def held(stage):
    script = runner.PRELUDE + "hold jobs:1 jobs:2 mail $'odd\\nname'"
    subprocess.run(["bash", "-c", script], cwd=stage.work, env=stage.environment(), check=True)


def test_bash(options):
    with runner.Stage("file", options) as stage:
        held(stage)
        check_offers(bash, stage, options)
        # bash cuts words at a colon and an equals sign.
        assert sorted(bash(stage, "pawl show jobs:")) == ["1", "2"], bash(stage, "pawl show jobs:")
        assert bash(stage, "pawl top --sort=w") == ["waiters"], bash(stage, "pawl top --sort=w")
        assert bash(stage, "pawl watch --for ") == []


def test_fish(options):
    if not shutil.which("fish"):
        return False
    with runner.Stage("file", options) as stage:
        held(stage)
        check_offers(fish, stage, options)
        assert sorted(fish(stage, "pawl show jobs:")) == ["jobs:1", "jobs:2"]
    return True


def test_zsh(options):
    if not shutil.which("zsh"):
        return False
    with runner.Stage("file", options) as stage:
        held(stage)
        with tmux.Terminal(stage.directory, stage.environment(), 100, 40) as terminal:
            terminal.run("PS1='%% ' zsh -f")
            terminal.await_screen(lambda rows: rows and rows[-1].startswith("%"), "a prompt of zsh")
            terminal.run(f"fpath=('{COMPLETION}' $fpath); autoload -U compinit; "
                         "compinit -u -D; zstyle ':completion:*' menu no; clear")
            terminal.await_screen(lambda rows: rows and rows[0].strip() == "%", "an empty screen")

            def offered(line, *wanted):
                terminal.press("C-u")
                terminal.press("C-l")
                terminal.type(line + "\t\t")
                for word in wanted:
                    terminal.await_text(word)
                terminal.press("C-u")

            offered("pawl ", "help", *commands_of(options))
            offered("pawl help ", *commands_of(options))
            offered("pawl run -", "-n", "-w", "-E", "-q", "-c")
            for command in commands_of(options):
                offered(f"pawl {command} --", *options_of(options, command))
            offered("pawl top --sort ", "waiters", "held", "rate", "name")
            offered("pawl do", "pawl doctor")
            offered("pawl show j", "jobs:1", "jobs:2")
            offered("pawl break ma", "pawl break mail")
            offered("pawl run mail -- unam", "pawl run mail -- uname")
            offered("pawl run mail unam", "pawl run mail uname")
            offered("pawl run mail -- pawl top --so", "pawl run mail -- pawl top --sort")
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pawl", required=True, type=os.path.abspath)
    parser.add_argument("--programs", required=True, type=os.path.abspath)
    options = parser.parse_args()
    counts = {"PASSED ": 0, "SKIPPED": 0, "FAILED ": 0}
    for test in (test_bash, test_fish, test_zsh):
        try:
            counts["SKIPPED" if test(options) is False else "PASSED "] += 1
        except (AssertionError, RuntimeError, subprocess.SubprocessError):
            print(f"{test.__name__}:\n{traceback.format_exc()}", flush=True)
            counts["FAILED "] += 1
    for word, count in counts.items():
        if count or word == "PASSED ":
            print(f"[  {word} ] {count} test(s).")
    return 1 if counts["FAILED "] else 0


if __name__ == "__main__":
    sys.exit(main())
