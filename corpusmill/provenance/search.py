"""Documents found by a condition of SQL, which DuckDB evaluates over the tables of documents."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from corpusmill.arrays.text_hashes import DOCUMENT_COLUMNS
from corpusmill.corpus.batches import OFFSET_BITS
from corpusmill.dataset.manifest import Manifest
from corpusmill.errors import UserError, first_line, option, suggest
from corpusmill.location import Location
from corpusmill.provenance.store import DocumentRecord, OriginStore, records_of

# How DuckDB names a column that there is not.
_UNKNOWN_COLUMN = re.compile(r'column "([^"]+)" not found|column named "?([^"\s]+)"?')


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
                names = _distinct(documents.column_names)
                connection.register("documents", documents.select(names))
                told = _told(store, split, names)
                columns = "".join(f", {value} AS {_quote(name)}" for name, value in told.items())
                columns += _nest(names, told)
                described = (
                    f"SELECT documents.*{columns} FROM documents "  # noqa: S608  the user's own
                    f"JOIN files ON number = document >> {OFFSET_BITS}"
                )
                query = f"SELECT document FROM ({described}) AS documents WHERE ({where})"  # noqa: S608
                try:
                    found = connection.sql(query).to_arrow_table().column("document")
                except duckdb.Error as error:
                    cause = f"DuckDB refuses the condition ({first_line(error)})"
                    known = [*names, *told]
                    unknown = _UNKNOWN_COLUMN.search(str(error))
                    cure = suggest(unknown[1], known) if unknown else ""
                    cure += f"Its columns are {', '.join(known)}"
                    raise UserError(option("where", where), cause, cure) from None
                is_found = np.isin(documents.column("document").to_numpy(), found.to_numpy())
                yield documents.filter(pa.array(is_found))


def _distinct(names: Sequence[str]) -> list[str]:
    """Return the columns that DuckDB tells apart: it reads `url` and `URL` as one name."""
    counts = Counter(name.lower() for name in names)
    return [name for name in names if name in DOCUMENT_COLUMNS or counts[name.lower()] == 1]


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _nest(names: Sequence[str], told: Iterable[str]) -> str:
    """Return the columns of SQL through which `meta.url` is the column "meta.url" as well."""
    taken = {name.lower() for name in (*names, *told)}
    tree: dict[str, Any] = {}
    for name in sorted(names, key=lambda name: name.count(".")):
        *outer, last = name.lower().split(".")
        inner: Any = tree
        for part in outer:
            inner = inner.setdefault(part, {}) if isinstance(inner, dict) else None
        if outer and outer[0] not in taken and isinstance(inner, dict):
            inner[last] = f"documents.{_quote(name)}"
    return "".join(f", {_pack(inner)} AS {_quote(name)}" for name, inner in tree.items() if inner)


def _pack(value: Any) -> str:
    if isinstance(value, str):
        return value
    members = (f"{_quote(name)} := {_pack(inner)}" for name, inner in value.items() if inner)
    return f"struct_pack({', '.join(members)})"


def _told(store: OriginStore, split: str, names: Sequence[str]) -> Mapping[str, str]:
    """Return what the ids of documents tell, in SQL, by name; a kept field may have the name."""
    place = f"(document & {2**OFFSET_BITS - 1}::UBIGINT) >> piece_bits"
    told = {"file": "path", "place": f"({place})::BIGINT", "split": f"'{split}'"}
    if store.manifest.corpus.sources:
        told["source"] = "split_part(path, '/', 1)"
    taken = {name.lower() for name in names}
    return {name: value for name, value in told.items() if name not in taken}
