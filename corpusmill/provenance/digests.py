"""The digests of all documents that a data set has, or had before they were removed."""

from collections.abc import Iterable, Iterator

from corpusmill.corpus.filters.duplicates import Digests
from corpusmill.dataset.manifest import Manifest
from corpusmill.dataset.manifest_entries import list_provenance, removal_name
from corpusmill.location import Location
from corpusmill.provenance.store import open_documents


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
            yield manifest.path_of(removal_name(number))


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
