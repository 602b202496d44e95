"""How often pairs of neighbouring symbols occur, and which are merged next, in compiled loops.

The symbols of all words are in one array of cells, in which they are joined in place. A word is a
boundary and a cell for each of its characters. The first cell of a symbol holds its id. If a symbol
has n > 1 cells, the others are negative, and the second and the last of them hold 1 - n, so that
both neighbours of a symbol are found at once. Nothing moves when symbols are joined.

Pairs are merged in the order of a binary heap, int64[room, 4]. An entry is how often the pair
occurs, the pair, where its places begin in the list of places, and how many there are.

Example:
    The words "ab" (number 0) and "abb" (number 1), where a and b have the ids 5 and 6, and "ab" the
    id 7, before and after a and b are joined, with B for BOUNDARY:

        B  5  6  B-1  5  6  6  B
        B  7 -1  B-1  7 -1  6  B
"""

from typing import NamedTuple

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.tokenization.compiled.units import ONE, allocate_table, find_slot, read_character

# A boundary is BOUNDARY less the number of the word that follows it.
BOUNDARY = -(2**30)
# The id of characters without one.
UNKNOWN = -1


@njit
def write_cells(text: np.ndarray, offsets: np.ndarray, ids: np.ndarray, longest: int) -> np.ndarray:
    """Write the symbols of words to cells.

    Args:
        text: uint8[bytes], the words' UTF-8.
        offsets: int64[words + 1] into text; fewer than 2**30 words.
        ids: int32[2, code points], the id of each character at the start of a word, and of each
            after it, or UNKNOWN.
        longest: the most characters of a word; longer words become several, of the same number.

    Returns:
        int32[cells], a boundary at the end.
    """
    size = offsets[-1] - offsets[0]
    cells = np.empty(size + size // longest + len(offsets), np.int32)
    written = 0
    for word in range(len(offsets) - 1):
        place, length = offsets[word], 0
        while place < offsets[word + 1]:
            code, size = read_character(text, place)
            if length % longest == 0:
                cells[written] = BOUNDARY - word
                written += 1
            cells[written] = ids[min(length % longest, 1), code]
            written, place, length = written + 1, place + size, length + 1
    cells[written] = BOUNDARY
    return cells[: written + 1]


@njit
def cell_after(cells: np.ndarray, place: int) -> int:
    """Return the first cell of the symbol after the one at a place, or the boundary there."""
    second = cells[place + 1]
    return place + 1 - second if BOUNDARY < second < 0 else place + 1


@njit
def cell_before(cells: np.ndarray, place: int) -> int:
    """Return the first cell of the symbol before the one at a place, or the boundary there."""
    last = cells[place - 1]
    return place - 1 + last if BOUNDARY < last < 0 else place - 1


@njit
def word_at(cells: np.ndarray, place: int) -> np.int64:
    """Return the number of the word that a symbol belongs to."""
    while cells[place] >= 0:
        place = cell_before(cells, place)
    return np.int64(BOUNDARY - cells[place])


@njit
def join_cells(cells: np.ndarray, place: int, after: int, joined: int) -> None:
    """Join the symbol at a place and the one after it.

    Args:
        cells: int32[cells], changed in place.
        place: the first cell of the left symbol.
        after: the first cell of the right one.
        joined: the id of the symbol that they become.
    """
    end = cell_after(cells, after)
    cells[after] = -1
    cells[place] = joined
    cells[place + 1] = cells[end - 1] = place + 1 - end


COUNT, PAIR, START, SIZE = 0, 1, 2, 3
FIRST = np.int64(0)
Entry = tuple[int, int, int, int]


@njit
def _is_before(heap: np.ndarray, place: int, entry: Entry) -> bool:
    """Whether the entry at a place is merged before another: by count, by pair, the newer first."""
    if heap[place, COUNT] != entry[COUNT]:
        return bool(heap[place, COUNT] > entry[COUNT])
    if heap[place, PAIR] != entry[PAIR]:
        return bool(heap[place, PAIR] < entry[PAIR])
    return bool(heap[place, START] > entry[START])


@njit
def _move(heap: np.ndarray, source: int, target: int) -> None:
    for column in range(4):
        heap[target, column] = heap[source, column]


@njit
def _put(heap: np.ndarray, place: int, entry: Entry) -> None:
    for column in range(4):
        heap[place, column] = entry[column]


@njit
def grow_rows(rows: np.ndarray) -> np.ndarray:
    """Return a copy of int64[n, columns] with room for as many rows again."""
    grown = np.empty((2 * len(rows), rows.shape[1]), np.int64)
    for row in range(len(rows)):
        for column in range(rows.shape[1]):
            grown[row, column] = rows[row, column]
    return grown


@njit
def push(heap: np.ndarray, size: int, entry: Entry) -> np.ndarray:
    """Add an entry to a heap of a size; return the heap, which may have been copied to grow."""
    if size == len(heap):
        heap = grow_rows(heap)
    place = size
    while place and not _is_before(heap, (place - 1) // 2, entry):
        _move(heap, (place - 1) // 2, place)
        place = (place - 1) // 2
    _put(heap, place, entry)
    return heap


@njit
def replace_first(heap: np.ndarray, size: int, entry: Entry) -> None:
    """Put an entry in the place of the first one of a heap of a size of 1 or more."""
    place = 0
    while 2 * place + 1 < size:
        child = 2 * place + 1
        following = child + 1
        if following < size and not _is_before(heap, child, entry_at(heap, following)):
            child = following
        if not _is_before(heap, child, entry):
            break
        _move(heap, child, place)
        place = child
    _put(heap, place, entry)


@njit
def entry_at(heap: np.ndarray, place: np.int64) -> Entry:
    """Return the entry at a place; the first one is at FIRST."""
    return (heap[place, COUNT], heap[place, PAIR], heap[place, START], heap[place, SIZE])


ID_BITS = 32


class Pairs(NamedTuple):
    """All pairs that have ever occurred.

    Attributes:
        table: a hash table from a pair to how often it occurs, with room for `used` pairs.
        heap: the queue of pairs.
        places: uint32[room], the first cells of pairs, one entry's after another's.
        sizes: int64[3], how many pairs are in the table, entries in the heap, and places.
    """

    table: np.ndarray
    heap: np.ndarray
    places: np.ndarray
    sizes: np.ndarray


TABLE, HEAP, PLACES = 0, 1, 2


@njit
def pair_key(left: int, right: int) -> np.int64:
    """Return a pair of ids as one number; numbers are in the order of the pairs."""
    return np.int64(left) << ID_BITS | np.int64(right)


@njit
def reserve(table: np.ndarray, used: int, more: int) -> np.ndarray:
    """Return a table with room for more keys than it holds."""
    if 2 * (used + more) <= len(table):
        return table
    grown: np.ndarray = allocate_table(used + more)
    for row in range(len(table)):
        if table[row, 0]:
            slot = find_slot(grown, table[row, 0] - ONE)
            grown[slot, 0], grown[slot, 1] = table[row, 0], table[row, 1]
    return grown


@njit
def number_pairs(cells: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.int64]:
    """Count the pairs of symbols of one cell each.

    Args:
        cells: int32[cells], see `cells`.
        counts: int64[words], how often each word occurs.

    Returns:
        table: from a pair to its number.
        entries: int64[room, 4], the entry of each pair in the queue, its places after those
            of the pairs before it.
        used: the number of pairs.
    """
    table: np.ndarray = allocate_table(1024)
    entries, count, used = np.empty((1024, 4), np.int64), 0, np.int64(0)
    for place in range(len(cells) - 1):
        if cells[place] < 0:
            count = counts[BOUNDARY - cells[place]]
        elif cells[place + 1] >= 0:
            key = pair_key(cells[place], cells[place + 1])
            slot = find_slot(table, np.uint64(key))
            if not table[slot, 0]:
                if used == len(entries):
                    entries, table = grow_rows(entries), reserve(table, used, used)
                    slot = find_slot(table, np.uint64(key))
                table[slot, 0], table[slot, 1] = np.uint64(key) + ONE, np.uint64(used)
                entries[used, COUNT], entries[used, PAIR], entries[used, SIZE] = 0, key, 0
                used += 1
            number = np.int64(table[slot, 1])
            entries[number, COUNT] += count
            entries[number, SIZE] += 1
    start = 0
    for row in range(used):
        entries[row, START] = start
        start += entries[row, SIZE]
    return table, entries, used


@njit
def find_pairs(cells: np.ndarray, counts: np.ndarray, few_places: int) -> Pairs:
    """Count the pairs of symbols of one cell each, list their places, and queue them.

    Args:
        cells: int32[cells], see `cells`.
        counts: int64[words], how often each word occurs.
        few_places: there is room for so many places, or somewhat more than these pairs have.
    """
    table, entries, used = number_pairs(cells, counts)
    heap = np.empty((2 * used + 1, 4), np.int64)
    for size in range(used):
        push(heap, size, entry_at(entries, size))
    # Each merge of a pair leaves at most two new pairs, and one symbol less.
    room = min(3 * len(cells), max(few_places, len(cells) + len(cells) // 4))
    places = np.empty(room, np.uint32)
    listed = 0
    for place in range(len(cells) - 1):
        if cells[place] >= 0 and cells[place + 1] >= 0:
            key = np.uint64(pair_key(cells[place], cells[place + 1]))
            number = np.int64(table[find_slot(table, key), 1])
            places[entries[number, START]] = place
            entries[number, START] += 1
            listed += 1
    for row in range(len(table)):
        if table[row, 0]:
            table[row, 1] = np.uint64(entries[np.int64(table[row, 1]), COUNT])
    sizes = np.empty(3, np.int64)
    sizes[TABLE], sizes[HEAP], sizes[PLACES] = used, used, listed
    return Pairs(table, heap, places, sizes)


@njit
def reserve_places(pairs: Pairs, more: int) -> Pairs:
    """Return the pairs with room for more places: those of pairs that were merged are removed."""
    heap, places, sizes = pairs.heap, pairs.places, pairs.sizes
    if sizes[PLACES] + more <= len(places):
        return pairs
    entries = sizes[HEAP]
    needed = heap[:entries, SIZE].sum() + more
    kept = places if 4 * needed <= 3 * len(places) else np.empty(2 * needed, np.uint32)
    written = 0
    # The entries keep the order of their places, by which those of equal pairs are queued.
    for entry in np.argsort(heap[:entries, START].copy()):
        start, size = heap[entry, START], heap[entry, SIZE]
        for number in range(size):
            kept[written + number] = places[start + number]
        heap[entry, START] = written
        written += size
    sizes[PLACES] = written
    return Pairs(pairs.table, heap, kept, sizes)
