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

from corpusmill.arrays.kernel_cache import njit
from corpusmill.tokenization.compiled.byte_level_bpe import borrow
from corpusmill.tokenization.compiled.exactness import (
    find_neighbourly,
    list_rearrangements,
    list_taken,
)
from corpusmill.tokenization.compiled.unigram_text import (
    ALWAYS,
    EACH,
    GROWTH,
    INERT,
    JOINS,
    NOTHING,
    ORDER,
    RANK,
    SEVERAL,
    UNLESS_THERE,
    WHITE,
    WHITE_SPACE,
    WHOLE,
    Characters,
    Spacing,
    read_characters,
    read_spacing,
)
from corpusmill.tokenization.compiled.units import EncodeSpans, completed, has_byte, read_character
from corpusmill.tokenization.tokenizer_file import Part

NO_TOKEN, NO_NODE = -1, -1
# What a node notes that has neither children nor a piece.
_ROOT, _NOTHING = 0, 2 * NO_NODE
# How much lower than the lowest score that of a character is which is no piece.
_PENALTY = 10.0
_LAST_WHITE = max(WHITE)


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
def find_base(nodes: np.ndarray, symbols: np.ndarray, first_free: int) -> int:
    """Find a base from which all children of a node have free places.

    Args:
        nodes: int32[places, 2], free where the parent is below 0; with room at the end.
        symbols: int32[children], ascending, of which the largest fits after `first_free`.
        first_free: no place before is free.
    """
    base = max(first_free - symbols[0], 0)
    while True:
        is_free = True
        for symbol in symbols:
            if nodes[base + symbol, 1] >= 0:
                is_free = False
                break
        if is_free:
            return base
        base += 1


@njit
def plant_pieces(
    symbols: np.ndarray, ends: np.ndarray, scores: np.ndarray, ids: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Make the tree of pieces.

    Args:
        symbols: int32[...], those of all pieces, one after the other.
        ends: int64[pieces + 1] into symbols; the pieces are in the order of their symbols, all
            different, and none is empty.
        scores: float64[pieces].
        ids: int32[pieces].
        most: the largest symbol.

    Returns:
        `nodes`, `scores` and `tokens` of Pieces.
    """
    room = 2 * (len(symbols) + most) + 2
    nodes, values = np.empty((room, 2), np.int32), np.zeros(room, np.float64)
    tokens = np.full(room, NO_TOKEN, np.int32)
    nodes[:, 0], nodes[:, 1] = _NOTHING, NO_NODE
    nodes[: most + 1, 1] = _ROOT  # places of the root's children, also of those that it lacks
    children, begins = np.empty(most + 1, np.int32), np.empty(most + 2, np.int64)
    # Nodes whose children are to be placed: place, first and last piece below it, and its depth.
    waiting = np.empty((len(symbols) + 2, 4), np.int64)
    waiting[0] = _ROOT, 0, len(ids), 0
    left, first_free, used = 1, most + 1, most + 1
    while left:
        left -= 1
        node, first, last, depth = waiting[left]
        count = 0
        for piece in range(first, last):
            if ends[piece] + depth == ends[piece + 1]:
                values[node], tokens[node] = scores[piece], ids[piece]
                continue
            symbol = symbols[ends[piece] + depth]
            if not count or children[count - 1] != symbol:
                children[count], begins[count] = symbol, piece
                count += 1
        begins[count] = last
        base = np.int64(NO_NODE)
        if node == _ROOT:
            base = np.int64(0)
        elif count:
            base = np.int64(find_base(nodes, children[:count], first_free))
            if base + most + 1 >= len(nodes):
                more = np.empty_like(nodes)
                more[:, 0], more[:, 1] = _NOTHING, NO_NODE
                nodes = np.concatenate((nodes, more))
                values = np.concatenate((values, np.zeros_like(values)))
                tokens = np.concatenate((tokens, np.full_like(tokens, NO_TOKEN)))
        nodes[node, 0] = 2 * base + (tokens[node] != NO_TOKEN)
        for child in range(count):
            place = base + children[child]
            nodes[place, 1] = node
            used = max(used, place + 1)
            waiting[left] = place, begins[child], begins[child + 1], depth + 1
            left += 1
        while nodes[first_free, 1] >= 0:
            first_free += 1
    size = used + most + 1
    return nodes[:size].copy(), values[:size].copy(), tokens[:size].copy()


@njit
def is_white(code: int) -> bool:
    """Whether a character is white space by Unicode."""
    if code > _LAST_WHITE:
        return False
    if code < 0x1680:
        return 0x09 <= code <= 0x0D or code in (0x20, 0x85, 0xA0)
    return 0x2000 <= code <= 0x200A or code in (0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000)


@njit
def trim_text(spacing: Spacing, text: np.ndarray, start: int, stop: int) -> tuple[int, int]:
    """Leave out white space at the ends of a text, as far as that comes first."""
    while spacing.trims_left and start < stop:
        code, size = read_character(text, start)
        if not is_white(code):
            break
        start += size
    while spacing.trims_right and start < stop:
        last = stop - 1
        while text[last] & 0xC0 == 0x80:
            last -= 1
        code, _ = read_character(text, last)
        if not is_white(code):
            break
        stop = last
    return start, stop


@njit(inline="always")
def add_symbol(symbols: np.ndarray, count: int, symbol: int, repeated: int) -> int:
    """Write a symbol, unless it and the one before it are `repeated`; return their new number."""
    if symbol == repeated and symbols[count - 1] == repeated:
        return count
    symbols[count] = symbol
    return count + 1


@njit
def map_text(
    characters: Characters,
    spacing: Spacing,
    text: np.ndarray,
    start: int,
    stop: int,
    symbols: np.ndarray,
) -> int:
    """Write the symbols of a text from 1 on; return where they end, or 0 if one is not known.

    Args:
        characters: what each character is turned into.
        spacing: what is done to spaces.
        text: uint8[bytes], valid UTF-8.
        start: where the text begins.
        stop: where it ends.
        symbols: int32[at least GROWTH * bytes + 1]; the first is 0.
    """
    known, ends, images = characters.known, characters.ends, characters.images
    repeated = characters.space if spacing.collapses else -1
    count, order, is_inert = 1, 0, False
    while start < stop:
        code, size = read_character(text, start)
        start += size
        bits = known[code] if code < len(known) else 0
        if bits & JOINS:
            if not is_inert or 0 < bits >> ORDER < order:
                return 0
            order = bits >> ORDER
        else:
            is_inert, order = bits & INERT != 0, 0
        if bits & SEVERAL:
            image = bits & RANK
            for place in range(ends[image], ends[image + 1]):
                count = add_symbol(symbols, count, images[place], repeated)
        elif bits:
            count = add_symbol(symbols, count, bits & RANK, repeated)
        else:
            return 0
        if spacing.only_first and count == 1:
            return 0
    return count


@njit
def strip_symbols(
    characters: Characters, spacing: Spacing, symbols: np.ndarray, stop: int, is_empty: bool
) -> tuple[int, int]:
    """Leave out spaces at the ends of a text, and put one before it; return where it is.

    Args:
        characters: what symbols are.
        spacing: what is done to spaces.
        symbols: int32[...], the text from 1 on; the first may be written.
        stop: where it ends.
        is_empty: whether it had no characters before they were mapped.
    """
    codes, space, start = characters.codes, characters.space, 1
    while start < stop and spacing.strips_right != NOTHING:
        last = symbols[stop - 1]
        if not (last == space or (spacing.strips_right == WHITE_SPACE and is_white(codes[last]))):
            break
        stop -= 1
    while start < stop and spacing.strips_left != NOTHING:
        first = symbols[start]
        if not (first == space or (spacing.strips_left == WHITE_SPACE and is_white(codes[first]))):
            break
        start += 1
    puts = spacing.prepends == ALWAYS and not is_empty
    if start < stop:
        puts = puts or (spacing.prepends == UNLESS_THERE and symbols[start] != space)
    elif spacing.strips_left != NOTHING:
        puts = False
    if puts:
        start -= 1
        symbols[start] = space
    return start, stop


@njit(inline="always")
def end_of_word(breaks: int, space: int, symbols: np.ndarray, start: int, stop: int) -> int:
    """Return where the word ends that begins at a place."""
    if breaks == WHOLE:
        return stop
    end = start + 1
    while breaks != EACH and end < stop and symbols[end - 1] == space and symbols[end] == space:
        end += 1
    while end < stop and symbols[end] != space:
        end += 1
    return end


@njit(inline="always")
def find_best(
    pieces: Pieces,
    symbols: np.ndarray,
    start: int,
    end: int,
    sums: np.ndarray,
    begins: np.ndarray,
    nodes: np.ndarray,
) -> bool:
    """Find the best way to cut a word; return whether there is one.

    Args:
        pieces: the vocabulary.
        symbols: int32[...].
        start: where the word begins.
        end: where it ends.
        sums: float64[...], a workspace.
        begins: int32[...], written: where the best last piece begins, for each place up to `end`.
        nodes: int32[...], written: its node; -1 if it is an unknown character.
    """
    tree, scores, most = pieces.nodes, pieces.scores, pieces.most
    sums[start] = 0.0
    for place in range(start + 1, end + 1):
        begins[place] = -1
    for place in range(start, end):
        before, node, is_piece = sums[place], np.int64(symbols[place]), False
        reached = place + 1
        if node <= most:
            link = np.int64(tree[node, 0])
            while True:
                if link & 1:
                    total = scores[node] + before
                    if begins[reached] < 0 or total > sums[reached]:
                        sums[reached], begins[reached], nodes[reached] = total, place, node
                    is_piece |= reached == place + 1
                if link < 0 or reached == end:
                    break
                symbol = np.int64(symbols[reached])
                child = (link >> 1) + symbol
                if symbol > most or tree[child, 1] != node:
                    break
                node, link, reached = child, np.int64(tree[child, 0]), reached + 1
        if not is_piece:
            if pieces.unknown < 0:
                return False
            total = pieces.unknown_score + before
            if begins[place + 1] < 0 or total > sums[place + 1]:
                sums[place + 1], begins[place + 1], nodes[place + 1] = total, place, NO_NODE
    return True


@njit
def find_piece(pieces: Pieces, symbols: np.ndarray, start: int, end: int) -> int:
    """Return the id of the piece that a stretch of symbols is, or -1."""
    node = np.int64(symbols[start])
    if node > pieces.most:
        return NO_TOKEN
    for place in range(start + 1, end):
        base, symbol = pieces.nodes[node, 0] >> 1, np.int64(symbols[place])
        if base < 0 or symbol > pieces.most or pieces.nodes[base + symbol, 1] != node:
            return NO_TOKEN
        node = base + symbol
    return int(pieces.tokens[node])


@njit
def write_unknown(
    pieces: Pieces,
    codes: np.ndarray,
    symbols: np.ndarray,
    start: int,
    end: int,
    ids: np.ndarray,
    written: int,
) -> int:
    """Write what unknown neighbours become: a piece after all, their bytes, or the unknown token.

    Args:
        pieces: the vocabulary.
        codes: int32[symbols], the code points of symbols.
        symbols: int32[...].
        start: the first unknown symbol.
        end: where they end.
        ids: int32[...], written.
        written: the number of ids so far.

    Returns:
        Their new number.
    """
    token = find_piece(pieces, symbols, start, end)
    if token != NO_TOKEN:
        ids[written] = token
        return written + 1
    count = written
    for place in range(start, end):
        code = codes[symbols[place]]
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
    symbols: np.ndarray,
    start: int,
    end: int,
    begins: np.ndarray,
    nodes: np.ndarray,
    ids: np.ndarray,
    written: int,
) -> int:
    """Write the ids of a word that `find_best` has cut, and return their new number."""
    # The way back, turned round: where each piece on it ends.
    place, begin = end, np.int64(begins[end])
    while place > start:
        next_place = begin
        begin = np.int64(begins[next_place]) if next_place > start else np.int64(start)
        begins[next_place] = place
        place = next_place
    place = start
    while place < end:
        stop = np.int64(begins[place])
        node = nodes[stop]
        token = pieces.unknown if node < 0 else pieces.tokens[node]
        if token != pieces.unknown:
            ids[written] = token
            written, place = written + 1, stop
            continue
        while stop < end:
            node = nodes[begins[stop]]
            if node >= 0 and pieces.tokens[node] != pieces.unknown:
                break
            stop = np.int64(begins[stop])
        written, place = write_unknown(pieces, codes, symbols, place, stop, ids, written), stop
    return written


@njit
def encode_spans(
    characters: Characters,
    spacing: Spacing,
    pieces: Pieces,
    is_token_start: np.ndarray,
    most_bytes: int,
    text: np.ndarray,
    spans: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the ids of stretches of text, each tokenized as a text of its own.

    Args:
        characters: what each character is turned into.
        spacing: what is done to spaces.
        pieces: the vocabulary.
        is_token_start: bool[256], bytes with which added tokens begin.
        most_bytes: of a stretch that is known.
        text: uint8[bytes], valid UTF-8.
        spans: int64[n, 2], first byte and end of each stretch.

    Returns:
        ids: int32[...], one stretch's after another's.
        ends: int64[n + 1] into the ids.
        left: bool[n], stretches that are left to the tokenizer and have no ids here.
    """
    text = borrow(text)
    characters = Characters(
        borrow(characters.known), borrow(characters.ends), borrow(characters.images),
        borrow(characters.codes), characters.space, borrow(characters.joints),
    )  # fmt: skip
    pieces = Pieces(
        borrow(pieces.nodes), borrow(pieces.scores), borrow(pieces.tokens),
        borrow(pieces.byte_ids), pieces.unknown, pieces.unknown_score, pieces.most,
    )  # fmt: skip
    left, total, longest = np.zeros(len(spans), np.bool_), 0, 0
    for span in range(len(spans)):
        start, stop = spans[span]
        size = stop - start
        left[span] = size > most_bytes or has_byte(is_token_start, text, start, stop)
        if not left[span]:
            total, longest = total + GROWTH * (size + 1), max(longest, size)
    ids, ends = np.empty(total, np.int32), np.zeros(len(spans) + 1, np.int64)
    room = GROWTH * longest + 2
    symbols, begins = np.zeros(room, np.int32), np.empty(room, np.int32)
    nodes, sums = np.empty(room, np.int32), np.empty(room, np.float64)
    written = 0
    for span in range(len(spans)):
        start, stop = spans[span]
        if not left[span]:
            symbols[0] = 0
            first, last = trim_text(spacing, text, start, stop)
            end = map_text(characters, spacing, text, first, last, symbols)
            left[span] = end == 0
            place, end = strip_symbols(characters, spacing, symbols, end, first == last)
            while place < end and not left[span]:
                next_place = end_of_word(spacing.breaks, characters.space, symbols, place, end)
                if not find_best(pieces, symbols, place, next_place, sums, begins, nodes):
                    left[span] = True
                    break
                written = write_word(
                    pieces,
                    characters.codes,
                    symbols,
                    place,
                    next_place,
                    begins,
                    nodes,
                    ids,
                    written,
                )
                place = next_place
        if left[span]:
            written = ends[span]
        ends[span + 1] = written
    return ids[:written], ends, left


class CompiledUnigram(NamedTuple):
    """A compiled tokenizer.

    Attributes:
        encode_spans: tokenizes stretches of text.
        joints: uint8[code points], how characters stand beside spaces (`Characters`); None if the
            ids of a text are not those of its words with the spaces before them.
    """

    encode_spans: EncodeSpans
    joints: npt.NDArray[np.uint8] | None


def compile_unigram(
    tokenizer_json: Part, tokenizer: Tokenizer, encode_plainly: EncodeSpans, most_bytes: int
) -> CompiledUnigram | None:
    """Compile a tokenizer; None if it has steps that are not known.

    Args:
        tokenizer_json: the parsed tokenizer.json of a unigram tokenizer.
        tokenizer: the same, loaded.
        encode_plainly: the same, for stretches that the compiled one leaves.
        most_bytes: of a stretch; longer ones are left.
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
    is_token_start = np.zeros(256, np.bool_)
    is_token_start[[token["content"].encode()[0] for token in taken]] = True
    pieces = read_pieces(model, characters.codes)
    known = partial(encode_spans, characters, spacing, pieces, is_token_start, most_bytes)
    looks_further = any(find_neighbourly(taken, tokenizer, spaced=True))
    is_of_words = spacing.is_of_words and not looks_further
    encode_all = completed(known, encode_plainly)
    return CompiledUnigram(encode_all, characters.joints if is_of_words else None)


def read_pieces(model: Part, codes: npt.NDArray[np.int32]) -> Pieces:
    """Read the tree of a unigram model of a tokenizer.json.

    Args:
        model: the model, with its scores to the last bit. Of equal pieces the last one counts.
        codes: int32[symbols], those of `Characters`, among which are all that pieces have.
    """
    ids: dict[str, int] = {piece: number for number, (piece, _) in enumerate(model["vocab"])}
    names = sorted(filter(None, ids))
    own = np.frombuffer("".join(names).encode("utf-32-le"), "<i4")
    symbols = np.searchsorted(codes, own).astype(np.int32)
    most = int(symbols.max(initial=0))
    scores = np.array([score for _, score in model["vocab"]])
    numbers = np.array([ids[name] for name in names], np.int32)
    ends = np.cumsum([0, *map(len, names)])
    byte_ids = np.full(256, NO_TOKEN, np.int32)
    if model.get("byte_fallback"):
        byte_ids[:] = [ids.get(f"<0x{byte:02X}>", NO_TOKEN) for byte in range(256)]
    unknown = model.get("unk_id")
    return Pieces(
        *plant_pieces(symbols, ends, scores[numbers], numbers, most),
        byte_ids, NO_TOKEN if unknown is None else unknown, scores.min() - _PENALTY, most,
    )  # fmt: skip
