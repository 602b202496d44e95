"""OLMo-core over the tokens of Megatron-LM's files, and LitData over Parquet, by their page."""

from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from corpusmill.formats.output_options import OutputOptions
from corpusmill.objectives.gpt import GptOptions
from tests.tools.small_datasets import SAMPLE, Recipe, write_dataset
from tests.tools.trainer_programs import BATCHES, load, read_program, rows_of, tokens_of

PAGE, LENGTH = "read-with-other-trainers.md", 128


def test_olmo_core_cuts_windows_and_finds_the_documents_in_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = Recipe(GptOptions(), OutputOptions("megatron"), text=2 * SAMPLE)
    manifest = write_dataset(tmp_path / "megatron", recipe)
    load("olmo_core.data")
    samples = read_program(PAGE, "corpusmill_olmo_core.py")["dataset"]
    shards, documents = manifest.splits["train"].shards, tokens_of(tmp_path / "megatron", manifest)
    tokens = np.concatenate(documents)
    is_end = np.isin(np.arange(len(tokens)), np.cumsum([len(row) for row in documents]) - 1)
    # Windows of each file, one after the other; what is left of a file is left out.
    bounds = pairwise([0, *np.cumsum([shard.tokens for shard in shards])])
    starts = [n for begin, end in bounds for n in range(begin, end - LENGTH + 1, LENGTH)]
    assert len(samples) == len(starts) > BATCHES
    for number, start in enumerate(starts):
        sample, stop = samples[number], start + LENGTH
        assert sample["input_ids"].tolist() == tokens[start:stop].tolist()
        ends = {0, *(np.flatnonzero(is_end[start:stop]) + 1).tolist(), LENGTH}
        assert sample["doc_lens"].tolist() == np.diff(sorted(ends)).tolist()


def test_litdata_reads_each_row_of_a_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options = GptOptions(mode="pack", max_seq_length=64)
    manifest = write_dataset(tmp_path / "packed", Recipe(options, text=2 * SAMPLE))
    assert manifest.splits["validation"].rows
    load("litdata")
    rows = read_program(PAGE, "corpusmill_litdata.py")["rows"]
    expected = rows_of(tmp_path / "packed", manifest)
    assert len(rows) == len(expected) > BATCHES
    assert Counter(map(repr, rows)) == Counter(map(repr, expected))
