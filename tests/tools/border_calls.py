"""Calls of public functions with arrays of any shape, type and content.

    python -m tests.tools.border_calls FOLDER LOG

A call must raise one of a few errors or return what a plain program returns. Run it with
NUMBA_DISABLE_JIT=1 (or NUMBA_BOUNDSCHECK=1, which takes a minute longer), so that a kernel which
reads or writes beside an array raises IndexError, which is not among them. The last line of the log
is the call that was made last, if the process dies.
"""

import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, TextIO, get_args

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.errors import NumbaError

from corpusmill.arrays import ragged
from corpusmill.errors import UserError, count_things
from corpusmill.objectives.ernie import ErnieMasker
from corpusmill.objectives.examples.packing import order_by_length, pack_best_fit
from corpusmill.objectives.masking.masked_lm import MaskedLm
from corpusmill.objectives.masking.tokens import MaskingRule, row_keys
from corpusmill.reading.collate.causal_collators import (
    CausalLmCollator,
    PackedCollator,
    WindowCollator,
)
from corpusmill.reading.collate.collators import (
    Layout,
    Padding,
    attention_mask,
    collator_for,
    pad,
    scatter_labels,
)
from corpusmill.reading.data_set import DataSet
from corpusmill.reading.rows import Lists, Rows
from corpusmill.reading.token_windows import TOKENS
from corpusmill.tokenization.tokenizer_file import SpecialTokens

REFUSALS = (ValueError, TypeError, OverflowError, MemoryError, UserError, NumbaError)
HUGE = [-(2**63), -(2**31), -(2**15), -1, 2**15 - 1, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1]
VOCABULARY = 12
SPECIAL = SpecialTokens(2, 3, 4, 0, 1, (0, 1, 2, 3, 4))

numbers = st.integers(-2, 9) | st.sampled_from(HUGE)
counts = numbers | st.sampled_from([1.5, None, "3", 2**70, True])
lengths = st.lists(st.integers(0, 5), max_size=5)


def narrow(values: list[int], dtype: str) -> np.ndarray:
    return np.array(values, np.int64).astype(dtype)


def arrays(dtype: str, values: st.SearchStrategy[int] = numbers) -> st.SearchStrategy[Any]:
    """Generate mostly arrays of the right type; of any length, content, and sometimes type."""
    right = st.lists(values, max_size=9).map(lambda part: narrow(part, dtype))
    few = st.lists(st.integers(0, 5), max_size=6).map(lambda part: narrow(part, dtype))
    wrong = st.sampled_from(
        [None, 7, [0, 1, 2], np.array(2), np.array([0.0, 2.0]), np.zeros((2, 2), dtype),
         np.array([False, True]), np.array([0, 2], object), np.array(["a"]), "abc"]
    )  # fmt: skip
    return st.one_of(right, right, few, few, few, few, wrong)


def ends_of(parts: list[int], first: int = 0) -> list[int]:
    return [first, *(np.cumsum(parts) + first).tolist()]


def offsets(dtype: str = "int64") -> st.SearchStrategy[Any]:
    """Generate mostly offsets that ascend."""
    ascending = st.builds(ends_of, lengths, st.integers(0, 2)).map(lambda ends: narrow(ends, dtype))
    return st.one_of(ascending, ascending, ascending, ascending, arrays(dtype))


def cut(values: Any, ends: Any) -> list[list[Any]]:
    # Interpreted kernels take lists, too.
    values, ends = np.asarray(values), np.asarray(ends)
    return [values[begin:end].tolist() for begin, end in pairwise(ends.tolist())]


def same(result: Any, expected: Any) -> None:
    assert np.asarray(result).tolist() == expected, f"{result} is not {expected}"


def check_pad(values: Any, offsets: Any, width: Any, fill: Any) -> None:
    rows = pad(values, offsets, width, fill)
    same(rows, [row + [fill] * (width - len(row)) for row in cut(values, offsets)])


def check_attention_mask(offsets: Any, width: Any) -> None:
    marks = attention_mask(offsets, width)
    same(marks, [[1] * size + [0] * (width - size) for size in np.diff(offsets).tolist()])


def check_scatter_labels(positions: Any, ends: Any, labels: Any, others: Any, width: Any) -> None:
    matrix = scatter_labels(positions, ends, labels, others, width)
    expected = [[-100] * width for _ in range(len(ends) - 1)]
    for row, *pairs in zip(expected, cut(positions, ends), cut(labels, others), strict=True):
        for position, label in zip(*pairs, strict=True):
            row[position] = label
    same(matrix, expected)


def check_take(values: Any, offsets: Any, rows: Any) -> None:
    taken, ends = ragged.take(values, offsets, rows)
    all_rows = [values[begin:end].tolist() for begin, end in pairwise(offsets.tolist())]
    assert cut(taken, ends) == [all_rows[row] for row in rows]


def check_take_rows(columns: Any, rows: Any) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(part) for part in columns], ["a", "b", "c"])
    assert ragged.take_rows(batch, rows).to_pylist() == batch.take(pa.array(rows)).to_pylist()


def check_order_by_length(lengths: Any, longest: Any) -> None:
    order = order_by_length(lengths, longest)
    same(order, sorted(range(len(lengths)), key=lambda piece: -int(lengths[piece])))


def check_pack_best_fit(lengths: Any, max_seq_length: Any) -> None:
    pieces, ends = pack_best_fit(lengths, max_seq_length)
    rows = cut(pieces, ends)
    assert sorted(piece for row in rows for piece in row) == [*range(len(lengths))]
    assert all(sum(int(lengths[piece]) for piece in row) <= max_seq_length for row in rows)


def check_masks(before: Any, after: Any, ends: Any, masks: Any) -> None:
    positions, labels, mask_ends = masks
    begins = np.repeat(ends[:-1], np.diff(mask_ends))
    assert before[begins + positions].tolist() == labels.tolist()
    changed = np.flatnonzero(before != after)
    assert {*changed.tolist()} <= {*(begins + positions).tolist()}


def check_mask(whole_words: bool, rows: Any, rule: Any) -> None:
    masked_lm = MaskedLm(MaskingRule(*rule), True, whole_words, 2, 64, SPECIAL, VOCABULARY, "int16")
    before = np.array(rows[0])
    masks = masked_lm.mask(*rows)
    check_masks(before, rows[0], rows[2], masks)


def check_mask_words(rows: Any, prob: Any) -> None:
    before = np.array(rows[0])
    masks = ErnieMasker(prob, 4, VOCABULARY).mask(*rows)
    check_masks(before, rows[0], rows[2], masks)


def check_row_keys(documents: Any, repeat: Any, indices: Any) -> None:
    assert len(row_keys(np.uint64(1), documents, repeat, indices)) == len(documents)


def check_collator(collator: Any, drawn: Any) -> None:
    columns, samples, epochs = drawn
    lists = {name: Lists(*part) if isinstance(part, tuple) else part for name, part in columns}
    rows = Rows(lists, samples, epochs)
    collator(collator.prepare(rows))


def check_data_set(data: DataSet, samples: Any, epochs: Any) -> None:
    try:
        rows = data.take(samples, epochs)
    except IndexError as error:
        if f"it has {count_things(len(data), 'example')}" not in str(error):
            raise
        return  # one of the errors of `take`
    assert rows.samples.tolist() == [*samples]


ids = arrays("int16", st.integers(-1, 12))
words = arrays("int8", st.integers(-1, 2))
rules = st.tuples(
    st.sampled_from([0.15, 1.0, 0.0, -1.0, 2.0, float("nan")]), numbers, numbers, numbers
)


def rows_to_mask(sizes: list[int]) -> tuple[np.ndarray, ...]:
    """Return rows of words of two tokens, and their keys."""
    total = sum(sizes)
    keys = np.arange(len(sizes), dtype=np.uint64)
    ends = narrow(ends_of(sizes), "int64")
    return np.full(total, 7, np.int16), narrow([0, 1] * total, "int8")[:total], ends, keys


maskable = st.tuples(ids, words, offsets(), arrays("uint64")) | lengths.map(rows_to_mask)


def columns_of(*names: str) -> st.SearchStrategy[Any]:
    """Generate columns, often with the same offsets, and numbers of samples and epochs."""
    pair = st.tuples(ids, offsets())
    own = st.tuples(*(st.one_of(pair, pair, pair, arrays("int16")) for _ in names))
    shared = st.tuples(offsets(), st.tuples(*(ids for _ in names))).map(
        lambda drawn: tuple((values, drawn[0]) for values in drawn[1])
    )
    columns = (own | shared).map(lambda parts: [*zip(names, parts, strict=True)])
    wild = st.tuples(columns, arrays("int64"), arrays("int64"))
    return wild | lengths.map(lambda sizes: right_columns(names, sizes))


def right_columns(names: tuple[str, ...], sizes: list[int]) -> tuple[Any, ...]:
    """Return rows that any collator takes: those of windows are of one length."""
    if names == (TOKENS,):
        sizes = [3] * len(sizes)
    ends, samples = narrow(ends_of(sizes), "int64"), np.arange(len(sizes))
    zeros = narrow([0] * sum(sizes), "int16")
    marks = narrow([mark for size in sizes for mark in (0, size // 2, size)], "int16")
    others = {
        "next_sentence_label": narrow([0] * len(sizes), "int8"),
        "cu_seqlens": (marks, narrow(ends_of([3] * len(sizes)), "int64")),
    }
    columns = [(name, others.get(name, (zeros, ends))) for name in names]
    return columns, samples, np.zeros_like(samples)


def all_calls(folder: Path) -> dict[str, tuple[Callable[..., None], tuple[Any, ...]]]:
    """Return, by name, a function that calls and checks, and its arguments' strategies."""
    data = DataSet(folder, cache_folder=folder.parent / "cache")
    padding = st.just(Padding())
    masked = ("input_ids", "token_type_ids", "next_sentence_label", "seg_labels")
    samples, epochs = arrays("int64"), st.none() | arrays("int64")
    collators = {
        "MaskedLmCollator": (st.just(collator_for(data)), columns_of(*masked)),
        "CausalLmCollator": (st.builds(CausalLmCollator, padding), columns_of("input_ids")),
        "WindowCollator": (st.builds(WindowCollator), columns_of(TOKENS)),
        "PackedCollator": (
            st.builds(PackedCollator, padding, st.sampled_from(get_args(Layout))),
            columns_of("input_ids", "cu_seqlens"),
        ),
    }
    nested = st.lists(st.tuples(st.integers(), st.integers(-9, 9), st.integers(-9, 9)))
    tables = nested.map(
        lambda rows: (
            [row[0] for row in rows],
            [[row[1]] for row in rows],
            [[[row[2]]] for row in rows],
        )
    )
    return {
        "pad": (check_pad, (ids, offsets(), counts, counts)),
        "attention_mask": (check_attention_mask, (offsets(), counts)),
        "scatter_labels": (check_scatter_labels, (ids, offsets(), ids, offsets(), counts)),
        "take": (check_take, (ids, offsets("int32"), arrays("int64"))),
        "take_rows": (check_take_rows, (tables, arrays("int64"))),
        "order_by_length": (check_order_by_length, (arrays("int64"), counts)),
        "pack_best_fit": (check_pack_best_fit, (arrays("int64"), counts)),
        "mask": (check_mask, (st.booleans(), maskable, rules)),
        "mask_words": (check_mask_words, (maskable, st.sampled_from([0.5, 0, 1]))),
        "row_keys": (check_row_keys, (arrays("uint64"), st.integers(0, 3), arrays("int64"))),
        **{
            name: (check_collator, parts)
            for name, parts in collators.items()
        },
        "DataSet.take": (check_data_set, (st.just(data), samples, epochs)),
    }  # fmt: skip


def fuzz(name: str, check: Callable[..., None], strategies: tuple[Any, ...], log: TextIO) -> int:
    """Make many calls of a function, and return how many were not refused."""
    accepted = []

    @settings(max_examples=70, deadline=None, derandomize=True, database=None)
    @given(st.tuples(*strategies))
    def call(arguments: tuple[Any, ...]) -> None:
        log.seek(0)
        log.truncate()
        log.write(f"{name}{arguments!r}")
        log.flush()
        try:
            check(*arguments)
        except REFUSALS:
            return
        accepted.append(name)

    call()
    return len(accepted)


if __name__ == "__main__":
    with Path(sys.argv[2]).open("w") as stream:
        for function, (checked, arguments) in all_calls(Path(sys.argv[1])).items():
            print(function, fuzz(function, checked, arguments, stream), flush=True)
