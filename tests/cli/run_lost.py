#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`pawl run` when the lock is lost: broken, not renewed in time, or held for too long.

    run_lost.py --pawl FILE --programs DIR [-k WORD]

Cases are functions of a Scene; see scene.py.
"""

import os
import signal
import subprocess
import sys
import time

from scene import DEAF_TREE, READY, SECONDS_MAX, boottime, cases_in, expect, run_all, until

CASES = []
case = cases_in(CASES)


# ===== The lock is lost =====

@case("file", "redis")
def broken_by_an_operator(scene):
    run = scene.shell("--lease", "1.5", "--grace", "0.3", DEAF_TREE)
    scene.break_lock()
    expect(run.status(), 76, "exit status")
    expect(scene.commands(), [], "left running")
    expect("lost" in run.said(), True, f"a sentence: {run.said()}")


@case("file", "redis")
def lost_the_command_may_tidy_up(scene):
    run = scene.shell("--lease", "6", "trap 'echo tidy >tidy; exit 0' TERM;" + READY +
                      "sleep 1000 & wait")
    scene.break_lock()
    expect(run.status(), 76, "exit status")
    expect(os.path.exists(scene.path("tidy")), True, "TERM was heard")
    expect(scene.commands(), [], "left running")


@case("file", "redis")
def lost_and_only_the_release_finds_out(scene):
    if scene.engine == "redis":
        line = 'redis-cli -s "$REDIS_SOCKET" del job >/dev/null'
    else:
        line = 'rm "$CASE_DIR/locks/job.lock"; kill -STOP "$PPID"; kill -CONT "$PPID"'
    run = scene.run("job", "-c", line)
    expect(run.status(), 76, "exit status")
    expect("lost" in run.said(), True, f"a sentence: {run.said()}")


@case("file", "redis")
def lost_and_nobody_reads_what_we_say(scene):
    reader, writer = full_pipe()
    process = subprocess.Popen(
        [scene.pawl, "run", "--lease", "3", "job", "-c", READY + "exec sleep 1000"],
        env=scene.environment, cwd=scene.stage.work, stderr=writer, start_new_session=True)
    os.close(writer)
    scene.await_file("ready")
    scene.break_lock()
    until(lambda: not scene.commands(), "the command has ended")
    with open(reader, "rb") as file:
        said = file.read()
    expect(process.wait(SECONDS_MAX), 76, "exit status")
    expect(b"lost" in said, True, f"a sentence in {said.strip(b'x')}")


def full_pipe():
    """Both ends of a pipe in which no byte has room."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(writer, True)
    return reader, writer


@case("file", "redis")
def keeper_killed_and_nobody_ever_reads_what_we_say(scene):
    reader, writer = full_pipe()
    process = subprocess.Popen(
        [scene.pawl, "run", "--lease", "6", "job", "-c", READY + "exec sleep 1000"],
        env=scene.environment, cwd=scene.stage.work, stderr=writer, start_new_session=True)
    os.close(writer)
    scene.await_file("ready")
    os.kill(int(scene.shown("pid")), signal.SIGKILL)
    until(lambda: not scene.commands(), "the command has ended")
    if scene.engine == "redis":
        expect(scene.redis("exists", "job"), "1", "the key when all has ended")
    expect(process.wait(SECONDS_MAX), 76, "exit status")
    os.close(reader)


@case("file", "redis")
def lost_and_tidying_up_takes_other_programs(scene):
    run = scene.shell("--lease", "8", "--grace", "3.5", "trap 'for i in 1 2 3 4; do sleep 0.05 || "
                      "exit 1; echo $i >>tidy; done; exit 0' TERM;" + READY + "sleep 1000 & wait")
    scene.break_lock()
    expect(run.status(), 76, "exit status")
    with open(scene.path("tidy"), encoding="utf-8") as file:
        expect(file.read().split(), ["1", "2", "3", "4"], "what was tidied up")
    expect(scene.commands(), [], "left running")


def frozen(scene, line, lease):
    """The server stops answering; when the command was gone, after the last sure renewal."""
    run = scene.shell("--lease", str(lease), line)
    frozen_at = scene.freeze()
    until(lambda: not scene.commands(), "the tree is gone")
    gone_at = boottime()
    if gone_at - frozen_at > lease:
        raise AssertionError(f"it ran {gone_at - frozen_at:.2f} s after the server stopped")
    expect(run.status(), 76, "exit status")
    expect("about to be lost" in run.said(), True, f"a sentence: {run.said()}")


@case("redis")
def frozen_server_term_before_the_lease_ends(scene):
    frozen(scene, "trap 'echo >tidy; exit 0' TERM;" + READY + "sleep 1000 & wait", 6)
    expect(os.path.exists(scene.path("tidy")), True, "TERM was heard")


@case("redis")
def frozen_server_kill_before_the_lease_ends(scene):
    frozen(scene, DEAF_TREE, 6)


@case("redis")
def frozen_server_and_a_stopped_front(scene):
    run = scene.shell("--lease", "6", DEAF_TREE)
    run.signal(signal.SIGSTOP)
    frozen_at = scene.freeze()
    # It is woken; should somebody stop it again and again, the keeper acts alone.
    while scene.commands():
        if boottime() - frozen_at > 6:
            raise AssertionError("the command outlived the lease")
        run.signal(signal.SIGSTOP)
        time.sleep(0.002)
    run.signal(signal.SIGCONT)
    expect(run.status(), 76, "exit status")


@case("redis")
def forgetful_server_is_found_out_long_before_the_next_renewal(scene):
    run = scene.shell("--lease", "60", "--grace", "0.3", DEAF_TREE)
    scene.stage.server.kill()
    scene.stage.server.wait()
    scene.stage.start_server()
    back_at = boottime()
    expect(run.status(), 76, "exit status")
    if boottime() - back_at > 12:  # a pause, the grace; the renewal would be due after 20
        raise AssertionError(f"it went on for {boottime() - back_at:.2f} s")
    expect("lost" in run.said(), True, f"a sentence: {run.said()}")
    expect(scene.commands(), [], "left running")


@case("redis")
def short_outages_do_no_harm(scene):
    run = scene.shell("--lease", "6", READY + "until [ -e stop ]; do sleep 0.01; done; exit 4")
    frozen_at = scene.freeze()
    until(lambda: boottime() - frozen_at > 1.5, "a while has passed")
    scene.stage.server.send_signal(signal.SIGCONT)
    before = scene.redis("pttl", "job")
    until(lambda: int(scene.redis("pttl", "job")) > int(before), "the lease was renewed")
    open(scene.path("stop"), "w").close()
    expect(run.status(), 4, "exit status")


def hold_for_long(scene):
    """How many seconds a command that never ends has a lock whose longest hold is 1.5."""
    run = scene.shell("--max-hold", "1.5", DEAF_TREE)
    begin = boottime()

    def has_ended():
        if scene.engine == "redis" and int(scene.redis("pttl", "job")) > 1500:
            raise AssertionError("the server has it for longer than it may be held")
        return not scene.commands()
    until(has_ended, "the command has ended")
    took = boottime() - begin
    expect(run.status(), 76, "exit status")
    expect("longest hold" in run.said(), True, f"a sentence: {run.said()}")
    expect(scene.commands(), [], "left running")
    scene.await_free()
    for name in ("ready", "orphan", "session"):
        os.unlink(scene.path(name))
    return took


@case("file", "redis")
def longest_hold(scene):
    took = []
    while not took or (took[-1] > 3 and len(took) < 4):  # the machine may be busy
        took.append(hold_for_long(scene))
    if took[-1] > 3:
        raise AssertionError(f"it was held for too long, each time: {took}")


if __name__ == "__main__":
    sys.exit(run_all(CASES, __doc__.split("\n")[0]))
