"""TFRecord with a tf.train.Example a row, whose lists of int64 hold ids (without TensorFlow).

`corpusmill.formats.tfrecord_kernels` describes the message; its features have any order here.
"""

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import cast

import numpy as np

from corpusmill.audit.formats.columns import ColumnTokens, Lists, choose_columns
from corpusmill.audit.token_files import TokenFile, TokenFolder, TokenFormat
from corpusmill.corpus.decompression import open_decompressed
from corpusmill.formats.tfrecord import Records, read_records
from corpusmill.formats.tfrecord_kernels import INT64_LIST, unpack_numbers
from corpusmill.formats.varints import take_varint

_NAME = re.compile(r"\.tfrecords?(-\d+-of-\d+)?(\.gz)?$")
_MOST_RECORDS, _MOST_BYTES = 2**16, 2**30


def _find(folder: TokenFolder) -> Mapping[str, Sequence[str]]:
    return {name: [] for name in folder.sizes if _NAME.search(name)}


def _open(folder: TokenFolder, name: str) -> Sequence[TokenFile]:
    file = ColumnTokens(f"{folder.location}/{name}", "tfrecord", "int64")
    records = next(_read(folder, name), None)
    if records:
        file.meanings = choose_columns(_find_lists(records.data, *records.offsets[:2]))

    def load(records: Records) -> Iterator[Mapping[str, Lists]]:
        rows = [_find_lists(records.data, *ends) for ends in pairwise(records.offsets)]
        lists = dict[str, Lists]()
        for column in file.meanings:
            file.problems[f"rows lack {column}"] += sum(column not in row for row in rows)
            bounds = np.array([row.get(column, (0, 0)) for row in rows], np.int64)
            starts, ends = np.ascontiguousarray(bounds.T)
            *lists[column], damaged = unpack_numbers(records.data, starts, ends)
            if damaged >= 0:
                raise ValueError(f"record {records.first + damaged} has a number without an end")
        yield lists

    file.list_parts = lambda: map(load, _read(folder, name))
    return [file]


def _read(folder: TokenFolder, name: str) -> Iterator[Records]:
    with folder.location.open(name) as raw:
        stream = cast(io.BufferedReader, open_decompressed(raw, name))
        yield from read_records(stream, _MOST_RECORDS, _MOST_BYTES)


def _find_lists(data: np.ndarray, begin: int, end: int) -> dict[str, tuple[int, int]]:
    """Return where the numbers of each list of int64 in a serialised example begin and end.

    Raises:
        ValueError: it is no example.
    """
    lists = dict[str, tuple[int, int]]()
    for _, place, features_end in _walk(data, begin, end):
        for _, entry, entry_end in _walk(data, place, features_end):
            (_, name, name_end), (_, feature, _) = _walk(data, entry, entry_end)
            for kind, numbers, last in _walk(data, feature, entry_end):
                if kind == INT64_LIST:
                    # An empty list has no field.
                    [(_, first, stop)] = [*_walk(data, numbers, last)] or [(0, last, last)]
                    lists[data[name:name_end].tobytes().decode(errors="replace")] = first, stop
    return lists


def _walk(data: np.ndarray, place: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield the tag of each field, and where its content begins and ends."""
    while place < end:
        size, begin = take_varint(data, place + 1, end)
        if not 0 <= size <= end - begin or begin < 0:
            raise ValueError("a record is no tf.train.Example with packed numbers")
        yield int(data[place]), begin, begin + size
        place = begin + size


_ENDS = "Append the tokenizer's end-of-text id to each document's ids"
FORMAT = TokenFormat(_find, _open, "the program that wrote it", _ENDS)
