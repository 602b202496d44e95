"""Which files of a folder of Hugging Face's `save_to_disk` hold the data."""

import json
from pathlib import Path

import pytest

from corpusmill.errors import UserError
from pipeline.recipe.inputs import list_inputs
from tests.tools.lazily import LazyModule

datasets = LazyModule("datasets")


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A data set of two splits, one of two files."""
    split = datasets.Dataset.from_dict({"text": ["a", "b", "c"]})
    both = datasets.DatasetDict({"train": split, "test": split})
    both.save_to_disk(tmp_path / "saved", num_shards={"train": 2, "test": 1})
    return tmp_path / "saved"


def names(path: Path) -> list[str]:
    return [file.name for file in list_inputs([str(path)], "/nowhere")]


@pytest.mark.parametrize("end", ["", "/"])
def test_only_the_data_are_read(saved: Path, end: str) -> None:
    (saved / "train/cache-0123.arrow").write_bytes(b"x")
    assert names(Path(f"{saved}/train{end}")) == [
        "data-00000-of-00002.arrow", "data-00001-of-00002.arrow",
    ]  # fmt: skip


def test_several_splits_are_refused_and_one_is_taken(saved: Path) -> None:
    with pytest.raises(UserError, match=r"2 splits: train, test\. Give .*/saved/train"):
        names(saved)
    (saved / "dataset_dict.json").write_text('{"splits": ["test"]}')
    assert names(saved) == ["data-00000-of-00001.arrow"]


def test_a_folder_that_is_not_whole_is_refused(saved: Path) -> None:
    state = saved / "train/state.json"
    for content, cause in (
        ("{", "not valid JSON"),
        ('{"_data_files": [{"filename": "x.arrow"}]}', "lists .*/x.arrow, which is missing"),
        ('{"_data_files": []}', "no rows"),
        (json.dumps({"_indices_data_files": [{"filename": "i.arrow"}]}), "a selection of rows"),
    ):
        state.write_text(content)
        with pytest.raises(UserError, match=cause):
            names(saved / "train")


def test_other_folders_are_as_they_are(saved: Path) -> None:
    (saved / "train/dataset_info.json").unlink()
    assert "state.json" in names(saved / "train")
