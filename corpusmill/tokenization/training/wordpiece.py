"""WordPiece (Schuster, Nakajima 2012), as BERT has it.

The trainer of the tokenizers library numbers the pieces of words ("##a") as it meets them in a hash
table, whose order differs from run to run; pairs of equal count are merged by these numbers, so
that the same corpus gives another vocabulary each time. Here words are counted first, and the
trainer is given its alphabet in sorted order, as special tokens, which it numbers as given; all
that follows is determined.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import WordPiece
from tokenizers.trainers import WordPieceTrainer

from corpusmill.errors import UserError
from corpusmill.tokenization.training.options import (
    TrainingOptions,
    check_at_least,
    check_vocab_size,
    make_normalizers,
)
from corpusmill.tokenization.training.word_counts import (
    check_pair_counts,
    count_words,
    repeat_words,
    word_cutter,
)

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@dataclass(frozen=True)
class WordPieceOptions(TrainingOptions):
    """How a WordPiece tokenizer is trained."""

    special_tokens: tuple[str, ...] = SPECIAL_TOKENS
    """Numbered first; those of BERT must be among them."""
    vocab_size: int = 30522
    """Most tokens in the vocabulary, special tokens included. Every character of the corpus is one,
    at a word's start and inside."""
    min_frequency: int = 2
    """How often two neighbouring pieces must occur to be joined to one."""
    lowercase: bool = True
    """Lower-case the text and strip accents, as BERT's uncased models do."""
    limit_alphabet: int | None = None
    """Most characters in the vocabulary, the most frequent ones; None for all. Words with another
    character are unknown."""

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: a value that no tokenizer can be trained with.
        """
        super().__post_init__()
        missing = [token for token in SPECIAL_TOKENS if token not in self.special_tokens]
        if missing:
            raise UserError(
                f"--special-tokens {' '.join(self.special_tokens)}",
                f"BERT's tokenizer needs {', '.join(missing)}, too",
                f"Give {' '.join(SPECIAL_TOKENS)} and your own, in any order",
            )
        check_vocab_size(
            self.vocab_size, len(self.special_tokens) + 1, "the special tokens and a letter"
        )
        check_at_least(1, "--min-frequency", self.min_frequency)
        if self.limit_alphabet is not None:
            check_at_least(1, "--limit-alphabet", self.limit_alphabet)


def bert_tokenizer(
    vocabulary: dict[str, int],
    lowercase: bool,
    strip_accents: bool | None = None,
    handle_chinese_chars: bool = True,
    special_tokens: Sequence[str] = SPECIAL_TOKENS,
) -> Tokenizer:
    """BERT's tokenizer with a given vocabulary.

    As `FullTokenizer` of the reference implementation (Devlin et al. 2019).

    Args:
        vocabulary: token to id, `SPECIAL_TOKENS` among them.
        lowercase: lower-case the text.
        strip_accents: None for as `lowercase`.
        handle_chinese_chars: make each CJK character a word.
        special_tokens: `SPECIAL_TOKENS` and others, all in the vocabulary.
    """
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))  # noqa: S106 - not a password
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


def train_wordpiece(
    sentences: Iterable[list[str]] | Iterable[str], options: WordPieceOptions
) -> str:
    """Train BERT's kind of tokenizer. The same sentences and options give the same file.

    Args:
        sentences: sentences, or batches of them; only the counts of their words are kept.
        options: of the training.

    Returns:
        The tokenizer.json. Its ids are those of the special tokens, then of the characters that
        words hold, of those that they hold behind their first, and of the pieces in the order of
        their joining.

    Raises:
        UserError: the sentences hold no word, or more characters than the vocabulary has room for.
    """
    own = make_normalizers(options.normalizers)
    normalizer = normalizers.Sequence(
        [*own, normalizers.BertNormalizer(lowercase=options.lowercase)]
    )
    cut_words = word_cutter(normalizer, pre_tokenizers.BertPreTokenizer())
    words = count_words(sentences, cut_words, options.max_distinct_words)
    if options.limit_alphabet is not None:
        words = _keep_alphabet(words, options.limit_alphabet)
    check_pair_counts(words)
    special = set(options.special_tokens)
    characters = sorted(set().union(*words) - special)
    inner = sorted({"##" + character for word in words for character in word[1:]} - special)
    needed = len(special) + len(characters) + len(inner)
    check_vocab_size(options.vocab_size, needed, "special tokens and characters of the corpus")
    trainer = WordPieceTrainer(
        vocab_size=options.vocab_size,
        min_frequency=options.min_frequency,
        show_progress=False,
        special_tokens=[*options.special_tokens, *characters, *inner],
    )
    trained = Tokenizer(WordPiece(unk_token="[UNK]"))  # noqa: S106 - not a password
    trained.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trained.train_from_iterator(repeat_words(words), trainer)
    vocabulary: dict[str, int] = json.loads(trained.to_str())["model"]["vocab"]
    tokenizer = bert_tokenizer(vocabulary, options.lowercase, special_tokens=options.special_tokens)
    if own:
        tokenizer.normalizer = normalizer
    text: str = tokenizer.to_str(pretty=True)
    return text


def _keep_alphabet(words: Counter[str], most: int) -> Counter[str]:
    """Words of the most frequent characters alone; ties go to those that sort first."""
    characters: Counter[str] = Counter()
    for word, count in words.items():
        for character in word:
            characters[character] += count
    kept = set(sorted(characters, key=lambda character: (-characters[character], character))[:most])
    return Counter({word: count for word, count in words.items() if kept.issuperset(word)})
