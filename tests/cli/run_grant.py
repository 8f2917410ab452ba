#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`pawl run` in the moment in which it is given the lock: the front is slow, stopped, or has no
descriptors left.

    run_grant.py --pawl FILE --programs DIR [-k WORD]

Cases and scenes are those of scene.py. The front is held by ptrace(), because a stop by a
signal would end with a SIGCONT, which takes a ^Z out of the queue.
"""

import contextlib
import ctypes
import os
import resource
import signal
import socket
import struct
import sys

import scene as scenes
from scene import READY, expect, scene_waits, stat_of, until

CASES = []


def case(*engines):
    def register(function):
        CASES.append((function, engines))
        return function
    return register


# ===== A front that does nothing, and a queue that is full =====

@contextlib.contextmanager
def held_still(pid):
    """A process of ours that does nothing, as if it were slow; signals wait for it."""
    seize, interrupt, detach = 0x4206, 0x4207, 17
    libc = ctypes.CDLL(None, use_errno=True)

    def ptrace(request):
        if libc.ptrace(ctypes.c_long(request), ctypes.c_long(pid), None, None) != 0:
            raise OSError(ctypes.get_errno(), "ptrace")
    ptrace(seize)
    ptrace(interrupt)
    os.waitpid(pid, 0)
    yield
    ptrace(detach)


def descriptor_of(pid, number):
    """The same open file as a descriptor of another process."""
    libc = ctypes.CDLL(None, use_errno=True)
    pidfd = os.pidfd_open(pid)
    fd = libc.syscall(ctypes.c_long(438), pidfd, number, 0)  # pidfd_getfd
    os.close(pidfd)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "pidfd_getfd")
    return fd


def fill_link(keeper):
    """Say so much to the front, in the keeper's place, that nothing more has room."""
    holder_word = struct.pack("iiQ", 4, 0, 0) + b"somebody\0"
    for name in os.listdir(f"/proc/{keeper}/fd"):
        if os.readlink(f"/proc/{keeper}/fd/{name}").startswith("socket:"):
            with socket.socket(fileno=descriptor_of(keeper, int(name))) as link:
                if link.type == socket.SOCK_SEQPACKET:
                    try:
                        while True:
                            link.send(holder_word, socket.MSG_DONTWAIT)
                    except BlockingIOError:
                        return
    raise AssertionError("the keeper has no link to the front")


# ===== Cases =====

def start_waiter(scene, *options):
    """A holder that waits for the file "stop", and somebody who waits for it."""
    holder = scene.shell(READY + "until [ -e stop ]; do sleep 0.01; done")
    waiter = scene.run(*options, "job", "-c", "echo >mine; exit 4")
    until(lambda: scene_waits(scene), "somebody waits")
    return holder, waiter


def pass_on(scene, holder, keeper):
    """The holder ends, and the keeper has the lock."""
    open(scene.path("stop"), "w").close()
    expect(holder.status(), 0, "exit status of the holder")
    until(lambda: scene.shown("pid") == str(keeper), "the keeper holds the lock")
    until(lambda: stat_of(keeper)[0] == "S", "it sleeps")


@case("file", "redis")
def stopped_in_the_moment_of_the_grant(scene):
    holder, waiter = start_waiter(scene)
    keeper = waiter.keeper()
    with held_still(waiter.front):
        pass_on(scene, holder, keeper)
        waiter.signal(signal.SIGTSTP)
    # No shell watches its group, so the kernel lets it go on at once.
    expect(waiter.status(), 4, "exit status")
    scene.await_free()


@case("file", "redis")
def the_grant_is_heard_when_the_queue_was_full(scene):
    holder, waiter = start_waiter(scene)
    keeper = waiter.keeper()
    with held_still(waiter.front):
        fill_link(keeper)
        pass_on(scene, holder, keeper)
    expect(waiter.status(), 4, "exit status")
    scene.await_free()


@case("redis")
def no_descriptor_for_the_timer(scene):
    holder, waiter = start_waiter(scene)
    resource.prlimit(waiter.front, resource.RLIMIT_NOFILE, (5, 1024))
    open(scene.path("stop"), "w").close()
    expect(waiter.status(), 71, "exit status")
    expect("timer" in waiter.said(), True, f"a sentence: {waiter.said()}")
    expect(os.path.exists(scene.path("mine")), False, "the command ran, unwatched")
    expect(holder.status(), 0, "exit status of the holder")
    scene.await_free()


if __name__ == "__main__":
    sys.exit(scenes.run_all(CASES, __doc__.split("\n")[0]))
