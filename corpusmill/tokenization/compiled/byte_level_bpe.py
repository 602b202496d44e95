"""A byte-level BPE tokenizer compiled from its tokenizer.json.

Only tokenizers whose steps are all known are compiled; a text with perhaps an added token is left
to the tokenizer itself, as is one that a normalizer may change: text is never normalized here.

The bytes of each piece of a text are merged to ids in compiled loops. Merging is that of Sennrich
et al. 2016 on bytes, as in GPT-2 (Radford et al. 2019): of all neighbours that can be joined, those
of the lowest rank first, the leftmost of them first. Merging begins with characters, or their first
bytes, where that is known to give the same; pieces that are tokens are not merged
(`corpusmill.tokenization.compiled.byte_level_pieces`).

With which characters, or first bytes of them, may it begin? Let the bytes of a character, by
themselves, be merged to one token, by merges of rising ranks. Let each merge that has, at some
moment, the character's first token as its right part have a higher rank than the merge that joins
this token within the character, and each that has its last one as its left part none that is lower.
(If the ranks are equal, so are the pairs, of which the leftmost comes first.) Then, whatever stands
beside the character, a merge within it comes before any across its edges, and its bytes are merged
to its token. If all merges of that token have higher ranks, too, it makes no difference that it is
there from the beginning: while the character is not yet merged, none of them would be the lowest.
Only merges with what may stand there count: a character ends before a byte that begins one. Merging
begins with bytes after ASCII, as spaces are joined to many first bytes.

The same holds for any other bytes that always stand together, such as all bytes of a character but
the last one. In Thai, merges join the last byte of a character with the first two of the next one,
which are the same for most characters: merging can begin with these two as one token.
"""

from contextlib import suppress
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from corpusmill.arrays.intrinsics import borrow
from corpusmill.arrays.kernel_cache import njit
from corpusmill.tokenization.compiled import byte_level_pieces as pieces
from corpusmill.tokenization.compiled.byte_level_pieces import (
    GPT2,
    LONGEST_TOKEN,
    MOST_PAIRS,
    RANK_BITS,
    RULES,
    PieceRules,
    WholeTokens,
    byte_alphabet,
    collect_tokens,
    end_of_piece,
    find_rank,
    find_token,
    hash_pairs,
    is_disordered,
    list_changing,
)
from corpusmill.tokenization.compiled.exactness import find_pattern
from corpusmill.tokenization.compiled.seams import Seams, find_seams
from corpusmill.tokenization.compiled.units import (
    EncodeSpans,
    completed,
    join_texts,
    may_have_token,
    read_character,
    token_starts,
)
from corpusmill.tokenization.tokenizer_file import Part, added_tokens, list_steps

# A piece with more bytes is left to the tokenizer, since merging takes the square of its length.
LONGEST_PIECE = 512
# The rows of a piece's workspace (see `merge_bytes`), and the key of neighbours never joined.
IDS, KEYS, JOINED, BEFORE, AFTER, LAST = 0, 1, 2, 3, 4, 5
WORKSPACE = (6, LONGEST_PIECE + 1)
PLACE_BITS, NEVER = 31 - int(RANK_BITS), np.int32(2**31 - 1)
NO_TOKEN = -1


class Merges(NamedTuple):
    """A vocabulary of byte-level BPE.

    Attributes:
        byte_ids: int32[256], the id of each byte.
        characters: int32[code points], the ids of characters with which merging may begin; -1 for
            others. Empty if it begins with bytes.
        prefixes: int32[code points / 64], the ids of all bytes but the last one of other
            characters, if merging may begin with these; or -1.
        pairs: uint32[a power of two], the hash table of pairs of ids (see `byte_level_pieces`).
        joined: int32[merges, 3]: by rank, the ids of a pair and of the joined token.
    """

    byte_ids: np.ndarray
    characters: np.ndarray
    prefixes: np.ndarray
    pairs: np.ndarray
    joined: np.ndarray


@njit(inline="always")
def look_up_pair(
    pairs: np.ndarray, joined: np.ndarray, piece: np.ndarray, place: int, after: int
) -> None:
    """Write the key and the id that two neighbouring tokens of a piece are joined to.

    Args:
        pairs: that of `Merges`.
        joined: likewise.
        piece: the workspace of `merge_bytes`.
        place: the left token.
        after: the right token.
    """
    rank = find_rank(pairs, joined, piece[IDS, place], piece[IDS, after])
    if rank >= 0:
        piece[KEYS, place] = np.int32(rank << PLACE_BITS | place)
        piece[JOINED, place] = joined[rank, 2]
    else:
        piece[KEYS, place] = NEVER


@njit(inline="always")
def begin_piece(merges: Merges, text: np.ndarray, start: int, end: int, piece: np.ndarray) -> int:
    """Write the tokens with which merging begins to a workspace, and return their number.

    Args:
        merges: the vocabulary.
        text: uint8[bytes]; the piece is valid UTF-8, unless merging begins with bytes alone.
        start: where the piece begins.
        end: where the piece ends.
        piece: the workspace of `merge_bytes`.
    """
    byte_ids, characters, prefixes = merges.byte_ids, merges.characters, merges.prefixes
    count, place = 0, start
    while place < end:
        token, joined, size = byte_ids[text[place]], 1, 1
        if text[place] >= 0x80 and len(characters):
            code, size = read_character(text, place)
            block = code >> 6
            if place > start and text[place - 1] < 0x80:
                code = block = len(characters) + len(prefixes)
            whole = characters[code] if code < len(characters) else NO_TOKEN
            if whole != NO_TOKEN:
                token, joined = whole, size
            elif block < len(prefixes) and prefixes[block] != NO_TOKEN:
                token, joined = prefixes[block], size - 1
        piece[IDS, count] = token
        count += 1
        for byte in range(place + joined, place + size):
            piece[IDS, count] = byte_ids[text[byte]]
            count += 1
        place += size
    return count


@njit(inline="always")
def merge_bytes(
    merges: Merges, text: np.ndarray, start: int, end: int, piece: np.ndarray
) -> np.int64:
    """Write the ids of a piece to the beginning of the row IDS, and return their number.

    Each token is kept at the place of the first one that was merged to it, with the places of its
    neighbours; tokens never move, so that the search for the next pair is the same short loop each
    time.

    Args:
        merges: the vocabulary.
        text: uint8[bytes].
        start: where the piece begins.
        end: where the piece ends, at most LONGEST_PIECE later.
        piece: int32[WORKSPACE], the workspace. Besides IDS, its rows are, for each token: what it
            becomes together with the token after it (JOINED), the rank of that pair combined with
            its own place (KEYS), and the tokens before and after it. LAST begins with the ids of
            the pair that was joined last, and its rank.
    """
    count = begin_piece(merges, text, start, end, piece)
    if count == 1:
        return np.int64(count)
    pairs, joined = merges.pairs, merges.joined
    for place in range(count):
        piece[BEFORE, place], piece[AFTER, place] = place - 1, place + 1
        piece[KEYS, place] = NEVER
    for place in range(count - 1):
        look_up_pair(pairs, joined, piece, place, place + 1)
    while True:
        lowest = NEVER
        for place in range(count):
            lowest = min(lowest, piece[KEYS, place])
        if lowest == NEVER:
            break
        left = lowest & (2**PLACE_BITS - 1)
        right = piece[AFTER, left]
        before, after = piece[BEFORE, left], piece[AFTER, right]
        piece[LAST, 0], piece[LAST, 1] = piece[IDS, left], piece[IDS, right]
        piece[LAST, 2] = lowest >> PLACE_BITS
        piece[IDS, left], piece[AFTER, left] = piece[JOINED, left], after
        piece[KEYS, left] = piece[KEYS, right] = NEVER
        piece[BEFORE, after] = left
        if after < count:
            look_up_pair(pairs, joined, piece, left, after)
        if before >= 0:
            look_up_pair(pairs, joined, piece, before, left)
    written = place = 0
    while place < count:
        piece[IDS, written] = piece[IDS, place]
        written, place = written + 1, piece[AFTER, place]
    return np.int64(written)


@njit
def merge_tokens(
    merges: Merges, text: np.ndarray, ends: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the id that each of several pieces is merged to, and how.

    Args:
        merges: the vocabulary.
        text: uint8[bytes], the pieces one after the other, none longer than LONGEST_PIECE.
        ends: int64[pieces + 1] into text.

    Returns:
        merged: int32[pieces], -1 for pieces of several ids.
        last: int32[pieces, 3], the two ids that are joined last, and the rank of that pair; of no
            meaning for a single byte and for pieces of several ids.
    """
    merged = np.full(len(ends) - 1, NO_TOKEN, np.int32)
    last = np.zeros((len(ends) - 1, 3), np.int32)
    piece = np.zeros(WORKSPACE, np.int32)
    for token in range(len(merged)):
        if merge_bytes(merges, text, ends[token], ends[token + 1], piece) == 1:
            merged[token] = piece[IDS, 0]
            last[token] = piece[LAST, :3]
    return merged, last


@njit
def encode_spans(
    rules: PieceRules,
    merges: Merges,
    tokens: WholeTokens,
    starts: np.ndarray,
    orders: np.ndarray,
    text: np.ndarray,
    spans: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the ids of stretches of text, each tokenized as a text of its own.

    Args:
        rules: the pattern's rules.
        merges: the vocabulary.
        tokens: pieces that need no merging.
        starts: the table of `token_starts`.
        orders: that of `is_disordered`; empty without a normalizer.
        text: uint8[bytes], valid UTF-8.
        spans: int64[n, 2], first byte and end of each stretch.

    Returns:
        ids: int32[...], one stretch's after another's.
        ends: int64[n + 1] into the ids.
        left: bool[n], stretches that are left to the tokenizer and have no ids here.
    """
    text, rules = borrow(text), PieceRules(
        borrow(rules.classes), rules.any_case, rules.most_digits, rules.cased, rules.segmented
    )  # fmt: skip
    merges = Merges(
        borrow(merges.byte_ids), borrow(merges.characters), borrow(merges.prefixes),
        borrow(merges.pairs), borrow(merges.joined),
    )  # fmt: skip
    tokens = WholeTokens(borrow(tokens.begins_long), borrow(tokens.pairs), borrow(tokens.joined))
    ids = np.empty((spans[:, 1] - spans[:, 0]).sum(), np.int32)
    ends, left = np.zeros(len(spans) + 1, np.int64), np.zeros(len(spans), np.bool_)
    piece = np.empty(WORKSPACE, np.int32)
    written = 0
    for span in range(len(spans)):
        place, stop = spans[span]
        left[span] = may_have_token(starts, text, place, stop)
        left[span] |= is_disordered(orders, text, place, stop)
        while place < stop and not left[span]:
            end = end_of_piece(rules, text, place, stop)
            if end < 0 or end - place > LONGEST_PIECE:
                left[span] = True
                break
            whole = find_token(tokens, text, place, end)
            if whole >= 0:
                ids[written] = whole
                written, place = written + 1, end
                continue
            count = merge_bytes(merges, text, place, end, piece)
            for token in range(count):  # a slice would take longer
                ids[written + token] = piece[IDS, token]
            written, place = written + count, end
        if left[span]:
            written = ends[span]
        ends[span + 1] = written
    return ids[:written], ends, left


# Most bytes of a character, and one that may be the last of any.
_LONGEST, _LAST_BYTE = 4, b"\x80"


def begin_with_characters(merges: Merges, model: Part, tokens: dict[str, bytes]) -> Merges:
    """Let merging begin with characters, or their first bytes, wherever that gives the same ids.

    Args:
        merges: the tables of a model, to begin with bytes.
        model: the BPE model of a tokenizer.json.
        tokens: the bytes of its tokens, those of `byte_tokens`.
    """
    vocabulary, pairs = model["vocab"], merges.joined
    size = max(vocabulary.values()) + 1
    numbers = [*map(vocabulary.get, tokens)]
    begins_within, may_be_before = np.zeros((2, size), np.bool_)
    begins_within[numbers] = [0x80 <= token[0] < 0xC0 for token in tokens.values()]
    may_be_before[numbers] = [*map(_ends_with_character, tokens.values())]

    def find_lowest(side: int, beside: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """The lowest rank of a merge of each token on one side with one that is beside it."""
        lowest, ranks = np.full(size, len(pairs)), np.flatnonzero(beside[pairs[:, 1 - side]])
        np.minimum.at(lowest, pairs[ranks, side], ranks)
        return lowest

    short = [token for token in tokens.values() if len(token) <= _LONGEST]
    merged, joined_last = merge_tokens(merges, *join_texts(short))
    last = np.full((size, 3), -1)  # both parts of each token, and the rank of their merge
    joined = (merged >= 0) & (np.array([*map(len, short)]) > 1)
    last[merged[joined]] = joined_last[joined]
    starts = _is_ordered(last) & _is_apart(last, 0, find_lowest(1, may_be_before))
    is_character = starts & _is_apart(last, 1, find_lowest(0, ~begins_within))
    is_prefix = starts & _is_apart(last, 1, find_lowest(0, begins_within))
    codes, blocks = dict[int, int](), dict[int, int]()
    for token, number in zip(short, merged.tolist(), strict=True):
        if number >= 0 and is_character[number]:
            with suppress(UnicodeDecodeError, TypeError):  # it is no single character
                codes[ord(token.decode())] = number
        if number >= 0 and is_prefix[number]:
            with suppress(UnicodeDecodeError, TypeError):
                blocks[ord((token + _LAST_BYTE).decode()) // 64] = number
    return merges._replace(characters=_tabulate(codes), prefixes=_tabulate(blocks))


def _ends_with_character(token: bytes) -> bool:
    """Whether a character of several bytes may end with these bytes of UTF-8."""
    is_within = token[-2:-1] >= b"\xe0" or token[-3:-2] >= b"\xf0"
    return 0x80 <= token[-1] < 0xC0 and not is_within


def _is_ordered(last: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Whether the merges within each token come in the order of their ranks.

    Args:
        last: int64[ids, 3], both parts of each token and the rank of their merge; -1 for a byte.
    """
    ordered = last[:, 2] >= 0
    for _ in range(_LONGEST - 1):
        for parts in last.T[:2]:
            is_before = ordered[parts] & (last[parts, 2] < last[:, 2])
            ordered &= (last[parts, 0] < 0) | is_before
    return ordered


def _is_apart(
    last: npt.NDArray[np.int64], edge: int, lowest_ranks: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Whether no merge with what is beside each token comes before it is whole, nor then has to.

    Args:
        last: that of `_is_ordered`.
        edge: 0 for the left edge, 1 for the right one.
        lowest_ranks: int64[ids], the lowest rank of a merge that joins each token to one beyond
            that edge.
    """
    tokens = np.arange(len(last))
    apart = lowest_ranks > last[:, 2]
    for _ in range(_LONGEST - 1):
        parts, ranks = last[tokens, edge], last[tokens, 2]
        is_joined = parts >= 0
        lowest = lowest_ranks[parts]
        apart &= ~is_joined | (lowest > ranks if edge == 0 else lowest >= ranks)
        tokens = np.where(is_joined, parts, tokens)
    return apart


def _tabulate(numbers: dict[int, int]) -> npt.NDArray[np.int32]:
    """Return an array of numbers by their keys."""
    table = np.full(max(numbers, default=-1) + 1, NO_TOKEN, np.int32)
    table[[*numbers]] = [*numbers.values()]
    return table


def byte_tokens(model: Part) -> dict[str, bytes]:
    """Return the bytes of each token of a vocabulary that may be one of bytes."""
    alphabet = byte_alphabet()
    return {
        token: bytes(alphabet[character] for character in token)
        for token in model["vocab"]
        if token and alphabet.keys() >= set(token)
    }


def compile_byte_level_bpe(
    tokenizer_json: Part, encode_plainly: EncodeSpans
) -> tuple[EncodeSpans, Seams]:
    """Compile a tokenizer, and find where words may be cut.

    Args:
        tokenizer_json: the parsed tokenizer.json of a tokenizer that `is_known`.
        encode_plainly: the tokenizer itself, for stretches that the compiled one leaves.
    """
    pattern = find_pattern(tokenizer_json) or GPT2
    normalizers = list_steps(tokenizer_json, "normalizer")
    classes, orders = pieces.character_classes(pattern), np.empty(0, np.uint8)
    if normalizers:
        changing, orders = list_changing(normalizers[0]["type"])
        classes = np.where(changing, np.uint8(pieces.UNKNOWN), classes)
    rules = pieces.PieceRules(classes, *RULES[pattern])
    model = tokenizer_json["model"]
    merges = read_merges(model)
    names, added = byte_tokens(model), added_tokens(tokenizer_json)
    tokens = find_whole_tokens(merges, model, names)
    after = np.zeros(LONGEST_TOKEN if model.get("ignore_merges") else 0, np.uint8)
    wide = {name: token for name, token in names.items() if len(after) and max(token) >= 0xE0}
    contents = [token["content"] for token in added]
    seams = find_seams(rules, orders, names.values(), list_unmerged(merges, model, wide), contents)
    merges = begin_with_characters(merges, model, names)
    starts = token_starts(added)
    known = partial(encode_spans, rules, merges, tokens, starts, orders)

    def encode_known(
        text: np.ndarray, spans: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        # No token is found where the text ends soon.
        text = np.append(text, after) if len(after) else text
        ids, ends, left = known(text, spans)
        may_learn = left.any() and not normalizers
        if may_learn and pieces.learn_classes(classes, text, spans[left], pattern):
            ids, ends, left = known(text, spans)
        return ids, ends, left

    return completed(encode_known, encode_plainly), seams


def is_known(tokenizer_json: Part) -> bool:
    """Whether a tokenizer to which `choose_unit_rule` has no objection can be compiled."""
    model, alphabet = tokenizer_json["model"], byte_alphabet()
    normalizers = [step["type"] for step in list_steps(tokenizer_json, "normalizer")]
    steps = list_steps(tokenizer_json, "pre_tokenizer")
    return (
        find_pattern(tokenizer_json) in RULES
        and normalizers in ([], ["NFC"], ["NFKC"])
        and not any(step.get("add_prefix_space") for step in steps)
        and not model.get("continuing_subword_prefix")
        and not model.get("end_of_word_suffix")
        and model["vocab"].keys() >= alphabet.keys()
        and len(model["merges"]) + len(alphabet) < MOST_PAIRS
        and (not model.get("ignore_merges") or _merges_make_long_tokens(tokenizer_json))
    )


def read_merges(model: Part) -> Merges:
    """Read the tables of a BPE model of a tokenizer.json, to begin with bytes."""
    vocabulary = model["vocab"]
    byte_ids = np.array([vocabulary[character] for character in byte_alphabet()], np.int32)
    pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
    ids = [(vocabulary[left], vocabulary[right], vocabulary[left + right]) for left, right in pairs]
    joined = np.array(ids, np.int32).reshape(-1, 3)
    none = np.empty(0, np.int32)
    return Merges(byte_ids, none, none, hash_pairs(joined), joined)


def find_whole_tokens(merges: Merges, model: Part, tokens: dict[str, bytes]) -> WholeTokens:
    """Find the tokens that are found by their bytes.

    Llama 3 has some that no merges make; pieces that are tokens are not merged there.

    Args:
        merges: the tables of a model, to begin with bytes.
        model: the BPE model of a tokenizer.json.
        tokens: the bytes of its tokens, those of `byte_tokens`.
    """
    names = {name: token for name, token in tokens.items() if len(token) <= LONGEST_TOKEN}
    text, ends = join_texts(names.values())
    if model.get("ignore_merges"):
        merged = np.array([model["vocab"][name] for name in names], np.int32)
    else:
        merged, _ = merge_tokens(merges, text, ends)
    padded = np.append(text, np.zeros(LONGEST_TOKEN, np.uint8))
    found: WholeTokens = collect_tokens(padded, ends, merged)
    return found


def _merges_make_long_tokens(tokenizer_json: Part) -> bool:
    """Whether the bytes of each token that is not found by them are merged to that token.

    Then it makes no difference whether a piece that is such a token is looked up as a whole.
    """
    model = tokenizer_json["model"]
    added = {token["content"] for token in added_tokens(tokenizer_json)}
    tokens = {
        name: token
        for name, token in byte_tokens(model).items()
        if len(token) > LONGEST_TOKEN and name not in added
    }
    return not list_unmerged(read_merges(model), model, tokens)


def list_unmerged(merges: Merges, model: Part, tokens: dict[str, bytes]) -> list[str]:
    """List the texts of tokens, no longer than pieces, whose bytes are not merged to them."""
    short = {name: token for name, token in tokens.items() if len(token) <= LONGEST_PIECE}
    merged, _ = merge_tokens(merges, *join_texts(short.values()))
    return [
        short[name].decode(errors="ignore")
        for name, token in zip(short, merged, strict=True)
        if token != model["vocab"][name]
    ]
