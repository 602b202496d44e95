"""Byte-pair merges of counted words, one step after another, in compiled loops.

The steps are those of `BpeTrainer` in the tokenizers library, also where it does what its algorithm
does not ask for: see `merges`.
"""

from typing import NamedTuple

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.tokenization.compiled.units import ONE, find_slot
from corpusmill.tokenization.training.merge_pairs import (
    BOUNDARY,
    FIRST,
    HEAP,
    ID_BITS,
    PLACES,
    TABLE,
    Entry,
    Pairs,
    cell_after,
    cell_before,
    entry_at,
    find_pairs,
    grow_rows,
    join_cells,
    pair_key,
    push,
    replace_first,
    reserve,
    reserve_places,
    word_at,
)

_FNV_OFFSET, _FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)


class TokenTexts(NamedTuple):
    """The texts of tokens, with room for more.

    Attributes:
        texts: uint8[room], the UTF-8 of the tokens in the order of their ids.
        ends: int64[most tokens + 1], where each begins, and where the last one ends.
        rows: int32[a power of two], a hash table of ids + 1, with 0 for free rows.
        prefix: uint8[bytes], what a token begins with if it continues a word; lost when it is
            joined to the token before it.
    """

    texts: np.ndarray
    ends: np.ndarray
    rows: np.ndarray
    prefix: np.ndarray


@njit
def find_text(tokens: TokenTexts, start: int, end: int) -> np.int64:
    """Return the row for the token with a text, or the free row where it belongs.

    The hash is FNV-1a (Fowler, Noll, Vo), and texts of equal hashes are compared.

    Args:
        tokens: the tokens, with the text among their bytes.
        start: where the text begins.
        end: where it ends.
    """
    texts, last = tokens.texts, np.uint64(len(tokens.rows) - 1)
    state = _FNV_OFFSET
    for place in range(start, end):
        state = (state ^ np.uint64(texts[place])) * _FNV_PRIME
    slot = np.int64((state ^ state >> np.uint64(32)) & last)
    while tokens.rows[slot]:
        other = tokens.ends[tokens.rows[slot] - 1]
        size = tokens.ends[tokens.rows[slot]] - other
        if size == end - start:
            same = 0
            while same < size and texts[other + same] == texts[start + same]:
                same += 1
            if same == size:
                break
        slot = (slot + 1) & np.int64(last)
    return slot


@njit
def index_tokens(tokens: TokenTexts, count: int) -> None:
    """Enter the first tokens, whose texts are distinct, into the rows."""
    for token in range(count):
        tokens.rows[find_text(tokens, tokens.ends[token], tokens.ends[token + 1])] = token + 1


@njit
def _text_size(tokens: TokenTexts, token: int) -> np.int64:
    return np.int64(tokens.ends[token + 1] - tokens.ends[token])


@njit
def prefix_size(tokens: TokenTexts, token: int) -> int:
    """Return the bytes of a token's prefix, 0 without one."""
    start, prefix = tokens.ends[token], tokens.prefix
    if _text_size(tokens, token) < len(prefix):
        return 0
    for place in range(len(prefix)):
        if tokens.texts[start + place] != prefix[place]:
            return 0
    return len(prefix)


@njit
def make_room(tokens: TokenTexts, left: int, right: int, count: int) -> TokenTexts:
    """Return the tokens with room for the text of two of them after the last one."""
    texts = tokens.texts
    needed = tokens.ends[count] + _text_size(tokens, left) + _text_size(tokens, right)
    if needed > len(texts):
        texts = np.empty(2 * needed, np.uint8)
        for place in range(len(tokens.texts)):
            texts[place] = tokens.texts[place]
    return TokenTexts(texts, tokens.ends, tokens.rows, tokens.prefix)


@njit
def join_texts(tokens: TokenTexts, left: int, right: int, count: int) -> np.int64:
    """Return the id of the token whose text is that of two joined; a new one if there is none.

    Args:
        tokens: the tokens, with room (see `make_room`).
        left: the id of the first part.
        right: the id of the second part.
        count: the number of tokens, which is a new token's id.
    """
    written = tokens.ends[count]
    for place in range(tokens.ends[left], tokens.ends[left + 1]):
        tokens.texts[written] = tokens.texts[place]
        written += 1
    start = tokens.ends[right] + prefix_size(tokens, right)
    for place in range(start, tokens.ends[right + 1]):
        tokens.texts[written] = tokens.texts[place]
        written += 1
    slot = find_text(tokens, tokens.ends[count], written)
    if not tokens.rows[slot]:
        tokens.rows[slot], tokens.ends[count + 1] = count + 1, written
    return np.int64(tokens.rows[slot] - 1)


# Places whose cells are read at once.
_BLOCK = 64


class Merge(NamedTuple):
    """A pair and what it is merged to, as ids."""

    first: int
    second: int
    joined: int


class Neighbours(NamedTuple):
    """What stands beside a pair where it is merged.

    A neighbour's code is twice its id, and 1 more if it stands after the pair.

    Attributes:
        found: uint32[room, 3], the neighbours in the order in which they were found: the code, the
            first cell of the new pair, and the word's number.
        codes: int64[codes], the distinct codes, in this order.
        totals: int64[codes], how often each code occurs in the corpus.
        sizes: int64[codes], how often each code occurs in the distinct words.
        counts: int64[2], the rows of `codes` and of `found`.
    """

    found: np.ndarray
    codes: np.ndarray
    totals: np.ndarray
    sizes: np.ndarray
    counts: np.ndarray


CODES, FOUND = 0, 1


@njit
def make_neighbours(tokens: int, cells: int) -> Neighbours:
    """Return no neighbours yet, with room for those of a number of tokens and cells."""
    codes, found = np.zeros((3, 2 * tokens), np.int64), np.empty((cells, 3), np.uint32)
    return Neighbours(found, codes[0], codes[1], codes[2], np.zeros(2, np.int64))


@njit
def merge_at(cells: np.ndarray, merge: Merge, place: int, neighbours: Neighbours) -> None:
    """Merge a pair at a place if it is there, and note its neighbours."""
    if cells[place] != merge.first:
        return
    after = cell_after(cells, place)
    if cells[after] != merge.second:
        return
    join_cells(cells, place, after, merge.joined)
    before, end = cell_before(cells, place), cell_after(cells, place)
    word, found, row = word_at(cells, place), neighbours.found, neighbours.counts[FOUND]
    if cells[before] >= 0:
        found[row, 0], found[row, 1], found[row, 2] = 2 * cells[before], before, word
        row += 1
    if cells[end] >= 0:
        found[row, 0], found[row, 1], found[row, 2] = 2 * cells[end] + 1, place, word
        row += 1
    neighbours.counts[FOUND] = row


@njit
def merge_places(
    cells: np.ndarray, merge: Merge, places: np.ndarray, neighbours: Neighbours
) -> None:
    """Merge a pair at listed places.

    Args:
        cells: int32[cells], changed in place.
        merge: the pair.
        places: uint32[n], ascending within each word.
        neighbours: what stands beside the pair is added.
    """
    firsts = np.empty(_BLOCK, np.uint32)
    for start in range(0, len(places), _BLOCK):
        # Reading a block of cells first lets the processor fetch many of them at a time.
        size = 0
        for place in places[start : start + _BLOCK]:
            firsts[size] = place
            size += cells[place] == merge.first
        for place in firsts[:size]:
            merge_at(cells, merge, place, neighbours)


@njit
def merge_words(
    cells: np.ndarray, merge: Merge, places: np.ndarray, neighbours: Neighbours
) -> None:
    """Merge a pair wherever it occurs in the words of listed places.

    Args:
        cells: int32[cells], changed in place.
        merge: the pair.
        places: uint32[n]; those of a word stand together.
        neighbours: what stands beside the pair is added.
    """
    start = end = 0
    for place in places:
        if start < place < end:
            continue
        start = int(place)
        while cells[start] > BOUNDARY:
            start -= 1
        end = start + 1
        while cells[end] >= 0:
            merge_at(cells, merge, end, neighbours)
            end = cell_after(cells, end)


@njit
def add_up(neighbours: Neighbours, counts: np.ndarray) -> None:
    """Add up how often each of the neighbours that were found occurs in words with counts."""
    found, sizes = neighbours.found, neighbours.sizes
    for row in range(neighbours.counts[FOUND]):
        code = found[row, 0]
        if not sizes[code]:
            neighbours.codes[neighbours.counts[CODES]] = code
            neighbours.counts[CODES] += 1
        sizes[code] += 1
        neighbours.totals[code] += counts[found[row, 2]]


@njit
def count_neighbours(table: np.ndarray, merge: Merge, neighbours: Neighbours) -> int:
    """Count the pairs that a merge made and broke; return how many pairs are new to the table."""
    new = 0
    codes = neighbours.codes[: neighbours.counts[CODES]]
    for code in codes:
        slot = find_slot(table, _new_pair(merge, code))
        new += not table[slot, 0]
        table[slot, 0] = _new_pair(merge, code) + ONE
        table[slot, 1] += np.uint64(neighbours.totals[code])
    for code in codes:
        slot = find_slot(table, _broken_pair(merge, code))
        table[slot, 1] -= np.uint64(neighbours.totals[code])
    return new


@njit
def _new_pair(merge: Merge, code: int) -> np.uint64:
    if code & 1:
        return np.uint64(pair_key(merge.joined, code >> 1))
    return np.uint64(pair_key(code >> 1, merge.joined))


@njit
def _broken_pair(merge: Merge, code: int) -> np.uint64:
    if code & 1:
        return np.uint64(pair_key(merge.second, code >> 1))
    return np.uint64(pair_key(code >> 1, merge.first))


@njit
def _join_twins(merge: Merge, neighbours: Neighbours) -> None:
    """Note a new symbol before and after another one of the same id as one pair."""
    before, after = 2 * merge.joined, 2 * merge.joined + 1
    if neighbours.sizes[before] and neighbours.sizes[after]:
        neighbours.sizes[after] += neighbours.sizes[before]
        neighbours.sizes[before] = 0
        for row in range(neighbours.counts[FOUND]):
            if neighbours.found[row, 0] == before:
                neighbours.found[row, 0] = after


@njit
def queue_pairs(pairs: Pairs, merge: Merge, neighbours: Neighbours) -> Pairs:
    """Count, list and queue the pairs that a merge made, and forget its neighbours."""
    pairs = reserve_places(pairs, neighbours.counts[FOUND])
    sizes, heap, codes = pairs.sizes, pairs.heap, neighbours.codes[: neighbours.counts[CODES]]
    table = reserve(pairs.table, sizes[TABLE], len(codes))
    sizes[TABLE] += count_neighbours(table, merge, neighbours)
    _join_twins(merge, neighbours)
    ends = neighbours.totals  # where the next place of each code belongs
    for code in codes:
        pair, size = _new_pair(merge, code), neighbours.sizes[code]
        total = np.int64(table[find_slot(table, pair), 1])
        if size and total > 0:
            heap = push(heap, sizes[HEAP], (total, np.int64(pair), sizes[PLACES], size))
            sizes[HEAP] += 1
        ends[code] = sizes[PLACES]
        sizes[PLACES] += size
    for row in range(neighbours.counts[FOUND]):
        code = neighbours.found[row, 0]
        pairs.places[ends[code]] = neighbours.found[row, 1]
        ends[code] += 1
    for code in codes:
        neighbours.totals[code] = neighbours.sizes[code] = 0
    neighbours.counts[CODES] = neighbours.counts[FOUND] = 0
    return Pairs(table, heap, pairs.places, sizes)


@njit
def pop_pair(pairs: Pairs) -> Entry:
    """Remove the pair that is merged next, and return its entry; a count of 0 if there is none."""
    heap, sizes = pairs.heap, pairs.sizes
    while sizes[HEAP]:
        count, pair, start, size = entry_at(heap, FIRST)
        total = np.int64(pairs.table[find_slot(pairs.table, np.uint64(pair)), 1])
        if total == count:
            sizes[HEAP] -= 1
            replace_first(heap, sizes[HEAP], entry_at(heap, sizes[HEAP]))
            return count, pair, start, size
        replace_first(heap, sizes[HEAP], (total, pair, start, size))
    return 0, 0, 0, 0


@njit
def learn_merges(
    cells: np.ndarray,
    counts: np.ndarray,
    tokens: TokenTexts,
    count: int,
    vocab_size: int,
    min_frequency: int,
    few_places: int,
) -> tuple[np.ndarray, TokenTexts, int]:
    """Merge the most frequent pair until there are enough tokens, or no more pairs.

    Args:
        cells: int32[cells], the words (see `cells`), merged in place.
        counts: int64[words], how often each word occurs.
        tokens: the first tokens, with room for all.
        count: the number of the first tokens.
        vocab_size: the most tokens.
        min_frequency: how often a merged pair must occur, 1 or more.
        few_places: as of `find_pairs`.

    Returns:
        merges: int64[merges, 2], the ids of pairs, in the order in which they were merged.
        tokens: all tokens.
        count: their number.
    """
    room = len(tokens.ends) - 1
    pairs, neighbours = find_pairs(cells, counts, few_places), make_neighbours(room, len(cells))
    merges, merged = np.empty((1024, 2), np.int64), 0
    # Whether a token is a symbol of words, and whether its symbols come from several pairs.
    is_symbol, is_shared = np.zeros(room, np.bool_), np.zeros(room, np.bool_)
    for cell in cells:
        if cell >= 0:
            is_symbol[cell] = True
    while count < vocab_size:
        total, pair, start, size = pop_pair(pairs)
        if total < min_frequency:
            break
        first, second = pair >> ID_BITS, pair & (2**ID_BITS - 1)
        tokens = make_room(tokens, first, second, count)
        merge = Merge(first, second, join_texts(tokens, first, second, count))
        count = max(count, merge.joined + 1)
        is_shared[merge.joined] |= is_symbol[merge.joined]
        is_symbol[merge.joined] = True
        if merged == len(merges):
            merges = grow_rows(merges)
        merges[merged, 0], merges[merged, 1] = first, second
        merged += 1
        places = pairs.places[start : start + size]
        if is_shared[first] or is_shared[second]:
            merge_words(cells, merge, places, neighbours)
        else:
            merge_places(cells, merge, places, neighbours)
        add_up(neighbours, counts)
        pairs = queue_pairs(pairs, merge, neighbours)
    return merges[:merged], tokens, count
