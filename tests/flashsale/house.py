# SPDX-License-Identifier: Apache-2.0
"""The whole shop as `flashsale up` starts it, on free ports, for edge_test.py and up_test.py."""

import asyncio
import http.client
import json
import os
import select
import signal
import socket
import subprocess
import tempfile
import time

READY_S = 30
END_S = 30


def until(condition, what, seconds=20):
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


def runs(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def processes_of(directory):
    """Who has the directory's name on the command line: everything that lives in it."""
    found = []
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                line = file.read()
        except OSError:
            continue
        if name.isdigit() and directory.encode() in line and runs(int(name)):
            found.append(int(name))
    return found


class Answer:
    """What an HTTP request brought."""

    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.text = response.read().decode()

    @property
    def by_edge(self):
        return self.headers.get("X-Answered-By") == "edge"

    @property
    def json(self):
        return json.loads(self.text)


class Client:
    """A connection to one of the house's ports, kept open."""

    def __init__(self, url, timeout=30):
        self.link = http.client.HTTPConnection(url.split("//")[1], timeout=timeout)

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body)
        self.link.request(method, path, body=data)
        return Answer(self.link.getresponse())

    def order(self, item="10001", query=""):
        return self.ask("POST", f"/items/{item}/orders{query}")

    def close(self):
        self.link.close()


class House:
    """`with House(options, "--edge") as house`: all that was announced is an attribute."""

    def __init__(self, program, *arguments):
        self.directory = tempfile.mkdtemp(prefix="up-test-")
        self.errors = os.path.join(self.directory, "stderr")
        self.clients = []
        command = [program, "up", "--json", "--base-port", "0", "--edge-port", "0", *arguments]
        with open(self.errors, "wb") as errors:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
                env={**os.environ, "TMPDIR": self.directory}, start_new_session=True)
        try:
            self.about = json.loads(self.announcement())
        except BaseException:
            self.close()
            raise

    def announcement(self):
        ready, _, _ = select.select([self.process.stdout], [], [], READY_S)
        line = self.process.stdout.readline() if ready else b""
        if not line:
            raise AssertionError("flashsale up said nothing of where it is: " + self.said())
        return line

    def __enter__(self):
        return self

    def said(self):
        with open(self.errors, encoding="utf-8") as file:
            return file.read()

    def client(self, url, **options):
        client = Client(url, **options)
        self.clients.append(client)
        return client

    def edge(self, **options):
        return self.client(self.about["edge"], **options)

    def shop(self, number=0, **options):
        return self.client(self.about["instances"][number]["url"], **options)

    def pids(self):
        """Of everything that was announced."""
        rows = self.about["instances"] + self.about["quorum"] + [self.about["stock"]]
        rows += [self.about[name] for name in ("master", "replica") if name in self.about]
        return [row["pid"] for row in rows] + [self.about.get("nginx_pid", self.process.pid)]

    def redis(self, *words, port=None):
        command = ["redis-cli", "-p", str(port or self.about["stock"]["port"]), *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=20).stdout.strip()

    def control(self, line):
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(30)
            link.connect(self.about["control"])
            link.sendall(line.encode() + b"\n")
            return link.makefile(encoding="utf-8").readline().strip()

    def end(self, number=signal.SIGINT):
        """Ctrl-C; the exit status."""
        self.process.send_signal(number)
        return self.process.wait(END_S)

    def close(self):
        for client in self.clients:
            client.close()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(END_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process.stdout.close()
        for name in os.listdir(self.directory):
            if name != "stderr":
                subprocess.run(["rm", "-rf", os.path.join(self.directory, name)], check=True)
        os.unlink(self.errors)
        os.rmdir(self.directory)

    def __exit__(self, *_):
        self.close()


# ===== Many orders at once =====

async def one_order(host, port, path, start):
    reader, writer = await asyncio.open_connection(host, port)
    await start.wait()
    writer.write(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n"
                 "Connection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0


async def all_orders(url, path, count):
    host, _, port = url.split("//")[1].partition(":")
    start = asyncio.Event()
    orders = [asyncio.create_task(one_order(host, int(port), path, start)) for _ in range(count)]
    await asyncio.sleep(0)  # they connect while the event is not set
    start.set()
    answers = await asyncio.gather(*orders, return_exceptions=True)
    return [answer if isinstance(answer, int) else 0 for answer in answers]


def at_once(url, count, item="10001"):
    """The statuses of so many orders at the same time; 0 is a connection that broke."""
    return asyncio.run(all_orders(url, f"/items/{item}/orders", count))
