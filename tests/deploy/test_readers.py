"""Programs that read Parquet: their versions in docs/reference/data-set.md, and today's.

Each is installed into an environment of its own, and reads shards and provenance.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
import pytest

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import ANY_LENGTH, Column, arrow_schema
from corpusmill.formats.output_options import Compression, OutputOptions
from corpusmill.formats.shard_formats import resolve
from tests.conftest import CHECKOUT
from tests.tools.data_files import find_files
from tests.tools.jobs import run_here
from tests.tools.shard_samples import write_shard

pytestmark = pytest.mark.install

PAGE = CHECKOUT / "docs" / "reference" / "data-set.md"
PROGRAMS = Path(__file__).parent / "readers"
# What the oldest versions need beside them; they do not say so.
BESIDE = {"pyarrow": ("numpy<2",), "fastparquet": ("numpy<2", "pandas<2")}
# 1.9.3 was published without its program.
NEWEST = {"@dsnp/parquetjs": "1.8.9"}
# What a package of JavaScript needs beside it.
PACKAGES = {"hyparquet": ("hyparquet-compressors",), "parquet-wasm": ("apache-arrow",)}


class Reader(NamedTuple):
    """A row of the table: a package, and the least version that is known to read shards."""

    package: str
    version: str


def readers() -> list[Reader]:
    """Return the rows of the table."""
    rows = re.findall(r"^\| `([\w@/-]+)` \| ([\d.]+) \|", PAGE.read_text(), re.MULTILINE)
    return [Reader(*row) for row in rows]


def write_wide(path: Path, compression: Compression) -> Path:
    """Write a shard with places of a bit and of one, two and three bytes, and with plain values."""
    columns = (
        Column("many", "int32", "", ANY_LENGTH), Column("some", "uint16", "", ANY_LENGTH),
        Column("few", "int8", "", ANY_LENGTH), Column("two", "int8", ""),
        Column("number", "int32", ""),
    )  # fmt: skip
    draw, rows = np.random.default_rng(1), 700
    offsets = np.concatenate([[0], np.sort(draw.integers(0, 400_000, rows - 1)), [400_000]])
    lists = [draw.integers(0, top, 400_000) for top in (70_000, 60_000, 100)]
    arrays = [
        ragged.to_arrow(values.astype(column.dtype), offsets)
        for values, column in zip(lists, columns, strict=False)
    ]
    numbers = [draw.integers(0, 2, rows).astype(np.int8), draw.permutation(rows).astype(np.int32)]
    batch = ragged.to_batch([*arrays, *numbers], arrow_schema(columns))
    options = resolve(OutputOptions(compression=compression), columns)
    path.write_bytes(write_shard([batch], columns, options))
    return path


@pytest.fixture(scope="module", params=["zstd", "snappy"])
def files(
    request: pytest.FixtureRequest, sample: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Compression, list[Path]]:
    """The codec of shards, and shards and tables of provenance."""
    folder = tmp_path_factory.mktemp("readers")
    tokenizer, output = folder / "tokenizer.json", folder / "out"
    run_here("train-tokenizer", "--input", sample, "--vocab-size", "600", "--output", tokenizer)
    flags = ("--max-seq-length", "64", "--num-shards", "2", "--compression", request.param)
    run_here("bert", "--input", sample, "--tokenizer", tokenizer, "--output", output, *flags)
    wide = write_wide(output / "wide.parquet", request.param)
    return request.param, [
        wide,
        *find_files(output, "train-*"),
        *find_files(output, "provenance/*"),
    ]


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command without this environment's packages, and return what it prints."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=cwd, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def run_python(reader: Reader, version: str, folder: Path, files: list[Path]) -> str:
    """Run a program of readers/ with the packages that it needs."""
    if reader.package == "pyspark" and shutil.which("java") is None:
        pytest.skip("Java is not installed")
    own = (f"{reader.package}=={version}", *BESIDE.get(reader.package, ()))
    needed = own if version else (reader.package,)
    options = [word for each in needed for word in ("--with", each)]
    program = PROGRAMS / f"{reader.package}_reader.py"
    return run(
        sys.executable, "-m", "uv", "run", "--quiet", "--no-project", "--isolated",
        "--python", sys.executable, *options, "python", program, *files, cwd=folder,
    )  # fmt: skip


def run_node(reader: Reader, version: str, folder: Path, files: list[Path]) -> str:
    """Likewise, in JavaScript."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    name = reader.package.removeprefix("@dsnp/")
    program = folder / f"{name}_reader.mjs"
    shutil.copy(PROGRAMS / program.name, program)
    package = f"{reader.package}@{version or 'latest'}"
    run("npm", "install", "--silent", package, *PACKAGES.get(reader.package, ()), cwd=folder)
    return run("node", program, *files, cwd=folder)


RUN: dict[str, Callable[[Reader, str, Path, list[Path]], str]] = {
    **dict.fromkeys(("pyarrow", "duckdb", "polars", "fastparquet", "pyspark"), run_python),
    **dict.fromkeys(("hyparquet", "parquet-wasm", "@dsnp/parquetjs"), run_node),
}


def to_numbers(value: Any) -> Any:
    """Return what a program printed; JavaScript writes integers of 64 bits as texts."""
    if isinstance(value, list):
        return [*map(to_numbers, value)]
    return int(value) if isinstance(value, str) else value


def test_each_reader_has_a_row() -> None:
    assert {reader.package for reader in readers()} == {*RUN}


@pytest.mark.parametrize("is_old", [True, False], ids=["least", "newest"])
@pytest.mark.parametrize("reader", readers(), ids=lambda reader: reader.package)
def test_a_reader_reads_shards_and_provenance(
    reader: Reader, is_old: bool, files: tuple[Compression, list[Path]], tmp_path: Path
) -> None:
    codec, paths = files
    if reader.package == "@dsnp/parquetjs" and codec == "zstd":
        pytest.skip("it has no zstd, as the table says")
    if reader.package == "@dsnp/parquetjs":
        paths = [path for path in paths if path.parent.name != "provenance"]
    version = reader.version if is_old else NEWEST.get(reader.package, "")
    printed = RUN[reader.package](reader, version, tmp_path, paths)
    tables = [json.loads(line) for line in printed.splitlines()]
    for path, table in zip(paths, tables, strict=True):
        assert {name: to_numbers(column) for name, column in table.items()} == (
            pq.read_table(path).to_pydict()
        ), path.name
