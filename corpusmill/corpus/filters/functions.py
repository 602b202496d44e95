"""Which documents are left out of a data set: the options, and the functions that decide.

A filter is a function of a document's text and of a mapping with these entries:

    file    name of the document's file, as the manifest lists it
    offset  where the document begins in the file: a byte, or the number of a row in a table
    id      the document's id
    fields  the kept fields, a mapping of their names to texts, or to None where it has none

It returns None or True for a document that is kept, and otherwise a short reason such as
"too-short". The text is what is tokenized: a document's sentences, one on each line, or its text as
it stands. The same arguments must always give the same result, in every process and at any time,
and a filter may be called several times for a document. Then a data set has the same bytes for any
number of workers.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import repeat
from math import ceil, log, log1p
from typing import Annotated, Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Meta

from corpusmill.arrays import ragged
from corpusmill.arrays.text_hashes import kept_columns
from corpusmill.corpus.batches import OFFSET_BITS
from corpusmill.corpus.document_options import DROP_REASONS
from corpusmill.errors import UserError, in_one_line, option, printable
from corpusmill.plugins import Plugins
from corpusmill.settings.constraints import Alone, CheckedOptions, Needs, Range

# The share of pairs of just the similarity that are compared, unless the bands are given.
_COMPARED, _MOST_BANDS = 0.95, 1000
_NEAR = Needs("drop_near_duplicates", example=0.8)


@dataclass(frozen=True)
class FilterOptions(CheckedOptions):
    """Which documents are left out. Each is counted with its reason.

    Raises:
        UserError: a filter is named twice, or a number is out of its range.
    """

    filter: tuple[str, ...] = ()
    """Functions that see each document before it is tokenized, and keep it or give a reason to drop
    it: entry points of the group `corpusmill.filters` of installed packages, or
    package.module:function. They are asked in this order, until one drops the document."""

    drop_duplicates: bool = False
    """Keep only the first of the documents with the same text, in the order of the input's files
    and of the documents in them, after the filters; also across the splits. The input is read
    twice."""

    drop_near_duplicates: Annotated[float | None, Alone(0.8), Range(0.5, 1)] = None
    """Drop documents of which this share of the runs of words (0.8 if no number is given; the
    Jaccard similarity of their sets) is that of an earlier document that stays. MinHash chooses
    which are compared, and the similarity of those is counted exactly. The input is read twice, and
    three times where any are compared."""

    near_duplicate_ngram: Annotated[int, Range(1, 100), _NEAR] = 5
    """Words of a run; in scripts without spaces each character is a word."""

    near_duplicate_bands: Annotated[int | None, Range(1, _MOST_BANDS), _NEAR] = None
    """Bands of MinHash, of which one must be equal for two documents to be compared; by default as
    many as find 95 % of the pairs of just the similarity, and more of those above it."""

    near_duplicate_rows: Annotated[int, Range(1, 64), _NEAR] = 6
    """Hashes of a band: with more, fewer pairs below the similarity are compared."""

    drop_overlap_with: tuple[str, ...] = ()
    """Files, globs or folders of an evaluation set: a document that shares a run of 13 words with
    one of its passages is dropped, last of all. A passage is a line, or the text of a record in
    formats that have records; one of 8 to 12 words is compared as a whole, a shorter one is not
    compared. Case and punctuation do not count."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.filter)) < len(self.filter):
            cause, cure = "a filter is named twice", "Name each filter once"
            raise UserError(option("filter", self.filter), cause, cure)
        if self.near_duplicates.get("near_duplicate_bands", 0) > _MOST_BANDS:
            rows, most = self.near_duplicate_rows, most_rows(self.drop_near_duplicates or 1)
            cause = f"it takes more than {_MOST_BANDS} bands to find 95 % of the pairs whose "
            cause += f"similarity is {self.drop_near_duplicates}"
            cure = f"Give {most} or fewer, or {option('near_duplicate_bands')}"
            raise UserError(option("near_duplicate_rows", rows), cause, cure)

    @property
    def readings(self) -> int:
        """How many times the input is read."""
        # Near-duplicates take a second reading for their keys, and a third for their sets.
        return 1 + self.drop_duplicates + (2 if self.near_duplicates else 0)

    @property
    def near_duplicates(self) -> dict[str, float]:
        """The options that choose near-duplicates, by name; empty where these are kept."""
        similarity, rows = self.drop_near_duplicates, self.near_duplicate_rows
        if similarity is None:
            return {}
        found = similarity**rows
        bands = ceil(log(1 - _COMPARED) / log1p(-found)) if found < 1 else 1
        options = {name: value for name, value in asdict(self).items() if "near_duplicate" in name}
        return options | {"near_duplicate_bands": self.near_duplicate_bands or bands}


def most_rows(similarity: float) -> int:
    """Return the most hashes of a band, up to 64, with which not too many bands are needed."""
    found = 1 - (1 - _COMPARED) ** (1 / _MOST_BANDS)
    return min(64, int(log(found) / log(similarity))) if similarity < 1 else 64


@dataclass(frozen=True)
class NearPair:
    """A document that was left out, and the earlier one that is nearly the same.

    Attributes:
        source: of the document; empty where there is but one.
        document: its id.
        keeper: the id of the other one, which stays.
        similarity: the share of the runs of words that both have.
        text: how the document begins.
        other: how the other one begins.
    """

    source: str
    document: Annotated[int, Meta(ge=0)]
    keeper: Annotated[int, Meta(ge=0)]
    similarity: float
    text: Annotated[str, Meta(max_length=96)]
    other: Annotated[str, Meta(max_length=96)]

    def __str__(self) -> str:
        return f'{self.similarity:.2f}: "{self.text}" and "{self.other}"'


# Returns, for documents (rows of TEXT_SCHEMA) of a file with this name, the reason why each is
# dropped; an empty one if it is kept.
Step = Callable[[pa.RecordBatch, str], Sequence[str]]


def drop_documents(
    documents: pa.RecordBatch, file: str, steps: Iterable[Step]
) -> tuple[pa.RecordBatch, Counter[str], int, Counter[str]]:
    """Drop documents.

    Args:
        documents: rows of TEXT_SCHEMA.
        file: name of their file.
        steps: asked one after the other.

    Returns:
        The documents that are kept, how many were dropped for each reason, the number of sentences
        that these have, and the bytes of their text for each reason.
    """
    reasons, sentences = Counter[str](), len(documents.column("sentences").flatten())
    sizes = Counter[str]()
    for step in steps:
        found = step(documents, file)
        reasons.update(filter(None, found))
        if any(found):
            for reason, size in zip(found, measure_texts(documents).tolist(), strict=True):
                sizes[reason] += size
            documents = documents.filter(pa.array(np.array([not reason for reason in found])))
    return documents, reasons, sentences - len(documents.column("sentences").flatten()), sizes


def measure_texts(documents: pa.RecordBatch) -> npt.NDArray[np.int32]:
    """Return the bytes of the text of each document, as `join_sentences` returns it."""
    _, offsets = ragged.from_arrow(join_sentences(documents))
    return np.diff(offsets)


def join_sentences(documents: pa.RecordBatch) -> pa.StringArray:
    r"""Return the text of each document: its sentences, one on each line.

    Example:
        a document with the sentences "a ." and "b ." gives "a .\nb .".
    """
    import pyarrow.compute as pc  # noqa: PLC0415  a twentieth of a second, and few filters need it

    return pc.binary_join(documents.column("sentences"), "\n")


Filter = Callable[[str, Mapping[str, Any]], bool | str | None]

# The reasons of other steps, which are counted apart.
_TAKEN = {
    "duplicate": option("drop_duplicates"),
    "near-duplicate": option("drop_near_duplicates"),
    "overlap": option("drop_overlap_with"),
    **dict.fromkeys(DROP_REASONS[1:], option("where")),
}
_REASON = re.compile(r"[a-z0-9-]{1,40}")
_CURE = "Correct the filter; it returns None to keep a document, or a reason such as 'too-short'"

FILTERS: Plugins[Filter] = Plugins(
    "corpusmill.filters",
    "filter",
    {},
    lambda value: cast(Filter, value) if callable(value) else None,
    "a function",
    takes_functions=True,
)


def load_filters(names: Sequence[str]) -> tuple[Step, ...]:
    """Load filters as one step, so that a text is taken out of its batch once.

    Args:
        names: those of entry points, or "package.module:function"; there may be none.

    Raises:
        UserError: one is not known, or cannot be imported.
    """
    functions = {name: FILTERS[name] for name in names}

    def ask(documents: pa.RecordBatch, file: str) -> list[str]:
        ids: list[int] = documents.column("document").to_pylist()
        reasons = list[str]()
        kept = {name: documents.column(i) for i, name in kept_columns(documents.schema)}
        rows = pa.RecordBatch.from_pydict(kept).to_pylist() if kept else repeat({})
        texts = join_sentences(documents).to_pylist()
        for number, text, fields in zip(ids, texts, rows, strict=False):
            document = {"file": file, "offset": number % 2**OFFSET_BITS, "id": number}
            # Each gets mappings of its own, lest one changes what the next one sees.
            answers = (
                _ask(name, call, text, {**document, "fields": {**fields}})
                for name, call in functions.items()
            )
            reasons.append(next(filter(None, answers), ""))
        return reasons

    return (ask,) if functions else ()


def _ask(name: str, function: Filter, text: str, metadata: dict[str, Any]) -> str:
    place = f"of {printable(metadata['file'])} at {metadata['offset']}"
    try:
        answer = function(text, metadata)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit, or a panic of a library in Rust
        cause = f"it fails on the document {place} ({type(error).__name__}: {in_one_line(error)})"
        raise UserError(option("filter", name), cause, _CURE) from error
    if answer is None or answer is True:
        return ""
    if isinstance(answer, str) and _REASON.fullmatch(answer) and answer not in _TAKEN:
        return answer
    cause = (
        f"for the document {place} it returns {printable(repr(answer))[:100]}, which is neither "
        "None or True nor a reason of up to 40 small letters, digits and hyphens"
    )
    if isinstance(answer, str) and answer in _TAKEN:
        cause = f"its reason {answer!r} is that of {_TAKEN[answer]}"
    raise UserError(option("filter", name), cause, _CURE)
