"""Packed rows of a token stream, by number: whole documents that fill rows of any length.

Source: Ding et al. 2024, "Fewer Truncations Improve Language Modeling", whose best fit
`corpusmill.objectives.examples.packing` has. The stream is stored once. A small file says which
pieces of its documents make each row, and only what a batch takes is copied.

The file is one of Arrow, which is mapped, with a batch for each shard of the split: a row of it is
the list of the places at which the pieces of a packed row begin in the shard's stream. A piece ends
with its document, or after as many tokens as a row has. One further row holds the number of packed
rows of each shard, and the tokens of the longest one. The schema says of which data set and of
which length it is, and each batch has a checksum.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import google_crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import smallest_integer
from corpusmill.arrays.ragged import cut_rows
from corpusmill.errors import UserError
from corpusmill.location import locate_here, refuse_special
from corpusmill.objectives.columns import boundary_column
from corpusmill.objectives.examples.packing import cumulate, pack_stream, packed_tokens
from corpusmill.objectives.gpt import LENGTHS
from corpusmill.reading.cache.shard_cache import MOST_MAPPED, THREADS, Stored, unpack_together
from corpusmill.reading.data_set import DataSet, Samples, digest_of
from corpusmill.reading.rows import Integers, Lists, Part, Values, gather_lists, group
from corpusmill.reading.token_windows import check_stream, stream_of
from corpusmill.synced_files import write_whole

_FORMAT = 1
_CHECKSUM = b"crc32c"
# What Arrow raises for bytes that it cannot read, and what is raised here.
_UNREADABLE = (OSError, ValueError, KeyError, pa.ArrowException)
_CURE = "Give another file, or remove it: then it is made anew"


class TokenPacks(Samples):
    """The documents of a token stream, packed into rows as `gpt --mode pack` packs them.

    A row has the pieces of documents that together fill max_seq_length best; only documents that
    are longer are cut. The columns are those of `gpt --mode pack`, and so are the batches.

    What makes each row is found once, when all shards of the split are read for it, and kept in a
    file with 4 bytes for each piece and for each row. Any number of processes may make it at a
    time.

    Args:
        data_set: built by `gpt --mode stream`.
        max_seq_length: the most tokens of a row, 2 to 2**20.
        file: the file, which is made if there is none; it suits this split of this data set and
            this length alone. None for one in the folder of unpacked shards.

    Attributes:
        manifest: the manifest of the data set, with the columns of packed rows.
        shard_sizes: rows of the documents of each shard.
        longest: tokens of the longest row.
        digest: the digest of the data set and of how it is packed.

    Raises:
        UserError: the data set is not a stream, the length is out of range, or the file cannot be
            written, is damaged, or is of another data set or length.

    Example:
        documents [5, 6, 9], [7, 9] and [8, 9], the rows of a stream, and max_seq_length 5 give the
        rows [5, 6, 9, 7, 9] and [8, 9].
    """

    def __init__(
        self, data_set: DataSet, max_seq_length: int, file: str | Path | None = None
    ) -> None:
        check_stream(data_set)
        if max_seq_length not in LENGTHS:
            cause = "rows of this length cannot be packed"
            raise UserError(f"max_seq_length={max_seq_length}", cause, f"Give {LENGTHS}")
        self.data_set, self.max_seq_length = data_set, max_seq_length
        tokens, manifest = data_set.columns[0], data_set.manifest
        meaning = "the tokens of documents, one behind the other"
        packed = replace(tokens, width=max_seq_length, meaning=meaning)
        columns = (packed, boundary_column(max_seq_length, max_seq_length))
        self.manifest = replace(manifest, columns=columns)
        self._packed_tokens = packed_tokens(max_seq_length)
        header = {
            "packs_format": str(_FORMAT), "data_set": data_set.digest,
            "max_seq_length": str(max_seq_length), "packed_tokens": str(self._packed_tokens),
        }  # fmt: skip
        self.digest = digest_of(header)
        place = smallest_integer(max(shard.tokens for shard in data_set.shards))
        lists = pa.field("pieces", pa.list_(pa.from_numpy_dtype(place)))
        self._schema = pa.schema([lists], metadata=header)
        default = data_set.cache_folder / f"{self.digest}.packs"
        self._file = default if file is None else locate_here("file", file)
        if not self._file.exists():
            self._make_file()
        self._open()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the mapped file: the receiving process opens its own."""
        return {name: value for name, value in vars(self).items() if name != "_batches"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._open()

    @property
    def parts(self) -> tuple[int, ...]:
        """The part of the data set that each shard belongs to, from 0; empty if all are of one."""
        return self.data_set.parts

    def lengths(self, samples: Integers) -> Integers:
        """Return the tokens of each row, int64[n], without reading it."""
        lengths = np.empty(len(samples), np.int64)
        for _, bounds, offsets, places in self._locate(self._check_numbers(samples)):
            lengths[places] = np.diff(_sum_up(bounds)[offsets])
        return lengths

    def stored_in(self, samples: Integers) -> list[Stored]:
        """Return the shards that hold some rows, int64[n]."""
        shards = np.unique(np.searchsorted(self._starts, samples, side="right") - 1)
        return [(self.data_set.cache, shard) for shard in shards.tolist()]

    def find_pieces(self, samples: Integers) -> list[Integers]:
        """Return which pieces of documents make some rows.

        Args:
            samples: int64[n], the numbers of the rows.

        Returns:
            For each row, int64[pieces, 3]: the number of the document in the data set, the first of
            its tokens, and their number.
        """
        pieces = [np.empty((0, 3), np.int64)] * len(samples)
        firsts = np.cumsum([0, *self.data_set.shard_sizes], dtype=np.int64)
        for shard, bounds, offsets, places in self._locate(self._check_numbers(samples)):
            documents = stream_of(self.data_set, shard).offsets
            begins, ends = bounds.T
            own = np.searchsorted(documents, begins, side="right") - 1
            found = np.stack([firsts[shard] + own, begins - documents[own], ends - begins], axis=1)
            for place, row in zip(places.tolist(), np.split(found, offsets[1:-1]), strict=True):
                pieces[place] = row
        return pieces

    def _read(self, samples: Integers, epochs: Integers) -> dict[str, Values]:  # noqa: ARG002
        """Return the columns `input_ids` and `cu_seqlens`."""
        tokens, boundaries = list[Part](), list[Part]()
        for shard, bounds, offsets, places in self._locate(samples):
            # Each second list of these is a piece; the others lie between two pieces.
            pieces = Lists(stream_of(self.data_set, shard).values, bounds.reshape(-1))
            numbers = np.arange(len(bounds))
            copied = gather_lists([Part(pieces, 2 * numbers, numbers)], len(bounds))
            rows = np.arange(len(places))
            tokens.append(Part(Lists(copied.values, copied.offsets[offsets]), rows, places))
            marks = Lists(*cumulate(copied.lengths, offsets))
            boundaries.append(Part(marks, rows, places))
        return {
            column.name: gather_lists(parts, len(samples), column.dtype)
            for column, parts in zip(self.manifest.columns, (tokens, boundaries), strict=True)
        }

    def _locate(self, samples: Integers) -> Iterator[tuple[int, Integers, Integers, Integers]]:
        """Yield the pieces of some rows, shard by shard.

        Yields:
            The shard; where the pieces begin and end in its stream, int64[pieces, 2], row after
            row; int64[rows + 1] into these; the place of each row among the samples, int64[rows].
        """
        groups = group(samples, self._starts)
        unpack_together([(self.data_set.cache, shard) for shard, _, _ in groups])
        for shard, rows, places in groups:
            begins, offsets = ragged.take(*self._find_packs(shard), rows)
            yield shard, self._bound(shard, begins), offsets.astype(np.int64), places

    def _bound(self, shard: int, begins: npt.NDArray[Any]) -> Integers:
        """Return where pieces begin and end in the stream of a shard, int64[pieces, 2]."""
        firsts = begins.astype(np.int64)
        documents = stream_of(self.data_set, shard).offsets
        ends = documents[np.searchsorted(documents, firsts, side="right")]
        return np.stack([firsts, np.minimum(firsts + self.max_seq_length, ends)], axis=1)

    def _find_packs(self, shard: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Return the packs of a shard: where pieces begin, row after row, and the rows' offsets."""
        packs = self._packs.get(shard)
        if packs is None:
            packs = self._read_packs(shard)
            self._check_packs(shard, *packs)
            self._packs[shard] = packs
            if len(self._packs) > MOST_MAPPED:
                self._packs.pop(next(iter(self._packs)), None)
        return packs

    def _read_packs(self, number: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Return the lists of a batch of the file.

        Raises:
            UserError: they are not those that were written.
        """
        try:
            batch, metadata = self._batches.get_batch_with_custom_metadata(number)
            batch.validate(full=True)
            if metadata is None or metadata[_CHECKSUM] != _checksum(batch):
                raise ValueError("its bytes have changed")
            return ragged.from_arrow(batch.column(0))
        except _UNREADABLE as error:
            raise self._damaged(f"batch {number}: {error}") from error

    def _check_packs(self, shard: int, begins: npt.NDArray[Any], offsets: npt.NDArray[Any]) -> None:
        """Refuse packs that do not hold each token of a shard once, in rows that are not too long.

        The file may have been made by anybody.
        """
        pieces = cut_rows(stream_of(self.data_set, shard).offsets, self.max_seq_length)[:-1]
        is_whole = len(offsets) == self.shard_sizes[shard] + 1 and offsets[0] == 0
        if is_whole and offsets[-1] == len(begins) and np.array_equal(np.sort(begins), pieces):
            lengths = np.diff(_sum_up(self._bound(shard, begins))[offsets])
            if lengths.max(initial=0) <= self.max_seq_length:
                return
        raise self._damaged(f"its rows are not those of {self.data_set.shards[shard].file}")

    def _damaged(self, cause: str) -> UserError:
        return UserError(str(self._file), f"it is damaged ({cause})", _CURE)

    def _make_file(self) -> None:
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):  # another process has made it meanwhile
                write_whole(self._file, self._fill, new=True)
        except OSError as error:
            cause = f"packs cannot be written there ({error.strerror or error})"
            cure = "Give a file in a folder with room that can be written to"
            raise UserError(f"file={self._file}", cause, cure) from error

    def _fill(self, stream: BinaryIO) -> None:
        sizes, longest = list[int](), 0
        with pa.ipc.new_file(stream, self._schema) as writer:
            for begins, offsets, tokens in self._pack_shards():
                self._write(writer, begins, offsets)
                sizes.append(len(offsets) - 1)
                longest = max(longest, tokens)
            counts = np.array([*sizes, longest])
            self._write(writer, counts, np.array([0, len(counts)]))

    def _write(self, writer: Any, values: Integers, offsets: Integers) -> None:
        batch = ragged.to_batch([ragged.to_arrow(values, offsets)], self._schema)
        writer.write_batch(batch, custom_metadata={_CHECKSUM: _checksum(batch)})

    def _pack_shards(self) -> Iterator[tuple[Integers, Integers, int]]:
        """Yield the packs of each shard, and the tokens of its longest row."""
        cache, shards = self.data_set.cache, range(len(self.data_set.shards))
        for shard in shards:
            if shard % THREADS == 0:
                unpack_together([(cache, other) for other in shards[shard : shard + THREADS]])
            documents = stream_of(self.data_set, shard).offsets
            begins, offsets = pack_stream(documents, self.max_seq_length, self._packed_tokens)
            lengths = np.diff(_sum_up(self._bound(shard, begins))[offsets])
            yield begins, offsets, int(lengths.max(initial=0))

    def _open(self) -> None:
        """Open the file, and read how many rows there are of each shard."""
        self._packs: dict[int, tuple[npt.NDArray[Any], npt.NDArray[Any]]] = {}
        try:
            refuse_special(self._file)
            self._batches = pa.ipc.open_file(pa.memory_map(str(self._file)))
        except _UNREADABLE as error:
            raise UserError(str(self._file), f"it cannot be read ({error})", _CURE) from error
        if not self._batches.schema.equals(self._schema, check_metadata=True):
            raise UserError(str(self._file), self._describe_difference(), _CURE)
        shards = len(self.data_set.shards)
        counts = self._read_packs(shards)[0].tolist()
        if len(counts) != shards + 1 or min(counts) < 0:
            raise self._damaged(f"it does not say how many rows {shards} shards have")
        *sizes, self.longest = counts
        self.shard_sizes = tuple(sizes)
        self._starts = np.cumsum([0, *sizes], dtype=np.int64)

    def _describe_difference(self) -> str:
        """Return a clause on what the file is of."""
        own, expected = self._batches.schema.metadata or {}, self._schema.metadata
        changed = [name for name in expected if own.get(name) != expected[name]]
        if own.keys() != expected.keys() or not changed:
            return "it is not a file of packs"
        if changed[0] == b"data_set":
            return "it is of another data set, or of this one before it was changed"
        name, made, wanted = (
            value.decode(errors="replace")
            for value in (changed[0], own[changed[0]], expected[changed[0]])
        )
        return f"it was made with {name}={made}, not {wanted}"


def _sum_up(bounds: Integers) -> Integers:
    """Return the tokens before each piece, and those of all, int64[pieces + 1]."""
    return np.concatenate([[0], np.cumsum(bounds[:, 1] - bounds[:, 0])])


def _checksum(batch: pa.RecordBatch) -> bytes:
    checksum = 0
    for buffer in batch.column(0).buffers():
        if buffer:
            checksum = google_crc32c.extend(checksum, buffer)
    return str(checksum).encode()
