"""What ids mean in a token file, judged by its first rows where nobody says it."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from corpusmill.audit.measures import Conventions, measure_tails, to_unsigned
from corpusmill.audit.token_files import Aligned, TokenRows
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
        special, offsets = self.special, rows.offsets
        rows = rows._replace(ids=to_unsigned(rows.ids))
        if is_stream or len(offsets) <= _FEWEST_ROWS:
            offsets = offsets[:1]
        elif not rows.is_ended:
            offsets = offsets[:-1]
        is_even = _share(np.diff(offsets)) >= _CUT
        pad = self._judge_padding(rows, offsets, is_even)
        tails = np.zeros(len(offsets) - 1, np.int64)
        if (attended := rows.columns.get(Aligned.ATTENDED)) is not None:
            tails = measure_tails((attended == 0).view(np.uint8), offsets, 1)
        elif pad >= 0:
            tails = measure_tails(rows.ids, offsets, pad)
        begins, stops = offsets[:-1], offsets[1:] - tails
        begins, stops = begins[stops > begins], stops[stops > begins]
        lengths = stops - begins
        end, begin = self.end, self.begin
        if end is None:
            end = self._judge_mark(rows.ids, rows.ids[stops - 1])
        if end is None and special and special.end_of_text:
            end = special.end_of_text[-1]
        if begin is None and special:
            begin = self._judge_mark(rows.ids, rows.ids[begins])
            begin = special.before[0] if begin is None and special.before else begin
            begin = begin if begin in special.all_ids and begin != end else None
        ended = 0 if end is None else int(np.count_nonzero(rows.ids[stops - 1] == end))
        return Conventions(
            begin=-1 if begin is None else begin,
            end=-1 if end is None else end,
            pad=pad,
            unknown=-1 if special is None or special.unk_id is None else special.unk_id,
            vocab_size=self.vocab_size,
            are_windows=_share(lengths) >= _CUT and ended < _MOST * len(stops),
        )

    def _judge_mark(self, ids: np.ndarray, marks: np.ndarray) -> int | None:
        """Return the id that most rows have at one of their ends, if it is there for that."""
        if not len(marks):
            return None
        values, numbers = np.unique(marks, return_counts=True)
        token, number = int(values[numbers.argmax()]), int(numbers.max())
        if number < _MOST * len(marks):
            return None
        is_special = self.special is not None and token in self.special.all_ids
        is_rare = int(np.count_nonzero(ids == token)) <= _ELSEWHERE * number
        is_sure = self.special is None and number >= _ALL * len(marks)
        return token if is_special or is_rare or is_sure else None

    def _judge_padding(self, rows: TokenRows, offsets: np.ndarray, is_even: bool) -> int:
        if self.pad is not None:
            return self.pad
        if self.special and self.special.pad_id is not None:
            return self.special.pad_id
        tails = measure_tails(rows.ids, offsets, -1)
        filled = rows.ids[offsets[1:][tails > 0] - 1]
        is_habit = is_even and len(filled) >= _FILLED * len(tails) > 0
        if not is_habit or _share(filled) < _ALL:
            return -1
        return int(filled[0])


def _share(values: npt.NDArray[np.int64]) -> float:
    """Return the share of values that are as large as the largest; 0 without values."""
    return float(np.mean(values == values.max())) if len(values) else 0.0
