"""Which documents are left out of a data set: the options."""

from dataclasses import dataclass

from corpusmill.errors import UserError, option


@dataclass(frozen=True)
class FilterOptions:
    """Which documents are left out. Each is counted with its reason.

    Raises:
        UserError: a filter is named twice.
    """

    filter: tuple[str, ...] = ()
    """Functions that see each document before it is tokenized, and keep it or give a reason to drop
    it: entry points of the group `corpusmill.filters` of installed packages, or
    package.module:function. They are asked in this order, until one drops the document."""

    drop_duplicates: bool = False
    """Keep only the first of the documents with the same text, in the order of the input's files
    and of the documents in them, after the filters; also across the splits. The input is read
    twice."""

    drop_overlap_with: tuple[str, ...] = ()
    """Files, globs or folders of an evaluation set: a document that shares a run of 13 words with
    one of its passages is dropped, last of all. A passage is a line, or the text of a record in
    formats that have records; one of 8 to 12 words is compared as a whole, a shorter one is not
    compared. Case and punctuation do not count."""

    def __post_init__(self) -> None:
        if len(set(self.filter)) < len(self.filter):
            cause, cure = "a filter is named twice", "Name each filter once"
            raise UserError(option("filter", self.filter), cause, cure)
