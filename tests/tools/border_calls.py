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


def check_take(values: Any, offsets: Any, rows: Any) -> None:
    taken, ends = ragged.take(values, offsets, rows)
    all_rows = [values[begin:end].tolist() for begin, end in pairwise(offsets.tolist())]
    assert cut(taken, ends) == [all_rows[row] for row in rows]


def check_take_rows(columns: Any, rows: Any) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(part) for part in columns], ["a", "b", "c"])
    assert ragged.take_rows(batch, rows).to_pylist() == batch.take(pa.array(rows)).to_pylist()


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
        "pad": (check_pad, (ids, offsets(), counts, numbers)),
        "attention_mask": (check_attention_mask, (offsets(), counts)),
        "take": (check_take, (ids, offsets("int32"), arrays("int64"))),
        "take_rows": (check_take_rows, (tables, arrays("int64"))),
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
