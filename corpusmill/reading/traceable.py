"""What a data set knows of the origin of its examples, and of its parts."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from corpusmill.dataset.manifest import Manifest, Shard
from corpusmill.errors import UserError
from corpusmill.location import Location
from corpusmill.reading.rows import Integers

if TYPE_CHECKING:
    from corpusmill.provenance.records import DocumentRecord, RowOrigin
    from corpusmill.provenance.tracer import TracedRow


class Traceable(ABC):
    """Traces examples to documents, and documents to rows.

    Attributes:
        folder: of the data set.
        manifest: of the data set.
        split: the split that is read.
        shards: the shards that are read.
    """

    folder: Location
    manifest: Manifest
    split: str
    shards: tuple[Shard, ...]

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

    @abstractmethod
    def _hold(self, shards: tuple[Shard, ...]) -> None:
        """Read some shards only."""

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
