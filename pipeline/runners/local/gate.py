"""The one port at which workers reach this process, which answers only who has an id.

Beam's local runner has four servers that listen on all networks of the machine and answer anybody:
they hand out code and data, take results, and read any file of this machine to whom names it.
"""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import grpc
from apache_beam.portability.api import beam_fn_api_pb2_grpc
from apache_beam.runners.portability.fn_api_runner import worker_handlers
from apache_beam.runners.worker import data_plane
from apache_beam.utils.thread_pool_executor import UnboundedThreadPoolExecutor

from corpusmill.errors import UserError, option

# Beam's workers send theirs with each call, and so do ranks.
ID = "worker_id"
# How Beam sets its servers up: messages of any size, and any number of signs of life.
_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.so_reuseport", 0),
)


class Gate(grpc.GenericRpcHandler):
    """A server at one address, which knows nobody until an id is made.

    Args:
        host: the address at which it listens.
        credentials: of a server that encrypts; None for one that only this machine reaches.
        options: for gRPC.

    Attributes:
        address: "host:port".
        services: what the server does for whom it knows.
        ids: of those whom it answers.
        variables: what its workers need in their environment.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        credentials: grpc.ServerCredentials | None = None,
        options: Sequence[tuple[str, int]] = (),
    ) -> None:
        self.services: list[grpc.GenericRpcHandler] = []
        self.ids: set[str] = set()
        self.variables: Mapping[str, str] = {}
        executor = UnboundedThreadPoolExecutor()
        self._server = grpc.server(executor, handlers=[self], options=[*_OPTIONS, *options])
        wanted = f"[{host}]:0" if ":" in host else f"{host}:0"
        try:
            if credentials:
                port = self._server.add_secure_port(wanted, credentials)
            else:
                port = self._server.add_insecure_port(wanted)
        except RuntimeError:
            cause = "it is no address of this machine, or nothing can listen there"
            raise UserError(option("rank_address", host), cause, "Give another one") from None
        self.address = f"{wanted.removesuffix('0')}{port}"
        self._server.start()

    def make_id(self) -> str:
        """Make an id that nobody can guess, and answer who has it."""
        made = secrets.token_hex(16)
        self.ids.add(made)
        return made

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        """Return what answers a call; None for one that is refused."""
        if dict(details.invocation_metadata or ()).get(ID) not in self.ids:
            return None
        handlers = (service.service(details) for service in self.services)
        return next(filter(None, handlers), None)

    def close(self, seconds: float | None = None) -> None:
        """End the server, after at most so many seconds for calls that have not ended."""
        self._server.stop(seconds).wait()


class _Services:
    """Takes what Beam's functions add to a server."""

    def __init__(self) -> None:
        self.handlers: list[grpc.GenericRpcHandler] = []

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        self.handlers += handlers

    def add_registered_method_handlers(self, *_: object) -> None:
        """Leave out the same methods in another form."""


class GatedServer(worker_handlers.GrpcServer):
    """Beam's servers behind the gate, without those that workers of ours do not call.

    Beam makes it, so that its gate belongs to the class.
    """

    gate: ClassVar[Gate]

    def __init__(self, state: Any, _: object, worker_manager: Any) -> None:
        self.control_handler = worker_handlers.BeamFnControlServicer(worker_manager)
        limit = worker_handlers.DATA_BUFFER_TIME_LIMIT_MS
        self.data_plane_handler = data_plane.BeamFnDataServicer(limit)
        services, calls = _Services(), worker_handlers.GrpcStateServicer(state)
        beam_fn_api_pb2_grpc.add_BeamFnControlServicer_to_server(self.control_handler, services)
        beam_fn_api_pb2_grpc.add_BeamFnDataServicer_to_server(self.data_plane_handler, services)
        beam_fn_api_pb2_grpc.add_BeamFnStateServicer_to_server(calls, services)
        self._handlers, self._ids = services.handlers, set[str]()
        self.gate.services += self._handlers
        self.control_port = self.data_port = self.state_port = self.logging_port = 0

    def make_id(self) -> str:
        """Make the id of a worker of this job."""
        made = self.gate.make_id()
        self._ids.add(made)
        return made

    def close(self) -> None:
        """Answer no worker of this job any more."""
        self.control_handler.done()
        self.gate.ids -= self._ids
        self.gate.services = [one for one in self.gate.services if one not in self._handlers]


@contextmanager
def behind_gate(gate: Gate) -> Iterator[None]:
    """Let Beam serve the workers of its local runner at a gate, for the length of a block."""
    GatedServer.gate, servers = gate, worker_handlers.GrpcServer
    worker_handlers.GrpcServer = GatedServer
    try:
        yield
    finally:
        worker_handlers.GrpcServer = servers
