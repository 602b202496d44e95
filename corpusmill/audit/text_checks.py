"""Whether the texts of a corpus are in token files: once, and with the ids of a tokenizer."""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice, pairwise
from typing import Any, NamedTuple

import numpy as np

from corpusmill.arrays.distinct import hash_rows, sort_distinct
from corpusmill.audit.audit import Audit
from corpusmill.audit.measures import Windows
from corpusmill.audit.token_files import Aligned
from corpusmill.audit.tokenizer_checks import TokenizerChecks
from corpusmill.errors import printable
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer

# The texts of a batch, and those of files whose text is compared where their ids are not found.
_BATCH_TEXTS, _MOST_DECODED = 1000, 50_000
_SHOWN_LETTERS = 60


class Documents(NamedTuple):
    """Documents without the ids that begin, end and fill them; none is empty.

    Attributes:
        ids: int64[total].
        offsets: int64[documents + 1].
    """

    ids: np.ndarray
    offsets: np.ndarray

    def hash(self) -> np.ndarray:
        """Return uint64[documents, 2]: two hashes of each."""
        other = ~(self.ids << 1)
        return np.stack([hash_rows(ids, self.offsets) for ids in (self.ids, other)], axis=1)


class TextChecks:
    """Finds the documents of a corpus in token files.

    Args:
        audit: what was measured of the files.
        checks: the tokenizer.
        texts: yields the texts of the corpus, each time it is called.
    """

    def __init__(
        self, audit: Audit, checks: TokenizerChecks, texts: Callable[[], Iterator[str]]
    ) -> None:
        self._audit, self._checks, self._texts = audit, checks, texts
        self._tokenizer = SentenceTokenizer(checks.tokenizer.json, np.dtype(np.int32))

    def judge(self) -> Iterator[tuple[str, float, Mapping[str, Any]]]:
        """Compare the ids of all documents, and the texts of those whose ids are not found.

        Yields:
            The key of a finding's sentences, its value, and what they say besides.
        """
        stored, wanted = Windows(1), Windows(1)
        for documents in self._read_files():
            stored.add(documents.hash())
        for _, documents in self._read_corpus():
            wanted.add(documents.hash())
        for _ in range(2):  # until both are of the larger share
            for windows in (stored, wanted):
                windows.share = max(stored.share, wanted.share)
                windows.settle()
        in_files, in_corpus = _number(stored), _number(wanted)
        missing = in_corpus.keys() - in_files.keys()
        texts, present = max(1, len(in_corpus)), len(in_corpus) - len(missing)
        doubled = sum(number > in_corpus.get(key, number) for key, number in in_files.items())
        yield "doubled texts", doubled / max(1, present), {"found": present}
        if missing:
            lost, other = self._compare_texts(missing, in_files.keys() - in_corpus.keys())
            for key, examples in (("missing texts", lost), ("missing texts.other", other)):
                values = {"texts": texts, "example": examples[0] if examples else ""}
                yield key, len(examples) / texts, values

    def _compare_texts(
        self, missing: set[tuple[int, int]], extra: set[tuple[int, int]]
    ) -> tuple[list[str], list[str]]:
        """Return the beginnings of texts that are not in the files, and of those with other ids."""
        decoded = set[str]()
        for documents in self._read_files():
            for bounds, key in zip(pairwise(documents.offsets), documents.hash(), strict=True):
                if (*key.tolist(),) in extra:
                    ids = documents.ids[slice(*bounds)].tolist()
                    decoded.add(self._checks.decode(ids).strip())
            if len(decoded) > _MOST_DECODED:
                break
        lost, other = list[str](), list[str]()
        for texts, documents in self._read_corpus():
            for text, key in zip(texts, documents.hash(), strict=True):
                if (*key.tolist(),) in missing:
                    beginnings = other if text.strip() in decoded else lost
                    beginnings.append(repr(printable(text.strip()[:_SHOWN_LETTERS])))
        return lost, other

    def _read_corpus(self) -> Iterator[tuple[list[str], Documents]]:
        texts = filter(str.strip, self._texts())
        while batch := [*islice(texts, _BATCH_TEXTS)]:
            content = [text.encode() for text in batch]
            offsets = np.cumsum([0, *map(len, content)])
            text = np.frombuffer(b"".join(content), np.uint8)
            ids, ends = self._tokenizer.encode(text, offsets)
            yield batch, self._drop_marks(ids.astype(np.int64), ends[1:])

    def _read_files(self) -> Iterator[Documents]:
        """Yield the documents of files; those of streams and cut rows end where ids end them.

        In packed rows they end where a column says so, too.
        """
        end, keeps_documents = self._audit.conventions.end, self._audit.has_documents
        for file in self._audit.files:
            rest = np.empty(0, np.int64)
            for rows in file.read():
                ids, ends = np.concatenate([rest, rows.ids.astype(np.int64)]), rows.offsets[1:]
                if keeps_documents:
                    segments = rows.columns.get(Aligned.SEGMENTS, ids[:0])
                    ends = np.union1d(ends, 1 + np.flatnonzero(np.diff(segments)))
                else:
                    ends = 1 + np.flatnonzero(ids == end)
                    rest = ids[ends[-1] if len(ends) else 0 :]
                yield self._drop_marks(ids, ends)
            yield self._drop_marks(rest, np.array([len(rest)]))

    def _drop_marks(self, ids: np.ndarray, ends: np.ndarray) -> Documents:
        """Return documents that end at some places."""
        marks = self._audit.conventions
        is_text = ~np.isin(ids, (marks.begin, marks.end, marks.pad))
        kept = np.append(0, np.cumsum(is_text))[np.append(0, ends)]
        return Documents(ids[is_text], sort_distinct(kept))


def _number(windows: Windows) -> dict[tuple[int, int], int]:
    """Return how often each document occurs, by its hashes."""
    hashes = ((first, second) for first, second in windows.hashes.tolist())
    return dict(zip(hashes, windows.numbers.tolist(), strict=True))
