"""WordPiece (Schuster, Nakajima 2012), as BERT uses it.

The trainer of the tokenizers library numbers the inner pieces of words ("##a") in the order of a
hash table, which differs from run to run. It merges pairs of equal count by these numbers, so that
the same corpus gives a different vocabulary each time. Here all characters are numbered in sorted
order before pairs are merged; this determines everything else.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import WordPiece

from corpusmill.errors import UserError, option
from corpusmill.settings.constraints import Range
from corpusmill.tokenization.training.counted_words import (
    CountedWords,
    check_words,
    find_characters,
    keep_alphabet,
)
from corpusmill.tokenization.training.merges import character_ids, train_merges
from corpusmill.tokenization.training.parts import make_normalizer
from corpusmill.tokenization.training.training_options import (
    FREQUENCIES,
    VOCAB_SIZES,
    TrainingOptions,
    check_vocab_size,
)
from corpusmill.tokenization.training.word_counters import BertCounter, WordCounter

# What begins a token that continues a word.
_PREFIX = "##"
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


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
            raise UserError(
                option("special_tokens", self.special_tokens),
                f"BERT's tokenizer also needs {', '.join(missing)}",
                f"Give {' '.join(SPECIAL_TOKENS)} and your own, in any order",
            )
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


def bert_tokenizer(
    vocabulary: dict[str, int],
    lowercase: bool,
    strip_accents: bool | None = None,
    handle_chinese_chars: bool = True,
    special_tokens: Sequence[str] = SPECIAL_TOKENS,
    longest_word: int = 100,
) -> Tokenizer:
    """Return BERT's tokenizer with a vocabulary.

    It tokenizes like `FullTokenizer` of the reference implementation (Devlin et al. 2019).

    Args:
        vocabulary: token to id, `SPECIAL_TOKENS` among them.
        lowercase: whether to lower-case the text.
        strip_accents: whether to strip accents; None means the value of `lowercase`.
        handle_chinese_chars: whether each CJK character is a word.
        special_tokens: `SPECIAL_TOKENS` and others, all in the vocabulary.
        longest_word: the characters of the longest word that is not unknown.
    """
    tokenizer = Tokenizer(
        WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=longest_word)  # noqa: S106 - not a password
    )
    tokenizer.normalizer = normalizers.BertNormalizer(
        lowercase=lowercase, strip_accents=strip_accents, handle_chinese_chars=handle_chinese_chars
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(sorted(special_tokens, key=vocabulary.__getitem__))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")],
    )
    tokenizer.enable_padding(pad_id=vocabulary["[PAD]"], pad_token="[PAD]")  # noqa: S106 - not a password
    return tokenizer
