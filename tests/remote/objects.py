"""A real object server on loopback, and a proxy in front of it that injects what networks do.

The server is moto's; it keeps objects in the memory of this process. The proxy passes whole requests on, and then
answers as a fault says: an error status, half a body and a reset, half a body and an end, a slow body, or nothing. Or
it answers a request for a range as servers do that know little of ranges: fewer bytes, more, none, or the whole object.
"""

from __future__ import annotations

import http.client
import itertools
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

KEY: Final = "test-access-key"
SECRET: Final = "s3cr3t/+of-the-tests"
QUOTED_SECRET: Final = "s3cr3t%2F%2Bof-the-tests"
RESET, CUT, SLOW, STALL, DOWN = "reset", "cut", "slow", "stall", "down"
SHORT, LONG, EMPTY, WHOLE = "short", "long", "empty", "whole"  # answers to requests for ranges, well-formed
SLOW_PIECES: Final = 8
NOT_PASSED_ON: Final = ("connection", "transfer-encoding", "content-length", "date", "server")


@dataclass(frozen=True)
class Request:
    """What a fault is chosen by: number of the request, method, and path without bucket; first byte of its range."""

    number: int
    method: str
    path: str
    start: int | None
    length: int | None


Fault = Callable[[Request], int | str | None]
"""Returns the status or the trouble that a request meets, None for none."""


def no_fault(_: Request) -> None:
    return None


@dataclass
class Proxy:
    """Listens until it is stopped; ``requests`` are those that came."""

    target: tuple[str, int]
    fault: Fault = no_fault
    requests: list[Request] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._numbers = itertools.count()
        proxy = self

        class Handler(_Handler):
            owner = proxy

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.endpoint = f"127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def request(self, method: str, path: str, wanted: str | None) -> Request:
        start, stop = (int(n) for n in wanted.removeprefix("bytes=").split("-")) if wanted else (None, None)
        length = None if start is None or stop is None else stop - start + 1
        made = Request(next(self._numbers), method, path, start, length)
        self.requests.append(made)
        return made

    def stop(self) -> None:
        """Refuse connections from now on, and end those that there are."""
        self._server.shutdown()
        self._server.server_close()
        self._server.drop()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, *arguments: Any) -> None:
        self._held: set[socket.socket] = set()
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._held.add(request)
        super().process_request(request, client_address)

    def drop(self) -> None:
        for held in self._held:
            _end(held)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients give up, and that is what is tested."""


def _end(connection: socket.socket) -> None:
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: Proxy

    def _pass_on(self) -> None:
        body = self._body()
        path = self.path.partition("?")[0].lstrip("/").partition("/")[2]
        fault = self.owner.fault(self.owner.request(self.command, path, self.headers.get("Range")))
        if fault == STALL:
            time.sleep(3600)
        if fault == DOWN:  # the server never sees the request
            self.close_connection = True
            _end(self.connection)
            return
        if isinstance(fault, int):
            self._answer(fault, [], b"")
            return
        server = http.client.HTTPConnection(*self.owner.target)
        own = ("expect", "transfer-encoding", "content-length")
        headers = {name: value for name, value in self.headers.items() if name.lower() not in own}
        server.request(self.command, self.path, body, headers)
        answer = server.getresponse()
        data = answer.read()
        status = answer.status
        if fault in (SHORT, LONG, EMPTY, WHOLE) and status == http.client.PARTIAL_CONTENT:
            status, data = self._other_range(str(fault), data)
        kept = [(name, value) for name, value in answer.getheaders() if name.lower() not in NOT_PASSED_ON]
        if self.command == "HEAD":
            kept.append(("Content-Length", answer.getheader("Content-Length", "0")))
        self._answer(status, kept, data, fault)
        server.close()

    def _other_range(self, fault: str, data: bytes) -> tuple[int, bytes]:
        """Return status and body of an answer that is not what was asked for."""
        if fault == SHORT:
            return http.client.PARTIAL_CONTENT, data[: -1 - len(data) // 3]
        if fault == LONG:
            return http.client.PARTIAL_CONTENT, data + data[:1000]
        if fault == EMPTY:
            return http.client.OK, b""
        server = http.client.HTTPConnection(*self.owner.target)
        headers = {name: value for name, value in self.headers.items() if name.lower() != "range"}
        server.request("GET", self.path, None, headers)
        data = server.getresponse().read()
        server.close()
        return http.client.OK, data

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            continue  # trailers
        return b"".join(parts)

    def _answer(self, status: int, headers: list[tuple[str, str]], data: bytes, fault: str | None = None) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if self.command != "HEAD" or not headers:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if fault == SLOW:
            step = len(data) // SLOW_PIECES + 1
            for at in range(0, len(data), step):
                self.wfile.write(data[at : at + step])
                time.sleep(0.02)
            return
        if fault in (RESET, CUT):
            self.wfile.write(data[: len(data) // 2])
            self.wfile.flush()
            self.close_connection = True
            if fault == RESET:
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()
            return
        self.wfile.write(data)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass_on

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


class Objects:
    """One bucket of the server."""

    def __init__(self, client: Any, bucket: str, target: tuple[str, int]) -> None:
        self.client, self.bucket, self.target = client, bucket, target

    def uri(self, name: str, endpoint: str | None = None, **options: str) -> str:
        """Return the URI of a prefix, through a proxy if its endpoint is given."""
        given = {"endpoint_override": endpoint or "{}:{}".format(*self.target), "scheme": "http", **options}
        query = "&".join(f"{key}={value}" for key, value in given.items())
        return f"s3://{KEY}:{QUOTED_SECRET}@{self.bucket}/{name}?{query}"

    def put(self, key: str, data: bytes) -> None:
        self.client.put_object(Bucket=self.bucket, Key=key, Body=data)

    def put_store(self, root: Path, name: str) -> None:
        """Upload a store; empty directories as objects whose names end with a slash, as consoles make them."""
        for path in sorted(root.rglob("*")):
            key = f"{name}/{path.relative_to(root).as_posix()}"
            if path.is_file():
                self.put(key, path.read_bytes())
            elif not any(path.iterdir()):
                self.put(f"{key}/", b"")

    def tree(self, name: str) -> dict[str, bytes]:
        """Return every object below a prefix, marks of directories aside."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=f"{name}/")
        keys = [found["Key"] for page in pages for found in page.get("Contents", ()) if not found["Key"].endswith("/")]
        return {key[len(name) + 1 :]: self.get(key) for key in keys}

    def get(self, key: str) -> bytes:
        data: bytes = self.client.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        return data
