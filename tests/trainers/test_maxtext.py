"""MaxText's own input pipelines, over Parquet and over the tokens of Megatron-LM's files."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from itertools import islice, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from corpusmill.formats.output_options import OutputOptions
from corpusmill.objectives.gpt import GptOptions
from tests.tools.small_datasets import SAMPLE, Recipe, write_dataset
from tests.tools.trainer_programs import BATCHES, borrow, find_checkout, load, tokens_of

LENGTH, ROWS = 64, 2


def split_segments(row: dict[str, Any]) -> Iterable[tuple[int, ...]]:
    """Yield the documents of a packed row, and check that each is its own next tokens."""
    segments = row["inputs_segmentation"]
    for number in range(1, segments.max() + 1):
        places = np.flatnonzero(segments == number)
        tokens = row["inputs"][places]
        assert row["inputs_position"][places].tolist() == list(range(len(places)))
        is_predicted = row["targets_segmentation"][places] != 0
        assert is_predicted[:-1].all()
        assert row["targets"][places[:-1]].tolist() == tokens[1:].tolist()
        yield tuple(tokens.tolist())


def test_the_grain_pipeline_packs_windows_of_parquet(tmp_path: Path) -> None:
    windows = tmp_path / "windows"
    manifest = write_dataset(
        windows, Recipe(GptOptions(mode="windows", max_seq_length=LENGTH), text=2 * SAMPLE)
    )
    settings = SimpleNamespace(
        grain_file_type="parquet", tokenizer_type="huggingface", tokenizer_path=str(windows),
        add_bos=False, add_eos=False, hf_access_token=None, global_batch_size_to_load=ROWS,
        elastic_enabled=False, expansion_factor_real_data=-1, packing=True,
        grain_packing_type="first_fit", max_segments_per_seq=None, max_target_length=LENGTH,
        grain_use_elastic_iterator=False, use_truncation=True,
    )  # fmt: skip
    with borrow("maxtext", "src"):
        pipeline = load("maxtext.input_pipeline.grain_data_processing")
        files = f"{windows}/train-*.parquet"
        rows = pipeline.get_datasets(files, "parquet", True, 0, 100, 1, 0, 1, 1, 1, 1, 1)
        batches = pipeline.pretrain_preprocessing_pipeline(
            rows, settings, ("input_ids",), False, 0, 1
        )
        found = Counter[tuple[int, ...]]()
        for batch in islice(batches, BATCHES):
            assert batch["inputs"].shape == (ROWS, LENGTH)
            for number in range(ROWS):
                found.update(split_segments({name: batch[name][number] for name in batch}))
    assert found.total() > BATCHES
    assert found <= Counter(tokens_of(windows, manifest))


def test_the_olmo_pipeline_reads_the_tokens_of_megatron_files(tmp_path: Path) -> None:
    script = find_checkout("maxtext") / "tools" / "data_generation" / "build_olmo_npy_index.py"
    stream = tmp_path / "megatron"
    options = OutputOptions("megatron")
    manifest = write_dataset(stream, Recipe(GptOptions(), options, text=2 * SAMPLE))
    shards = manifest.splits["train"].shards
    names = sorted(path.name for path in stream.glob("train-*.bin"))
    assert len(names) == len(shards)
    (tmp_path / "mix.txt").write_text("".join(f"train,{name}\n" for name in names))
    subprocess.run(
        [
            sys.executable, script, "--mix-file", tmp_path / "mix.txt", "--gcs-base", stream,
            "--sequence-length", str(LENGTH), "--dtype", "uint16", "--output", tmp_path / "index",
        ],
        check=True,
    )  # fmt: skip
    with borrow("maxtext", "src"):
        index = load("maxtext.input_pipeline.olmo_data").load_index(tmp_path / "index")
        loader = load("maxtext.input_pipeline.olmo_data_grain").make_olmo_grain_data_loader(
            index, seed=1, batch_size=ROWS, shard_index=0, shard_count=1
        )
        found = Counter(
            tuple(row) for batch in islice(loader, BATCHES) for row in batch["inputs"].tolist()
        )
    # Windows of each file, one after the other; what is left of a file is left out.
    tokens = [token for row in tokens_of(stream, manifest) for token in row]
    ends = np.cumsum([shard.tokens for shard in shards]).tolist()
    expected = Counter(
        tuple(tokens[place : place + LENGTH])
        for begin, end in pairwise([0, *ends])
        for place in range(begin, end - LENGTH + 1, LENGTH)
    )
    assert found.total() == BATCHES * ROWS
    assert found <= expected
