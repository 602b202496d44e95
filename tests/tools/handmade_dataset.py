"""Small data sets, written with the library's kernels as a build does, but without the build."""

import hashlib
import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tokenizers import Tokenizer

from corpusmill.dataset.card import render_card
from corpusmill.dataset.manifest import (
    CARD,
    FORMAT_VERSION,
    MANIFEST,
    REJECTS,
    SUCCESS,
    TOKENIZER,
    FileEntry,
    ShardEntry,
    describe_columns,
    encode,
    shard_name,
)
from corpusmill.formats.options import OutputOptions
from corpusmill.formats.shard_formats import FORMATS, resolve
from corpusmill.objectives.bert import Bert, BertOptions
from corpusmill.tokenization.special_tokens import SpecialTokens, find_special_tokens
from corpusmill.tokenization.training.wordpiece import WordPieceOptions, train_wordpiece
from tests.tools.builders import batch_of, pool_of

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


def write_dataset(folder: Path, recipe: Recipe | None = None) -> dict[str, Any]:
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
    manifest = _header(objective, recipe, tokenizer_json, special)
    manifest |= {"counts": dict(sorted(counts.items())), "splits": splits, "files": []}
    manifest["files"] = [
        asdict(_write(folder, name, content)) for name, content in contents.items()
    ]
    manifest["files"].append(asdict(_write(folder, CARD, render_card(manifest))))
    seal(folder, manifest)
    return manifest


def seal(folder: Path, manifest: dict[str, Any]) -> None:
    """Write a manifest and the `_SUCCESS` that vouches for it."""
    content = encode(manifest)
    (folder / MANIFEST).write_bytes(content)
    (folder / SUCCESS).write_bytes(f"{hashlib.sha256(content).hexdigest()}\n".encode())


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
    folder: Path, split: str, objective: Bert, recipe: Recipe, examples: pa.RecordBatch, of: int
) -> dict[str, Any]:
    shards: list[ShardEntry] = []
    options = resolve(recipe.parquet, objective.columns)
    for number in range(of):
        own = examples.take(pa.array(np.arange(number, examples.num_rows, of)))
        name = shard_name(split, number, of, ".parquet")
        with (folder / name).open("wb") as stream:
            writer = FORMATS["parquet"].open_writer([stream], objective.columns, options)
            if own.num_rows:
                writer.write(objective.finish(own, options.is_padded))
            writer.close()
        content = (folder / name).read_bytes()
        tokens = len(own.column("input_ids").flatten())
        digest = hashlib.sha256(content).hexdigest()
        shards.append(ShardEntry(name, len(content), digest, own.num_rows, tokens))
    distributions = {name: counts.tolist() for name, counts in objective.measure(examples).items()}
    return {
        "rows": examples.num_rows,
        "tokens": sum(shard.tokens for shard in shards),
        "shards": [shard.describe() for shard in shards],
        "distributions": distributions,
    }


def _header(
    objective: Bert, recipe: Recipe, tokenizer_json: str, special: SpecialTokens
) -> dict[str, Any]:
    options = resolve(recipe.parquet, objective.columns)
    return {
        "format": "corpusmill",
        "format_version": FORMAT_VERSION,
        "corpusmill_version": "0.1.0",
        "objective": {
            "name": "bert",
            "options": asdict(recipe.options),
            "repeats": objective.repeats,
        },
        "seed": SEED,
        "tokenizer": {
            "file": TOKENIZER,
            "name": "tokenizer.json",
            "sha256": hashlib.sha256(tokenizer_json.encode()).hexdigest(),
            "vocab_size": objective.vocab_size,
            "special": asdict(special),
        },
        "output": {"format": "parquet", "options": asdict(options), "validation_share": 0.2},
        "columns": describe_columns(objective.columns, options.is_padded),
        "corpus": {
            "options": {"document_rule": "wikitext"},
            "bytes": 5000,
            "files": [{"path": recipe.corpus_name, "bytes": 5000}],
        },
    }


def _write(folder: Path, name: str, content: bytes) -> FileEntry:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(content)
    return FileEntry(name, len(content), hashlib.sha256(content).hexdigest())
