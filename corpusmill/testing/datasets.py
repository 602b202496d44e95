"""A small corpus, a tokenizer for it, and small data sets, for tests of few seconds without files.

The data sets are what the job builds, made in a plain loop without Beam.
"""

import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa
from tokenizers import Tokenizer
from tokenizers.decoders import WordPiece as WordPieceDecoder
from tokenizers.models import WordPiece
from tokenizers.pre_tokenizers import Whitespace

from corpusmill.arrays import ragged
from corpusmill.corpus.batches import FileRange, ReadCounts, Reject
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.reject_lines import to_line
from corpusmill.corpus.text.text_documents import read_text
from corpusmill.dataset import manifest as manifests
from corpusmill.dataset.card import describe
from corpusmill.dataset.manifest_entries import (
    CorpusEntry,
    Counts,
    SourceFile,
    add_all,
    as_mapping,
    weigh,
    weigh_segments,
)
from corpusmill.dataset.manifest_json import decode
from corpusmill.dataset.shards import write_shard
from corpusmill.formats.output_options import OutputOptions
from corpusmill.formats.shard_formats import FORMATS, GROUP_ROWS, part_names, resolve
from corpusmill.layout.placement import SPLIT_NAMES, assign_splits
from corpusmill.layout.sorting import add_keys, sort_rows
from corpusmill.objectives.objective import Objective, Repeat
from corpusmill.objectives.objective_options import ObjectiveOptions
from corpusmill.objectives.random_documents import Pool
from corpusmill.objectives.registry import OBJECTIVES
from corpusmill.tokenization.encoding import encode_documents
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer
from corpusmill.tokenization.sources.read import read_tokenizer
from corpusmill.tokenization.text_cuts import Cuts
from corpusmill.tokenization.tokenizer_file import TOKENIZER_JSON, TokenizerFile

_WORDS = """
    the a of and to in was is for on with as by at from that his her had were be which this an
    or river town keeper lamp storm harbour winter letter captain island bread window garden
    road walked carried remembered opened answered lighted waited counted crossed mended
""".split()  # noqa: SIM905
# As in a language, a few words are frequent.
_SHARES = 1 / np.arange(1, len(_WORDS) + 1) / np.sum(1 / np.arange(1, len(_WORDS) + 1))
_SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<|endoftext|>")
# Words that the vocabulary spells in two tokens.
_CUT = {word: (word[:4], f"##{word[4:]}") for word in _WORDS if len(word) > 6}


def small_text(documents: int = 60, seed: int = 0) -> bytes:
    r"""Return a corpus of random words, which every rule of documents and sentences can read.

    Args:
        documents: how many there are: a title of the first level, then one to twelve lines.
        seed: of the words.

    Example:
        b" = river = \n\nthe lamp was waited .\nkeeper of winter .\n\n = town = ...".
    """
    generator = np.random.default_rng(seed)
    return "".join(_write_document(number, generator) for number in range(documents)).encode()


def _write_document(number: int, generator: np.random.Generator) -> str:
    lengths = generator.integers(2, 20, generator.integers(1, 13))
    lines = [" ".join([*generator.choice(_WORDS, length, p=_SHARES), "."]) for length in lengths]
    return "\n".join([f" = {_WORDS[number % len(_WORDS)]} = ", "", *lines, "", ""])


def small_tokenizer(*special_tokens: str) -> TokenizerFile:
    """Return a WordPiece tokenizer for `small_text`, with BERT's special tokens and GPT's.

    Args:
        special_tokens: further special tokens, such as "<|fim_prefix|>".
    """
    special = [*_SPECIAL_TOKENS, *special_tokens]
    words = [piece for word in _WORDS for piece in _CUT.get(word, (word,))]
    pieces = dict.fromkeys([*special, ".", "=", *words])
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token=_SPECIAL_TOKENS[1]))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.decoder = WordPieceDecoder()
    tokenizer.add_special_tokens(special)
    content = json.dumps(json.loads(tokenizer.to_str())).encode()
    return read_tokenizer(TOKENIZER_JSON, {TOKENIZER_JSON: content}.get)


@dataclass(frozen=True)
class SmallBuild:
    """What a small data set is made of.

    Attributes:
        objective: the objective's options.
        tokenizer: the tokenizer.
        text: the corpus, one text file.
        documents: how documents are read; what it leaves open, the objective chooses.
        output: how shards are written.
        shards: of the train split, in random order; validation has one.
        validation_share: of the documents; 0 for no such split.
        seed: of all draws.
    """

    objective: ObjectiveOptions
    tokenizer: TokenizerFile
    text: bytes
    documents: DocumentOptions = field(default_factory=DocumentOptions)
    output: OutputOptions = field(default_factory=OutputOptions)
    shards: int = 3
    validation_share: float = 0.2
    seed: int = 1

    @property
    def read(self) -> DocumentOptions:
        """How documents are read."""
        return self.objective.choose_documents(replace(self.documents, input_format="text"))

    def bind(self) -> Objective:
        """The objective, bound to the tokenizer."""
        roles = self.objective.special_tokens
        return self.objective.bind(self.tokenizer.with_roles(roles))

    def tokenize(self) -> "Tokenized":
        """The documents of the text, tokenized."""
        objective = self.bind()
        cuts = objective.text_cuts(self.seed)
        return _tokenize(self.text, self.read, self.tokenizer, objective.words, cuts)


@dataclass(frozen=True)
class Tokenized:
    """The tokenized documents of a text.

    Attributes:
        documents: a batch of `corpusmill.tokenization.encoding.tokenized_schema`, with facts, as an
            objective gets them in a job.
        counts: of what was read and tokenized, by the job's names.
        rejects: what could not be read.
    """

    documents: pa.RecordBatch
    counts: Mapping[str, int]
    rejects: Sequence[Reject]


@cache
def _tokenize(
    text: bytes,
    options: DocumentOptions,
    tokenizer: TokenizerFile,
    words: str,
    cuts: Cuts | None,
) -> Tokenized:
    dtype = tokenizer.choose_dtype(words)
    in_text = tokenizer.options.special_tokens_in_text
    encoder = SentenceTokenizer(tokenizer.json, dtype, True, in_text, words)
    batches = list(read_text(io.BytesIO(text), FileRange("text", 0, options, 0, len(text))))
    full = [batch.documents for batch in batches if batch.documents.num_rows]
    encoded = [encode_documents(encoder, batch, cuts, facts=True) for batch in full]
    rejects = [reject for batch in batches for reject in batch.rejects]
    read = vars(sum((batch.counts for batch in batches), ReadCounts()))
    documents = pa.concat_batches([batch.documents for batch in encoded])
    counts = {f"read.{name}": number for name, number in read.items()}
    counts |= {"read.rejects": len(rejects), "write.rejects": len(rejects)}
    counts["tokenize.documents"] = documents.num_rows
    for name in ("empty_documents", "tokens", "unknown_tokens", "text_bytes", "empty_sentences"):
        counts[f"tokenize.{name}"] = sum(getattr(batch, name) for batch in encoded)
    return Tokenized(documents, counts, rejects)


def pool_of(documents: pa.RecordBatch, splits: np.ndarray) -> Pool:
    """The pool that holds all documents.

    Args:
        documents: tokenized documents.
        splits: uint8[documents], 0 for train and 1 for validation.
    """
    ordered = ragged.take_rows(documents, np.argsort(splits, kind="stable"))
    sentences, document_offsets = ragged.from_arrow(ordered.column("sentences"))
    token_ids, sentence_offsets = ragged.from_arrow(sentences)
    return Pool(
        ordered.column("document").to_numpy(),
        document_offsets.astype(np.int64),
        sentence_offsets.astype(np.int64),
        token_ids,
        np.array([0, np.count_nonzero(splits == 0), len(splits)]),
    )


def keyed_rows(build: SmallBuild) -> list[pa.RecordBatch]:
    """The examples of all documents as one split, a batch for each pass, with their keys."""
    objective, documents = build.bind(), build.tokenize().documents
    splits = np.zeros(documents.num_rows, np.uint8)
    pool = pool_of(documents, splits)
    passes = (Repeat(number, pool, splits, build.seed) for number in range(objective.repeats))
    return [add_keys(objective.build(documents, repeat), build.seed) for repeat in passes]


def write_dataset(folder: Path, build: SmallBuild) -> manifests.Manifest:
    """Write a complete data set into a new folder, and return its manifest."""
    folder.mkdir(parents=True)
    return _Writer(folder, build).write()


class _Writer:
    """Writes one data set."""

    def __init__(self, folder: Path, build: SmallBuild) -> None:
        self.folder, self.made = folder, build
        self.objective = build.bind()
        self.options = resolve(build.output, self.objective.columns)
        self.format = FORMATS[self.options.output_format]
        self.companions, self.counts = list[manifests.FileEntry](), Counter[str]()

    def write(self) -> manifests.Manifest:
        tokenized = self.made.tokenize()
        built = self.build(tokenized.documents)
        splits = {
            SPLIT_NAMES[split]: self.write_split(split, examples)
            for split, examples in enumerate(built)
        }
        self.counts.update(tokenized.counts)
        self.counts["build.passes"] = tokenized.documents.num_rows * self.objective.repeats
        self.counts["build.examples"] = sum(examples.num_rows for examples in built)
        for split in splits.values():
            self.counts["write.rows"] += split.rows
            if pieces := split.distributions.get("pieces"):
                self.counts["write.pieces"] += weigh(pieces)
            if tokens := weigh_segments(split.distributions):
                self.counts["write.segment_tokens"] += tokens
        manifest = replace(
            self.header(), counts=dict(self.counts), splits=splits, files=(*self.companions,)
        )
        contents = manifest.small_files(self.made.tokenizer.json)
        if tokenized.rejects:
            contents[manifests.REJECTS] = b"".join(map(to_line, tokenized.rejects))
        contents = describe(manifest, contents)
        for name, data in contents.items():
            (self.folder / name).parent.mkdir(exist_ok=True)
            (self.folder / name).write_bytes(data)
        return decode(contents[manifests.MANIFEST], str(self.folder))

    def build(self, documents: pa.RecordBatch) -> list[pa.RecordBatch]:
        """All examples of each split, with their keys."""
        ids = documents.column("document").to_numpy()
        share, seed = self.made.validation_share, self.made.seed
        splits = assign_splits(seed, ids, share)
        pool = pool_of(documents, splits) if self.objective.pool_tokens else None
        built = []
        for split in range(1 + bool(share)):
            own = ragged.take_rows(documents, np.flatnonzero(splits == split))
            marks = np.full(own.num_rows, split, np.uint8)
            passes = [
                self.objective.build(own, Repeat(repeat, pool, marks, seed))
                for repeat in range(self.objective.repeats)
            ]
            for rows in passes:
                counted = self.objective.count(own, rows)
                self.counts.update({f"build.{name}": counted[name] for name in counted})
            built.append(add_keys(pa.concat_batches(passes), seed))
        return built

    def write_split(self, split: int, examples: pa.RecordBatch) -> manifests.Split:
        name, joined = SPLIT_NAMES[split], self.format.joined
        total = 1 if split or joined else self.made.shards
        suffixes = self.format.suffixes(self.options)
        entries, distributions = [], dict[str, Counts]()
        homes = examples.column("key").to_numpy() % np.uint64(total)
        for number in range(total):
            own = ragged.take_rows(examples, np.flatnonzero(homes == number))
            pattern = self.options.shard_name
            file = manifests.shard_name(name, number, total, suffixes[0], pattern)
            parts = part_names(joined[name] + suffixes[0] if joined else file, suffixes)
            counted = dict[str, Counts]()
            with ExitStack() as files:
                streams = [files.enter_context((self.folder / part).open("wb")) for part in parts]
                groups = sort_rows([own], GROUP_ROWS)
                for group in write_shard(self.objective, self.options, streams, groups):
                    add_all(counted, group.distributions)
            add_all(distributions, counted)
            lengths = counted.get("length", np.zeros(0, np.int64))
            first, *others = (
                manifests.entry_of(part, (self.folder / part).read_bytes()) for part in parts
            )
            self.companions += others
            sizes = first.bytes, first.sha256, int(lengths.sum()), weigh(lengths)
            entries.append(manifests.Shard(first.file, *sizes))
        counts = {kind: as_mapping(counts) for kind, counts in distributions.items()}
        return manifests.Split.from_shards(entries, counts)

    def header(self) -> manifests.Manifest:
        made, objective = self.made, self.objective
        size = len(made.text)
        tokenizer = made.tokenizer.with_roles(made.objective.special_tokens)
        return manifests.Manifest(
            corpusmill_version=version("corpusmill"),
            objective=manifests.ObjectiveEntry(
                name=objective.name,
                options=asdict(made.objective),
                repeats=objective.repeats,
                package=OBJECTIVES.package_of(objective.name),
                facts=objective.facts,
            ),
            seed=made.seed,
            tokenizer=manifests.TokenizerEntry.from_tokenizer(tokenizer),
            output=manifests.OutputEntry(
                format=self.format.name,
                options=self.options,
                validation_share=made.validation_share,
                num_shards=made.shards,
                package=FORMATS.package_of(self.format.name),
            ),
            columns=objective.columns,
            corpus=CorpusEntry(asdict(made.read), None, size, (SourceFile("text", size),)),
        )
