"""Where a row comes from."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """Tokens of a document.

    Attributes:
        document: id of the document.
        first_token: the place of the first one among the document's tokens.
        tokens: their number.
    """

    document: int
    first_token: int
    tokens: int


@dataclass(frozen=True)
class RowOrigin:
    """Where a row comes from.

    Attributes:
        split: the split.
        row: number of the row in the split.
        shard: file name of its shard.
        shard_row: number of the row in its shard.
        document: id of the document from which it was built; the first one, if it joins several.
        repeat: in which pass over the document.
        spans: the tokens in it, in their order, without special tokens; empty if the objective does
            not tell them.
    """

    split: str
    row: int
    shard: str
    shard_row: int
    document: int
    repeat: int
    spans: tuple[Span, ...]

    @property
    def documents(self) -> tuple[int, ...]:
        """The ids of all documents in it, each once."""
        named = (span.document for span in self.spans)
        return tuple(dict.fromkeys((self.document, *named) if not self.spans else named))
