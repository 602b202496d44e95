"""The compiled counters count what the plain reference counts, one word after another."""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import chain

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import normalizers, pre_tokenizers

from corpusmill.errors import UserError
from corpusmill.tokenization.compiled.byte_level_pieces import byte_alphabet
from corpusmill.tokenization.compiled.units import cut_long
from corpusmill.tokenization.training.counted_words import WordLimits
from corpusmill.tokenization.training.parts import PATTERNS, split_by
from corpusmill.tokenization.training.word_counters import (
    FEW_CODES,
    IDEOGRAPHS,
    MANY_CODES,
    BertCounter,
    ByteLevelCounter,
    CutWords,
    UnitCounter,
    WordCounter,
    read_bert_characters,
    word_cutter,
)
from tests.tools.knobs import knobs
from tests.tools.tokenizer_samples import TEXT
from tests.tools.training import count_text, counter_of

# Words counted one by one in Python: the plain reference of the compiled counters.


# A sentence with more characters per unit is cut into words at once: in scripts without spaces,
# units do not recur.
_LONG_UNITS = 32

_BEFORE_WORD = re.compile(r" (?=\S)")


def split_at_spaces(sentence: str) -> list[str]:
    """Split a sentence into its units: "a  b" gives ["a", "", "b"]."""
    return sentence.split(" ")


def split_before_words(sentence: str) -> list[str]:
    r"""Split a sentence into units for a tokenizer that keeps white space and joins it to words.

    The pattern of byte-level BPE takes a run of white space as one word, but leaves its last space
    to the word that follows: text can be split only at a space before a word.

    Example:
        "a  b c" gives ["a ", "b", "c"].
    """
    words = sentence.split()
    return words if " ".join(words) == sentence else _BEFORE_WORD.split(sentence)


def count_words(
    batches: Iterable[list[str]],
    cut_words: CutWords,
    most: int,
    split: Callable[[str], list[str]] = split_at_spaces,
) -> Counter[str]:
    """Count how often each word occurs.

    Args:
        batches: batches of sentences.
        cut_words: cuts text into words. Its text is the first unit of a sentence, another unit with
            a space before it, or a whole sentence.
        most: most distinct units and words kept at a time; the rarest are dropped beyond it.
        split: splits a sentence into its units.

    Raises:
        UserError: there are no words.
    """
    first: Counter[str] = Counter()
    later: Counter[str] = Counter()
    words: Counter[str] = Counter()
    for batch in batches:
        later_units: list[str] = []
        for sentence in batch:
            units = split(sentence)
            if len(sentence) > _LONG_UNITS * len(units):
                words.update(cut_words(sentence))
            elif sentence:
                first[units[0]] += 1
                later_units += units[1:]
        later.update(later_units)
        _drop_rarest((first, later, words), most)
    for space, counted in (("", first), (" ", later)):
        for unit, count in counted.items():
            for word in cut_words(space + unit) if space or unit else ():
                words[word] += count
    if not words:
        raise UserError("--input", "it holds no words to train with", "Give files with text")
    return words


def _drop_rarest(counters: tuple[Counter[str], ...], most: int) -> None:
    while sum(map(len, counters)) > most:
        rarest = min(min(counts.values()) for counts in counters if counts)
        for counts in counters:
            kept = {word: count for word, count in counts.items() if count > rarest}
            counts.clear()
            counts.update(kept)


ALL = 10**9
SENTENCES = [
    *TEXT, "今天天气很好。" * 30 + " ab", " two  three   four \u3000 five\t six\n", "", "  ",
    "\u00a0\u00a0 \u00b4 \u0301 seven", "a\U00020000b 😀 x ≠ \u302eq \x00z İi Ⅷ \U00011111 c",
    "한국어 カタカナ ﬁne ｜|｜ Ａ１ \ue000 \u0378 don't 'LL 's 'ſ \u200dx", "long" * 40 + " b",
]  # fmt: skip
characters = st.sampled_from(
    "abZ19'.,|s \t\n\u3000\u00a0\u0085\x1c\x00éÉ東。\u00b4\u0301\u302eİſ한\U00020000😀\U00011111"
)
texts = st.lists(st.text(characters, max_size=30), max_size=4)


def count(counter: WordCounter, sentences: list[str]) -> Counter[str]:
    words = count_text([sentences], counter, WordLimits(ALL, ALL))
    assert int(words.counts.sum()) == counter.counted
    counted = counter_of(words)
    if not isinstance(counter, ByteLevelCounter):
        return counted
    written = {byte: character for character, byte in byte_alphabet().items()}
    return Counter(
        {"".join(written[byte] for byte in word.encode()): n for word, n in counted.items()}
    )


PATTERN = st.sampled_from([*PATTERNS, PATTERNS["cl100k"][0] + "|zz", "a|1"])


@given(texts, PATTERN, st.sampled_from([9, 1000]))
def test_pieces_by_other_patterns(sentences: list[str], pattern: str, most: int) -> None:
    """Long texts that the library cuts are cut into parts before, where there is a space."""
    with knobs(most_characters=most, sought_characters=most // 2):
        is_known = pattern in PATTERNS
        texts = ["x", *sentences] if is_known else [*chain(*map(cut_long, ["x", *sentences]))]
        whole = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        cut = word_cutter(None, pre_tokenizers.Sequence([*split_by(pattern), whole]))
        expected = Counter(word for text in texts for word in cut(text))
        if not is_known or most > 9:
            assert count(ByteLevelCounter((), False, pattern), ["x", *sentences]) == expected


def check_byte_level(sentences: list[str], prefix: bool) -> None:
    cut = word_cutter(None, pre_tokenizers.ByteLevel(add_prefix_space=prefix))
    expected = count_words([sentences], cut, ALL, split_before_words)
    assert count(ByteLevelCounter((), prefix), sentences) == expected


def check_bert(sentences: list[str], lowercase: bool) -> None:
    bert = normalizers.BertNormalizer(lowercase=lowercase)
    expected = count_words([sentences], word_cutter(bert, pre_tokenizers.BertPreTokenizer()), ALL)
    assert count(BertCounter((), lowercase), sentences) == expected


def check_units(sentences: list[str]) -> None:
    for pre_tokenizer in (pre_tokenizers.Metaspace(), pre_tokenizers.WhitespaceSplit()):
        expected = count_words([sentences], word_cutter(None, pre_tokenizer), ALL)
        assert count(UnitCounter(None, pre_tokenizer), sentences) == expected


@given(texts, st.booleans())
def test_pieces_of_byte_level_bpe(sentences: list[str], prefix: bool) -> None:
    check_byte_level(["x", *sentences], prefix)


@given(texts, st.booleans(), st.booleans())
def test_words_of_bert(sentences: list[str], lowercase: bool, knows_all: bool) -> None:
    with knobs(unknown_bytes=1 if knows_all else 2**16):
        check_bert(["x", *sentences], lowercase)


# For private use; not assigned; an ideograph and a letter that the counter does not ask for; a
# combining mark that the normalizer may move; a mark; a sign that is removed.
RARE = ["\ue000", "\U000f0000", "\u0378", "\U00030010", "\U00010300", "\u302e", "\u0301", "\ufffd"]
long_lines = st.lists(
    st.one_of(
        st.sampled_from(RARE), st.sampled_from("aÉ 東，.ก\u3000'"), st.just("天地 玄黃ab" * 40)
    ),
    max_size=40,
).map("".join)


@settings(max_examples=40, deadline=None)
@given(st.lists(long_lines, min_size=1, max_size=3), st.booleans())
def test_of_a_long_line_only_the_words_around_rare_characters_go_to_the_library(
    lines: list[str], lowercase: bool
) -> None:
    with knobs(unknown_bytes=1):
        check_bert(["x", *lines], lowercase)
    counter = BertCounter((), lowercase)
    counter._know(MANY_CODES)
    cut_plainly, seen = counter._cut, list[str]()

    def cut(text: str) -> list[str]:
        seen.append(text)
        return cut_plainly(text)

    counter._cut = cut
    counter.add(pa.array(["天地 玄黃ab" * 500 + line + "天地" * 500 for line in lines]))
    # The words on both sides of each, and more only where they touch.
    assert sum(map(len, seen)) <= 10 * sum(map(len, lines))
    assert all(set(text) & {*RARE} for text in seen)


@given(texts)
def test_words_of_units(sentences: list[str]) -> None:
    check_units(["x", *sentences])


@pytest.mark.parametrize("size", [3, 7, 2**14])
def test_real_sentences_however_few_words_are_added_at_once(size: int) -> None:
    with knobs(small=True, words_at_once=size, normalized_bytes=size, first_text_bytes=size):
        for flag in (False, True):
            check_byte_level(SENTENCES, flag)
            check_bert(SENTENCES, flag)
        check_units(SENTENCES)


@pytest.mark.parametrize(("unknown_bytes", "codes"), [(2, MANY_CODES), (3, FEW_CODES)])
def test_more_characters_are_compiled_after_much_text_of_others(
    unknown_bytes: int, codes: int
) -> None:
    counter = BertCounter((), lowercase=True)
    with knobs(unknown_bytes=unknown_bytes):
        assert count(counter, ["東"]) == {"東": 1}
    assert counter._codes == codes


@pytest.mark.parametrize("limit", ["most_words", "most_word_bytes"])
def test_a_counter_is_full_with_its_most_words_or_bytes(limit: str) -> None:
    for counter in (
        ByteLevelCounter((), False),
        UnitCounter(None, pre_tokenizers.WhitespaceSplit()),
    ):
        states = []
        with knobs(**{limit: 3}):
            for sentence in ("a", "b", "c"):
                counter.add(pa.array([sentence], pa.large_string()))
                states.append(counter.is_full)
        assert states == [False, False, True]


@pytest.mark.parametrize("lowercase", [False, True])
def test_every_ideograph_is_a_word_that_stays_as_it_is(lowercase: bool) -> None:
    text = "".join(map(chr, IDEOGRAPHS))
    normalized = normalizers.BertNormalizer(lowercase=lowercase).normalize_str(text)
    words = [word for word, _ in pre_tokenizers.BertPreTokenizer().pre_tokenize_str(normalized)]
    assert words == [*text]


def test_no_known_character_ends_more_than_one_word() -> None:
    """Otherwise a word could be written twice where the kernel stops and continues."""
    characters = read_bert_characters(True, MANY_CODES).characters
    cut = word_cutter(normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer())
    for code in range(0x3000):
        if characters.ends[code] < characters.ends[code + 1]:
            part = characters.ends[code]
            assert characters.parts[part + 1] == 3 or len(cut(chr(code))) <= 1


def test_words_of_a_document_are_counted_as_often_as_it_is_taken() -> None:
    copies = np.arange(len(SENTENCES)) % 4
    column = pa.array([[sentence] for sentence in SENTENCES], pa.list_(pa.large_string()))
    documents = pa.record_batch([column], names=["sentences"])
    repeated = [text for text, number in zip(SENTENCES, copies, strict=True) for _ in range(number)]
    for make in (
        lambda: ByteLevelCounter((), False),
        lambda: ByteLevelCounter((), False, "a|1"),
        lambda: BertCounter((), True),
        lambda: UnitCounter(None, pre_tokenizers.WhitespaceSplit()),
    ):
        counter, expected = make(), count(make(), repeated)
        counter.add_copies(documents, copies)
        assert count(counter, []) == expected


def test_text_is_normalized_before_it_is_cut() -> None:
    sentences = ["ﬁne\u00b4s Éa", "ASCII Only"]
    counted = count(ByteLevelCounter(("nfkc", "lowercase"), False), sentences)
    normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    normalized = [normalizer.normalize_str(sentence) for sentence in sentences]
    assert counted == count(ByteLevelCounter((), False), normalized)


@pytest.mark.parametrize("length", [63, 64, 65])
def test_units_of_up_to_64_bytes_are_cut_once(length: int) -> None:
    counter = UnitCounter(None, pre_tokenizers.WhitespaceSplit())
    counter.add(pa.array([f"{'a' * length} b"] * 2, pa.large_string()))
    assert len(counter._units) == (2 if length <= 64 else 1)
    counter.finish()
    assert counter.counted == 4
