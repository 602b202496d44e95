"""How often pairs of neighbouring symbols occur, and which are merged next, in compiled loops.

The symbols of all words are in one array of cells, in which they are joined in place. A word is a
boundary and a cell for each of its characters. The first cell of a symbol holds its id. If a symbol
has n > 1 cells, the others are negative, and the second and the last of them hold 1 - n, so that
both neighbours of a symbol are found at once. Nothing moves when symbols are joined.

The words stand in the order of their counts, so that a place alone tells how often its word occurs:
most words of a text without spaces occur once.

Pairs are merged in the order of a binary heap, int64[room, 4]. An entry is how often the pair
occurs, the pair, where its places begin in the list of places, and how many there are.

Example:
    The words "ab" and "abb", where a and b have the ids 5 and 6, and "ab" the id 7, before and
    after a and b are joined, with B for BOUNDARY:

        B  5  6  B  5  6  6  B
        B  7 -1  B  7 -1  6  B
"""

from typing import NamedTuple

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.tokenization.compiled.units import ONE, allocate_table, find_slot, read_character

BOUNDARY = -(2**30)
# The most characters of a word. Longer words become several.
LONGEST_WORD = 1024
# The id of characters without one.
UNKNOWN = -1
# The columns of a table of bytes; text that is read by it need not be UTF-8.
_BYTES = 256


class CountedCells(NamedTuple):
    """The symbols of words, and how often each word occurs.

    Attributes:
        cells: int32[cells].
        starts: int64[groups + 1], where the words of each count begin, and the number of cells.
        counts: int64[groups], the counts, in ascending order.
        groups: int32[blocks], the group of the first cell of each BLOCK_CELLS cells.
    """

    cells: np.ndarray
    starts: np.ndarray
    counts: np.ndarray
    groups: np.ndarray


BLOCK_CELLS = 64


@njit
def write_cells(
    words: tuple[np.ndarray, np.ndarray],
    order: np.ndarray,
    firsts: np.ndarray,
    ids: np.ndarray,
    cells: np.ndarray,
) -> np.ndarray:
    """Write the symbols of words to cells, and a boundary at their end.

    Args:
        words: uint8[bytes], the words' text, and int64[words + 1], the offsets into it.
        order: int64[words], the numbers of the words in the order of their counts.
        firsts: int64[groups], the places in this order where the count changes.
        ids: int32[2, 256 or code points], the id of each byte or character at the start of a word,
            and of each after it, or UNKNOWN.
        cells: int32[...], written.

    Returns:
        int64[groups + 1], as `CountedCells.starts`.
    """
    text, offsets = words
    has_bytes = ids.shape[1] == _BYTES
    starts, group, written = np.empty(len(firsts) + 1, np.int64), 0, 0
    for number in range(len(order)):
        if group < len(firsts) and number == firsts[group]:
            starts[group] = written
            group += 1
        place, stop, length = offsets[order[number]], offsets[order[number] + 1], 0
        while place < stop:
            code, step = (np.int64(text[place]), 1) if has_bytes else read_character(text, place)
            if length % LONGEST_WORD == 0:
                cells[written] = BOUNDARY
                written, length = written + 1, 0
            cells[written] = ids[min(length, 1), code]
            written, place, length = written + 1, place + step, length + 1
    cells[written] = BOUNDARY
    starts[group] = written + 1
    return starts


@njit(inline="always")
def count_at(words: CountedCells, place: int) -> np.int64:
    """Return how often the word at a place occurs."""
    group = words.groups[place // BLOCK_CELLS]
    while words.starts[group + 1] <= place:
        group += 1
    return np.int64(words.counts[group])


@njit(inline="always")
def cell_after(cells: np.ndarray, place: int) -> int:
    """Return the first cell of the symbol after the one at a place, or the boundary there."""
    second = cells[place + 1]
    return place + 1 - second if BOUNDARY < second < 0 else place + 1


@njit(inline="always")
def cell_before(cells: np.ndarray, place: int) -> int:
    """Return the first cell of the symbol before the one at a place, or the boundary there."""
    last = cells[place - 1]
    return place - 1 + last if BOUNDARY < last < 0 else place - 1


@njit(inline="always")
def join_cells(cells: np.ndarray, place: int, after: int, end: int, joined: int) -> None:
    """Join the symbol at a place and the one after it.

    Args:
        cells: int32[cells], changed in place.
        place: the first cell of the left symbol.
        after: the first cell of the right one.
        end: the cell after both.
        joined: the id of the symbol that they become.
    """
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
        _put(heap, place, entry_at(heap, (place - 1) // 2))
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
        _put(heap, place, entry_at(heap, child))
        place = child
    _put(heap, place, entry)


@njit
def entry_at(heap: np.ndarray, place: np.int64) -> Entry:
    """Return the entry at a place; the first one is at FIRST."""
    return (heap[place, COUNT], heap[place, PAIR], heap[place, START], heap[place, SIZE])


ID_BITS = 32


class Pairs(NamedTuple):
    """The pairs that have been common enough to be merged.

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
def number_pairs(words: CountedCells) -> tuple[np.ndarray, np.ndarray, int]:
    """Count pairs of symbols of one cell each.

    Returns:
        table: from a pair to its number.
        entries: int64[room, 4], the count, the pair and the number of places of each.
        used: the number of pairs.
    """
    cells, starts, counts, _ = words
    table: np.ndarray = allocate_table(1024)
    entries, used, group = np.empty((1024, 4), np.int64), 0, 0
    for place in range(len(cells) - 1):
        if place == starts[group + 1]:
            group += 1
        left, right = cells[place], cells[place + 1]
        if left >= 0 and right >= 0:
            key = np.uint64(pair_key(left, right))
            slot = find_slot(table, key)
            if not table[slot, 0]:
                if used == len(entries):
                    entries, table = grow_rows(entries), reserve(table, used, used)
                    slot = find_slot(table, key)
                table[slot, 0], table[slot, 1] = key + ONE, np.uint64(used)
                entries[used, COUNT], entries[used, PAIR], entries[used, SIZE] = 0, key, 0
                used += 1
            number = np.int64(table[slot, 1])
            entries[number, COUNT] += counts[group]
            entries[number, SIZE] += 1
    return table, entries, used


@njit
def find_pairs(words: CountedCells, least: int, places: np.ndarray) -> Pairs:
    """Count the pairs of symbols of one cell each, list their places, and queue them.

    Args:
        words: the words, none of them merged.
        least: how often a pair occurs that is listed.
        places: uint32[room], written, with room for as many places as there are cells.
    """
    numbers, entries, used = number_pairs(words)
    table: np.ndarray = allocate_table(1024)
    heap, sizes, cells = np.empty((1024, 4), np.int64), np.zeros(3, np.int64), words.cells
    for row in range(used):
        entries[row, START] = sizes[PLACES]
        if entries[row, COUNT] < least:
            entries[row, START] = -1
            continue
        table = reserve(table, sizes[TABLE], 1)
        key = np.uint64(entries[row, PAIR])
        slot = find_slot(table, key)
        table[slot, 0], table[slot, 1] = key + ONE, np.uint64(entries[row, COUNT])
        heap = push(heap, sizes[HEAP], entry_at(entries, row))
        sizes[TABLE] += 1
        sizes[HEAP] += 1
        sizes[PLACES] += entries[row, SIZE]
    for place in range(len(cells) - 1):
        left, right = cells[place], cells[place + 1]
        if left >= 0 and right >= 0:
            number = numbers[find_slot(numbers, np.uint64(pair_key(left, right))), 1]
            start = entries[np.int64(number), START]
            if start >= 0:
                places[start] = place
                entries[np.int64(number), START] = start + 1
    return Pairs(table, heap, places, sizes)


@njit
def _drop_places(cells: np.ndarray, pairs: Pairs, is_checked: bool) -> None:
    """Remove the places of pairs that were merged, and if asked those where no symbol begins."""
    heap, places, sizes = pairs.heap, pairs.places, pairs.sizes
    written = 0
    # The entries keep the order of their places, by which those of equal pairs are queued.
    for entry in np.argsort(heap[: sizes[HEAP], START].copy()):
        start, size = heap[entry, START], heap[entry, SIZE]
        heap[entry, START] = written
        for number in range(start, start + size):
            places[written] = places[number]
            written += not is_checked or cells[places[number]] >= 0
        heap[entry, SIZE] = written - heap[entry, START]
    sizes[PLACES] = written


@njit
def reserve_places(cells: np.ndarray, pairs: Pairs, more: int) -> Pairs:
    """Return the pairs with room for more places.

    Those of pairs that were merged are removed, and those where no symbol begins any more if the
    room is nearly full without the former. To look at cells takes longer than all else.
    """
    table, heap, places, sizes = pairs
    if sizes[PLACES] + more <= len(places):
        return pairs
    for is_checked in (False, True):
        _drop_places(cells, pairs, is_checked)
        if sizes[PLACES] + more <= len(places) - len(places) // 8:
            return pairs
    kept = np.empty(2 * (sizes[PLACES] + more), np.uint32)
    for number in range(sizes[PLACES]):  # a slice takes three seconds to compile
        kept[number] = places[number]
    return Pairs(table, heap, kept, sizes)
