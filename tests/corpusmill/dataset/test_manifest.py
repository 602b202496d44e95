"""The manifest's bytes and back."""

from typing import Any

import pytest

from corpusmill.dataset.manifest import FORMAT, FORMAT_VERSION, decode, encode


def manifest_of(lengths: list[int]) -> dict[str, Any]:
    split = {"rows": sum(lengths), "distributions": {"length": lengths, "pieces": [0, 2]}}
    head = {"format": FORMAT, "format_version": FORMAT_VERSION}
    return {**head, "splits": {"train": split}, "files": []}


@pytest.mark.parametrize(
    "lengths", [[], [0, 0, 5], [0] * 65_535 + [1], [0, 7] + [0] * 99_998 + [1]]
)
def test_a_manifest_is_read_as_it_was_written(lengths: list[int]) -> None:
    assert decode(encode(manifest_of(lengths)), "out") == manifest_of(lengths)


def test_a_distribution_of_books_is_short() -> None:
    content = encode(manifest_of([0, 7] + [0] * 99_998 + [1])).decode()
    assert '"1": 7,' in content
    assert '"100000": 1' in content
    assert len(content) < 300
