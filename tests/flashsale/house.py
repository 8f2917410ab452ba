# SPDX-License-Identifier: Apache-2.0
"""The whole shop as `flashsale up` starts it, on free ports, for edge.py and up.py."""

import asyncio
import http.client
import json
import os
import signal
import socket
import subprocess

import stage as stages
from stage import Answer, until

READY_S = 30
NGINX = "/usr/sbin/nginx"


def run_all(found, description):
    if not os.path.exists(NGINX):
        print(f"[  SKIPPED ] {len(found)} test(s).")
        return stages.SKIPPED
    return stages.run_all(found, description)


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


def by_edge(answer):
    """Whether nginx answered by itself."""
    return answer.headers.get("X-Answered-By") == "edge"


class Client:
    """A connection to one of the house's ports, kept open."""

    def __init__(self, url, timeout=30):
        self.link = http.client.HTTPConnection(url.split("//")[1], timeout=timeout)

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body)
        self.link.request(method, path, body=data)
        return self.answer()

    def answer(self):
        reply = self.link.getresponse()
        return Answer(reply.status, reply.headers, reply.read().decode())

    def send_order(self, item="10001"):
        """Without waiting for the answer()."""
        self.link.request("POST", f"/items/{item}/orders")

    def order(self, item="10001", query=""):
        return self.ask("POST", f"/items/{item}/orders{query}")

    def close(self):
        self.link.close()


class House:
    """`flashsale up` on free ports. It is ended with the stage, or by end()."""

    def __init__(self, stage, *arguments, quorum="0"):
        """No lock masters unless they are wanted; quorum=None: as many as there are by default."""
        self.stage = stage
        masters = ["--quorum", quorum] if quorum else []
        self.process = stage.start(
            "up", "--json", "--base-port", "0", "--edge-port", "0", *masters, *arguments)
        until(lambda: self.process.printed().endswith("\n") or not self.process.runs(),
              "flashsale up says where it is", READY_S)
        self.about = json.loads(self.process.printed())

    def said(self):
        return self.process.said()

    def client(self, url, **options):
        return Client(url, **options)

    def edge(self, **options):
        return self.client(self.about["edge"], **options)

    def shop(self, number=0, **options):
        return self.client(self.about["instances"][number]["url"], **options)

    def pids(self):
        """Of everything that was announced."""
        rows = self.about["instances"] + self.about["quorum"] + [self.about["stock"]]
        rows += [self.about[name] for name in ("master", "replica") if name in self.about]
        pids = [row["pid"] for row in rows]
        return pids + [self.about["nginx_pid"]] if "nginx_pid" in self.about else pids

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
        self.process.signal(number)
        return self.process.wait(30)


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
