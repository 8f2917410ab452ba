#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Locks in files, and results in files, on a disk that has no room.

    full_disk.py --pawl FILE --programs DIR [-k WORD]

The disk is a small tmpfs in a mount namespace of our own, which needs root or user namespaces;
where neither is to be had the test is skipped. One that is full has no space left, or no inodes.
"""

import argparse
import contextlib
import os
import re
import subprocess
import sys
import tempfile

import runner
from scene import expect

INSIDE = "PAWL_FULL_DISK_INSIDE"
OK, UNAVAILABLE, BROKEN_OUTPUT, BUSY = 0, 69, 71, 75
CASES = []


def case(function):
    CASES.append(function)
    return function


class Disk:
    """A small disk with a directory of locks on it."""

    def __init__(self, options, directory):
        self.options = options
        self.directory = directory
        self.locks = os.path.join(directory, "locks")
        self.environment = dict(os.environ, PAWL_URL=f"file://{self.locks}")
        self.processes = []
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,nr_inodes=64,mode=755", "tmpfs",
                        directory], check=True)
        os.mkdir(self.locks)

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()
        subprocess.run(["umount", "--lazy", self.directory], check=True)

    def path(self, name):
        return os.path.join(self.directory, name)

    @contextlib.contextmanager
    def without_space(self):
        with open(self.path("filler"), "wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"x" * 4096)
        yield
        os.unlink(self.path("filler"))

    @contextlib.contextmanager
    def without_inodes(self):
        count = 0
        with contextlib.suppress(OSError):
            while True:
                with open(self.path(f"filler{count}"), "xb"):
                    count += 1
        yield
        for number in range(count):
            os.unlink(self.path(f"filler{number}"))

    def pawl(self, *arguments, status=OK, out=None):
        """What it says: on stdout, unless that goes to a file, and on stderr."""
        done = subprocess.run([self.options.pawl, *arguments], env=self.environment, text=True,
                              stdin=subprocess.DEVNULL, stdout=out or subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=60)
        expect((done.returncode, arguments), (status, arguments), done.stderr)
        return (done.stdout or "") + done.stderr

    def start(self, program, *arguments, **options):
        process = subprocess.Popen([program, *arguments], env=self.environment, text=True,
                                   stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, **options)
        self.processes.append(process)
        return process

    def hold(self, name, word="held"):
        """A process that has called pawl_lock_acquire(), and what it said first."""
        program = os.path.join(self.options.programs, "hold")
        process = self.start(program, name, stdout=subprocess.PIPE)
        expect(process.stdout.readline().split()[:1], [word] if word else [], f"hold {name}")
        return process

    def token(self, name):
        return int(re.search(r"^token +(\d+)$", self.pawl("show", name, status=1), re.M)[1])


def expect_refusal(said, path):
    """It names the file, what is wrong with it and the remedy; and the command was not run."""
    found = re.fullmatch(r"\w[\w ]*: cannot [\w ]+ (/\S+): No space left on device; make room on "
                         r"that disk, or delete files if df -i shows none free\n", said)
    expect(found and found[1], path, f"the sentence {said!r}")


# ===== Locks =====

def names_old_and_new(disk, full):
    """A known name takes no room; a new one is refused, and gets on when there is room."""
    disk.pawl("run", "old", "--", "true")
    token = disk.token("old")
    with full:
        expect(disk.pawl("run", "old", "--", "echo", "ran"), "ran\n", "a known name")
        expect(disk.token("old") > token, True, "tokens grow")
        said = disk.pawl("run", "new", "--", "echo", "ran", status=UNAVAILABLE)
        expect_refusal(said, os.path.join(disk.locks, "new.lock"))
        holder = disk.hold("new", word=None)
        expect(holder.wait(60), 1, "pawl_lock_acquire() on a full disk")
        expect_refusal(holder.stderr.read(), os.path.join(disk.locks, "new.lock"))
        expect(disk.pawl("ls"), "pawl ls: no lock is held\n", "ls")
    expect(disk.pawl("run", "new", "--", "echo", "ran"), "ran\n", "with room again")
    expect(disk.token("new") > 0, True, "it has a token")


@case
def without_space_known_names_go_on(disk):
    names_old_and_new(disk, disk.without_space())


@case
def without_inodes_known_names_go_on(disk):
    names_old_and_new(disk, disk.without_inodes())


def who_holds_and_who_waits(disk, full):
    """The disk fills up while a lock is held and waited for."""
    holder = disk.hold("job")
    waiter = disk.hold("job", word="waiting")
    with full:
        expect(disk.pawl("ls", "--names"), "job\n", "ls")
        disk.pawl("show", "-q", "job")
        said = disk.pawl("run", "-n", "job", "--", "echo", "never", status=BUSY)
        expect("'job' is held by" in said, True, said)
        holder.terminate()
        expect(holder.wait(60), 0, "the holder releases")
        expect(waiter.stdout.readline().split()[:1], ["held"], "the waiter")
        waiter.terminate()
        expect(waiter.wait(60), 0, "the waiter releases")
        expect(disk.pawl("run", "-n", "job", "--", "echo", "free"), "free\n", "it is free")


@case
def without_space_a_lock_is_kept_and_passed_on(disk):
    who_holds_and_who_waits(disk, disk.without_space())


@case
def without_inodes_a_lock_is_kept_and_passed_on(disk):
    who_holds_and_who_waits(disk, disk.without_inodes())


@case
def without_inodes_there_is_no_directory(disk):
    directory = disk.path("others")
    disk.environment["PAWL_URL"] = f"file://{directory}"
    with disk.without_inodes():
        said = disk.pawl("run", "job", "--", "echo", "never", status=UNAVAILABLE)
        expect_refusal(said, directory)
    expect(disk.pawl("run", "job", "--", "echo", "ran"), "ran\n", "with room again")


# ===== Results =====

@case
def results_do_not_fit(disk):
    disk.hold("job")
    for command in (["ls"], ["ls", "--json"], ["ls", "--names"], ["show", "job"],
                    ["show", "--json", "job"], ["doctor"], ["doctor", "--json"]):
        with open(disk.path("out"), "wb") as out, disk.without_space():
            said = disk.pawl(*command, status=BROKEN_OUTPUT, out=out)
            expect(said, f"pawl {command[0]}: writing the result: No space left on device\n",
                   str(command))


@case
def what_is_watched_does_not_fit(disk):
    disk.pawl("run", "job", "--", "true")
    with open(disk.path("out"), "wb") as out, disk.without_space():
        watch = disk.start(disk.options.pawl, "watch", "--json", "--every", "100ms", stdout=out)
        watch.stderr.readline()  # it has begun
        holder = disk.hold("job")
        expect(watch.wait(60), BROKEN_OUTPUT, "the watch")
        expect(watch.stderr.read(),
               "pawl watch: writing the result: No space left on device\n", "its sentence")
        holder.terminate()
        expect(holder.wait(60), 0, "the holder")


# ===== All of them =====

def run_case(function, options):
    with tempfile.TemporaryDirectory(prefix="pawl-full-disk.") as directory:
        disk = Disk(options, directory)
        try:
            function(disk)
        except Exception as error:  # whatever it is, the other cases are run
            print(f"{function.__name__}: {type(error).__name__} {error}", flush=True)
            return False
        finally:
            disk.end()
    return True


def go_inside():
    """Again in a mount namespace of our own; returns if there is none to be had."""
    for options in (["--mount"], ["--mount", "--map-root-user"]):
        probe = ["unshare", *options, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
        with contextlib.suppress(OSError):
            if subprocess.run(probe, capture_output=True).returncode == 0:
                os.environ[INSIDE] = "1"
                os.execvp("unshare", ["unshare", *options, sys.executable, "-B", *sys.argv])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--pawl", required=True, type=os.path.abspath)
    parser.add_argument("--programs", required=True, type=os.path.abspath)
    parser.add_argument("-k", default="", help="only the cases whose name has this")
    options = parser.parse_args()
    if INSIDE not in os.environ:
        go_inside()
        print("no mount namespace is to be had here: skipped")
        return runner.SKIPPED
    results = [run_case(function, options) for function in CASES if options.k in function.__name__]
    print(f"[  PASSED  ] {sum(results)} test(s).")
    if not all(results):
        print(f"[  FAILED  ] {len(results) - sum(results)} test(s).")
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
