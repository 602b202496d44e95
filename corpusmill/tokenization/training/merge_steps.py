"""Byte-pair merges of counted words, one step after another, in compiled loops.

The steps are those of `BpeTrainer` in the tokenizers library, also where it does what its algorithm
does not ask for: see `merges`.
"""

from typing import NamedTuple

import numpy as np

from corpusmill.arrays.kernel_cache import njit
from corpusmill.tokenization.compiled.units import ONE, find_slot
from corpusmill.tokenization.training.merge_pairs import (
    BLOCK_CELLS,
    BOUNDARY,
    FIRST,
    HEAP,
    ID_BITS,
    LONGEST_WORD,
    PLACES,
    TABLE,
    CountedCells,
    Entry,
    Pairs,
    cell_after,
    cell_before,
    count_at,
    entry_at,
    find_pairs,
    grow_rows,
    join_cells,
    pair_key,
    push,
    replace_first,
    reserve,
    reserve_places,
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
def prefix_size(tokens: TokenTexts, token: int) -> int:
    """Return the bytes of a token's prefix, 0 without one."""
    start, prefix = tokens.ends[token], tokens.prefix
    if tokens.ends[token + 1] - start < len(prefix):
        return 0
    for place in range(len(prefix)):
        if tokens.texts[start + place] != prefix[place]:
            return 0
    return len(prefix)


@njit
def make_room(tokens: TokenTexts, left: int, right: int, count: int) -> TokenTexts:
    """Return the tokens with room for the text of two of them after the last one."""
    texts, ends = tokens.texts, tokens.ends
    needed = ends[count] + ends[left + 1] - ends[left] + ends[right + 1] - ends[right]
    if needed > len(texts):
        texts = np.empty(2 * needed, np.uint8)
        for place in range(len(tokens.texts)):
            texts[place] = tokens.texts[place]
    return TokenTexts(texts, ends, tokens.rows, tokens.prefix)


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
    """A pair and what it is merged to, as ids.

    Attributes:
        first: the left symbol.
        second: the right one.
        joined: what they become.
        is_remade: whether the words had this symbol before.
    """

    first: int
    second: int
    joined: int
    is_remade: bool


class Neighbours(NamedTuple):
    """What stands beside a pair where it is merged.

    A neighbour's code is twice its id, and 1 more if it stands after the pair.

    Attributes:
        found: uint32[room, 2], the neighbours in the order in which they were found: the code, and
            the first cell of the new pair.
        codes: int64[codes], the distinct codes, in this order.
        sums: int64[codes, 3], how often each code occurs in the corpus, and in the distinct words;
            and how often it stood beside the new symbol before the merge.
        sizes: int64[2], the rows of `codes` and of `found`.
    """

    found: np.ndarray
    codes: np.ndarray
    sums: np.ndarray
    sizes: np.ndarray


CODES, FOUND = 0, 1
TOTAL, LISTED, EARLIER = 0, 1, 2


@njit
def merge_places(
    words: CountedCells, merge: Merge, places: np.ndarray, neighbours: Neighbours
) -> None:
    """Merge a pair at listed places, where it still is there, and note its neighbours.

    Args:
        words: the words, changed in place.
        merge: the pair.
        places: uint32[n], ascending within each word.
        neighbours: what stands beside the pair is added.
    """
    # References to arrays in tuples would be counted at each place, which takes longer than the
    # work.
    cells, starts, counts, groups = words
    found, codes, sums, sizes = neighbours
    first, second, joined, _ = merge
    rows, used, firsts = sizes[FOUND], sizes[CODES], np.empty(_BLOCK, np.int64)
    group = 0
    for start in range(0, len(places), _BLOCK):
        # Reading a block of cells first lets the processor fetch many of them at a time.
        size = 0
        for number in range(start, min(start + _BLOCK, len(places))):
            firsts[size] = places[number]
            size += cells[places[number]] == first
        for number in range(size):
            here = firsts[number]
            after = cell_after(cells, here)
            if cells[here] != first or cells[after] != second:
                continue
            end = cell_after(cells, after)
            join_cells(cells, here, after, end, joined)
            before = cell_before(cells, here)
            # Most places have the count of the one before.
            if here < starts[group] or here >= starts[group + 1]:
                group = groups[here // BLOCK_CELLS]
            while starts[group + 1] <= here:
                group += 1
            for is_after in range(2):
                code = 2 * cells[end if is_after else before] + is_after
                if code >= 0:
                    if not sums[code, LISTED]:
                        codes[used] = code
                        used += 1
                    sums[code, TOTAL] += counts[group]
                    sums[code, LISTED] += 1
                    found[rows, 0], found[rows, 1] = code, here if is_after else before
                    rows += 1
    sizes[FOUND], sizes[CODES] = rows, used


@njit
def merge_words(
    words: CountedCells, merge: Merge, places: np.ndarray, neighbours: Neighbours
) -> None:
    """Merge a pair wherever it occurs in the words of listed places.

    Args:
        words: the words, changed in place.
        merge: the pair.
        places: uint32[n]; those of a word stand together.
        neighbours: what stands beside the pair is added.
    """
    cells, firsts = words.cells, np.empty(LONGEST_WORD, np.uint32)
    start = end = np.int64(0)
    for place in places:
        if start < place < end:
            continue
        start, size = np.int64(place), 0
        while cells[start] != BOUNDARY:
            start -= 1
        end = start + 1
        while cells[end] >= 0:
            firsts[size] = end
            size += cells[end] == merge.first
            end = cell_after(cells, end)
        merge_places(words, merge, firsts[:size], neighbours)


@njit
def count_earlier(words: CountedCells, joined: int, sums: np.ndarray) -> None:
    """Count what stands beside a symbol, each pair once.

    Args:
        words: the words.
        joined: the symbol.
        sums: those of `Neighbours`, whose last column is written.
    """
    cells = words.cells
    sums[:, EARLIER] = 0
    for place in range(len(cells)):
        if cells[place] == joined:
            before, end = cell_before(cells, place), cell_after(cells, place)
            if cells[before] >= 0:
                sums[2 * cells[before], EARLIER] += count_at(words, place)
            if cells[end] >= 0 and cells[end] != joined:
                sums[2 * cells[end] + 1, EARLIER] += count_at(words, place)


@njit
def count_neighbours(table: np.ndarray, merge: Merge, neighbours: Neighbours, least: int) -> int:
    """Count the pairs that a merge made and broke; return how many pairs are new to the table."""
    new, sums, twin = 0, neighbours.sums, 2 * merge.joined
    codes = neighbours.codes[: neighbours.sizes[CODES]]
    for code in codes:
        total, is_twin = sums[code, TOTAL], code | 1 == twin + 1
        # A symbol before and after another one of the same id is one pair.
        known = total + (sums[code ^ 1, TOTAL] if is_twin else 0)
        earlier = sums[twin if is_twin else code, EARLIER] if merge.is_remade else 0
        if known + earlier < least and not merge.is_remade:
            continue
        pair = pair_beside(code, merge.joined, merge.joined)
        slot = find_slot(table, pair)
        if not table[slot, 0]:
            if known + earlier < least:
                continue
            table[slot, 0], table[slot, 1] = pair + ONE, np.uint64(earlier)
            new += 1
        table[slot, 1] += np.uint64(total)
    for code in codes:
        slot = find_slot(table, pair_beside(code, merge.first, merge.second))
        if table[slot, 0]:
            table[slot, 1] -= np.uint64(sums[code, TOTAL])
    return new


@njit(inline="always")
def pair_beside(code: int, first: int, second: int) -> np.uint64:
    """Return the pair of a neighbour and the symbol it stands beside: before `first`, or after."""
    if code & 1:
        return np.uint64(pair_key(second, code >> 1))
    return np.uint64(pair_key(code >> 1, first))


@njit
def choose_listed(table: np.ndarray, merge: Merge, neighbours: Neighbours, least: int) -> int:
    """Keep in the sums which of the pairs that a merge made are queued, with their counts.

    Returns:
        The number of their places.
    """
    sums, more, twin = neighbours.sums, 0, 2 * merge.joined
    for code in neighbours.codes[: neighbours.sizes[CODES]]:
        listed, total = sums[code, LISTED], np.int64(0)
        if listed and (sums[code, TOTAL] >= least or merge.is_remade or code | 1 == twin + 1):
            slot = find_slot(table, pair_beside(code, merge.joined, merge.joined))
            total = np.int64(table[slot, 1]) if table[slot, 0] else np.int64(0)
        sums[code, TOTAL], sums[code, LISTED] = total, listed if total >= max(1, least) else 0
        more += sums[code, LISTED]
    return more


@njit
def queue_pairs(
    cells: np.ndarray, pairs: Pairs, merge: Merge, neighbours: Neighbours, least: int
) -> Pairs:
    """Count, list and queue the pairs that a merge made, and forget its neighbours."""
    found, sums, rows = neighbours.found, neighbours.sums, neighbours.sizes[FOUND]
    codes, twin = neighbours.codes[: neighbours.sizes[CODES]], 2 * merge.joined
    table = reserve(pairs.table, pairs.sizes[TABLE], len(codes))
    pairs.sizes[TABLE] += count_neighbours(table, merge, neighbours, least)
    # A new symbol before and after another one of the same id is one pair.
    if sums[twin, LISTED] and sums[twin + 1, LISTED]:
        sums[twin + 1, LISTED] += sums[twin, LISTED]
        sums[twin, LISTED] = 0
        for row in range(rows):
            found[row, 0] += found[row, 0] == twin
    pairs = reserve_places(cells, pairs, choose_listed(table, merge, neighbours, least))
    sizes, heap = pairs.sizes, pairs.heap
    for code in codes:
        size, sums[code, LISTED] = sums[code, LISTED], -1
        if size:
            pair = np.int64(pair_beside(code, merge.joined, merge.joined))
            heap = push(heap, sizes[HEAP], (sums[code, TOTAL], pair, sizes[PLACES], size))
            sums[code, LISTED] = sizes[PLACES]
            sizes[HEAP] += 1
            sizes[PLACES] += size
    # Sums say where the places of pairs begin; -1 of those that are not listed.
    for row in range(rows):
        start = sums[found[row, 0], LISTED]
        if start >= 0:
            pairs.places[start] = found[row, 1]
            sums[found[row, 0], LISTED] = start + 1
    for code in codes:
        sums[code, TOTAL] = sums[code, LISTED] = 0
    neighbours.sizes[CODES] = neighbours.sizes[FOUND] = 0
    return Pairs(table, heap, pairs.places, sizes)


@njit
def pop_pair(pairs: Pairs, least: int) -> Entry:
    """Remove the pair that is merged next, and return its entry; a count of 0 if there is none."""
    heap, sizes = pairs.heap, pairs.sizes
    while sizes[HEAP]:
        count, pair, start, size = entry_at(heap, FIRST)
        total = np.int64(pairs.table[find_slot(pairs.table, np.uint64(pair)), 1])
        if total == count or total < least:
            sizes[HEAP] -= 1
            replace_first(heap, sizes[HEAP], entry_at(heap, sizes[HEAP]))
        else:
            replace_first(heap, sizes[HEAP], (total, pair, start, size))
        if total == count:
            return count, pair, start, size
    return 0, 0, 0, 0


# Symbols that are made again, in texts of few letters without spaces, cost a scan each.
_MOST_SCANS = 32
# Less than any pair occurs.
EVERY_PAIR = -(2**62)


@njit
def learn_merges(
    words: CountedCells,
    tokens: TokenTexts,
    count: int,
    vocab_size: int,
    min_frequency: int,
    least: int,
    places: np.ndarray,
) -> tuple[np.ndarray, TokenTexts, int, bool]:
    """Merge the most frequent pair until there are enough tokens, or no more pairs.

    Most pairs are too rare to be merged. Those that occur less than `least` times when they are
    made take no place in the queue. A rare pair becomes more frequent only where a symbol is made
    again, of another pair.

    Args:
        words: the words, merged in place.
        tokens: the first tokens, with room for all.
        count: the number of the first tokens.
        vocab_size: the most tokens.
        min_frequency: how often a merged pair must occur, 1 or more.
        least: how often a pair must occur to be queued, `min_frequency` or more, or EVERY_PAIR.
        places: as of `find_pairs`.

    Returns:
        merges: int64[merges, 2], the ids of pairs, in the order in which they were merged.
        tokens: all tokens.
        count: their number.
        is_done: whether nothing depended on pairs that were not queued.
    """
    room = len(tokens.ends) - 1
    pairs = find_pairs(words, least, places)
    neighbours = Neighbours(
        np.empty((len(words.cells), 2), np.uint32), np.zeros(2 * room, np.int64),
        np.zeros((2 * room, 3), np.int64), np.zeros(2, np.int64),
    )  # fmt: skip
    merges, merged, scans = np.empty((1024, 2), np.int64), 0, 0
    # Whether a token is a symbol of words, and whether its symbols come from several pairs.
    is_symbol, is_shared = np.zeros(room, np.bool_), np.zeros(room, np.bool_)
    for cell in words.cells:
        if cell >= 0:
            is_symbol[cell] = True
    while count < vocab_size:
        total, pair, start, size = pop_pair(pairs, least)
        if total < min_frequency:
            return merges[:merged], tokens, count, least <= min_frequency
        first, second = pair >> ID_BITS, pair & (2**ID_BITS - 1)
        tokens = make_room(tokens, first, second, count)
        joined = join_texts(tokens, first, second, count)
        merge = Merge(first, second, joined, is_symbol[joined] and least > EVERY_PAIR)
        if merge.is_remade:
            scans += 1
            if scans > _MOST_SCANS:
                return merges[:merged], tokens, count, False
            count_earlier(words, joined, neighbours.sums)
        count = max(count, joined + 1)
        is_shared[joined] |= is_symbol[joined]
        is_symbol[joined] = True
        if merged == len(merges):
            merges = grow_rows(merges)
        merges[merged, 0], merges[merged, 1] = first, second
        merged += 1
        listed = pairs.places[start : start + size]
        if is_shared[first] or is_shared[second]:
            merge_words(words, merge, listed, neighbours)
        else:
            merge_places(words, merge, listed, neighbours)
        pairs = queue_pairs(words.cells, pairs, merge, neighbours, least)
    return merges[:merged], tokens, count, True
