"""Beam's job server, which gives a pipeline to Flink, and what it needs on this machine."""

import json
import logging
import os
import shutil
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from apache_beam.options.pipeline_options import JobServerOptions, PipelineOptions
from apache_beam.runners.portability.flink_runner import FlinkJarJobServer, FlinkRunner

from corpusmill.errors import UserError
from pipeline.runners.arguments import given_flags

# Names the jar of a job server for those who cannot download Beam's.
JAR_VARIABLE = "FLINK_JOB_SERVER_JAR"

_CHECKOUT = Path(__file__).resolve().parents[2]

# Flink in the job server's process. Buffers: every stage asks for 512 at once by default, and small
# references need no more than 64. Attempts: a worker process that dies is started again.
_EMBEDDED_FLINK = {
    "rest.bind-address": "127.0.0.1",
    "rest.address": "127.0.0.1",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": 5,
    "restart-strategy.fixed-delay.delay": "1 s",
    "taskmanager.memory.network.min": "256m",
    "taskmanager.memory.network.max": "256m",
    "taskmanager.network.sort-shuffle.min-buffers": 64,
}


def check_job_server(arguments: Sequence[str]) -> None:
    """Refuse a machine that cannot run the job server; its jar is downloaded where none is named.

    Args:
        arguments: Beam's own options, complete.

    Raises:
        UserError: no Java, or no jar.
    """
    options = PipelineOptions(list(arguments))
    launcher = options.view_as(JobServerOptions).job_server_java_launcher
    if not shutil.which(launcher):
        raise UserError(
            "--runner FlinkRunner",
            f"Beam's job server needs Java, and there is no {launcher}",
            "Install Java 11 or 17, or name a running job server with --job_endpoint behind --",
        )
    server = FlinkJarJobServer(options)
    named = given_flags(arguments).get("flink_job_server_jar")
    try:
        server.local_jar(server.path_to_jar(), options.view_as(JobServerOptions).jar_cache_dir)
    except ValueError:
        raise UserError(
            f"--flink_job_server_jar {named}",
            "there is no such file",
            f"Give the path of a job server's jar, with the flag or with {JAR_VARIABLE}",
        ) from None
    except (OSError, RuntimeError) as error:
        raise UserError(
            "--runner FlinkRunner",
            f"Beam's job server cannot be downloaded ({error})",
            f"Give the path of its jar with {JAR_VARIABLE}",
        ) from None


class StoppableFlinkRunner(FlinkRunner):
    """Beam's runner, whose job server can be ended before this process ends."""

    def __init__(self) -> None:
        super().__init__()
        self._server: Any = None

    def default_job_server(self, options: PipelineOptions) -> Any:
        """As Beam's, and remembered."""
        self._server = super().default_job_server(options)
        return self._server

    def stop(self) -> None:
        """End the job server; a cluster's job goes on without it."""
        if self._server is not None:
            self._server.stop()


@contextmanager
def started_runner() -> Iterator[StoppableFlinkRunner]:
    """A runner for the length of a block, in which workers find this Python and this checkout.

    Beam starts "python", and sets a handler of Ctrl-C that ends the job server alone.
    """
    runner = StoppableFlinkRunner()
    handler = signal.getsignal(signal.SIGINT)
    logging.getLogger().addFilter(_say_nothing_of_waiting)
    kept = {name: os.environ.get(name) for name in ("PATH", "PYTHONPATH")}
    _prepend("PATH", str(Path(sys.executable).parent))
    _prepend("PYTHONPATH", str(_CHECKOUT))
    try:
        yield runner
    finally:
        runner.stop()
        signal.signal(signal.SIGINT, handler)
        logging.getLogger().removeFilter(_say_nothing_of_waiting)
        for name, value in kept.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _say_nothing_of_waiting(record: logging.LogRecord) -> bool:
    """Beam warns twice a second until Java has started."""
    return not str(record.msg).startswith("Waiting for grpc channel")


def _prepend(name: str, folder: str) -> None:
    before = os.environ.get(name)
    os.environ[name] = f"{folder}{os.pathsep}{before}" if before else folder


@contextmanager
def embedded_configuration() -> Iterator[tuple[str, str]]:
    """A folder with the configuration of embedded Flink, and "host:port" of its REST interface."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with TemporaryDirectory(prefix="corpusmill-flink-") as folder:
        # JSON is YAML.
        content = json.dumps({**_EMBEDDED_FLINK, "rest.port": port, "rest.bind-port": str(port)})
        Path(folder, "config.yaml").write_text(content, encoding="utf-8")
        yield folder, f"127.0.0.1:{port}"
