"""Pairs of segments as rows of token ids, [CLS] first [SEP] second [SEP], and their spans."""

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.objectives.examples import row_spans as spans
from corpusmill.objectives.examples import sentence_pairs as pairing
from corpusmill.objectives.tokenized_documents import Documents

# The special tokens of a row.
NUM_SPECIAL = 3


@njit
def assemble_pairs(
    pairs: np.ndarray, token_ids: np.ndarray, pool_token_ids: np.ndarray, cls_id: int, sep_id: int
) -> tuple[np.ndarray, np.ndarray]:
    """Copy the spans of each pair into one row: [CLS] first [SEP] second [SEP].

    Args:
        pairs: int64[pairs, 9], from `sentence_pairs.draw_pairs`.
        token_ids: integers[tokens], the batch's.
        pool_token_ids: integers[tokens], the pool's, of the same type.
        cls_id: the id of [CLS].
        sep_id: the id of [SEP].

    Returns:
        input_ids: the type of token_ids[total].
        offsets: int64[pairs + 1].

    Example:
        a pair with the spans [10, 11] and [12] gives [2, 10, 11, 3, 12, 3] and [0, 6], where
        cls_id is 2 and sep_id is 3.
    """
    offsets = np.zeros(len(pairs) + 1, np.int64)
    for i in range(len(pairs)):
        length = pairs[i, pairing.FIRST_LENGTH] + pairs[i, pairing.SECOND_LENGTH] + NUM_SPECIAL
        offsets[i + 1] = offsets[i] + length
    input_ids = np.empty(offsets[-1], token_ids.dtype)
    for i in range(len(pairs)):
        place = offsets[i]
        input_ids[place] = cls_id
        place += 1
        start, length = pairs[i, pairing.FIRST_START], pairs[i, pairing.FIRST_LENGTH]
        input_ids[place : place + length] = token_ids[start : start + length]
        place += length
        input_ids[place] = sep_id
        place += 1
        start, length = pairs[i, pairing.SECOND_START], pairs[i, pairing.SECOND_LENGTH]
        if pairs[i, pairing.SECOND_SOURCE]:
            input_ids[place : place + length] = pool_token_ids[start : start + length]
        else:
            input_ids[place : place + length] = token_ids[start : start + length]
        input_ids[place + length] = sep_id
    return input_ids, offsets


@njit
def fill_token_types(offsets: np.ndarray, first_lengths: np.ndarray) -> np.ndarray:
    """Return 0 for [CLS], the first segment and its [SEP]; 1 for the second and its [SEP].

    Args:
        offsets: integers[rows + 1].
        first_lengths: integers[rows], the tokens of the first segment, without special tokens.

    Returns:
        int8[total].

    Example:
        offsets [0, 6] and first_lengths [2] give [0, 0, 0, 0, 1, 1].
    """
    token_types = np.ones(offsets[-1] - offsets[0], np.int8)
    for i in range(len(first_lengths)):
        start = offsets[i] - offsets[0]
        token_types[start : start + first_lengths[i] + 2] = 0
    return token_types


@njit
def locate_segments(pairs: np.ndarray, documents: Documents, pool: Documents) -> np.ndarray:
    """Return where the segments of pairs stand in their documents.

    Args:
        pairs: int64[pairs, 9], from `sentence_pairs.draw_pairs`.
        documents: the batch.
        pool: the random documents; any where no second segment is random.

    Returns:
        uint64[2 * pairs, 3], the two parts of each pair (`row_spans`).

    Example:
        a pair of the spans (2, 1) and (3, 2) in the batch's tokens, whose document 7 begins with
        token 2, gives [[7, 0, 1], [7, 1, 2]].
    """
    parts = np.empty((2 * len(pairs), 3), np.uint64)
    for i in range(len(pairs)):
        place, other = pairs[i, pairing.DOCUMENT], pairs[i, pairing.SECOND_DOCUMENT]
        begin = second_begin = documents.sentence_offsets[documents.offsets[place]]
        parts[2 * i, spans.DOCUMENT] = parts[2 * i + 1, spans.DOCUMENT] = documents.ids[place]
        if other >= 0:
            second_begin = pool.sentence_offsets[pool.offsets[other]]
            parts[2 * i + 1, spans.DOCUMENT] = pool.ids[other]
        parts[2 * i, spans.FIRST] = pairs[i, pairing.FIRST_START] - begin
        parts[2 * i, spans.LENGTH] = pairs[i, pairing.FIRST_LENGTH]
        parts[2 * i + 1, spans.FIRST] = pairs[i, pairing.SECOND_START] - second_begin
        parts[2 * i + 1, spans.LENGTH] = pairs[i, pairing.SECOND_LENGTH]
    return parts
