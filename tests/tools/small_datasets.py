"""Small data sets of every objective and format, by the library's kernels and without Beam.

The bundled sample goes the way of a build: read, tokenized, built, sorted, packed and written, so
that rows, columns and manifest are those of a data set that the job makes.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
from tokenizers import Tokenizer

from corpusmill.arrays import ragged
from corpusmill.corpus.file_range import FileRange
from corpusmill.corpus.options import DocumentOptions
from corpusmill.corpus.text.reading import read_text
from corpusmill.dataset.distributions import add_counts
from corpusmill.dataset.manifest import (
    TOKENIZER,
    CorpusEntry,
    FileEntry,
    Manifest,
    ObjectiveEntry,
    OutputEntry,
    Shard,
    SourceFile,
    Split,
    TokenizerEntry,
    entry_of,
    shard_name,
)
from corpusmill.formats.options import OutputOptions
from corpusmill.formats.shard_formats import FORMATS, part_names, resolve
from corpusmill.layout.placement import SPLIT_NAMES, assign_splits
from corpusmill.layout.sorting import add_keys, sort_rows
from corpusmill.objectives.bert import BertOptions
from corpusmill.objectives.electra import ElectraOptions
from corpusmill.objectives.ernie import ErnieOptions
from corpusmill.objectives.gpt import GptOptions
from corpusmill.objectives.objective import Objective, ObjectiveOptions
from corpusmill.objectives.random_documents import Pool
from corpusmill.tokenization.encoding import encode_documents
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer
from corpusmill.tokenization.sources.read import read_tokenizer
from corpusmill.tokenization.tokenizer_file import TokenizerFile
from corpusmill.tokenization.words.word_marks import marked_dtype
from tests.conftest import CHECKOUT, read_local
from tests.tools.handmade_dataset import finish
from tests.tools.manifests import small_manifest

SEED = 1
_SAMPLE = CHECKOUT / "samples" / "wiki.sample.tokens"
# Documents of a few sentences, of which the sample has a hundred.
_READ = DocumentOptions(document_rule="wikitext", sentence_rule="line")
_ROWS = 200

# One of each objective, as its users build it; rows are short, so that all is quick.
OBJECTIVES: Mapping[str, ObjectiveOptions] = {
    "bert": BertOptions(max_seq_length=64, duplicates=5),
    "bert_dynamic": BertOptions(
        max_seq_length=64, duplicates=5, whole_word_mask=True, mask="dynamic"
    ),
    "ernie": ErnieOptions(max_seq_length=64, duplicates=5),
    "electra": ElectraOptions(max_seq_length=64, duplicates=2),
    "gpt_stream": GptOptions(),
    "gpt_windows": GptOptions(mode="windows", max_seq_length=48, overlap=8),
    "gpt_pack": GptOptions(mode="pack", max_seq_length=64),
}


@dataclass(frozen=True)
class Recipe:
    """What a data set is to be like.

    Attributes:
        objective: options of its objective.
        output: how its shards are written.
        shards: of the train split; validation has one.
        validation_share: of the documents; 0 for no such split.
    """

    objective: ObjectiveOptions
    output: OutputOptions = field(default_factory=OutputOptions)
    shards: int = 3
    validation_share: float = 0.2


def write_small_dataset(folder: Path, recipe: Recipe) -> Path:
    """Write a complete data set into a new folder, and give the folder."""
    folder.mkdir(parents=True)
    tokenizer = gpt_tokenizer() if isinstance(recipe.objective, GptOptions) else bert_tokenizer()
    objective = recipe.objective.bind(tokenizer)
    options = resolve(recipe.output, objective.columns)
    manifest = _write_splits(folder, recipe, objective, options, tokenizer)
    shards = {
        name: [shard.file for shard in split.shards] for name, split in manifest.splits.items()
    }
    companions = FORMATS[options.output_format].companion_files(
        shards, tokenizer.json, manifest.objective.options
    )
    finish(folder, manifest, {TOKENIZER: tokenizer.json.encode(), **companions})
    return folder


@cache
def bert_tokenizer() -> TokenizerFile:
    """The fixed WordPiece tokenizer of 600 tokens."""
    return read_tokenizer(str(CHECKOUT / "tests" / "data" / "tokenizer.json"), read_local)


@cache
def gpt_tokenizer() -> TokenizerFile:
    """The same, with a token that ends texts."""
    tokenizer = Tokenizer.from_str(bert_tokenizer().json)
    tokenizer.add_special_tokens(["<|endoftext|>"])
    content = tokenizer.to_str().encode()
    return read_tokenizer("tokenizer.json", {"tokenizer.json": content}.get)


@cache
def _documents(tokenizer: TokenizerFile, words: str, options: DocumentOptions) -> pa.RecordBatch:
    """The sample's documents, tokenized."""
    dtype = marked_dtype(tokenizer.vocab_size) if words else tokenizer.token_dtype
    encoder = SentenceTokenizer(tokenizer.json, dtype, words=words)
    with _SAMPLE.open("rb") as stream:
        read = read_text(stream, FileRange(_SAMPLE.name, 0, options, 0, _SAMPLE.stat().st_size))
        full = [batch.documents for batch in read if batch.documents.num_rows]
    return pa.concat_batches([encode_documents(encoder, batch).documents for batch in full])


def _pool_of(documents: pa.RecordBatch, splits: np.ndarray) -> Pool:
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


def _build(
    recipe: Recipe, objective: Objective, tokenizer: TokenizerFile
) -> tuple[list[pa.RecordBatch], dict[str, int]]:
    """All examples of each split, with their keys; and what a build counts."""
    read = recipe.objective.choose_documents(_READ)
    documents = _documents(tokenizer, objective.words, read)
    splits = assign_splits(SEED, documents.column("document").to_numpy(), recipe.validation_share)
    pool = _pool_of(documents, splits) if objective.pool_tokens else None
    built = []
    for split in range(1 + bool(recipe.validation_share)):
        own = ragged.take_rows(documents, np.flatnonzero(splits == split))
        marks = np.full(own.num_rows, split, np.uint8)
        passes = [
            objective.build(own, repeat, pool, marks, SEED) for repeat in range(objective.repeats)
        ]
        built.append(add_keys(pa.concat_batches(passes), SEED))
    counts = {
        "read.documents": documents.num_rows,
        "tokenize.documents": documents.num_rows,
        "build.passes": documents.num_rows * objective.repeats,
        "build.examples": sum(examples.num_rows for examples in built),
    }
    return built, counts


def _write_splits(
    folder: Path,
    recipe: Recipe,
    objective: Objective,
    options: OutputOptions,
    tokenizer: TokenizerFile,
) -> Manifest:
    """Write all shards; gives the manifest without other files."""
    shard_format = FORMATS[options.output_format]
    suffixes, joined = shard_format.suffixes(options), shard_format.joined
    splits: dict[str, Split] = {}
    companions: list[FileEntry] = []
    built, counts = _build(recipe, objective, tokenizer)
    for part, examples in enumerate(built):
        name, number = SPLIT_NAMES[part], 1 if part or joined else recipe.shards
        shards, distributions = [], dict[str, np.ndarray]()
        homes = examples.column("key").to_numpy() % np.uint64(number)
        for shard in range(number):
            own = ragged.take_rows(examples, np.flatnonzero(homes == shard))
            file = shard_name(name, shard, number, suffixes[0], options.shard_name)
            parts = part_names(joined[name] + suffixes[0] if joined else file, suffixes)
            rows, tokens = _write_shard(folder, parts, own, objective, options, distributions)
            first, *others = (entry_of(part, (folder / part).read_bytes()) for part in parts)
            companions += others
            shards.append(Shard(first.file, first.bytes, first.sha256, rows, tokens))
        lists = {kind: counts.tolist() for kind, counts in distributions.items()}
        splits[name] = Split.from_shards(shards, lists)
    counts["write.rows"] = sum(split.rows for split in splits.values())
    for split in splits.values():
        if pieces := split.distributions.get("pieces"):
            added = sum(value * number for value, number in enumerate(pieces))
            counts["write.pieces"] = counts.get("write.pieces", 0) + added
    header = _header(recipe, objective, options, tokenizer)
    return replace(header, counts=counts, splits=splits, files=tuple(companions))


def _write_shard(
    folder: Path,
    parts: tuple[str, ...],
    examples: pa.RecordBatch,
    objective: Objective,
    options: OutputOptions,
    distributions: dict[str, np.ndarray],
) -> tuple[int, int]:
    """Write one shard and add its distributions; gives its rows and tokens."""
    rows = tokens = 0
    with ExitStack() as files:
        streams = [files.enter_context((folder / part).open("wb")) for part in parts]
        writer = FORMATS[options.output_format].open_writer(streams, objective.columns, options)
        for group in objective.pack(_sorted(examples)):
            rows += group.num_rows
            tokens += len(ragged.from_arrow(group.column("input_ids"))[0])
            for name, counts in objective.measure(group).items():
                distributions[name] = add_counts(distributions.get(name, counts[:0]), counts)
            writer.write(objective.finish(group, options.is_padded))
        writer.close()
    return rows, tokens


def _sorted(examples: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    # Several groups a shard, as large ones have.
    return sort_rows([examples], _ROWS)


def _header(
    recipe: Recipe, objective: Objective, options: OutputOptions, tokenizer: TokenizerFile
) -> Manifest:
    size = _SAMPLE.stat().st_size
    documents = asdict(recipe.objective.choose_documents(_READ))
    return small_manifest(
        objective=ObjectiveEntry(objective.name, asdict(recipe.objective), objective.repeats),
        seed=SEED,
        tokenizer=TokenizerEntry.from_tokenizer(tokenizer),
        output=OutputEntry(options.output_format, options, recipe.validation_share),
        columns=objective.columns,
        corpus=CorpusEntry(documents, None, size, (SourceFile(_SAMPLE.name, size),)),
    )
