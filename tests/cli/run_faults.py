#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`pawl run` under signals, kills and lost locks, without a terminal.

    run_faults.py --pawl FILE --programs DIR [-k WORD]

Every case is a function of a Scene: a backend of its own, and the processes that it starts. The
commands that run under the lock carry a word in their environment, by which all that is left of
them can be found. A case asks two things again and again: what the exit status is, and that the
lock is never free while something of the command still runs. Nothing sleeps for a fixed time;
conditions are waited for with a bound.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import runner

SECONDS_MAX = 20
CASES = []


def case(*engines):
    def register(function):
        CASES.append((function, engines))
        return function
    return register


def until(condition, what, seconds=SECONDS_MAX):
    """Wait for a condition; its value."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"this never came true: {what}")
        time.sleep(0.005)


def boottime():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def expect(actual, expected, what):
    if actual != expected:
        raise AssertionError(f"{what}: {actual!r}, expected {expected!r}")


def stat_of(pid):
    """(state, parent) of a process, or None."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        return fields[0], int(fields[1])
    except (OSError, IndexError):
        return None


def runs(pid):
    stat = stat_of(pid)
    return stat is not None and stat[0] not in "ZX"


def processes():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


class Run:
    """One `pawl run`, with its two processes."""

    def __init__(self, scene, arguments, **options):
        self.scene = scene
        self.out = os.path.join(scene.stage.directory, f"out{len(scene.runs)}")
        self.err = self.out + ".err"
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.process = subprocess.Popen(
                [scene.pawl, "run", *arguments], env=scene.environment, cwd=scene.stage.work,
                stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True, **options)
        self.front = self.process.pid
        scene.runs.append(self)

    def keeper(self):
        """The keeper's process id, as soon as it has its own group."""
        def find():
            for pid in processes():
                stat = stat_of(pid)
                if stat and stat[1] == self.front and name_of(pid) == "pawl":
                    return pid if os.getpgid(pid) == pid else None
            return None
        return until(find, "a keeper")

    def status(self, seconds=SECONDS_MAX):
        """As a shell sees it."""
        code = self.process.wait(seconds)
        return 128 - code if code < 0 else code

    def said(self):
        with open(self.err, encoding="utf-8") as file:
            return file.read()

    def signal(self, number):
        os.kill(self.front, number)


def name_of(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return None


class Scene:
    """The surroundings of one case."""

    def __init__(self, engine, options):
        self.engine = engine
        self.pawl = options.pawl
        self.stage = runner.Stage(engine, options)
        self.word = f"SCENE_{random.getrandbits(48):x}"
        self.runs = []

    def __enter__(self):
        self.stage.__enter__()
        self.environment = dict(self.stage.environment(), SCENE=self.word)
        return self

    def __exit__(self, *_):
        if self.stage.server:
            self.stage.server.send_signal(signal.SIGCONT)
        for run in self.runs:
            if run.process.poll() is None:
                run.process.kill()
                run.process.wait()
        self.kill_all()
        self.stage.__exit__()

    def all(self, variable=b"SCENE="):
        """The processes of this scene that still run, pawl's own among them; or only those that
        have a variable in their environment."""
        found = []
        for pid in processes():
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    entries = file.read().split(b"\0")
            except OSError:
                continue
            if f"SCENE={self.word}".encode() in entries and runs(pid) and any(
                    entry.startswith(variable) for entry in entries):
                found.append(pid)
        return found

    def kill_all(self):
        for pid in self.all():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def commands(self):
        """Those of them that run under a lock."""
        return self.all(b"PAWL_OWNER=")

    def run(self, *arguments, **options):
        return Run(self, arguments, **options)

    def shell(self, *arguments):
        """A run of a shell line, the last argument, that has written "ready"."""
        *options, line = arguments
        run = self.run(*options, "job", "-c", line)
        self.await_file("ready")
        return run

    def path(self, name):
        return os.path.join(self.stage.work, name)

    def await_file(self, name):
        until(lambda: os.path.exists(self.path(name)), f"a file {name}")

    def is_free(self):
        result = subprocess.run([self.pawl, "run", "-nq", "job", "--", "true"],
                                env=dict(self.stage.environment()), capture_output=True)
        return result.returncode == 0

    def await_free(self):
        """Wait until the lock is free; nothing of the command may run then."""
        until(self.is_free, "the lock is free")
        expect([name_of(pid) for pid in self.commands()], [], "running while the lock is free")

    def shown(self, field):
        """What `pawl show` says of the lock; None: nothing."""
        result = subprocess.run([self.pawl, "show", "job"], env=dict(self.stage.environment()),
                                capture_output=True, text=True)
        rows = [row.split(None, 1) for row in result.stdout.splitlines()]
        return dict(row for row in rows if len(row) == 2).get(field)

    def await_gone(self):
        until(lambda: not self.all(), "everything has ended")

    def redis(self, *arguments):
        result = subprocess.run(["redis-cli", "-s", self.stage.socket, *arguments],
                                capture_output=True, text=True, check=True)
        return result.stdout.strip()

    def break_lock(self):
        """As an operator would who has no pawl at hand."""
        if self.engine == "redis":
            self.redis("del", "job")
        else:
            os.unlink(os.path.join(self.stage.directory, "locks", "job.lock"))

    def freeze(self):
        self.stage.server.send_signal(signal.SIGSTOP)
        until(lambda: stat_of(self.stage.server.pid)[0] == "T", "the server is stopped")
        return boottime()


# A command with a child in the foreground, one that was orphaned, and one in its own session. They
# are ready when all are there.
TREE = """
(sleep 1000 & echo $! >orphan)
setsid sh -c 'sleep 1000 & echo $! >session; wait' &
until [ -s orphan ] && [ -s session ]; do sleep 0.01; done
echo >ready
sleep 1000
"""
# The same, deaf to TERM.
DEAF_TREE = "trap '' TERM HUP INT\n" + TREE
READY = "echo >ready; "


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
    run = scene.shell("--lease", "3", DEAF_TREE)
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
    run = scene.shell("--lease", "3", DEAF_TREE)
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


# ===== The lock is lost =====

@case("file", "redis")
def broken_by_an_operator(scene):
    run = scene.shell("--lease", "1.5", "--grace", "0.3", DEAF_TREE)
    scene.break_lock()
    expect(run.status(), 76, "exit status")
    expect(scene.commands(), [], "left running")
    expect("is lost" in run.said(), True, f"a sentence: {run.said()}")


@case("file", "redis")
def lost_the_command_may_tidy_up(scene):
    run = scene.shell("--lease", "1.5", "trap 'echo tidy >tidy; exit 0' TERM;" + READY +
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
        [scene.pawl, "run", "--lease", "1", "job", "-c", READY + "exec sleep 1000"],
        env=scene.environment, cwd=scene.stage.work, stderr=writer, start_new_session=True)
    os.close(writer)
    scene.await_file("ready")
    scene.break_lock()
    until(lambda: not scene.commands(), "the command has ended")
    with open(reader, "rb") as file:
        said = file.read()
    expect(process.wait(SECONDS_MAX), 76, "exit status")
    expect(b"is lost" in said, True, "a sentence")


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
        [scene.pawl, "run", "--lease", "3", "job", "-c", READY + "exec sleep 1000"],
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
    frozen(scene, "trap 'echo >tidy; exit 0' TERM;" + READY + "sleep 1000 & wait", 3)
    expect(os.path.exists(scene.path("tidy")), True, "TERM was heard")


@case("redis")
def frozen_server_kill_before_the_lease_ends(scene):
    frozen(scene, DEAF_TREE, 3)


@case("redis")
def frozen_server_and_a_stopped_front(scene):
    run = scene.shell("--lease", "3", DEAF_TREE)
    run.signal(signal.SIGSTOP)
    frozen_at = scene.freeze()
    # It is woken; should somebody stop it again and again, the keeper acts alone.
    while scene.commands():
        if boottime() - frozen_at > 3:
            raise AssertionError("the command outlived the lease")
        run.signal(signal.SIGSTOP)
        time.sleep(0.002)
    run.signal(signal.SIGCONT)
    expect(run.status(), 76, "exit status")


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


@case("file", "redis")
def longest_hold(scene):
    begin = boottime()
    run = scene.shell("--max-hold", "1.5", DEAF_TREE)
    expect(run.status(), 76, "exit status")
    if boottime() - begin > 1.6:
        raise AssertionError("it was held for too long")
    expect("longest hold" in run.said(), True, f"a sentence: {run.said()}")
    expect(scene.commands(), [], "left running")
    scene.await_free()


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


def scene_waits(scene):
    """Whether somebody waits for the lock, as the backend shows it."""
    if scene.engine == "redis":
        rows = scene.redis("pubsub", "numsub", "redisson_lock__channel:{job}").split("\n")
        return rows[1] != "0"
    info = os.stat(os.path.join(scene.stage.directory, "locks", "job.lock"))
    with open("/proc/locks", encoding="utf-8") as file:
        rows = [row.split() for row in file]
    return any(row[5].endswith(f":{info.st_ino}") and row[6] == "1" for row in rows
               if len(row) == 8)


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


# ===== All of them =====

def run_case(function, engine, options):
    try:
        with Scene(engine, options) as scene:
            try:
                function(scene)
            except BaseException:
                for run in scene.runs:
                    print(f"    pawl said: {run.said()!r}")
                raise
    except Exception as error:  # whatever it is, the other cases are run
        print(f"{function.__name__} [{engine}]: {type(error).__name__} {error}", flush=True)
        return False
    return True


def run_all(cases, description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--pawl", required=True, type=os.path.abspath)
    parser.add_argument("--programs", required=True, type=os.path.abspath)
    parser.add_argument("-k", default="", help="only the cases whose name has this")
    parser.add_argument("-v", action="store_true", help="say what is run, and how long it took")
    options = parser.parse_args()
    has_redis = shutil.which("redis-server") and shutil.which("redis-cli")
    passed = failed = skipped = 0
    for function, engines in cases:
        for engine in engines if options.k in function.__name__ else ():
            begin = time.monotonic()
            if engine == "redis" and not has_redis:
                skipped += 1
            elif run_case(function, engine, options):
                passed += 1
            else:
                failed += 1
            if options.v:
                print(f"{time.monotonic() - begin:6.2f} s  {function.__name__} [{engine}]",
                      flush=True)
    print(f"[  PASSED  ] {passed} test(s).")
    if skipped:
        print(f"[  SKIPPED ] {skipped} test(s).")
    if failed:
        print(f"[  FAILED  ] {failed} test(s).")
    if passed + failed == 0:
        return runner.SKIPPED if skipped else 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(run_all(CASES, __doc__.split("\n")[0]))
