"""Byte-level byte-pair encoding (Sennrich et al. 2016, Radford et al. 2019), as seed 002 sets it.

The file is that of `ByteLevelBPETokenizer.train_from_iterator`, at any length of the corpus: the
trainer needs no more than the counts of words. It is determined: the alphabet of all 256 bytes is
numbered in order, joined pieces as they are joined, and pairs of equal count by these numbers.
The library's prefixes of inner pieces and suffixes of last ones are not offered: its byte-level
decoder does not take them away again.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from tokenizers import Tokenizer, decoders, pre_tokenizers, processors
from tokenizers.models import BPE
from tokenizers.normalizers import Normalizer
from tokenizers.trainers import BpeTrainer

from corpusmill.errors import UserError
from corpusmill.tokenization.training.options import (
    TrainingOptions,
    check_at_least,
    check_vocab_size,
    join_normalizers,
    make_normalizers,
)
from corpusmill.tokenization.training.word_counts import (
    check_pair_counts,
    count_words,
    repeat_words,
    split_before_words,
    word_cutter,
)

ALPHABET = tuple(sorted(pre_tokenizers.ByteLevel.alphabet()))


@dataclass(frozen=True)
class ByteLevelBpeOptions(TrainingOptions):
    """How a byte-level BPE tokenizer is trained."""

    special_tokens: tuple[str, ...] = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
    """Numbered first. Nothing is unknown to all 256 bytes, but models expect such a token."""
    vocab_size: int = 30000
    """Most tokens in the vocabulary, special tokens and the 256 bytes included."""
    min_frequency: int = 2
    """How often two neighbouring pieces must occur to be joined to one."""
    add_prefix_space: bool = False
    """Begin every text with a space, so that its first word is as if inside."""
    trim_offsets: bool = False
    """Leave the space before a word out of its offsets."""
    dropout: float = 0.0
    """Share of joins that are left out by chance when the tokenizer is used (Provilkov et al.
    2020). It changes nothing of the training, and a build of a data set takes it out."""

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: a value that no tokenizer can be trained with.
        """
        super().__post_init__()
        tokens = len(self.special_tokens) + len(set(ALPHABET) - set(self.special_tokens))
        check_vocab_size(self.vocab_size, tokens, "the 256 bytes and the special tokens")
        check_at_least(1, "--min-frequency", self.min_frequency)
        if not 0 <= self.dropout <= 1:
            raise UserError(
                f"--dropout {self.dropout}", "it lies outside 0 to 1", "Give a share, such as 0.1"
            )


def train_byte_level_bpe(
    sentences: Iterable[list[str]] | Iterable[str], options: ByteLevelBpeOptions
) -> str:
    """Train a byte-level BPE tokenizer. The same sentences and options give the same file.

    Args:
        sentences: sentences, or batches of them; only the counts of their words are kept.
        options: of the training.

    Returns:
        The tokenizer.json. Its ids are those of the special tokens, then of the bytes, and of the
        pieces in the order of their joining.

    Raises:
        UserError: the sentences hold no word, or one pair of bytes too often to be counted.
    """
    normalizer = join_normalizers(make_normalizers(options.normalizers))
    pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=options.add_prefix_space)
    words = count_words(
        _normalize(sentences, normalizer, "lowercase" in options.normalizers),
        word_cutter(None, pre_tokenizer),
        options.max_distinct_words,
        split_before_words,
    )
    check_pair_counts(words)
    trainer = BpeTrainer(
        vocab_size=options.vocab_size,
        min_frequency=options.min_frequency,
        show_progress=False,
        special_tokens=list(options.special_tokens),
        initial_alphabet=list(ALPHABET),
    )
    trained = Tokenizer(BPE())
    trained.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trained.train_from_iterator(repeat_words(words), trainer)
    model = json.loads(trained.to_str())["model"]
    merges = [(first, second) for first, second in model["merges"]]
    tokenizer = Tokenizer(BPE(model["vocab"], merges, dropout=options.dropout or None))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=options.trim_offsets)
    tokenizer.add_special_tokens(list(options.special_tokens))
    text: str = tokenizer.to_str(pretty=True)
    return text


def _normalize(
    sentences: Iterable[list[str]] | Iterable[str], normalizer: Normalizer | None, lowercase: bool
) -> Iterable[list[str]] | Iterable[str]:
    """Sentences as they are cut: a normalizer can make white space, and that decides of cuts."""
    if normalizer is None:
        return sentences

    def normalize(sentence: str) -> str:
        # Of ASCII every normalizer but the one of case leaves all as it is.
        if sentence.isascii():
            return sentence.lower() if lowercase else sentence
        normalized: str = normalizer.normalize_str(sentence)
        return normalized

    return (
        [normalize(sentence) for sentence in ((batch,) if isinstance(batch, str) else batch)]
        for batch in sentences
    )
