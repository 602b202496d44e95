"""Manifests made by hand, for tests that need no files."""

from dataclasses import replace
from typing import Any

from corpusmill.arrays.columns import Column, Role
from corpusmill.dataset.manifest import (
    TOKENIZER,
    Manifest,
    ObjectiveEntry,
    OutputEntry,
    Shard,
    TokenizerEntry,
)
from corpusmill.dataset.manifest_entries import CorpusEntry
from corpusmill.formats.output_options import OutputOptions
from corpusmill.tokenization.tokenizer_file import SpecialTokens

INPUT_IDS = Column("input_ids", "int16", "tokens", 64, role=Role.TOKEN_IDS)


def small_manifest(**changes: Any) -> Manifest:
    """A manifest without shards, with some of its entries replaced."""
    special = SpecialTokens(2, 3, 4, 0, 1, (0, 1, 2, 3, 4))
    manifest = Manifest(
        corpusmill_version="0.1.0",
        objective=ObjectiveEntry("gpt", {"mode": "windows"}, 1),
        seed=1,
        tokenizer=TokenizerEntry(
            TOKENIZER, "tokenizer.json", "tokenizer.json", None, {}, "0" * 64, 600, special
        ),
        output=OutputEntry(
            "parquet", OutputOptions(padding="do_not_pad", compression="zstd"), 0.0, 1
        ),
        columns=(INPUT_IDS,),
        corpus=CorpusEntry({"document_rule": "wikitext"}, None, 5000, ()),
    )
    return replace(manifest, **changes)


def small_shard(file: str, rows: int = 1, tokens: int = 1, source: str | None = None) -> Shard:
    """The entry of a shard that does not exist."""
    return Shard(file, 1, "0" * 64, rows, tokens, source)
