"""Documents found by a condition of SQL, over what the data set keeps of them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from corpusmill.corpus.batches import OFFSET_BITS
from corpusmill.dataset.manifest import Manifest
from corpusmill.errors import UserError, first_line, option
from corpusmill.location import Location
from corpusmill.provenance.records import DocumentRecord, records_of
from corpusmill.provenance.store import OriginStore

_FLAG, _NUMBER = option("where"), "corpusmill row"


def search_documents(folder: Location, manifest: Manifest, where: str) -> list[DocumentRecord]:
    """Return the documents for which a condition is true, by id.

    Args:
        folder: of the data set.
        manifest: of the data set, which has provenance.
        where: the condition, as DuckDB understands it, over document, file, source, split, place,
            length, tokens, digest and the kept fields.

    Raises:
        UserError: the data set was built without provenance, DuckDB is not installed or refuses the
            condition, or a file of provenance is damaged.
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
        raise UserError(f"{_FLAG} {where}", cause, "Run `pip install 'corpusmill[sql]'`") from None
    with duckdb.connect(config={"enable_external_access": "false"}) as connection:
        for split in store.manifest.splits:
            for table in store.tables(split):
                chosen = _select(connection, _describe(table, store, split), where)
                yield table.take(pa.array(chosen))


def _describe(table: pa.Table, store: OriginStore, split: str) -> pa.Table:
    """Add to a table of documents what their ids tell, and their numbers in the table."""
    manifest = store.manifest
    names = pa.array([entry.path for entry in manifest.corpus.files], pa.string())
    ids = table.column("document").to_numpy()
    files = names.take(pa.array((ids >> np.uint64(OFFSET_BITS)).astype(np.int64)))
    places = (ids & np.uint64(2**OFFSET_BITS - 1)) >> np.uint64(store.piece_bits)
    told = {
        "file": files,
        "place": pa.array(places.astype(np.int64)),
        "split": pa.array([split] * len(ids), pa.string()),
    }
    if manifest.corpus.sources:
        begins = [name.partition("/")[0] for name in files.to_pylist()]
        told["source"] = pa.array(begins, pa.string())
    for column, values in told.items():
        if column not in table.column_names:  # a kept field may have the name
            table = table.append_column(column, values)
    return table.append_column(_NUMBER, pa.array(range(len(ids)), pa.int64()))


def _select(connection: Any, table: pa.Table, where: str) -> np.ndarray:
    """Return the numbers, int64[n], of the rows of a table for which a condition is true."""
    connection.register("documents", table)
    query = f'SELECT "{_NUMBER}" FROM documents WHERE ({where})'  # noqa: S608  the user's own
    try:
        rows = connection.execute(query).fetchnumpy()
    except Exception as error:  # duckdb has many classes of errors
        cause = f"DuckDB refuses the condition ({first_line(error)})"
        columns = ", ".join(table.column_names[:-1])
        raise UserError(f"{_FLAG} {where}", cause, f"Its columns are {columns}") from None
    finally:
        connection.unregister("documents")
    numbers: np.ndarray = np.sort(np.asarray(rows[_NUMBER], np.int64))
    return numbers
