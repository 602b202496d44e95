"""Beam's job server, which submits a pipeline to Flink, and what it needs on this machine."""

import json
import logging
import shutil
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from apache_beam.options.pipeline_options import (
    FlinkRunnerOptions,
    JobServerOptions,
    PipelineOptions,
)
from apache_beam.runners.portability.flink_runner import FlinkJarJobServer, FlinkRunner

from corpusmill.errors import UserError, option
from pipeline.runners.job_server import StoppableRunner, stopping

# Names the jar of a job server, for those who cannot download Beam's.
JAR_VARIABLE = "FLINK_JOB_SERVER_JAR"

# Flink in the job server's process. By default every stage asks for 512 buffers at once, and small
# references need only 64. Another attempt restarts a worker process that has died.
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
    """Refuse a machine that cannot run the job server, whose jar is downloaded unless one is named.

    Args:
        arguments: all options for Beam.

    Raises:
        UserError: Java or the jar is missing.
    """
    options = PipelineOptions(list(arguments))
    view = options.view_as(JobServerOptions)
    if not shutil.which(view.job_server_java_launcher):
        raise UserError(
            f"{option('runner')} FlinkRunner",
            f"Beam's job server needs Java, and {view.job_server_java_launcher} is not installed",
            "Install Java 11 or 17, or name a running job server with --job_endpoint after --",
        )
    server = FlinkJarJobServer(options)
    try:
        server.local_jar(server.path_to_jar(), view.jar_cache_dir)
    except ValueError:
        raise UserError(
            f"--flink_job_server_jar {options.view_as(FlinkRunnerOptions).flink_job_server_jar}",
            "there is no such file",
            f"Give the path of a job server's jar, with the flag or with {JAR_VARIABLE}",
        ) from None
    except (OSError, RuntimeError) as error:
        raise UserError(
            f"{option('runner')} FlinkRunner",
            f"Beam's job server cannot be downloaded ({error})",
            f"Give the path of its jar with {JAR_VARIABLE}",
        ) from None


class StoppableFlinkRunner(StoppableRunner, FlinkRunner):
    """Beam's runner, with a job server of its own; a job on a cluster continues without it."""


@contextmanager
def started_runner() -> Iterator[StoppableFlinkRunner]:
    """Make a runner for the length of a block."""
    logging.getLogger().addFilter(_is_not_about_waiting)
    try:
        with stopping(StoppableFlinkRunner()) as runner:
            yield runner
    finally:
        logging.getLogger().removeFilter(_is_not_about_waiting)


def _is_not_about_waiting(record: logging.LogRecord) -> bool:
    """Drop what Beam logs twice a second until Java has started."""
    return not str(record.msg).startswith("Waiting for grpc channel")


@contextmanager
def embedded_configuration() -> Iterator[tuple[str, str]]:
    """Yield a folder with embedded Flink's configuration, and "host:port" of its REST interface."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with TemporaryDirectory(prefix="corpusmill-flink-") as folder:
        # JSON is YAML.
        content = json.dumps({**_EMBEDDED_FLINK, "rest.port": port, "rest.bind-port": str(port)})
        Path(folder, "config.yaml").write_text(content, encoding="utf-8")
        yield folder, f"127.0.0.1:{port}"
