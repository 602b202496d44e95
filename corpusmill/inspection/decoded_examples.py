"""Examples decoded to words, for people to look at."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice, pairwise
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusmill.arrays.columns import Column, Role, column_of
from corpusmill.arrays.ragged import row_lengths
from corpusmill.dataset.manifest import Manifest
from corpusmill.dataset.shards import damaged_file, read_shard
from corpusmill.errors import catch_panics, in_one_line, printable
from corpusmill.location import Location
from corpusmill.objectives.masking.words import LATER_IN_WORD
from corpusmill.tokenization.growth import load_tokenizer
from corpusmill.tokenization.tokenizer_file import SpecialTokens

# Of a row that is one stretch of text.
_MOST_SPELLED = 1024

Kind = Literal["plain", "masked", "replaced", "kept", "learned"]


@dataclass(frozen=True)
class Piece:
    """One token as text.

    Attributes:
        text: the token's text; for a predicted token the original.
        joined: whether it continues the word before it, by the column of words or else by the
            tokenizer.
        kind: "plain"; or, for predicted tokens, what the input has: "masked" ([MASK]), "replaced"
            (another token), "kept" (the original); or "learned", where only some tokens are.
        shown: the input's token.
    """

    text: str
    joined: bool
    kind: Kind
    shown: str


Segment = tuple[Piece, ...]


@dataclass(frozen=True)
class DecodedExample:
    """One example as a person reads it.

    Attributes:
        segments: without [CLS], [SEP] and padding; one segment if the data set has neither pairs
            nor boundaries of documents. The targets of a decoder are the last one.
        classes: names of the example's classes, by what they are about: {"second segment":
            "random"}.
        length: tokens, special tokens included.
        predictions: number of predicted tokens; None if the data set has no such columns.
        has_targets: whether the last segment is the targets of a decoder.
        learned: number of tokens that are learned; None if the data set has no such column.
    """

    segments: tuple[Segment, ...]
    classes: Mapping[str, str]
    length: int
    predictions: int | None
    has_targets: bool = False
    learned: int | None = None


# From an id to its text, and whether that continues a word.
_Spell = Callable[[int], tuple[str, bool]]


class _Row(NamedTuple):
    token_ids: Sequence[int]
    segments: Sequence[range]
    originals: Mapping[int, int]
    words: Sequence[int]
    learned: Sequence[bool] = ()


@catch_panics("the tokenizers library")
def decode_examples(
    batch: pa.RecordBatch,
    columns: Sequence[Column],
    tokenizer_json: str,
    special: SpecialTokens,
) -> list[DecodedExample]:
    """The rows of a batch as words.

    Args:
        batch: rows of a shard, ragged or padded.
        columns: what its columns are, the tokens first. Without segments or boundaries, a row is
            one segment, and its first 1,024 tokens are spelled.
        tokenizer_json: of the data set.
        special: the tokenizer's special ids.

    Example:
        input_ids [2, 10, 4, 3, 12, 3], where 2, 3 and 4 are [CLS], [SEP] and [MASK], with
        masked_lm_positions [2] and masked_lm_ids [11] reads "the [MASK->lighthouse]" and "stands".
    """
    spell = _speller(tokenizer_json, frozenset(token for _, token in special.roles))
    arrays = {column.role: batch.column(column.name) for column in columns}
    mask, targets = column_of(columns, Role.LEARNED), column_of(columns, Role.TARGET_IDS)
    columns_of_classes = [column for column in columns if column.role is Role.CLASS]
    lengths = row_lengths(arrays[Role.TOKEN_IDS], columns[0].pad).tolist()
    target_lengths = [0] * len(lengths)
    if targets:
        target_lengths = row_lengths(arrays[Role.TARGET_IDS], targets.pad).tolist()
    decoded = []
    for i, length in enumerate(lengths):
        row = _row(arrays, i, length)
        if mask:
            values = arrays[Role.LEARNED][i].values.to_numpy()[:length]
            row = row._replace(learned=(values != mask.pad).tolist())
        segments = [_decode_segment(row, places, spell, special) for places in row.segments]
        if unseen := length - len(row.token_ids):
            more = Piece(f"... and {unseen:,} more tokens", False, "plain", "")
            segments[-1] = (*segments[-1], more)
        if targets:
            most = min(target_lengths[i], _MOST_SPELLED)
            token_ids = arrays[Role.TARGET_IDS][i].values[:most].to_pylist()
            target = _Row(token_ids, (), {}, ())
            segments.append(_decode_segment(target, range(len(token_ids)), spell, special))
        classes = {column.title: _name_class(column, batch, i) for column in columns_of_classes}
        predictions = len(row.originals) if Role.POSITIONS in arrays else None
        learned = sum(row.learned) if mask else None
        example = DecodedExample(
            (*segments,), classes, length, predictions, targets is not None, learned
        )
        decoded.append(example)
    return decoded


def _name_class(column: Column, batch: pa.RecordBatch, row: int) -> str:
    names, value = column.value_names, batch.column(column.name)[row].as_py()
    return names[value] if 0 <= value < len(names) else str(value)


def name_segments(example: DecodedExample) -> list[str]:
    """Name the segments of a pair A and B, those of a decoder, or number packed documents."""
    if example.has_targets and len(example.segments) == 2:
        return ["input", "target"]
    if len(example.segments) <= 2:
        return ["A", "B"][: len(example.segments)]
    return [str(number) for number in range(1, len(example.segments) + 1)]


def write_plainly(segment: Segment) -> str:
    """A segment as plain text, for terminals without colours.

    `[MASK->lighthouse]` is masked, `[tree->lighthouse]` is replaced by a random token, and
    `[=lighthouse]` is predicted but unchanged. What is learned stands in braces, where only some
    tokens are.
    """
    words, was_learned = "", False
    for piece in segment:
        is_learned = piece.kind == "learned"
        words += "}" * (was_learned and not is_learned)
        words += "" if piece.joined or not words else " "
        words += "{" * (is_learned and not was_learned)
        begins = {"masked": "[MASK->", "kept": "[=", "replaced": f"[{piece.shown}->"}
        begin = begins.get(piece.kind, "")
        words += f"{begin}{piece.text}]" if begin else piece.text
        was_learned = is_learned
    return words + "}" * was_learned


def _row(arrays: Mapping[Role, pa.Array], i: int, length: int) -> _Row:
    def values(role: Role) -> list[int]:
        return arrays[role][i].as_py() if role in arrays else []

    # Position 0 holds [CLS], which is never predicted, so that a 0 is padding.
    predicted = zip(values(Role.POSITIONS), values(Role.PREDICTED_IDS), strict=True)
    originals = {place: token for place, token in predicted if place}
    if Role.SEGMENTS not in arrays and Role.BOUNDARIES not in arrays:
        # A row may be a whole book.
        length = min(length, _MOST_SPELLED)
    ends = [boundary for boundary in values(Role.BOUNDARIES) if boundary]
    if not ends:
        numbers = values(Role.SEGMENTS)[:length] or [0] * length
        ends = sorted({[*numbers, 1].index(1), length})
    segments = [range(*places) for places in pairwise((0, *ends))]
    token_ids = arrays[Role.TOKEN_IDS][i].values[:length].to_pylist()
    return _Row(token_ids, segments, originals, values(Role.WORDS)[:length])


def _decode_segment(row: _Row, places: range, spell: _Spell, special: SpecialTokens) -> Segment:
    if places and row.token_ids[places[0]] == special.cls_id and places[0] not in row.originals:
        places = places[1:]
    if places and row.token_ids[places[-1]] == special.sep_id and places[-1] not in row.originals:
        places = places[:-1]
    return tuple(_decode_token(row, place, spell, special) for place in places)


def _decode_token(row: _Row, place: int, spell: _Spell, special: SpecialTokens) -> Piece:
    token = row.token_ids[place]
    original = row.originals.get(place)
    text, joined = spell(token if original is None else original)
    if row.words:
        joined = row.words[place] == LATER_IN_WORD
    kind: Kind = "replaced"
    if original is None:
        kind = "learned" if row.learned and row.learned[place] else "plain"
    elif token == special.mask_id:
        kind = "masked"
    elif token == original:
        kind = "kept"
    return Piece(text, joined, kind, text if original in {None, token} else spell(token)[0])


@lru_cache(maxsize=1)  # for all shards
def _speller(tokenizer_json: str, apart: frozenset[int]) -> _Spell:
    """A function from an id to its text and whether that continues a word; `apart` never do."""
    tokenizer = load_tokenizer(tokenizer_json)
    settings = json.loads(tokenizer_json)
    prefix = settings["model"].get("continuing_subword_prefix") or ""
    # If spaces are part of tokens, a token without a leading space continues a word.
    spaces = any(f'"type": "{kind}"' in json.dumps(settings) for kind in ("Metaspace", "ByteLevel"))
    spaces = spaces or "\u2581" in str(settings.get("decoder"))  # SentencePiece's

    def spell(token_id: int) -> tuple[str, bool]:
        token = tokenizer.id_to_token(token_id)
        if token is None:
            return f"[id {token_id}]", False
        if prefix and token.startswith(prefix):
            return printable(token.removeprefix(prefix)), True
        if spaces:
            begins = token.startswith(("\u2581", "\u0120"))  # Metaspace's and ByteLevel's space
            text = tokenizer.decode([token_id], skip_special_tokens=False)
            # A token of spaces only is the space before the next token.
            joined = not begins and token_id not in apart
            return printable(text.strip(" ") if text else token), joined
        return printable(token), False

    return spell


@dataclass(frozen=True)
class DrawnExample:
    """An example, and where it stands.

    Attributes:
        split: name of its split.
        shard: name of its shard.
        row: its number in the shard, from 0.
        example: what it says.
    """

    split: str
    shard: str
    row: int
    example: DecodedExample


def draw_examples(
    folder: Location, manifest: Manifest, tokenizer_json: str, split: str, number: int
) -> list[DrawnExample]:
    """Draw examples of a split, each example with the same probability.

    The shards are drawn, in proportion to their rows, by the seed of the data set, so that the same
    data set shows the same examples. Of each drawn shard the first rows are taken: they stand in
    random order, and no format needs to read further than these.

    Args:
        folder: of the data set.
        manifest: of the data set.
        tokenizer_json: content of the data set's tokenizer.
        split: name of the split.
        number: how many examples; all of them if there are fewer.

    Raises:
        UserError: a shard is damaged.
    """
    shards = manifest.splits[split].shards
    ends = np.cumsum([shard.rows for shard in shards])
    total = int(ends[-1])
    draws = _draw(total, min(number, total), manifest.seed)
    homes = [shards[home].file for home in np.searchsorted(ends, draws, side="right")]
    rows = {
        file: enumerate(_read_first(folder, manifest, tokenizer_json, file, count))
        for file, count in Counter(homes).items()
    }
    examples = ((file, *found) for file in homes for found in islice(rows[file], 1))
    return [DrawnExample(split, file, row, example) for file, row, example in examples]


def _draw(total: int, number: int, seed: int) -> npt.NDArray[np.int64]:
    """Draw different numbers below a total, of which fewer are the first ones of more."""
    generator, drawn = np.random.default_rng(seed), np.zeros(0, np.int64)
    while len(drawn) < number:
        more = (generator.random(number) * total).astype(np.int64)
        drawn = np.concatenate([drawn, more])
        drawn = drawn[np.sort(np.unique(drawn, return_index=True)[1])]
    return drawn[:number]


def _read_first(
    folder: Location, manifest: Manifest, tokenizer_json: str, shard: str, number: int
) -> list[DecodedExample]:
    """Decode the first rows of a shard."""
    special = manifest.tokenizer.special
    if manifest.objective.bounds_of_text:  # these tokens are what there is to see
        special = replace(special, cls_id=None, sep_id=None)
    decoded = list[DecodedExample]()
    try:
        for batch in read_shard(folder, manifest, shard, number):
            some = batch.slice(0, number - len(decoded))
            decoded += decode_examples(some, manifest.columns, tokenizer_json, special)
            if len(decoded) == number:
                break
    except Exception as error:  # rows that are not what the manifest says fail in many ways
        cause = f"its rows cannot be shown ({in_one_line(error)})"
        raise damaged_file(folder, shard, cause) from error
    return decoded
