"""RoBERTa's whole sentences in plain Python, written to be read.

From section 4.2 of the paper and the break modes `complete_doc` and `complete` of fairseq's
TokenBlockDataset. `corpusmill.objectives.combined_rows` and
`corpusmill.objectives.combined_rows` must give exactly this.
"""

from collections.abc import Iterable
from dataclasses import dataclass

Sentence = list[int]


def cut_document(document: list[Sentence], room: int) -> list[list[Sentence]]:
    """Cut a document into pieces of whole sentences; longer sentences become several pieces."""
    parts = [
        sentence[start : start + room]
        for sentence in document
        for start in range(0, len(sentence), room)
    ]
    pieces: list[list[Sentence]] = []
    for part in parts:
        if not pieces or count(pieces[-1]) + len(part) > room:
            pieces.append([])
        pieces[-1].append(part)
    return pieces


def count(sentences: list[Sentence]) -> int:
    """Count the tokens of sentences."""
    return sum(map(len, sentences))


@dataclass
class Piece:
    """A piece of a document, and whether it is its last."""

    name: int
    sentences: list[Sentence]
    is_last: bool


@dataclass
class Example:
    """Sentences of one or several documents.

    Attributes:
        first: name of the piece that it begins with.
        documents: its sentences, document by document.
        pieces: how many pieces end in it.
    """

    first: int
    documents: list[list[Sentence]]
    pieces: int = 0

    def length(self) -> int:
        """The number of tokens with [CLS] and a [SEP] after every document."""
        return 1 + sum(count(document) + 1 for document in self.documents)

    def input_ids(self, cls_id: int, sep_id: int) -> list[int]:
        """Return [CLS] sentences [SEP] sentences of another document [SEP] ..."""
        ids = [cls_id]
        for document in self.documents:
            ids += [token for sentence in document for token in sentence] + [sep_id]
        return ids


def join(pieces: Iterable[Piece], max_seq_length: int) -> list[Example]:
    """Return full pieces as they are, and last pieces joined."""
    examples: list[Example] = []
    current: Example | None = None
    for piece in pieces:
        if not piece.is_last:
            examples.append(Example(piece.name, [piece.sentences], 1))
            continue
        begins = True
        for sentence in piece.sentences:
            needed = len(sentence) + (1 if begins else 0)
            if current is not None and current.length() + needed > max_seq_length:
                examples.append(current)
                current = None
                begins = True
            if current is None:
                current = Example(piece.name, [])
            if begins:
                current.documents.append([])
            current.documents[-1].append(sentence)
            begins = False
        if current is not None:
            current.pieces += 1
    return examples if current is None else [*examples, current]
