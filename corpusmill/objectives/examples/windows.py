"""Documents cut into rows of at most a length, one overlapping the other.

Source: "BPE vocabulary and data loading pipeline for training a large model from scratch"
(`_tokenize_and_chunk_document_stream`): windows of chunk_size tokens begin every chunk_size -
overlap tokens, and stop once the document is covered; the last one may be short. A document that is
to stay whole is one window of it, and one that is cut into pieces has no overlap.
"""

import numpy as np

from corpusmill.arrays.kernel_cache import njit


@njit
def count_windows(tokens: int, length: int, overlap: int) -> int:
    """How many windows cover a document.

    Args:
        tokens: of the document.
        length: most tokens of a window.
        overlap: tokens that a window shares with the one before it, below `length`.

    Example:
        10 tokens have 3 windows of length 4 with overlap 1: they begin at 0, 3 and 6.
    """
    if tokens <= 0:
        return 0
    stride = length - overlap
    return 1 + max(0, tokens - length + stride - 1) // stride


@njit
def cut_windows(
    token_ids: np.ndarray,
    document_offsets: np.ndarray,
    length: int,
    overlap: int,
    end_of_text: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The windows of each document, one document behind the other.

    Args:
        token_ids: integers[tokens].
        document_offsets: int64[documents + 1] into token_ids.
        length: most tokens of a window.
        overlap: tokens that a window shares with the one before it, below `length`.
        end_of_text: id that ends each document, before it is cut; negative where none does.

    Returns:
        input_ids: the type of token_ids[total].
        offsets: int64[windows + 1] into input_ids.
        owners: int64[windows], the document's place.
        indices: uint32[windows], the window's place in its document.

    Example:
        token_ids [5, 6, 7], document_offsets [0, 3], length 2, overlap 0 and end_of_text 9 give
        input_ids [5, 6, 7, 9] and offsets [0, 2, 4].
    """
    num_documents, stride = len(document_offsets) - 1, length - overlap
    ended = 1 if end_of_text >= 0 else 0
    windows = total = 0
    for document in range(num_documents):
        tokens = document_offsets[document + 1] - document_offsets[document] + ended
        number = count_windows(tokens, length, overlap)
        windows += number
        total += tokens + max(0, number - 1) * overlap
    input_ids = np.empty(total, token_ids.dtype)
    offsets = np.zeros(windows + 1, np.int64)
    owners, indices = np.empty(windows, np.int64), np.empty(windows, np.uint32)
    row = place = 0
    for document in range(num_documents):
        first, behind = document_offsets[document], document_offsets[document + 1]
        for index in range(count_windows(behind - first + ended, length, overlap)):
            begin = first + index * stride
            end = min(begin + length, behind)
            for token in range(begin, end):
                input_ids[place + token - begin] = token_ids[token]
            place += end - begin
            if ended and begin + length > behind:
                input_ids[place] = end_of_text
                place += 1
            row += 1
            offsets[row], owners[row - 1], indices[row - 1] = place, document, index
    return input_ids, offsets, owners, indices
