"""The memo of words gives the ids of the whole text."""

import string
import threading
from itertools import chain, pairwise, product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from corpusmill.tokenization.compiled import word_memo
from corpusmill.tokenization.compiled import word_memo as kernels
from corpusmill.tokenization.compiled.units import (
    NO_SINGLE,
    EncodeTexts,
    encode_spans_by,
    read_part,
)
from corpusmill.tokenization.compiled.word_memo import MemoArrays, allocate_memo
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer
from tests.tools.knobs import knobs
from tests.tools.lazily import Lazily
from tests.tools.token_rows import as_arrays, encoded_rows, plain_rows, rows
from tests.tools.tokenizer_samples import MEMOIZING, TEXT, WIDE

# fmt: off
SPECIAL_STRINGS = [
    "[SEP]", "[MASK]", "[CLS]", "[UNK]", "[PAD]", "a[SEP]b", "[MASK][MASK]", "[sep]", "[ SEP ]",
    "##ing", "<unk>", "film", "filmfilm", "Film", WIDE, f"x{WIDE}x", "AB", "ab", "<s>", "<mask>",
    "a<mask>", "<mask>.", "<|endoftext|>", "a<|endoftext|>b", "<|endoftext|><mask>",
]
ODD = [
    # Combining marks, Hangul letters, characters that decompose into a space, or into many
    " ", "  ", "\u0301", "e\u0301", " \u0301x", "\u0308\u0301", "\u0338", "=\u0338", "\u1100",
    "\u1161", "\u11a8", "\u00b4", "\ufdfa",
    # Spaces outside ASCII, marks of width zero, control characters
    "\u00a0", "\u3000", "\u2003", "\u200b", "\u200d", "\ufeff", "\t", "\n", "\r", "\x00", "\x01",
    "\x1c", "\x1f", "\x7f", "\x85", "\u2028", "\ufffd",
    "ΑΣ", "Σ", "İ", "ß", "ﬁ", "Å", "株", "東京", "👍🏽", "👩\u200d🚀", "🇩🇪", ".", ",", "'", "-",
    "1", "٣", "\U000e0001", "'s", "'LL", "don't", "'\u017f", "1234567", "!!!", "\r\n", "\n\n",
    "，", "、", "。", "株，", "（株）",
    "\u1680", "\u205f", "ไทยเขียน", "हिन्दी", "العربية", "\U00020000", "\u4dff",
]
# fmt: on
words = st.one_of(
    st.sampled_from(" ".join(TEXT).split()),
    st.sampled_from(SPECIAL_STRINGS),
    st.sampled_from(ODD),
    st.text(st.characters(codec="utf-8"), max_size=6),
    st.builds(
        lambda word, times: word * times,
        st.sampled_from(["a", "株", "xy", "\u0301"]),
        st.integers(20, 120),
    ),
)
pieces = st.lists(st.tuples(words, st.sampled_from(["", " ", " ", "  "])), max_size=12)
sentences_of_text = st.lists(
    pieces.map(lambda parts: "".join(word + gap for word, gap in parts)), max_size=6
)

TINY, SMALL, USUAL = 1, 1 << 13, 1 << 20
TOKENIZERS = Lazily(
    product(MEMOIZING, (TINY, SMALL, USUAL)),
    lambda key: knobs(small=True, memo_bytes=key[1])(SentenceTokenizer)(
        MEMOIZING[key[0]], np.dtype(np.int16)
    ),
)
PLAIN = Lazily(MEMOIZING, lambda name: Tokenizer.from_str(MEMOIZING[name]))


@settings(max_examples=12, deadline=None)
@given(sentences=sentences_of_text)
@example(
    sentences=["", " ", "   ", " a", "a ", "a  b", "\u0301 \u0301a", "a \u0301", "\u00b4 \u0301"]
)
@example(sentences=SPECIAL_STRINGS)
@example(sentences=[" ".join(SPECIAL_STRINGS), " ".join(ODD), "".join(ODD), *ODD])
@example(sentences=["x" * 128 + " " + "x" * 127 + " " + "x" * 128 + " " + "y" * 300] * 3)
@example(sentences=["株，式。 ：株（a）\u9fbf？\u9fff！\u4dff，\u4e00、"] * 2)
@example(
    sentences=[
        "株，式。株\u0301式，\u0301 株。\n式株、a。株（式）東株\u3099，東，式",
        "，株",
        "株。",
    ]
    * 2
)
@example(sentences=[" ".join(f"word{number}" for number in range(400))] * 2)
def test_the_memo_gives_the_ids_of_the_whole_text(sentences: list[str]) -> None:
    # Generating a text takes longer than encoding it, so all tokenizers share it.
    expected = {name: plain_rows(plain, sentences) for name, plain in PLAIN.items()}
    for (name, size), tokenizer in TOKENIZERS.items():
        assert tokenizer.memoizes, name
        # The memo is kept from example to example, so that it is filled and emptied again.
        for _ in range(2):
            assert encoded_rows(tokenizer, sentences) == expected[name], (name, size)


@settings(max_examples=40, deadline=None)
@given(sentences=sentences_of_text, cuts=st.lists(st.integers(0, 6), max_size=4))
def test_the_cutting_into_batches_does_not_matter(sentences: list[str], cuts: list[int]) -> None:
    text, offsets = as_arrays(sentences)
    expected = plain_rows(PLAIN["BPE, NFKC"], sentences)
    bounds = sorted({0, len(sentences), *(cut for cut in cuts if cut < len(sentences))})
    for size in (TINY, USUAL):
        encoded = []
        for first, last in pairwise(bounds):
            # The batch's sentences, with others around them
            part = TOKENIZERS["BPE, NFKC", size].encode(text, offsets[first : last + 1])
            encoded += rows(*part)
        assert encoded == expected


class CountingEncoder:
    """Gives the bytes of a text as its ids, and keeps the texts."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        self.asked += texts
        text, offsets = as_arrays(texts)
        return text.astype(np.int32), offsets


def make_memo(
    encode_texts: EncodeTexts, memory_bytes: int, first_bytes: int = 1 << 22
) -> word_memo.WordMemo:
    with knobs(memo_bytes=max(1, memory_bytes), first_memo_bytes=first_bytes):
        return word_memo.WordMemo(encode_spans_by(encode_texts))


def encode(memo: word_memo.WordMemo, *sentences: str) -> list[list[int]]:
    return rows(*memo.encode(*as_arrays(list(sentences)), np.dtype(np.int32)))


def bytes_of(*sentences: str) -> list[list[int]]:
    return [list(sentence.encode()) for sentence in sentences]


def test_a_word_is_tokenized_once() -> None:
    encoder = CountingEncoder()
    memo = make_memo(encoder, 1 << 16)
    assert encode(memo, "to be or not to be", "be") == bytes_of("to be or not to be", "be")
    assert encoder.asked == ["to", " be", " or", " not", " to", "be"]
    encode(memo, "to be not to be")
    assert encoder.asked == ["to", " be", " or", " not", " to", "be"]


def test_long_units_are_not_remembered() -> None:
    encoder = CountingEncoder()
    memo = make_memo(encoder, 1 << 16)
    shorter, longest, longer = "c" * 127, " " + "a" * 127, " " + "b" * 128
    sentences = (f"{shorter}{longest}{longer} ab", longer)
    for _ in range(2):
        assert encode(memo, *sentences) == bytes_of(*sentences)
    assert encoder.asked == [shorter, longest, " ab", longer, longer, longer, longer]


def test_units_go_on_from_block_to_block() -> None:
    for size, gap in product((1022, 1023, 1024, 1025, 2048, 3000), (1, 2, 9, 120, 700)):
        text = bytearray(b"x" * size)
        text[gap::gap] = b" " * len(text[gap::gap])
        encoder = CountingEncoder()
        memo = make_memo(encoder, 1 << 16)
        for _ in range(2):
            assert encode(memo, text.decode(), "y") == bytes_of(text.decode(), "y")
        last = " " * (size > gap) + "x" * ((size - 1) % gap if size > gap else size)
        units = {"x" * min(gap, size), " " + "x" * (gap - 1), last, "y"}
        assert units.issuperset(encoder.asked), (size, gap)


@pytest.mark.parametrize("length", [1, 3, 14, 15, 60])
def test_a_full_memo_is_emptied_and_used_again(length: int) -> None:
    # 15 entries, 16 words of long units and 64 ids: entries run out first, or ids, or words.
    encoder = CountingEncoder()
    memo = make_memo(encoder, 0)
    batch = " ".join(letter * length for letter in string.ascii_lowercase)
    for _ in range(3):
        assert encode(memo, batch, batch) == bytes_of(batch, batch)
        encoder.asked.clear()
        assert encode(memo, "xx yy xx") == bytes_of("xx yy xx")
        assert encode(memo, "xx yy xx") == bytes_of("xx yy xx")
        assert encoder.asked == ["xx", " yy", " xx"]


@pytest.mark.parametrize("first_bytes", [1 << 10, 1 << 22])
@pytest.mark.parametrize("memory_bytes", [0, 1 << 12, 100_000, 1 << 20])
def test_memory_stays_bounded(memory_bytes: int, first_bytes: int) -> None:
    memo = make_memo(CountingEncoder(), memory_bytes, first_bytes)
    for first in range(0, 40_000, 4_000):
        batch = " ".join(f"{number}-{'x' * (number % 61)}" for number in range(first, first + 4000))
        assert encode(memo, batch) == bytes_of(batch)
        known = memo._memo.used[0] - 1
        assert known < len(memo._memo.entries) // 4
        assert np.count_nonzero(memo._memo.slots) == known
        arrays = memo._memo[:-1]
        assert sum(array.nbytes for array in arrays) <= max(memory_bytes, 1024)


def test_a_memo_that_grows_remembers_its_words() -> None:
    encoder = CountingEncoder()
    memo = make_memo(encoder, 1 << 20, 1 << 10)  # 15 entries at first
    words = [f"{number}-{'x' * (number % 3)}" for number in range(2000)]
    for first in range(0, len(words), 2):  # the memo always has room for two
        batch = " ".join(words[: first + 2])
        assert encode(memo, batch) == bytes_of(batch)
    assert encoder.asked == [words[0], *(f" {word}" for word in words[1:])]


def test_ids_without_room_are_right_for_their_batch() -> None:
    def many(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        return np.repeat([len(text) for text in texts], 50).astype(np.int32), np.arange(
            0, 50 * len(texts) + 1, 50
        )

    memo = make_memo(many, 0)  # 64 ids
    for _ in range(3):
        assert encode(memo, "a", "bb ccc a") == [[1] * 50, [2] * 50 + [4] * 50 + [2] * 50]


def test_units_with_equal_hashes_are_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    # A kernel is compiled with the kernels that it calls: plain Python functions are used here.
    for name in ("read_unit", "find_entry", "add_entry", "compare_units", "look_up", "has_tail"):
        monkeypatch.setattr(kernels, name, getattr(kernels, name).py_func)
    monkeypatch.setattr(kernels, "tag_of", lambda _value, _index: np.uint32(0))
    monkeypatch.setattr(kernels, "entry_bits", lambda index: np.uint32(len(index) // 2 - 1))
    monkeypatch.setattr(kernels, "hash_unit", lambda _first, _second: np.uint64(0))
    monkeypatch.setattr(kernels, "hash_tail", lambda _text, _start, _end: np.uint64(0))
    memo = make_memo(CountingEncoder(), 1 << 12)
    long = "abcdefghijklmnopqrstuvw"
    sentences = ("ab abc ba ab b", "a ab abc c", f"{long} {long}x {long[:-1]}x {long[:15]} {long}")
    for _ in range(2):
        assert encode(memo, *sentences) == bytes_of(*sentences)


def test_a_failing_tokenizer_leaves_no_entry_behind() -> None:
    encoder = CountingEncoder()
    failing = True

    def sometimes(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        if failing:
            raise ValueError("refused")
        return encoder(texts)

    memo = make_memo(sometimes, 1 << 12)
    with pytest.raises(ValueError, match="refused"):
        encode(memo, "a b")
    failing = False
    assert encode(memo, "a b") == bytes_of("a b")


def test_threads_may_share_a_tokenizer() -> None:
    with knobs(small=True, memo_bytes=1):
        tokenizer = SentenceTokenizer(MEMOIZING["WordPiece, cased"], np.dtype(np.int16))
    plain = PLAIN["WordPiece, cased"]
    batches = [[f"{sentence} w{number}" for sentence in TEXT] for number in range(40)]
    wrong: list[int] = []

    def work(first: int) -> None:
        wrong.extend(
            number
            for number in range(first, len(batches), 4)
            if encoded_rows(tokenizer, batches[number]) != plain_rows(plain, batches[number])
        )

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# Its kernels


# Bytes near others in value, and with the highest bit set, where bit tricks go wrong
byte_strings = st.lists(st.sampled_from([0, 1, 32, 97, 127, 128, 254]), max_size=40).map(bytes)


def padded(text: bytes) -> np.ndarray:
    return np.frombuffer(text + b"\xa0 \x00\xff\x20\x21\x1f\x80" * 2, np.uint8)


@settings(max_examples=40, deadline=None)
@given(text=byte_strings)
@example(text=bytes(range(24)))
def test_units_are_read_in_words_that_are_filled_up(text: bytes) -> None:
    for size in range(len(text) + 1):
        expected = text[:size][:16].ljust(16, b"\xff")
        words = kernels.read_unit(padded(text), 0, size)
        if size <= kernels.SHORT_UNIT:
            assert np.array(words, np.uint64).tobytes() == expected
        for place in range(0, 16, 8):
            word = np.uint64(read_part(padded(text), place, size - place))
            assert place >= len(padded(text)) - 8 or word.tobytes() == expected[place : place + 8]


@pytest.mark.parametrize("length", [16, 17, 24, 25, 64])
def test_a_change_anywhere_changes_the_hash_of_a_long_unit(length: int) -> None:
    text = bytes(range(100, 100 + length))
    values = {kernels.hash_tail(padded(text), 0, length)}
    for place in range(8, length):
        for bit in range(8):
            changed = bytearray(text)
            changed[place] ^= 1 << bit
            values.add(kernels.hash_tail(padded(bytes(changed)), 0, length))
    assert len(values) == 1 + 8 * (length - 8)
    assert all(kernels.is_long(np.uint64(value)) for value in values)


@pytest.mark.parametrize("before", [0, 2, 4, 7, 11, 13])
def test_units_that_differ_in_any_place_are_spread_over_the_index(before: int) -> None:
    memo = allocate_memo(1 << 18)  # 8192 slots: 2000 at random take 1775 of them, 13 up or down
    slots = {find(memo, b"", b"x" * before + b"%04d" % number)[1] for number in range(2000)}
    assert len(memo.slots) == 8192
    assert len(slots) > 1600


def find(memo: MemoArrays, before: bytes, unit: bytes) -> tuple[int, int, np.uint64]:
    span = len(before), len(before) + len(unit)
    entry, slot, second = kernels.find_entry(memo, padded(before + unit), span)
    return int(entry), int(slot), np.uint64(second)


def test_single_characters_of_three_bytes_are_found_in_a_table() -> None:
    asked: list[str] = []

    def encode(text: np.ndarray, spans: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        units = [text[start:end].tobytes().decode() for start, end in spans]
        asked.extend(units)
        rows = [[ord(character) for character in unit.replace("式", "ab")] for unit in units]
        return np.array([*chain(*rows)], np.int32), np.cumsum([0, *map(len, rows)])

    memo = kernels.WordMemo(encode, "ideographs")
    # fmt: off
    sentences = [
        "株東式株，東。", "，", "\u3099", "\u3099株", "é", "aéb", "東\u0301", "株東\u3099", "𠀀",
    ]
    # fmt: on
    text = np.frombuffer("".join(sentences).encode(), np.uint8)
    offsets = np.cumsum([0, *(len(sentence.encode()) for sentence in sentences)])
    for _ in range(3):
        ids, ends = memo.encode(text, offsets, np.dtype(np.int32))
        rows = ["".join(map(chr, ids[first:last])) for first, last in pairwise(ends)]
        assert rows == [sentence.replace("式", "ab") for sentence in sentences]
    assert len(asked) == len(set(asked))
    known = np.flatnonzero(memo._table != NO_SINGLE)
    # Those that extend others are not in it, nor those with several ids.
    assert {chr(code): int(memo._table[code]) for code in known} == {
        "株": ord("株"), "東": ord("東"), "，": ~ord("，"), "。": ~ord("。"),
    }  # fmt: skip


@pytest.mark.parametrize("largest", [2**28 - 1, 2**28, 2**31 - 1])
def test_ids_may_have_any_size(largest: int) -> None:
    def encode(_: np.ndarray, spans: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        ids = np.tile(np.arange(largest - 3, largest + 1, dtype=np.int32), len(spans))
        return ids, np.arange(0, len(ids) + 1, 4)

    memo = kernels.WordMemo(encode)
    text = np.frombuffer(b"a bb a bb", np.uint8)
    for _ in range(2):
        ids, _ = memo.encode(text, np.array([0, len(text)]), np.dtype(np.int32))
        assert ids.tolist() == [*range(largest - 3, largest + 1)] * 4
