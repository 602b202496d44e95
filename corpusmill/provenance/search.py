"""Documents found by a condition of SQL, which DuckDB evaluates over the tables of documents."""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from corpusmill.corpus.batches import OFFSET_BITS
from corpusmill.dataset.manifest import Manifest
from corpusmill.errors import UserError, first_line, option
from corpusmill.location import Location
from corpusmill.provenance.records import DocumentRecord, records_of
from corpusmill.provenance.store import OriginStore


def search_documents(folder: Location, manifest: Manifest, where: str) -> list[DocumentRecord]:
    """Return the documents for which a condition is true, by id.

    Args:
        folder: of the data set.
        manifest: of the data set, which has provenance.
        where: the condition, as DuckDB understands it, over document, file, source, split, place,
            length, tokens, digest and the kept fields.

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
    try:
        import duckdb  # noqa: PLC0415  an extra
    except ModuleNotFoundError:
        cause = "conditions of SQL need the package duckdb, which is not installed"
        raise UserError(
            option("where", where), cause, "Run `pip install 'corpusmill[sql]'`"
        ) from None
    with duckdb.connect(config={"enable_external_access": "false"}) as connection:
        paths = pa.array([entry.path for entry in store.manifest.corpus.files], pa.string())
        numbers = pa.array(range(len(paths)), pa.uint64())
        bits = pa.array(map(store.piece_bits_of, range(len(paths))), pa.uint64())
        files = pa.table({"number": numbers, "path": paths, "piece_bits": bits})
        connection.register("files", files)
        for split in store.manifest.splits:
            for documents in store.tables(split):
                connection.register("documents", documents)
                names, told = documents.column_names, _told(store, split, documents.column_names)
                columns = ", ".join(f'documents."{name}"' for name in names)
                further = "".join(f", {value} AS {name}" for name, value in told.items())
                described = (
                    f"SELECT documents.*{further} FROM documents "  # noqa: S608  the user's own
                    f"JOIN files ON number = document >> {OFFSET_BITS}"
                )
                query = f"SELECT {columns} FROM ({described}) AS documents WHERE ({where})"  # noqa: S608
                try:
                    yield connection.sql(query).to_arrow_table()
                except duckdb.Error as error:
                    cause = f"DuckDB refuses the condition ({first_line(error)})"
                    cure = f"Its columns are {', '.join([*names, *told])}"
                    raise UserError(option("where", where), cause, cure) from None


def _told(store: OriginStore, split: str, names: Sequence[str]) -> Mapping[str, str]:
    """Return what the ids of documents tell, in SQL, by name; a kept field may have the name."""
    place = f"(document & {2**OFFSET_BITS - 1}::UBIGINT) >> piece_bits"
    told = {"file": "path", "place": f"({place})::BIGINT", "split": f"'{split}'"}
    if store.manifest.corpus.sources:
        told["source"] = "split_part(path, '/', 1)"
    return {name: value for name, value in told.items() if name not in names}
