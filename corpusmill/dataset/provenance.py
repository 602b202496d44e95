"""The entry of a manifest about the provenance of rows, and the names of its files.

    provenance/spans-train-00000-of-00032.parquet        of what the rows of a shard are made
    provenance/documents-train-00000-of-00032.parquet    the documents whose home the shard is

`corpusmill.provenance` writes and reads them.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from corpusmill.corpus.batches import OFFSET_BITS, document_id
from corpusmill.dataset.corpus_entry import ADDED_TAG
from corpusmill.formats import shard_names
from corpusmill.layout.placement import Layout

VERSION = 1
Kind = Literal["spans", "documents"]
Ids = npt.NDArray[np.uint64]
_SUFFIX = ".parquet"
_TAG = re.compile(rf"-({ADDED_TAG})(-bin-\d+-of-\d+)?-\d{{5}}-of-\d{{5}}\.parquet\Z")


@dataclass(frozen=True)
class Generation:
    """A part of a data set that was built at a time.

    Attributes:
        first_file: the number of the first file of its corpus, among all files.
        layout: by which its documents were spread over its shards.
        tag: stands in the names of its shards; empty for the first generation.
        shards: its number of shards of each split; empty where there is but one generation.
        moved_by: by how much the numbers of its files grew when data sets were merged; None for
            nothing. Its files of provenance, its layout and its draws have the ids from before.
    """

    first_file: Annotated[int, Meta(ge=0, le=2**24)]
    layout: Layout
    tag: Annotated[str, Meta(pattern=rf"\A({ADDED_TAG})?\Z")] = ""
    shards: Mapping[str, Annotated[int, Meta(ge=0)]] = field(default_factory=dict)
    moved_by: Annotated[int, Meta(ge=0, le=2**24)] | None = None

    @property
    def first_id(self) -> int:
        """What is added to the ids that its files have, so that they are those of the data set."""
        return document_id(self.moved_by or 0, 0)

    def first_file_of(self, source: int) -> int:
        """Return the number of the first file of a source of its layout, among all files."""
        first_document = self.layout.sources[source].first_document
        return (first_document + self.first_id) >> OFFSET_BITS

    def group(self, split: str, source: str | None) -> str:
        """Return what takes the split's place in the names of shards of a split and source."""
        return "-".join(filter(None, (split, source, self.tag)))


@dataclass(frozen=True)
class Provenance:
    """How provenance was written.

    Attributes:
        version: of the files.
        generations: the parts of the data set, in the order of their files.
        has_spans: whether the objective tells which tokens a row is made of, and not only which
            document it was built from.
    """

    version: Annotated[int, Meta(ge=1, le=1)]
    generations: tuple[Generation, ...]
    has_spans: bool = True

    def generation_of(self, name: str) -> Generation:
        """Return the generation that a file of provenance belongs to.

        Args:
            name: of the file (`provenance_name`).
        """
        tag = _TAG.search(name)
        if len(self.generations) == 1 or tag is None:
            return self.generations[0]
        return next(one for one in self.generations if one.tag == tag[1])

    def numbers_of(self, documents: Ids) -> npt.NDArray[np.int64]:
        """Return the number of each document's generation, int64[n].

        Args:
            documents: uint64[n], their ids in the data set.
        """
        firsts = [document_id(generation.first_file, 0) for generation in self.generations]
        ends = np.searchsorted(np.array(firsts, np.uint64), documents, side="right")
        numbers: npt.NDArray[np.int64] = ends - 1
        return numbers

    def own_ids(self, documents: Ids) -> Ids:
        """Return the ids, uint64[n], that documents had when they were built, before any merge.

        Args:
            documents: uint64[n], their ids in the data set.
        """
        moved = np.array([generation.first_id for generation in self.generations], np.uint64)
        own: Ids = documents - moved[self.numbers_of(documents)]
        return own

    def select_held(self, generation: Generation, documents: Ids) -> Ids:
        """Return those of some documents that rows of a generation may hold, which are its own.

        Args:
            generation: one of these generations.
            documents: uint64[n], their ids in the data set.
        """
        held: Ids = documents[self.numbers_of(documents) == self.generations.index(generation)]
        return held


def provenance_name(kind: Kind, group: str, number: int, total: int) -> str:
    """Return the name of a file of provenance.

    Args:
        kind: what it holds.
        group: what takes the split's place in the names of shards.
        number: of the shard in its group, from 0.
        total: shards of the group.
    """
    shard = shard_names.fill(shard_names.DEFAULT, group, number, total)
    return f"provenance/{kind}-{shard}{_SUFFIX}"


def list_provenance(files: Iterable[str], kind: Kind, split: str) -> Iterator[str]:
    """Yield the names of a split's files of provenance, in the order of its shards.

    Args:
        files: the names of a data set's files, in the manifest's order.
        kind: what they hold.
        split: "train" or "validation".
    """
    begin = f"provenance/{kind}-{split}-"
    yield from (name for name in files if name.startswith(begin))
