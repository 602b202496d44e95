"""The digests of all documents that data sets have, or had before they were removed."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa

from corpusmill.arrays.distinct import are_among, sort_distinct
from corpusmill.corpus.filters.duplicates import DigestFilter, Digests
from corpusmill.dataset.manifest import Manifest
from corpusmill.dataset.manifest_entries import list_provenance, removal_name
from corpusmill.limits import StageLimits
from corpusmill.location import Location
from corpusmill.provenance.documents_table import Ids
from corpusmill.provenance.store import OriginStore, open_documents


def list_tables(manifest: Manifest) -> Iterator[str]:
    """Yield the names of the tables of all documents that a data set has or had.

    Args:
        manifest: of the data set, which has provenance.
    """
    entries = [entry.file for entry in manifest.files]
    for split in manifest.splits:
        yield from list_provenance(entries, "documents", split)
    # What was removed must not come back with the next crawl.
    for number, removal in enumerate(manifest.removals):
        if removal.is_listed:
            yield removal_name(number)


def read_digests(folder: Location, names: Iterable[str]) -> Iterator[Digests]:
    """Yield the digests in tables of documents, uint64[n], a group of them at a time.

    Args:
        folder: of the data set.
        names: of the tables.
    """
    for name in names:
        with open_documents(folder, name) as documents:
            for table in documents.groups(["digest"]):
                yield table.column("digest").combine_chunks().to_numpy()


def find_shared(
    store: OriginStore, earlier: Sequence[tuple[Location, Manifest]], limits: StageLimits
) -> Ids:
    """Find the documents of a data set whose text others have, or had.

    Args:
        store: of the data set.
        earlier: the others.
        limits: thresholds of the run.

    Returns:
        uint64[n], their ids in ascending order.

    Raises:
        UserError: a file of provenance is damaged.
    """
    # A tenth of others passes a filter of 32 MB where 30 million digests were added.
    passing = DigestFilter(limits.shared_filter_bits)
    for table in _tables(store) if earlier else ():
        passing.add(table.column("digest").to_numpy())

    def read_others() -> Iterator[Digests]:
        others = ((folder, list_tables(manifest)) for folder, manifest in earlier)
        return map(passing.select, chain.from_iterable(read_digests(*each) for each in others))

    parts = 1 + sum(map(len, read_others())) // limits.shared_digests
    found = [np.zeros(0, np.uint64)]
    for part in range(parts if earlier else 0):
        found += _find_part(store, read_others, part, parts)
    return np.sort(np.concatenate(found))


def _find_part(
    store: OriginStore, read_others: Callable[[], Iterator[Digests]], part: int, parts: int
) -> Iterator[Ids]:
    """Yield the documents with one part of the digests, by their remainders."""
    own = [digests[digests % np.uint64(parts) == part] for digests in read_others()]
    known = sort_distinct(np.concatenate([np.zeros(0, np.uint64), *own]))
    for table in _tables(store) if len(known) else ():
        are_known = are_among(table.column("digest").to_numpy(), known)
        yield table.column("document").to_numpy()[are_known]


def _tables(store: OriginStore) -> Iterator[pa.Table]:
    for split in store.manifest.splits:
        yield from store.tables(split, ["document", "digest"])
