"""Small data sets of every objective and format, by the library's kernels and without Beam.

A text goes the way of a build: read, tokenized, built, sorted, packed and written, so that rows,
columns, counts and manifest are those of a data set that the job makes.
"""

import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from tokenizers import Tokenizer

from corpusmill.arrays import ragged
from corpusmill.corpus.batches import ReadCounts, Reject
from corpusmill.corpus.file_range import FileRange
from corpusmill.corpus.options import DocumentOptions
from corpusmill.corpus.text.reading import read_text
from corpusmill.dataset import manifest as manifests
from corpusmill.dataset import shards
from corpusmill.dataset.card import render_card
from corpusmill.dataset.distributions import (
    Counts,
    add_all,
    as_mapping,
    weigh,
    weigh_segments,
)
from corpusmill.dataset.manifest import FileEntry, Manifest, Shard, Split, entry_of
from corpusmill.dataset.manifest_json import seal, to_json
from corpusmill.formats.options import OutputOptions
from corpusmill.formats.shard_formats import FORMATS, part_names, resolve
from corpusmill.layout.placement import SPLIT_NAMES, assign_splits
from corpusmill.layout.sorting import add_keys, sort_rows
from corpusmill.objectives.bert import BertOptions
from corpusmill.objectives.electra import ElectraOptions
from corpusmill.objectives.ernie import ErnieOptions
from corpusmill.objectives.gpt import GptOptions
from corpusmill.objectives.objective import ObjectiveOptions, Repeat
from corpusmill.objectives.random_documents import Pool
from corpusmill.tokenization.encoding import encode_documents
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer
from corpusmill.tokenization.sources.read import read_tokenizer
from corpusmill.tokenization.tokenizer_file import TokenizerFile
from corpusmill.tokenization.words.word_marks import marked_dtype
from tests.conftest import CHECKOUT, read_local
from tests.tools.manifests import small_manifest

SEED = 1
SAMPLE = (CHECKOUT / "samples" / "wiki.sample.tokens").read_bytes()
# The sample's last line is a reject.
WITH_REJECT = SAMPLE + b"Not \xff text .\n"
ONE_DOCUMENT = b"The lighthouse keeper .\nThe lamp .\n"
# Documents of a few sentences, of which the sample has a hundred.
_READ = DocumentOptions(document_rule="wikitext", sentence_rule="line")

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
        text: its corpus.
    """

    objective: ObjectiveOptions = OBJECTIVES["bert"]
    output: OutputOptions = field(default_factory=OutputOptions)
    shards: int = 3
    validation_share: float = 0.2
    text: bytes = SAMPLE


def write_dataset(folder: Path, recipe: Recipe | None = None) -> Manifest:
    """Write a complete data set into a new folder, and return its manifest."""
    folder.mkdir(parents=True)
    return _Writer(folder, recipe or Recipe()).write()


def write_entries(folder: Path, entries: Mapping[str, Any]) -> None:
    """Write a manifest whose entries need not be allowed, and its `_SUCCESS`."""
    content = (json.dumps(entries, indent=1, ensure_ascii=False) + "\n").encode()
    (folder / manifests.MANIFEST).write_bytes(content)
    (folder / manifests.SUCCESS).write_bytes(seal(content))


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
def _tokenize(
    text: bytes, options: DocumentOptions, tokenizer: TokenizerFile, words: str
) -> tuple[pa.RecordBatch, Mapping[str, int], Sequence[Reject]]:
    """The documents of a text, tokenized, what this counts, and the rejects."""
    dtype = marked_dtype(tokenizer.vocab_size) if words else tokenizer.token_dtype
    encoder = SentenceTokenizer(tokenizer.json, dtype, words=words)
    batches = list(read_text(io.BytesIO(text), FileRange("text", 0, options, 0, len(text))))
    full = [batch.documents for batch in batches if batch.documents.num_rows]
    encoded = [encode_documents(encoder, batch) for batch in full]
    rejects = [reject for batch in batches for reject in batch.rejects]
    read = vars(sum((batch.counts for batch in batches), ReadCounts()))
    counts = {f"read.{name}": number for name, number in read.items()} | {
        "read.rejects": len(rejects),
        "write.rejects": len(rejects),
        "tokenize.documents": sum(batch.documents.num_rows for batch in encoded),
        "tokenize.empty_documents": sum(batch.empty_documents for batch in encoded),
        "tokenize.tokens": sum(batch.tokens for batch in encoded),
        "tokenize.unknown_tokens": sum(batch.unknown_tokens for batch in encoded),
        "tokenize.text_bytes": sum(batch.text_bytes for batch in encoded),
        "tokenize.empty_sentences": sum(batch.empty_sentences for batch in encoded),
    }
    return pa.concat_batches([batch.documents for batch in encoded]), counts, rejects


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


class _Writer:
    """Writes one data set."""

    def __init__(self, folder: Path, recipe: Recipe) -> None:
        self.folder, self.recipe = folder, recipe
        is_gpt = isinstance(recipe.objective, GptOptions)
        self.tokenizer = gpt_tokenizer() if is_gpt else bert_tokenizer()
        self.objective = recipe.objective.bind(self.tokenizer)
        self.options = resolve(recipe.output, self.objective.columns)
        self.format = FORMATS[self.options.output_format]
        self.read = recipe.objective.choose_documents(_READ)
        self.companions: list[FileEntry] = []
        self.counts: Counter[str] = Counter()

    def write(self) -> Manifest:
        documents, counts, rejects = _tokenize(
            self.recipe.text, self.read, self.tokenizer, self.objective.words
        )
        built = self.build(documents)
        splits = {
            SPLIT_NAMES[split]: self.write_split(split, examples)
            for split, examples in enumerate(built)
        }
        written = {
            **{f"build.{name}": number for name, number in self.counts.items()},
            "build.passes": documents.num_rows * self.objective.repeats,
            "build.examples": sum(examples.num_rows for examples in built),
            "write.rows": sum(split.rows for split in splits.values()),
        }
        if any("pieces" in split.distributions for split in splits.values()):
            written["write.pieces"] = sum(
                weigh(split.distributions["pieces"]) for split in splits.values()
            )
        for split in splits.values():
            if tokens := weigh_segments(split.distributions):
                before = written.get("write.segment_tokens", 0)
                written["write.segment_tokens"] = before + tokens
        manifest = replace(
            self.header(), counts={**counts, **written}, splits=splits, files=(*self.companions,)
        )
        contents = {manifests.TOKENIZER: self.tokenizer.json.encode()}
        names = {name: [shard.file for shard in split.shards] for name, split in splits.items()}
        options = manifest.objective.options
        contents |= self.format.companion_files(names, self.tokenizer.json, options)
        if rejects:
            lines = "".join(json.dumps(asdict(reject)) + "\n" for reject in rejects)
            contents[manifests.REJECTS] = lines.encode()
        manifest = manifest.with_files(contents)
        card = {manifests.CARD: render_card(manifest)}
        for name, content in {**contents, **card}.items():
            (self.folder / name).parent.mkdir(exist_ok=True)
            (self.folder / name).write_bytes(content)
        manifest = manifest.with_files(card)
        write_entries(self.folder, to_json(manifest))
        return manifest

    def build(self, documents: pa.RecordBatch) -> list[pa.RecordBatch]:
        """All examples of each split, with their keys."""
        ids, share = documents.column("document").to_numpy(), self.recipe.validation_share
        splits = assign_splits(SEED, ids, share)
        pool = _pool_of(documents, splits) if self.objective.pool_tokens else None
        built = []
        for split in range(1 + bool(share)):
            own = ragged.take_rows(documents, np.flatnonzero(splits == split))
            marks = np.full(own.num_rows, split, np.uint8)
            passes = [
                self.objective.build(own, Repeat(repeat, pool, marks, SEED))
                for repeat in range(self.objective.repeats)
            ]
            for rows in passes:
                self.counts.update(self.objective.count(own, rows))
            built.append(add_keys(pa.concat_batches(passes), SEED))
        return built

    def write_split(self, split: int, examples: pa.RecordBatch) -> Split:
        name, joined = SPLIT_NAMES[split], self.format.joined
        total = 1 if split or joined else self.recipe.shards
        suffixes = self.format.suffixes(self.options)
        entries, distributions = [], dict[str, Counts]()
        homes = examples.column("key").to_numpy() % np.uint64(total)
        for number in range(total):
            own = ragged.take_rows(examples, np.flatnonzero(homes == number))
            pattern = self.options.shard_name
            file = manifests.shard_name(name, number, total, suffixes[0], pattern)
            parts = part_names(joined[name] + suffixes[0] if joined else file, suffixes)
            counted = self.write_shard(parts, own)
            add_all(distributions, counted)
            lengths = counted.get("length", np.zeros(0, np.int64))
            first, *others = (entry_of(part, (self.folder / part).read_bytes()) for part in parts)
            self.companions += others
            size, digest = first.bytes, first.sha256
            entries.append(Shard(first.file, size, digest, int(lengths.sum()), weigh(lengths)))
        counts = {kind: as_mapping(counts) for kind, counts in distributions.items()}
        return Split.from_shards(entries, counts)

    def write_shard(self, parts: tuple[str, ...], examples: pa.RecordBatch) -> dict[str, Counts]:
        """Write the files of one shard, and return its distributions."""
        counted: dict[str, Counts] = {}
        rows = 200  # several groups a shard, as large ones have
        with ExitStack() as files, patch.object(shards, "ROW_GROUP_ROWS", rows):
            streams = [files.enter_context((self.folder / part).open("wb")) for part in parts]
            groups = sort_rows([examples], rows)
            written = shards.write_shard(self.objective, self.options, [streams], groups)
            for _, _, distributions in written:
                add_all(counted, distributions)
        return counted

    def header(self) -> Manifest:
        recipe, size = self.recipe, len(self.recipe.text)
        files = (manifests.SourceFile("wiki.sample.tokens", size),)
        return small_manifest(
            objective=manifests.ObjectiveEntry(
                self.objective.name, asdict(recipe.objective), self.objective.repeats
            ),
            seed=SEED,
            tokenizer=manifests.TokenizerEntry.from_tokenizer(self.tokenizer),
            output=manifests.OutputEntry(
                self.options.output_format, self.options, recipe.validation_share
            ),
            columns=self.objective.columns,
            corpus=manifests.CorpusEntry(asdict(self.read), None, size, files),
        )
