# SPDX-License-Identifier: Apache-2.0
"""Scenes for `pawl run` under faults, without a terminal; for run_faults.py, run_lost.py,
run_signals.py and run_grant.py.

Every case is a function of a Scene: a backend of its own, and the processes that it starts. The
commands that run under the lock carry a word in their environment, by which all that is left of
them can be found. A case asks two things again and again: what the exit status is, and that the
lock is never free while something of the command still runs. Nothing sleeps for a fixed time;
conditions are waited for with a bound.
"""

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import time

import runner

SECONDS_MAX = 40


def cases_in(cases):
    """A decorator that adds a case, with the engines it is for, to a list."""
    def case(*engines):
        def register(function):
            cases.append((function, engines))
            return function
        return register
    return case


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

    @contextlib.contextmanager
    def long_way(self, milliseconds):
        """The URL of the server at the end of a way of so many milliseconds in each direction."""
        program = os.path.join(self.stage.options.programs, "long_way")
        with subprocess.Popen([program, self.stage.socket, str(milliseconds)], text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as way:
            yield way.stdout.readline().strip()

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

    def restart_loading(self):
        """Restart the server with so much data that it says for 20 s that it is still loading."""
        self.redis("eval", "for i = 1, 20000 do redis.call('set', 'k' .. i, i) end", "0")
        self.redis("save")
        self.stage.server.send_signal(signal.SIGKILL)
        self.stage.server.wait()
        command = ["redis-server", "--port", "0", "--unixsocket", self.stage.socket, "--save", "",
                   "--dir", self.stage.directory, "--key-load-delay", "1000",
                   "--loading-process-events-interval-bytes", "1024"]
        self.stage.server = subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        ping = ["redis-cli", "-s", self.stage.socket, "ping"]
        until(lambda: b"LOADING" in subprocess.run(ping, capture_output=True).stdout,
              "the server is loading")

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
