"""A data set of more files than one task moves: 400 shards, each with its provenance."""

from pathlib import Path

import pytest

from pipeline.runners.prism import find_program
from tests.tools.jobs import build, digests
from transforms.task_sizes import TaskSizes

SHARDS = ("--num-shards", "400")
LOOPBACK = "--environment_type=LOOPBACK"


@pytest.fixture(scope="module")
def here(
    sample: Path, tokenizer_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """The files of the local runner."""
    output = tmp_path_factory.mktemp("many") / "out"
    build([sample], tokenizer_path, output, *SHARDS)
    return digests(output)


@pytest.mark.parametrize(
    "engine",
    [
        ("PortableRunner", "--", "--job_endpoint=embed", LOOPBACK),
        pytest.param(
            ("PrismRunner", "--", LOOPBACK),
            marks=pytest.mark.skipif(not find_program(), reason="Prism is missing: `make prism`"),
        ),
    ],
    ids=lambda engine: engine[0],
)
def test_many_shards_are_those_of_the_local_runner(
    engine: tuple[str, ...], here: dict[str, str], sample: Path, tokenizer_path: Path, output: Path
) -> None:
    assert len(here) > TaskSizes().fan_in
    build([sample], tokenizer_path, output, *SHARDS, "--runner", *engine)
    assert digests(output) == here
