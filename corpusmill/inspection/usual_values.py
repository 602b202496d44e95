"""What a finding is, and which values are usual."""

from dataclasses import dataclass
from typing import NamedTuple


class Range(NamedTuple):
    """The values of a quantity that are not reported.

    Attributes:
        low: the smallest one.
        high: the largest one.
        shown: the range in words.
        reason: why it ends there.
    """

    low: float
    high: float
    shown: str
    reason: str


_ANY = float("inf")
USUAL = {
    "coverage": Range(
        0.6, 1, "80 % and more", "WikiText has 82 to 97 %, with lines longer than rows 50 %"
    ),
    "sentences per document": Range(
        2, _ANY, "2 and more", "a document of one sentence has no second segment of its own"
    ),
    "balance": Range(
        0.25, 0.75, "45 to 70 %", "drawn with 50 %; the sections of WikiText, of 3 lines, give 67 %"
    ),
    "long sentences": Range(
        0, 0.05, "up to 5 %", "real sentences have 10 to 60 tokens, and rows 128 to 512"
    ),
    "padding": Range(
        0, 0.7, "up to 65 %", "the paragraphs of WikiText have 65 % in rows of 512; books had 76 %"
    ),
    "capped": Range(
        0.25, 1, "a quarter and more", "the article's own 20 predictions of 512 tokens are 26 %"
    ),
    "unknown": Range(
        0, 0.01, "up to 1 %", "vocabularies of the corpus' own language leave less than 0.1 %"
    ),
    "tokens per byte": Range(
        0,
        0.45,
        "0.1 to 0.4",
        "English has 0.22 and Chinese 0.33; a vocabulary of another language spells letters",
    ),
    "copies": Range(
        0, 0.1, "up to 3 %", "books and WikiText have 0 to 2 %, in passages of 32 tokens"
    ),
    "equal rows": Range(
        0, 0.3, "up to 15 %", "ten passes over the short sections of WikiText give 14 % in pairs"
    ),
    "largest file": Range(
        0, 4, "up to 4 times the median", "hashing spreads documents evenly; one worker gets a file"
    ),
    "validation rows": Range(
        100, _ANY, "100 and more", "the loss of fewer rows is too noisy to compare models by"
    ),
    "rejects": Range(
        0, 0.01, "up to 1 %", "clean corpora have none, crawled ones some in a million"
    ),
    "cut documents": Range(
        0, 0.01, "up to 1 %", "16 MB are the text of ten thick books; hardly a document has more"
    ),
}


@dataclass(frozen=True)
class Finding:
    """One thing that makes a data set of little use.

    Attributes:
        name: of the quantity.
        what: what was found, a sentence without its end.
        value: the quantity; a share is between 0 and 1.
        usual: the range in which it usually lies, in words.
        cause: why it is so, most likely; a sentence without its end.
        cure: what to do; likewise.
    """

    name: str
    what: str
    value: float
    usual: str
    cause: str
    cure: str

    def __str__(self) -> str:
        return f"{self.what} (usually {self.usual}). {self.cause}. {self.cure}."


def percent(share: float) -> str:
    """Return a share as it stands in findings: 0.123 gives "12.3 %"."""
    return f"{100 * share:.1f} %"
