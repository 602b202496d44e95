"""Pipelines as the engines get them, without any worker."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

import apache_beam as beam
from apache_beam.portability.api import beam_runner_api_pb2

from pipeline.console.progress import Counters
from pipeline.job_options import RunOptions
from pipeline.runners.dataflow import DataflowEngine
from pipeline.runners.engine import Run
from pipeline.runners.flink.engine import FlinkEngine
from pipeline.runners.portable import PortableEngine
from tests.tools.job_server import serve_jobs
from tests.tools.loopback_cloud import SERVICE, keep_translations, serve_storage

# Gives a pipeline to an engine, and returns what the engine would run.
Translate = Callable[[Callable[[beam.Pipeline], None]], beam_runner_api_pb2.Pipeline]


@contextmanager
def serve_translations() -> Iterator[Mapping[str, Translate]]:
    """Yield what translates a pipeline for each engine, by its name, while the block lasts."""
    with ExitStack() as stack:
        stack.enter_context(serve_storage())
        jobs = stack.enter_context(serve_jobs())
        pool = ("--environment_type=EXTERNAL", "--environment_config=localhost:1")
        arguments = {
            DataflowEngine: (*SERVICE, "--dry_run=True"),
            FlinkEngine: (f"--job_endpoint={jobs.endpoint}", *pool),
            PortableEngine: (f"--job_endpoint={jobs.endpoint}", *pool),
        }
        runners = {kind: f"{kind.__name__.removesuffix('Engine')}Runner" for kind in arguments}

        def translate_for(kind: type[PortableEngine]) -> Translate:
            engine = kind(RunOptions(runner=runners[kind]), arguments[kind])

            def translate(build: Callable[[beam.Pipeline], None]) -> beam_runner_api_pb2.Pipeline:
                with keep_translations() as kept:
                    engine.submit_pipeline(Run(build, Counters()))
                return (kept or jobs.prepared).pop()

            return translate

        yield {runners[kind]: translate_for(kind) for kind in arguments}
