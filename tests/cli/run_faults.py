#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`pawl run` when its own processes, or the command, are killed.

    run_faults.py --pawl FILE --programs DIR [-k WORD]

Cases are functions of a Scene; see scene.py.
"""

import os
import signal
import sys

from scene import (
    DEAF_TREE, READY, TREE, boottime, cases_in, expect, name_of, run_all, runs, scene_waits, until,
)

CASES = []
case = cases_in(CASES)


# ===== The front is killed =====

@case("file", "redis")
def front_killed_the_keeper_ends_the_tree(scene):
    run = scene.shell(TREE)
    until(lambda: len(scene.commands()) >= 5, "the tree is up")
    run.signal(signal.SIGKILL)
    scene.await_free()
    scene.await_gone()


@case("file", "redis")
def front_killed_the_tree_is_deaf(scene):
    run = scene.shell("--grace", "0.3", DEAF_TREE)
    run.signal(signal.SIGKILL)
    scene.await_free()
    scene.await_gone()


@case("file", "redis")
def front_killed_while_waiting(scene):
    holder = scene.shell(READY + "sleep 1000")
    waiter = scene.run("job", "--", "sh", "-c", "echo >never")
    keeper = waiter.keeper()
    until(lambda: scene_waits(scene), "somebody waits")
    waiter.signal(signal.SIGKILL)
    until(lambda: not runs(keeper), "the waiting keeper has ended")
    until(lambda: not scene_waits(scene), "nobody waits")
    holder.signal(signal.SIGTERM)
    expect(holder.status(), 143, "exit status of the holder")
    scene.await_free()
    expect(os.path.exists(scene.path("never")), False, "the waiter's command ran")


# ===== The keeper is killed =====

@case("file")
def keeper_killed_the_lock_is_gone_at_once(scene):
    run = scene.shell("--grace", "0.3", DEAF_TREE)
    os.kill(run.keeper(), signal.SIGKILL)
    expect(run.status(), 76, "exit status")
    expect(scene.commands(), [], "left running")
    expect("is lost" in run.said(), True, f"a sentence: {run.said()}")
    scene.await_free()


@case("redis")
def keeper_killed_the_front_ends_the_tree_before_the_lease(scene):
    run = scene.shell("--lease", "6", DEAF_TREE)
    os.kill(run.keeper(), signal.SIGKILL)
    expect(run.status(), 76, "exit status")
    expect(scene.redis("exists", "job"), "1", "the key when all has ended")
    expect(scene.commands(), [], "left running")
    scene.await_free()


@case("redis")
def keeper_killed_but_the_command_is_quicker(scene):
    run = scene.shell("--lease", "20", READY + "until [ -e stop ]; do sleep 0.01; done; exit 4")
    os.kill(run.keeper(), signal.SIGKILL)
    until(lambda: "was killed" in run.said(), "a sentence")
    open(scene.path("stop"), "w").close()
    expect(run.status(), 4, "exit status")
    expect(scene.redis("exists", "job"), "1", "the key, which nobody could release")


@case("file", "redis")
def keeper_killed_while_waiting(scene):
    holder = scene.shell(READY + "sleep 1000")
    waiter = scene.run("job", "--", "true")
    os.kill(waiter.keeper(), signal.SIGKILL)
    expect(waiter.status(), 71, "exit status")
    holder.signal(signal.SIGTERM)
    expect(holder.status(), 143, "exit status of the holder")


@case("redis")
def keeper_stopped_the_front_ends_the_tree_before_the_lease(scene):
    run = scene.shell("--lease", "6", DEAF_TREE)
    keeper = run.keeper()
    os.kill(keeper, signal.SIGSTOP)
    until(lambda: not scene.commands(), "the tree is gone")
    expect(scene.redis("exists", "job"), "1", "the key when all has ended")
    os.kill(keeper, signal.SIGCONT)
    expect(run.status(), 76, "exit status")
    scene.await_free()


@case("file", "redis")
def keeper_is_deaf_to_what_is_not_meant_for_it(scene):
    run = scene.shell(READY + "until [ -e stop ]; do sleep 0.01; done; exit 4")
    keeper = run.keeper()
    for number in (signal.SIGQUIT, signal.SIGTSTP, signal.SIGUSR1, signal.SIGALRM, signal.SIGPIPE):
        os.kill(keeper, number)
    expect(scene.is_free(), False, "free")
    open(scene.path("stop"), "w").close()
    expect(run.status(), 4, "exit status")


@case("file", "redis")
def who_kills_the_holder_that_is_shown_ends_the_job(scene):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        run = scene.shell("trap 'exit 5' TERM INT HUP;" + READY + "while :; do sleep 0.01; done")
        expect(scene.shown("command"), "sh", "the command of the holder")
        os.kill(int(scene.shown("pid")), number)
        expect(run.status(), 5, f"exit status after {number}")
        scene.await_free()
        os.unlink(scene.path("ready"))


@case("file", "redis")
def who_kills_a_keeper_that_waits_ends_the_waiting(scene):
    holder = scene.shell(READY + "until [ -e stop ]; do sleep 0.01; done; exit 4")
    waiter = scene.run("job", "--", "true")
    until(lambda: scene_waits(scene), "somebody waits")
    os.kill(waiter.keeper(), signal.SIGTERM)
    expect(waiter.status(), 143, "exit status of the waiter")
    open(scene.path("stop"), "w").close()
    expect(holder.status(), 4, "exit status of the holder")


# ===== The server, when the lock is to be released =====

@case("redis")
def release_that_fails_names_the_lock(scene):
    run = scene.shell("--lease", "20", READY + "until [ -e stop ]; do sleep 0.01; done; exit 4")
    scene.stage.server.kill()
    open(scene.path("stop"), "w").close()
    expect(run.status(), 4, "exit status")
    wanted = "pawl run: the lock 'job' could not be released"
    expect(run.said().startswith(wanted), True, f"a sentence: {run.said()}")
    expect("it ends with its lease" in run.said(), True, f"the rest of it: {run.said()}")


@case("redis")
def who_interrupts_does_not_wait_for_a_server_that_is_stopped(scene):
    scene.environment["PAWL_URL"] += "?timeout=10s"
    run = scene.shell("--lease", "30", READY + "exec sleep 1000")
    scene.freeze()
    run.signal(signal.SIGINT)
    begun = boottime()
    expect(run.status(), 130, "exit status")
    expect(boottime() - begun < 4, True, f"soon, and not after {boottime() - begun:.1f} s")
    expect("could not be released" in run.said(), True, f"a sentence: {run.said()}")


# ===== The server, while a permit is waited for =====

def waiters_of_a_server_that_hangs(scene, limits):
    """Runs that wait for a server which was loading its data and now hangs: of a permit, whose
    number nobody has said yet, and of a mutex; each with its limit, and when it began."""
    scene.restart_loading()
    waiters = []
    for limit in limits:
        for kind in ("semaphore:2", "mutex"):
            begun = boottime()
            run = scene.run("-w", str(limit), "--kind", kind, "job", "--", "true")
            waiters.append((kind, run, limit, begun))
    for kind, run, _, _ in waiters:
        until(lambda: "still loading" in run.said(), f"a sentence about the server ({kind})")
    frozen = scene.freeze()
    until(lambda: boottime() > frozen + 0.4, "all have asked it once more")
    return waiters


@case("redis")
def the_time_of_a_wait_for_a_permit_is_kept_though_the_server_hangs(scene):
    scene.environment["PAWL_URL"] += "?timeout=4s"
    late = {"semaphore:2": [], "mutex": []}
    waiting = waiters_of_a_server_that_hangs(scene, (6, 6.4, 6.8))

    def all_have_ended():
        for waiter in [waiter for waiter in waiting if waiter[1].process.poll() is not None]:
            kind, run, limit, begun = waiter
            late[kind].append(round(boottime() - begun - limit, 2))
            expect(run.status(), 69, f"exit status ({kind})")
            waiting.remove(waiter)
        return not waiting
    until(all_have_ended, "all have ended")
    expect(max(late["semaphore:2"]) < 1.5, True, f"not late by {late}")


@case("redis")
def who_interrupts_does_not_wait_for_a_permit_of_a_server_that_hangs(scene):
    scene.environment["PAWL_URL"] += "?timeout=4s"
    took = {"semaphore:2": [], "mutex": []}
    for kind, run, _, _ in waiters_of_a_server_that_hangs(scene, (20, 20)):
        begun = boottime()
        run.signal(signal.SIGINT)
        expect(run.status(), 130, f"exit status ({kind})")
        took[kind].append(round(boottime() - begun, 2))
    for kind, times in took.items():
        expect(min(times) < 0.7, True, f"soon ({kind}), and not after {times}")


# ===== Both, or the command =====

@case("file", "redis")
def both_killed_the_command_ends(scene):
    run = scene.shell("--lease", "1", READY + "exec sleep 1000")
    keeper = run.keeper()
    os.kill(keeper, signal.SIGSTOP)  # it must not help
    run.signal(signal.SIGKILL)
    os.kill(keeper, signal.SIGKILL)
    until(lambda: not scene.commands(), "the command has ended")
    scene.await_free()


@case("file", "redis")
def command_killed(scene):
    run = scene.shell("echo $$ >pid;" + READY + "sleep 1000; true")
    with open(scene.path("pid"), encoding="utf-8") as file:
        os.kill(int(file.read()), signal.SIGKILL)
    expect(run.status(), 137, "exit status")
    # What a signal left behind in the session is ended before the lock is released.
    expect(scene.commands(), [], "left running")
    scene.await_free()


@case("file", "redis")
def daemons_outlive_a_command_that_is_killed(scene):
    run = scene.shell("setsid sleep 1000 & until pgrep -x sleep -s $! >/dev/null; do :; done;" +
                      READY + "kill -KILL $$")
    expect(run.status(), 137, "exit status")
    expect([name_of(pid) for pid in scene.commands()], ["sleep"], "left running")


if __name__ == "__main__":
    sys.exit(run_all(CASES, __doc__.split("\n")[0]))
