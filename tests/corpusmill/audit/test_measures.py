"""What is counted of rows, beside plain loops."""

from collections import Counter
from itertools import groupby

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.audit import measures
from corpusmill.audit.audit import audit_files
from corpusmill.audit.conventions import Given
from corpusmill.audit.measures import (
    WINDOW,
    Conventions,
    Measures,
    Windows,
    choose_share,
    count_ids,
    find_runs,
    measure_labels,
    measure_tails,
    sample_windows,
    to_unsigned,
)
from corpusmill.audit.token_files import Aligned, TokenRows

_ROWS = st.lists(st.lists(st.integers(0, 4), max_size=30), max_size=12)


def flat(rows: list[list[int]], dtype: str = "uint16") -> tuple[np.ndarray, np.ndarray]:
    ids = np.array([token for row in rows for token in row], dtype)
    return ids, np.cumsum([0, *map(len, rows)])


@given(_ROWS)
def test_ids_are_counted(rows: list[list[int]]) -> None:
    ids, _ = flat(rows)
    counts = np.zeros(4, np.int64)
    largest, beyond = count_ids(ids, counts)
    expected = Counter(ids.tolist())
    assert counts.tolist() == [expected[token] for token in range(4)]
    assert (largest, beyond) == (max(ids.tolist(), default=0), expected[4])


@given(st.lists(st.integers(0, 2), max_size=80), st.integers(2, 6))
def test_runs_are_found(ids: list[int], shortest: int) -> None:
    begins, lengths = find_runs(np.array(ids, "uint16"), shortest)
    expected, place = [], 0
    for _, group in groupby(ids):
        length = len(list(group))
        if length >= shortest:
            expected.append((place, length))
        place += length
    assert [*zip(begins.tolist(), lengths.tolist(), strict=True)] == expected


@given(_ROWS, st.integers(-1, 2))
def test_padding_is_measured(rows: list[list[int]], pad: int) -> None:
    tails = measure_tails(*flat(rows), pad)
    for row, tail in zip(rows, tails.tolist(), strict=True):
        filler = pad if pad >= 0 else row[-1] if row else 0
        length = next((n for n, token in enumerate(row[::-1]) if token != filler), len(row))
        assert tail == (length if pad >= 0 or length > 1 else 0)


def test_equal_windows_have_equal_hashes_wherever_they_stand() -> None:
    rng = np.random.default_rng(0)
    passage = rng.integers(0, 500, 3000)
    sampled = []
    for before in (100, 777):
        ids = np.concatenate([rng.integers(0, 500, before), passage, rng.integers(0, 500, 50)])
        sampled.append({(*pair,) for pair in sample_windows(ids.astype("uint16"), 16).tolist()})
    windows = len(passage) - WINDOW + 1
    assert len(sampled[0] & sampled[1]) == pytest.approx(windows / 16, rel=0.4)
    # Windows of one id are none, as padding is.
    assert not len(sample_windows(np.zeros(1000, "uint16"), 1))
    wide = np.concatenate([np.arange(70), passage]).astype("uint32")
    assert {(*pair,) for pair in sample_windows(wide, 16).tolist()} >= sampled[0] & sampled[1]


@pytest.mark.parametrize("most", [2**19, 64])
def test_the_share_of_repeated_windows_is_estimated(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measures, "MOST_WINDOWS", most)
    rng = np.random.default_rng(1)
    ids = rng.integers(0, 5000, 200_000).astype("uint16")
    parts = [Windows(), Windows()]
    for number, part in enumerate((ids, ids[:100_000], ids)):
        parts[number % 2].add(sample_windows(part, parts[number % 2].share))
    parts[0].merge(parts[1])
    # Of 500,000 windows, 200,000 are new.
    tolerance = 0.02 if most > 64 else 0.25
    assert parts[0].repeated_share == pytest.approx(0.6, abs=tolerance)
    assert len(parts[0].hashes) <= most
    assert choose_share(2**31) * most // 4 > 2**30


def test_ids_of_any_type_become_unsigned() -> None:
    for ids, expected in (
        (np.array([1, 60_000], "<u2"), [1, 60_000]),
        (np.array([1, -1], "<i4"), [1, 2**32 - 1]),
        (np.array([1, 2**40, -7], "<i8"), [1, 2**32 - 1, 2**32 - 1]),
        (np.array([255], "u1"), [255]),
    ):
        assert to_unsigned(ids).tolist() == expected
        assert to_unsigned(ids).dtype in (np.dtype("uint16"), np.dtype("uint32"))


def test_labels_are_compared_with_ids() -> None:
    ids, labels = (
        np.array([5, 6, 2, 7, 2, 0, 0], "uint16"),
        np.array([-100, 6, -100, 7, 2, 0, -100]),
    )
    bounds = np.array([[0, 5, 7]])
    found = dict(
        zip(measures.LABEL_COUNTS, measure_labels(ids, labels, bounds, 2).tolist(), strict=True)
    )
    assert found == {
        "tokens": 5, "learned": 3, "same": 2, "following": 0, "comparable": 2, "masked": 0,
        "padding": 1, "rows": 1, "rows_all": 0, "rows_none": 0, "final_ends": 1,
        "learned_final_ends": 1, "inner_ends": 1, "learned_inner_ends": 0,
    }  # fmt: skip


def test_conventions_are_judged_by_the_first_rows() -> None:
    rng = np.random.default_rng(2)
    texts = [rng.integers(10, 50, rng.integers(5, 30)).tolist() for _ in range(100)]
    stream = [token for row in texts for token in row]
    for rows, expected in (
        ([[*row, 2] for row in texts], {"end": 2, "are_windows": False}),
        (texts, {"end": -1, "pad": -1}),
        # A full stop ends most texts, and sentences in them.
        ([[*row, 9, *row, 9, *row, 9] for row in texts[:60]] + texts[60:], {"end": -1}),
        ([[*row, 2, *[0] * (40 - len(row))] for row in texts], {"end": 2, "pad": 0}),
        ([stream[n : n + 16] for n in range(0, 800, 16)], {"end": -1, "are_windows": True}),
    ):
        judged = Given().judge(TokenRows(*flat(rows)), is_stream=False)._asdict()
        assert {name: judged[name] for name in expected} == expected


def test_an_attention_mask_tells_padding() -> None:
    ids, offsets = flat([[5, 2, 0, 0], [6, 7, 2, 0]])
    attended = np.array([1, 1, 0, 0, 1, 0, 1, 0])
    part = Measures(Conventions(end=2))
    part.add(TokenRows(ids, offsets, {Aligned.ATTENDED: attended}), 0)
    assert part.counts["padding"] == 3
    assert part.counts["holes"] == 1
    assert part.counts["end.rows"] == 2
    assert part.lengths == {2: 1, 3: 1}


def test_no_file_has_rows() -> None:
    assert audit_files([], Given()).measures.counts == Counter()
