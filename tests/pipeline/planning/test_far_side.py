"""Corpora of terabytes on paper: no call, worker or file of a build exceeds its bound."""

from pathlib import Path

import pytest

from pipeline.planning.planned_build import write_sample_text
from tests.pipeline.planning.plans import plan
from tests.tools.jobs import train

_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<|endoftext|>")
# More examples than the names of shards allow in shards of a gigabyte.
_TOO_MANY = {"a shard", "time of a shard", "time to read and write"}


@pytest.fixture(scope="module")
def large_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer whose tokens are as long as those that people train with."""
    folder = tmp_path_factory.mktemp("tokenizer")
    write_sample_text(folder / "text", 600_000)
    path = folder / "tokenizer.json"
    train(folder / "text", path, "--vocab-size", "8000", "--special-tokens", *_TOKENS)
    return path


@pytest.mark.parametrize(
    ("objective", "flags", "size"),
    [
        ("bert", ("--drop-duplicates",), "1TB"),
        ("bert", ("--drop-duplicates",), "50TB"),
        ("bert", ("--duplicates", "1"), "50TB"),
        ("gpt", (), "10TB"),
        ("gpt", (), "50TB"),
    ],
)
def test_no_bound_is_exceeded(
    objective: str, flags: tuple[str, ...], size: str, large_tokenizer: Path
) -> None:
    engine = ("--runner", "DataflowRunner", "--workers", "1000", "--sample-bytes", "100kB")
    numbers = plan(objective, large_tokenizer, "--corpus-bytes", size, *engine, *flags)
    exceeded = {bound["name"] for bound in numbers["bounds"] if bound["is_exceeded"]}
    assert exceeded == (_TOO_MANY if size == "50TB" and "--drop-duplicates" in flags else set())
    assert numbers["manifest_bytes"] < 100 * 10**6
    assert numbers["worker_bytes"] < 2**29
    for stage in numbers["stages"]:
        # In a second an object store serves thousands of requests.
        assert stage["requests"] < 200 * 10**6
        assert stage["shuffled_bytes"] < 40 * 10**9


def test_each_number_grows_with_what_it_stands_for(large_tokenizer: Path) -> None:
    def stages_of(*flags: str) -> dict[str, dict[str, float]]:
        given = ("--corpus-bytes", "10TB", "--runner", "DataflowRunner", "--sample-bytes", "100kB")
        numbers = plan("bert", large_tokenizer, *given, *flags)
        return {stage["name"].partition(",")[0]: stage for stage in numbers["stages"]}

    usual = stages_of()
    merged = stages_of("--merge-bytes", "10000000000")
    name = "merge documents"
    assert merged[name]["bytes"] > 5 * usual[name]["bytes"]
    assert merged[name]["calls"] < usual[name]["calls"]
    assert merged["build shards"]["references"] < usual["build shards"]["references"]
    few = stages_of("--fan-in", "100", "--buffer-bytes", "1000000")
    assert few["join candidates"]["references"] == 100
    assert few["prepare"]["files"] > usual["prepare"]["files"]
    assert few["prepare"]["memory_bytes"] < usual["prepare"]["memory_bytes"]
