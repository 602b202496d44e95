"""Documents that are made of several records, each of which has an id, facts and tokens of its own.

The records of a group share a home, where they stand in their order. Until rows are built they have
the columns

    group       uint64: what their split, their home and their copies are drawn by, in place of
                their ids
    head        list of tokens: what is put before a record
    first_head  list of tokens: what is put before the first record of a document

and then

    begins      uint8: NEW where a group begins, CUT where a document goes on with one, ALONE for a
                record without a group, and 0 elsewhere
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.text_hashes import field_column, hash_lines
from corpusmill.layout.placement import Layout
from corpusmill.layout.sorting import token_offsets

GROUP = pa.field("group", pa.uint64())
HEAD, FIRST_HEAD, BEGINS = "head", "first_head", "begins"
NEW, CUT, ALONE = 1, 2, 3
_COUNTS = ("groups.records", "groups.documents", "groups.cut", "groups.alone")
Lists = tuple[np.ndarray, np.ndarray]
Ids = npt.NDArray[np.uint64]
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?")


def group_columns(token_dtype: str) -> list[pa.Field]:
    """Return the columns that records have until rows are built, by the type of their tokens."""
    lists = pa.list_(pa.from_numpy_dtype(token_dtype))
    return [GROUP, pa.field(HEAD, lists), pa.field(FIRST_HEAD, lists)]


def drawn_ids(documents: pa.RecordBatch) -> Ids:
    """Return what the split, the home and the copies of documents are drawn by, uint64[n]."""
    name = GROUP.name if GROUP.name in documents.schema.names else "document"
    ids: Ids = documents.column(name).to_numpy()
    return ids


def groups_of(documents: pa.RecordBatch, by: str) -> list[str | None]:
    """Return the values of the field by which records are grouped; an empty one is none."""
    return [value or None for value in documents.column(field_column(by).name).to_pylist()]


def draw_groups(documents: pa.RecordBatch, by: str, layout: Layout) -> Ids:
    """Return the column `group` of documents, uint64[n].

    Groups may share a number, which then draws the same for both. A document without a value has
    its own id.

    Args:
        documents: with the kept field.
        by: name of the field.
        layout: of the data set.
    """
    ids, values = documents.column("document").to_numpy(), groups_of(documents, by)
    text, offsets = ragged.from_arrow(pa.array([value or "" for value in values], pa.string()))
    hashes = hash_lines(text, np.arange(len(offsets), dtype=np.int32), offsets)[:, 0]
    firsts = np.array([source.first_document for source in layout.sources] or [0], np.uint64)
    groups: Ids = firsts[layout.sources_of(ids)] + (hashes >> np.uint64(24))
    return np.where(_are_alone(values), ids, groups)


def _are_alone(groups: Sequence[str | None]) -> npt.NDArray[np.bool_]:
    return np.array([group is None for group in groups], np.bool_)


def order_records(rows: pa.RecordBatch, by: str, order: str | None) -> list[tuple[Any, ...]]:
    """Return for each record by what it is ordered: its group, the value of a field, and its id."""
    groups, ids = groups_of(rows, by), rows.column("document").to_pylist()
    values = rows.column(field_column(order).name).to_pylist() if order else [""] * len(ids)
    keys = map(_order_value, values)
    return [((g is None, g), key, n) for g, key, n in zip(groups, keys, ids, strict=True)]


def _order_value(value: str | None) -> tuple[int, float, str]:
    """Return what orders numbers before texts, and what is missing last."""
    if not value:  # as a cell of CSV that has none
        return 2, 0.0, ""
    return (0, float(value), value) if _NUMBER.fullmatch(value) else (1, 0.0, value)


def cut_documents(
    batches: Iterable[pa.RecordBatch], by: str, most_tokens: int
) -> Iterator[pa.RecordBatch]:
    """Yield the same records with the column `begins`, whole documents at a time.

    Args:
        batches: records in the order of `order_records`, with `group_columns`.
        by: name of the kept field whose values make groups.
        most_tokens: the most of a document, unless it is a single record.
    """
    rest: list[pa.RecordBatch] = []
    first = 0
    for batch in batches:
        rows = pa.concat_batches([*rest, batch])
        begins = _mark(rows, by, most_tokens, first)
        last = int(np.flatnonzero(begins)[-1])
        if last:
            yield rows.append_column(BEGINS, pa.array(begins)).slice(0, last)
        rest, first = [rows.slice(last)], int(begins[last])
    for rows in rest:
        yield rows.append_column(BEGINS, pa.array(_mark(rows, by, most_tokens, first)))


def _mark(rows: pa.RecordBatch, by: str, most_tokens: int, first: int) -> npt.NDArray[np.uint8]:
    """Return the column `begins`; that of the first record may be known already."""
    names = groups_of(rows, by)
    is_new = np.array([True, *(name is None or name != last for last, name in pairwise(names))])
    own = np.diff(token_offsets(rows.column("sentences")))
    lengths = [
        own + np.diff(ragged.from_arrow(rows.column(name))[1]) for name in (HEAD, FIRST_HEAD)
    ]
    begins: npt.NDArray[np.uint8] = _mark_begins(is_new, *lengths, most_tokens)
    begins[_are_alone(names)] = ALONE
    begins[0] = first or begins[0]
    return begins


@njit
def _mark_begins(
    is_new: np.ndarray, lengths: np.ndarray, first_lengths: np.ndarray, most_tokens: int
) -> np.ndarray:
    begins = np.zeros(len(is_new), np.uint8)
    held = 0
    for row in range(len(is_new)):
        held += lengths[row]
        if is_new[row] or held > most_tokens:
            begins[row] = NEW if is_new[row] else CUT
            held = first_lengths[row]
    return begins


def count_groups(records: pa.RecordBatch) -> dict[str, int]:
    """Return counts of records, as `cut_documents` yields them; none of others."""
    if BEGINS not in records.schema.names:
        return {}
    number, kinds = records.num_rows, np.bincount(records.column(BEGINS).to_numpy(), minlength=4)
    counts = (number, number - int(kinds[0]), int(kinds[CUT]), int(kinds[ALONE]))
    return dict(zip(_COUNTS, counts, strict=True))


def heads_of(records: pa.RecordBatch) -> Lists:
    """Return what is put before records, as values and offsets; nothing where none are joined."""
    if BEGINS not in records.schema.names:
        return np.zeros(0, np.int32), np.zeros(1, np.int32)
    is_first = records.column(BEGINS).to_numpy() > 0
    heads = [ragged.from_arrow(records.column(name)) for name in (HEAD, FIRST_HEAD)]
    return ragged.take(*_chain(heads), np.arange(len(is_first)) + len(is_first) * is_first)


def put_heads(
    records: pa.RecordBatch, token_ids: np.ndarray, offsets: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Put what belongs before records there, and join them to documents.

    Args:
        records: as `cut_documents` yields them.
        token_ids: integers[tokens].
        offsets: int64[records + 1], where the tokens of each begin.

    Returns:
        token_ids: the type of token_ids[all tokens].
        offsets: int64[documents + 1], where each begins.
        shifts: int64[records], how far the tokens of each have moved, from a first one at 0.
        firsts: int64[documents], the first record of each.

    Example:
        the heads [[1], [2, 2]], begins [1, 0], token_ids [7, 8, 9] and offsets [0, 1, 3] give
        [1, 7, 2, 2, 8, 9], [0, 6], [1, 3] and [0].
    """
    heads = heads_of(records)
    joined, ends = interleave([heads, (token_ids, offsets)])
    firsts = np.flatnonzero(records.column(BEGINS).to_numpy())
    shifts = np.cumsum(np.diff(heads[1])).astype(np.int64)
    return joined, np.append(ends[firsts], ends[-1]), shifts, firsts


def interleave(lists: Sequence[Lists]) -> Lists:
    """Join the first lists of all, then the second ones, and so on; return values and offsets.

    Args:
        lists: values and offsets, of as many lists each, which may be slices.
    """
    number = len(lists[0][1]) - 1
    order = np.arange(number * len(lists)).reshape(len(lists), number).T.ravel()
    values, offsets = ragged.take(*_chain(lists), order)
    return values, offsets[:: len(lists)].astype(np.int64)


def _chain(lists: Sequence[Lists]) -> Lists:
    """Return lists one after the other."""
    values = [values[offsets[0] : offsets[-1]] for values, offsets in lists]
    lengths = np.concatenate([np.diff(offsets) for _, offsets in lists])
    return np.concatenate(values), np.append(0, np.cumsum(lengths)).astype(np.int32)
