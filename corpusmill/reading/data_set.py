"""A data set that a build has written: any of its examples, by number."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from corpusmill.console.compilation import announce_compilation
from corpusmill.dataset.file_checks import Problem
from corpusmill.dataset.manifest import Manifest, Shard
from corpusmill.dataset.shards import open_data_set
from corpusmill.errors import UserError, count_things, option
from corpusmill.location import locate, locate_here
from corpusmill.reading.cache.pieces import cut_shards
from corpusmill.reading.cache.shard_cache import (
    Leftovers,
    ShardCache,
    Stored,
    default_cache_folder,
    unpack_together,
)
from corpusmill.reading.checks import (
    Vocabulary,
    check_length,
    check_present,
    check_split,
    check_tokenizer,
    find_damaged,
)
from corpusmill.reading.order.order import WINDOW, Order
from corpusmill.reading.order.schedule import SLICES, cut_stretches, find_parts
from corpusmill.reading.rows import (
    Integers,
    Part,
    Rows,
    Values,
    gather_lengths,
    gather_lists,
    gather_numbers,
    group,
    integers,
)

if TYPE_CHECKING:
    from corpusmill.console.shown_reports import DataSetReport
    from corpusmill.provenance.store import DocumentRecord, RowOrigin
    from corpusmill.provenance.tracer import TracedRow

# Of each split, where a notebook shows a data set.
_SHOWN_EXAMPLES = 2


def digest_of(value: object) -> str:
    """Return the hexadecimal SHA-256 of a value as JSON."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


class Samples(ABC):
    """Samples that are read by number: a data set, windows of a token stream, or a mixture.

    They are a data source for Grain: its checkpoints name their source by `repr`, in which the
    digest stands, and not the place.

    Attributes:
        shard_sizes: the numbers of samples that are stored together, in order; an order of reading
            keeps them near each other.
        digest: a hexadecimal digest that distinguishes these samples from all others.
        longest: tokens of the longest sample.
        manifest: the manifest of the data set.
    """

    shard_sizes: tuple[int, ...]
    digest: str
    longest: int
    manifest: Manifest

    @property
    def parts(self) -> tuple[int, ...]:
        """The part of the data that each shard belongs to, from 0; empty if all are of one.

        The shards of a part are random samples of the same text.
        """
        return ()

    def order(
        self, seed: int = 0, shuffle: bool = True, window: int = WINDOW, lanes: int = 1
    ) -> Order:
        """Return the usual order of these samples: windows with rows of all parts, in proportion.

        Args:
            seed: the seed of the order.
            shuffle: whether to shuffle; otherwise samples are read in the order they are stored in.
            window: the number of samples that are shuffled together.
            lanes: see `Order`.

        Raises:
            UserError: a value is out of range.
        """
        sizes, parts = self.shard_sizes, self.parts
        if shuffle and self.manifest.output.order == "corpus":
            sizes, parts = cut_stretches(sizes, parts)
        return Order(sizes, seed, shuffle, window, lanes, parts, SLICES)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.digest[:16]} of {len(self):,} samples>"

    def __len__(self) -> int:
        return sum(self.shard_sizes)

    def __getitem__(self, sample: int) -> dict[str, Any]:
        """Return one example, as numbers and arrays of the columns' types."""
        return self._getitems([range(len(self))[sample]])[0]

    def _getitems(self, samples: Sequence[int]) -> list[dict[str, Any]]:
        """Return several examples at once; Grain's name for it."""
        return [self._present(row) for row in self.take(np.array(samples, np.int64))]

    def _present(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return what a single example is for users, from its columns."""
        return row

    def take(self, samples: Integers, epochs: Integers | None = None) -> Rows:
        """Return the samples of the given numbers, in that order.

        Args:
            samples: int64[n], 0 to len - 1.
            epochs: int64[n], the epoch in which each is read; None for 0.

        Raises:
            TypeError: samples or epochs are not a flat array of integers.
            ValueError: there is another number of epochs than of samples.
            IndexError: a number is out of range.
            UserError: a shard is damaged.
        """
        samples = self._check_numbers(samples)
        epochs = np.zeros(len(samples), np.int64) if epochs is None else integers("epochs", epochs)
        if len(epochs) != len(samples):
            raise ValueError(f"epochs has {len(epochs)} numbers for {len(samples)} samples")
        return Rows(self._read(samples, epochs), samples, epochs)

    @abstractmethod
    def lengths(self, samples: Integers) -> Integers:
        """Return the tokens of each sample, int64[n], without reading it."""

    def stored_in(self, samples: Integers) -> list[Stored]:  # noqa: ARG002
        """Return the pieces of shards that hold some samples, int64[n]; none if there are none."""
        return []

    @abstractmethod
    def _read(self, samples: Integers, epochs: Integers) -> Mapping[str, Values]:
        """Return the columns of some samples, int64[n], read in the given epochs, int64[n]."""

    def _check_numbers(self, samples: Integers) -> Integers:
        samples = integers("samples", samples)
        if len(samples) and not 0 <= int(samples.min()) <= int(samples.max()) < len(self):
            raise IndexError(f"it has {count_things(len(self), 'example')}, numbered from 0")
        return samples


class DataSet(Samples):
    """One split of a data set: `len` examples, read by number.

    Opening it reads only the manifest and, if there are no more than 1,000 files, their list. A
    shard, or a piece of a large one, is unpacked into `cache_folder` when its first example is read
    (`corpusmill.reading.cache.shard_cache`), and mapped into memory; tiny shards are read into
    memory. So memory does not grow with the data set, and all ranks and workers on a machine share
    what they read. A data set can be pickled and sent to other processes.

    Args:
        url: the folder that a build wrote: a path, or a URL of fsspec.
        split: "train" or "validation".
        cache_folder: the folder of unpacked shards; None for the user's cache folder.
        cache_bytes: the most bytes that unpacked shards may take there; None for no limit.
        storage_options: options of the filesystem, as fsspec takes them.
        tokenizer: a tokenizer.json, a folder with one, or a tokenizer of `transformers` or
            `tokenizers`; it must give the tokens of the data the same ids. None skips the check.
        max_length: the most tokens that the model takes; None skips the check.
        damaged: what to do about damaged shards. "refuse" raises an error: on first reading if a
            file is missing or its bytes differ, and of data sets of up to 1,000 files now if one is
            missing or has another size. "skip" reads and compares
            all shards now, and leaves damaged ones out; `skipped` lists them. Each process checks
            for itself: equal digests show that all found the same.

    Attributes:
        manifest: the manifest.
        columns: the columns of the examples.
        shard_sizes: examples of each shard.
        longest: tokens of the longest example.
        digest: the digest of the shards, in order; the same data has the same one everywhere.
        cache_folder: the folder of unpacked shards.
        skipped: the shards that are left out, each with the reason.
        skipped_rows: the number of examples in them.
        source: name of the source whose examples these are; None for all (`by_source`).

    Raises:
        UserError: there is no complete data set, it lacks the split, is damaged, or does not suit
            the tokenizer or the model.

    Example:
        DataSet("out")[0] is {"input_ids": array([2, 17, ...], int16), "token_type_ids": ...,
        "next_sentence_label": 1}.
    """

    def __init__(
        self,
        url: str | Path,
        split: str = "train",
        *,
        cache_folder: str | Path | None = None,
        cache_bytes: int | None = None,
        storage_options: Mapping[str, Any] | None = None,
        tokenizer: str | Path | Vocabulary | None = None,
        max_length: int | None = None,
        damaged: Literal["refuse", "skip"] = "refuse",
    ) -> None:
        announce_compilation()
        self._root, self._options = locate(str(url), storage_options), storage_options
        self.split = split
        cache = (
            locate_here("cache_folder", cache_folder) if cache_folder else default_cache_folder()
        )
        self.cache_folder = cache
        self._cache_place = (cache, cache_bytes, Leftovers(cache))
        try:
            self._open(split, tokenizer, max_length, damaged)
        except UserError:
            # It may just have been replaced, and the files of the manifest that was read removed.
            self._open(split, tokenizer, max_length, damaged)

    def _open(
        self,
        split: str,
        tokenizer: str | Path | Vocabulary | None,
        max_length: int | None,
        damaged: Literal["refuse", "skip"],
    ) -> None:
        self.folder, self.manifest = open_data_set(self._root)
        check_split(self.folder, self.manifest, split)
        if tokenizer is not None:
            check_tokenizer(self.folder, self.manifest, tokenizer)
        self.source: str | None = None
        self.longest = self.manifest.splits[split].longest
        if max_length is not None:
            check_length(self.manifest, str(self.folder), self.longest, max_length)
        self.columns = self.manifest.columns
        shards = self.manifest.splits[split].shards
        self.skipped: dict[str, str] = {}
        if damaged == "skip":
            self.skipped = find_damaged(self.folder, self.manifest, shards)
        else:
            check_present(self.folder, self.manifest, shards)
        self.skipped_rows = sum(shard.rows for shard in shards if shard.file in self.skipped)
        self._hold(tuple(shard for shard in shards if shard.file not in self.skipped))

    def _hold(self, shards: tuple[Shard, ...]) -> None:
        self.shards = shards
        self.shard_sizes = tuple(shard.rows for shard in self.shards)
        self.digest = digest_of([shard.sha256 for shard in self.shards])
        pieces = cut_shards(self.folder, self.manifest, self.shards)
        self.cache = ShardCache(self.folder, self.manifest, pieces, *self._cache_place)
        self._starts = pieces.starts

    def __repr__(self) -> str:
        splits = ", ".join(
            f"{name}: {count_things(entry.rows, 'row')} of {entry.tokens:,} tokens"
            for name, entry in self.manifest.splits.items()
        )
        objective = self.manifest.objective.name
        return f"<DataSet {self.digest[:16]} for {objective}, split {self.split!r} of {splits}>"

    def _repr_html_(self) -> str:
        try:
            return self.report(_SHOWN_EXAMPLES)._repr_html_()
        except UserError:  # a shard is damaged, which reading it will say
            return self.report(0)._repr_html_()

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def parts(self) -> tuple[int, ...]:
        """The part of the data set that each shard belongs to, from 0; empty if all are of one.

        A part is what was built at a time, of one source.
        """
        return find_parts(self.manifest, self.split, self.shards)

    def report(self, examples: int = 3) -> "DataSetReport":
        """Return the figures of all splits, the findings, and decoded examples.

        It prints as text, and shows itself in a notebook.

        Args:
            examples: how many examples of each split, drawn at random from all shards.

        Raises:
            UserError: a shard is damaged.
        """
        from corpusmill.console.shown_reports import make_report  # noqa: PLC0415  trainers need none

        return make_report(self.folder, self.manifest, str(self._root), examples)

    def verify(self) -> list[Problem]:
        """Compare every byte, row and count of all splits with the manifest.

        Returns:
            All differences; an empty list for a sound data set.
        """
        from corpusmill.verification.check_data_set import verify  # noqa: PLC0415  readers need none of what it imports

        return verify(self._root)

    def load(self, split: str | None = None, **options: Any) -> Self:
        """Open a split of the same data set.

        Args:
            split: "train" or "validation"; None for that of this one.
            options: how it is read: the keywords of the class.

        Example:
            DataSet("out").load("validation", max_length=512)
        """
        given = {"storage_options": self._options, **options}
        opened = type(self)(self._root.url, split or self.split, **given)
        return opened if self.source is None else opened.by_source()[self.source]

    def by_source(self) -> dict[str, Self]:
        """Return the examples of each source by themselves, such as for `mix`.

        Returns:
            The sources that have examples in the split, by name.

        Raises:
            UserError: the data set has no sources with names.
        """
        names = dict.fromkeys(shard.source for shard in self.shards if shard.source and shard.rows)
        if not names:
            cause = "no part of its corpus has a name"
            raise UserError(
                str(self.folder), cause, f"Build it with {option('source', 'NAME=PATH')}"
            )
        parts = {name: copy(self) for name in names}
        own: dict[str, list[Shard]] = {name: [] for name in names}
        for shard in self.shards:
            if shard.source in own:
                own[shard.source].append(shard)
        for name, part in parts.items():
            part.source = name
            part._hold(tuple(own[name]))
        return parts

    def first_generations(self, number: int) -> Self:
        """Return the examples of the first parts of a data set that was added to (`--append`).

        So a run can continue with what it began with.

        Args:
            number: how many parts.

        Raises:
            UserError: the data set has not as many parts, or these have no examples in the split.
        """
        known = self.manifest.provenance.generations if self.manifest.provenance else ()
        most, value = max(1, len(known)), f"first_generations({number})"
        if not 1 <= number <= most:
            raise UserError(value, f"the data set has {most}", f"Give 1 to {most}")
        shards = self.manifest.splits[self.split].shards
        if most > 1:
            shards = shards[: sum(part.shards.get(self.split, 0) for part in known[:number])]
        kept = {shard.file for shard in shards}
        if not any(shard.rows for shard in shards):
            raise UserError(value, f"they have no examples in {self.split}", "Give more")
        part = copy(self)
        part._hold(tuple(shard for shard in self.shards if shard.file in kept))
        return part

    def rows_in_split(self, samples: Integers) -> Integers:
        """Return the numbers of examples among all rows of their split, int64[n].

        They differ where some shards are not read, such as those of other sources.

        Args:
            samples: int64[n], the numbers of the examples.
        """
        entries = self.manifest.splits[self.split].shards
        firsts = np.cumsum([0, *(entry.rows for entry in entries)])
        in_split = {entry.file: first for entry, first in zip(entries, firsts, strict=False)}
        starts = np.cumsum([0, *(shard.rows for shard in self.shards)])
        own = np.array([in_split[shard.file] for shard in self.shards], np.int64)
        shards = np.searchsorted(starts, samples, side="right") - 1
        rows: Integers = own[shards] + samples - starts[shards]
        return rows

    def trace(
        self, samples: Iterable[int], inputs: Sequence[str | Path] | None = None
    ) -> "list[TracedRow]":
        """Return of which documents, and of which of their tokens, examples are made.

        Args:
            samples: the numbers of the examples.
            inputs: where the corpus is, as a build takes it, to read texts from; None reads none.

        Raises:
            IndexError: there is no such example.
            UserError: the data set was built without provenance, or a file of it is damaged.

        Example:
            for row in data_set.trace([7], ["corpus"]):
                for span in row.spans:
                    print(span.document.file, span.document.record.place, span.text)
        """
        from corpusmill.provenance.read_again import Inputs  # noqa: PLC0415  trainers need none
        from corpusmill.provenance.tracer import Tracer  # noqa: PLC0415

        numbers = np.array([*samples], np.int64)
        total = sum(shard.rows for shard in self.shards)
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < total:
            raise IndexError(f"there are {total} examples, numbered from 0")
        places = None if inputs is None else Inputs(tuple(map(str, inputs)))
        tracer = Tracer(self.folder, self.manifest, places)
        return tracer.trace(self.split, self.rows_in_split(numbers).tolist())

    def rows_of(self, documents: Iterable[int]) -> "list[RowOrigin]":
        """Return every row of the data set, of any split, that holds text of some documents.

        Args:
            documents: their ids.

        Raises:
            UserError: the data set was built without provenance, or a file of it is damaged.
        """
        from corpusmill.provenance.store import OriginStore  # noqa: PLC0415

        ids = np.array([*documents], np.uint64)
        return list(OriginStore(self.folder, self.manifest).rows_of(ids))

    def find_documents(self, where: str) -> "list[DocumentRecord]":
        """Return the documents for which a condition of SQL is true; this needs duckdb.

        Args:
            where: the condition, over document, file, source, split, place, length, tokens, digest
                and the kept fields ("url LIKE '%example%'").

        Raises:
            UserError: the data set was built without provenance, duckdb is not installed, or it
                refuses the condition.
        """
        from corpusmill.provenance.search import search_documents  # noqa: PLC0415

        return search_documents(self.folder, self.manifest, where)

    def lengths(self, samples: Integers) -> Integers:
        """Return the tokens of each example, int64[n], without reading it."""
        pieces = self._locate(self._check_numbers(samples))
        return gather_lengths(_parts(pieces, self.columns[0].name), len(samples))

    def stored_in(self, samples: Integers) -> list[Stored]:
        """Return the pieces of shards that hold some samples, int64[n]."""
        pieces = np.searchsorted(self._starts, samples, side="right") - 1
        return [(self.cache, piece) for piece in np.unique(pieces).tolist()]

    def _read(self, samples: Integers, epochs: Integers) -> dict[str, Values]:  # noqa: ARG002
        columns: dict[str, Values] = {}
        pieces = self._locate(samples)
        for column in self.columns:
            gather = gather_lists if column.width else gather_numbers
            columns[column.name] = gather(_parts(pieces, column.name), len(samples), column.dtype)
        return columns

    def _locate(self, samples: Integers) -> list["_Piece"]:
        """Find the pieces of some samples, and the samples' rows there."""
        groups = group(samples, self._starts)
        needed = [piece for piece, _, _ in groups]
        unpack_together([(self.cache, piece) for piece in needed])
        return [(self.cache.columns(piece, needed), rows, places) for piece, rows, places in groups]


# Most libraries spell it so, and nobody should have to remember which one this is.
Dataset = DataSet


# The columns of a shard, the rows that are read there, and their places among all.
_Piece = tuple[dict[str, Values], Integers, Integers]


def _parts(pieces: Sequence[_Piece], name: str) -> list[Part]:
    return [Part(columns[name], rows, places) for columns, rows, places in pieces]
