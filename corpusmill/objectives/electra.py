"""ELECTRA's examples: the sentences of a document packed into two segments.

Source: Google's build_pretraining_dataset.py (seed 001), after Clark et al. 2020. The masking is
the trainer's affair: it draws new places at each step.
`corpusmill.objectives.examples.electra_packs` says how the draws are made independent of the order
of documents. The original drops what is too long for an example; here it is counted, and `overflow`
keeps it.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import IDENTITY_SCHEMA, Column, arrow_schema
from corpusmill.corpus.options import DocumentOptions, DocumentRule
from corpusmill.errors import UserError, check_option
from corpusmill.objectives.columns import segment_column, token_column
from corpusmill.objectives.documents import unpack_documents
from corpusmill.objectives.examples import electra_packs as packing
from corpusmill.objectives.examples.pair_rows import NUM_SPECIAL, finish_rows
from corpusmill.objectives.masking.masked_lm import MaskedLm
from corpusmill.objectives.objective import Objective, ObjectiveOptions
from corpusmill.objectives.random_documents import Pool
from corpusmill.tokenization.special_tokens import SpecialTokens
from corpusmill.tokenization.tokenizer_file import Vocabulary

_SEGMENTS = ("first", "second")
_RULES_WITH_BLANKS = ("wikitext", "blank-lines")


# The generator's share of masked tokens in the original.
_MASKED_LM_PROB = 0.15


@dataclass(frozen=True)
class ElectraOptions(ObjectiveOptions):
    """How ELECTRA's examples are made."""

    max_seq_length: int = 128
    """Longest example in tokens, [CLS] and both [SEP] included."""
    duplicates: int = 1
    """How many times each document is built, each time with other draws."""
    short_seq_prob: float = 0.05
    """Probability that an example is made at a shorter length, uniform from 5 up."""
    single_segment_prob: float = 0.1
    """Probability that an example has one segment only, as in classification tasks."""
    blanks_separate_docs: bool = True
    """Empty lines of a text separate documents; if not, a file is one document (--document-rule
    whole-file). A file is read by one worker then, and cut between lines into several documents
    where its text is longer than --max-document-bytes; at each cut an example ends early. In
    formats with records a record is a document, either way."""
    overflow: Literal["drop", "keep"] = "drop"
    """What becomes of tokens that are too many for an example: "drop" leaves them out, as the
    original does, and counts them; "keep" puts them in front of what the document's next example
    is made of, so that no token is lost."""

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: a value that no example can be built with.
        """
        longest = self.max_seq_length
        check_option("max-seq-length", longest, 5 <= longest <= 65535, "5 to 65535")
        check_option("duplicates", self.duplicates, 1 <= self.duplicates <= 65535, "1 to 65535")
        for flag in ("short_seq_prob", "single_segment_prob"):
            share = getattr(self, flag)
            check_option(flag.replace("_", "-"), share, 0 <= share <= 1, "0 to 1")
        check_option("overflow", self.overflow, self.overflow in {"drop", "keep"}, "drop or keep")

    def bind(self, tokenizer: Vocabulary) -> "Electra":
        """See ObjectiveOptions."""
        tokenizer.special.require(tokenizer.name, "cls", "sep", "pad")
        return Electra(self, tokenizer.special, tokenizer.token_dtype.name)

    def masker(self, tokenizer: Vocabulary) -> MaskedLm:
        """Mask as the trainer of ELECTRA's generator does at each step.

        Of round(tokens * 0.15) predictions, special tokens counted, 85 % become [MASK] and 15 %
        stay. The original draws positions with replacement, so that some are drawn twice and count
        double; here all differ.

        Source: `mask` in pretrain/pretrain_helpers.py of google-research/electra.
        """
        tokenizer.special.require(tokenizer.name, "mask")
        return MaskedLm(
            static=False,
            whole_words=False,
            max_ngram=1,
            masked_lm_prob=_MASKED_LM_PROB,
            max_predictions=max(1, int((_MASKED_LM_PROB + 0.005) * self.max_seq_length)),
            max_seq_length=self.max_seq_length,
            num_special=0,
            special=tokenizer.special,
            vocab_size=tokenizer.vocab_size,
            token_dtype=tokenizer.token_dtype.name,
            mask_replace_prob=0.85,
            random_replace_prob=0.0,
        )

    def choose_documents(self, documents: DocumentOptions) -> DocumentOptions:
        """See ObjectiveOptions; by default empty lines alone separate documents, titles do not."""
        wanted: DocumentRule = "blank-lines" if self.blanks_separate_docs else "whole-file"
        rule = documents.document_rule or wanted
        if self.blanks_separate_docs != (rule in _RULES_WITH_BLANKS):
            raise UserError(
                f"--document-rule {rule}",
                "empty lines separate documents with --blanks-separate-docs, and do not with "
                f"--no-blanks-separate-docs, where {wanted} was expected",
                "Leave one of the two out, or turn it round",
            )
        return documents.or_else(rule, "line").require_sentences("electra")


@dataclass(frozen=True)
class Electra(Objective):
    """The objective `electra`, bound to a tokenizer's ids; see `Objective`.

    Attributes:
        options: how examples are made.
        special: the tokenizer's special ids; cls, sep and pad must be there.
        token_dtype: NumPy name of the type of a token id.
    """

    options: ElectraOptions
    special: SpecialTokens
    token_dtype: str

    @property
    def name(self) -> str:
        """See Objective."""
        return "electra"

    @property
    def repeats(self) -> int:
        """See Objective."""
        return self.options.duplicates

    @property
    def columns(self) -> tuple[Column, ...]:
        """See Objective."""
        length, pad_id = self.options.max_seq_length, self.special.pad_id or 0
        meaning = "[CLS] first segment [SEP] second segment [SEP]; the second one may be missing"
        return (
            token_column(self.token_dtype, meaning, length, pad_id),
            segment_column(length),
        )

    @property
    def built_columns(self) -> tuple[Column, ...]:
        """See Objective."""
        return (
            self.columns[0],
            Column("first_length", "uint16", "tokens of the first segment"),
            Column("first_trimmed", "uint32", "tokens that were too many for the first segment"),
            Column("second_trimmed", "uint32", "tokens that were too many for the second segment"),
        )

    def build(
        self,
        documents: pa.RecordBatch,
        repeat: int,
        pool: Pool | None,  # noqa: ARG002 - no random document
        splits: np.ndarray,  # noqa: ARG002
        seed: int,
    ) -> pa.RecordBatch:
        """See Objective."""
        index, token_ids = unpack_documents(documents)
        rule = packing.PackRule(
            self.options.max_seq_length,
            self.options.short_seq_prob,
            self.options.single_segment_prob,
            self.options.overflow == "keep",
        )
        packs, spans = packing.draw_packs(index, np.uint64(seed), repeat, rule)
        input_ids, offsets = packing.assemble_packs(
            packs, spans, token_ids, self.special.cls_id, self.special.sep_id
        )
        schema = pa.schema([*IDENTITY_SCHEMA, *arrow_schema(self.built_columns)])
        trimmed = packs[:, [packing.FIRST_TRIMMED, packing.SECOND_TRIMMED]].astype(np.uint32)
        columns = [
            index.ids[packs[:, packing.DOCUMENT]],
            np.full(len(packs), repeat, np.uint16),
            packs[:, packing.INDEX].astype(np.uint32),
            ragged.to_arrow(input_ids, offsets),
            packs[:, packing.FIRST_LENGTH].astype(np.uint16),
            *np.ascontiguousarray(trimmed.T),
        ]
        return ragged.to_batch(columns, schema)

    def count(self, examples: pa.RecordBatch) -> dict[str, int]:
        """See Objective: how many tokens no example holds, and in which segment they were."""
        first, second = (
            int(examples.column(f"{segment}_trimmed").to_numpy().sum(dtype=np.int64))
            for segment in _SEGMENTS
        )
        return {
            "trimmed_tokens": first + second,
            "trimmed_tokens.first_segment": first,
            "trimmed_tokens.second_segment": second,
        }

    def finish(self, examples: pa.RecordBatch, padded: bool) -> pa.RecordBatch:
        """See Objective."""
        return finish_rows(examples, self.columns, padded)

    def measure(self, examples: pa.RecordBatch) -> dict[str, np.ndarray]:
        """See Objective."""
        lengths = np.diff(examples.column("input_ids").offsets.to_numpy())
        first_lengths = examples.column("first_length").to_numpy().astype(np.int64)
        # One segment stands between two special tokens, two of them between three.
        second_lengths = np.maximum(0, lengths - first_lengths - NUM_SPECIAL)
        return {
            "length": np.bincount(lengths),
            "first_segment_length": np.bincount(first_lengths),
            "second_segment_length": np.bincount(second_lengths),
        }
