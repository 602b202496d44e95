"""The smallest objective that needs words: a document's ids, and which of them continue a word."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import IDENTITY_SCHEMA, Column, Role, arrow_schema
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.objectives.objective import Objective, Repeat
from corpusmill.objectives.objective_options import ObjectiveOptions
from corpusmill.tokenization.tokenizer_file import Vocabulary, continues_of, ids_of

LONGEST = 4096


@dataclass(frozen=True)
class LabelledWords(Objective):
    """One example a document and repeat, of the document and of a random one."""

    rule: str
    copies: int
    token_dtype: str

    @property
    def name(self) -> str:
        return "labelled-words"

    @property
    def words(self) -> str:
        return self.rule

    @property
    def repeats(self) -> int:
        return self.copies

    @property
    def pool_tokens(self) -> int:
        return 10**6

    @property
    def columns(self) -> tuple[Column, ...]:
        return (
            Column("input_ids", self.token_dtype, "ids", LONGEST, role=Role.TOKEN_IDS),
            Column("continues", "int8", "1 inside a word", LONGEST, role=Role.TOKEN_VALUES),
            Column("random_ids", self.token_dtype, "ids of another document", LONGEST),
            Column("random_continues", "int8", "likewise", LONGEST),
        )

    def build(self, documents: pa.RecordBatch, repeat: Repeat) -> pa.RecordBatch:
        pool = repeat.pool
        assert pool is not None
        ids = documents.column("document").to_numpy()
        sentences, document_offsets = ragged.from_arrow(documents.column("sentences"))
        token_ids, sentence_offsets = ragged.from_arrow(sentences)
        assert token_ids.dtype == pool.token_ids.dtype
        first, last = pool.candidates(repeat.splits).T
        step = np.uint64(repeat.seed + repeat.number)
        drawn = first + (ids + step).astype(np.int64) % (last - first)
        pool_offsets = pool.sentence_offsets[pool.document_offsets]
        others, other_offsets = ragged.take(pool.token_ids, pool_offsets, drawn)
        own_offsets = sentence_offsets[document_offsets]
        own = token_ids[own_offsets[0] : own_offsets[-1]]
        own_offsets = own_offsets - own_offsets[0]
        lists = [
            ragged.to_arrow(values, offsets)
            for marked, offsets in ((own, own_offsets), (others, other_offsets))
            for values in (ids_of(marked), continues_of(marked).astype(np.int8))
        ]
        identity = [ids, np.full(len(ids), repeat.number, np.uint16), np.zeros(len(ids), np.uint32)]
        schema = pa.schema([*IDENTITY_SCHEMA, *arrow_schema(self.built_columns)])
        return ragged.to_batch([*identity, *lists], schema)

    def finish(self, examples: pa.RecordBatch, padded: bool) -> pa.RecordBatch:
        assert not padded
        return examples.select([column.name for column in self.columns])

    def measure(self, examples: pa.RecordBatch) -> dict[str, np.ndarray]:
        _, offsets = ragged.from_arrow(examples.column("input_ids"))
        return {"length": np.bincount(np.diff(offsets))}


@dataclass(frozen=True)
class LabelledWordsOptions(ObjectiveOptions):
    """Options of LabelledWords."""

    words: str = "unicode"
    copies: int = 2

    def bind(self, tokenizer: Vocabulary) -> LabelledWords:
        return LabelledWords(self.words, self.copies, tokenizer.token_dtype.name)

    def choose_documents(self, documents: DocumentOptions) -> DocumentOptions:
        return documents
