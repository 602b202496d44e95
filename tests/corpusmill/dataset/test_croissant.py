import hashlib
import json
from pathlib import Path
from typing import Any

import mlcroissant
import numpy as np
import pytest

from corpusmill.dataset.manifest import CARD, CROISSANT, MANIFEST, REJECTS, SUCCESS
from corpusmill.formats.options import OutputOptions
from corpusmill.reading.data_set import DataSet
from tests.tools.small_datasets import OBJECTIVES, WITH_REJECT, Recipe, write_dataset


def files_of(folder: Path) -> dict[str, dict[str, Any]]:
    metadata = json.loads((folder / CROISSANT).read_bytes())
    listed = [entry for entry in metadata["distribution"] if entry["@type"] == "cr:FileObject"]
    return {entry["@id"]: entry for entry in listed}


@pytest.mark.parametrize("padding", ["do_not_pad", "max_length"])
def test_mlcroissant_validates_it_and_loads_the_examples(tmp_path: Path, padding: Any) -> None:
    write_dataset(tmp_path / "out", Recipe(output=OutputOptions(padding=padding)))
    loaded = mlcroissant.Dataset(tmp_path / "out" / CROISSANT)
    assert not loaded.metadata.ctx.issues.errors
    for split in ("train", "validation"):
        records = list(loaded.records(split))
        data_set = DataSet(tmp_path / "out", split, cache_folder=tmp_path / "cache")
        assert len(records) == len(data_set)
        record, row = records[-1], data_set[len(data_set) - 1]
        assert record.pop(f"{split}/split") == split.encode()
        assert list(record) == [f"{split}/{name}" for name in row]
        for name, values in row.items():
            # Readers drop the padding that shards have.
            stored = np.atleast_1d(record[f"{split}/{name}"])
            assert stored.dtype == np.asarray(values).dtype or name == "next_sentence_label"
            assert stored[: np.size(values)].tolist() == np.atleast_1d(values).tolist()


@pytest.mark.parametrize(
    ("objective", "output_format"), [("gpt_stream", "megatron"), ("bert", "tfrecord")]
)
def test_of_formats_that_croissant_lacks_it_lists_the_files(
    tmp_path: Path, objective: str, output_format: str
) -> None:
    output = OutputOptions(output_format=output_format)
    write_dataset(tmp_path / "out", Recipe(OBJECTIVES[objective], output, text=WITH_REJECT))
    assert not mlcroissant.Dataset(tmp_path / "out" / CROISSANT).metadata.record_sets
    listed = files_of(tmp_path / "out")
    present = {path.name for path in (tmp_path / "out").iterdir() if path.is_file()}
    assert listed.keys() == present - {CARD, CROISSANT, MANIFEST, SUCCESS}
    for name, entry in listed.items():
        assert entry["sha256"] == hashlib.sha256((tmp_path / "out" / name).read_bytes()).hexdigest()


def test_it_keeps_rejects_and_the_machine_to_itself(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_dataset(tmp_path / name, Recipe(text=WITH_REJECT))
    content = (tmp_path / "one" / CROISSANT).read_bytes()
    assert (tmp_path / "one" / REJECTS).exists()
    assert REJECTS not in files_of(tmp_path / "one")
    assert str(tmp_path).encode() not in content
    assert content == (tmp_path / "two" / CROISSANT).read_bytes()
