"""Conditions of SQL, which DuckDB judges: of documents that are searched, and of records to read.

A condition over the fields of records is tried before any work on the first records of some files,
which a `Sample` gathers. These decide once what DuckDB's type of each field is, so that no answer
depends on how records are cut into batches. Values of JSON and of cells have the types that
`read_json` and `read_csv` of DuckDB find, and columns of tables their own, the wider one where
files differ. A later value of another kind is NULL to the condition, and is counted.
"""

import atexit
import json
import os
import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import chain, islice
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv

from corpusmill.corpus.batches import FileRange
from corpusmill.corpus.decompression import DamagedStreamError
from corpusmill.corpus.document_options import DocumentOptions, judge_records
from corpusmill.corpus.input_formats import piece_bits, read_file
from corpusmill.corpus.records.nested_fields import list_names
from corpusmill.errors import UserError, first_line, option, suggest

_CURE = "Give a condition on the fields of a record, such as \"score > 0.5 and lang = 'en'\""
# What looks at other records, or has no name.
_REFUSED = ("SUBQUERY", "WINDOW", "STAR", "POSITIONAL_REFERENCE", "PARAMETER")
# Aggregates are refused where a condition stands, by DuckDB itself.
_CHANGING = """
    SELECT function_name || '()' FROM duckdb_functions() WHERE list_contains(?, function_name) AND (
        stability <> 'CONSISTENT' OR regexp_matches(macro_definition, 'current_|sleep|SELECT'))
"""
# The files whose first records are sampled, and the batches of records that are read of all.
_SAMPLED_FILES = 8
# DuckDB reads longer lines than this only if it is told to.
_LEAST_BUFFER = 2**24
_READERS = {
    True: "read_csv('{}', header=true, delim=',', quote='\"', escape='\"', max_line_size={}, "
    "sample_size=-1)",
    False: "read_json('{}', format='nd', maximum_object_size={}, sample_size=-1)",
}
_INTEGERS = ("BIGINT", "UBIGINT")
# The kinds of JSON's values, as `json_type` names them, that a type takes; texts for all others.
_KINDS = {
    "BIGINT": _INTEGERS, "UBIGINT": _INTEGERS, "HUGEINT": _INTEGERS, "UHUGEINT": _INTEGERS,
    "DOUBLE": (*_INTEGERS, "DOUBLE"), "BOOLEAN": ("BOOLEAN",), '"NULL"': (),
    "JSON": (*_INTEGERS, "DOUBLE", "BOOLEAN", "VARCHAR", "ARRAY", "OBJECT"),
    "list": ("ARRAY",), "struct": ("OBJECT",), "map": ("OBJECT",),
}  # fmt: skip

# How DuckDB names a column that there is not.
_UNKNOWN_COLUMN = re.compile(r'column "([^"]+)" not found|column named "?([^"\s]+)"?')

_Types = Mapping[str, Any]
_Names = tuple[str, ...]


def connect(where: str, **config: str) -> Any:
    """Open a DuckDB in memory, which reaches neither files nor the network.

    Args:
        where: the condition for which it is needed.
        config: its settings.

    Raises:
        UserError: DuckDB is not installed.
    """
    try:
        import duckdb  # noqa: PLC0415  an extra
    except ModuleNotFoundError:
        cause = "conditions of SQL need the package duckdb, which is not installed"
        raise UserError(
            option("where", where), cause, "Run `pip install 'corpusmill[sql]'`"
        ) from None
    connection = duckdb.connect(config={"enable_external_access": "false", **config})
    with suppress(duckdb.Error):  # what does not know time zones always takes UTC
        connection.execute("SET TimeZone = 'UTC'")
    return connection


@contextmanager
def refusing(where: str, names: Iterable[str]) -> Iterator[None]:
    """Refuse a condition that DuckDB refuses in a block, with the names of the fields that it has.

    Raises:
        UserError: DuckDB has refused it.
    """
    import duckdb  # noqa: PLC0415  an extra

    try:
        yield
    except duckdb.Error as error:
        unknown = _UNKNOWN_COLUMN.search(str(error))
        cause, names = f"DuckDB refuses the condition ({first_line(error)})", [*names]
        cure = suggest(unknown[1], names) if unknown else ""
        cure += f"Its columns are {list_names(names)}"
        if isinstance(error, duckdb.ConversionException):
            cure += ". TRY_CAST gives NULL where a value does not fit"
        raise UserError(option("where", where), cause, cure) from None


def quote(name: str) -> str:
    """Return a name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


def nest(values: Mapping[_Names, str]) -> dict[str, str]:
    """Return expressions of SQL by name; those with names of several parts are members of structs.

    Args:
        values: expressions. One inside another that is given, too, is left out.

    Example:
        {("a",): "1", ("b", "c"): "2"} gives {"a": "1", "b": 'struct_pack("c" := 2)'}.
    """
    tree: dict[str, Any] = {}
    for path in sorted(values, key=len):
        *outer, last = path
        inner: Any = tree
        for name in outer:
            inner = inner.setdefault(name, {}) if isinstance(inner, dict) else None
        if isinstance(inner, dict):
            inner[last] = values[path]
    return {name: _pack(value) for name, value in tree.items()}


def _pack(value: Any) -> str:
    if isinstance(value, str):
        return value
    members = (f"{quote(name)} := {_pack(inner)}" for name, inner in value.items())
    return f"struct_pack({', '.join(members)})"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


class Field(NamedTuple):
    """A field of a condition.

    Attributes:
        path: the names that lead to it, from the outside in.
        type: DuckDB's type.
        kinds: the kinds of values that are of this type: of JSON, or types of columns.
    """

    path: _Names
    type: str
    kinds: _Names

    def find_in_json(self) -> tuple[str, str]:
        """Return its value in an object of JSON, and whether that is of another kind, in SQL."""
        names = (name.replace("~", "~0").replace("/", "~1") for name in self.path)
        place = f"(record, {_text(''.join(f'/{name}' for name in names))})"
        kind, value = f"coalesce(json_type{place}, 'NULL')", f"json_extract{place}"
        fits = f"{kind} IN ({', '.join(map(_text, ('', *self.kinds)))})"
        if self.type != "JSON":
            value = f"from_json({value}, {_text(json.dumps(self.type))})"
        value = f"CASE WHEN {fits} THEN {value} END" if self.kinds else "NULL"
        return value, f"({kind} <> 'NULL' AND ({value}) IS NULL)"

    def find_in_row(self, types: _Types) -> tuple[str, str]:
        """Return its value in a row, and whether that is of another type, in SQL."""
        path, kind = _follow(types, self.path) or ((), None)
        if len(path) < len(self.path):
            return f"CAST(NULL AS {self.type})", "false"
        value = quote(path[0]) + "".join(f"[{_text(name)}]" for name in path[1:])
        if str(kind) in self.kinds:
            return f"CAST({value} AS {self.type})", "false"
        return f"CAST(NULL AS {self.type})", f"{value} IS NOT NULL"


@dataclass(frozen=True)
class Condition:
    """A condition over the fields of records; it travels to the workers.

    Attributes:
        where: in SQL.
        fields: those that it names.
    """

    where: str
    fields: tuple[Field, ...]

    @cached_property
    def heads(self) -> list[str]:
        """The names of the outermost fields."""
        return [*dict.fromkeys(field.path[0] for field in self.fields)]

    def choose(self, names: Iterable[str]) -> list[str]:
        """Return which of a record's fields are read."""
        return [name for name in self.heads if name in names]

    def judge(self, records: pa.Array) -> npt.NDArray[np.uint8]:
        """Judge records.

        Args:
            records: n objects of JSON, as pa.string, or rows of a struct.

        Returns:
            uint8[n], the index in DROP_REASONS for each record; 0 where the condition is true.

        Raises:
            UserError: DuckDB refuses the condition, or cannot compute it for a record.
        """
        case = f'CASE WHEN (\n{self.where}\n) THEN 0 WHEN " other" THEN 2 ELSE 1 END'
        found = self._ask(records, f"SELECT {case} AS v FROM fields")["v"]  # noqa: S608
        verdicts: npt.NDArray[np.uint8] = found.astype(np.uint8)
        return verdicts

    def check(self, records: pa.Array) -> Self:
        """Try the condition, and return it with texts in place of dates that do not fit.

        DuckDB finds dates in more ways of writing than those in which it reads a single one.

        Args:
            records: as of `judge`, which have decided the types.

        Raises:
            UserError: DuckDB refuses the condition, or cannot compute it for a record.
        """
        fields = list(self.fields)
        for number, field in enumerate(fields):
            alone = replace(self, fields=(field,))
            if alone._ask(records, 'SELECT count_if(" other") AS n FROM fields')["n"][0]:
                fields[number] = field._replace(type="VARCHAR")
        loose = replace(self, fields=tuple(fields))
        loose._ask(records, f"SELECT 1 FROM fields WHERE (\n{self.where}\n)")  # noqa: S608
        return loose

    def _ask(self, records: pa.Array, query: str) -> dict[str, Any]:
        """Return the columns of a query over the fields, by name."""
        types = (f"{'.'.join(field.path)} ({field.type})" for field in self.fields)
        with refusing(self.where, types):
            answer = _prepare(self, records.type, query, os.getpid(), threading.get_ident())
            columns: dict[str, Any] = answer(_to_table(records)).fetchnumpy()
        return columns


class _Rows:
    """The rows that a prepared query reads, which may be others each time."""

    table: pa.Table

    def __arrow_c_stream__(self, schema: object = None) -> object:
        return self.table.__arrow_c_stream__(schema)


def _to_table(records: pa.Array) -> pa.Table:
    if not pa.types.is_struct(records.type):
        records = pa.StructArray.from_arrays([records], ["record"])
    table = pa.Table.from_struct_array(records)
    for number, field in enumerate(table.schema):
        if field.type == pa.float16():  # which DuckDB does not read
            table = table.set_column(number, field.name, table[number].cast(pa.float32()))
    return table


@cache
def _connect_once(where: str, _process: int, _thread: int) -> Any:
    return connect(where, threads="1")


@cache
def _prepare(
    condition: Condition, kind: pa.DataType, query: str, process: int, thread: int
) -> Callable[[pa.Table], Any]:
    """Prepare a query over the fields of records, as planning it takes longer than answering it."""
    connection, rows = _connect_once(condition.where, process, thread), _Rows()
    name, empty = f"rows{id(rows)}", _to_table(pa.array([], kind))
    connection.register(name, empty)
    types = _types_of(connection, name) if pa.types.is_struct(kind) else None
    found = {
        field.path: field.find_in_json() if types is None else field.find_in_row(types)
        for field in condition.fields
    }
    columns = nest({path: value for path, (value, _) in found.items()})
    selected = "".join(f"{value} AS {quote(name)}, " for name, value in columns.items())
    others = " OR ".join(other for _, other in found.values())
    fields = f'SELECT {selected}{others} AS " other" FROM {name}'  # noqa: S608
    asked = f"WITH fields AS ({fields}) {query}"
    if connection.execute("SELECT version()").fetchall()[0][0] < "v2":
        # It would read an object that gives other rows each time only once.
        return lambda table: connection.register(name, table).execute(asked)
    rows.table = empty
    connection.register(name, rows)
    connection.execute(f"PREPARE of_{name} AS {asked}")

    def answer(table: pa.Table) -> Any:
        rows.table = table
        return connection.execute(f"EXECUTE of_{name}")

    return answer


# Otherwise DuckDB complains at the end of the process of what is still open.
atexit.register(_connect_once.cache_clear)
atexit.register(_prepare.cache_clear)


class Sample:
    """Gathers the first records of files, in the place of a condition; it drops none.

    Args:
        where: the condition.

    Attributes:
        names: of the fields that the records have.
        paths: the names that lead to each field of the condition, from the outside in.

    Raises:
        UserError: DuckDB is not installed, or the condition is none over the fields of one record.
    """

    def __init__(self, where: str) -> None:
        self.names = dict[str, None]()
        self._where, self._records = where, list[pa.Array]()
        query, nodes = "SELECT json_serialize_sql('SELECT (\n' || ? || '\n)')", list[_Types]()

        def keep(node: _Types) -> _Types:
            nodes.append(node)
            return node

        ask = _connect_once(where, os.getpid(), threading.get_ident()).execute
        plain, tree = (
            json.loads(ask(query, [text]).fetchall()[0][0], object_hook=keep)
            for text in ("true", where)
        )
        functions = [node.get("function_name", "") for node in nodes]
        odd = [*chain(*ask(_CHANGING, [functions]).fetchall())]
        if tree["error"]:
            cause = f"DuckDB refuses the condition ({tree['error_message']})"
            raise UserError(option("where", where), cause, _CURE)
        _, selected = (each["statements"][0]["node"].pop("select_list") for each in (plain, tree))
        self.paths = [tuple(node["column_names"]) for node in nodes if "column_names" in node]
        kinds = {node.get("class") for node in nodes}
        odd += [kind for kind in _REFUSED if kind in kinds]
        if odd or tree != plain or len(selected) > 1 or not self.paths:
            cause = "one record must decide it, always in the same way, by its fields"
            cause += f", and it has {odd[0]}" if odd else ""
            raise UserError(option("where", where), cause, _CURE)
        self._has_parameters = "LAMBDA" in kinds
        self._heads = {path[0].lower() for path in self.paths}

    def choose(self, names: Iterable[str]) -> list[str]:
        """Return which of a record's fields are read."""
        self.names |= dict.fromkeys(names)
        return [name for name in names if name.lower() in self._heads]

    def judge(self, records: pa.Array) -> npt.NDArray[np.uint8]:
        """Keep records, and drop none of them."""
        self._records.append(records)
        return np.zeros(len(records), np.uint8)

    def decide(self, is_csv: bool) -> Condition:
        """Return the condition, with the types of the fields that it names.

        Args:
            is_csv: whether the values are cells, which are all texts.

        Raises:
            UserError: no record has a field, or DuckDB refuses the condition.
        """
        with refusing(self._where, self.names):
            tables = [*self._list_tables(is_csv)]
        condition = Condition(self._where, (*dict.fromkeys(self._find_fields(tables, is_csv)),))
        for records in self._records:
            condition = condition.check(records)
        return condition

    def _list_tables(self, is_csv: bool) -> Iterator[_Types]:
        """Yield the types of the columns, by name: of all records together, and of each table."""
        kinds = dict.fromkeys(each.type for each in self._records)
        if pa.string() in kinds:
            lines = [*filter("{}".__ne__, chain(*(each.to_pylist() for each in self._records)))]
            with NamedTemporaryFile("w+b", suffix=".sample") as file:
                file.write("\n".join(lines).encode())
                file.flush()
                if is_csv and lines:
                    pa.csv.write_csv(_to_table(pa.array(map(json.loads, lines))), file.name)
                size = max(_LEAST_BUFFER, 2 * Path(file.name).stat().st_size)
                if lines:
                    with connect(self._where, enable_external_access="true") as connection:
                        yield _types_of(connection, _READERS[is_csv].format(file.name, size))
        else:
            connection = _connect_once(self._where, os.getpid(), threading.get_ident())
            names = [f"table{number}" for number in range(len(kinds))]
            for name, kind in zip(names, kinds, strict=True):
                connection.register(name, _to_table(pa.array([], kind)))
            wide = " UNION ALL BY NAME ".join(f"FROM {name}" for name in names)
            yield from (_types_of(connection, name) for name in (f"({wide})", *names) if kinds)

    def _find_fields(self, tables: Sequence[_Types], is_csv: bool) -> Iterator[Field]:
        for path in self.paths:
            whole, *others = [_follow(types, path) for types in tables] or [None]
            if whole:
                kinds = [str(other[1]) for other in others if other] or ["VARCHAR"]
                if not (others or is_csv):
                    kinds = [*_KINDS.get(str(whole[1]), _KINDS.get(whole[1].id, kinds))]
                yield Field(whole[0], str(whole[1]), tuple(dict.fromkeys(kinds)))
            elif not self._has_parameters:  # which DuckDB tells from fields
                cure = f"Their fields are {list_names(self.names)}"
                cause = f"the first records have no field {path[0]}"
                value = option("where", self._where)
                raise UserError(value, cause, suggest(path[0], [*self.names]) + cure)


def _types_of(connection: Any, table: str) -> _Types:
    relation = connection.sql(f"FROM {table}")
    return dict(zip(relation.columns, relation.types, strict=True))


def _follow(types: _Types, path: _Names) -> tuple[_Names, Any] | None:
    """Return the names that lead to a field, as they are spelled, and its type; None for no field.

    What is no struct is not looked into.
    """
    name = next((name for name in types if name.lower() == path[0].lower()), None)
    if name is None:
        return None
    kind = types[name]
    inner = _follow(dict(kind.children), path[1:]) if path[1:] and kind.id == "struct" else None
    return ((name, *inner[0]), inner[1]) if inner else ((name,), kind)


def settle_condition(
    options: DocumentOptions, files: Sequence[Callable[[], AbstractContextManager[BinaryIO]]]
) -> DocumentOptions:
    """Return the options with what judges records, if they have a condition.

    Args:
        options: with a format.
        files: open the files of the corpus, of which some at even distances tell by their first
            records the types of the fields.

    Raises:
        UserError: no record has a field that it names, DuckDB is not installed, or refuses it.
    """
    if options.where is None:
        return options
    sample = Sample(options.where)
    part = FileRange("", 0, judge_records(options, sample))
    chosen = files[:: -(-len(files) // _SAMPLED_FILES)]
    # A batch of a table tells all types.
    most = 1 if piece_bits(options) else _SAMPLED_FILES // len(chosen)
    for open_one in chosen:
        with open_one() as raw, suppress(DamagedStreamError):
            deque(islice(read_file(raw, part), most), 0)
    return judge_records(options, sample.decide(options.input_format in {"csv", "tsv"}))
