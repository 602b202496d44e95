"""Documents found by a condition of SQL, which DuckDB evaluates over the tables of documents."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from corpusmill.arrays.text_hashes import DOCUMENT_COLUMNS
from corpusmill.corpus.batches import OFFSET_BITS
from corpusmill.corpus.conditions import connect, nest, quote, refusing
from corpusmill.dataset.manifest import Manifest
from corpusmill.location import Location
from corpusmill.provenance.store import DocumentRecord, OriginStore, records_of


def search_documents(folder: Location, manifest: Manifest, where: str) -> list[DocumentRecord]:
    """Return the documents for which a condition is true, by id.

    Args:
        folder: of the data set.
        manifest: of the data set, which has provenance.
        where: the condition, as DuckDB understands it, over document, file, source, split, place,
            length, tokens, digest and the kept fields. A field inside another is `"meta.url"`, or
            `meta.url` unless a column is called `meta`.

    Raises:
        UserError: if the data set was built without provenance, DuckDB is not installed or refuses
            the condition, or a file of provenance is damaged.
    """
    tables = search_tables(OriginStore(folder, manifest), where)
    found = [record for table in tables for record in records_of(table)]
    return sorted(found, key=lambda record: record.document)


def search_tables(store: OriginStore, where: str) -> Iterator[pa.Table]:
    """Yield the documents for which a condition is true, some at a time, as `OriginStore.tables`.

    Args:
        store: the provenance of the data set.
        where: as of `search_documents`.

    Raises:
        UserError: as of `search_documents`.
    """
    with connect(where) as connection:
        paths = pa.array([entry.path for entry in store.manifest.corpus.files], pa.string())
        numbers = pa.array(range(len(paths)), pa.uint64())
        bits = pa.array(map(store.piece_bits_of, range(len(paths))), pa.uint64())
        files = pa.table({"number": numbers, "path": paths, "piece_bits": bits})
        connection.register("files", files)
        for split in store.manifest.splits:
            for documents in store.tables(split):
                names = _distinct(documents.column_names)
                connection.register("documents", documents.select(names))
                told = _told(store, split, names)
                columns = "".join(f", {value} AS {quote(name)}" for name, value in told.items())
                columns += _nest(names, told)
                described = (
                    f"SELECT documents.*{columns} FROM documents "  # noqa: S608  the user's own
                    f"JOIN files ON files.number = documents.document >> {OFFSET_BITS}"
                )
                query = f"SELECT document FROM ({described}) AS documents WHERE (\n{where}\n)"  # noqa: S608
                with refusing(where, [*names, *told]):
                    found = connection.sql(query).to_arrow_table().column("document")
                is_found = np.isin(documents.column("document").to_numpy(), found.to_numpy())
                yield documents.filter(pa.array(is_found))


def _distinct(names: Sequence[str]) -> list[str]:
    """Return the columns that DuckDB tells apart: it reads `url` and `URL` as one name."""
    counts = Counter(name.lower() for name in names)
    return [name for name in names if name in DOCUMENT_COLUMNS or counts[name.lower()] == 1]


def _nest(names: Sequence[str], told: Iterable[str]) -> str:
    """Return the columns of SQL through which `meta.url` is the column "meta.url" as well."""
    taken = {name.lower() for name in (*names, *told)}
    paths = {tuple(name.lower().split(".")): f"documents.{quote(name)}" for name in names}
    nested = {path: value for path, value in paths.items() if path[1:] and path[0] not in taken}
    return "".join(f", {value} AS {quote(name)}" for name, value in nest(nested).items())


def _told(store: OriginStore, split: str, names: Sequence[str]) -> Mapping[str, str]:
    """Return what the ids of documents tell, in SQL, by name; a kept field may have the name."""
    place = f"(documents.document & {2**OFFSET_BITS - 1}::UBIGINT) >> files.piece_bits"
    told = {"file": "files.path", "place": f"({place})::BIGINT", "split": f"'{split}'"}
    if store.manifest.corpus.sources:
        told["source"] = "split_part(files.path, '/', 1)"
    taken = {name.lower() for name in names}
    return {name: value for name, value in told.items() if name not in taken}
