"""Unigram language model (Kudo 2018) over text whose spaces are written as "▁".

The trainer is that of SentencePiece. The one of the tokenizers library sums floating-point numbers
in the order of a hash table, so that every process gives other scores, with one thread, too.
SentencePiece sorts the words that it is given, and sums in an order that depends on nothing but the
number of its threads, which is fixed here; it takes the count of a word from beside it. (Logarithms
are those of the C library: another one may differ in a score's last bit.)

The tokenizers library then cuts text as SentencePiece does, but for words of which two cuts are as
likely up to the rounding of 32-bit sums: SentencePiece sums in 32 bits, the library in 64 (one
word of WikiText-2 in 7 of its 25 thousand lines, with the default options).
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from io import BytesIO

from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import Unigram

from corpusmill.errors import UserError
from corpusmill.tokenization.training.options import (
    TrainingOptions,
    check_unknown_token,
    check_vocab_size,
    join_normalizers,
    make_normalizers,
)
from corpusmill.tokenization.training.word_counts import count_words, word_cutter

_THREADS = 16

# What the trainer keeps for its own use, and what its lines and columns end with.
_RESERVED = "\0\t\n\r\u2585"
# The comma, stop and such of Chinese. No piece crosses from these marks to letters, so cutting
# there changes no probability; it keeps short, and few, the words of scripts without spaces. A word
# of a thousand letters is cut as well: sums over very long ones lose their precision.
_STOPS = "\u3001\u3002\uff01\uff0c\uff1b\uff1f"
_PARTS = re.compile(f"[{_STOPS}]+|[^{_STOPS}{_RESERVED}]{{1,1000}}")


@dataclass(frozen=True)
class UnigramOptions(TrainingOptions):
    """How a unigram tokenizer is trained."""

    special_tokens: tuple[str, ...] = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
    """Numbered first."""
    unk_token: str = "<unk>"  # noqa: S105 - not a password
    """The special token that stands for characters outside the vocabulary."""
    vocab_size: int = 8000
    """Most tokens in the vocabulary, special tokens included."""
    character_coverage: float = 1.0
    """Share of the corpus' characters that the vocabulary covers; the rarest are left out. 0.9995
    is usual for Chinese and Japanese."""

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: a value that no tokenizer can be trained with.
        """
        super().__post_init__()
        check_unknown_token(self.unk_token, self.special_tokens)
        least = len(self.special_tokens) + 2
        check_vocab_size(self.vocab_size, least, "the special tokens, the space and a letter")
        if not 0.98 <= self.character_coverage <= 1:
            raise UserError(
                f"--character-coverage {self.character_coverage}",
                "it lies outside 0.98 to 1",
                "Give 1, or 0.9995 for a script of thousands of characters",
            )


def train_unigram(sentences: Iterable[list[str]] | Iterable[str], options: UnigramOptions) -> str:
    """Train a unigram tokenizer. The same sentences and options give the same file.

    Args:
        sentences: sentences, or batches of them; only the counts of their words are kept.
        options: of the training.

    Returns:
        The tokenizer.json. Its ids are those of the special tokens, then of the pieces by their
        probability.

    Raises:
        UserError: the sentences hold no word, or more characters than the vocabulary has room for.
    """
    normalizer = join_normalizers(make_normalizers(options.normalizers))
    pre_tokenizer = pre_tokenizers.Metaspace()
    words = count_words(
        sentences, word_cutter(normalizer, pre_tokenizer), options.max_distinct_words
    )
    special = [(token, 0.0) for token in options.special_tokens]
    pieces = _train_pieces(words, options)
    place = options.special_tokens.index(options.unk_token)
    tokenizer = Tokenizer(Unigram([*special, *pieces], unk_id=place, byte_fallback=False))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(list(options.special_tokens))
    text: str = tokenizer.to_str(pretty=True)
    return text


def _train_pieces(words: Counter[str], options: UnigramOptions) -> list[tuple[str, float]]:
    """Pieces and the logarithms of their probabilities, by these."""
    parts: Counter[str] = Counter()
    for word, count in words.items():
        for part in _PARTS.findall(word):
            parts[part] += count
    # The trainer cannot be shown these; those that occur are tokens all the same.
    unshown = sorted(set(_RESERVED) & set().union(*words))
    others = len(options.special_tokens) + len(unshown)
    if options.character_coverage == 1:
        needed = others + len(set().union(*parts))
        check_vocab_size(options.vocab_size, needed, "special tokens and characters of the corpus")
    processor = SentencePieceProcessor(
        model_proto=train_sentencepiece(parts, options.vocab_size - others, options)
    )
    special = set(options.special_tokens)
    pieces = [
        (processor.id_to_piece(place), processor.get_score(place))
        for place in range(processor.get_piece_size())
        if not processor.is_unknown(place)
    ]
    least = min(score for _, score in pieces)
    return [pair for pair in [*pieces, *((c, least) for c in unshown)] if pair[0] not in special]


def train_sentencepiece(parts: Counter[str], room: int, options: UnigramOptions) -> bytes:
    """The model file that SentencePiece gives for counted words.

    Args:
        parts: words, with "▁" for spaces and without what the trainer keeps for itself.
        room: most pieces.
        options: of the training.

    Raises:
        UserError: there are more characters than room, or nothing to train with.
    """
    model = BytesIO()
    try:
        SentencePieceTrainer.train(
            sentence_iterator=(f"{part}\t{parts[part]}" for part in sorted(parts)),
            model_writer=model,
            input_format="tsv",
            model_type="unigram",
            vocab_size=room + 1,  # with its own token for what is unknown
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
            f"--vocab-size {options.vocab_size}",
            f"SentencePiece refuses it ({reason})",
            "Give a larger one, or a smaller --character-coverage",
        ) from None
    return model.getvalue()
