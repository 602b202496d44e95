"""Beam's local job service, with a worker on each of several hosts.

Unpatched, the service has one worker per job, which must be on the same machine.
"""

import sys
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any, ClassVar

from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_job_api_pb2, beam_runner_api_pb2
from apache_beam.runners.portability import local_job_service
from apache_beam.runners.portability.fn_api_runner import fn_runner, worker_handlers


class _WorkerElsewhere(worker_handlers.ExternalWorkerHandler):
    """A worker on the next host."""

    service = ""
    hosts = 0
    pools: ClassVar[Iterator[str]] = iter(())

    def start_worker(self) -> None:
        self._external_payload.endpoint.url = next(self.pools)
        super().start_worker()

    def host_from_worker(self) -> str:
        return self.service


class _Job(local_job_service.BeamJob):
    """A job with a worker on each host."""

    def _invoke_runner(self) -> Any:
        self.set_state(beam_job_api_pb2.JobState.RUNNING)
        runner = fn_runner.FnApiRunner(provision_info=self._provision_info)
        runner._num_workers = _WorkerElsewhere.hosts
        return runner.run_via_runner_api(self._pipeline_proto, self.pipeline_options())


def main(port_file: str, address: str, *pools: str) -> None:
    """Serve until the process is killed.

    Args:
        port_file: the file for the port of the service, on the loopback interface.
        address: of this machine, for the hosts.
        pools: the addresses of the hosts' pools.
    """
    # The timed flush loses elements, as it does in the local runner.
    worker_handlers.DATA_BUFFER_TIME_LIMIT_MS = 0
    _WorkerElsewhere.service, _WorkerElsewhere.hosts = address, len(pools)
    _WorkerElsewhere.pools = cycle(pools)
    worker_handlers.WorkerHandler.register_environment(
        common_urns.environments.EXTERNAL.urn, beam_runner_api_pb2.ExternalPayload
    )(_WorkerElsewhere)
    port = local_job_service.LocalJobServicer(beam_job_type=_Job).start_grpc_server()
    Path(port_file).write_text(str(port), encoding="utf-8")
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main(*sys.argv[1:])
