"""Examples turned back into words, for people to look at."""

import json
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

import pyarrow as pa
from tokenizers import Tokenizer

from corpusmill.arrays.ragged import row_lengths
from corpusmill.objectives.masking.words import LATER_IN_WORD
from corpusmill.tokenization.special_tokens import SpecialTokens

# Of a row that is one stretch of text.
_MOST_SPELLED = 1024

Kind = Literal["plain", "masked", "replaced", "kept"]


@dataclass(frozen=True)
class Piece:
    """One token as it is spelled.

    Attributes:
        text: what the text says there; for a predicted token the original.
        joined: whether it continues the word before it, as `seg_labels` say or else the tokenizer.
        kind: "plain"; or predicted: "masked" ([MASK] stands in the input), "replaced" (another
            token does), "kept" (the original does).
        shown: what stands in the input.
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
        segments: without [CLS], [SEP] and filling; one segment where the data set knows neither
            pairs nor boundaries of documents.
        next_sentence_label: 1 where the second segment is of a random document, None where the data
            set has no such column.
        sentence_order_label: 1 where the two segments are switched, None likewise.
        length: tokens, special tokens included.
        predictions: predicted tokens, None where the data set has no such columns.
    """

    segments: tuple[Segment, ...]
    next_sentence_label: int | None
    length: int
    predictions: int | None
    sentence_order_label: int | None = None


class _Row(NamedTuple):
    input_ids: Sequence[int]
    token_type_ids: Sequence[int]
    originals: Mapping[int, int]
    ends: Sequence[int]
    seg_labels: Sequence[int]


def decode_examples(
    batch: pa.RecordBatch, tokenizer_json: str, special: SpecialTokens
) -> list[DecodedExample]:
    """The rows of a batch as words.

    Args:
        batch: rows of a shard, ragged or padded; `input_ids` must be there. Without
            `token_type_ids` and `cu_seqlens` there is one segment, of which the first 1,024 tokens
            are spelled; without `masked_lm_positions` no prediction.
        tokenizer_json: of the data set.
        special: the tokenizer's special ids.

    Example:
        input_ids [2, 10, 4, 3, 12, 3], where 2, 3 and 4 are [CLS], [SEP] and [MASK], with
        masked_lm_positions [2] and masked_lm_ids [11] reads "the [MASK->lighthouse]" and "stands".
    """
    spell = _speller(tokenizer_json)
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    lengths = row_lengths(columns["input_ids"], special.pad_id or 0).tolist()
    decoded = []
    for i, length in enumerate(lengths):
        row = _row(columns, i, length)
        segments = tuple(
            _decode_segment(row, places, spell, special) for places in _segment_places(row)
        )
        next_label, order_label = (
            int(columns[name][i].as_py()) if name in columns else None
            for name in ("next_sentence_label", "sentence_order_label")
        )
        predictions = len(row.originals) if "masked_lm_positions" in columns else None
        unseen = length - len(row.input_ids)
        if unseen:
            more = Piece(f"... and {unseen:,} more tokens", False, "plain", "")
            segments = (*segments[:-1], (*segments[-1], more))
        decoded.append(DecodedExample(segments, next_label, length, predictions, order_label))
    return decoded


def name_segments(example: DecodedExample) -> list[str]:
    """A and B for a pair's segments, numbers for documents that were packed."""
    if len(example.segments) <= 2:
        return ["A", "B"][: len(example.segments)]
    return [str(number) for number in range(1, len(example.segments) + 1)]


def write_plainly(segment: Segment) -> str:
    """A segment in brackets and arrows, for places without colours.

    `[MASK->lighthouse]`: masked; `[tree->lighthouse]`: replaced by a random token; `[=lighthouse]`:
    predicted, but left as it is.
    """
    words = ""
    for piece in segment:
        words += "" if piece.joined or not words else " "
        words += _in_brackets(piece)
    return words


def _in_brackets(piece: Piece) -> str:
    forms = {"plain": piece.text, "masked": f"[MASK->{piece.text}]", "kept": f"[={piece.text}]"}
    return forms.get(piece.kind, f"[{piece.shown}->{piece.text}]")


def _row(columns: Mapping[str, pa.Array], i: int, length: int) -> _Row:
    def values(name: str) -> list[int]:
        return columns[name][i].as_py() if name in columns else []

    # Place 0 holds [CLS], which is never predicted: a 0 fills a padded row.
    predicted = zip(values("masked_lm_positions"), values("masked_lm_ids"), strict=True)
    originals = {place: token for place, token in predicted if place}
    if "token_type_ids" not in columns and "cu_seqlens" not in columns:
        # A row may be a whole book.
        length = min(length, _MOST_SPELLED)
    types = values("token_type_ids")[:length] or [0] * length
    ends = [mark for mark in values("cu_seqlens") if mark]
    token_ids = columns["input_ids"][i].values[:length].to_pylist()
    return _Row(token_ids, types, originals, ends, values("seg_labels")[:length])


def _segment_places(row: _Row) -> list[range]:
    if row.ends:
        return [range(*ends) for ends in pairwise((0, *row.ends))]
    second = row.token_type_ids.index(1) if 1 in row.token_type_ids else len(row.input_ids)
    places = [range(second)]
    return [*places, range(second, len(row.input_ids))] if second < len(row.input_ids) else places


def _decode_segment(
    row: _Row, places: range, spell: Callable[[int], tuple[str, bool]], special: SpecialTokens
) -> Segment:
    if places and row.input_ids[places[0]] == special.cls_id and places[0] == 0:
        places = places[1:]
    if places and row.input_ids[places[-1]] == special.sep_id and places[-1] not in row.originals:
        places = places[:-1]
    return tuple(_decode_token(row, place, spell, special) for place in places)


def _decode_token(
    row: _Row, place: int, spell: Callable[[int], tuple[str, bool]], special: SpecialTokens
) -> Piece:
    token = row.input_ids[place]
    original = row.originals.get(place)
    text, joined = spell(token if original is None else original)
    if row.seg_labels:
        joined = row.seg_labels[place] == LATER_IN_WORD
    kind: Kind = "replaced"
    if original is None:
        kind = "plain"
    elif token == special.mask_id:
        kind = "masked"
    elif token == original:
        kind = "kept"
    return Piece(text, joined, kind, text if original in {None, token} else spell(token)[0])


def _speller(tokenizer_json: str) -> Callable[[int], tuple[str, bool]]:
    """A function from an id to its text and whether that continues a word."""
    tokenizer = Tokenizer.from_str(tokenizer_json)
    settings = json.loads(tokenizer_json)
    prefix = settings["model"].get("continuing_subword_prefix") or ""
    # Where spaces are part of a token, one without a leading space continues the word before it.
    spaces = any(f'"type": "{kind}"' in json.dumps(settings) for kind in ("Metaspace", "ByteLevel"))
    spaces = spaces or "\u2581" in str(settings.get("decoder"))  # SentencePiece's

    def spell(token_id: int) -> tuple[str, bool]:
        token = tokenizer.id_to_token(token_id)
        if token is None:
            return f"[id {token_id}]", False
        if prefix and token.startswith(prefix):
            return _printable(token.removeprefix(prefix)), True
        if spaces:
            begins = token.startswith(("\u2581", "\u0120"))  # Metaspace's and ByteLevel's space
            text = tokenizer.decode([token_id], skip_special_tokens=False)
            # A token of spaces alone is the space in front of the next one.
            return _printable(text.strip(" ") if text else token), not begins
        return _printable(token), False

    return spell


def _printable(text: str) -> str:
    """Control characters as escapes, so that no text can steer a terminal."""
    return "".join(
        char.encode("unicode_escape").decode() if unicodedata.category(char) == "Cc" else char
        for char in text
    )
