"""The columns that several objectives share, by the names that models of Hugging Face expect."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pyarrow as pa

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import ANY_LENGTH, NO_PAD, Column, Role, smallest_integer
from corpusmill.objectives.masking.words import NO_WORD
from corpusmill.tokenization.tokenizer_file import SpecialTokens

NEXT_SENTENCE_LABEL = Column(
    "next_sentence_label",
    "int8",
    "1 where the second segment is of a random document",
    role=Role.CLASS,
    largest=1,
    value_names=("next", "random"),
    title="second segment",
    feature="next_sentence_labels",
)
# ALBERT's trainer parses it by the name that BERT's labels have.
SENTENCE_ORDER_LABEL = replace(
    NEXT_SENTENCE_LABEL,
    name="sentence_order_label",
    meaning="1 where the two segments are switched",
    value_names=("in order", "switched"),
    title="segments",
)
SWITCHED_OR_RANDOM_LABEL = replace(
    SENTENCE_ORDER_LABEL,
    meaning="1 where the two segments are switched, or the second is of a random document",
    value_names=("in order", "switched or random"),
)
# Built, but not written: `token_type_ids` are derived from the first, the second is counted.
FIRST_LENGTH = Column(
    "first_length", "uint16", "tokens of the first segment", role=Role.FIRST_LENGTH
)
RANDOM_LENGTH = Column("random_length", "uint16", "tokens of a random document")
# Built, but not written, of rows that are cut from joined pieces of documents.
JOINED_COUNTS = (
    Column("documents", "uint16", "pieces of documents in the row"),
    Column("pieces", "uint16", "pieces of documents of which the row holds the end"),
)
# Built, but not written: where each row comes from. It is the last of an objective's built columns.
SPANS = Column(
    "spans",
    "uint64",
    "for each stretch of a document: its id, the first token in it, and the number of tokens",
    ANY_LENGTH,
    role=Role.SPANS,
)


def token_column(dtype: str, meaning: str, width: int, pad: int) -> Column:
    """Return the column of a row's tokens."""
    return Column("input_ids", dtype, meaning, width, pad, Role.TOKEN_IDS)


def segment_column(width: int) -> Column:
    """Return the column of the tokens' segments."""
    return Column(
        "token_type_ids",
        "int8",
        "0 up to the first [SEP], 1 behind it",
        width,
        role=Role.SEGMENTS,
        largest=1,
        feature="segment_ids",
    )


def word_column(width: int) -> Column:
    """Return the column of the tokens' words."""
    meaning = "0 for the first token of a word, 1 for a later one, -1 for [CLS] and [SEP]"
    return Column("seg_labels", "int8", meaning, width, NO_WORD, Role.WORDS, NO_WORD, 1)


def prediction_columns(dtype: str, width: int, max_seq_length: int) -> tuple[Column, Column]:
    """Return the columns of a row's predictions: their positions, and the original ids.

    Args:
        dtype: the NumPy name of the type of a token id.
        width: the most predictions of a row.
        max_seq_length: the tokens of the longest row.
    """
    position = smallest_integer(max_seq_length - 1).name
    meaning = "places of input_ids to predict, ascending"
    return (
        Column("masked_lm_positions", position, meaning, width, role=Role.POSITIONS),
        Column("masked_lm_ids", dtype, "the ids that stood there", width, role=Role.PREDICTED_IDS),
    )


def pad_of_text(special: SpecialTokens, *ends: int) -> int:
    """Return what fills rows of text; NO_PAD where it could be mistaken for a row's own end."""
    pad_id = special.pad_id
    return NO_PAD if pad_id is None or pad_id in {special.eos_id, *ends} else pad_id


def boundary_column(max_seq_length: int, most_pieces: int) -> Column:
    """Return the column of the boundaries of a packed row's pieces."""
    dtype = smallest_integer(max_seq_length).name
    meaning = "where each document begins, from 0, and where the last one ends"
    return Column("cu_seqlens", dtype, meaning, most_pieces + 1, role=Role.BOUNDARIES)


# [CLS] first [SEP], and second [SEP] where there is a second segment or an empty one.
_FIRST_SPECIAL, _SECOND_SPECIAL = 2, 1
_LENGTHS = {Role.TOKEN_IDS: "length", Role.TARGET_IDS: "target_length"}


def measure_rows(rows: pa.RecordBatch, columns: Iterable[Column]) -> dict[str, np.ndarray]:
    """Return what is counted of rows, int64[rows] each, by the distribution's name.

    Args:
        rows: as they are built, or written in a shard.
        columns: those to measure, the tokens first.
    """
    measured: dict[str, np.ndarray] = {}
    for column in columns:
        array = rows.column(column.name)
        match column.role:
            case Role.TOKEN_IDS | Role.TARGET_IDS:
                measured[_LENGTHS[column.role]] = ragged.row_lengths(array, column.pad)
            case Role.FIRST_LENGTH | Role.SEGMENTS:
                if column.width:
                    second = ragged.count_in_rows(array)
                    first = measured["length"] - second - _FIRST_SPECIAL
                else:
                    first = array.to_numpy().astype(np.int64)
                    second = measured["length"] - first - _FIRST_SPECIAL
                measured["first_segment_length"] = first
                measured["second_segment_length"] = np.maximum(0, second - _SECOND_SPECIAL)
            case Role.WORDS:
                # 0 is a word's first token; padding is -1.
                measured["words"] = ragged.count_in_rows(array, np.equal)
            case Role.POSITIONS:
                # Position 0 holds [CLS], which is never predicted, so that a 0 is padding.
                measured["predictions"] = ragged.count_in_rows(array)
            case Role.BOUNDARIES:
                # All of a row's boundaries but the first are above 0, and padding is not.
                measured["pieces"] = ragged.count_in_rows(array)
            case Role.LEARNED:
                measured["learned_tokens"] = ragged.count_in_rows(array, np.not_equal, column.pad)
            case Role.CLASS:
                measured[column.name] = array.to_numpy()
    return measured
