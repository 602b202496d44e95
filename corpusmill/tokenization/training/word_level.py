r"""Whole words as tokens, as seed 004 cuts them: at white space and at `,.?_!"()'`.

White space is dropped, each of these marks is a word. Ids are those of the sorted words, then of
the special tokens, so there is nothing that chance could decide.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tokenizers import Regex, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import WordLevel

from corpusmill.errors import UserError
from corpusmill.tokenization.training.options import (
    TrainingOptions,
    check_at_least,
    check_unknown_token,
    check_vocab_size,
    join_normalizers,
    make_normalizers,
)
from corpusmill.tokenization.training.word_counts import count_words, word_cutter

# What `\s` of Python's re matches, which the seed uses; other engines leave U+001C to U+001F out.
_WHITE_SPACE = r"[\s\x{1c}-\x{1f}\x{85}]"
_MARKS = r"""[,.?_!"()']"""
# The seed's decoder leaves the space before "_" where it is.
_SPACE_BEFORE_MARK = r"""\s+(?=[,.?!"()'])"""


@dataclass(frozen=True)
class WordLevelOptions(TrainingOptions):
    """How a tokenizer of whole words is made."""

    special_tokens: tuple[str, ...] = ("<|unk|>", "<|endoftext|>")
    """Numbered last, as the seed appends them."""
    unk_token: str = "<|unk|>"  # noqa: S105 - not a password
    """The special token that stands for words outside the vocabulary."""
    vocab_size: int | None = None
    """Most tokens in the vocabulary, special tokens included; None for all words. The most frequent
    words stay, of equally frequent ones those that sort first."""
    min_frequency: int = 1
    """How often a word must occur."""

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: a value that no tokenizer can be made with.
        """
        super().__post_init__()
        check_unknown_token(self.unk_token, self.special_tokens)
        check_at_least(1, "--min-frequency", self.min_frequency)
        if self.vocab_size is not None:
            least = len(self.special_tokens) + 1
            check_vocab_size(self.vocab_size, least, "the special tokens and one word")


def train_word_level(
    sentences: Iterable[list[str]] | Iterable[str], options: WordLevelOptions
) -> str:
    """Make a tokenizer of whole words. The same sentences and options give the same file.

    A special token in a text is found wherever it stands, in the seed only between spaces.

    Args:
        sentences: sentences, or batches of them; only the counts of their words are kept.
        options: of the training.

    Returns:
        The tokenizer.json.

    Raises:
        UserError: the sentences hold no word, or none often enough.
    """
    normalizer = join_normalizers(make_normalizers(options.normalizers))
    pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_WHITE_SPACE), "removed"),
            pre_tokenizers.Split(Regex(_MARKS), "isolated"),
        ]
    )
    words = count_words(
        sentences, word_cutter(normalizer, pre_tokenizer), options.max_distinct_words
    )
    tokens = [*_choose(words, options), *options.special_tokens]
    vocabulary = {token: place for place, token in enumerate(tokens)}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token=options.unk_token))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    # The decoder of WordPiece joins with spaces what does not begin with the prefix, and no word
    # begins with white space.
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.WordPiece(prefix="\n", cleanup=False),
            decoders.Fuse(),
            decoders.Replace(Regex(_SPACE_BEFORE_MARK), ""),
        ]
    )
    tokenizer.add_special_tokens(list(options.special_tokens))
    text: str = tokenizer.to_str(pretty=True)
    return text


def _choose(words: Counter[str], options: WordLevelOptions) -> list[str]:
    special = set(options.special_tokens)
    frequent = [
        word
        for word, count in words.items()
        if count >= options.min_frequency and word not in special
    ]
    if not frequent:
        raise UserError(
            f"--min-frequency {options.min_frequency}",
            "no word occurs as often",
            "Give a smaller number",
        )
    frequent.sort(key=lambda word: (-words[word], word))
    room = None if options.vocab_size is None else options.vocab_size - len(special)
    return sorted(frequent[:room])
