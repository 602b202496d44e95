"""Spark: what is refused, and a job of our command on a job server that stands in for Beam's."""

import sys
from pathlib import Path

import psutil
import pytest

from pipeline.job_options import RunOptions
from pipeline.runners.engine import Reach
from pipeline.runners.spark import SparkEngine
from tests.tools.jobs import build, digests, leftovers, shards_of

CLUSTER = "--spark_master_url=spark://host:7077"
# Stands in for Java: Beam's own job service, at the port that its job server is told to take.
JAVA = f"""#!{sys.executable}
import os, signal, sys
from pathlib import Path
from apache_beam.runners.portability.local_job_service import LocalJobServicer
Path(__file__).with_suffix(".pid").write_text(str(os.getpid()))
jobs = LocalJobServicer()
jobs.start_grpc_server(int(sys.argv[sys.argv.index("--job-port") + 1]))
signal.pause()
"""


def engine(*arguments: str) -> SparkEngine:
    return SparkEngine(RunOptions(runner="SparkRunner"), arguments)


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        (("--job_server_java_launcher=no-java",), ("--runner SparkRunner", "no-java is not inst")),
        (("--spark_job_server_jar=/a.jar",), ("/a.jar: there is no such", "SPARK_JOB_SERVER_JAR")),
        (
            ("--spark_job_server_jar=http://127.0.0.1:1/a.jar", "--jar_cache_dir=/tmp"),
            ("--runner SparkRunner", "cannot be downloaded", "SPARK_JOB_SERVER_JAR"),
        ),
        ((CLUSTER,), ("--runner SparkRunner", "lacks this job's code", "EXTERNAL")),
    ],
)
def test_what_is_missing_is_named(
    flags: tuple[str, ...], parts: tuple[str, ...], sample: Path, tokenizer_path: Path, output: Path
) -> None:
    java = "--job_server_java_launcher=python3"
    arguments = ("--runner", "spark", "--", java, *flags)
    build([sample.resolve()], tokenizer_path, output, *arguments, refused=parts)
    assert leftovers(output) == []


def test_workers_of_a_local_spark_are_here_and_its_driver_ends_with_the_command() -> None:
    assert engine().reach is Reach.HERE
    assert engine(CLUSTER).reach is Reach.SHARED
    assert engine(CLUSTER, "--environment_type=EXTERNAL").reason_to_wait
    assert not engine("--job_endpoint=host:8099").reason_to_wait


def test_a_job_leaves_the_same_bytes_and_no_job_server(
    sample: Path, tokenizer_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java, jar = tmp_path / "java", tmp_path / "job-server.jar"
    java.write_text(JAVA)
    java.chmod(0o755)
    jar.touch()
    monkeypatch.setenv("SPARK_JOB_SERVER_JAR", str(jar))
    flags = ("--runner", "SparkRunner", "--", f"--job_server_java_launcher={java}")
    build([sample.resolve()], tokenizer_path, tmp_path / "spark", *flags)
    build([sample.resolve()], tokenizer_path, tmp_path / "local")
    assert shards_of(digests(tmp_path / "spark")) == shards_of(digests(tmp_path / "local"))
    assert not psutil.pid_exists(int(java.with_suffix(".pid").read_text()))
