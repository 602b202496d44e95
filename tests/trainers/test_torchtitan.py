"""torchtitan's own loaders over packed rows, by the programs of the page on it."""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from corpusmill.objectives.gpt import GptOptions
from tests.tools.small_datasets import SAMPLE, Recipe, write_dataset
from tests.tools.trainer_programs import (
    BATCHES,
    as_rows,
    borrow,
    expect_next_tokens,
    load,
    read_program,
    rows_of,
)

PAGE, WIDTH, ROWS = "train-with-torchtitan.md", 64, 3
Expected = list[tuple[tuple[int, ...], ...]]


@pytest.fixture
def expected(tmp_path: Path) -> Expected:
    """What each row of a data set teaches: tokens, labels and positions."""
    options = GptOptions(mode="pack", max_seq_length=WIDTH)
    manifest = write_dataset(tmp_path / "packed", Recipe(options, text=2 * SAMPLE))
    rows = [expect_next_tokens(row, WIDTH) for row in rows_of(tmp_path / "packed", manifest)]
    assert len(rows) > BATCHES * ROWS
    return rows


def split_batches(batches: Iterator[Any]) -> Expected:
    """Return the rows of the first hundred batches."""
    found = Expected()
    for inputs, labels in islice(batches, BATCHES):
        arrays = (inputs["input"], labels, inputs["positions"])
        found += zip(*(as_rows(array, WIDTH) for array in arrays), strict=True)
    return found


def check_loader(build: Callable[[], Any], expected: Expected) -> tuple[Any, Any]:
    """Check the rows of a loader, none of which comes too often, and that another one goes on."""
    loader, resumed = build(), build()
    batches, left = iter(loader), list(expected)
    found = split_batches(batches)
    assert len(found) == BATCHES * ROWS
    for row in found:
        left.remove(row)
    resumed.load_state_dict(loader.state_dict())
    assert split_batches(iter(resumed)) == split_batches(batches)
    return loader, resumed


def test_torchtitan_0_3_reads_packed_rows(tmp_path: Path, expected: Expected) -> None:
    with borrow("torchtitan-0.3.0"):
        load("torchtitan.components.dataloader")
        loader_class = read_program(PAGE, "corpusmill_llama3_030.py")["CorpusmillDataLoader"]
        config = loader_class.Config(dataset_path=str(tmp_path / "packed"), seed=1)

        def build() -> Any:
            return config.build(
                dp_world_size=1, dp_rank=0, tokenizer=None, seq_len=WIDTH, local_batch_size=ROWS
            )

        check_loader(build, expected)


def test_its_next_data_layer_reads_packed_rows(tmp_path: Path, expected: Expected) -> None:
    with borrow("torchtitan"):
        data = load("torchtitan.components.data")
        packed_rows = read_program(PAGE, "corpusmill_llama3.py")["packed_rows"]

        def build() -> Any:
            config = data.GrainDataLoader.Config(dataset=packed_rows(str(tmp_path / "packed")))
            return config.build(
                dp_world_size=1,
                dp_rank=0,
                tokenizer=None,
                max_context_length=WIDTH,
                num_tokens_per_batch=ROWS * WIDTH,
            )

        for loader in check_loader(build, expected):
            loader.close()


def test_its_mixture_takes_packed_rows(tmp_path: Path, expected: Expected) -> None:
    with borrow("torchtitan"):
        data = load("torchtitan.components.data")
        packed_rows = read_program(PAGE, "corpusmill_llama3.py")["packed_rows"]
        parts = [
            data.WeightedDataset(dataset=packed_rows(str(tmp_path / "packed")), weight=weight)
            for weight in (3, 1)
        ]
        config = data.GrainDataLoader.Config(dataset=data.DatasetMixConfig(datasets=tuple(parts)))
        loader = config.build(
            dp_world_size=1, dp_rank=0, tokenizer=None, max_context_length=WIDTH,
            num_tokens_per_batch=ROWS * WIDTH,
        )  # fmt: skip
        assert {*split_batches(iter(loader))} <= {*expected}
        loader.close()


@pytest.mark.parametrize(
    ("program", "title"),
    [("torchtitan-0.3.0", "corpusmill_llama3_030.py"), ("torchtitan", "corpusmill_llama3.py")],
)
def test_the_program_of_the_page_is_a_configuration(program: str, title: str) -> None:
    with borrow(program):
        load("torchtitan.models.llama3.config_registry")
        config = read_program(PAGE, title)["llama3_debugmodel"]()
        assert type(config).__qualname__ == "Trainer.Config"
