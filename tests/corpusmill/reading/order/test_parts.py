from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.dataset.manifest import Manifest, OutputEntry, Shard, Split
from corpusmill.dataset.manifest_entries import Generation, Provenance, Source
from corpusmill.formats.output_options import OutputOptions
from corpusmill.layout.placement import Layout
from corpusmill.reading.mixture import JoinedSamples
from corpusmill.reading.order.schedule import cut_stretches, find_parts
from tests.tools.manifests import small_manifest, small_shard
from tests.tools.numbered_samples import NumberedSamples

SIZES = (40, 50, 50, 70, 70, 80)


def _manifest(*shards: Shard, added: tuple[int, ...] = ()) -> Manifest:
    """The manifest of some shards, to which others were added after the first ones."""
    generations = tuple(
        Generation(number, Layout(1, 2, 0), f"more{number}" * bool(number), {"train": count})
        for number, count in enumerate(added)
    )
    names = dict.fromkeys(shard.source for shard in shards if shard.source)
    sources = tuple(Source(name, 1, 1, 10) for name in names)
    manifest = small_manifest(
        splits={"train": Split.from_shards(shards, {"length": {1: 6}})},
        provenance=Provenance(1, generations) if added else None,
    )
    return replace(manifest, corpus=replace(manifest.corpus, sources=sources))


def _shards(**entries: list[Any]) -> list[Shard]:
    return [
        small_shard(
            f"{number}.parquet", **{name: values[number] for name, values in entries.items()}
        )
        for number in range(6)
    ]


def _parts(manifest: Manifest, begin: int = 0) -> tuple[int, ...]:
    return find_parts(manifest, "train", manifest.splits["train"].shards[begin:])


def test_shards_of_one_build_and_source_are_one_part() -> None:
    assert _parts(_manifest(*_shards())) == ()
    assert _parts(_manifest(*_shards(source=["wiki"] * 6), added=(6,))) == ()


@pytest.mark.parametrize(
    ("entries", "added", "expected"),
    [
        ({"source": list("aaabbb")}, (), (0, 0, 0, 1, 1, 1)),
        ({}, (2, 3, 1), (0, 0, 1, 1, 1, 2)),
        ({"source": list("abaaba")}, (3, 3), (0, 1, 0, 2, 3, 2)),
    ],
)
def test_sources_and_what_was_added_are_parts(
    entries: dict[str, list[Any]], added: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    manifest = _manifest(*_shards(**entries), added=added)
    assert _parts(manifest) == expected
    # A reader of some of the shards numbers their parts anew.
    later = expected[2:]
    assert _parts(manifest, 2) == tuple(list(dict.fromkeys(later)).index(part) for part in later)


def test_the_parts_of_several_sources_are_numbered_on() -> None:
    parted = NumberedSamples((5, 6, 7), shard_parts=(0, 1, 0))
    joined = JoinedSamples([NumberedSamples((3, 4)), parted, NumberedSamples((8,))])
    assert joined.parts == (0, 0, 1, 2, 1, 3)


def test_stretches_are_cut_where_they_end() -> None:
    assert cut_stretches((5, 3), (), 2) == ((4, 1, 3), (0, 1, 1))
    # Each of two parts has its own, in proportion to its rows.
    assert cut_stretches((6, 2), (0, 1), 4) == ((2, 2, 2, 2), (0, 1, 2, 3))
    assert cut_stretches((), (), 4) == ((), ())


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 2)), min_size=1), st.integers(1, 20))
def test_pieces_follow_each_other_as_the_shards_do(
    shards: list[tuple[int, int]], stretches: int
) -> None:
    sizes, parts = [size for size, _ in shards], [part for _, part in shards]
    cut_sizes, cut_parts = cut_stretches(sizes, parts, stretches)
    ends = np.cumsum(cut_sizes)
    assert {*np.cumsum(sizes)} - {0} <= {*ends.tolist()}
    assert sum(cut_sizes) == sum(sizes)
    of_rows = np.repeat(parts, sizes)
    for stretch in set(cut_parts):
        is_own = np.repeat(np.array(cut_parts) == stretch, cut_sizes)
        assert len({*of_rows[is_own].tolist()}) <= 1
        # No stretch is longer than its share and a row.
        assert is_own.sum() <= sum(sizes) / stretches * 2 + 1


def _in_corpus_order() -> NumberedSamples:
    output = OutputEntry("parquet", OutputOptions(padding="do_not_pad"), 0.0, 1, order="corpus")
    return NumberedSamples((140_000, 222_000), manifest=small_manifest(output=output))


def test_rows_in_the_order_of_the_corpus_are_read_from_its_whole_length() -> None:
    samples = _in_corpus_order()
    order = samples.order(seed=1, window=2**15)
    read = order.locate(np.arange(len(samples)))
    assert np.array_equal(np.sort(read), np.arange(len(samples)))
    # In whatever way text differs from place to place, each tenth of an epoch has its share.
    for tenth in np.array_split(read, 10):
        counts = np.bincount(tenth * 20 // len(samples), minlength=20) / len(tenth)
        assert np.abs(np.cumsum(counts) - np.arange(1, 21) / 20).max() < 0.02


def test_without_shuffling_they_are_read_as_they_are_stored() -> None:
    samples = _in_corpus_order()
    numbers = np.arange(0, len(samples), 1000)
    assert np.array_equal(samples.order(shuffle=False).locate(numbers), numbers)
