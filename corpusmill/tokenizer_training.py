"""Tokenizers trained from streams of text, so that the corpus need not fit into memory.

The trainer of the tokenizers library numbers the pieces of words ("##a") as it meets them in a hash
table, whose order differs from run to run; pairs of equal count are merged by these numbers, so
that the same corpus gives another vocabulary each time. Here words are counted first, and the
trainer is given its alphabet in sorted order, as special tokens, which it numbers as given; all
that follows is determined.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import WordPiece
from tokenizers.trainers import WordPieceTrainer

from corpusmill.faults import UserError

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

# Text handed to the trainer at once.
_TRAINING_TEXT = 1 << 16


@dataclass(frozen=True)
class WordPieceOptions:
    """How a WordPiece tokenizer is trained."""

    vocab_size: int = 30522
    """Most tokens in the vocabulary, special tokens included. Every character of the corpus is one,
    at a word's start and inside, even where they alone are more."""
    min_frequency: int = 2
    """How often two neighbouring pieces must occur to be joined to one."""
    lowercase: bool = True
    """Lower-case the text and strip accents, as BERT's uncased models do."""
    max_distinct_words: int = 5_000_000
    """Distinct words, with what clings to them, that are counted at a time; about 600 MB. Where a
    corpus holds more, the rarest are dropped whenever that many have gathered."""

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: a value that no tokenizer can be trained with.
        """
        if self.vocab_size <= len(SPECIAL_TOKENS):
            raise UserError(
                f"--vocab-size {self.vocab_size}",
                "the special tokens alone need more",
                f"Give more than {len(SPECIAL_TOKENS)}; BERT has 30522",
            )
        if self.min_frequency < 1:
            raise UserError(
                f"--min-frequency {self.min_frequency}", "it is less than 1", "Give 1 or more"
            )
        if self.max_distinct_words < 1:
            raise UserError(
                f"--max-distinct-words {self.max_distinct_words}",
                "it is less than 1",
                "Give 1 or more",
            )


def bert_tokenizer(
    vocabulary: dict[str, int],
    lowercase: bool,
    strip_accents: bool | None = None,
    handle_chinese_chars: bool = True,
) -> Tokenizer:
    """BERT's tokenizer with a given vocabulary.

    As `FullTokenizer` of the reference implementation (Devlin et al. 2019).

    Args:
        vocabulary: token to id, `SPECIAL_TOKENS` among them.
        lowercase: lower-case the text.
        strip_accents: None for as `lowercase`.
        handle_chinese_chars: make each CJK character a word.
    """
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))  # noqa: S106 - not a password
    tokenizer.normalizer = normalizers.BertNormalizer(
        lowercase=lowercase, strip_accents=strip_accents, handle_chinese_chars=handle_chinese_chars
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(sorted(SPECIAL_TOKENS, key=vocabulary.__getitem__))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")],
    )
    tokenizer.enable_padding(pad_id=vocabulary["[PAD]"], pad_token="[PAD]")  # noqa: S106 - not a password
    return tokenizer


def train_wordpiece(
    sentences: Iterator[list[str]] | Iterator[str], options: WordPieceOptions
) -> str:
    """Train BERT's kind of tokenizer. The same sentences and options give the same file.

    Args:
        sentences: sentences, or batches of them; only the counts of their words are kept.
        options: of the training.

    Returns:
        The tokenizer.json. Its ids are those of `SPECIAL_TOKENS`, then of the characters that words
        hold, of those that they hold behind their first, and of the pieces in the order of their
        joining.

    Raises:
        UserError: the sentences hold no word.
    """
    words = _count_words(_count_units(sentences, options.max_distinct_words), options.lowercase)
    if not words:
        raise UserError("--input", "it holds no words to train with", "Give files with text")
    characters = sorted(set().union(*words))
    inner = sorted(set().union(*(word[1:] for word in words)))
    trainer = WordPieceTrainer(
        vocab_size=options.vocab_size,
        min_frequency=options.min_frequency,
        show_progress=False,
        special_tokens=[*SPECIAL_TOKENS, *characters, *("##" + character for character in inner)],
    )
    tokenizer = Tokenizer(WordPiece(unk_token="[UNK]"))  # noqa: S106 - not a password
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.train_from_iterator(_repeat_words(words), trainer)
    vocabulary: dict[str, int] = json.loads(tokenizer.to_str())["model"]["vocab"]
    text: str = bert_tokenizer(vocabulary, options.lowercase).to_str(pretty=True)
    return text


def _count_units(sentences: Iterator[list[str]] | Iterator[str], most: int) -> Counter[str]:
    # Units, what lies between two spaces, are normalized and cut into words once each, not once an
    # occurrence.
    counts: Counter[str] = Counter()
    for batch in sentences:
        counts.update((batch if isinstance(batch, str) else " ".join(batch)).split(" "))
        while len(counts) > most:
            rarest = min(counts.values())
            counts = Counter({unit: count for unit, count in counts.items() if count > rarest})
    return counts


def _count_words(units: Counter[str], lowercase: bool) -> Counter[str]:
    normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    words: Counter[str] = Counter()
    for unit, count in units.items():
        for word, _ in pre_tokenizer.pre_tokenize_str(normalizer.normalize_str(unit)):
            words[word] += count
    return words


def _repeat_words(words: Counter[str]) -> Iterator[str]:
    """Every word as often as it was counted, which is the one way to tell the trainer a count."""
    gathered: list[str] = []
    size = 0
    for word in sorted(words):
        left, chunk = words[word], max(1, _TRAINING_TEXT // (len(word) + 1))
        while left:
            repeated = (word + " ") * min(left, chunk)
            left -= min(left, chunk)
            gathered.append(repeated)
            size += len(repeated)
            if size >= _TRAINING_TEXT:
                yield "".join(gathered)
                gathered, size = [], 0
    yield "".join(gathered)
