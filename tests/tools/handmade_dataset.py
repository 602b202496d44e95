"""Small data sets, written with the library's kernels as a build does, but without the build."""

import hashlib
import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tokenizers import Tokenizer

from corpusmill.dataset.card import render_card
from corpusmill.dataset.manifest import (
    CARD,
    MANIFEST,
    REJECTS,
    SUCCESS,
    TOKENIZER,
    CorpusEntry,
    Manifest,
    ObjectiveEntry,
    OutputEntry,
    Shard,
    SourceFile,
    Split,
    TokenizerEntry,
    shard_name,
)
from corpusmill.dataset.manifest_json import seal, to_json
from corpusmill.formats.options import OutputOptions
from corpusmill.formats.shard_formats import FORMATS, resolve
from corpusmill.objectives.bert import Bert, BertOptions
from corpusmill.tokenization.special_tokens import SpecialTokens, find_special_tokens
from corpusmill.tokenization.training.wordpiece import WordPieceOptions, train_wordpiece
from tests.tools.builders import batch_of, pool_of
from tests.tools.manifests import small_manifest

SEED = 7
_WORDS = [
    "the",
    "a",
    "lighthouse",
    "keeper",
    "tower",
    "lamp",
    "sea",
    "storm",
    "boat",
    "harbour",
    "light",
    "waves",
    "rocks",
    "night",
    "fog",
    "signal",
    "stands",
    "burns",
    "turns",
    "warns",
    "watches",
    "shines",
    "over",
    "under",
    "beside",
    "tall",
    "old",
    "bright",
    "narrow",
    "quiet",
]


def write_text(documents: int, seed: int) -> list[list[str]]:
    """Documents of two to seven sentences of four to twelve words."""
    draw = random.Random(seed)  # noqa: S311 - test text, no secret
    return [
        [" ".join(draw.choices(_WORDS, k=draw.randint(4, 12))) for _ in range(draw.randint(2, 7))]
        for _ in range(documents)
    ]


@cache
def train_tokenizer() -> str:
    """A tokenizer.json with so few ids that some words are of several pieces."""
    sentences = [sentence for document in write_text(60, seed=1) for sentence in document]
    return train_wordpiece([sentences], WordPieceOptions(vocab_size=110))


def special_tokens(tokenizer_json: str) -> SpecialTokens:
    """Its special ids."""
    return find_special_tokens(json.loads(tokenizer_json), {})


@dataclass(frozen=True)
class Recipe:
    """What a data set is to be like."""

    options: BertOptions = field(
        default_factory=lambda: BertOptions(max_seq_length=64, duplicates=3)
    )
    parquet: OutputOptions = field(default_factory=OutputOptions)
    documents: int = 24
    train_shards: int = 2
    validation_documents: int = 6
    rejects: bool = True
    corpus_name: str = "wiki.sample.tokens"


def write_dataset(folder: Path, recipe: Recipe | None = None) -> Manifest:
    """Write a complete data set and give its manifest."""
    recipe = recipe or Recipe()
    folder.mkdir()
    tokenizer_json = train_tokenizer()
    tokenizer = Tokenizer.from_str(tokenizer_json)
    special = special_tokens(tokenizer_json)
    objective = Bert(recipe.options, special, tokenizer.get_vocab_size(), "int16")
    counts: Counter[str] = Counter()
    train = build_examples(objective, tokenizer, write_text(recipe.documents, SEED), counts)
    splits = {"train": _write_split(folder, "train", objective, recipe, train, recipe.train_shards)}
    if recipe.validation_documents:
        text = write_text(recipe.validation_documents, SEED + 1)
        validation = build_examples(objective, tokenizer, text, counts)
        splits["validation"] = _write_split(folder, "validation", objective, recipe, validation, 1)
    contents = {TOKENIZER: tokenizer_json.encode()}
    if recipe.rejects:
        reject = {
            "file": "a.txt",
            "offset": 3,
            "length": 9,
            "reason": "invalid-utf-8",
            "detail": "byte 0xff",
        }
        contents[REJECTS] = (json.dumps(reject) + "\n").encode()
        counts.update(
            {"read.rejects": 1, "write.rejects": 1, "read.rejected_lines": 1, "read.lines": 1}
        )
    header = _header(objective, recipe, tokenizer_json, special)
    results = replace(header, counts=dict(sorted(counts.items())), splits=splits)
    return finish(folder, results, contents)


def finish(folder: Path, manifest: Manifest, contents: Mapping[str, bytes]) -> Manifest:
    """Write further files, the card, and what declares the data set complete."""
    manifest = manifest.with_files(contents)
    card = {CARD: render_card(manifest)}
    for name, content in {**contents, **card}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    manifest = manifest.with_files(card)
    write_manifest(folder, manifest)
    return manifest


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write a manifest and the `_SUCCESS` that vouches for it."""
    write_entries(folder, to_json(manifest))


def write_entries(folder: Path, entries: Mapping[str, Any]) -> None:
    """Write a manifest whose entries need not be allowed, and its `_SUCCESS`."""
    content = (json.dumps(entries, indent=1, ensure_ascii=False) + "\n").encode()
    (folder / MANIFEST).write_bytes(content)
    (folder / SUCCESS).write_bytes(seal(content))


def build_examples(
    objective: Bert, tokenizer: Tokenizer, text: Sequence[Sequence[str]], counts: Counter[str]
) -> pa.RecordBatch:
    """All repeats of a text's examples; what a build counts is added to `counts`."""
    corpus = {
        number: [tokenizer.encode(sentence, add_special_tokens=False).ids for sentence in document]
        for number, document in enumerate(text)
    }
    splits = np.zeros(len(corpus), np.uint8)
    built = [
        objective.build(batch_of(corpus), repeat, pool_of(corpus), splits, SEED)
        for repeat in range(objective.repeats)
    ]
    examples = pa.concat_batches(built)
    sentences = sum(len(document) for document in text)
    counts.update(
        {
            "read.bytes": sum(len(sentence) + 1 for document in text for sentence in document),
            "read.lines": sentences + len(text),
            "read.sentence_lines": sentences,
            "read.sentences": sentences,
            "read.blank_lines": len(text),
            "read.documents": len(text),
            "tokenize.documents": len(text),
            "tokenize.tokens": sum(
                len(sentence) for document in corpus.values() for sentence in document
            ),
            "build.passes": len(text) * objective.repeats,
            "build.examples": examples.num_rows,
            "write.rows": examples.num_rows,
        }
    )
    return examples


def padding_options(padded: bool) -> OutputOptions:
    return OutputOptions(padding="max_length" if padded else "do_not_pad")


def _write_split(
    folder: Path,
    split: str,
    objective: Bert,
    recipe: Recipe,
    examples: pa.RecordBatch,
    num_shards: int,
) -> Split:
    shards: list[Shard] = []
    options = resolve(recipe.parquet, objective.columns)
    for number in range(num_shards):
        own = examples.take(pa.array(np.arange(number, examples.num_rows, num_shards)))
        name = shard_name(split, number, num_shards, ".parquet")
        with (folder / name).open("wb") as stream:
            writer = FORMATS["parquet"].open_writer([stream], objective.columns, options)
            if own.num_rows:
                writer.write(objective.finish(own, options.is_padded))
            writer.close()
        content = (folder / name).read_bytes()
        tokens = len(own.column("input_ids").flatten())
        digest = hashlib.sha256(content).hexdigest()
        shards.append(Shard(name, len(content), digest, own.num_rows, tokens))
    measured = objective.measure(examples).items()
    return Split.from_shards(shards, {name: counts.tolist() for name, counts in measured})


def _header(
    objective: Bert, recipe: Recipe, tokenizer_json: str, special: SpecialTokens
) -> Manifest:
    options = resolve(recipe.parquet, objective.columns)
    return small_manifest(
        objective=ObjectiveEntry("bert", asdict(recipe.options), objective.repeats),
        seed=SEED,
        tokenizer=TokenizerEntry(
            file=TOKENIZER,
            name="tokenizer.json",
            form="tokenizer.json",
            revision=None,
            options={},
            sha256=hashlib.sha256(tokenizer_json.encode()).hexdigest(),
            vocab_size=objective.vocab_size,
            special=special,
        ),
        output=OutputEntry("parquet", options, 0.2),
        columns=objective.columns,
        corpus=CorpusEntry(
            {"document_rule": "wikitext"}, None, 5000, (SourceFile(recipe.corpus_name, 5000),)
        ),
    )
