"""The rows of a data set, shard by shard, from any folder and in any file format."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from itertools import accumulate
from typing import BinaryIO, NamedTuple
from urllib.parse import urlsplit

import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import tokens_of
from corpusmill.arrays.distinct import Hashes, hash_rows
from corpusmill.dataset.manifest import MANIFEST, SUCCESS, Manifest
from corpusmill.dataset.manifest_entries import Counts
from corpusmill.dataset.manifest_json import decode
from corpusmill.errors import UserError, option
from corpusmill.formats.output_options import OutputOptions
from corpusmill.formats.shard_formats import FORMATS, GROUP_TOKENS, Group, Sinks
from corpusmill.knobs import knob
from corpusmill.layout.sorting import cut_into_groups
from corpusmill.location import Location
from corpusmill.objectives.objective import Objective

# The folder of a version holds this file while its run is at work, or has been stopped.
RUN = "_run.json"


def open_data_set(folder: Location) -> tuple[Location, Manifest]:
    """Find the current data set in a folder, and read its manifest.

    Returns:
        The folder, on the hub at the current commit, and the manifest.

    Raises:
        UserError: there is no data set, it is not complete, or its manifest is damaged; or the hub
            cannot be reached.
    """
    folder = folder.pin()
    return folder, read_manifest(folder)


def read_manifest(folder: Location) -> Manifest:
    """The manifest of the data set in a folder.

    Raises:
        UserError: there is no data set, or its manifest is damaged.
    """
    content = _read_file(folder, MANIFEST)
    if content is None:
        cause, cure = _why_none(folder)
        raise UserError(str(folder), cause, cure)
    return decode(content, str(folder))


def read_tokenizer(folder: Location, manifest: Manifest) -> str:
    """The tokenizer that made a data set, as JSON.

    Raises:
        UserError: it cannot be read, or is another one.
    """
    name = manifest.tokenizer.file
    try:
        content = folder.read(name)
        cause = f"its bytes do not match {MANIFEST}"
    except OSError as error:
        content, cause = b"", f"it cannot be read ({error})"
    if sha256(content).hexdigest() != manifest.tokenizer.sha256:
        raise damaged_file(folder, name, cause)
    return content.decode(errors="replace")


def damaged_file(folder: Location, name: str, cause: str) -> UserError:
    """The error for a file of a data set that is not what the manifest says."""
    cure = "Find out with `verify` what is damaged, and copy or build the data set again"
    return UserError(f"{folder}/{name}", cause, cure)


def _read_file(folder: Location, name: str) -> bytes | None:
    """The bytes of a small file; None if it does not exist."""
    try:
        return folder.read(name)
    except (FileNotFoundError, NotADirectoryError) as error:
        broken = _find_broken_connection(error)
        if broken is None:
            return None
        host = urlsplit(folder.url).hostname or str(folder)
        cause = f"{host} cannot be reached ({broken.strerror or broken})"
        raise UserError(str(folder), cause, "Check the URL and the connection") from error
    except Exception as error:  # each filesystem has errors of its own
        if folder.url.startswith("hf://"):
            from corpusmill.hub import explain_error  # noqa: PLC0415  it was imported to read it

            raise UserError(str(folder), *explain_error(error)) from error
        cause = f"{name} cannot be read ({getattr(error, 'strerror', None) or error})"
        cure = "Check the URL, the connection and the rights to read it"
        raise UserError(str(folder), cause, cure) from error


def _find_broken_connection(error: BaseException) -> OSError | None:
    """Find why a server did not answer, where fsspec says that it has no such file."""
    while error.__cause__ is not None:
        error = error.__cause__
        if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
            return error
    return None


def _why_none(folder: Location) -> tuple[str, str]:
    """Why there is no data set, and what to do."""
    local = folder.local_path("")
    if local is not None and local.is_file():
        return "it is a file", "Give the folder that a build wrote"
    if local is not None and not local.exists():
        return "there is no such folder", "Give the folder that a build wrote"
    cause = f"there is no {MANIFEST}, so it is not a data set"
    if _read_file(folder, SUCCESS) is not None:
        return f"{cause}, or a copy was not finished", "Copy it again, or build it again"
    # The first run into a folder has the first version, unless a folder has that name.
    if _read_file(folder / "v1", RUN) is not None:
        cause = "a build is running there or was stopped"
        return cause, f"Wait until it has finished, or run it again with {option('resume', True)}"
    return cause, "Give the folder that a build wrote"


def read_shard(
    folder: Location, manifest: Manifest, shard: str, rows: int = 8192
) -> Iterator[pa.RecordBatch]:
    """The rows of a shard, in order.

    Args:
        folder: of the data set.
        manifest: of the data set.
        shard: file name of the shard.
        rows: most rows of a batch.
    """
    options, shard_format = manifest.output.options, manifest.output.shard_format
    with _open_parts(folder, manifest, shard) as streams:
        yield from shard_format.read(streams, manifest.columns, options, rows, manifest.longest)


@contextmanager
def open_groups(folder: Location, manifest: Manifest, shard: str) -> Iterator[Sequence[Group]]:
    """Open a shard, and return the groups of its rows, in order, for as long as it is open.

    Args:
        folder: of the data set.
        manifest: of the data set.
        shard: file name of the shard.

    Returns:
        none where the format has no groups.
    """
    options, shard_format = manifest.output.options, manifest.output.shard_format
    with _open_parts(folder, manifest, shard) as streams:
        yield shard_format.list_groups(streams, manifest.columns, options, manifest.longest)


@contextmanager
def _open_parts(folder: Location, manifest: Manifest, shard: str) -> Iterator[list[BinaryIO]]:
    with ExitStack() as files:
        yield [files.enter_context(folder.open(name)) for name in manifest.parts(shard)]


def read_rows(
    folder: Location, manifest: Manifest, shard: str, begin: int, end: int, rows: int = 8192
) -> Iterator[pa.RecordBatch]:
    """Some consecutive rows of a shard whose format has groups, in order; only theirs are read.

    Args:
        folder: of the data set.
        manifest: of the data set.
        shard: file name of the shard.
        begin: the first row.
        end: the row after the last one.
        rows: most rows of a batch.
    """
    with open_groups(folder, manifest, shard) as groups:
        ends = list(accumulate(group.rows for group in groups))
        for group, last in zip(groups, ends, strict=True):
            place = last - group.rows
            if place >= end or last <= begin:
                continue
            for batch in group.read(rows):
                first = max(begin - place, 0)
                kept = batch.slice(first, max(0, min(end - place, batch.num_rows) - first))
                place += batch.num_rows
                if kept.num_rows:
                    yield kept


class WrittenGroup(NamedTuple):
    """Rows that were written together.

    Attributes:
        rows: the rows with their identity, as `Objective.pack` gives them.
        hashes: those of the rows' tokens.
        distributions: what `Objective.measure` counts of them.
    """

    rows: pa.RecordBatch
    hashes: Hashes
    distributions: dict[str, Counts]


THREADED_ROWS = knob("threaded_rows", 1024, test=3)
"""A thread writes groups of at least as many rows; of fewer, the next one is sorted later."""


def write_shard(
    objective: Objective,
    options: OutputOptions,
    sinks: Sinks,
    examples: Iterator[pa.RecordBatch],
) -> Iterator[WrittenGroup]:
    """Write the examples of a shard.

    Args:
        objective: what the examples are for.
        options: as `resolve` returns them.
        sinks: one per suffix of the format.
        examples: sorted, with the objective's `built_columns`.

    Yields:
        Each group of rows that was written.
    """
    columns = objective.columns
    shard_format = FORMATS[options.output_format]
    size = (shard_format.group_rows, GROUP_TOKENS)
    writer = shard_format.open_writer(sinks, columns, options)
    tokens, packed = tokens_of(columns).name, objective.pack(examples)
    # Rows are encoded and compressed without Python's global lock, so that the next ones are sorted
    # meanwhile.
    with ThreadPoolExecutor(1) as ahead:
        writing: Future[None] | None = None
        for group in cut_into_groups(packed, tokens, *size):
            rows = objective.finish(group, options.is_padded)
            if writing is not None:
                writing.result()
            writing = None
            # To start a thread takes longer than to write few rows.
            if rows.num_rows < THREADED_ROWS:
                writer.write(rows)
            else:
                writing = ahead.submit(writer.write, rows)
            hashes = hash_rows(*ragged.from_arrow(group.column(tokens)))
            yield WrittenGroup(group, hashes, objective.measure(group))
        if writing is not None:
            writing.result()
    writer.close()
