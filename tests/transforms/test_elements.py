from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from apache_beam import coders

from transforms.elements import (
    ArrowBatchCoder,
    Candidates,
    RejectsFile,
    Segment,
    Task,
    WrittenFile,
)

ROWS = 20_000
BATCH = pa.RecordBatch.from_pydict(
    {
        "document": pa.array(np.arange(ROWS, dtype=np.uint64)),
        "input_ids": pa.array([[number, -1] for number in range(ROWS)], pa.list_(pa.int16())),
    }
)


def test_a_batch_comes_back_as_it_was() -> None:
    coder = ArrowBatchCoder()
    decoded = coder.decode(coder.encode(BATCH))
    assert decoded.equals(BATCH)
    assert decoded.schema == BATCH.schema
    assert coder.is_deterministic()


def test_a_slice_travels_without_the_batch_it_is_of() -> None:
    coder = ArrowBatchCoder()
    slice_of_three = BATCH.slice(7000, 3)
    encoded = coder.encode(slice_of_three)
    assert coder.decode(encoded).equals(slice_of_three)
    assert len(encoded) < 2000 < len(coder.encode(BATCH)) // 10


@pytest.mark.parametrize(
    "element",
    [
        Task(3, "gs://bucket/ä b", 2**40, 2**24),
        RejectsFile(1, "r.jsonl", 10**9),
        Segment(99_999, 8192, "spill.arrow", 2**40, 2**31),
        Segment(0, 0, "", 0, 0),
        WrittenFile(2, 0, "shard.parquet", 2**33, 2**42, 2**35, "ab" * 32),
        Candidates(str(2**64 - 1), 2**33, "c.arrow", 2**40, 2**31),
    ],
)
def test_an_element_comes_back_as_it_was_from_a_row(element: Any) -> None:
    coder = coders.registry.get_coder(type(element))
    assert isinstance(coder, coders.RowCoder)
    assert tuple(coder.decode(coder.encode(element))) == tuple(element)


def test_batches_are_never_pickled() -> None:
    assert isinstance(coders.registry.get_coder(pa.RecordBatch), ArrowBatchCoder)
