from typing import Any

from apache_beam import coders

import transforms.coders  # noqa: F401  registers those of the elements
from transforms.elements import LinesFile, Segment, Task, WrittenFile


def test_an_element_comes_back_as_it_was_from_a_row() -> None:
    elements: list[Any] = [
        Task(3, "gs://bucket/ä b", 2**40, 2**24, [], [], []),
        Task(3, "plan", 0, 1, [Segment(3, 2**31, "spill.arrow", 2**40, 2**31, 2**32 - 1)], [], []),
        Task(3, "plan", 0, 1, [], [Segment(3, 1, "spill.arrow", 0, 1, 1)], []),
        LinesFile(1, "r.jsonl", 10**9, 2**40, "ab" * 32),
        Segment(0, 0, "", 0, 0, 0),
        WrittenFile(2, 0, "shard.parquet", 2**33, 2**42, 2**35, "ab" * 32),
    ]
    for element in elements:
        coder = coders.registry.get_coder(type(element))
        assert isinstance(coder, coders.RowCoder)
        assert tuple(coder.decode(coder.encode(element))) == tuple(element)
