"""A data set that is replaced while readers have it open."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpusmill.dataset.ownership import read_record, remove_version
from corpusmill.errors import UserError
from corpusmill.location import locate
from corpusmill.reading.data_set import DataSet
from tests.tools.small_datasets import Recipe, write_version


def rows_of(data: DataSet, samples: np.ndarray) -> list[list[int]]:
    return [row["input_ids"].tolist() for row in data.take(samples)]


@pytest.mark.parametrize("damaged", ["refuse", "skip"])
def test_who_reads_what_was_replaced_is_told_to_open_it_again(
    damaged: Any, tmp_path: Path, cache_folder: Path
) -> None:
    folder, shards = tmp_path / "out", write_version(tmp_path / "out").splits["train"].shards
    opened = DataSet(folder, cache_folder=cache_folder, damaged=damaged)
    begun = rows_of(opened, np.arange(opened.shard_sizes[0]))
    content = (folder / shards[1].file).read_bytes()
    with (folder / shards[1].file).open("rb") as stream:
        begin = stream.read(100)
        write_version(folder, Recipe(shards=2), number=2)
        # Nothing changes for readers as long as the files are there.
        assert len(rows_of(opened, np.array([opened.shard_sizes[0]]))) == 1
        version = locate(str(folder / "v1"))
        remove_version(locate(str(folder)), 1, read_record(version), ())
        assert not (folder / "v1").exists()
        assert begin + stream.read() == content
    assert rows_of(opened, np.arange(opened.shard_sizes[0])) == begun
    with pytest.raises(UserError) as refused:
        opened[len(opened) - 1]
    assert (refused.value.value, refused.value.cause, refused.value.cure) == (
        str(folder),
        "it was changed after it was opened here",
        "Open it again",
    )
    again = DataSet(folder, cache_folder=cache_folder, damaged=damaged)
    assert len(rows_of(again, np.arange(len(again)))) == len(opened)
