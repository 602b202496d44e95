"""Emulators of Google Cloud Storage and S3, each with a proxy that counts and injects faults."""

import os
import re
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from threading import Lock, Thread
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

import requests

# What happens to a request: it is answered with a status ("503"), perhaps with a code of S3's ("403
# ExpiredToken"), its answer is lost after the work is done ("lost"), its answer breaks off in the
# middle ("cut"), or the connection is closed ("refused").
Fault = str


@dataclass(frozen=True)
class Request:
    """One request as the proxy sees it.

    Attributes:
        method: GET, PUT, ...
        path: path without its query, unquoted.
        query: query of the URL.
        range: the header that requests a range of bytes.
        bytes: size of the body.
        name: name of the object, if the body holds it.
    """

    method: str
    path: str
    query: str
    range: str
    bytes: int
    name: str = ""

    @property
    def upload(self) -> str:
        """Id of the upload that it continues, of Google's storage."""
        return parse_qs(self.query).get("upload_id", [""])[0]

    @property
    def changes(self) -> bool:
        """Whether it may change an object."""
        return self.method not in {"GET", "HEAD"}


@dataclass
class Proxy:
    """A proxy of an emulator.

    Attributes:
        url: URL of the proxy.
        requests: the requests that came.
        fault: chooses what happens to a request; None forwards it.
        on_change: is called before a request is forwarded that changes something.
        seconds: how long each request takes at least.
        target: host and port of the emulator.
        uploads: those to Google's storage that have a condition, by their ids.
    """

    url: str
    requests: list[Request] = field(default_factory=list)
    fault: Callable[[Request], Fault | None] = lambda _: None
    on_change: Callable[[Request], object] = lambda _: None
    seconds: float = 0.0
    target: str = ""
    lock: Lock = field(default_factory=Lock)
    creating: Lock = field(default_factory=Lock)
    uploads: dict[str, Request] = field(default_factory=dict)

    def judge(self, request: Request) -> Fault | None:
        """Record a request and return its fault."""
        with self.lock:
            self.requests.append(request)
            fault = self.fault(request)
            if fault is None and request.changes:
                self.on_change(request)
            return fault

    def clear(self) -> None:
        """Forget the requests, and forward all further ones."""
        self.requests, self.fault, self.seconds = [], lambda _: None, 0.0
        self.on_change = lambda _: None

    def counts(self) -> Counter[str]:
        """Return the number of requests of each method."""
        return Counter(request.method for request in self.requests)


def on_kth(
    k: int, fault: Fault, wanted: Callable[[Request], bool]
) -> Callable[[Request], Fault | None]:
    """Return a fault for a single request: the k-th, from 0, of those that are wanted."""
    numbers = count()

    def judge(request: Request) -> Fault | None:
        return fault if wanted(request) and next(numbers) == k else None

    return judge


class _Handler(BaseHTTPRequestHandler):
    proxy: Proxy
    target: str
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except (ConnectionError, HTTPException):
            self.close_connection = True

    def do_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        request = Request(
            self.command, unquote(parts.path), parts.query,
            self.headers.get("Range", ""), len(body), _name_in(parts.query, body),
        )  # fmt: skip
        fault = self.proxy.judge(request)
        time.sleep(self.proxy.seconds)
        if fault == "refused":
            self.connection.close()
            self.close_connection = True
        elif fault and fault[0].isdigit():
            status, _, code = fault.partition(" ")
            about = f"<Error><Code>{code}</Code><Message>{code}</Message></Error>"
            self.answer(int(status), {}, about.encode() if code else b"")
        else:
            # Neither emulator looks at a condition and writes in one step.
            is_whole = "alt=media" in request.query and not request.range
            with self.proxy.creating if self._condition(request) or is_whole else nullcontext():
                if self._holds(request):
                    self.forward(request, body, fault)
                else:
                    self.answer(412, {}, b"")

    def _condition(self, request: Request) -> Request | None:
        """Return the request that named a condition under which this one writes an object."""
        if self.headers.get("If-Match") or self.headers.get("If-None-Match"):
            return request
        if not request.upload:
            return request if "ifGenerationMatch" in request.query else None
        is_last = re.fullmatch(r"bytes [^*]+/[0-9]+", self.headers.get("Content-Range", ""))
        return self.proxy.uploads.get(request.upload) if is_last else None

    def _holds(self, request: Request) -> bool:
        """Whether the condition holds; the emulator of Google's storage does not look at it."""
        begun = self._condition(request)
        if begun is None or "ifGenerationMatch" not in begun.query:
            return True
        place = f"{begun.path.removeprefix('/upload')}/{quote(begun.name, safe='')}"
        return parse_qs(begun.query)["ifGenerationMatch"] == [self._generation(place)]

    def _generation(self, place: str) -> str:
        answer = requests.get(f"http://{self.target}{place}", timeout=60)
        return answer.json()["generation"] if answer.ok else "0"

    def forward(self, request: Request, body: bytes, fault: Fault | None) -> None:
        connection = HTTPConnection(self.target, timeout=60)
        headers = {k: v for k, v in self.headers.items() if k.lower() != "connection"}
        connection.request(self.command, self.path, body, headers)
        response = connection.getresponse()
        content = response.read()
        connection.close()
        begun = parse_qs(urlsplit(response.getheader("Location", "")).query).get("upload_id")
        if begun and "ifGenerationMatch" in request.query:
            self.proxy.uploads[begun[0]] = request
        elif response.status < 300:
            self.proxy.uploads.pop(request.upload, None)
        if fault == "lost":
            self.connection.close()
            self.close_connection = True
            return
        headers = dict(response.getheaders())
        if "alt=media" in request.query and not request.range:  # the emulator does not tell it
            place = urlsplit(self.path).path.removeprefix("/download")
            headers["X-Goog-Generation"] = self._generation(place)
        self.answer(response.status, headers, content, fault == "cut")

    def answer(
        self, status: int, headers: Mapping[str, str], content: bytes, cut: bool = False
    ) -> None:
        self.send_response_only(status)
        hop_by_hop = {"connection", "transfer-encoding", "content-length"}
        for name, value in headers.items():
            if name.lower() not in hop_by_hop:
                self.send_header(name, value)
        length = headers.get("Content-Length", "0") if self.command == "HEAD" else len(content)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if cut else content)
        if cut:
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do_PATCH = do_any  # noqa: N815

    def log_message(self, *_: Any) -> None:
        pass


def _name_in(query: str, body: bytes) -> str:
    """Return the name in the first part of an upload to Google Cloud Storage."""
    if "uploadType" not in query:
        return ""
    match = re.search(rb'"name": ?"([^"]*)"', body[:2000])
    return match.group(1).decode() if match else ""


@contextmanager
def _start_proxy(target: str) -> Iterator[Proxy]:
    proxy = Proxy("", target=target)
    handler = type("Handler", (_Handler,), {"proxy": proxy, "target": target})
    server = type("Server", (ThreadingHTTPServer,), {"request_queue_size": 128})(
        ("127.0.0.1", 0), handler
    )
    server.daemon_threads = True
    proxy.url = f"http://127.0.0.1:{server.server_address[1]}"
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


# A server sends headers and body apart; Nagle's algorithm would hold each body back for 40 ms. Of
# more than five connections at once it would turn some away, which come back after a second. And
# Google's emulator would write a file that names all objects at each change.
_WITHOUT_DELAYS = """
import runpy, socketserver, sys
socketserver.StreamRequestHandler.disable_nagle_algorithm = True
socketserver.TCPServer.request_queue_size = 128
del sys.argv[0]
if sys.argv[0] == "gcp_storage_emulator":
    from gcp_storage_emulator.storage import Storage
    Storage._write_config_to_file = lambda self: None
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


@contextmanager
def _start_emulator(*module: str) -> Iterator[str]:
    port = _free_port()
    program = [sys.executable, "-c", _WITHOUT_DELAYS, *module]
    command = [*program, "--host=127.0.0.1", f"--port={port}"]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={"MOTO_S3_DEFAULT_MAX_KEYS": "20", **os.environ, "PYTHONPATH": ""},
    )  # fmt: skip
    try:
        while process.poll() is None:
            try:
                requests.get(f"http://127.0.0.1:{port}/", timeout=60)
                break
            except requests.ConnectionError:
                time.sleep(0.1)
        assert process.poll() is None, "the emulator ended at once"
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


@dataclass
class ObjectStores:
    """Both emulators.

    Attributes:
        proxies: {scheme: proxy} for "gs" and "s3".
    """

    proxies: dict[str, Proxy]
    _numbers: Iterator[int] = field(default_factory=count)

    def environment(self) -> dict[str, str]:
        """Return the environment of a process that uses them with `beam_arguments`."""
        return {
            "STORAGE_EMULATOR_HOST": self.proxies["gs"].url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def beam_arguments(self) -> tuple[str, ...]:
        """Return the arguments after `--`."""
        return (f"--s3_endpoint_url={self.proxies['s3'].url}",)

    def create_bucket(self, scheme: str) -> str:
        """Create a bucket and return its URL, such as gs://bucket-3."""
        name, url = f"bucket-{os.getpid()}-{next(self._numbers)}", self.proxies[scheme].url
        if scheme == "gs":
            answer = requests.post(f"{url}/storage/v1/b", json={"name": name}, timeout=60)
        else:
            answer = requests.put(f"{url}/{name}", timeout=60)
        assert answer.ok, answer.text
        return f"{scheme}://{name}"


@dataclass(frozen=True)
class Bucket:
    """A bucket for one test.

    Attributes:
        url: URL of the bucket, such as gs://bucket-3.
        proxy: proxy of its store.
        beam_arguments: arguments after `--`.
    """

    url: str
    proxy: Proxy
    beam_arguments: tuple[str, ...]

    @property
    def scheme(self) -> str:
        return self.url.split(":")[0]

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]


@contextmanager
def start_object_stores() -> Iterator[ObjectStores]:
    """Start both emulators on the loopback interface."""
    google = _start_emulator("gcp_storage_emulator", "start", "--in-memory", "--quiet")
    amazon = _start_emulator("moto.server")
    with google as gs, amazon as s3, _start_proxy(gs) as to_gs, _start_proxy(s3) as to_s3:
        yield ObjectStores({"gs": to_gs, "s3": to_s3})
