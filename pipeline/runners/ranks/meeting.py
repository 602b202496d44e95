"""Where ranks meet: a file in the folder of the output, and the port of rank 0 that it names.

Rank 0 alone listens. The file holds its address, the certificate that it makes for the run, and a
random id for each other rank; only this user can read it. A rank sends its id only to whom has the
key of the certificate, which no file holds, so that what an earlier run left is never believed; and
whoever has no id is not answered (`pipeline.runners.local.gate`). Over the connection of a rank go
environments of workers to it, and how its workers ended from it.
"""

import json
import os
import platform
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import grpc
import msgspec
import psutil
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

import corpusmill
from corpusmill.console.process import INTERRUPTED
from corpusmill.errors import UserError, option
from corpusmill.knobs import knob
from corpusmill.location import Location
from pipeline.runners.engine import Worker
from pipeline.runners.local.gate import ID, Gate
from pipeline.runners.local.worker import CERTIFICATE, FOLDER, HOST_NAME

JOIN = "/corpusmill.Ranks/Join"
SECONDS_TO_MEET = knob("seconds_to_meet", 300)
"""How long ranks wait for one another. Tests name a value, since a busy machine starts slowly."""

SILENT_SECONDS = knob("silent_seconds", 20)
"""Seconds without a sign of life after which the other side is lost. Tests name a value, too."""

# Such signs are asked for, and answered, by gRPC's own threads, whatever Python does.
KEEP_ALIVE = (
    ("grpc.keepalive_time_ms", SILENT_SECONDS * 500),
    ("grpc.keepalive_timeout_ms", SILENT_SECONDS * 500),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
)
SECONDS_TO_START = knob("seconds_to_start", 30)
"""How long a job that has ended at once waits for ranks, to let them end. Tests name a value."""

_SECONDS_TO_ANSWER, _SECONDS_TO_END = 5, 5
_LOOPBACK = "127.0.0.1"


class Announcement(msgspec.Struct, frozen=True, tag_field="corpusmill", tag="ranks"):
    """What the file holds.

    Attributes:
        address: of rank 0, "host:port".
        certificate: that of its server, in PEM.
        ids: the id of each other rank, by its number.
    """

    address: str
    certificate: str
    ids: dict[int, str]


class Hello(msgspec.Struct, frozen=True):
    """What ranks say to one another first.

    Attributes:
        host: name of the machine.
        workers: number of workers there.
        log: the file of its log; empty for none.
        versions: of the program and of Python, which must be the same everywhere.
    """

    host: str
    workers: int
    log: str
    versions: str

    @classmethod
    def own(cls, workers: int, log: str | None) -> "Hello":
        """Return what this process says."""
        versions = f"corpusmill {corpusmill.__version__}, Python {platform.python_version()}"
        return cls(socket.gethostname(), workers, log or "", versions)


class RemoteWorker(Worker):
    """A worker of another rank.

    Args:
        member: the rank.
    """

    def __init__(self, member: "Member") -> None:
        self.member, self._name = member, ""
        self._cause, self._has_ended = "", threading.Event()

    def send(self, environment: dict[str, str]) -> None:
        """Give it its environment, as `Worker.send`."""
        self._name = environment["WORKER_ID"]
        self.member.begin(self._name, self, environment)

    def wait(self, seconds: float | None = None) -> str:
        """Wait for its end, as `Worker.wait`."""
        self._has_ended.wait(seconds)
        return self._cause

    def kill(self) -> None:
        """End it, which the other machine says it has done."""
        if self._name:
            self.member.tell({"kill": self._name})
        else:
            self.end("")

    def end(self, cause: str) -> None:
        """Note that it has ended, and how it failed."""
        if not self._has_ended.is_set():
            self._cause = f"{self.member}: {cause}" if cause else ""
            self._has_ended.set()


class Member:
    """Another rank that has come.

    Args:
        number: of the rank.
        hello: what it has said first.
    """

    def __init__(self, number: int, hello: Hello) -> None:
        self.hello, self.number, self.is_lost = hello, number, False
        self._messages: SimpleQueue[bytes | None] = SimpleQueue()
        self._running: dict[str, RemoteWorker] = {}

    def __str__(self) -> str:
        log = f" (log: {self.hello.log})" if self.hello.log else ""
        return f"rank {self.number} on {self.hello.host}{log}"

    def tell(self, message: dict[str, Any]) -> None:
        """Send it a message."""
        self._messages.put(json.dumps(message).encode())

    def begin(self, name: str, worker: RemoteWorker, environment: dict[str, str]) -> None:
        """Let one of its workers begin."""
        self._running[name] = worker
        self.tell({"begin": environment})
        if self.is_lost:
            self.lose()

    def messages(self) -> Iterator[bytes]:
        """Yield what is told, until it is dismissed or lost."""
        return iter(self._messages.get, None)

    def listen(self, requests: Iterator[bytes]) -> None:
        """Note how its workers end, until the connection does."""
        with suppress(Exception):  # gRPC's, when a connection breaks
            for content in requests:
                ended = json.loads(content)
                self._running.pop(ended["name"]).end(ended["cause"])
        self.lose()

    def lose(self) -> None:
        """Take it for dead, with all of its workers."""
        self.is_lost = True
        self._messages.put(None)
        for worker in list(self._running.values()):
            worker.end("it has ended, or gives no sign of life")

    def dismiss(self, status: int, why: str = "") -> None:
        """Let it end with a status, and say why if that is its own fault."""
        self.tell({"end": status, "why": why})
        self._messages.put(None)


class Meeting:
    """Rank 0's side: who has come.

    Args:
        size: number of ranks.
        host: the address at which rank 0 listens.

    Raises:
        UserError: it cannot listen there.
    """

    def __init__(self, size: int, host: str) -> None:
        key, certificate = make_certificate()
        self._certificate, self._members = certificate.decode(), dict[int, Member]()
        self._changed, self._begin = threading.Condition(), time.monotonic()
        credentials = grpc.ssl_server_credentials([(key, certificate)])
        self.gate = Gate(host, credentials, KEEP_ALIVE)
        self.gate.variables = {CERTIFICATE: self._certificate, FOLDER: str(Path.cwd())}
        self._numbers = {self.gate.make_id(): number for number in range(1, size)}
        service, _, method = JOIN[1:].partition("/")
        join = {method: grpc.stream_stream_rpc_method_handler(self._join)}
        self.gate.services.append(grpc.method_handlers_generic_handler(service, join))

    def announce(self, place: Location) -> None:
        """Write the file by which the others come.

        Raises:
            UserError: others than this user could read it, or the ranks of another job meet there.
        """
        former = read_announcement(place)
        with suppress(grpc.FutureTimeoutError):
            if former:
                open_channel(former).close()
                cause = f"the ranks of another job meet there, at {former.address}"
                raise UserError(str(place), cause, "Wait for its end, or name another output")
        ids = {number: own for own, number in self._numbers.items()}
        content = msgspec.json.encode(Announcement(self.gate.address, self._certificate, ids))
        mask = os.umask(0o077)
        try:
            place.write(content)
        finally:
            os.umask(mask)
        if read_announcement(place) is None:
            cause = "its file system does not keep files from others, and ranks meet by a secret"
            raise UserError(str(place), cause, "Name an output on another file system")

    @property
    def members(self) -> list[Member]:
        """The other ranks that are there, by their numbers."""
        with self._changed:
            return [one for _, one in sorted(self._members.items()) if not one.is_lost]

    def wait(self, seconds: float = SECONDS_TO_MEET) -> list[int]:
        """Wait until all ranks have come, but not for longer than this since the beginning.

        Returns:
            The numbers of those who have not come.
        """
        with self._changed:
            while missing := sorted({*self._numbers.values()} - self._members.keys()):
                if not self._changed.wait(self._begin + seconds - time.monotonic()):
                    break
        return missing

    def workers(self) -> list[RemoteWorker]:
        """Return a new worker for each processor of the ranks that are there."""
        members = self.members
        return [RemoteWorker(one) for one in members for _ in range(one.hello.workers)]

    def close(self, status: int) -> None:
        """Let all ranks end with a status, also those that are just starting, and then itself."""
        self.wait(0 if status == INTERRUPTED else SECONDS_TO_START)
        for member in self.members:
            member.dismiss(status)
        self.gate.close(_SECONDS_TO_END)

    def _join(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        number = self._numbers.get(dict(context.invocation_metadata())[ID])
        if number is None:  # a worker's id
            return
        hello = msgspec.json.decode(next(requests), type=Hello)
        member = Member(number, hello)
        with self._changed:
            former, self._members[number] = self._members.get(number), member
            self._changed.notify_all()
        if former:  # its launcher has started it once more
            former.lose()
        context.add_callback(member.lose)
        threading.Thread(target=member.listen, args=(requests,), daemon=True).start()
        yield msgspec.json.encode(Hello.own(0, None))
        yield from member.messages()


def read_announcement(place: Location) -> Announcement | None:
    """Read the file by which ranks meet; None if there is none that only this user can read."""
    with suppress(OSError, msgspec.MsgspecError):
        path = place.local_path()
        if path is None or not path.stat().st_mode & 0o077:
            return msgspec.json.decode(place.read(), type=Announcement)
    return None


def open_channel(announced: Announcement) -> grpc.Channel:
    """Connect to rank 0.

    Raises:
        grpc.FutureTimeoutError: nobody answers there, or nobody with the key of the certificate.
    """
    credentials = grpc.ssl_channel_credentials(announced.certificate.encode())
    options = (("grpc.ssl_target_name_override", HOST_NAME), ("grpc.enable_http_proxy", 0))
    channel = grpc.secure_channel(announced.address, credentials, [*options, *KEEP_ALIVE])
    try:
        grpc.channel_ready_future(channel).result(_SECONDS_TO_ANSWER)
    except grpc.FutureTimeoutError:
        channel.close()
        raise
    return channel


def make_certificate() -> tuple[bytes, bytes]:
    """Make a key, and the certificate for it, in PEM.

    It is valid whatever the clocks of machines say, and whatever their names are: who believes it
    has read it where only this user writes.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, HOST_NAME)])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(datetime(2000, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2200, 1, 1, tzinfo=UTC))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST_NAME)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(pem, *plain), certificate.public_bytes(pem)


def find_address(name: str | None, is_on_one_host: bool) -> str:
    """Return the address at which other ranks reach this machine.

    Args:
        name: the user's choice, a name or an address; None to find one.
        is_on_one_host: whether all ranks are on this machine.

    Raises:
        UserError: the name is not known.
    """
    if is_on_one_host and name is None:
        return _LOOPBACK
    try:
        address = socket.gethostbyname(name or socket.gethostname())
    except OSError:
        if name:
            cause = "no address is known for this name"
            cure = "Give an address of this machine"
            raise UserError(option("rank_address", name), cause, cure) from None
        address = _LOOPBACK
    if name or not address.startswith("127."):
        return address
    listed = (one for listed in psutil.net_if_addrs().values() for one in listed)
    addresses = (one.address for one in listed if one.family == socket.AF_INET)
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # the way to the world, to which nothing is sent
        return str(probe.getsockname()[0])
    return next((one for one in addresses if not one.startswith("127.")), _LOOPBACK)
