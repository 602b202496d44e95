"""The files of a data set's provenance, which are named where they are damaged."""

from collections.abc import Iterator
from contextlib import contextmanager

from corpusmill.dataset.shards import damaged_file
from corpusmill.errors import UserError, in_one_line
from corpusmill.location import Location
from corpusmill.provenance.documents import DocumentsTable
from corpusmill.provenance.rows import RowsFile


@contextmanager
def open_rows(folder: Location, name: str, seed: int) -> Iterator[RowsFile]:
    """Open the provenance of a shard's rows for the block that reads it.

    Args:
        folder: of the data set.
        name: of the file.
        seed: the data set's.

    Raises:
        UserError: the file is damaged.
    """
    with _naming(folder, name), RowsFile(folder.open(name), seed) as file:
        yield file


@contextmanager
def open_documents(folder: Location, name: str) -> Iterator[DocumentsTable]:
    """Open a table of documents for the block that reads it, as `open_rows`."""
    with _naming(folder, name), folder.open(name) as stream:
        yield DocumentsTable(stream)


@contextmanager
def _naming(folder: Location, name: str) -> Iterator[None]:
    """Name the file in whose reading an error is raised."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # Arrow's errors of damaged files are of many kinds
        cause = f"its provenance cannot be read ({in_one_line(error)})"
        raise damaged_file(folder, name, cause) from error
