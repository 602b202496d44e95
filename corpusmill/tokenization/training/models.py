"""The models that can be trained, by name, with their options and their training.

WordPiece (Schuster, Nakajima 2012) is as BERT uses it. The trainer of the tokenizers library
numbers the inner pieces of words ("##a") in the order of a hash table, which differs from run to
run. It merges pairs of equal count by these numbers, so that the same corpus gives a different
vocabulary each time. Here all characters are numbered in sorted order before pairs are merged; this
determines everything else.

Byte-level byte-pair encoding (Radford et al. 2019; seed 002) merges bytes. Its file is that of
`ByteLevelBPETokenizer.train_from_iterator`, for a corpus of any length. It is determined: the
alphabet of all 256 bytes is numbered in order, pieces in the order in which they are joined, and
pairs of equal count are joined in the order of these numbers. The library's prefixes of inner
pieces and suffixes of last pieces are not offered, because its byte-level decoder does not remove
them.

Unigram language models (Kudo 2018) write spaces as "▁". The trainer is SentencePiece's. The
tokenizers library's trainer sums floating-point numbers in the order of a hash table, so that every
process gives other scores, even with one thread. SentencePiece sorts its words, and the order of
its sums depends only on the number of threads, which is fixed here; it accepts counted words. (It
takes logarithms from the C library: another one may change a score's last bit.)

The tokenizers library then cuts text like SentencePiece, except words of which two cuts are equally
likely up to rounding: SentencePiece sums in 32 bits, the library in 64 (in WikiText-2, this affects
one word, in 7 of the 25 thousand lines, with the default options).

Word-level tokenizers have whole words as tokens, split as in seed 004: at white space, which is
dropped, and at `,.?_!"()'`, each of which is a word. The sorted words have the first ids, then the
special tokens, so that nothing is left to chance.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from io import BytesIO
from itertools import chain
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from tokenizers import Regex, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import BPE, Unigram, WordLevel

from corpusmill.arrays import ragged
from corpusmill.errors import UserError, in_one_line, option, suggest
from corpusmill.settings.constraints import Needs, Range
from corpusmill.tokenization.training.counted_words import (
    CountedWords,
    check_words,
    find_characters,
    keep_alphabet,
)
from corpusmill.tokenization.training.merges import byte_ids, character_ids, train_merges
from corpusmill.tokenization.training.parts import (
    PATTERNS,
    SPECIAL_TOKENS,
    bert_tokenizer,
    make_normalizer,
    split_by,
    write_tokenizer_json,
)
from corpusmill.tokenization.training.training_options import (
    FREQUENCIES,
    VOCAB_SIZES,
    TrainingOptions,
    check_unknown_token,
    check_vocab_size,
)
from corpusmill.tokenization.training.word_counters import (
    BertCounter,
    ByteLevelCounter,
    UnitCounter,
    WordCounter,
)
from corpusmill.tokenization.training.word_table import WORDS_AT_ONCE, WordTable

# What begins a token that continues a word.
_PREFIX = "##"


@dataclass(frozen=True)
class WordPieceOptions(TrainingOptions):
    """How to train a WordPiece tokenizer."""

    files = ("vocab.txt",)

    special_tokens: tuple[str, ...] = SPECIAL_TOKENS
    """Have the first ids; BERT's special tokens must be among them."""
    vocab_size: Annotated[int, VOCAB_SIZES] = 30522
    """Most tokens in the vocabulary, special tokens included. Every character of the corpus is a
    token at the start of words, and another one inside words."""
    min_frequency: Annotated[int, FREQUENCIES] = 2
    """How often two neighbouring pieces must occur to be joined into one."""
    lowercase: bool = True
    """Lower-case the text and strip accents, like BERT's uncased models."""
    limit_alphabet: Annotated[int | None, Range(1)] = None
    """Most characters in the vocabulary, the most frequent ones; None for all. Words with another
    character are unknown."""

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: a tokenizer cannot be trained with a value.
        """
        super().__post_init__()
        missing = [token for token in SPECIAL_TOKENS if token not in self.special_tokens]
        if missing:
            cause = f"BERT's tokenizer also needs {', '.join(missing)}"
            cure = f"Give {' '.join(SPECIAL_TOKENS)} and your own, in any order"
            raise UserError(option("special_tokens", self.special_tokens), cause, cure)
        least = len(self.special_tokens) + 1
        check_vocab_size(self.vocab_size, least, "the special tokens and a letter")

    def make_counter(self) -> WordCounter:
        """Return the counter of the model's words."""
        return BertCounter(self.normalizers, self.lowercase)

    def train(self, words: CountedWords) -> str:
        """Train a tokenizer like BERT's.

        The special tokens have the first ids, then the characters of words, then the characters
        after the first one in a word, then the pieces in the order in which they were joined.

        Raises:
            UserError: there are no words, or more characters than the vocabulary has room for, or
                fewer than a word needs are wanted.
        """
        check_words(words)
        if self.limit_alphabet is not None:
            words = keep_alphabet(words, self.limit_alphabet)
        special = set(self.special_tokens)
        first, inner = find_characters(words)
        tokens = [token for token in sorted({*first, *inner}) if token not in special]
        prefixed = sorted(_PREFIX + character for character in inner)
        tokens += [token for token in prefixed if token not in special]
        needed = len(special) + len(tokens)
        check_vocab_size(self.vocab_size, needed, "special tokens and characters of the corpus")
        first_tokens = [*self.special_tokens, *tokens]
        ids = character_ids(first_tokens, _PREFIX)
        sizes = self.vocab_size, self.min_frequency
        tokens, _ = train_merges(words, ids, first_tokens, *sizes, _PREFIX)
        vocabulary = {token: number for number, token in enumerate(tokens)}
        tokenizer = bert_tokenizer(vocabulary, self.lowercase, special_tokens=self.special_tokens)
        bert = normalizers.BertNormalizer(lowercase=self.lowercase)
        tokenizer.normalizer = make_normalizer(self.normalizers, bert)
        return str(tokenizer.to_str(pretty=True))


ALPHABET = tuple(sorted(pre_tokenizers.ByteLevel.alphabet()))


@dataclass(frozen=True)
class ByteLevelBpeOptions(TrainingOptions):
    """How to train a byte-level BPE tokenizer."""

    files = ("vocab.json", "merges.txt")

    special_tokens: tuple[str, ...] = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
    """Have the first ids. With all 256 bytes, nothing is unknown, but models expect such a
    token."""
    vocab_size: Annotated[int, VOCAB_SIZES] = 30000
    """Most tokens in the vocabulary, special tokens and the 256 bytes included."""
    min_frequency: Annotated[int, FREQUENCIES] = 2
    """How often two neighbouring pieces must occur to be joined into one."""
    pattern: str = "gpt2"
    """How text is cut into the words that pieces never cross: as by GPT-2 ("gpt2"), likewise but
    with each digit by itself or three digits at most ("digits", "digits3"), by GPT-4 ("cl100k"),
    GPT-4o ("o200k"), "llama3", "qwen2" or "deepseek3"; or by a regular expression: its matches and
    what is between them are the words, as of a Split of the tokenizers library."""
    add_prefix_space: Annotated[bool, Needs("pattern", "gpt2")] = False
    """Begin every text with a space, so that its first word is tokenized like any other."""
    trim_offsets: bool = False
    """Leave the space before a word out of its offsets."""
    dropout: Annotated[float, Range(0, 1)] = 0.0
    """Share of joins left out at random when the tokenizer is used (Provilkov et al. 2020). It does
    not affect the training, and a build of a data set removes it."""

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: a tokenizer cannot be trained with a value.
        """
        super().__post_init__()
        tokens = len({*ALPHABET, *self.special_tokens})
        check_vocab_size(self.vocab_size, tokens, "the 256 bytes and the special tokens")
        _check_pattern(self.pattern)

    def make_counter(self) -> WordCounter:
        """Return the counter of the model's words, as they stand in the text."""
        return ByteLevelCounter(self.normalizers, self.add_prefix_space, self.pattern)

    def train(self, words: CountedWords) -> str:
        """Train a byte-level BPE tokenizer.

        The special tokens have the first ids, then the bytes, then the pieces in the order in which
        they were joined.

        Raises:
            UserError: there are no words.
        """
        check_words(words)
        first = [*self.special_tokens, *ALPHABET]
        sizes = self.vocab_size, self.min_frequency
        tokens, merges = train_merges(words, byte_ids(first), first, *sizes)
        vocabulary = {token: number for number, token in enumerate(tokens)}
        is_usual = self.pattern == "gpt2"  # which the library has built in
        last = pre_tokenizers.ByteLevel(self.add_prefix_space, use_regex=is_usual)
        return write_tokenizer_json(
            BPE(vocabulary, merges, dropout=self.dropout or None),
            make_normalizer(self.normalizers),
            last if is_usual else pre_tokenizers.Sequence([*split_by(self.pattern), last]),
            decoders.ByteLevel(),
            self.special_tokens,
            processors.ByteLevel(trim_offsets=self.trim_offsets),
        )


# What nobody gives as a regular expression, as it matches itself alone.
_NAME = re.compile(r"(\w[\w./-]*)?")


def _check_pattern(pattern: str) -> None:
    if pattern in PATTERNS:
        return
    names, value = ", ".join(PATTERNS), option("pattern", pattern)
    cure = f"Give one of {names}, or a regular expression such as '\\p{{L}}+|\\p{{N}}| +'"
    if _NAME.fullmatch(pattern):
        raise UserError(value, "no pattern has this name", suggest(pattern, PATTERNS) + cure)
    try:
        split_by(pattern)
    except Exception as error:  # the library raises nothing narrower
        raise UserError(value, f"it cannot be used ({in_one_line(error)})", cure) from None


# What `\s` matches in Python's re, which the seed uses; other engines exclude U+001C to U+001F.
_WHITE_SPACE = pre_tokenizers.Split(Regex(r"[\s\x{1c}-\x{1f}\x{85}]"), "removed")
_MARKS = pre_tokenizers.Split(Regex(r"""[,.?_!"()']"""), "isolated")
_SPLIT = pre_tokenizers.Sequence([_WHITE_SPACE, _MARKS])
# The seed's decoder keeps the space before "_".
_SPACE_BEFORE_MARK = r"""\s+(?=[,.?!"()'])"""


@dataclass(frozen=True)
class WordLevelOptions(TrainingOptions):
    """How to make a tokenizer of whole words."""

    files = ("vocab.json",)

    special_tokens: tuple[str, ...] = ("<|unk|>", "<|endoftext|>")
    """Have the last ids, as in the seed."""
    unk_token: str = "<|unk|>"  # noqa: S105 - not a password
    """The special token for words outside the vocabulary."""
    vocab_size: Annotated[int | None, VOCAB_SIZES] = None
    """Most tokens in the vocabulary, special tokens included; None for all words. The most frequent
    words are kept; of equally frequent ones, those that sort first."""
    min_frequency: Annotated[int, FREQUENCIES] = 1
    """How often a word must occur."""
    max_distinct_bytes: Annotated[int, Range(1)] = 64_000_000
    """As of all models: by default all words are kept in the vocabulary."""

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: a tokenizer cannot be made with a value.
        """
        super().__post_init__()
        check_unknown_token(self.unk_token, self.special_tokens)
        if self.vocab_size is not None:
            least = len(self.special_tokens) + 1
            check_vocab_size(self.vocab_size, least, "the special tokens and one word")

    def make_counter(self) -> WordCounter:
        """Return the counter of the model's words."""
        return UnitCounter(make_normalizer(self.normalizers), _SPLIT)

    def train(self, words: CountedWords) -> str:
        """Make a tokenizer of whole words.

        It finds special tokens anywhere in a text, the seed only between spaces.

        Raises:
            UserError: there are no words, or none often enough.
        """
        check_words(words)
        tokens = [*_choose(words, self), *self.special_tokens]
        vocabulary = {token: number for number, token in enumerate(tokens)}
        # WordPiece's decoder puts a space before each token without the prefix, and no word begins
        # with white space.
        spaced = decoders.WordPiece(prefix="\n", cleanup=False)
        closed = decoders.Replace(Regex(_SPACE_BEFORE_MARK), "")
        decoder = decoders.Sequence([spaced, decoders.Fuse(), closed])
        model = WordLevel(vocabulary, unk_token=self.unk_token)
        normalizer = make_normalizer(self.normalizers)
        return write_tokenizer_json(model, normalizer, _SPLIT, decoder, self.special_tokens)


def _choose(counted: CountedWords, options: WordLevelOptions) -> list[str]:
    """Return the words of the vocabulary, sorted."""
    special = pa.array([token.encode() for token in options.special_tokens], pa.large_binary())
    frequent = pc.invert(pc.is_in(counted.words, special)).to_numpy(zero_copy_only=False)
    frequent &= counted.counts >= options.min_frequency
    if not frequent.any():
        refused = option("min_frequency", options.min_frequency)
        raise UserError(refused, "no word occurs this often", "Give a smaller number")
    words = CountedWords(counted.words.filter(pa.array(frequent)), counted.counts[frequent])
    words, room = words.in_order(), len(words.counts)
    if options.vocab_size is not None:
        room = options.vocab_size - len(special)
    chosen = np.sort(np.argsort(-words.counts, kind="stable")[:room])
    tokens: list[str] = words.words.take(pa.array(chosen)).cast(pa.large_string()).to_pylist()
    return tokens


_THREADS = 16

# The trainer's own symbol, and characters that end its lines and columns.
_RESERVED = "\0\t\n\r\u2585"
# The full-width comma, full stop and the like. No piece crosses from these marks to letters, so
# cutting there changes no probability, and words of scripts without spaces stay short and few. A
# word of a thousand letters is cut as well: sums over very long words lose precision.
_STOPS = "\u3001\u3002\uff01\uff0c\uff1b\uff1f"
_PARTS = re.compile(f"[{_STOPS}]+|[^{_STOPS}{_RESERVED}]{{1,1000}}")


@dataclass(frozen=True)
class UnigramOptions(TrainingOptions):
    """How to train a unigram tokenizer."""

    files = ("unigram.json",)

    special_tokens: tuple[str, ...] = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
    """Have the first ids."""
    unk_token: str = "<unk>"  # noqa: S105 - not a password
    """The special token for characters outside the vocabulary."""
    vocab_size: Annotated[int, VOCAB_SIZES] = 8000
    """Most tokens in the vocabulary, special tokens included."""
    character_coverage: Annotated[float, Range(0.98, 1)] = 1.0
    """Share of the corpus' characters that the vocabulary covers; the rarest are left out. 0.9995
    is usual for Chinese and Japanese."""
    max_distinct_bytes: Annotated[int, Range(1)] = 24_000_000
    """As of all models: SentencePiece takes more memory than the others."""
    max_trained_bytes: Annotated[int, Range(1)] = 80_000_000
    """Most bytes of words, each as often as it occurs: SentencePiece copies them as often when it
    looks for its first pieces, and takes 13 bytes for each of theirs. If a corpus has more, all
    counts are divided by one number, and words that would have none have one."""

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: a tokenizer cannot be trained with a value.
        """
        super().__post_init__()
        check_unknown_token(self.unk_token, self.special_tokens)
        least = len(self.special_tokens) + 2
        check_vocab_size(self.vocab_size, least, "the special tokens, the space and a letter")

    def describe_limits(self, words: CountedWords) -> Iterator[str]:
        """Say by what counts are divided."""
        if (copied := words.copied_bytes) > self.max_trained_bytes:
            divisor = copied / self.max_trained_bytes
            yield (f"trained with counts of words divided by {divisor:,.2f} (--max-trained-bytes)")

    def make_counter(self) -> WordCounter:
        """Return the counter of the model's words."""
        return UnitCounter(make_normalizer(self.normalizers), pre_tokenizers.Metaspace())

    def train(self, words: CountedWords) -> str:
        """Train a unigram tokenizer.

        The special tokens have the first ids, then the pieces in the order of their probabilities.

        Raises:
            UserError: there are no words, or more characters than the vocabulary has room for.
        """
        check_words(words)
        words = limit_copies(words, self.max_trained_bytes)
        special = [(token, 0.0) for token in self.special_tokens]
        unknown = self.special_tokens.index(self.unk_token)
        pieces = [*special, *_train_pieces(words, self)]
        model, cutter = Unigram(pieces, unknown, byte_fallback=False), pre_tokenizers.Metaspace()
        normalizer, decoder = make_normalizer(self.normalizers), decoders.Metaspace()
        return write_tokenizer_json(model, normalizer, cutter, decoder, self.special_tokens)


def _train_pieces(words: CountedWords, options: UnigramOptions) -> list[tuple[str, float]]:
    """Train pieces; return them with the logarithms of their probabilities, in this order."""
    parts = _cut_into_parts(words)
    # The trainer cannot read these; those in the corpus become tokens all the same.
    reserved = sorted(set(_RESERVED) & set().union(*find_characters(words)))
    others = len(options.special_tokens) + len(reserved)
    if options.character_coverage == 1:
        needed = others + len(set().union(*find_characters(parts)))
        check_vocab_size(options.vocab_size, needed, "special tokens and characters of the corpus")
    processor = SentencePieceProcessor(
        model_proto=train_sentencepiece(parts, options.vocab_size - others, options)
    )
    pieces = [
        (processor.id_to_piece(number), processor.get_score(number))
        for number in range(processor.get_piece_size())
        if not processor.is_unknown(number)
    ]
    least = min(score for _, score in pieces)
    pieces += [(character, least) for character in reserved]
    return [pair for pair in pieces if pair[0] not in options.special_tokens]


def _cut_into_parts(words: CountedWords) -> CountedWords:
    """Return the parts of words that the trainer gets, with their counts, in order."""
    table = WordTable()
    for batch, counts in words.batches(WORDS_AT_ONCE):
        found = [_PARTS.findall(word) for word in batch]
        joined = pa.array([*chain.from_iterable(found)], pa.large_string())
        if len(joined):
            table.add_words(*ragged.from_arrow(joined), np.repeat(counts, [*map(len, found)]))
    numbers = table.numbers()
    return CountedWords(table.words(numbers), table.counts(numbers)).in_order()


def limit_copies(words: CountedWords, most: int) -> CountedWords:
    """Divide the counts of words by one number, so that all copies take about `most` bytes.

    Args:
        words: any words.
        most: bytes; words that are counted once can take more.

    Example:
        counts [10, 4, 1] of words of 2 bytes are [5, 2, 1] where `most` is 15.
    """
    copied = words.copied_bytes
    if copied <= most:
        return words
    counts = np.maximum(1, np.rint(words.counts * (most / copied))).astype(np.int64)
    return CountedWords(words.words, counts)


def train_sentencepiece(parts: CountedWords, room: int, options: UnigramOptions) -> bytes:
    """Train SentencePiece with counted words and return its model file.

    Args:
        parts: counted words in order, with "▁" for spaces and without the trainer's reserved
            characters.
        room: most pieces.
        options: options of the training.

    Raises:
        UserError: there are more characters than room, or there is nothing to train with.
    """
    model = BytesIO()
    try:
        SentencePieceTrainer.train(
            sentence_iterator=(
                f"{part}\t{count}"
                for batch, counts in parts.batches(WORDS_AT_ONCE)
                for part, count in zip(batch, counts.tolist(), strict=True)
            ),
            model_writer=model,
            input_format="tsv",
            model_type="unigram",
            vocab_size=room + 1,  # with its own token for unknown characters
            hard_vocab_limit=False,
            character_coverage=options.character_coverage,
            normalization_rule_name="identity",
            add_dummy_prefix=False,
            remove_extra_whitespaces=False,
            max_sentence_length=2**30,
            bos_id=-1,
            eos_id=-1,
            num_threads=_THREADS,
            minloglevel=3,
        )
    except (RuntimeError, OSError) as error:
        reason = str(error).strip().rpartition("] ")[2]
        raise UserError(
            option("vocab_size", options.vocab_size),
            f"SentencePiece refuses it ({reason})",
            f"Give a larger one, or a smaller {option('character_coverage')}",
        ) from None
    return model.getvalue()


MODELS: dict[str, type[TrainingOptions]] = {
    "wordpiece": WordPieceOptions,
    "bpe": ByteLevelBpeOptions,
    "wordlevel": WordLevelOptions,
    "unigram": UnigramOptions,
}


def model_options(model: str, values: Mapping[str, Any]) -> TrainingOptions:
    """Return the options of a model, with its own defaults for those without a value.

    Args:
        model: a key of `MODELS`.
        values: values of options, by name.

    Raises:
        UserError: the model has no such option, or does not accept the value.
    """
    names = {name: {field.name for field in fields(options)} for name, options in MODELS.items()}
    for given in values:
        if given not in names[model]:
            others = ", ".join(name for name in MODELS if given in names[name])
            cure = f"Leave it out, or train one of the models that have it: {others}"
            refused = f"{option(given)} with {option('model', model)}"
            raise UserError(refused, "the model has no such option", cure)
    return MODELS[model](**values)
