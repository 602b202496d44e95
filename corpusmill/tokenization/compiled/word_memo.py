"""Token ids remembered for each word, so that no word is tokenized twice.

Text is cut at ASCII spaces into *units*, which are looked up by their bytes. A unit that is not
known is passed to the tokenizer. The memo never changes a result: units are compared by their
bytes, not by hashes alone. It grows as words come, and a full one is emptied.
`corpusmill.tokenization.compiled.exactness` explains for which tokenizers the ids of a text are the
ids of its units.
"""

import threading

import numpy as np

from corpusmill.tokenization.compiled.line_cuts import LineRule, cut_at_lines
from corpusmill.tokenization.compiled.spans import EncodeSpans
from corpusmill.tokenization.compiled.units import UnitRule, prepare_units
from corpusmill.tokenization.compiled.word_memo_arrays import (
    MemoArrays,
    allocate_memo,
    grow_memo,
)
from corpusmill.tokenization.compiled.word_memo_kernels import emit_ids, look_up

# In bytes. Longer units are rare, and most do not recur (addresses, or text without spaces).
LONGEST_UNIT = 64
# The size of a memo of few words, which leaves the processor's cache to others.
_FIRST_BYTES = 4 * 2**20


class WordMemo:
    """The ids of units seen before. Threads may share it; they take turns.

    Args:
        encode_spans: the tokenizer.
        memory_bytes: upper bound of the memory used, at least 1 KiB; a rule of ideographs takes
            another 256 KiB.
        rule: what a unit is.
        line_rule: at which line breaks a text is cut first.
    """

    def __init__(
        self,
        encode_spans: EncodeSpans,
        memory_bytes: int,
        rule: UnitRule = "words",
        line_rule: LineRule = "whole",
    ) -> None:
        self._encode_spans, self._rule, self._line_rule = encode_spans, rule, line_rule
        has_ideographs = rule in {"ideographs", "bare ideographs"}
        self._memo, self._known = allocate_memo(min(_FIRST_BYTES, memory_bytes), has_ideographs), 0
        self._memory_bytes = memory_bytes
        self._turn = threading.Lock()

    def encode(
        self, text: np.ndarray, offsets: np.ndarray, dtype: np.dtype
    ) -> tuple[np.ndarray, np.ndarray]:
        """Tokenize sentences, as `SentenceTokenizer.encode` does."""
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
        keys, text, offsets, separable = prepare_units(self._rule, text, offsets)
        memo, known = self._memo, self._known
        own_space = 0x20 if self._rule == "spaced" else None
        entries, unit_offsets, new, unremembered = look_up(
            memo, known, LONGEST_UNIT, own_space, separable, keys, offsets
        )
        new_ids, new_ends = self._encode_spans(text, new)
        first, now_known = memo.id_ends[known], known + len(new)
        memo.id_ends[known : now_known + 1] = first + new_ends
        no_room = first + len(new_ids) > len(memo.ids)
        if no_room:
            # Larger for this batch alone; then the memo is emptied.
            memo = memo._replace(ids=np.concatenate([memo.ids[:first], new_ids]))
        else:
            memo.ids[first : first + len(new_ids)] = new_ids
        self._known = now_known
        other_ids, other_ends = self._encode_spans(text, unremembered)
        token_ids, token_offsets = emit_ids(
            memo, entries, unit_offsets, other_ids, other_ends, np.empty(0, dtype)
        )
        is_full = no_room or bool((np.diff(unremembered) <= LONGEST_UNIT).any())
        if is_full or 4 * now_known > 3 * len(memo.id_ends):
            self._make_room(memo, is_full)
        return token_ids, token_offsets

    def _make_room(self, memo: MemoArrays, is_full: bool) -> None:
        """Let a memo grow, or empty one that is full and may not."""
        if larger := grow_memo(memo, self._known, self._memory_bytes):
            self._memo = larger
        elif is_full:
            self._forget()

    def _forget(self) -> None:
        self._memo.table.fill(0)
        self._memo.ideographs.fill(0)
        self._known = 0
