"""What ids mean in a token file, judged by its first rows where nobody says it."""

from dataclasses import dataclass

import numpy as np

from corpusmill.audit.measures import Conventions, measure_padding, measure_tails, to_unsigned
from corpusmill.audit.token_files import TokenRows
from corpusmill.tokenization.tokenizer_file import SpecialTokens

# The share of rows from where on a habit counts as one, and as one without exceptions.
_MOST, _ALL = 0.5, 0.99
# The share of rows of one length from where on they are cut at it, and of those that are filled.
_CUT, _FILLED = 0.95, 0.2
# How many times as often as at ends of rows an id may stand that ends documents.
_ELSEWHERE = 2
# Fewer rows show no habit.
_FEWEST_ROWS = 4


@dataclass(frozen=True)
class Given:
    """What the user or the tokenizer says of ids; None for what they do not.

    Attributes:
        begin: begins a document.
        end: ends a document.
        pad: fills rows.
        special: the special ids of the tokenizer.
        vocab_size: ids are below it; 0 if that is not known.
    """

    begin: int | None = None
    end: int | None = None
    pad: int | None = None
    special: SpecialTokens | None = None
    vocab_size: int = 0

    def judge(self, rows: TokenRows, is_stream: bool) -> Conventions:
        """Judge what ids mean by the first rows of a file.

        Args:
            rows: the first ones.
            is_stream: whether the file keeps no rows apart.

        Example:
            rows [5, 7, 2], [6, 2] and others that end with 2 give an end of 2.
        """
        special, ids = self.special, to_unsigned(rows.ids)
        offsets = rows.offsets if rows.is_ended else rows.offsets[:-1]
        if is_stream or len(rows.offsets) <= _FEWEST_ROWS:
            offsets = rows.offsets[:1]
        pad = self._judge_padding(ids, offsets)
        begins, stops = offsets[:-1], offsets[1:] - measure_padding(rows, ids, offsets, pad)
        begins, stops = begins[stops > begins], stops[stops > begins]
        end = -1 if self.end is None else self.end
        # A line break may follow the end, as in ChatML.
        for back, is_any in (1, False), (2, False), (2, True), (1, True):
            if end < 0:
                end = self._judge_mark(ids, ids[np.maximum(begins, stops - back)], is_any)
        if end < 0 and special and special.end_of_text:
            end = special.end_of_text[-1]
        begin = -1 if self.begin is None else self.begin
        if begin < 0 and special:
            marks = self._judge_mark(ids, ids[begins]), *(special.before or ())
            begin = next((mark for mark in marks if mark >= 0), -1)
            begin = begin if begin in special.all_ids and begin != end else -1
        unknown = -1 if special is None or special.unk_id is None else special.unk_id
        ended = int(np.count_nonzero(ids[stops - 1] == end))
        are_windows = _share(stops - begins) >= _CUT and ended < _MOST * len(stops)
        return Conventions(begin, end, pad, unknown, self.vocab_size, are_windows)

    def _judge_mark(self, ids: np.ndarray, marks: np.ndarray, is_any: bool = False) -> int:
        """Return the id that most rows have at one of their ends, if it is there for that; or -1.

        Args:
            ids: integers[tokens], of all rows.
            marks: integers[rows], at their ends.
            is_any: whether it may stand elsewhere as often, where no tokenizer says what it is.
        """
        if not len(marks):
            return -1
        values, numbers = np.unique(marks, return_counts=True)
        token, number = int(values[numbers.argmax()]), int(numbers.max())
        is_special = self.special is not None and token in self.special.all_ids
        is_rare = np.count_nonzero(ids == token) <= _ELSEWHERE * number
        is_sure = is_any and self.special is None and number >= _ALL * len(marks)
        is_mark = is_special or is_rare or is_sure
        return token if is_mark and number >= _MOST * len(marks) else -1

    def _judge_padding(self, ids: np.ndarray, offsets: np.ndarray) -> int:
        if self.pad is not None:
            return self.pad
        if self.special and self.special.pad_id is not None:
            return self.special.pad_id
        tails = measure_tails(ids, offsets, -1)
        filled = ids[offsets[1:][tails > 0] - 1]
        is_even = _share(np.diff(offsets)) >= _CUT
        is_habit = is_even and len(filled) >= _FILLED * len(tails) > 0
        return int(filled[0]) if is_habit and _share(filled) >= _ALL else -1


def _share(values: np.ndarray) -> float:
    """Return the share of values that are as large as the largest; 0 without values."""
    return float(np.mean(values == values.max())) if len(values) else 0.0
