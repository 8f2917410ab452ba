#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`pawl run` as a job of an interactive shell, on a real terminal (tmux): ^Z and fg, ^C, pagers,
editors, a resize, a terminal that is closed; and what it says while it waits.

    run_terminal.py --pawl FILE --programs DIR [-k WORD]

Cases and scenes are those of scene.py, with a terminal beside them.
"""

import os
import re
import select
import shutil
import signal
import socket
import sys

import scene as scenes
import tmux
from scene import READY, boottime, expect, name_of, stat_of, until

CASES = []


def case(*engines):
    """A case that gets a terminal, too."""
    def register(function):
        def play(scene):
            with tmux.Terminal(scene.stage.directory, scene.environment, columns=100) as terminal:
                terminal.run(f"cd {scene.stage.work}")
                terminal.clear()
                function(scene, terminal)
        play.__name__ = function.__name__
        CASES.append((play, engines))
        return function
    return register


def await_status(terminal, status):
    """The last job's exit status, asked of the shell."""
    terminal.await_prompt()
    terminal.run("echo status=$?")
    terminal.await_text(f"status={status}")


def await_line(terminal, text):
    """A whole line: not the one in which it was typed."""
    terminal.await_screen(lambda rows: text in (row.rstrip() for row in rows), f"a line {text!r}")


def front_of(scene):
    """The front and its command, when both are there."""
    def find():
        for pid in scene.commands():
            stat = stat_of(pid)
            if stat and name_of(stat[1]) == "pawl":
                return stat[1], pid
        return None
    return until(find, "a command under pawl")


def continue_job(terminal, command):
    """What is typed afterwards is for the command: the shell has left the terminal to it."""
    terminal.run("fg")
    until(lambda: stat_of(command)[0] != "T", "the command goes on")


# ===== ^Z =====
#
# The commands here do not fork while they are stopped: a shell whose vfork()ed child is stopped
# cannot be stopped itself, with pawl or without.

@case("file", "redis")
def stop_keeps_the_lock_and_fg_goes_on(scene, terminal):
    terminal.run("pawl run --lease 3 job -- sh -c 'echo up; read x; echo got $x; exit 4'")
    await_line(terminal, "up")
    front, command = front_of(scene)
    terminal.press("C-z")
    terminal.await_text("Stopped")
    expect([stat_of(front)[0], stat_of(command)[0]], ["T", "T"], "states")
    begin = boottime()
    until(lambda: boottime() - begin > 3.5, "the lease would be over")
    expect(scene.is_free(), False, "free")
    continue_job(terminal, command)
    terminal.run("hello")
    await_line(terminal, "got hello")
    await_status(terminal, 4)
    scene.await_free()


@case("file")
def a_command_that_stops_itself_stops_the_job(scene, terminal):
    terminal.run("pawl run job -- sh -c 'kill -STOP $$; echo back; exit 4'")
    terminal.await_text("Stopped")
    terminal.run("fg")
    await_line(terminal, "back")
    await_status(terminal, 4)


@case("file")
def continuing_the_front_alone_continues_the_command(scene, terminal):
    os.mkfifo(scene.path("go"))
    terminal.run("pawl run job -- cat go")
    front, command = front_of(scene)
    until(lambda: name_of(command) == "cat", "the command runs")
    terminal.press("C-z")
    terminal.await_text("Stopped")
    os.kill(front, signal.SIGCONT)
    with open(scene.path("go"), "w", encoding="utf-8") as file:
        file.write("gone\n")
    until(lambda: not scene.commands(), "the command has ended")
    scene.await_free()


@case("redis")
def lost_while_stopped(scene, terminal):
    terminal.run("pawl run --lease 1 job -- sh -c 'trap \"\" TERM; echo up; exec sleep 1000'")
    await_line(terminal, "up")
    terminal.press("C-z")
    terminal.await_text("Stopped")
    scene.break_lock()
    until(lambda: not scene.commands(), "the stopped command has ended")
    terminal.run("wait %1; echo status=$?")
    terminal.await_text("status=76")


@case("file", "redis")
def stopped_while_waiting_it_is_not_given_the_lock(scene, terminal):
    holder = scene.shell(READY + "until [ -e stop ]; do sleep 0.01; done")
    terminal.run("pawl run job -- sh -c 'echo mine; exit 4'")
    until(lambda: scenes.scene_waits(scene), "it waits")
    terminal.press("C-z")
    terminal.await_text("Stopped")
    until(lambda: not scenes.scene_waits(scene), "it does not wait")
    open(scene.path("stop"), "w").close()
    expect(holder.status(), 0, "exit status of the holder")
    expect(scene.is_free(), True, "free")
    terminal.run("fg")
    await_line(terminal, "mine")
    await_status(terminal, 4)


@case("file")
def reading_in_the_background_stops_the_job(scene, terminal):
    terminal.run("pawl run job -- sh -c 'read x; echo got $x' &")
    front, command = front_of(scene)
    until(lambda: [stat_of(front)[0], stat_of(command)[0]] == ["T", "T"], "both are stopped")
    continue_job(terminal, command)
    terminal.run("hello")
    await_line(terminal, "got hello")


# ===== ^C =====

# Counts a signal. The front is stopped when it comes: what it sends on comes late, and counts. The
# shell around it keeps bash from seeing that it is stopped.
COUNTER = ("sh -c 'trap : %s; pawl run job -- bash ./counter'",
           "trap 'echo; echo seen; ((++n))' %s; echo up\n"
           "until [ -e stop ]; do sleep 0.01; done; stty size; echo n=$n\n")


def start_counter(scene, terminal, number):
    """The front, stopped."""
    with open(scene.path("counter"), "w", encoding="utf-8") as file:
        file.write(COUNTER[1] % number)
    terminal.run(COUNTER[0] % number)
    await_line(terminal, "up")
    front, _ = front_of(scene)
    os.kill(front, signal.SIGSTOP)
    until(lambda: stat_of(front)[0] == "T", "the front is stopped")
    return front


def end_counter(scene, terminal, front):
    await_line(terminal, "seen")
    os.kill(front, signal.SIGCONT)
    until(lambda: stat_of(front)[0] != "T" and pending_signals(front) == 0, "the front has seen it")
    until(lambda: stat_of(front)[0] == "S", "the front sleeps")
    open(scene.path("stop"), "w").close()
    await_line(terminal, "n=1")


@case("file", "redis")
def interrupt_reaches_the_command_once(scene, terminal):
    front = start_counter(scene, terminal, "INT")
    terminal.press("C-c")
    end_counter(scene, terminal, front)


def pending_signals(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return int(re.search(r"^ShdPnd:\s*([0-9a-f]+)", file.read(), re.M).group(1), 16)


@case("file", "redis")
def interrupt_ends_command_and_loop(scene, terminal):
    terminal.run("for i in 1 2; do echo turn=$i; pawl run job -- sleep 1000; done")
    terminal.await_text("turn=1")
    front_of(scene)
    terminal.press("C-c")
    await_status(terminal, 130)
    expect(any("turn=2" in row for row in terminal.screen()), False, "the loop went on")
    scene.await_free()


@case("file", "redis")
def interrupt_while_waiting(scene, terminal):
    holder = scene.shell(READY + "sleep 1000")
    terminal.run("pawl run job -- echo never")
    terminal.await_text("is held by")
    terminal.press("C-c")
    await_status(terminal, 130)
    rows = terminal.screen()
    expect([row for row in rows if "is held by" in row], [], f"the line is still there: {rows}")
    expect(scenes.scene_waits(scene), False, "somebody waits")
    holder.signal(signal.SIGTERM)
    expect(holder.status(), 143, "exit status of the holder")


# ===== While servers hang =====

def hang(scene, count):
    """Sockets that nobody accepts from, and their URLs for --redlock."""
    sockets = []
    for i in range(count):
        sockets.append(socket.socket(socket.AF_UNIX))
        sockets[i].bind(scene.path(f"{i}.sock"))
        sockets[i].listen()
    return sockets, ",".join(
        f"redis+unix://{scene.path(f'{i}.sock')}?timeout=60s&connect_timeout=60s"
        for i in range(count))


@case("file")
def stopped_and_interrupted_before_the_servers_answer(scene, terminal):
    sockets, urls = hang(scene, 3)
    terminal.run(f"pawl run --redlock '{urls}' job -- echo never")
    until(lambda: len(select.select(sockets, [], [], 0)[0]) == 3, "all are asked")
    terminal.press("C-z")
    terminal.await_text("Stopped")
    terminal.clear()
    terminal.run("fg")
    terminal.await_text("pawl run")
    terminal.press("C-c")
    await_status(terminal, 130)
    until(lambda: all(name_of(pid) != "pawl" for pid in scene.all()), "the keeper has ended")
    for one in sockets:
        one.close()


# ===== What it says =====

@case("file", "redis")
def says_who_holds_it(scene, terminal):
    holder = scene.shell("--lease", "20", READY + "until [ -e stop ]; do sleep 0.01; done")
    terminal.run("pawl run -w 1m job -- echo mine")
    rows = terminal.await_text("giving up in")
    line = [row for row in rows if "is held by" in row][0]
    expected = rf"pawl run: 'job' is held by {re.escape(socket.gethostname())} pid " \
               rf"{holder.keeper()} \(sh\)"
    if scene.engine == "redis":
        expected += r", for (1[0-9]|20)s unless renewed"
    expected += r"; giving up in [45][0-9]s"
    if not re.fullmatch(expected, line.rstrip()):
        raise AssertionError(f"it says {line!r}, expected {expected!r}")
    open(scene.path("stop"), "w").close()
    await_line(terminal, "mine")
    expect(any("is held by" in row for row in terminal.screen()), False, "the line is still there")


@case("redis")
def the_queue_is_that_of_the_others(scene, terminal):
    scene.shell("--kind", "fair", READY + "until [ -e stop ]; do sleep 0.01; done")
    terminal.run("clear; pawl run -w 1m --kind fair job -- echo mine")
    queued = lambda count: scene.redis("LLEN", "redisson_lock_queue:{job}") == str(count)
    until(lambda: queued(1), "it stands in the queue")
    line = [row for row in terminal.await_text("giving up in 58s") if "is held by" in row][0]
    expect("queue" in line, False, f"others in {line!r}")
    scene.run("--kind", "fair", "job", "--", "true")
    terminal.await_text("; 1 other in its queue; giving up in")
    open(scene.path("stop"), "w").close()
    await_line(terminal, "mine")


@case("redis")
def says_that_it_waits_for_the_server(scene, terminal):
    scene.shell(READY + "until [ -e stop ]; do sleep 0.01; done")
    terminal.run("clear; pawl run -w 1m job -- echo mine")
    terminal.await_text("is held by")
    scene.freeze()
    await_line(terminal, "pawl run: waiting for the server, and then for 'job'")
    terminal.press("C-c")
    await_status(terminal, 130)


@case("redis")
def says_who_holds_it_at_the_end_of_a_long_way(scene, terminal):
    holder = scene.shell("--lease", "20", READY + "until [ -e stop ]; do sleep 0.01; done")
    said = f"is held by {socket.gethostname()} pid {holder.keeper()} (sh)"
    with scene.long_way(150) as url:
        terminal.run(f"clear; pawl run --url '{url}' -w 1m job -- echo mine")
        terminal.await_text(said)
        # It is asked again every second, and said until the answer is another one.
        begin = boottime()
        while boottime() - begin < 2.5:
            if not any(said in row for row in terminal.screen()):
                raise AssertionError(f"who holds it is not said any more: {terminal.screen()}")
        open(scene.path("stop"), "w").close()
        await_line(terminal, "mine")


@case("redis")
def interrupt_at_the_end_of_a_long_way(scene, terminal):
    scene.shell(READY + "sleep 1000")
    with scene.long_way(150) as url:
        terminal.run(f"clear; pawl run --url '{url}' -w 1m job -- echo never")
        terminal.await_text("is held by")
        begin = boottime()
        terminal.press("C-c")
        await_status(terminal, 130)
        expect(boottime() - begin < 2, True, "soon")


@case("redis")
def a_narrow_terminal_still_says_when_it_gives_up(scene, terminal):
    holder = scene.shell("--lease", "20", READY + "until [ -e stop ]; do sleep 0.01; done")
    whole = f"pawl run: 'job' is held by {socket.gethostname()} pid {holder.keeper()} (sh)"
    tail = "; giving up in 59s"
    terminal.resize(len(whole + tail) + 8, 24)
    terminal.run("clear; pawl run -w 1m job -- echo mine")
    line = [row for row in terminal.await_text("giving up in") if "is held by" in row][0]
    if not re.fullmatch(re.escape(whole) + r"; giving up in [45][0-9]s", line.rstrip()):
        raise AssertionError(f"it says {line!r}")
    terminal.resize(60, 24)
    until(lambda: any(re.search(r"^pawl run: .*\.\.\.; giving up in [0-9]+s", row)
                      for row in terminal.screen()), "a line whose beginning is cut")
    open(scene.path("stop"), "w").close()
    await_line(terminal, "mine")


@case("file")
def quiet_says_nothing(scene, terminal):
    holder = scene.shell(READY + "until [ -e stop ]; do sleep 0.01; done")
    terminal.run("pawl run -q job -- echo mine")
    until(lambda: scenes.scene_waits(scene), "it waits")
    begin = boottime()
    until(lambda: boottime() - begin > 0.5, "it would have said something")
    expect(any("held by" in row for row in terminal.screen()), False, "it said something")
    open(scene.path("stop"), "w").close()
    await_line(terminal, "mine")
    expect(holder.status(), 0, "exit status of the holder")


@case("file")
def says_nothing_in_the_background(scene, terminal):
    holder = scene.shell(READY + "until [ -e stop ]; do sleep 0.01; done")
    terminal.run("pawl run job -- echo mine &")
    until(lambda: scenes.scene_waits(scene), "it waits")
    begin = boottime()
    until(lambda: boottime() - begin > 0.5, "it would have said something")
    expect(any("held by" in row for row in terminal.screen()), False, "it said something")
    open(scene.path("stop"), "w").close()
    terminal.await_text("mine")
    expect(holder.status(), 0, "exit status of the holder")


@case("file")
def the_line_fits_a_narrow_terminal(scene, terminal):
    scene.shell(READY + "sleep 1000")
    terminal.resize(40, 10)
    terminal.run("clear; pawl run -w 1m job -- echo never")
    rows = terminal.await_text("held by")
    expect(len([row for row in rows if row.strip()]), 1, f"rows in use: {rows}")
    terminal.press("C-c")
    await_status(terminal, 130)


# ===== Programs that use the terminal =====

@case("file", "redis")
def output_into_a_pager(scene, terminal):
    terminal.run("pawl run job -- seq 1000 | less")
    terminal.await_screen(lambda rows: rows[:2] == ["1", "2"] and rows[-1][:1] == ":", "less")
    terminal.press("Space")
    terminal.await_screen(lambda rows: rows[:1] == ["24"], "the next page")
    terminal.press("q")
    terminal.run("echo status=${PIPESTATUS[*]}")
    terminal.await_screen(
        lambda rows: any(re.search(r"status=(0|141) 0$", row) for row in rows), "both statuses")
    scene.await_free()


@case("file")
def a_pager_as_the_command(scene, terminal):
    terminal.run("seq 1000 >numbers; pawl run job -- less numbers")
    terminal.await_screen(lambda rows: rows[:2] == ["1", "2"], "less")
    terminal.press("C-z")
    terminal.await_text("Stopped")
    expect(scene.is_free(), False, "free")
    terminal.run("fg")
    terminal.await_screen(lambda rows: rows[:2] == ["1", "2"], "less again")
    terminal.press("q")
    await_status(terminal, 0)


@case("file")
def an_editor_as_the_command(scene, terminal):
    if not shutil.which("vi"):
        print("no vi; not tried")
        return
    terminal.run("pawl run job -- vi -u NONE text")
    until(terminal.is_alternate, "the editor's screen")
    terminal.type("ifirst line")
    terminal.press("Enter")
    terminal.type("second")
    terminal.press("Escape")
    terminal.await_text("second")
    terminal.press("C-z")
    until(lambda: not terminal.is_alternate(), "the shell's screen")
    terminal.await_text("Stopped")
    expect(scene.is_free(), False, "free")
    terminal.run("fg")
    until(terminal.is_alternate, "the editor's screen again")
    terminal.await_text("second")
    terminal.type(":wq")
    terminal.press("Enter")
    until(lambda: not terminal.is_alternate(), "the shell's screen")
    await_status(terminal, 0)
    with open(scene.path("text"), encoding="utf-8") as file:
        expect(file.read(), "first line\nsecond\n", "what was written")


@case("file")
def a_resize_reaches_the_command_once(scene, terminal):
    front = start_counter(scene, terminal, "WINCH")
    terminal.resize(90, 20)
    end_counter(scene, terminal, front)
    await_line(terminal, "20 90")


# ===== The end of the terminal, and of jobs =====

@case("file")
def an_alarm_that_was_set_before_reaches_the_command(scene, terminal):
    # The kernel sends it, as it sends ^C, but to this process alone.
    terminal.run("python3 -c 'import os, signal; signal.setitimer(signal.ITIMER_REAL, 0.5); "
                 "os.execvp(\"pawl\", [\"pawl\", \"run\", \"job\", \"--\", \"sleep\", \"1000\"])'")
    await_status(terminal, 142)
    scene.await_free()


@case("file", "redis")
def a_closed_terminal_ends_it_all(scene, terminal):
    terminal.run("pawl run job -- sh -c 'echo up; sleep 1000'")
    await_line(terminal, "up")
    front_of(scene)
    terminal.tmux("kill-server")
    until(lambda: not scene.commands(), "the command has ended")
    scene.await_free()


@case("file")
def a_job_in_the_background_can_be_killed(scene, terminal):
    terminal.run("pawl run job -- sleep 1000 &")
    front_of(scene)
    terminal.run("kill %1; wait %1; echo status=$?")
    terminal.await_text("status=143")
    scene.await_free()


if __name__ == "__main__":
    sys.exit(scenes.run_all(CASES, __doc__.split("\n")[0]))
