"""Files of rejects: few lines tell every place, however the input was divided."""

import io
import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.corpus.batches import Reject, RejectColumns
from corpusmill.corpus.reject_lines import RejectWriter, read_rejects

# Distances between rejects, lengths, and reasons.
RECORDS = st.lists(
    st.tuples(st.integers(1, 9), st.integers(0, 3), st.sampled_from(["bad", "worse"])), max_size=40
)


def rejects_of(records: list[tuple[int, int, str]], in_tables: bool) -> list[Reject]:
    places = itertools.accumulate(record[0] for record in records)
    return [
        Reject("f", 7 if in_tables else place, size, reason, "why", place if in_tables else None)
        for place, (_, size, reason) in zip(places, records, strict=True)
    ]


def write(parts: list[list[Reject]], told: int = 2, window: int = 16) -> bytes:
    """Write rejects part by part, and join what each part gives."""
    files = []
    for part in parts:
        sink = io.BytesIO()
        writer = RejectWriter(sink, told, window)
        for reject in part:
            writer.add([reject])
        writer.close()
        assert writer.number == len(part)
        files.append(sink.getvalue())
    sink = io.BytesIO()
    writer = RejectWriter(sink, told, window)
    for some in itertools.chain.from_iterable(read_rejects(io.BytesIO(file)) for file in files):
        if isinstance(some, Reject):
            writer.add([some])
        else:
            writer.add([], [some])
    writer.close()
    assert writer.number == sum(map(len, parts))
    return sink.getvalue()


def places_of(content: bytes) -> list[tuple[int, int, str]]:
    found = []
    for reject in read_rejects(io.BytesIO(content)):
        if isinstance(reject, Reject):
            found.append((reject.place, reject.length, reject.reason))
        else:
            pairs = zip(reject.places.tolist(), reject.lengths.tolist(), strict=True)
            found += [(*pair, reject.reason) for pair in pairs]
    return sorted(found)


@given(RECORDS, st.booleans(), st.lists(st.integers(0, 40), max_size=3), st.integers(0, 3))
def test_all_rejects_are_told_in_the_same_bytes_wherever_the_input_was_cut(
    records: list[tuple[int, int, str]], in_tables: bool, cuts: list[int], told: int
) -> None:
    rejects = rejects_of(records, in_tables)
    bounds = [0, *sorted(min(cut, len(rejects)) for cut in cuts), len(rejects)]
    parts = [rejects[begin:end] for begin, end in itertools.pairwise(bounds)]
    content = write([rejects], told)
    assert write(parts, told) == content
    assert places_of(content) == sorted(
        (reject.place, reject.length, reject.reason) for reject in rejects
    )


@pytest.mark.parametrize(("number", "lines"), [(2, 2), (3, 3), (60, 3)])
def test_the_first_of_a_file_and_reason_have_details(number: int, lines: int) -> None:
    rejects = [Reject(file, place, 1, "bad", "why") for file in "ab" for place in range(number)]
    told = [json.loads(line) for line in write([rejects], 2, 100).splitlines()]
    assert [line["file"] for line in told] == ["a"] * lines + ["b"] * lines
    assert [line.get("detail") for line in told[:2]] == ["why", "why"]
    assert sum(line.get("number", 1) for line in told) == 2 * number


def test_a_file_that_ends_early_is_always_told_by_itself() -> None:
    rejects = [Reject("f", place, -1, "damaged-archive", "why") for place in range(3)]
    assert len(write([rejects], told=1).splitlines()) == 3


def test_millions_of_rejects_take_few_bytes() -> None:
    numbers = np.arange(2_000_000)
    sink = io.BytesIO()
    writer = RejectWriter(sink)
    writer.add([], [RejectColumns("f", "bad", 2 * numbers, np.ones_like(numbers))])
    writer.close()
    assert writer.number == len(numbers)
    assert len(sink.getvalue()) < 1000
    irregular = np.cumsum(np.random.default_rng(1).integers(2, 9, 100_000))
    sink = io.BytesIO()
    writer = RejectWriter(sink)
    writer.add([], [RejectColumns("f", "bad", irregular, np.diff(irregular, append=0) * 0 + 1)])
    writer.close()
    assert len(sink.getvalue()) < 4 * irregular[-1]
    assert len(sink.getvalue()) < 3 * len(irregular)
