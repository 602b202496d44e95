"""What is counted of the rows of token files, in one pass and bounded memory.

Windows that occur again are looked for among those with small hashes (Gibbons 2001, distinct
sampling): a window of the same ids has the same hash wherever it stands, so that of the windows
that are kept all copies are. When there are too many, every second one is let go.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from corpusmill.arrays.distinct import are_among
from corpusmill.arrays.kernel_cache import njit
from corpusmill.arrays.randomness import mix
from corpusmill.audit.token_files import Aligned, TokenRows
from corpusmill.knobs import knob

MOST_WINDOWS = knob("most_windows", 2**19, test=64)
"""The windows of a token file of which the hashes are kept, 24 bytes each."""
COUNTED_IDS = 2**20
"""Ids from here on are not told apart; no tokenizer has as many."""
WINDOW = 64
"""Tokens of a window; a passage as long is hardly written twice."""
# One window in 64 is kept at first; of many ids fewer, as many as are kept in the end.
_FIRST_SHARE = 64


def choose_share(tokens: int | None) -> int:
    """Return of how many windows one is kept at first.

    Args:
        tokens: the ids of all files, or None if that is not known.

    Example:
        2**20 give 64, and 2**32 give 2**15.
    """
    return max(_FIRST_SHARE, 1 << ((tokens or 0) // (MOST_WINDOWS // 4)).bit_length())


# Fewer equal ids in a row occur in texts, such as those of spaces and lines of a table.
SHORTEST_RUN = 64

_BASE = np.uint64(0x9E3779B97F4A7C15)
_OTHER_BASE = np.uint64(0xD1B54A32D192ED03)


class Conventions(NamedTuple):
    """What ids mean in a file; -1 for what is not known.

    Attributes:
        begin: begins a document.
        end: ends a document.
        pad: fills rows.
        unknown: replaces what the vocabulary lacks.
        vocab_size: ids are below it; 0 if that is not known.
        are_windows: whether rows are cut at one length, wherever documents end.
    """

    begin: int = -1
    end: int = -1
    pad: int = -1
    unknown: int = -1
    vocab_size: int = 0
    are_windows: bool = False


@njit
def count_ids(ids: np.ndarray, counts: np.ndarray) -> tuple[int, int]:
    """Add to the number of times that each id occurs.

    Args:
        ids: unsigned integers[n].
        counts: int64[m], changed; ids from its length on are not counted there.

    Returns:
        The largest id, and how many were not counted.
    """
    largest = beyond = 0
    for token in ids:
        number = int(token)
        if number < len(counts):
            counts[number] += 1
        else:
            beyond += 1
        largest = max(largest, number)
    return largest, beyond


@njit
def find_runs(ids: np.ndarray, shortest: int) -> tuple[np.ndarray, np.ndarray]:
    """Find where the same id stands many times in a row.

    Args:
        ids: integers[n].
        shortest: the length of the shortest run that is found, at least 2.

    Returns:
        int64[runs], where they begin, and int64[runs], how long they are.

    Example:
        [7, 0, 0, 0, 8] and 3 give [1] and [3].
    """
    begins, lengths = np.empty((2, len(ids) // shortest), np.int64)
    number = place = 0
    while place + shortest <= len(ids):
        # If a run covers the place, it covers the last one before the next place, too.
        if ids[place + shortest - 1] != ids[place + shortest - 2]:
            place += shortest - 1
            continue
        begin = end = place + shortest - 2
        while begin > 0 and ids[begin - 1] == ids[end]:
            begin -= 1
        while end + 1 < len(ids) and ids[end + 1] == ids[begin]:
            end += 1
        if end + 1 - begin >= shortest:
            begins[number], lengths[number] = begin, end + 1 - begin
            number += 1
        place = max(end, place + shortest - 1)
    return begins[:number], lengths[:number]


@njit
def measure_tails(ids: np.ndarray, offsets: np.ndarray, pad: int) -> np.ndarray:
    """Count the padding at the end of each row.

    Args:
        ids: integers[n].
        offsets: int64[rows + 1].
        pad: the id of padding; -1 for any id that stands twice or more.

    Returns:
        int64[rows].

    Example:
        rows [5, 0, 0] and [5, 6] give [2, 0] for 0 and for -1.
    """
    tails = np.zeros(len(offsets) - 1, np.int64)
    for row in range(len(tails)):
        first, place = offsets[row], offsets[row + 1]
        token = pad if pad >= 0 or place == first else np.int64(ids[place - 1])
        while place > first and np.int64(ids[place - 1]) == token:
            place -= 1
        length = offsets[row + 1] - place
        tails[row] = length if pad >= 0 or length > 1 else 0
    return tails


@njit
def sample_windows(ids: np.ndarray, share: int) -> np.ndarray:
    """Hash all windows of ids, and return the hashes of those that are in a sample.

    Args:
        ids: unsigned integers[n].
        share: of how many windows one is in the sample, whichever ids are in it; a power of 2.

    Returns:
        uint64[windows, 2]; windows of one id alone are left out.
    """
    limit = np.uint64(2**64 - 1) // np.uint64(share)
    hashes, number = np.empty((64, 2), np.uint64), 0
    leaving, state, even = np.uint64(1), np.uint64(0), np.uint64(0)
    for token in ids[:WINDOW]:
        leaving *= _BASE
        state = state * _BASE + (np.uint64(token) + np.uint64(1))
    # From the second window on, which saves a branch: one multiplication after the other is what
    # takes time, and that of the id that leaves the window is none of them.
    for place in range(WINDOW, len(ids)):
        change = np.uint64(ids[place]) - np.uint64(ids[place - WINDOW]) * leaving
        state = state * _BASE + (change + np.uint64(1) - leaving)
        if state * _OTHER_BASE > limit or state == even:
            continue
        other, is_mixed = np.uint64(0), False
        for token in ids[place - WINDOW + 1 : place + 1]:
            other = other * _OTHER_BASE + np.uint64(token) + np.uint64(1)
            is_mixed |= token != ids[place]
        if not is_mixed:
            even = state  # many windows may be of this one id
            continue
        if number == len(hashes):
            hashes = np.concatenate((hashes, hashes))
        hashes[number, 0], hashes[number, 1] = state * _OTHER_BASE, mix(other)
        number += 1
    return hashes[:number]


@dataclass
class Windows:
    """The windows of a sample, and how often each occurs.

    Attributes:
        share: of how many windows one is in the sample.
        hashes: uint64[windows, 2], ascending.
        numbers: int64[windows], how often each occurs.
    """

    share: int = _FIRST_SHARE
    hashes: np.ndarray = field(default_factory=lambda: np.empty((0, 2), np.uint64))
    numbers: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    _new: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)

    def add(self, hashes: np.ndarray, numbers: np.ndarray | None = None) -> None:
        """Add windows of a sample that is as large or larger.

        Args:
            hashes: uint64[windows, 2].
            numbers: int64[windows], how often each occurs; None for once.
        """
        self._new.append((hashes, np.ones(len(hashes), np.int64) if numbers is None else numbers))
        if sum(len(new) for new, _ in self._new) > MOST_WINDOWS // 2:
            self.settle()

    def settle(self) -> None:
        """Count equal windows, and take fewer into the sample if there are too many."""
        parts = zip((self.hashes, self.numbers), *self._new, strict=True)
        hashes, numbers = map(np.concatenate, parts)
        self._new = []
        order = np.lexsort((hashes[:, 1], hashes[:, 0]))
        hashes, numbers = hashes[order], numbers[order]
        is_first = np.ones(len(hashes), np.bool_)
        is_first[1:] = (hashes[1:] != hashes[:-1]).any(axis=1)
        hashes, numbers = hashes[is_first], np.add.reduceat(numbers, np.flatnonzero(is_first))
        while True:
            limit = np.uint64((2**64 - 1) // self.share)
            kept = int(np.searchsorted(hashes[:, 0], limit, side="right"))
            if kept <= MOST_WINDOWS // 2:
                break
            self.share *= 2
        self.hashes, self.numbers = hashes[:kept].copy(), numbers[:kept].copy()

    def merge(self, other: "Windows") -> None:
        """Add the windows of another part."""
        other.settle()
        self.share = max(self.share, other.share)
        self.add(other.hashes, other.numbers)
        self.settle()

    @property
    def total(self) -> int:
        """Windows in the sample, equal ones included."""
        return int(self.numbers.sum())

    @property
    def repeated_share(self) -> float:
        """The share of windows that are equal to an earlier one."""
        return 1 - len(self.numbers) / self.total if self.total else 0.0


def to_unsigned(ids: np.ndarray) -> np.ndarray:
    """Return ids as uint16 or uint32; negative ones and those above become the largest number.

    Example:
        int64 [7, -1] gives uint32 [7, 4294967295].
    """
    if ids.dtype.str in {"<u2", "<i4", "<u4"}:
        unsigned = np.ascontiguousarray(ids).view(f"<u{ids.itemsize}")
    else:
        wide = ids.astype(np.int64).view(np.uint64)  # negative ones are the largest then
        unsigned = np.minimum(wide, 2**32 - 1).astype(np.uint32)
    unsigned.flags.writeable = False  # as what is read, so that no kernel is compiled twice
    return unsigned


LABEL_COUNTS = (
    "tokens", "learned", "same", "following", "comparable", "masked", "padding", "rows", "rows_all",
    "rows_none", "final_ends", "learned_final_ends", "inner_ends", "learned_inner_ends",
)  # fmt: skip
"""What `measure_labels` counts."""


@njit
def measure_labels(ids: np.ndarray, labels: np.ndarray, bounds: np.ndarray, end: int) -> np.ndarray:
    """Count what is learned, and how labels lie beside the ids.

    Args:
        ids: unsigned integers[n].
        labels: int64[n]: negative where nothing is learned.
        bounds: int64[rows, 3]: where a row begins, where its padding begins, and where it ends.
        end: the id that ends documents and turns; -1 for none.

    Returns:
        int64[14], the numbers of LABEL_COUNTS: of tokens that are no padding; learned ones; those
        whose label is their id, and that of the next one; those with a next one that differs, of
        which both can be told; learned ones of the id that is learned in the place of most others,
        as [MASK] is; learned padding; rows; rows of which all and of which none is learned; ends of
        rows and inside of them, and learned ones of these.
    """
    counts = np.zeros(14, np.int64)
    mask, votes = np.int64(-1), 0
    for row in range(len(bounds)):
        begin, stop, last = bounds[row]
        learned = 0
        for place in range(begin, stop):
            token, label = np.int64(ids[place]), labels[place]
            is_last, is_final = place + 1 == stop, place + 2 >= stop
            if token == end:
                counts[10 if is_final else 12] += 1
                counts[11 if is_final else 13] += label >= 0
            if label < 0:
                continue
            learned += 1
            following = token if is_last else np.int64(ids[place + 1])
            if following == token:
                continue
            counts[4] += 1
            counts[2] += label == token
            counts[3] += label == following
            if label in (token, following):
                continue
            # The vote of a majority (Boyer and Moore 1981).
            mask, votes = (token, 1) if votes <= 0 else (mask, votes + (1 if token == mask else -1))
            counts[5] += token == mask
        counts[0] += stop - begin
        counts[1] += learned
        counts[7] += stop > begin
        counts[8] += learned > 0 and learned >= stop - begin - 1
        counts[9] += learned == 0 and stop > begin
        for place in range(stop, last):
            counts[6] += labels[place] >= 0
    return counts


SHOWN_IDS = 256
"""The first ids of a row that is shown."""


class RowNote(NamedTuple):
    """A row that is shown.

    Attributes:
        address: the number of its file, and its own in there.
        length: the number of its ids.
        ids: the first ones.
    """

    address: tuple[int, int]
    length: int
    ids: tuple[int, ...]


@dataclass
class Measures:
    """Counts of rows; those of parts are added up.

    Attributes:
        conventions: what ids mean.
        counts: sums by name.
        ids: int64[COUNTED_IDS], how often each id occurs.
        lengths: how many rows have each number of ids, padding left out.
        unended: likewise for rows that do not end with the id that ends documents.
        largest: the largest id.
        windows: those of which some may occur again.
        notes: the first, the last, the longest and the shortest row.
    """

    conventions: Conventions
    counts: Counter[str] = field(default_factory=Counter)
    ids: np.ndarray = field(default_factory=lambda: np.zeros(COUNTED_IDS, np.int64))
    lengths: Counter[int] = field(default_factory=Counter)
    unended: Counter[int] = field(default_factory=Counter)
    largest: int = 0
    windows: Windows = field(default_factory=Windows)
    notes: dict[str, RowNote] = field(default_factory=dict)

    def add(self, rows: TokenRows, file: int) -> None:
        """Count rows of the file of some number."""
        ids = to_unsigned(rows.ids)
        largest, uncounted = count_ids(ids, self.ids)
        self.largest = max(self.largest, largest)
        self.counts.update(tokens=len(ids), uncounted=uncounted)
        self.windows.add(sample_windows(ids, self.windows.share))
        bounds = self._bound(rows, ids)
        places, lengths = find_runs(ids, SHORTEST_RUN)
        is_text = ~_are_padding(places, bounds)
        for token, length in zip(ids[places[is_text]], lengths[is_text], strict=True):
            self.counts[f"run.{token}"] += int(length)
        if len(bounds):
            self._note(rows, ids, bounds, file)
        ends = self._count_marks(rows, ids, bounds)
        if rows.columns:
            self._count_boundaries(rows, bounds, ends)
            self._count_labels(rows, ids, bounds)

    def merge(self, other: "Measures") -> None:
        """Add the counts of another part."""
        self.counts.update(other.counts)
        self.lengths.update(other.lengths)
        self.unended.update(other.unended)
        self.ids += other.ids
        self.largest = max(self.largest, other.largest)
        self.windows.merge(other.windows)
        if other.notes:
            self._keep(*other.notes.values())

    def _bound(self, rows: TokenRows, ids: np.ndarray) -> np.ndarray:
        """Return int64[rows, 3] of the rows that are not empty, as `measure_labels` takes them."""
        pad = self.conventions.pad if rows.is_ended else -1
        tails = measure_padding(rows, ids, rows.offsets, pad)
        if (attended := rows.columns.get(Aligned.ATTENDED)) is not None:
            self.counts["holes"] += int(np.count_nonzero(attended == 0) - tails.sum())
        elif pad == self.conventions.end:  # the first one ends the document
            tails = np.maximum(tails - 1, 0)
        bounds = np.stack([rows.offsets[:-1], rows.offsets[1:] - tails, rows.offsets[1:]], axis=1)
        is_full = bounds[:, 1] > bounds[:, 0]
        self.counts.update(padding=int(tails.sum()), empty_rows=int(np.count_nonzero(~is_full)))
        return bounds[is_full]

    def _count_marks(self, rows: TokenRows, ids: np.ndarray, bounds: np.ndarray) -> np.ndarray:
        """Count the ids that begin and end documents, and return where those stand that end them.

        Those at the begins and ends of rows are counted besides, and the lengths of rows.
        """
        has_begin, has_end = np.ones((2, len(bounds)), np.bool_)
        has_begin[:1], has_end[-1:] = rows.is_begun, rows.is_ended
        is_begun = has_begin & (ids[bounds[:, 0]] == self.conventions.begin)
        # A line break may follow the end, as in ChatML.
        last_two = np.maximum(bounds[:, 1, None] - (1, 2), bounds[:, :1])
        is_ended = has_end & (ids[last_two] == self.conventions.end).any(axis=1)
        is_whole, lengths = has_begin & has_end, bounds[:, 1] - bounds[:, 0]
        for counts, chosen in ((self.lengths, is_whole), (self.unended, is_whole & ~is_ended)):
            values, numbers = np.unique(lengths[chosen], return_counts=True)
            counts.update(dict(zip(values.tolist(), numbers.tolist(), strict=True)))
        self.counts["rows"] += int(np.count_nonzero(has_end))
        places, segments = np.empty(0, np.int64), rows.columns.get(Aligned.SEGMENTS)
        for name, at_edge in (("begin", is_begun), ("end", is_ended)):
            token = getattr(self.conventions, name)
            places = np.flatnonzero(ids == token) if token >= 0 else places[:0]
            places = places[~_are_padding(places, bounds)]
            # Two are doubled, unless one ends a row and one begins the next; more are padding.
            gaps = np.diff(places, prepend=-9, append=len(ids) + 9)
            is_doubled = (gaps[1:-1] == 1) & (gaps[:-2] != 1) & (gaps[2:] != 1)
            doubled = _keep_inner(places[1:][is_doubled], bounds)
            if segments is not None:  # likewise, and the second one of BERT's may be empty
                doubled = doubled[segments[doubled] == segments[doubled - 1]]
            self.counts.update({
                f"{name}.all": len(places),
                f"{name}.rows": int(np.count_nonzero(at_edge)),
                f"{name}.doubled": len(doubled),
            })  # fmt: skip
        return places

    def _count_boundaries(self, rows: TokenRows, bounds: np.ndarray, ends: np.ndarray) -> None:
        """Compare boundaries within rows, as columns have them, with ids that end documents."""
        boundaries = list[np.ndarray]()
        if (segments := rows.columns.get(Aligned.SEGMENTS)) is not None:
            changes = 1 + np.flatnonzero(segments[1:] != segments[:-1])
            boundaries.append(_keep_inner(changes, bounds))
        if (positions := rows.columns.get(Aligned.POSITIONS)) is not None:
            boundaries.append(_keep_inner(np.flatnonzero(positions == 0), bounds))
            jumps = 1 + np.flatnonzero(np.diff(positions.astype(np.int64)) != 1)
            self.counts["jumps"] += int(np.count_nonzero(positions[_keep_inner(jumps, bounds)]))
        if boundaries:
            after_ends = _keep_inner(ends + 1, bounds)
            self.counts.update(
                contradictions=len(np.setxor1d(boundaries[0], boundaries[-1])),
                boundaries=len(boundaries[0]),
                unconfirmed=len(np.setdiff1d(boundaries[0], after_ends)),
                unbounded=len(np.setdiff1d(after_ends, boundaries[0])),
            )

    def _count_labels(self, rows: TokenRows, ids: np.ndarray, bounds: np.ndarray) -> None:
        for name in (Aligned.LABELS, Aligned.LEARNED):
            if (labels := rows.columns.get(name)) is None:
                continue
            if name is Aligned.LEARNED:  # a mask
                labels = np.where(labels != 0, ids.astype(np.int64), -1)
            numbers = measure_labels(ids, labels.astype(np.int64), bounds, self.conventions.end)
            keys = (f"{name}.{key}" for key in LABEL_COUNTS)
            self.counts.update(dict(zip(keys, numbers.tolist(), strict=True)))

    def _note(self, rows: TokenRows, ids: np.ndarray, bounds: np.ndarray, file: int) -> None:
        """Keep the first, the last, the longest and the shortest row of these, too."""
        lengths = bounds[:, 1] - bounds[:, 0]
        for row in {0, len(lengths) - 1, int(lengths.argmax()), int(lengths.argmin())}:
            number = int(np.searchsorted(rows.offsets, bounds[row, 0], side="right")) - 1
            shown = ids[bounds[row, 0] : bounds[row, 1]][:SHOWN_IDS]
            address = file, rows.first + number
            self._keep(RowNote(address, int(lengths[row]), (*shown.tolist(),)))

    def _keep(self, *notes: RowNote) -> None:
        ordered = sorted((*self.notes.values(), *notes))
        self.notes = {
            "first": ordered[0],
            "last": ordered[-1],
            "longest": max(ordered, key=lambda note: note.length),
            "shortest": min(ordered, key=lambda note: note.length),
        }


def measure_padding(rows: TokenRows, ids: np.ndarray, offsets: np.ndarray, pad: int) -> np.ndarray:
    """Return int64[rows], the padding at the end of each row by its attention mask, or by an id.

    Args:
        rows: the rows.
        ids: unsigned integers[n], theirs.
        offsets: int64[rows + 1], those of rows that are measured.
        pad: the id of padding; -1 for none.
    """
    attended = rows.columns.get(Aligned.ATTENDED)
    if attended is None and pad < 0:
        return np.zeros(len(offsets) - 1, np.int64)
    if attended is not None:
        ids, pad = (attended == 0).view(np.uint8), 1
    tails: np.ndarray = measure_tails(ids, offsets, pad)
    return tails


def _are_padding(places: np.ndarray, bounds: np.ndarray) -> npt.NDArray[np.bool_]:
    """Return bool[n], whether ids stand in the padding of their rows, or in none of these."""
    rows = np.searchsorted(bounds[:, 0], places, side="right")
    are_padding: npt.NDArray[np.bool_] = places >= np.append(0, bounds[:, 1])[rows]
    return are_padding


def _keep_inner(places: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Return the places within rows: none of padding, and none where a row begins."""
    return places[~are_among(places, bounds[:, 0]) & ~_are_padding(places, bounds)]
