"""The command that trains a tokenizer: it writes a tokenizer.json, and a model's own files."""

from dataclasses import dataclass, field
from typing import Annotated, Literal, TypedDict

from corpusmill.arrays.randomness import MAX_SEED
from corpusmill.commands.command import Command
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.filters.functions import FilterOptions
from corpusmill.objectives.objective_options import SuitedTokenizer
from corpusmill.objectives.registry import OBJECTIVES
from corpusmill.settings.constraints import CheckedOptions, Needs, Range
from corpusmill.tokenization.training.parts import NormalizerName
from pipeline.commands.builds import FORMAT_NAMES
from pipeline.console.run_log import LogOptions
from pipeline.job_options import InputOptions, RunOptions, parse_size


@dataclass(frozen=True)
class SampleOptions(CheckedOptions):
    """Which part of a corpus to train with; all of it if neither a share nor bytes are set."""

    sample: Annotated[float | None, Range(0, 1, without=0), Needs("sample_bytes", None)] = None
    """Share of the documents to train with, drawn uniformly from the whole corpus."""
    sample_bytes: int | str | None = None
    """About how many bytes of text to train with, such as 500MB or 2GB, from pieces of the corpus
    that are drawn uniformly. Nothing else of it is read, but compressed files are read to their
    end."""
    seed: Annotated[int, Range(0, MAX_SEED)] = 0
    """The same corpus and seed give the same sample, and the same documents of a source that is
    taken in part, which are those of a build with this seed."""

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: a value is not valid, or both a share and a number of bytes are set.
        """
        super().__post_init__()
        _ = self.bytes

    @property
    def bytes(self) -> int | None:
        """How many bytes of text to train with; None for all."""
        size = self.sample_bytes
        return None if size is None else parse_size("sample_bytes", size)


class GivenOptions(TypedDict, total=False):
    """Options of the models. An option that the chosen model does not have is refused."""

    vocab_size: int
    """Largest size of the vocabulary, including special tokens. By default 30522 for wordpiece,
    30000 for bpe, 8000 for unigram, and all words for wordlevel."""
    min_frequency: int
    """wordpiece, bpe: how often two neighbouring pieces must occur to be merged; 2 by default.
    wordlevel: how often a word must occur; 1 by default."""
    special_tokens: tuple[str, ...]
    """Special tokens, in the order of their ids: before all others, but after them for wordlevel.
    By default [PAD] [UNK] [CLS] [SEP] [MASK] for wordpiece, <|unk|> <|endoftext|> for wordlevel,
    and <s> <pad> </s> <unk> <mask> for bpe and unigram; with --for those of the objective."""
    unk_token: str
    """wordlevel, unigram: the special token for unknown words; <|unk|> and <unk> by default."""
    normalizers: tuple[NormalizerName, ...]
    """How text is normalized before it is split, in this order; not at all by default."""
    lowercase: bool
    """wordpiece: lower-case the text and strip accents, as BERT's uncased models do; the default.
    For other models, use --normalizers lowercase."""
    limit_alphabet: int
    """wordpiece: how many characters the vocabulary may have, the most frequent; all by default."""
    character_coverage: float
    """unigram: the share of the corpus' characters that the vocabulary covers; 1 by default. With
    --extend 0.9995, with the characters that the tokenizer has."""
    pattern: str
    """bpe: how text is cut into words, which no token crosses: gpt2 (the default), cl100k (GPT-4),
    o200k (GPT-4o), llama3, qwen2, deepseek3, digits (gpt2, but each digit is a word) or digits3 (up
    to three); or a regular expression of Oniguruma's, whose matches are words, as is what lies
    between them."""
    add_prefix_space: bool
    """bpe: begin every text with a space; not by default."""
    trim_offsets: bool
    """bpe: exclude the space before a word from its offsets; not by default."""
    dropout: float
    """bpe: the share of merges skipped at random when the tokenizer is used; 0 by default."""
    max_distinct_words: int
    """Most distinct words to train with; 5 million by default. If a corpus has more, the rarest are
    left out: all that occur less often than some number, the smallest that leaves no more."""
    max_distinct_bytes: int
    """Most bytes of distinct words to train with; 48 million by default, 24 million for unigram and
    64 million for wordlevel. This bounds the memory of training. If a corpus has more, as one
    without spaces between words, the rarest are left out, and of those that occur equally often a
    sample is kept."""
    max_trained_bytes: int
    """unigram: most bytes of words, each as often as it occurs; 80 million by default. The trainer
    takes 13 times as much memory. If a corpus has more, all counts are divided by one number, as if
    the words were those of a sample."""


@dataclass(frozen=True, kw_only=True)
class TrainTokenizer:
    """Train a tokenizer on a corpus of any size."""

    corpus: InputOptions = field(default_factory=InputOptions)
    output: str
    """The tokenizer.json to write."""
    extend: str | None = None
    """A tokenizer, as for a build, that gets new tokens from the corpus, up to --vocab-size in all;
    its own tokens keep their ids. Of BPE, byte-level or not, and WordPiece."""
    model: Literal["wordpiece", "bpe", "wordlevel", "unigram"] | None = None
    """The kind of tokenizer: BERT's WordPiece, byte-level BPE, whole words, or a unigram model. By
    default wordpiece, or the one that suits the objective of --for."""
    for_: str | None = None
    """The objective, such as t5, whose model and special tokens are trained where none are
    given."""
    save_model: str | None = None
    """Folder for the model's own files, in addition to the tokenizer.json: vocab.txt of wordpiece,
    vocab.json and merges.txt of bpe, vocab.json of wordlevel, unigram.json of unigram."""
    replace: bool = False
    """Replace files that exist."""
    resume: bool = False
    """Continue a run with the same input and options that was stopped while it counted words, or
    after that, perhaps with another --vocab-size or other limits of training."""
    drawn: SampleOptions = field(default_factory=SampleOptions)
    training: GivenOptions = field(default_factory=GivenOptions)
    documents: DocumentOptions = field(default_factory=DocumentOptions)
    filters: FilterOptions = field(default_factory=FilterOptions)
    run: RunOptions = field(default_factory=RunOptions)
    log: LogOptions = field(default_factory=LogOptions)

    @property
    def meeting(self) -> str:
        """The file by which ranks meet that share the work."""
        return f"{self.output}.ranks.json"

    @property
    def suited(self) -> SuitedTokenizer:
        """The model that is trained, and its special tokens; none for those of the model.

        Raises:
            UserError: the objective cannot be used.
        """
        if self.extend is not None:
            return SuitedTokenizer("extension")
        suited = SuitedTokenizer("wordpiece")
        if self.for_ is not None:
            suited = OBJECTIVES[self.for_].suited_tokenizer
        return SuitedTokenizer(self.model or suited.model, suited.special_tokens)


COMMAND = Command(
    TrainTokenizer,
    "pipeline.jobs.tokenizer_training:train_tokenizer",
    {**FORMAT_NAMES, (TrainTokenizer, "for_"): OBJECTIVES.names},
)
