"""Files of rejects: few lines tell every place, however the input was divided."""

import io
import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.corpus.batches import FileRange, Reject, RejectColumns
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.input_formats import read_corpus
from corpusmill.corpus.reject_lines import RejectWriter, read_rejects
from corpusmill.corpus.text.text_documents import read_text
from tests.tools.knobs import knobs

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
    with knobs(told_rejects=told, reject_window=window):
        return write_and_join(parts)


def write_and_join(parts: list[list[Reject]]) -> bytes:
    files = []
    for part in parts:
        sink = io.BytesIO()
        writer = RejectWriter(sink)
        for reject in part:
            writer.add([reject])
        writer.close()
        assert writer.number == len(part)
        files.append(sink.getvalue())
    sink = io.BytesIO()
    writer = RejectWriter(sink)
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


@pytest.mark.parametrize(("number", "packed"), [(3, [5, 5, 5]), (4, [5, -3]), (5, [5, -4])])
def test_four_equal_numbers_or_more_are_written_as_one(number: int, packed: list[int]) -> None:
    rejects = [Reject("f", place**2, 5, "bad", "why") for place in range(number)]
    [line] = map(json.loads, write([rejects], told=0, window=10**6).splitlines())
    assert line["lengths"] == packed


@pytest.mark.parametrize(("length", "told"), [(999, 999), (1000, 1000), (1001, 1003)])
def test_a_long_detail_is_cut(length: int, told: int) -> None:
    reject = FileRange("f", 0, DocumentOptions()).reject(0, 1, "bad", "x" * length)
    assert len(reject.detail) == told
    assert reject.detail.endswith("...") == (length > 1000)


@pytest.mark.parametrize(("input_format", "start"), [("text", b""), ("csv", b"text\n")])
@pytest.mark.parametrize(("told", "numbers"), [(0, (0, 5)), (4, (4, 1)), (5, (5, 0)), (6, (5, 0))])
def test_the_first_of_a_reason_are_read_with_details(
    input_format: str, start: bytes, told: int, numbers: tuple[int, int]
) -> None:
    part = FileRange("f", 0, DocumentOptions(input_format=input_format))
    with knobs(told_rejects=told):
        [batch] = read_corpus(io.BytesIO(start + b"\xff\n" * 5), part)
    assert (len(batch.rejects), sum(map(len, batch.more_rejects))) == numbers


@pytest.mark.parametrize(("window", "lines"), [(8, 2), (9, 1), (10, 1)])
def test_rejects_of_one_window_share_a_line(window: int, lines: int) -> None:
    rejects = [Reject("f", place, 1, "bad", "why") for place in (2, 8)]
    assert len(write([rejects], told=0, window=window).splitlines()) == lines


@pytest.mark.parametrize(("limit", "sizes"), [(2, [2, 2, 1]), (3, [3, 2]), (5, [5, 0]), (6, [5])])
def test_many_rejects_end_a_batch(limit: int, sizes: list[int]) -> None:
    lines = io.BytesIO(b"\xff\n" * 5)
    with knobs(batch_bytes=2, batch_rejects=limit):
        batches = [*read_text(lines, FileRange("f", 0, DocumentOptions()))]
    assert [batch.count_rejects().total() for batch in batches] == sizes
