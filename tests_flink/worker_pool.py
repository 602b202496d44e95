"""Beam's worker pool at one address, so that two of them share a machine as two machines would.

Beam's own program listens on every address of a machine.
"""

import os
import sys
import time

import grpc
from apache_beam.portability.api import beam_fn_api_pb2_grpc
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer
from apache_beam.utils import thread_pool_executor


def main(address: str) -> None:
    """Start workers as processes, until the parent is gone."""
    servicer = BeamFnExternalWorkerPoolServicer(use_process=True, data_buffer_time_limit_ms=-1)
    server = grpc.server(
        thread_pool_executor.shared_unbounded_instance(), options=[("grpc.so_reuseport", 0)]
    )
    server.add_insecure_port(address)
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(servicer, server)
    server.start()
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(1)
    server.stop(0)


if __name__ == "__main__":
    main(sys.argv[1])
