"""What a rank other than 0 does: it comes to rank 0, and lets its workers work until that ends."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Self

import grpc
import msgspec

from corpusmill.errors import OutageError, UserError, count_things, option
from corpusmill.location import Location
from pipeline.console.run_log import LogOptions, log_event
from pipeline.job_options import RunOptions
from pipeline.launchers import Rank
from pipeline.runners.engine import Worker
from pipeline.runners.local.engine import count_workers_here, start_workers
from pipeline.runners.local.gate import ID
from pipeline.runners.ranks.meeting import (
    JOIN,
    SECONDS_TO_MEET,
    Announcement,
    Hello,
    open_channel,
    read_announcement,
)

_SECONDS_BETWEEN_LOOKS = 0.5


def take_part(rank: Rank, place: Location, options: RunOptions, log: LogOptions) -> int:
    """Work for rank 0 until that ends, and return its exit status.

    Args:
        rank: of this process.
        place: the file by which ranks meet.
        options: of the run, for the number of workers.
        log: where the log goes.

    Raises:
        UserError: this process has another version than rank 0.
        OutageError: rank 0 did not come, or was lost.
    """
    # Before there is any thread, so that they are forks.
    started = start_workers(count_workers_here(options.workers))
    hello, reason = Hello.own(len(started), log.log_file), ""
    end = time.monotonic() + SECONDS_TO_MEET
    while time.monotonic() < end:
        announced = read_announcement(place)
        if announced and (own := announced.ids.get(rank.number)):
            try:
                with Connection(announced, own, hello) as connection:
                    return connection.work([*started])
            except ConnectionRefusedError as error:
                reason = f", where {announced.address} is named, and {error}"
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    seconds = count_things(SECONDS_TO_MEET, "second")
    cause = f"rank 0 was not met within {seconds} by way of {place}{reason}"
    cure = "Check that rank 0 is at work, that this machine sees that folder, and that it reaches "
    cure += f"rank 0 (see {option('rank_address')}); {option('ranks', 1)} lets a process work alone"
    raise OutageError(f"rank {rank.number}", cause, cure)


class Connection:
    """The connection to rank 0.

    Args:
        announced: where rank 0 is.
        own_id: the id of this rank.
        hello: what is said first.

    Raises:
        ConnectionRefusedError: nobody with the key of rank 0 answers, or it does not know the id.
        UserError: rank 0 is of another version.
    """

    def __init__(self, announced: Announcement, own_id: str, hello: Hello) -> None:
        self._own, self._hello, self._address = own_id, hello, announced.address
        try:
            self._channel = open_channel(announced)
        except grpc.FutureTimeoutError:
            raise ConnectionRefusedError("gives no answer") from None
        self._outgoing: SimpleQueue[bytes | None] = SimpleQueue()
        self._running: dict[str, Worker] = {}

    def __enter__(self) -> Self:
        try:
            self._outgoing.put(msgspec.json.encode(self._hello))
            join = self._channel.stream_stream(JOIN)
            requests: Iterator[bytes] = iter(self._outgoing.get, None)
            self._messages = join(requests, metadata=((ID, self._own),))
            answer = msgspec.json.decode(next(self._messages), type=Hello)
        except (grpc.RpcError, StopIteration):
            self.__exit__()
            raise ConnectionRefusedError("does not know this rank") from None
        if answer.versions != self._hello.versions:
            self.__exit__()
            cause = f"it has {self._hello.versions}, and rank 0 on {answer.host} {answer.versions}"
            raise UserError(self._hello.host, cause, "Let all ranks run the same environment")
        fields = {"address": self._address, "workers": self._hello.workers}
        log_event("rank_joined", f"works for rank 0 on {answer.host}", fields)
        return self

    def __exit__(self, *_: object) -> None:
        self._outgoing.put(None)
        self._channel.close()

    def work(self, started: list[Worker]) -> int:
        """Let workers begin and end as rank 0 says, and return its exit status.

        Args:
            started: workers that wait for their environments.

        Raises:
            OutageError: rank 0 is lost.
        """
        with suppress(grpc.RpcError):
            for content in self._messages:
                message = json.loads(content)
                if "end" in message:
                    if message["why"]:
                        raise OutageError(self._hello.host, message["why"], "Others go on")
                    return int(message["end"])
                if "kill" in message:
                    if worker := self._running.get(message["kill"]):
                        worker.kill()
                    continue
                worker = started.pop() if started else start_workers(1)[0]
                self._begin(worker, message["begin"])
        cause = f"rank 0 at {self._address} has ended, or gives no sign of life"
        cure = (
            f"If it has not ended by itself, the same command with {option('resume', True)} goes on"
        )
        raise OutageError(self._hello.host, cause, cure)

    def _begin(self, worker: Worker, environment: dict[str, Any]) -> None:
        name = environment["WORKER_ID"]
        self._running[name] = worker
        with suppress(BrokenPipeError):  # it has died, which is noticed below
            worker.send(environment)

        def watch() -> None:
            cause = worker.wait()
            self._running.pop(name)
            self._outgoing.put(json.dumps({"name": name, "cause": cause}).encode())
            log_event("worker_ended", cause or "it has done its work", {"cause": cause})

        threading.Thread(target=watch, daemon=True).start()
