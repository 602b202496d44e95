"""Documents cut into overlapping windows of a maximum length.

Source: "BPE vocabulary and data loading pipeline for training a large model from scratch"
(`_tokenize_and_chunk_document_stream`): windows of chunk_size tokens begin every chunk_size -
overlap tokens until the document is covered; the last one may be short. With a large length each
document stays whole, and with an overlap of 0 it is cut into pieces.
"""

import numpy as np

from corpusmill.arrays.kernel_cache import njit


@njit
def count_windows(tokens: int, length: int, overlap: int) -> int:
    """Return how many windows cover a document.

    Args:
        tokens: the tokens of the document.
        length: the most tokens of a window.
        overlap: the tokens that a window shares with the previous one, fewer than `length`.

    Example:
        10 tokens have 3 windows of length 4 with overlap 1: they begin at 0, 3 and 6.
    """
    if tokens <= 0:
        return 0
    stride = length - overlap
    return 1 + max(0, tokens - length + stride - 1) // stride


def locate_windows(
    document_offsets: np.ndarray, owners: np.ndarray, indices: np.ndarray, length: int, overlap: int
) -> np.ndarray:
    """Return where windows begin and end among the tokens, without end-of-text tokens.

    Args:
        document_offsets: int64[documents + 1] into the tokens.
        owners: int64[windows], the place of each window's document, as `cut_windows` returns it.
        indices: integers[windows], likewise.
        length: the most tokens of a window.
        overlap: the tokens that a window shares with the previous one.

    Returns:
        int64[windows, 2]; a window of nothing but an end-of-text token is empty.

    Example:
        a document of 3 tokens, windows of 2 and no overlap give [[0, 2], [2, 3]].
    """
    begins = document_offsets[owners] + indices.astype(np.int64) * (length - overlap)
    return np.stack([begins, np.minimum(begins + length, document_offsets[owners + 1])], axis=1)


@njit
def cut_windows(
    token_ids: np.ndarray,
    document_offsets: np.ndarray,
    length: int,
    overlap: int,
    end_of_text: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Cut documents into windows, document after document.

    Args:
        token_ids: integers[tokens].
        document_offsets: int64[documents + 1] into token_ids.
        length: the most tokens of a window.
        overlap: the tokens that a window shares with the previous one, fewer than `length`.
        end_of_text: the id that is added to each document before it is cut; negative for none.

    Returns:
        input_ids: the type of token_ids[total].
        offsets: int64[windows + 1] into input_ids.
        owners: int64[windows], the place of the window's document.
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
        count = count_windows(tokens, length, overlap)
        windows += count
        total += tokens + max(0, count - 1) * overlap
    input_ids = np.empty(total, token_ids.dtype)
    offsets = np.zeros(windows + 1, np.int64)
    owners, indices = np.empty(windows, np.int64), np.empty(windows, np.uint32)
    row = place = 0
    for document in range(num_documents):
        first, stop = document_offsets[document], document_offsets[document + 1]
        for index in range(count_windows(stop - first + ended, length, overlap)):
            begin = first + index * stride
            end = min(begin + length, stop)
            input_ids[place : place + end - begin] = token_ids[begin:end]
            place += end - begin
            if ended and begin + length > stop:
                input_ids[place] = end_of_text
                place += 1
            row += 1
            offsets[row], owners[row - 1], indices[row - 1] = place, document, index
    return input_ids, offsets, owners, indices
