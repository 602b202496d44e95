"""Manifests of generations, joined."""

import json
from dataclasses import replace

import numpy as np

from corpusmill.corpus.batches import document_id
from corpusmill.dataset.editing import join_manifests
from corpusmill.dataset.manifest import FileEntry, Manifest, Split
from corpusmill.dataset.manifest_entries import Generation, Provenance, SourceFile
from corpusmill.dataset.manifest_json import encode, from_json
from corpusmill.layout.placement import Layout
from tests.tools.manifests import small_manifest, small_shard


def part(number: int, **counts: int) -> Manifest:
    """A generation of one file and one shard; the second has shards of validation, too."""
    tag = f"more{number}" if number else ""
    name = f"-{tag}" if tag else ""
    splits = {
        "train": small_shard(f"train{name}-00000-of-00001.parquet", rows=3, tokens=10 + number)
    }
    if number == 1:
        splits["validation"] = small_shard(f"validation{name}-00000-of-00001.parquet", 3, 11)
    lengths = {"length": {3: 2, 4 + number: 1}}
    corpus = replace(small_manifest().corpus, bytes=10, files=(SourceFile("text", 10),))
    return small_manifest(
        corpusmill_version=f"1.{number}",
        corpus=corpus,
        counts=counts,
        splits={split: Split.from_shards([shard], lengths) for split, shard in splits.items()},
        files=(
            FileEntry(f"v{number + 1}/root/tokenizer.json", 2, "0" * 64),
            FileEntry(f"v{number + 1}/more{number}", 1, "1" * 64),
        ),
        provenance=Provenance(1, (Generation(number, Layout(1, 1, 0), tag),)),
    )


def test_shards_files_and_counts_of_all_generations_stand_together() -> None:
    parts = [part(0, **{"read.lines": 4}), part(1, **{"read.lines": 3, "read.rejects": 1}), part(2)]
    joined = join_manifests(join_manifests(parts[0], parts[1]), parts[2])
    assert joined.corpus.bytes == 30
    assert [file.path for file in joined.corpus.files] == ["text"] * 3
    assert joined.counts == {"read.lines": 7, "read.rejects": 1}
    train = joined.splits["train"]
    assert [shard.file for shard in train.shards] == [
        each.splits["train"].shards[0].file for each in parts
    ]
    assert (train.rows, train.tokens) == (9, 33)
    assert train.distributions == {"length": {3: 6, 4: 1, 5: 1, 6: 1}}
    assert joined.splits["validation"].rows == 3
    assert [entry.file for entry in joined.files] == [
        "v1/more0", "v2/more1", "v3/root/tokenizer.json", "v3/more2",
    ]  # fmt: skip
    assert joined.corpusmill_version == "1.2"
    assert joined.provenance is not None
    assert [
        (generation.tag, generation.first_file, dict(generation.shards))
        for generation in joined.provenance.generations
    ] == [("", 0, {"train": 1}), ("more1", 1, {"train": 1, "validation": 1}),
          ("more2", 2, {"train": 1})]  # fmt: skip
    joined = replace(joined, version=3)
    assert from_json(json.loads(encode(joined))) == joined


def test_what_only_one_has_counted_is_known_of_the_other() -> None:
    counts: list[tuple[dict[str, int], dict[str, int], dict[str, int]]] = [
        # Nothing was dropped from the documents that no filter saw.
        ({"read.documents": 5}, {"read.documents": 3, "filter.documents": 3, "filter.dropped": 1},
         {"read.documents": 8, "filter.documents": 8, "filter.dropped": 1}),
        ({"read.documents": 5, "filter.documents": 5}, {"read.documents": 3},
         {"read.documents": 8, "filter.documents": 8}),
        # Where no copies are counted, each document was taken once.
        ({"tokenize.documents": 5, "tokenize.copies": 9}, {"tokenize.documents": 3},
         {"tokenize.documents": 8, "tokenize.copies": 12}),
    ]  # fmt: skip
    for earlier, added, joined in counts:
        assert join_manifests(part(0, **earlier), part(1, **added)).counts == joined


def test_each_document_has_a_generation() -> None:
    # Of three files, and then two, one and two that were added.
    firsts, layout = (0, 3, 5, 6), Layout(1, 1, 0)
    parts = tuple(Generation(first, layout, f"more{first}" * bool(first)) for first in firsts)
    documents = np.array([document_id(file, 7) for file in range(8)], np.uint64)
    assert Provenance(1, parts).numbers_of(documents).tolist() == [0, 0, 0, 1, 1, 2, 3, 3]
