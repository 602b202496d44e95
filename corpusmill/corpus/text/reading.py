"""Text files: a file may be cut into byte ranges anywhere.

Each document is read by the range that holds its first byte. The document rule is that of seed 000
(WikiText) by default.
"""

from collections.abc import Iterator
from typing import BinaryIO

from corpusmill.corpus.batches import DocumentBatch
from corpusmill.corpus.file_range import FileRange
from corpusmill.corpus.text.boundaries import find_boundaries
from corpusmill.corpus.text.documents import TextDocuments
from corpusmill.corpus.text.lines import LineReader, collect_lines


def read_text(stream: BinaryIO, part: FileRange) -> Iterator[DocumentBatch]:
    r"""Read the documents whose first byte lies in a byte range of a text file.

    Ranges that together cover a file give the same documents, rejects and total counts as the
    whole file in one range, wherever the cuts fall. A damaged compressed stream ends the file with
    a reject; every line that was complete by then is kept.

    By default the sentences of a document are its lines. With the sentence rule "document", a
    document has one sentence, its text as it stands. The document rule decides which text that is:

    - "whole-file": the whole file without a byte order mark. A file is cut before the first line
      that begins at or after each multiple of `max_document_bytes`, so that its ranges are read
      independently; all pieces together are the file.
    - "wikitext-articles": from one title of the first level to the next, titles and blank lines
      included. Text before the first title is a document, too. All documents together are the file.
    - "wikitext" and "blank-lines": the lines between two separators, without the line break ("\n"
      or "\r\n") of the last one.

    Rejected lines are left out with their line breaks. White space alone is not a document, nor is
    a piece of one.

    Args:
        stream: the file's bytes, decompressed; sought in only to read a part of the file.
        part: the range, with the document rule and limits.

    Yields:
        At least one batch. The text of an open document waits for its end, so memory is bounded by
        a few times batch_bytes, max_document_bytes and max_line_bytes.

    Raises:
        UserError: an offset does not fit a document id.
    """
    options = part.options
    lines = LineReader(
        stream,
        part,
        titles=options.document_rule in {None, "wikitext", "wikitext-articles"},
        check_titles=options.keeps_text and options.document_rule == "wikitext-articles",
    )
    documents = TextDocuments(part)
    return collect_lines(lines, find_boundaries(lines, options), documents.add, documents)
