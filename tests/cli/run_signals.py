#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`pawl run` under signals, and with children of its own; without a terminal.

    run_signals.py --pawl FILE --programs DIR [-k WORD]

Cases are functions of a Scene; see scene.py.
"""

import glob
import os
import signal
import subprocess
import sys

from scene import (
    READY, SECONDS_MAX, cases_in, expect, name_of, run_all, runs, scene_waits, stat_of, until,
)

CASES = []
case = cases_in(CASES)


# ===== Signals =====

@case("file", "redis")
def term_is_sent_on(scene):
    run = scene.shell("trap 'exit 5' TERM;" + READY + "while :; do sleep 0.01; done")
    run.signal(signal.SIGTERM)
    expect(run.status(), 5, "exit status")
    scene.await_free()


@case("file", "redis")
def signals_end_the_command(scene):
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1):
        run = scene.run("job", "--", "sh", "-c", READY + "exec sleep 1000")
        scene.await_file("ready")
        until(lambda: "sleep" in map(name_of, scene.commands()), "the command runs")
        run.signal(number)
        expect(run.status(), 128 + number, f"exit status after {number}")
        os.unlink(scene.path("ready"))


@case("file")
def a_signal_to_the_whole_group_comes_once(scene):
    run = scene.shell("n=0; trap 'n=$((n+1)); echo $n >count' TERM;" + READY +
                      "until [ -e stop ]; do sleep 0.01; done")
    os.killpg(run.front, signal.SIGTERM)
    scene.await_file("count")
    run.signal(signal.SIGUSR2)  # comes after whatever else was sent on
    expect(run.status(), 128 + signal.SIGUSR2, "exit status")
    with open(scene.path("count"), encoding="utf-8") as file:
        expect(file.read(), "1\n", "signals received")


@case("file")
def what_the_command_sends_is_not_sent_back(scene):
    # The second signal comes from outside: when it is back, so would the first be.
    run = scene.shell("trap 'echo >back' USR1; trap 'exit 6' USR2; kill -USR1 $PPID;" + READY +
                      "while :; do sleep 0.01; done")
    run.signal(signal.SIGUSR2)
    expect(run.status(), 6, "exit status")
    expect(os.path.exists(scene.path("back")), False, "it came back")


@case("file", "redis")
def ignored_signals_stay_ignored(scene):
    run = scene.run("job", "-c", READY + "until [ -e stop ]; do sleep 0.01; done; exit 4",
                    preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    scene.await_file("ready")
    shell = [pid for pid in scene.commands() if stat_of(pid) and stat_of(pid)[1] == run.front][0]
    for pid in (run.front, shell):
        os.kill(pid, signal.SIGHUP)
    expect(scene.is_free(), False, "free")
    open(scene.path("stop"), "w").close()
    expect(run.status(), 4, "exit status")


@case("file", "redis")
def ignored_signals_do_not_end_the_waiting(scene):
    holder = scene.shell(READY + "until [ -e stop ]; do sleep 0.01; done")
    waiter = scene.run("job", "-c", "exit 4",
                       preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    until(lambda: scene_waits(scene), "somebody waits")
    waiter.signal(signal.SIGHUP)
    open(scene.path("stop"), "w").close()
    expect(holder.status(), 0, "exit status of the holder")
    expect(waiter.status(), 4, "exit status of the waiter")


@case("file")
def the_command_has_the_callers_signals(scene):
    def show(pid):
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            return [row for row in file.read().split("\n") if row.startswith(("SigBlk", "SigIgn"))]

    def prepare():
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGALRM})
    plain = subprocess.Popen(["sleep", "1000"], preexec_fn=prepare)
    until(lambda: name_of(plain.pid) == "sleep", "a process to compare with")
    run = scene.run("job", "--", "sleep", "1000", preexec_fn=prepare)
    command = until(lambda: [pid for pid in scene.commands() if name_of(pid) == "sleep"],
                    "the command")[0]
    wanted, found = show(plain.pid), show(command)
    plain.kill()
    plain.wait()
    expect(found, wanted, "signals of the command")
    run.signal(signal.SIGTERM)
    expect(run.status(), 143, "exit status, although children are ignored")


@case("file", "redis")
def interrupted_while_waiting_leaves_no_trace(scene):
    holder = scene.shell(READY + "sleep 1000")
    keys = sorted(scene.redis("keys", "*").split("\n")) if scene.engine == "redis" else None
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        waiter = scene.run("job", "--", "sh", "-c", "echo >never")
        until(lambda: scene_waits(scene), "somebody waits")
        waiter.signal(number)
        expect(waiter.process.wait(SECONDS_MAX), -number, "how it ended")
        expect(scene_waits(scene), False, "somebody waits")
    if keys is not None:
        expect(sorted(scene.redis("keys", "*").split("\n")), keys, "keys")
    holder.signal(signal.SIGTERM)
    expect(holder.status(), 143, "exit status of the holder")
    scene.await_free()
    expect(os.path.exists(scene.path("never")), False, "a waiter's command ran")


@case("file", "redis")
def stopped_and_continued_without_a_terminal(scene):
    run = scene.shell(READY + "until [ -e stop ]; do sleep 0.01; done; exit 4")
    run.signal(signal.SIGTSTP)
    shell = [pid for pid in scene.commands() if stat_of(pid) and stat_of(pid)[1] == run.front][0]
    until(lambda: stat_of(shell)[0] == "T", "the command is stopped")
    expect(scene.is_free(), False, "free")
    open(scene.path("stop"), "w").close()
    run.signal(signal.SIGCONT)
    expect(run.status(), 4, "exit status")


@case("file")
def an_end_just_after_a_stop_is_seen(scene):
    # The command ends after the front has seen that it goes on, and before it has noted that.
    sanitizer = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
    scene.environment.update(LD_PRELOAD=os.path.join(scene.stage.options.programs, "late_look.so"),
                             ASAN_OPTIONS=sanitizer)
    run = scene.run("job", "-c", "kill -STOP $$; until [ -e looked ]; do sleep 0.01; done; exit 4")
    shell = until(lambda: [pid for pid in scene.commands() if stat_of(pid)[0] == "T"],
                  "the command is stopped")[0]
    os.kill(shell, signal.SIGCONT)
    expect(run.status(), 4, "exit status")
    scene.await_free()


# ===== What is left =====

@case("file")
def nobody_waits_when_a_run_that_waited_has_ended(scene):
    for number in range(5):
        holder = scene.shell(READY + f"until [ -e stop{number} ]; do sleep 0.01; done")
        waiter = scene.run("job", "--", "true")
        until(lambda: scene_waits(scene), "somebody waits")
        open(scene.path(f"stop{number}"), "w").close()
        expect(waiter.status(), 0, "exit status")
        expect(scene_waits(scene), False, "somebody waits when the last has ended")
        expect(holder.status(), 0, "exit status of the holder")
        os.unlink(scene.path("ready"))


@case("file")
def nothing_in_the_directory_stays_open(scene):
    directory = scene.path("locks")
    for _ in range(5):
        ended = subprocess.run([scene.pawl, "--url", f"file://{directory}", "run", "job", "--",
                                "true"], env=scene.environment, capture_output=True, text=True)
        expect((open_in(directory), ended.returncode, ended.stderr), ([], 0, ""), "after the run")


def open_in(directory):
    """What any process has open there."""
    found = []
    for path in glob.glob("/proc/[0-9]*/fd/*") + glob.glob("/proc/[0-9]*/cwd"):
        try:
            target = os.readlink(path)
        except OSError:
            continue
        if target.startswith(directory):
            found.append((path, target))
    return found


@case("file")
def the_directory_can_be_unmounted_at_once(scene):
    line = ("mount -t tmpfs none . && cd . || exit 77;"
            f"{scene.pawl} --url file://$PWD run job -- true 2>said && cd / && umount $OLDPWD")
    for _ in range(5):
        ended = subprocess.run(["unshare", "-rm", "sh", "-c", line], cwd=scene.stage.work,
                               env=scene.environment, capture_output=True, text=True)
        if ended.returncode in (1, 77) and "umount" not in ended.stderr:
            print("    not allowed to mount: " + ended.stderr.strip())
            return
        expect((ended.returncode, ended.stderr), (0, ""), "umount after the run")


# ===== Children =====

@case("file")
def orphans_are_reaped(scene):
    run = scene.shell("for i in 1 2 3; do (sleep 0.01 & echo $! >>orphans); done;" + READY +
                      "until [ -e stop ]; do sleep 0.01; done")
    with open(scene.path("orphans"), encoding="utf-8") as file:
        orphans = [int(row) for row in file]
    until(lambda: not any(map(stat_of, orphans)), "they are gone, and no zombies")
    open(scene.path("stop"), "w").close()
    expect(run.status(), 0, "exit status")


@case("file")
def children_that_were_there_before_are_left_alone(scene):
    environment = dict(scene.environment, SCENE="")
    process = subprocess.Popen(
        ["sh", "-c", f"sleep 1000 & echo $! >older; exec {scene.pawl} run --grace 0.3 job -c "
         f"'{READY} sleep 1000'"], cwd=scene.stage.work, env=environment,
        stderr=subprocess.DEVNULL, start_new_session=True)
    scene.await_file("ready")
    with open(scene.path("older"), encoding="utf-8") as file:
        older = int(file.read())
    scene.break_lock()
    expect(process.wait(SECONDS_MAX), 76, "exit status")
    alive = runs(older)
    os.kill(older, signal.SIGKILL)
    expect(alive, True, "the older child runs")


if __name__ == "__main__":
    sys.exit(run_all(CASES, __doc__.split("\n")[0]))
