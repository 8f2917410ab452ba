# SPDX-License-Identifier: Apache-2.0
"""The stage for tests of the flash sale: private Redis servers, instances of the shop, and HTTP.

A case is a function of a Stage, registered with @case of a list made by cases(); run_all() runs
them, each on a stage of its own, and ends exactly what that stage started. Conditions are waited
for with until(), never with a bare sleep.

    CASES, case = stage.cases()

    @case
    def sells_the_last_piece(stage):
        redis = stage.redis()
        shop = stage.serve(redis, "--strategy", "pawl")
        shop.put("10001", stock=1)
        expect(shop.order("10001").status, 201, "the last piece")

    if __name__ == "__main__":
        sys.exit(stage.run_all(CASES, __doc__))
"""

import argparse
import concurrent.futures
import http.client
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

SECONDS_MAX = 20
SKIPPED = 77
FOUND_BY_SANITIZERS = (97, 98, 99)  # exit statuses; see CMakePresets.json


def cases():
    """A list of cases, and the decorator that adds one to it."""
    found = []

    def case(function):
        found.append(function)
        return function

    return found, case


def until(condition, what, seconds=SECONDS_MAX):
    """Wait for a condition; its value."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"this never came true: {what}")
        time.sleep(0.01)


def expect(actual, expected, what):
    if actual != expected:
        raise AssertionError(f"{what}: {actual!r}, expected {expected!r}")


def expect_true(value, what):
    if not value:
        raise AssertionError(what)


def together(count, function, threads=64):
    """function(0), function(1), ... on several threads at once; their results in this order."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=min(count, threads)) as pool:
        return list(pool.map(function, range(count)))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Answer:
    """An HTTP answer."""

    def __init__(self, status, headers, text):
        self.status = status
        self.headers = headers
        self.text = text

    @property
    def json(self):
        return json.loads(self.text)

    def __repr__(self):
        return f"<{self.status} {self.text[:200]!r}>"


def ask(url, method="GET", body=None, headers=None, seconds=SECONDS_MAX):
    """One HTTP request on a connection of its own. A body that is no string is sent as JSON."""
    if body is not None and not isinstance(body, (str, bytes)):
        body = json.dumps(body)
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=seconds)
    try:
        path = parts.path + ("?" + parts.query if parts.query else "")
        connection.request(method, path or "/", body=body, headers=headers or {})
        reply = connection.getresponse()
        return Answer(reply.status, reply.headers, reply.read().decode("utf-8", "replace"))
    finally:
        connection.close()


class Process:
    """A program that was started, what it says, and its end."""

    def __init__(self, stage, name, arguments, **options):
        self.said_path = os.path.join(stage.directory, f"{name}.{next(stage.numbers)}.err")
        self.printed_path = self.said_path[:-4] + ".out"
        with open(self.printed_path, "wb") as out, open(self.said_path, "wb") as err:
            self.process = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                cwd=stage.directory, env=stage.environment, **options)
        self.pid = self.process.pid
        stage.processes.append(self)

    def printed(self):
        with open(self.printed_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def said(self):
        with open(self.said_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def runs(self):
        return self.process.poll() is None

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, seconds=SECONDS_MAX):
        """Its exit status; below 0: the signal that killed it."""
        return self.process.wait(seconds)

    def kill(self):
        """At once, and also if it is stopped."""
        if self.runs():
            self.process.kill()
        self.process.wait(SECONDS_MAX)

    def terminate(self):
        """As an operator would; its exit status."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def threads(self):
        return len(os.listdir(f"/proc/{self.pid}/task"))


class Redis:
    """A Redis server of its own, on a free port of 127.0.0.1."""

    def __init__(self, stage, *arguments):
        self.stage = stage
        self.arguments = arguments
        self.port = free_port()
        self.directory = tempfile.mkdtemp(prefix="redis-", dir=stage.directory)
        self.start()

    def start(self):
        """Also again, after stop() or kill(), on the same port and data."""
        self.process = Process(
            self.stage, "redis",
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "",
             "--dir", self.directory, *self.arguments])
        until(lambda: self.cli("ping") == "PONG", "redis-server answers")

    def stop(self):
        """Ends it; without persistence its data is gone."""
        self.process.terminate()

    def kill(self):
        self.process.kill()

    def url(self, db=0):
        return f"redis://127.0.0.1:{self.port}/{db}"

    def cli(self, *words, db=0):
        """What redis-cli prints."""
        result = subprocess.run(
            ["redis-cli", "-p", str(self.port), "-n", str(db), *map(str, words)],
            capture_output=True, text=True)
        return result.stdout.strip()


class Shop(Process):
    """flashsale serve."""

    def __init__(self, stage, redis, arguments):
        super().__init__(
            stage, "serve",
            [stage.flashsale, "serve", "--port", "0", "--redis", redis.url(), *arguments])
        until(lambda: "\n" in self.printed() or not self.runs(), "the shop says its URL")
        match = re.search(r"http://127\.0\.0\.1:(\d+)/", self.printed())
        expect_true(match, f"no URL in {self.printed()!r}; it says {self.said()!r}")
        self.port = int(match.group(1))
        self.url = f"http://127.0.0.1:{self.port}"

    def ask(self, path, method="GET", body=None, headers=None, seconds=SECONDS_MAX):
        return ask(self.url + path, method, body, headers, seconds)

    def put(self, item, **fields):
        """Set an item's stock: put("10001", stock=50, segments=5)."""
        answer = self.ask(f"/items/{item}", "PUT", fields)
        expect(answer.status, 200, f"PUT {item} {fields} ({answer.text})")
        return answer.json

    def item(self, item):
        answer = self.ask(f"/items/{item}")
        expect(answer.status, 200, f"GET {item} ({answer.text})")
        return answer.json

    def order(self, item, seconds=SECONDS_MAX, **query):
        """POST an order, with its fields in the query; the answer."""
        path = f"/items/{item}/orders"
        return self.ask(path + ("?" + urllib.parse.urlencode(query) if query else ""), "POST",
                        seconds=seconds)

    def order_at_once(self, count, item, seconds=60, **query):
        """As many orders on as many connections, all sent before the first answer is read; how
        often each status came. (Few threads: sockets wait by themselves.)"""
        path = f"/items/{item}/orders" + ("?" + urllib.parse.urlencode(query) if query else "")
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode()
        sockets = []
        statuses = {}
        try:
            for _ in range(count):
                sockets.append(socket.create_connection(("127.0.0.1", self.port), seconds))
            for connection in sockets:
                connection.sendall(head)
            for number, connection in enumerate(sockets):
                line = connection.recv(12)
                if len(line) < 12:
                    raise AssertionError(f"order {number} ended with {line!r} after {statuses}; "
                                         f"the shop runs: {self.runs()}; said: {self.said()}")
                status = int(line.split()[1])
                statuses[status] = statuses.get(status, 0) + 1
        finally:
            for connection in sockets:
                connection.close()
        return statuses

    def metrics(self):
        """Prometheus lines as {"name{labels}": value}."""
        rows = [row for row in self.ask("/metrics").text.split("\n") if row and row[0] != "#"]
        return {name: float(value) for name, value in (row.rsplit(" ", 1) for row in rows)}

    def orders_in(self, redis, key):
        """The records of orders under this key."""
        return records(redis, key)


def records(redis, key):
    rows = redis.cli("lrange", f"orders:{key}", 0, -1)
    return [json.loads(row) for row in rows.split("\n") if row]


class Stage:
    """A directory, and all processes that a case starts."""

    def __init__(self, options):
        self.flashsale = options.flashsale
        self.directory = tempfile.mkdtemp(prefix="flashsale-")
        self.processes = []
        self.numbers = itertools.count()
        self.environment = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": self.directory,
            "TMPDIR": self.directory,
            "LC_ALL": "C.UTF-8",
        }
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS"):
            if name in os.environ:
                self.environment[name] = os.environ[name]

    def __enter__(self):
        return self

    def redis(self, *arguments):
        return Redis(self, *arguments)

    def serve(self, redis, *arguments):
        """An instance of the shop, on a free port; more arguments as `flashsale serve` takes them.
        """
        return Shop(self, redis, arguments)

    def start(self, *arguments, **options):
        """Any subcommand, in the background."""
        return Process(self, arguments[0], [self.flashsale, *arguments], **options)

    def run(self, *arguments, seconds=60):
        """Any subcommand, to its end: its exit status, what it printed, what it said."""
        result = subprocess.run(
            [self.flashsale, *arguments], capture_output=True, text=True, timeout=seconds,
            cwd=self.directory, env=self.environment, stdin=subprocess.DEVNULL)
        return result.returncode, result.stdout, result.stderr

    def __exit__(self, *_):
        for process in reversed(self.processes):
            if process.runs():
                process.signal(signal.SIGCONT)
                process.signal(signal.SIGTERM)
        found = []
        for process in reversed(self.processes):
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
            if process.process.returncode in FOUND_BY_SANITIZERS:
                found.append(process.said())
        shutil.rmtree(self.directory, ignore_errors=True)
        if found:
            raise AssertionError("a sanitizer says: " + "\n".join(found))


def in_background(function, *arguments):
    """The function's result, later: .result() of what this gives."""
    future = concurrent.futures.Future()

    def run():
        try:
            future.set_result(function(*arguments))
        except BaseException as error:  # it is raised where the result is asked for
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


# ===== All of them =====

def run_case(function, options):
    try:
        with Stage(options) as stage:
            try:
                function(stage)
            except BaseException:
                for process in stage.processes:
                    if process.said():
                        print(f"    {process.said_path}: {process.said()[-2000:]}")
                raise
    except Exception as error:  # whatever it is, the other cases are run
        print(f"{function.__name__}: {type(error).__name__} {error}", flush=True)
        return False
    return True


def run_all(found, description, at_once=1):
    """Run the cases, so many at the same time: more than one for those that mostly wait."""
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    parser.add_argument("--flashsale", required=True, type=os.path.abspath)
    parser.add_argument("-k", default="", help="only the cases whose name has this")
    parser.add_argument("-v", action="store_true", help="say what is run, and how long it took")
    options = parser.parse_args()
    if not (shutil.which("redis-server") and shutil.which("redis-cli")):
        print(f"[  SKIPPED ] {len(found)} test(s).")
        return SKIPPED
    chosen = [function for function in found if options.k in function.__name__]

    def run(number):
        begin = time.monotonic()
        good = run_case(chosen[number], options)
        if options.v:
            print(f"{time.monotonic() - begin:6.2f} s  {chosen[number].__name__}", flush=True)
        return good
    passed = sum(together(len(chosen), run, at_once)) if chosen else 0
    failed = len(chosen) - passed
    print(f"[  PASSED  ] {passed} test(s).")
    if failed:
        print(f"[  FAILED  ] {failed} test(s).")
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit("this is for the tests beside it")
