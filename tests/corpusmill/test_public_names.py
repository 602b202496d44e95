"""`import corpusmill`: what it offers, and what it leaves alone until then."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import corpusmill
from corpusmill import DataSet, job
from corpusmill.errors import UserError
from corpusmill.reading.data_set import DataSet as DataSetOfReaders
from tests.conftest import CHECKOUT

NAMES = {
    "DataSet", "Dataset", "Loader", "MapDataset", "StreamingDataset", "TensorLoader", "__version__",
    "build", "collator_for", "inspect_corpus", "make_batches", "mix", "push", "train_tokenizer",
    "verify",
}  # fmt: skip


def test_the_names_that_a_trainer_needs_are_listed_and_there() -> None:
    assert set(dir(corpusmill)) >= NAMES
    assert all(getattr(corpusmill, name) for name in NAMES)
    assert DataSet is corpusmill.Dataset is DataSetOfReaders
    with pytest.raises(AttributeError, match="has no attribute 'DataSets'"):
        corpusmill.DataSets  # noqa: B018


def test_without_the_job_its_functions_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "find_job", lambda: None)
    monkeypatch.setattr(job, "__file__", "/elsewhere/corpusmill/job.py")
    with pytest.raises(UserError, match=r"not installed. Run pip install corpusmill-job\.$"):
        corpusmill.build("bert", ["a text"], "tokenizer.json", "out")


def test_importing_loads_no_heavy_library_and_writes_nothing(tmp_path: Path) -> None:
    code = (
        "import sys, corpusmill; dir(corpusmill); "
        "print(sorted({'numba', 'numpy', 'pyarrow', 'tokenizers', 'torch'} & sys.modules.keys()))"
    )
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "HOME": str(tmp_path)}
    environment.pop("XDG_CACHE_HOME", None)
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    printed = subprocess.check_output(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, text=True
    )
    assert printed == "[]\n"
    assert list(tmp_path.iterdir()) == []


def test_a_data_set_says_what_it_is() -> None:
    folder = CHECKOUT / "tests" / "data" / "small_data_set"
    data = DataSet(folder)
    assert repr(data) == (
        f"<DataSet {data.digest[:16]} for bert, split 'train' of train: {len(data):,} rows of "
        f"{data.manifest.splits['train'].tokens:,} tokens, validation: 0 rows of 0 tokens>"
    )
