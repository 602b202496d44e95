"""Near-duplicates, kernel by kernel, against plain Python."""

import io
import random
from collections import Counter
from itertools import groupby, pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays.randomness import mix
from corpusmill.corpus.batches import TEXT_SCHEMA
from corpusmill.corpus.filters import near_duplicates as near
from corpusmill.corpus.filters.functions import FilterOptions, most_rows
from corpusmill.errors import UserError
from tests.tools.knobs import knobs
from tests.tools.near_duplicates import runs_of

NUMBERS = st.integers(0, 12)


def batch_of(texts: list[str]) -> pa.RecordBatch:
    columns = {"document": range(len(texts)), "sentences": [text.split("\n") for text in texts]}
    return pa.RecordBatch.from_pydict(columns, schema=TEXT_SCHEMA)


def wanted_of(documents: list[int], homes: list[int]) -> pa.RecordBatch:
    empty: list[list[int]] = [[]] * len(documents)
    zeros = [0] * len(documents)
    columns = [documents, zeros, homes, zeros, [b""] * len(documents), empty]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, near.PAIR_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=near.PAIR_SCHEMA)


def test_the_share_of_equal_bands_is_that_of_the_similarity() -> None:
    """With one row each, 400 bands of two texts are as often equal as their sets are alike."""
    words = [f"w{number}" for number in range(600)]
    for kept in (600, 560, 480, 300):
        other = words[:kept] + [f"v{number}" for number in range(600 - kept)]
        sets = runs_of(" ".join(words)), runs_of(" ".join(other))
        keys = near.list_keys(batch_of([" ".join(words), " ".join(other)]), 7, 5, 400, 1)
        assert set(keys.column("task").to_pylist()) == {7}
        first, second = keys.column("key").to_numpy().reshape(2, 400)
        expected = len(sets[0] & sets[1]) / len(sets[0] | sets[1])
        assert abs(float((first == second).mean()) - expected) < 0.1
        assert len({*first.tolist(), *second.tolist()}) == 800 - int((first == second).sum())


def test_texts_are_compared_without_case_and_punctuation_and_without_words_not_at_all() -> None:
    texts = [
        "A b, C d e f",
        "a B c. D e f",
        "...",
        "",
        "a",
        "A!",
        "中文字符很多",
        "中文 字符，很多",
    ]
    keys = near.list_keys(batch_of(texts), 0, 5, 3, 2)
    by_document = {
        document: [key for _, key in rows]
        for document, rows in groupby(
            zip(keys.column("document").to_pylist(), keys.column("key").to_pylist(), strict=True),
            lambda row: row[0],
        )
    }
    assert by_document.keys() == {0, 1, 4, 5, 6, 7}
    for one, other in ((0, 1), (4, 5), (6, 7)):
        assert by_document[one] == by_document[other]
    assert len({tuple(keys) for keys in by_document.values()}) == 3


@given(st.lists(st.sets(NUMBERS, min_size=1), min_size=1, max_size=6), st.floats(0.05, 1))
def test_similarities_are_those_of_the_sets(sets: list[set[int]], least: float) -> None:
    runs = np.array([run for one in sets for run in sorted(one)], np.uint64)
    borders = np.cumsum([0, *map(len, sets)])
    places = np.array([(a, b) for a in range(len(sets)) for b in range(len(sets))]).T
    shares = [len(sets[a] & sets[b]) / len(sets[a] | sets[b]) for a, b in places.T]
    found = near.compare_sets(runs, borders, places[0].copy(), places[1].copy(), least)
    assert found.tolist() == [share if share >= least else 0 for share in shares]


@given(st.sets(st.tuples(NUMBERS, NUMBERS)), st.lists(st.integers(0, 40), max_size=3))
def test_a_document_is_removed_by_the_first_one_like_it_that_stays(
    like: set[tuple[int, int]], cuts: list[int]
) -> None:
    pairs = sorted({(max(pair), min(pair)) for pair in like if pair[0] != pair[1]})
    removed: dict[int, int] = {}
    for document, rows in groupby(pairs, lambda pair: pair[0]):
        keepers = [keeper for _, keeper in rows if keeper not in removed]
        if keepers:
            removed[document] = keepers[0]
    found, memory, number = dict[int, int](), np.zeros(len(pairs), np.uint64), 0
    # A document's pairs come together.
    borders = sorted(
        {0, *(n for n in cuts if 0 < n < len(pairs) and pairs[n][0] != pairs[n - 1][0]), len(pairs)}
    )
    for begin, end in pairwise(borders):
        part = np.array(pairs[begin:end], np.uint64).T
        chosen = near.choose_keepers(part[0].copy(), part[1].copy(), memory, number)
        number += len(chosen)
        found |= {pairs[begin + row][0]: pairs[begin + row][1] for row in chosen.tolist()}
    assert found == removed
    assert memory[:number].tolist() == sorted(removed)


@given(st.lists(st.tuples(NUMBERS, NUMBERS)))
def test_of_equal_pairs_the_first_one_is_found_and_no_key_that_recurs_is_missed(
    pairs: list[tuple[int, int]],
) -> None:
    columns = np.array(pairs, np.uint64).reshape(-1, 2)
    found = near.find_first(columns[:, 0].copy(), columns[:, 1].copy())
    assert found.tolist() == [pair not in pairs[:row] for row, pair in enumerate(pairs)]
    keys = mix(columns[:, 0].copy()) if pairs else columns[:, 0].copy()
    recurring = near.may_recur(keys)
    counts = Counter(keys.tolist())
    assert all(recurring[row] for row, key in enumerate(keys.tolist()) if counts[key] > 1)


@pytest.mark.parametrize("firsts", [1, 2, 8])
def test_each_row_of_a_bucket_is_paired_with_the_first_ones(firsts: int) -> None:
    draw = random.Random(firsts)  # noqa: S311
    rows = [(draw.randrange(9), document, document // 10) for document in range(60)]
    expected = set[tuple[int, int]]()
    for key in range(9):
        members = [document for one, document, _ in rows if one == key]
        expected |= {(b, a) for n, b in enumerate(members) for a in members[: min(n, firsts)]}
    found, crowded = list[tuple[int, int]](), 0
    seen = pa.RecordBatch.from_pylist([], schema=near.KEY_SCHEMA)
    with knobs(first_documents=firsts):
        for begin in range(0, 60, 17):
            part = [
                pa.array(column, field.type)
                for column, field in zip(
                    zip(*rows[begin : begin + 17], strict=True), near.KEY_SCHEMA, strict=True
                )
            ]
            batch = pa.RecordBatch.from_arrays(part, schema=near.KEY_SCHEMA)
            seen, more, pairs = near.pair_documents(seen, batch)
            crowded += more
            for earlier, later in pairs:
                rows_of = near.to_pairs(later, later, earlier)
                columns = (rows_of.column(name).to_pylist() for name in ("document", "keeper"))
                found += zip(*columns, strict=True)
                assert rows_of.column("home") == later.column("task")
    assert sorted(found) == sorted(expected)
    assert crowded == 60 - sum(
        min(firsts, len([1 for key, *_ in rows if key == n])) for n in range(9)
    )


def test_sets_reach_each_home_once_and_pairs_are_compared_once() -> None:
    texts = ["a b c d e f", "a b c d e f g", "x y", "a b c d e f"]
    wanted = near.keep_distinct([wanted_of([1, 0, 1], [3, 3, 3]), wanted_of([0, 3], [5, 3])])
    assert wanted.column("document").to_pylist() == [0, 0, 1, 3]
    batches = [*near.list_sets(batch_of(texts), wanted, 5, 40)]
    assert len(batches) > 1
    rows = pa.concat_batches(batches).slice(0)
    assert rows.column("home").to_pylist() == [3, 5, 3, 3]
    pairs, sets = near.split_pairs(rows)
    assert (len(pairs), sets.documents.tolist()) == (0, [0, 0, 1, 3])
    assert sets.borders.tolist() == [0, 2, 4, 7, 9]
    assert [text.decode() for text in sets.texts] == [texts[0], *texts[:2], texts[3]]
    both = np.array([(3, 1, 0), (1, 0, 0), (3, 0, 0), (3, 0, 0)], near.PAIR)
    for corpus_bytes, shows in ((100, True), (2**60, False)):
        edges, number = near.match_pairs(both, sets, 0.6, corpus_bytes)
        assert number == 3
        assert edges.to_pylist() == [
            {
                "document": document, "task": 0, "keeper": keeper, "similarity": similarity,
                "text": texts[document].encode() * shows, "other": texts[keeper].encode() * shows,
            }
            for document, keeper, similarity in ((1, 0, 2 / 3), (3, 0, 1), (3, 1, 2 / 3))
        ]  # fmt: skip
    with pytest.raises(RuntimeError, match="not found again"):
        near.match_pairs(np.array([(9, 0, 0)], near.PAIR), sets, 0.6, 100)


@given(st.lists(st.integers(0, 9), max_size=60), st.integers(1, 9))
def test_parts_of_pairs_have_all_of_a_document(documents: list[int], size: int) -> None:
    pairs = np.array([(document, 0, 0) for document in documents], near.PAIR)
    parts = [part["document"].tolist() for part in near.split_by_document(pairs, size)]
    assert sorted(documents) == sorted(one for part in parts for one in part)
    limits = [(min(part), max(part)) for part in parts if part]
    assert all(last < first for (_, last), (first, _) in pairwise(limits))


def test_the_bytes_of_a_table_do_not_depend_on_its_batches() -> None:
    texts = [
        [b"", b"odd\n \xe4\xb8 end", "\u4e2d".encode()[:2]][number % 3] for number in range(100)
    ]
    columns = [*[range(100)] * 4, texts, texts]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, near.EDGE_SCHEMA, strict=True)]
    rows = pa.RecordBatch.from_arrays(arrays, schema=near.EDGE_SCHEMA)
    tables = set[bytes]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(near, "_GROUP_ROWS", 16)
        for size in (100, 1, 7, 33):
            stream = io.BytesIO()
            parts = (rows.slice(begin, size) for begin in range(0, 100, size))
            written = near.write_table(parts, stream, lambda ids: ["ab"[int(n > 50)] for n in ids])
            assert sum(part.num_rows for part in written) == 100
            tables.add(stream.getvalue())
    assert len(tables) == 1
    shown = near.read_shown(io.BytesIO(next(iter(tables))))
    assert [pair.source for pair in shown] == [*"aaabbb"]
    for pair in shown:
        assert pair.keeper == pair.similarity == pair.document
        assert pair.document % 3 > 0
        assert pair.text == pair.other == ("odd end" if pair.document % 3 == 1 else "")
    table = pq.read_table(io.BytesIO(tables.pop()))
    assert table.column_names == ["document", "keeper", "similarity"]
    assert table.column("keeper").to_pylist() == [*range(100)]


def test_the_bands_find_95_percent_of_the_pairs_of_just_the_similarity() -> None:
    for similarity, rows in ((0.5, 4), (0.7, 8), (0.8, 8), (0.9, 8), (0.95, 13), (1.0, 8)):
        options = FilterOptions(drop_near_duplicates=similarity, near_duplicate_rows=rows)
        bands = options.near_duplicates["near_duplicate_bands"]
        assert 1 - (1 - similarity**rows) ** bands >= 0.95
        assert 1 - (1 - similarity**rows) ** (bands - 1) < 0.95
    given_bands = FilterOptions(drop_near_duplicates=0.8, near_duplicate_bands=3)
    assert given_bands.near_duplicates["near_duplicate_bands"] == 3
    for value in (None, False):
        assert FilterOptions(drop_near_duplicates=value).near_duplicates == {}
    assert FilterOptions(drop_near_duplicates=True).drop_near_duplicates == 0.8
    # The most hashes of a band that are advised are taken, and not one more.
    for similarity in (0.5, 0.65, 0.8):
        rows = most_rows(similarity)
        FilterOptions(drop_near_duplicates=similarity, near_duplicate_rows=rows)
        for more in (rows + 1, 64):
            with pytest.raises(UserError, match=f"Give {rows} or fewer, or --near-duplicate-bands"):
                FilterOptions(drop_near_duplicates=similarity, near_duplicate_rows=more)


def test_mistakes_of_options() -> None:
    for options, part in (
        ({"drop_near_duplicates": 0.2}, "Give 0.5 to 1"),
        ({"drop_near_duplicates": 80}, "Give 0.5 to 1"),
        ({"near_duplicate_bands": 20}, "it needs --drop-near-duplicates"),
        ({"drop_near_duplicates": 0.8, "near_duplicate_rows": 0}, "Give 1 to 64"),
    ):
        with pytest.raises(UserError, match=part):
            FilterOptions(**options)
