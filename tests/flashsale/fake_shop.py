# SPDX-License-Identifier: Apache-2.0
"""A shop that answers what a test wants, for load.py: it notes who came and when, and can chop
its answers, cut connections, keep silent, or answer nobody before everybody has asked.
"""

import asyncio
import json
import re
import threading

SOLD_OUT = (409, {"error": "sold out", "item": "10001", "remaining": 0})
BUSY = (503, {"error": "busy", "detail": "try again"})
REFUSED = (409, {"error": "refused", "detail": "by the fence"})
CUT = (0, None)  # close the connection instead of answering
SILENCE = (-1, None)


class FakeShop:
    """Use it in a with statement. `answer` is called with the number of an order, from 0, and gives
    a status and a body."""

    def __init__(self, answer=None, chunked=False, pieces=False, closes=False, together=0,
                 delay=None):
        self.answer = answer or self.sell
        self.chunked = chunked      # the body comes in chunks
        self.pieces = pieces        # the answer comes a few bytes at a time
        self.closes = closes        # every answer ends the connection
        self.together = together    # so many orders must be there before any is answered
        self.delay = delay          # seconds before the order of this number is answered
        self.connections = 0        # ever made
        self.orders = 0
        self.paths = []             # of orders
        self.bodies = {}            # of what was PUT, by path
        self.item = {"item": "10001", "stock": 0, "initial": 0, "sold": 0}
        self.loop = asyncio.new_event_loop()
        self.ready = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def __enter__(self):
        self.thread.start()
        assert self.ready.wait(10), "the fake shop does not start"
        return self

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.over.set)
        self.thread.join(10)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def run(self):
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self.serve())
        self.loop.close()

    async def serve(self):
        self.over = asyncio.Event()
        self.all_there = asyncio.Event()
        server = await asyncio.start_server(self.talk, "127.0.0.1", 0, backlog=4096)
        self.port = server.sockets[0].getsockname()[1]
        self.ready.set()
        await self.over.wait()
        server.close()
        for task in asyncio.all_tasks():
            if task is not asyncio.current_task():
                task.cancel()
        await asyncio.sleep(0)

    def sell(self, _):
        """As long as there is stock."""
        if self.item["stock"] <= 0:
            return SOLD_OUT
        self.item["stock"] -= 1
        self.item["sold"] += 1
        return 201, {"order": f"10001-{self.item['sold']}", "remaining": self.item["stock"],
                     "port": self.port}

    async def talk(self, reader, writer):
        self.connections += 1
        try:
            while await self.exchange(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def exchange(self, reader, writer):
        """One request; whether there may be another."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, path = head.split(" ")[:2]
        length = re.search(r"(?i)content-length: *(\d+)", head)
        body = await reader.readexactly(int(length[1])) if length else b""
        status, answer = await self.respond(method, path, body)
        if status == CUT[0]:
            return False
        if status == SILENCE[0]:
            await self.over.wait()
            return False
        closes = self.closes or "connection: close" in head.lower()
        await self.send(writer, status, json.dumps(answer).encode(), closes)
        return not closes

    async def respond(self, method, path, body):
        if method == "PUT":
            self.bodies[path] = json.loads(body)
            if path.startswith("/items/"):
                stock = self.bodies[path]["stock"]
                self.item.update(stock=stock, initial=stock, sold=0)
            return 200, self.item
        if method == "GET":
            return 200, {**self.item, "strategy": "own"}
        number = self.orders
        self.orders += 1
        self.paths.append(path)
        if self.orders == self.together:
            self.all_there.set()
        if self.together:
            await self.all_there.wait()
        if self.delay:
            await asyncio.sleep(self.delay(number))
        return self.answer(number)

    async def send(self, writer, status, body, closes):
        head = f"HTTP/1.1 {status} X\r\n" + ("Connection: close\r\n" if closes else "")
        if self.chunked:
            half = len(body) // 2
            text = (head + "Transfer-Encoding: chunked\r\n\r\n").encode()
            for part in (body[:half], body[half:]):
                text += b"%x\r\n%s\r\n" % (len(part), part)
            text += b"0\r\n\r\n"
        else:
            text = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
        step = 7 if self.pieces else len(text)
        for at in range(0, len(text), step):
            writer.write(text[at:at + step])
            await writer.drain()
            if self.pieces:
                await asyncio.sleep(0)
