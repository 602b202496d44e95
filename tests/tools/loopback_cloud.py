"""Google's storage on the loopback, in this process, with the sample in it."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import StreamRequestHandler
from typing import Any

import pytest
from apache_beam.internal.gcp import auth
from apache_beam.io.filesystems import FileSystems
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.dataflow.dataflow_runner import DataflowRunner
from gcp_storage_emulator.server import create_server
from google.cloud.storage.blob import Blob

from tests.conftest import CHECKOUT
from tests.tools.small_datasets import gpt_tokenizer

BUCKET = "gs://corpus"
INPUT, TOKENIZER, GPT_TOKENIZER = (
    f"{BUCKET}/in/sample.tokens", f"{BUCKET}/tokenizer.json", f"{BUCKET}/gpt.json",
)  # fmt: skip

# The arguments that a user gives after `--`, and those that keep Beam from looking for Google.
SERVICE = (
    "--project=test-project", "--region=us-central1", f"--temp_location={BUCKET}/beam",
    "--sdk_container_image=registry/corpusmill:1", "--no_auth",
)  # fmt: skip


@contextmanager
def serve_storage() -> Iterator[None]:
    """A bucket with the sample and its tokenizers, while the block lasts."""
    server = create_server("127.0.0.1", 0, in_memory=True, default_bucket="corpus")
    logging.getLogger("gcp_storage_emulator").setLevel(logging.CRITICAL)
    server.start()
    port = server._api._httpd.server_address[1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{port}")
        # Else each process looks for credentials for 22 seconds.
        patch.setattr(auth._Credentials, "_credentials_init", True)
        # It sends headers and bodies apart; Nagle's algorithm would hold each body back for 40 ms.
        patch.setattr(StreamRequestHandler, "disable_nagle_algorithm", True)
        # It does not say which one it sends, and nobody else writes to it.
        patch.setattr(Blob, "generation", 1)
        put(INPUT, (CHECKOUT / "samples" / "wiki.sample.tokens").read_bytes())
        put(TOKENIZER, (CHECKOUT / "tests" / "data" / "tokenizer.json").read_bytes())
        put(GPT_TOKENIZER, gpt_tokenizer().json.encode())
        try:
            yield
        finally:
            server.stop()


def put(path: str, content: bytes) -> None:
    """Write an object."""
    with FileSystems.create(path) as stream:
        stream.write(content)


def listing(folder: str) -> dict[str, int]:
    """The objects below a folder, by their names in it."""
    results = FileSystems.match([f"{folder}/**"])[0].metadata_list
    return {entry.path.removeprefix(f"{folder}/"): entry.size_in_bytes for entry in results}


@contextmanager
def keep_translations() -> Iterator[list[beam_runner_api_pb2.Pipeline]]:
    """The pipelines that Beam translates for Dataflow, while the block lasts."""
    kept: list[beam_runner_api_pb2.Pipeline] = []
    translate = DataflowRunner.run_pipeline

    def keep(runner: DataflowRunner, *arguments: Any, **named: Any) -> Any:
        result = translate(runner, *arguments, **named)
        kept.append(runner.proto_pipeline)
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DataflowRunner, "run_pipeline", keep)
        yield kept
