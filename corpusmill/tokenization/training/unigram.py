"""Unigram language models (Kudo 2018), whose spaces are written as "▁", and word-level ones.

The trainer is SentencePiece's. The tokenizers library's trainer sums floating-point numbers in the
order of a hash table, so that every process gives other scores, even with one thread. SentencePiece
sorts its words, and the order of its sums depends only on the number of threads, which is fixed
here; it accepts counted words. (It takes logarithms from the C library: another one may change a
score's last bit.)

The tokenizers library then cuts text like SentencePiece, except words of which two cuts are equally
likely up to rounding: SentencePiece sums in 32 bits, the library in 64 (in WikiText-2, this affects
one word, in 7 of the 25 thousand lines, with the default options).

Word-level tokenizers have whole words as tokens, split as in seed 004: at white space, which is
dropped, and at `,.?_!"()'`, each of which is a word. The sorted words have the first ids, then the
special tokens, so that nothing is left to chance.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from itertools import chain
from typing import Annotated

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from tokenizers import Regex, decoders, pre_tokenizers
from tokenizers.models import Unigram, WordLevel

from corpusmill.arrays import ragged
from corpusmill.errors import UserError, option
from corpusmill.settings.constraints import Range
from corpusmill.tokenization.training.counted_words import (
    CountedWords,
    check_words,
    find_characters,
)
from corpusmill.tokenization.training.parts import make_normalizer, write_tokenizer_json
from corpusmill.tokenization.training.training_options import (
    FREQUENCIES,
    VOCAB_SIZES,
    TrainingOptions,
    check_unknown_token,
    check_vocab_size,
)
from corpusmill.tokenization.training.word_counters import UnitCounter, WordCounter
from corpusmill.tokenization.training.word_table import WORDS_AT_ONCE, WordTable

# What `\s` matches in Python's re, which the seed uses; other engines exclude U+001C to U+001F.
_WHITE_SPACE = r"[\s\x{1c}-\x{1f}\x{85}]"
_MARKS = r"""[,.?_!"()']"""
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
        return UnitCounter(make_normalizer(self.normalizers), _pre_tokenizer())

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
        decoder = decoders.Sequence(
            [
                decoders.WordPiece(prefix="\n", cleanup=False),
                decoders.Fuse(),
                decoders.Replace(Regex(_SPACE_BEFORE_MARK), ""),
            ]
        )
        model = WordLevel(vocabulary, unk_token=self.unk_token)
        normalizer = make_normalizer(self.normalizers)
        return write_tokenizer_json(
            model, normalizer, _pre_tokenizer(), decoder, self.special_tokens
        )


def _pre_tokenizer() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_WHITE_SPACE), "removed"),
            pre_tokenizers.Split(Regex(_MARKS), "isolated"),
        ]
    )


def _choose(counted: CountedWords, options: WordLevelOptions) -> list[str]:
    """Return the words of the vocabulary, sorted."""
    special = pa.array([token.encode() for token in options.special_tokens], pa.large_binary())
    frequent = pc.invert(pc.is_in(counted.words, special)).to_numpy(zero_copy_only=False)
    frequent &= counted.counts >= options.min_frequency
    if not frequent.any():
        raise UserError(
            option("min_frequency", options.min_frequency),
            "no word occurs this often",
            "Give a smaller number",
        )
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
        model = Unigram(pieces, unknown, byte_fallback=False)
        decoder = decoders.Metaspace()
        return write_tokenizer_json(
            model,
            make_normalizer(self.normalizers),
            pre_tokenizers.Metaspace(),
            decoder,
            self.special_tokens,
        )


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
