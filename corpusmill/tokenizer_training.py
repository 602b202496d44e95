"""Tokenizers trained from streams of text, so that the corpus need not fit into memory."""

from collections.abc import Iterator
from dataclasses import dataclass

from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import WordPiece
from tokenizers.trainers import WordPieceTrainer

from corpusmill.faults import UserError

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@dataclass(frozen=True)
class WordPieceOptions:
    """How a WordPiece tokenizer is trained."""

    vocab_size: int = 30522
    """Most tokens in the vocabulary, special tokens included."""
    min_frequency: int = 2
    """How often a pair of pieces must occur to become one."""
    lowercase: bool = True
    """Lower-case the text and strip accents, as BERT's uncased models do."""

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: a value that no tokenizer can be trained with.
        """
        if self.vocab_size <= len(SPECIAL_TOKENS):
            raise UserError(
                f"--vocab-size {self.vocab_size}", "the special tokens alone need more",
                f"Give more than {len(SPECIAL_TOKENS)}",
            )
        if self.min_frequency < 0:
            raise UserError(f"--min-frequency {self.min_frequency}", "it is negative", "Give 0 or more")


def train_wordpiece(sentences: Iterator[list[str]], options: WordPieceOptions) -> str:
    """Train BERT's kind of tokenizer.

    Args:
        sentences: batches of sentences; only their words' counts are kept.
        options: of the training.

    Returns:
        The tokenizer.json.
    """
    tokenizer = Tokenizer(WordPiece(unk_token="[UNK]"))  # noqa: S106 - not a password
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=options.lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = WordPieceTrainer(
        vocab_size=options.vocab_size, min_frequency=options.min_frequency,
        special_tokens=list(SPECIAL_TOKENS), show_progress=False,
    )
    tokenizer.train_from_iterator(sentences, trainer)
    ids = {token: tokenizer.token_to_id(token) for token in SPECIAL_TOKENS}
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])],
    )
    tokenizer.enable_padding(pad_id=ids["[PAD]"], pad_token="[PAD]")  # noqa: S106 - not a password
    text: str = tokenizer.to_str(pretty=True)
    return text
