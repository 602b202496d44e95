"""Token ids remembered for each word, so that no word is tokenized twice.

Text is cut at ASCII spaces into *units*, which are looked up by their bytes. A unit that is not
known is given to the tokenizer. The memo never changes a result: a hash alone is never trusted, and
when the memo is full it is emptied. `corpusmill.tokenization.compiled.exactness` says for which
tokenizers the ids of a text are the ids of its units.
"""

import threading
from collections.abc import Callable

import numpy as np

from corpusmill.tokenization.compiled.units import LineRule, UnitRule, cut_at_lines, prepare_units
from corpusmill.tokenization.compiled.word_memo_kernels import allocate_memo, emit_ids, look_up

# Longer units are rare, and most do not recur (addresses, or text without spaces).
LONGEST_UNIT = 64


EncodeTexts = Callable[[list[str]], tuple[np.ndarray, np.ndarray]]
EncodeSpans = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def encode_spans_by(encode_texts: EncodeTexts) -> EncodeSpans:
    """A tokenizer of texts as one of stretches of a text.

    Args:
        encode_texts: texts to int32 ids, one text's behind the other's, and their int64 offsets.

    Returns:
        A function of a text, uint8[bytes], and of int64[n, 2] first bytes and ends of stretches in
        it, to the same.
    """

    def encode_spans(text: np.ndarray, spans: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        view = text.data
        return encode_texts([str(view[start:end], "utf-8") for start, end in spans.tolist()])

    return encode_spans


class WordMemo:
    """The ids of units seen before. Threads may share it; they take turns.

    Args:
        encode_spans: the tokenizer: of stretches of a text, each a text of its own, as
            `encode_spans_by` gives it.
        memory_bytes: upper bound of what is kept; 1 KiB where it is less.
        rule: what a unit is.
        longest_unit: bytes of the longest unit that is remembered.
        line_rule: at which line breaks a text is cut first.
    """

    def __init__(
        self,
        encode_spans: EncodeSpans,
        memory_bytes: int,
        rule: UnitRule = "words",
        longest_unit: int = LONGEST_UNIT,
        line_rule: LineRule = "whole",
    ) -> None:
        self._encode_spans, self._rule, self._longest = encode_spans, rule, longest_unit
        self._line_rule = line_rule
        self._memo, self._known = allocate_memo(memory_bytes), 0
        self._turn = threading.Lock()

    def encode(
        self, text: np.ndarray, offsets: np.ndarray, dtype: np.dtype
    ) -> tuple[np.ndarray, np.ndarray]:
        """As `corpusmill.tokenization.sentence_tokenizer.SentenceTokenizer.encode`."""
        cuts, firsts = cut_at_lines(self._line_rule, text, offsets)
        with self._turn:
            try:
                ids, ends = self._encode(text, cuts, dtype)
                return ids, ends[firsts]
            except BaseException:
                self._forget()  # entries without ids must not stay
                raise

    def _encode(
        self, text: np.ndarray, offsets: np.ndarray, dtype: np.dtype
    ) -> tuple[np.ndarray, np.ndarray]:
        keys, text, offsets = prepare_units(self._rule, text, offsets)
        memo, known = self._memo, self._known
        own_space = 0x20 if self._rule == "spaced" else None
        entries, unit_offsets, new, unremembered = look_up(
            memo, known, self._longest, own_space, keys, offsets
        )
        new_ids, new_ends = self._encode_any(text, new)
        first, found = memo.id_ends[known], known + len(new)
        memo.id_ends[known : found + 1] = first + new_ends
        no_room = first + len(new_ids) > len(memo.ids)
        if no_room:
            # For this batch alone; then the memo is emptied.
            memo = memo._replace(ids=np.concatenate([memo.ids[:first], new_ids]))
        else:
            memo.ids[first : first + len(new_ids)] = new_ids
        self._known = found
        other_ids, other_ends = self._encode_any(text, unremembered)
        token_ids, token_offsets = emit_ids(
            memo, entries, unit_offsets, other_ids, other_ends, np.empty(0, dtype)
        )
        if no_room or (np.diff(unremembered) <= self._longest).any():
            self._forget()
        return token_ids, token_offsets

    def _encode_any(self, text: np.ndarray, spans: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if not len(spans):
            return np.empty(0, np.int32), np.zeros(1, np.int64)
        return self._encode_spans(text, spans)

    def _forget(self) -> None:
        self._memo.table.fill(0)
        self._known = 0
