#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Command tests, as transcripts: runner.py --pawl FILE --programs DIR [-k WORD] FILE.cases

A file of cases is read from top to bottom; # begins a comment.

    === the name of the case [file redis]
    $ pawl show jobs
    > | sed 's/x/y/'            a line that continues the command
    | state     held            what it prints, line by line
    ! pawl show: ...            what it says on stderr
    ? 1                         its exit status, if not 0

In what is expected {{...}} is a regular expression, everything else is meant as it stands; "| ..."
alone stands for any number of lines. What a command prints and nobody expects is a failure.

The words in brackets are the engines that the case is run on, once for each: "file" (a directory
of its own), "redis" (a server of its own, on a unix socket), "none" (no backend; PAWL_URL points to
nothing). Each case has an empty working directory. Commands are run by bash, one after the other,
with what is below in PRELUDE. Whatever they leave running is ended with the case.

Without redis-server the cases that need it are skipped; if nothing is left, the exit status is 77.
"""

import argparse
import dataclasses
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

COMMAND_SECONDS_MAX = 120
SERVER_SECONDS_MAX = 20
SKIPPED = 77
HERE = os.path.dirname(os.path.abspath(__file__))

# For the commands of a case. `hold` and `queue` start programs that hold a lock or wait for it, and
# come back when they do; `hold_as KIND NAME` and `queue_as KIND NAME` say of which kind. `let_go`
# ends them all, `let_go_of NAME` one. `until_true` waits for a condition. `redis` is redis-cli on
# the case's server, $DOCS the directory of the manual. `three_servers` starts three more, which
# `servers` names by their URLs, and `durable` with the promise that they lose nothing;
# `start_servers 4 5` two more, which `more` names; `patient 8s "$durable"` prints them with that
# for a timeout; `server_pid 2` is the process of one.
PRELUDE = r"""
until_true() {
    local end=$((SECONDS + 40))
    until "$@" >/dev/null 2>&1; do
        ((SECONDS < end)) || { echo "this never came true: $*" >&2; return 1; }
        sleep 0.02
    done
}
ends_with() { [[ $(tail -n 1 "$1") == "$2"* ]]; }
gone() { [[ $(ps -o stat= -p "$1") != [!Z]* ]]; } # one that nobody has reaped yet is, too
start_holder() {
    local what=$1 name=$2 kind=${3:-0} log
    log=$(mktemp holder.XXXXXX)
    setsid "$PROGRAMS/hold" "$name" 30000 "$kind" >"$log" 2>&1 </dev/null &
    printf '%s %q\n' "$!" "$name" >>"$CASE_PIDS"
    until_true ends_with "$log" "$what" || cat "$log" >&2
}
hold() { local name; for name; do start_holder held "$name"; done; }
queue() { local name; for name; do start_holder waiting "$name"; done; }
declare -A kinds=([mutex]=0 [fair]=1 [read]=2 [write]=3 [spin]=4 [plain]=5)
hold_as() { start_holder held "$2" "${kinds[$1]}"; }
queue_as() { start_holder waiting "$2" "${kinds[$1]}"; }
let_go_of() {
    local pid name
    while read -r pid name; do
        [[ $name == "$(printf %q "$1")" ]] && kill "$pid" && until_true gone "$pid"
    done <"$CASE_PIDS"
    return 0
}
let_go() {
    local pid name
    while read -r pid name; do
        kill "$pid" 2>/dev/null && until_true gone "$pid"
    done <"$CASE_PIDS"
    : >"$CASE_PIDS"
}
redis() { redis-cli -s "$REDIS_SOCKET" "$@"; }
start_servers() {
    local i
    for i; do
        setsid redis-server --port 0 --unixsocket "$CASE_DIR/$i.sock" --save '' --dir "$CASE_DIR" \
            >/dev/null 2>&1 </dev/null &
        printf '%s server-%s\n' "$!" "$i" >>"$CASE_PIDS"
        until_true redis-cli -s "$CASE_DIR/$i.sock" ping
        redis-cli -s "$CASE_DIR/$i.sock" set pawl_seen:durable 1000 >/dev/null
    done
}
three_servers() { start_servers 1 2 3; }
server_pid() { sed -n "s/ server-$1\$//p" "$CASE_PIDS"; }
servers=redis+unix://$CASE_DIR/1.sock,redis+unix://$CASE_DIR/2.sock,redis+unix://$CASE_DIR/3.sock
durable=${servers//.sock/.sock?durable=1}
more=redis+unix://$CASE_DIR/4.sock?durable=1,redis+unix://$CASE_DIR/5.sock?durable=1
patient() { sed "s/=1/=1\&timeout=$1\&connect_timeout=$1/g" <<<"$2"; }
"""


@dataclasses.dataclass
class Command:
    line: int
    text: str
    out: list = dataclasses.field(default_factory=list)
    err: list = dataclasses.field(default_factory=list)
    status: str = "0"


@dataclasses.dataclass
class Case:
    line: int
    name: str
    engines: list
    commands: list = dataclasses.field(default_factory=list)


class Mistake(Exception):
    """The file of cases is not as it should be."""


def parse(path):
    cases = []
    with open(path, encoding="utf-8", newline="\n") as file:
        for number, row in enumerate(file.read().split("\n"), 1):
            parse_row(cases, number, row, path)
    return cases


def parse_row(cases, number, row, path):
    if not row.strip() or row.startswith("#"):
        return
    match = re.fullmatch(r"=== (.*\S) \[([a-z ]+)\]", row)
    if match:
        cases.append(Case(number, match.group(1), match.group(2).split()))
        return
    mark, text = row[:1], row[2:]
    commands = cases[-1].commands if cases else None
    if commands is None or (mark != "$" and not commands) or row[1:2] not in ("", " "):
        raise Mistake(f"{path}:{number}: what is this? {row}")
    if mark == "$":
        commands.append(Command(number, text))
    elif mark == ">":
        commands[-1].text += "\n" + text
    elif mark == "|":
        commands[-1].out.append(text)
    elif mark == "!":
        commands[-1].err.append(text)
    elif mark == "?":
        commands[-1].status = text
    else:
        raise Mistake(f"{path}:{number}: what is this? {row}")


def row_pattern(row):
    """The regular expression of an expected line."""
    parts = re.split(r"\{\{(.*?)\}\}", row)
    return "".join(f"(?:{part})" if i % 2 else re.escape(part) for i, part in enumerate(parts))


def matches(expected, text):
    """Whether the lines of text are the expected ones."""
    pattern = ""
    for row in expected:
        pattern += r"(?:.*\n)*?" if row == "..." else row_pattern(row) + "\n"
    if text and not text.endswith("\n"):
        text += "\n"
    return re.fullmatch(pattern, text) is not None


class Stage:
    """The surroundings of one case: a directory, a backend, and processes to be ended."""

    def __init__(self, engine, options):
        self.engine = engine
        self.options = options
        self.directory = tempfile.mkdtemp(prefix="pawl-cli-")
        self.work = os.path.join(self.directory, "work")
        self.pids = os.path.join(self.directory, "pids")
        self.socket = os.path.join(self.directory, "redis.sock")
        self.server = None

    def __enter__(self):
        os.mkdir(self.work)
        open(self.pids, "w").close()
        if self.engine == "redis":
            self.start_server()
        return self

    def start_server(self):
        command = ["redis-server", "--port", "0", "--unixsocket", self.socket, "--save", "",
                   "--appendonly", "no", "--dir", self.directory,
                   "--pidfile", os.path.join(self.directory, "redis.pid")]
        self.server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + SERVER_SECONDS_MAX
        ping = ["redis-cli", "-s", self.socket, "ping"]
        while subprocess.run(ping, capture_output=True).stdout != b"PONG\n":
            if time.monotonic() > end or self.server.poll() is not None:
                raise RuntimeError("redis-server does not start")
            time.sleep(0.02)

    def url(self):
        if self.engine == "redis":
            return "redis+unix://" + self.socket
        if self.engine == "file":
            return "file://" + os.path.join(self.directory, "locks")
        return "redis+unix://" + os.path.join(self.directory, "nobody.sock")

    def environment(self):
        environment = {
            "PATH": os.path.dirname(self.options.pawl) + ":" + os.environ.get("PATH", ""),
            "HOME": self.directory,
            "TMPDIR": self.directory,
            "LC_ALL": "C.UTF-8",
            "TERM": "xterm",
            "PAWL_URL": self.url(),
            "PROGRAMS": self.options.programs,
            "DOCS": os.path.join(HERE, "../../docs"),
            "CASE_DIR": self.directory,
            "CASE_PIDS": self.pids,
            "REDIS_SOCKET": self.socket,
        }
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS"):
            if name in os.environ:
                environment[name] = os.environ[name]
        return environment

    def __exit__(self, *_):
        with open(self.pids, "rb") as file:
            pids = [int(row.split()[0]) for row in file.read().split(b"\n") if row]
        for pid in pids:
            end_process(pid)
        if self.server:
            self.server.terminate()
            self.server.send_signal(signal.SIGCONT)  # a case that failed may have left it stopped
            self.server.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


def is_gone(pid):
    """A process that nobody has reaped yet is gone, too."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rsplit(b")", 1)[1].split()[0] == b"Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def end_process(pid):
    """A process of a case, a child of nobody; its process group is its own."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        end = time.monotonic() + 5
        while time.monotonic() < end and not is_gone(pid):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                return
            time.sleep(0.02)


def run_command(stage, command):
    """What is wrong with it, in lines; none if it is as expected."""
    process = subprocess.Popen(
        ["bash", "-c", PRELUDE + command.text], cwd=stage.work, env=stage.environment(),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True)
    try:
        out, err = process.communicate(timeout=COMMAND_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        err += f"(not ended after {COMMAND_SECONDS_MAX} s)".encode()
    out, err = (raw.decode("utf-8", "backslashreplace") for raw in (out, err))
    wrong = []
    if not re.fullmatch(row_pattern(command.status), str(process.returncode)):
        wrong.append(f"exit status {process.returncode}, expected {command.status}")
    for mark, expected, text in (("|", command.out, out), ("!", command.err, err)):
        if not matches(expected, text):
            wrong.append("printed" if mark == "|" else "said")
            wrong += [f"    {mark} {row}" for row in text.split("\n") if row] or ["    nothing"]
            wrong.append("expected")
            wrong += [f"    {mark} {row}" for row in expected] or ["    nothing"]
    if wrong:
        for mark, text in (("|", out), ("!", err)):
            if not any(row.startswith(f"    {mark}") for row in wrong):
                wrong += [f"    {mark} {row}" for row in text.split("\n") if row]
    return wrong


def run_case(path, case, engine, options):
    with Stage(engine, options) as stage:
        for command in case.commands:
            wrong = run_command(stage, command)
            if wrong:
                print(f"{path}:{command.line}: {case.name} [{engine}]\n  $ {command.text}")
                print("\n".join("  " + row for row in wrong), flush=True)
                return False
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pawl", required=True, type=os.path.abspath)
    parser.add_argument("--programs", required=True, type=os.path.abspath)
    parser.add_argument("-k", default="", help="only the cases whose name has this")
    parser.add_argument("cases")
    options = parser.parse_args()
    try:
        cases = parse(options.cases)
    except Mistake as mistake:
        print(mistake)
        return 1

    has_redis = shutil.which("redis-server") and shutil.which("redis-cli")
    passed = failed = skipped = 0
    for case in cases:
        for engine in case.engines if options.k in case.name else []:
            if engine == "redis" and not has_redis:
                skipped += 1
            elif run_case(options.cases, case, engine, options):
                passed += 1
            else:
                failed += 1
    print(f"[  PASSED  ] {passed} test(s).")
    if skipped:
        print(f"[  SKIPPED ] {skipped} test(s).")
    if failed:
        print(f"[  FAILED  ] {failed} test(s).")
    if passed + failed == 0:
        return SKIPPED if skipped else 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
