"""The whole job against the same kernels in a plain loop."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpusmill.arrays.randomness import MAX_SEED
from corpusmill.corpus.batches import FileRange
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.text.text_documents import read_text
from corpusmill.layout.placement import VALIDATION, Layout, assign_splits, draw_keys, sort_order
from corpusmill.objectives.bert import Bert, BertOptions
from corpusmill.objectives.objective import Repeat
from corpusmill.tokenization.encoding import encode_documents
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer
from corpusmill.tokenization.tokenizer_file import TokenizerFile
from tests.tools.builders import pool_of
from tests.tools.data_files import find_files
from tests.tools.jobs import build, rows_of, unmask

Sentences = list[list[int]]
Row = dict[str, Any]


def tokenized_documents(text: Path, tokenizer: TokenizerFile) -> Iterator[pa.RecordBatch]:
    sentences_to_ids = SentenceTokenizer(tokenizer.json, tokenizer.token_dtype)
    with text.open("rb") as stream:
        for batch in read_text(stream, FileRange(text.name, 0, DocumentOptions())):
            yield encode_documents(sentences_to_ids, batch.documents).documents


def plain_loop(
    text: Path, tokenizer: TokenizerFile, options: BertOptions, layout: Layout, share: float,
    padded: bool,
) -> list[pa.Table]:  # fmt: skip
    """The rows of each shard: no Beam, no files, all in memory."""
    bert = Bert(options, tokenizer.special, tokenizer.vocab_size, tokenizer.token_dtype.name)
    batches = list(tokenized_documents(text, tokenizer))
    splits = [
        assign_splits(layout.seed, entry.column("document").to_numpy(), share) for entry in batches
    ]

    of_split: tuple[dict[int, Sentences], dict[int, Sentences]] = ({}, {})
    for batch, split_of_document in zip(batches, splits, strict=True):
        for document, split in zip(batch.to_pylist(), split_of_document, strict=True):
            of_split[split][document["document"]] = document["sentences"]
    pool = pool_of(*of_split)

    examples = pa.concat_batches(
        [
            bert.build(batch, Repeat(repeat, pool, split_of_document, layout.seed))
            for batch, split_of_document in zip(batches, splits, strict=True)
            for repeat in range(options.duplicates)
        ]
    )
    documents, repeats, indices = (examples.column(place).to_numpy() for place in range(3))
    homes = layout.homes(documents, assign_splits(layout.seed, documents, share)).tolist()
    places = [layout.shards_of(home, options.duplicates) for home in homes]
    shards = np.array(
        [entry[repeat % len(entry)] for entry, repeat in zip(places, repeats, strict=True)]
    )
    keys = draw_keys(documents, repeats, indices, seed=layout.seed)
    tables = []
    for shard in range(layout.shards):
        rows = np.flatnonzero(shards == shard)
        order = sort_order(keys[rows], documents[rows], repeats[rows], indices[rows])
        finished = bert.finish(examples.take(pa.array(rows[order])), padded)
        tables.append(pa.Table.from_batches([finished]))
    return tables


@pytest.mark.parametrize(
    ("share", "padded", "seed"), [(0.0, False, 1), (0.25, True, 0), (0.25, False, MAX_SEED)]
)
def test_the_job_writes_what_a_plain_loop_builds(
    share: float, padded: bool, seed: int, sample: Path, tokenizer_path: Path,
    tokenizer: TokenizerFile, tmp_path: Path,
) -> None:  # fmt: skip
    layout = Layout(seed, 3, 1 if share else 0)
    options = BertOptions(max_seq_length=64, duplicates=2)
    expected = plain_loop(sample, tokenizer, options, layout, share, padded)
    flags = ("--seed", str(seed), "--validation-share", str(share), "--range-bytes", "9000")
    build(
        [sample], tokenizer_path, tmp_path / "out", *flags, "--padding",
        "max_length" if padded else "do_not_pad",
    )  # fmt: skip
    shards = [pq.read_table(path) for path in find_files(tmp_path / "out", "*.parquet")]
    assert [shard.num_rows for shard in shards] == [table.num_rows for table in expected]
    for shard, table in zip(shards, expected, strict=True):
        assert shard.equals(table)
    assert min(shard.num_rows for shard in shards) > 50


class WordCorpus:
    """Documents in which no word occurs twice, and a vocabulary of all: a token tells its place."""

    def __init__(self, folder: Path, documents: int, sentences: int, words: int) -> None:
        self.words_of_document = sentences * words
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        self.first = len(special)
        vocabulary = [f"w{number}" for number in range(documents * sentences * words)]
        self.tokenizer = folder / "vocab.txt"
        self.tokenizer.write_text("\n".join([*special, *vocabulary]) + "\n")
        lines = [
            " ".join(vocabulary[start : start + words])
            for start in range(0, len(vocabulary), words)
        ]
        blocks = [
            "\n".join(lines[start : start + sentences]) for start in range(0, len(lines), sentences)
        ]
        self.text = folder / "text"
        self.text.write_text("\n\n".join(blocks) + "\n")

    def build(self, output: Path, *flags: str) -> dict[str, list[Row]]:
        """The rows of each split, with the masked ids put back."""
        unmasked = ("--max-predictions-per-seq", "None")
        build([self.text], self.tokenizer, output, *unmasked, *flags)
        return {
            split: [{**row, "input_ids": unmask(row)} for row in rows_of(output, f"{split}-*")]
            for split in ("train", "validation")
        }

    def documents(self, row: Row, segment: int) -> set[int]:
        """Which documents the words of a segment are of."""
        tokens = zip(row["input_ids"], row["token_type_ids"], strict=True)
        return {
            (token - self.first) // self.words_of_document
            for token, kind in tokens
            if kind == segment and token >= self.first
        }


def test_no_document_is_in_both_splits_and_pairs_stay_in_their_own(tmp_path: Path) -> None:
    corpus = WordCorpus(tmp_path, documents=60, sentences=4, words=6)
    rows = corpus.build(tmp_path / "out", "--validation-share", "0.3", "--max-seq-length", "32")
    seen = {
        split: {
            document
            for row in entry
            for segment in (0, 1)
            for document in corpus.documents(row, segment)
        }
        for split, entry in rows.items()
    }
    assert seen["train"] & seen["validation"] == set()
    assert seen["train"] | seen["validation"] == set(range(60))
    for entry in rows.values():
        # A second segment is empty where the first one fills a short target.
        pairs = [row for row in entry if corpus.documents(row, 1)]
        assert sum(bool(row["next_sentence_label"]) for row in pairs) > 5
        for row in pairs:
            [first], [second] = corpus.documents(row, 0), corpus.documents(row, 1)
            assert (first != second) == bool(row["next_sentence_label"])


def test_the_share_of_validation_documents_is_as_asked(
    sample: Path, tokenizer: TokenizerFile
) -> None:
    ids = np.concatenate(
        [
            tokenized_document.column("document").to_numpy()
            for tokenized_document in tokenized_documents(sample, tokenizer)
        ]
    )
    in_validation = int((assign_splits(1, ids, 0.3) == VALIDATION).sum())
    assert 18 <= in_validation <= 45  # of 105; binomial, one false alarm in 3000


def test_a_corpus_of_one_document_makes_pairs_of_its_own_sentences(tmp_path: Path) -> None:
    corpus = WordCorpus(tmp_path, documents=1, sentences=8, words=6)
    rows = corpus.build(tmp_path / "out", "--duplicates", "5")["train"]
    assert len(rows) >= 5
    assert {row["next_sentence_label"] for row in rows} == {0}


def test_documents_of_one_sentence_are_paired_with_other_documents(tmp_path: Path) -> None:
    corpus = WordCorpus(tmp_path, documents=30, sentences=1, words=6)
    rows = corpus.build(tmp_path / "out", "--duplicates", "1")["train"]
    assert {document for row in rows for document in corpus.documents(row, 0)} == set(range(30))
    for row in rows:
        assert row["next_sentence_label"] == 1
        assert corpus.documents(row, 0).isdisjoint(corpus.documents(row, 1))
