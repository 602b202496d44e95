"""Documents that are read again, as lines of the plan list them. Nothing here needs Beam."""

from typing import NamedTuple

import pyarrow as pa

from corpusmill.provenance.documents import documents_schema

CURE = "Give the files as they were, or --random-documents new"


class RecalledPart(NamedTuple):
    """Documents of a file that are read again, a part of a line of the plan.

    Attributes:
        path: the file.
        name: its name in the manifest.
        file_number: its number among the files of the corpus when the documents were built.
        first_id: what is added to the ids of that time, so that they are those of the data set.
        documents: the ids of that time, ascending.
        lengths: as the table of documents has them.
        tokens: likewise.
        digests: likewise.
    """

    path: str
    name: str
    file_number: int
    first_id: int
    documents: list[int]
    lengths: list[int]
    tokens: list[int]
    digests: list[int]

    @property
    def table(self) -> pa.Table:
        """The documents as the table of documents has them."""
        columns = (self.documents, self.lengths, self.tokens, self.digests)
        schema = documents_schema()
        return pa.table(dict(zip(schema.names, columns, strict=True)), schema)
