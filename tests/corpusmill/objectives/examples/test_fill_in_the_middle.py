"""The kernels of filling in the middle, compared with a plain reference."""

from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays import ragged
from corpusmill.objectives.examples.fill_in_the_middle import (
    ADDED,
    PLAIN,
    PSM,
    SPM,
    WINDOWS,
    CharacterCuts,
    bounds_of_pieces,
    count_token,
    cut_tokens,
    derive_document_keys,
    draw_forms,
    rearrange,
    rearrange_windows,
)
from corpusmill.reading.rows import derive_sample_keys
from tests.corpusmill.objectives import reference_fim
from tests.corpusmill.objectives.reference_fim import ROLES, permute, permute_window, undo
from tests.tools.builders import offsets_of
from tests.tools.distributions import assert_same_distribution

BEGIN, END = 4, 9
DRAWN = 5_000

texts = st.lists(st.lists(st.integers(10, 99), max_size=12), max_size=8)
shares = st.floats(0, 1)


def rows_of(values: np.ndarray, offsets: np.ndarray) -> list[list[int]]:
    rows: list[list[int]] = ragged.to_arrow(values, offsets).to_pylist()
    return rows


def move(documents: Sequence[Sequence[int]], rate: float, spm: float, seed: int) -> list[list[int]]:
    """Move middles that are cut at tokens."""
    keys = derive_document_keys(seed, np.arange(len(documents), dtype=np.uint64))
    offsets = offsets_of(map(len, documents))
    token_ids = np.array([token for tokens in documents for token in tokens], np.int16)
    forms = draw_forms(keys, rate, spm)
    return rows_of(*rearrange(token_ids, cut_tokens(offsets, keys), forms, ROLES))


def numbers_of(ours: Iterable[object], others: Iterable[object]) -> tuple[np.ndarray, np.ndarray]:
    """Number equal observations alike."""
    numbers: dict[str, int] = {}
    first, second = (
        np.array([numbers.setdefault(str(item), len(numbers)) for item in items])
        for items in (ours, others)
    )
    return first, second


def test_the_forms_of_a_document() -> None:
    for form, bounds, expected in (
        (PLAIN, [0, 1, 3, 4], [5, 6, 7, 8]),
        (PSM, [0, 1, 3, 4], [1, 5, 3, 8, 2, 6, 7]),
        (SPM, [0, 1, 3, 4], [1, 3, 8, 2, 5, 6, 7]),
        (PSM, [0, 0, 0, 4], [1, 3, 5, 6, 7, 8, 2]),
        (SPM, [0, 4, 4, 4], [1, 3, 2, 5, 6, 7, 8]),
        (PSM, [0, 2, 2, 4], [1, 5, 6, 3, 7, 8, 2]),
        (PSM, [2, 2, 2, 2], [1, 3, 2]),
    ):
        token_ids, forms = np.array([5, 6, 7, 8], np.uint16), np.array([form], np.uint8)
        moved, offsets = rearrange(token_ids, np.array([bounds]), forms, ROLES)
        assert moved.dtype == np.uint16
        assert rows_of(moved, offsets) == [expected]


@given(texts, shares, shares, st.integers(0, 2**64 - 1))
def test_moved_middles_can_be_moved_back(
    documents: list[list[int]], rate: float, spm: float, seed: int
) -> None:
    moved = move(documents, rate, spm, seed)
    assert [undo(tokens) for tokens in moved] == documents
    added = {len(tokens) - len(before) for tokens, before in zip(moved, documents, strict=True)}
    assert added <= {0, ADDED}
    assert rate or moved == documents
    assert move(documents[:1], rate, spm, seed) == moved[:1]


@pytest.mark.parametrize(("rate", "spm"), [(0.5, 0.5), (1.0, 0.0), (0.9, 0.3)])
def test_tokens_are_cut_as_by_the_paper(rate: float, spm: float) -> None:
    """Every row of a document of four tokens is as likely; false alarms: 1 in 10,000 each."""
    random, document = Random(5), [10, 11, 12, 13]  # noqa: S311
    ours = move([document] * DRAWN, rate, spm, seed=6)
    theirs = [permute(document, rate, spm, random) for _ in range(DRAWN)]
    assert_same_distribution(*numbers_of(ours, theirs), f"rate {rate}, SPM {spm}")


def cut(documents: Sequence[str], rate: float, seed: int) -> list[list[str]]:
    """Cut texts at characters, and return the pieces of each."""
    encoded = [text.encode() for text in documents]
    text = np.frombuffer(b"".join(encoded), np.uint8)
    ids = np.arange(len(documents), dtype=np.uint64)
    pieces, bounds = CharacterCuts(seed, rate)(ids, text, offsets_of(map(len, encoded)))
    spelled = [text[slice(*pieces[i : i + 2])].tobytes().decode() for i in range(len(pieces) - 1)]
    return [spelled[slice(*bounds[i : i + 2])] for i in range(len(documents))]


@given(st.lists(st.text(max_size=12), max_size=8), shares, st.integers(0, 2**64 - 1))
def test_pieces_of_characters_are_the_text(documents: list[str], rate: float, seed: int) -> None:
    pieces = cut(documents, rate, seed)
    assert ["".join(parts) for parts in pieces] == documents
    forms = draw_forms(
        derive_document_keys(seed, np.arange(len(documents), dtype=np.uint64)), rate, 0.5
    )
    assert [len(parts) for parts in pieces] == [1 if form == PLAIN else 3 for form in forms]


@pytest.mark.parametrize("text", ["", "a", "aé中😀"])
def test_characters_are_cut_as_by_the_paper(text: str) -> None:
    """Every pair of cuts is as likely; false alarms: 1 in 10,000 each."""
    random = Random(7)  # noqa: S311
    ours = cut([text] * DRAWN, 0.5, seed=8)
    theirs = [reference_fim.cut(text, 0.5, random) for _ in range(DRAWN)]
    assert_same_distribution(*numbers_of(ours, theirs), repr(text))


def test_the_pieces_of_documents_are_their_cuts() -> None:
    document_offsets, piece_offsets = np.array([0, 1, 4, 5]), np.array([0, 3, 3, 5, 9, 11])
    forms = np.array([PLAIN, SPM, PLAIN], np.uint8)
    bounds = bounds_of_pieces(document_offsets, piece_offsets, forms)
    assert bounds[1].tolist() == [3, 3, 5, 9]
    assert bounds[[0, 2]][:, [0, 3]].tolist() == [[0, 3], [9, 11]]
    with pytest.raises(ValueError, match="other pieces"):
        bounds_of_pieces(document_offsets, piece_offsets, forms[::-1] * 0)


def move_in_windows(
    windows: list[list[int]], rate: float, spm: float, seed: int, around: tuple[int, ...] = (END,)
) -> np.ndarray:
    moved = np.array(windows, np.int16)
    numbers = np.arange(len(windows))
    keys = derive_sample_keys(np.uint64(seed), numbers, numbers, WINDOWS)
    rearrange_windows(moved, keys, rate, spm, np.array(around), ROLES)
    return moved


@pytest.mark.parametrize(
    "window", [[10, 11, 12, END, 13, 14], [END, END, 10, 11, 12], [10, END], [10, 11, 12, 13, 14]]
)
def test_windows_are_rearranged_as_by_megatron(window: list[int]) -> None:
    """Every window is as likely; false alarms: 1 in 10,000 each."""
    random = Random(3)  # noqa: S311
    ours = move_in_windows([window] * DRAWN, 0.7, 0.4, seed=4).tolist()
    theirs = [permute_window(window, END, 0.7, 0.4, random) for _ in range(DRAWN)]
    assert_same_distribution(*numbers_of(ours, theirs), str(window))


def test_what_begins_a_text_stays_before_it() -> None:
    window = [10, 11, END, BEGIN, 12, 13, 14, END, BEGIN, 15, 16, 17]
    moved = move_in_windows([window] * 50, 1.0, 0.5, 5, (END, BEGIN))
    prefix = ROLES[0]
    for row in moved.tolist():
        assert row[0] == prefix
        for place, token in enumerate(row[:-1]):
            if token == BEGIN:
                assert (row[place - 1], row[place + 1]) == (END, prefix)
    assert (moved == BEGIN).sum() > 25


@given(st.lists(st.integers(END, 12), min_size=1, max_size=12), shares, st.integers(0, 99))
def test_windows_hold_no_token_that_was_not_there(
    window: list[int], rate: float, seed: int
) -> None:
    [moved] = move_in_windows([window], rate, 0.5, seed).tolist()
    added = sum(token in ROLES for token in moved)
    assert not Counter(token for token in moved if token not in ROLES) - Counter(window)
    assert len(moved) == len(window)
    assert moved == window or added > 0


def test_tokens_are_counted_in_stretches() -> None:
    token_ids = np.array([2, 5, 2, 2, 6], np.int16)
    assert count_token(token_ids, np.array([0, 3]), np.array([2, 5]), 2) == 2
