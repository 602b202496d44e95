"""A unigram tokenizer compiled from its tokenizer.json.

Only tokenizers whose steps are all known are compiled (`unigram_text`); a text with a character
that is not known, or perhaps an added token, is left to the tokenizer itself.

Of all ways to cut a word into pieces the one with the largest sum of scores is found (Kudo 2018) by
Viterbi's algorithm, from left to right: for each place the best way to come there. Sums are of 64
bits, in the order of the text, and of equal ones the first is kept, whose last piece is the
longest, as in the tokenizers library, so that the ids are the same to the last bit. A character
that is no piece has a score of 10 below the lowest, and neighbours that are unknown become one
token, or their bytes.

Pieces are in a tree of their characters, kept as a double array (Aoe 1989): the child of a node for
a symbol is at the node's base plus the symbol, where the node is noted as its parent. A symbol is
the rank of a character, so that a step along a piece is an access to memory even in scripts whose
characters have several bytes.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import orjson
from tokenizers import Tokenizer

from corpusmill.arrays.intrinsics import borrow
from corpusmill.arrays.kernel_cache import njit
from corpusmill.tokenization.compiled.exactness import (
    find_neighbourly,
    list_rearrangements,
    list_taken,
)
from corpusmill.tokenization.compiled.unigram_text import (
    GROWTH,
    Characters,
    Spacing,
    end_of_word,
    map_text,
    read_characters,
    read_spacing,
    strip_symbols,
    trim_text,
)
from corpusmill.tokenization.compiled.units import (
    EncodeSpans,
    completed,
    may_have_token,
    token_starts,
)
from corpusmill.tokenization.tokenizer_file import Part

NO_TOKEN, NO_NODE = -1, -1
_ROOT = 0
# How much lower than the lowest score that of a character is which is no piece.
_PENALTY = 10.0


class Pieces(NamedTuple):
    """A vocabulary as a tree.

    Attributes:
        nodes: int32[nodes, 2]: its base, doubled, plus 1 if a piece ends there, or below 0 if it
            has no children; and its parent. Node 0 is the root, and its base 0.
        scores: float64[nodes], those of pieces that end there.
        tokens: int32[nodes], their ids.
        byte_ids: int32[256], the id of each byte; -1 if it has none.
        unknown: the id of what is no piece; -1 if there is none.
        unknown_score: its score.
        most: the largest symbol of any piece.
    """

    nodes: np.ndarray
    scores: np.ndarray
    tokens: np.ndarray
    byte_ids: np.ndarray
    unknown: int
    unknown_score: float
    most: int


@njit
def find_base(nodes: np.ndarray, symbols: np.ndarray, count: int, first_free: int) -> int:
    """Find a base from which all children of a node have free places; it may be near the end.

    Args:
        nodes: int32[places, 2], free where the parent is below 0.
        symbols: int32[at least count], those of the children, ascending.
        count: their number.
        first_free: no place before is free.
    """
    base: int = max(first_free - symbols[0], 0)
    child = 0
    while child < count:
        place = base + symbols[child]
        child += 1
        if place < len(nodes) and nodes[place, 1] >= 0:
            base, child = base + 1, 0
    return base


@njit
def plant_pieces(
    symbols: np.ndarray, ends: np.ndarray, most: int, nodes: np.ndarray, pieces: np.ndarray
) -> int:
    """Make the tree of pieces.

    Args:
        symbols: int32[...], those of all pieces, one after the other.
        ends: int64[pieces + 1] into symbols; the pieces are in the order of their symbols, all
            different, and none is empty.
        most: the largest symbol.
        nodes: int32[room, 2], that of `Pieces`, written; filled with -1.
        pieces: int32[room], written where a piece ends: its number.

    Returns:
        How many nodes there are; 0 if there is no room for them.
    """
    for place in range(most + 1):  # the places of the root's children, also of those it lacks
        nodes[place, 0], nodes[place, 1] = 2 * NO_NODE, _ROOT
    children, begins = np.empty(most + 1, np.int32), np.empty(most + 2, np.int64)
    # Nodes whose children are to be placed: place, first and last piece below it, and its depth.
    waiting = np.empty((len(symbols) + 2, 4), np.int64)
    waiting[0, 0], waiting[0, 1], waiting[0, 2], waiting[0, 3] = _ROOT, 0, len(ends) - 1, 0
    left, first_free, used = 1, most + 1, most + 1
    while left:
        left -= 1
        node, last, depth = waiting[left, 0], waiting[left, 2], waiting[left, 3]
        count, is_piece = 0, 0
        for piece in range(waiting[left, 1], last):
            if ends[piece] + depth == ends[piece + 1]:
                pieces[node], is_piece = piece, 1
                continue
            symbol = symbols[ends[piece] + depth]
            if not count or children[count - 1] != symbol:
                children[count], begins[count] = symbol, piece
                count += 1
        begins[count] = last
        base = 0 if node == _ROOT else NO_NODE
        if count and node != _ROOT:
            base = find_base(nodes, children, count, first_free)
            used = max(used, base + children[count - 1] + 1)
            if used + most >= len(nodes):
                return 0
        nodes[node, 0] = 2 * base + is_piece
        for child in range(count):
            place = base + children[child]
            nodes[place, 1] = node
            waiting[left, 0], waiting[left, 1] = place, begins[child]
            waiting[left, 2], waiting[left, 3] = begins[child + 1], depth + 1
            left += 1
        while nodes[first_free, 1] >= 0:
            first_free += 1
    return used


class Workspace(NamedTuple):
    """What a text is tokenized with, with room for its symbols and one more.

    Attributes:
        symbols: int32[room], the text; the first is left free.
        sums: float64[room], the largest sum of scores up to a place, within a word.
        begins: int32[room], where the last piece of the best way to a place begins; -1 if there is
            no way yet.
        nodes: int32[room], the node of that piece; -1 if it is an unknown character.
    """

    symbols: np.ndarray
    sums: np.ndarray
    begins: np.ndarray
    nodes: np.ndarray


@njit(inline="always")
def offer_piece(work: Workspace, start: int, end: int, node: int, total: float) -> None:
    """Take a piece as the last one up to its end, if no way there is as good."""
    if work.begins[end] < 0 or total > work.sums[end]:
        work.sums[end], work.begins[end], work.nodes[end] = total, start, node


@njit(inline="always")
def find_best(pieces: Pieces, work: Workspace, start: int, end: int) -> bool:
    """Find the best way to cut a word; return whether there is one.

    Args:
        pieces: the vocabulary.
        work: the workspace, of which all but the symbols are written.
        start: where the word begins.
        end: where it ends.
    """
    tree, scores, symbols, most = pieces.nodes, pieces.scores, work.symbols, pieces.most
    work.sums[start] = 0.0
    for place in range(start + 1, end + 1):
        work.begins[place] = -1
    for place in range(start, end):
        before, node, reached = work.sums[place], np.int64(symbols[place]), place + 1
        link = np.int64(tree[node, 0]) if node <= most else np.int64(2 * NO_NODE)
        is_piece = link & 1
        while True:
            if link & 1:
                offer_piece(work, place, reached, node, scores[node] + before)
            if link < 0 or reached == end or symbols[reached] > most:
                break
            child = (link >> 1) + symbols[reached]
            if tree[child, 1] != node:
                break
            node, link, reached = child, np.int64(tree[child, 0]), reached + 1
        if not is_piece:
            if pieces.unknown < 0:
                return False
            offer_piece(work, place, place + 1, NO_NODE, pieces.unknown_score + before)
    return True


@njit
def find_piece(pieces: Pieces, symbols: np.ndarray) -> int:
    """Return the id of the piece that symbols are, or -1."""
    node = np.int64(symbols[0])
    if node > pieces.most:
        return NO_TOKEN
    for symbol in symbols[1:]:
        base = pieces.nodes[node, 0] >> 1
        if base < 0 or symbol > pieces.most or pieces.nodes[base + symbol, 1] != node:
            return NO_TOKEN
        node = np.int64(base + symbol)
    return int(pieces.tokens[node])


@njit
def write_unknown(
    pieces: Pieces, codes: np.ndarray, symbols: np.ndarray, ids: np.ndarray, written: int
) -> int:
    """Write what unknown neighbours become: a piece after all, their bytes, or the unknown token.

    Args:
        pieces: the vocabulary.
        codes: int32[symbols], the code points of symbols.
        symbols: int32[...], the unknown ones.
        ids: int32[...], written.
        written: the number of ids so far.

    Returns:
        Their new number.
    """
    token = find_piece(pieces, symbols)
    if token != NO_TOKEN:
        ids[written] = token
        return written + 1
    count = written
    for symbol in symbols:
        code = codes[symbol]
        size = 1 + (code >= 0x80) + (code >= 0x800) + (code >= 0x10000)
        for number in range(size):
            byte = code >> 6 * (size - 1 - number) & 0x3F | 0x80
            if number == 0:
                byte = code if size == 1 else code >> 6 * (size - 1) | (0xF00 >> size & 0xFF)
            ids[count] = pieces.byte_ids[byte]
            if ids[count] < 0:
                ids[written] = pieces.unknown
                return written + 1
            count += 1
    return count


@njit
def write_word(
    pieces: Pieces,
    codes: np.ndarray,
    work: Workspace,
    start: int,
    end: int,
    ids: np.ndarray,
    written: int,
) -> int:
    """Write the ids of a word that `find_best` has cut, and return their new number.

    Args:
        pieces: the vocabulary.
        codes: int32[symbols], the code points of symbols.
        work: the workspace; of each piece, `begins` then has the end in place of the beginning.
        start: where the word begins.
        end: where it ends.
        ids: int32[...], written.
        written: the number of ids so far.
    """
    ends, nodes = work.begins, work.nodes
    place, begin = np.int64(end), np.int64(work.begins[end])
    while place > start:
        before = np.int64(work.begins[begin]) if begin > start else np.int64(start)
        ends[begin] = place
        place, begin = begin, before
    while place < end:
        stop = np.int64(ends[place])
        token = pieces.unknown if nodes[stop] < 0 else pieces.tokens[nodes[stop]]
        if token != pieces.unknown:
            ids[written] = token
            written, place = written + 1, stop
            continue
        while stop < end:
            node = nodes[ends[stop]]
            if node >= 0 and pieces.tokens[node] != pieces.unknown:
                break
            stop = np.int64(ends[stop])
        written = write_unknown(pieces, codes, work.symbols[place:stop], ids, written)
        place = stop
    return written


@njit
def write_spans(
    tables: tuple[Characters, Spacing, Pieces],
    starts: np.ndarray,
    text: np.ndarray,
    spans: np.ndarray,
    left: np.ndarray,
    work: Workspace,
    ids: np.ndarray,
    ends: np.ndarray,
) -> int:
    """Write the ids of stretches of text, each tokenized as a text of its own.

    Args:
        tables: what each character is turned into, what is done to spaces, and the vocabulary.
        starts: the table of `token_starts`.
        text: uint8[bytes], valid UTF-8.
        spans: int64[n, 2], first byte and end of each stretch.
        left: bool[n], stretches that are left out; written where one is not known.
        work: a workspace for the longest.
        ids: int32[...], written.
        ends: int64[n + 1], written: where the ids of each stretch end.

    Returns:
        The number of ids.
    """
    characters, spacing, pieces = tables
    text, ids, symbols = borrow(text), borrow(ids), borrow(work.symbols)
    work = Workspace(symbols, borrow(work.sums), borrow(work.begins), borrow(work.nodes))
    written = 0
    for span in range(len(spans)):
        start, stop = spans[span]
        left[span] |= may_have_token(starts, text, start, stop)
        if not left[span]:
            first, last = trim_text(spacing, text, start, stop)
            end = map_text(characters, spacing, text, first, last, symbols)
            left[span] = end == 0
            place, end = strip_symbols(characters, spacing, symbols, end, first == last)
            while place < end and not left[span]:
                stop = end_of_word(spacing.breaks, characters.space, symbols, place, end)
                left[span] = not find_best(pieces, work, place, stop)
                if not left[span]:
                    written = write_word(pieces, characters.codes, work, place, stop, ids, written)
                place = stop
        if left[span]:
            written = ends[span]
        ends[span + 1] = written
    return int(written)


def encode_spans(
    tables: tuple[Characters, Spacing, Pieces],
    starts: npt.NDArray[np.bool_],
    most_bytes: int,
    text: np.ndarray,
    spans: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the ids of stretches of text, each tokenized as a text of its own.

    Args:
        tables: what each character is turned into, what is done to spaces, and the vocabulary.
        starts: the table of `token_starts`.
        most_bytes: of a stretch that is known.
        text: uint8[bytes], valid UTF-8.
        spans: int64[n, 2], first byte and end of each stretch.

    Returns:
        ids: int32[...], one stretch's after another's.
        ends: int64[n + 1] into the ids.
        left: bool[n], stretches that are left to the tokenizer and have no ids here.
    """
    sizes = spans[:, 1] - spans[:, 0]
    left = sizes > most_bytes
    known = sizes[~left]
    room = GROWTH * int(known.max(initial=0)) + 2
    work = Workspace(
        np.empty(room, np.int32), np.empty(room), np.empty(room, np.int32), np.empty(room, np.int32)
    )
    ids = np.empty(GROWTH * int(known.sum() + len(known)), np.int32)
    ends = np.zeros(len(spans) + 1, np.int64)
    written = write_spans(tables, starts, text, spans, left, work, ids, ends)
    return ids[:written], ends, left


def compile_unigram(
    tokenizer_json: Part, tokenizer: Tokenizer, encode_plainly: EncodeSpans, most_bytes: int
) -> tuple[EncodeSpans, npt.NDArray[np.uint8] | None] | None:
    """Compile a tokenizer; None if it has steps that are not known.

    Args:
        tokenizer_json: the parsed tokenizer.json of a unigram tokenizer.
        tokenizer: the same, loaded.
        encode_plainly: the same, for stretches that the compiled one leaves.
        most_bytes: of a stretch; longer ones are left.

    Returns:
        What tokenizes stretches of text; and uint8[code points], how characters stand beside spaces
        (`Characters`), or None if the ids of a text are not those of its words with the spaces
        before them.
    """
    spacing, taken = read_spacing(tokenizer_json), list_taken(tokenizer_json, tokenizer)
    # The library reads some numbers a bit lower or higher than they are written; it writes them
    # exactly.
    model = orjson.loads(tokenizer.model.__getstate__())
    is_known = model["type"] == "Unigram" and model["vocab"] and not model.get("alpha")
    if spacing is None or not is_known or any(token["normalized"] for token in taken):
        return None
    if any(list_rearrangements(tokenizer_json)):
        return None
    in_pieces = {character for piece, _ in model["vocab"] for character in piece}
    characters = read_characters(tokenizer_json, tokenizer, spacing, in_pieces)
    if characters is None:
        return None
    tables = characters, spacing, read_pieces(model, characters.codes)
    known = partial(encode_spans, tables, token_starts(taken), most_bytes)
    looks_further = any(find_neighbourly(taken, tokenizer, spaced=True))
    is_of_words = spacing.is_of_words and not looks_further
    encode_all = completed(known, encode_plainly)
    return encode_all, characters.joints if is_of_words else None


def read_pieces(model: Part, codes: npt.NDArray[np.int32]) -> Pieces:
    """Read the tree of a unigram model of a tokenizer.json.

    Args:
        model: the model, with its scores to the last bit. Of equal pieces the last one counts.
        codes: int32[symbols], those of `Characters`, among which are all that pieces have.
    """
    ids: dict[str, int] = {piece: number for number, (piece, _) in enumerate(model["vocab"])}
    names = sorted(filter(None, ids))
    own = np.frombuffer("".join(names).encode("utf-32-le"), "<i4")
    most = len(np.unique(own))
    symbols = np.searchsorted(codes[: most + 1], own).astype(np.int32)
    scores = np.array([score for _, score in model["vocab"]])
    numbers = np.array([ids[name] for name in names], np.int32)
    ends = np.cumsum([0, *map(len, names)])
    nodes, found, used = np.empty(0, np.int32), np.empty(0, np.int32), 0
    room = len(symbols) + most + 2
    while not used:
        room *= 2
        nodes, found = np.full((room, 2), NO_NODE, np.int32), np.full(room, NO_TOKEN, np.int32)
        used = plant_pieces(symbols, ends, most, nodes, found)
    found = found[: used + most]
    byte_ids = np.full(256, NO_TOKEN, np.int32)
    if model.get("byte_fallback"):
        byte_ids[:] = [ids.get(f"<0x{byte:02X}>", NO_TOKEN) for byte in range(256)]
    unknown = model.get("unk_id")
    return Pieces(
        nodes[: used + most].copy(),
        scores[numbers][found],
        np.where(found < 0, NO_TOKEN, numbers[found]).astype(np.int32),
        byte_ids,
        NO_TOKEN if unknown is None else unknown,
        scores.min() - _PENALTY,
        most,
    )
