"""The entry of a manifest about rows that were removed after a data set was built."""

from dataclasses import dataclass

from corpusmill.dataset.corpus_entry import Number

_BEGIN, _END = "provenance/removed-", ".parquet"


@dataclass(frozen=True)
class Removal:
    """Rows that are not in a data set any more, and why.

    The counts of a manifest are those of the build, so that they still balance; the rows that it
    has written are those of the shards and of all removals.

    Attributes:
        reason: which documents were removed ("url LIKE '%example%'"), in words or in SQL.
        documents: the number of these documents.
        rows: the number of rows that held any of their tokens.
        tokens: the tokens of these rows.
        segment_tokens: the tokens of both segments of these rows, without special tokens; 0 where
            rows have none.
        is_listed: whether a file of provenance lists the documents (`removal_name`).
    """

    reason: str
    documents: Number
    rows: Number
    tokens: Number
    segment_tokens: Number = 0
    is_listed: bool = True

    def __str__(self) -> str:
        return (
            f"{self.documents:,} documents ({self.reason}), with {self.rows:,} rows of "
            f"{self.tokens:,} tokens"
        )


def removal_name(number: int) -> str:
    """Return the name of the file that lists the documents of a removal.

    Args:
        number: of the removal, in the manifest's order.
    """
    return f"{_BEGIN}{number:05d}{_END}"
