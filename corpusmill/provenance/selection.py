"""Which documents are removed from a data set, and which of its rows hold them."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from corpusmill.arrays.distinct import are_among
from corpusmill.provenance.rows import RowsFile
from corpusmill.provenance.spans import Ids, Integers, Rows

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Selection:
    """Documents that are removed.

    Attributes:
        documents: uint64[n], ids of documents, ascending.
        keeps: whether these are the ones that stay, and all others are removed.
    """

    documents: Ids
    keeps: bool = False

    def removes(self, documents: Ids) -> Flags:
        """Return bool[n]: whether each document is removed.

        Args:
            documents: uint64[n], ids of documents.
        """
        return are_among(documents, self.documents) ^ self.keeps

    def within(self, first_document: int) -> "Selection":
        """Return the same for documents whose ids are counted from another one.

        Args:
            first_document: the id that becomes 0.
        """
        own = self.documents[self.documents >= np.uint64(first_document)]
        return Selection(own - np.uint64(first_document), self.keeps)


def find_removed(file: RowsFile, selection: Selection) -> Integers:
    """Return the rows that hold anything that is removed, int64[n]: their numbers, ascending.

    Args:
        file: the provenance of a shard, which numbers rows as they are stored there.
        selection: what is removed.

    Example:
        Of three rows, of which the second has the tokens of documents 5 and 7, the removal of
        document 7 gives [1].
    """
    if selection.keeps:
        found = [numbers[_touched(rows, selection)] for numbers, rows in file.groups()]
    else:
        found = [numbers for numbers, _ in file.find_groups(selection.documents)]
    return np.concatenate([np.zeros(0, np.int64), *found])


def _touched(rows: Rows, selection: Selection) -> Flags:
    """Return bool[rows]: whether each row was built from a removed document or holds its tokens."""
    touched = selection.removes(rows.documents)
    numbers = np.repeat(np.arange(len(touched)), np.diff(rows.span_offsets))
    touched[numbers[selection.removes(rows.span_documents)]] = True
    return touched
