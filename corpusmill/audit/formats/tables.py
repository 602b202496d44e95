"""Tables with a column of ids: Parquet, Arrow and JSON lines, as `datasets` and TRL write them."""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO

import pyarrow as pa
import pyarrow.ipc
import pyarrow.json
import pyarrow.parquet as pq

from corpusmill.audit.formats.columns import ColumnTokens, Part, choose_columns
from corpusmill.audit.token_files import BATCH_TOKENS, TokenFile, TokenFolder, TokenFormat
from corpusmill.corpus.decompression import has_suffix, open_decompressed
from corpusmill.corpus.tables.table import TableStream

_TEXTS = (".jsonl", ".ndjson")
_STEP, _MOST_ROWS = 2**22, 2**12
# The bytes of JSON lines that are parsed at once, and of a line at most.
_LINES = 2**25
_Batches = Iterator[pa.RecordBatch]


def _find(folder: TokenFolder) -> Mapping[str, Sequence[str]]:
    # `map` of datasets leaves its results beside the files of save_to_disk.
    names = (name for name in folder.sizes if not posixpath.basename(name).startswith("cache-"))
    return {name: [] for name in names if has_suffix(name, (".parquet", ".arrow", *_TEXTS))}


def _open(folder: TokenFolder, name: str) -> list[TokenFile]:
    file = ColumnTokens(f"{folder.location}/{name}", "table")
    with folder.location.open(name) as stream:
        schema, _ = _open_table(stream, name, pa.schema([]))
    names = [column.name for column in schema if _holds_numbers(column.type)]
    file.meanings = choose_columns(names)
    wanted = pa.schema([schema.field(column) for column in file.meanings])

    def list_parts() -> Iterator[Part]:
        with folder.location.open(name) as stream:
            for batches in _open_table(stream, name, wanted)[1]:
                yield map(file.take_batch, batches)

    file.list_parts = list_parts
    return [file]


def _holds_numbers(kind: pa.DataType) -> bool:
    """Return whether values are lists of numbers, or lists of such lists."""
    is_list = False
    while not pa.types.is_dictionary(kind) and (inner := getattr(kind, "value_type", None)):
        kind, is_list = inner, True
    return is_list and (pa.types.is_primitive(kind) or pa.types.is_null(kind))


def _open_table(
    stream: BinaryIO, name: str, wanted: pa.Schema
) -> tuple[pa.Schema, Iterator[_Batches]]:
    """Return the schema of a table, and the batches of its parts, with the wanted columns alone."""
    if has_suffix(name, _TEXTS):
        lines = pa.PythonFile(open_decompressed(stream, name), mode="r")
        options = pa.json.ReadOptions(use_threads=False, block_size=_LINES)
        # Other columns may have other types in later blocks.
        known = {"explicit_schema": wanted, "unexpected_field_behavior": "ignore"} if wanted else {}
        reader = pa.json.open_json(lines, options, pa.json.ParseOptions(**known))
        return reader.schema, (iter([batch]) for batch in reader)
    source = pa.PythonFile(TableStream(stream), mode="r")
    if name.endswith(".parquet"):
        # With a buffer, and without pre_buffer, a column chunk is read in steps.
        table = pq.ParquetFile(source, pre_buffer=False, buffer_size=_STEP)
        groups = ((n, table.metadata.row_group(n)) for n in range(table.num_row_groups))
        return table.schema_arrow, (
            table.iter_batches(_fit(group.num_rows, group.total_byte_size), [n], wanted.names)
            for n, group in groups
        )
    try:
        reader = pa.ipc.open_file(source)
        batches = map(reader.get_batch, range(reader.num_record_batches))
    except pa.ArrowInvalid:  # a stream, as datasets writes it
        source.seek(0)
        if source.read(6) == b"ARROW1":
            raise ValueError("it ends without its footer") from None
        source.seek(0)
        reader = batches = pa.ipc.open_stream(source)
    return reader.schema, (iter([batch]) for batch in batches)


def _fit(rows: int, size: int) -> int:
    """Return how many rows have about BATCH_TOKENS ids of four bytes."""
    return max(1, min(_MOST_ROWS, 4 * BATCH_TOKENS * rows // max(1, size)))


_ENDS = "Append tokenizer.eos_token_id to the ids of each document in map()"
FORMAT = TokenFormat(_find, _open, "datasets", _ENDS)
