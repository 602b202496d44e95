"""A folder that is damaged, half-written or not a data set is refused with a clear message."""

import builtins
import hashlib
import json
import os
import pickle
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.dataset.manifest_json import seal
from corpusmill.errors import UserError
from corpusmill.formats.output_options import OutputOptions
from corpusmill.reading.data_set import DataSet
from tests.tools.small_datasets import OBJECTIVES, Recipe, write_dataset

SHARD, OTHER = "train-00001-of-00003.parquet", "train-00000-of-00003.parquet"
Change = Callable[[Path], object]


@pytest.fixture
def data(bert: Path, tmp_path: Path) -> Path:
    """Return a copy of a data set, which a test may damage."""
    return Path(shutil.copytree(bert, tmp_path / "out"))


@pytest.fixture(scope="session")
def megatron(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data set with two files per shard."""
    folder = tmp_path_factory.mktemp("megatron") / "out"
    write_dataset(folder, Recipe(OBJECTIVES["gpt_stream"], OutputOptions("megatron")))
    return folder


def read_all(folder: Path, cache_folder: Path, **options: Any) -> int:
    data = DataSet(folder, cache_folder=cache_folder, **options)
    return len(data.take(np.arange(len(data))))


@contextmanager
def refused(*parts: str) -> Iterator[None]:
    """Check that there is a user's mistake, whose message is one line with the given parts."""
    with pytest.raises(UserError) as error:
        yield
    message = str(error.value)
    assert "\n" not in message
    assert all(part in message for part in parts), message


def replace_by_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def replace_by_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def flip_a_bit(path: Path, place: int, bit: int = 0) -> None:
    content = bytearray(path.read_bytes())
    content[place % len(content)] ^= 1 << bit
    path.write_bytes(content)


DAMAGES: dict[str, tuple[Change, str]] = {
    "missing": (Path.unlink, "missing"),
    "empty": (lambda path: path.write_bytes(b""), "0 bytes"),
    "truncated": (lambda path: path.write_bytes(path.read_bytes()[:-1]), "dataset.json says"),
    "longer": (lambda path: path.write_bytes(path.read_bytes() + b"x"), "bytes"),
    "another": (lambda path: shutil.copy(path.with_name(OTHER), path), "bytes"),
    "flipped": (lambda path: flip_a_bit(path, 99), "differ from those that were written"),
    "a folder": (replace_by_a_folder, "missing"),
    "a pipe": (replace_by_a_pipe, "it has 0 bytes"),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_shard_is_refused_by_name_or_left_out_and_counted(
    damage: str, data: Path, cache_folder: Path
) -> None:
    change, cause = DAMAGES[damage]
    rows = DataSet(data).shard_sizes
    change(data / SHARD)
    with refused(f"{data}/{SHARD}: ", cause, 'damaged="skip"'):
        read_all(data, cache_folder)
    opened = DataSet(data, cache_folder=cache_folder, damaged="skip")
    assert list(opened.skipped) == [SHARD]
    assert opened.skipped_rows == rows[1]
    assert opened.shard_sizes == (rows[0], rows[2])
    assert len(opened.take(np.arange(len(opened)))) == rows[0] + rows[2]


@given(place=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_a_flipped_bit_anywhere_is_found(
    place: int, bit: int, bert: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("flipped")
    data = Path(shutil.copytree(bert, folder / "out"))
    flip_a_bit(data / SHARD, place, bit)
    assert list(DataSet(data, damaged="skip").skipped) == [SHARD]
    with pytest.raises(UserError, match="differ from those that were written"):
        read_all(data, folder / "cache")
    shutil.rmtree(folder)


def test_shards_are_checked_only_when_they_are_read(data: Path, cache_folder: Path) -> None:
    """A damaged byte in a later shard does not prevent a run from starting."""
    flip_a_bit(data / SHARD, 99)
    whole = DataSet(data, cache_folder=cache_folder)
    assert len(whole.take(np.arange(whole.shard_sizes[0]))) == whole.shard_sizes[0]


def test_a_data_set_without_an_intact_shard_is_refused(data: Path) -> None:
    for shard in data.glob("train-*"):
        shard.unlink()
    with pytest.raises(UserError, match="all of its 3 shards are damaged"):
        DataSet(data, damaged="skip")


def test_ranks_that_skip_the_same_shards_have_equal_digests(
    bert: Path, data: Path, tmp_path: Path
) -> None:
    (data / SHARD).unlink()
    other = Path(shutil.copytree(data, tmp_path / "other"))
    flip_a_bit(other / SHARD.replace("1", "2", 1), 5)
    digests = [DataSet(folder, damaged="skip").digest for folder in (data, data, other, bert)]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


def test_a_missing_companion_of_a_shard_is_named(
    megatron: Path, tmp_path: Path, cache_folder: Path
) -> None:
    data = Path(shutil.copytree(megatron, tmp_path / "out"))
    (data / "train-00001-of-00003.idx").unlink()
    opened = DataSet(data, cache_folder=cache_folder, damaged="skip")
    assert "train-00001-of-00003.idx" in opened.skipped["train-00001-of-00003.bin"]
    with refused("train-00001-of-00003.idx", "missing"):
        DataSet(data, cache_folder=cache_folder)


def test_a_file_that_cannot_be_read_now_does_not_count_as_damaged(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a rank with a bad connection would read other examples than the others."""
    really_open = Path.open

    def fail(path: Path, *arguments: Any, **options: Any) -> Any:
        if path.name == SHARD:
            raise TimeoutError(110, "Connection timed out")
        return really_open(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", fail)
    with refused(SHARD, "cannot be read now (Connection timed out)", "Try again"):
        DataSet(data, damaged="skip")


def empty(folder: Path) -> None:
    for file in list(folder.iterdir()):
        file.unlink()


def write_a_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("")


def stop_the_build(folder: Path) -> None:
    empty(folder)
    (folder / "v1").mkdir()
    (folder / "v1" / "_run.json").write_text("{}")


def write_tables_alone(folder: Path) -> None:
    for file in set(folder.iterdir()) - set(folder.glob("*.parquet")):
        file.unlink()


HALF_WRITTEN: dict[str, tuple[Change, str]] = {
    "no folder": (shutil.rmtree, "there is no such folder"),
    "a file": (write_a_file, "it is a file"),
    "empty": (empty, "there is no dataset.json, so it is not a data set. Give the folder"),
    "plain Parquet": (write_tables_alone, "there is no dataset.json, so it is not a data set"),
    "no manifest": (lambda out: (out / "dataset.json").unlink(), "or a copy was not finished"),
    "at work": (stop_the_build, "a build is running there or was stopped"),
    "half a manifest": (
        lambda out: (out / "dataset.json").write_bytes((out / "dataset.json").read_bytes()[:500]),
        "its 500 bytes do not have the sha256 that they state",
    ),
}


@pytest.mark.parametrize("state", HALF_WRITTEN)
def test_an_incomplete_data_set_is_refused(state: str, data: Path) -> None:
    change, cause = HALF_WRITTEN[state]
    change(data)
    with refused(str(data), cause):
        DataSet(data)


def reseal(folder: Path, manifest: object) -> None:
    """Write any manifest, with its digest."""
    (folder / "dataset.json").write_bytes(seal(json.dumps(manifest).encode()))


def test_unknown_and_empty_splits_are_refused(bert: Path, data: Path) -> None:
    with refused('split="test"', "has train, validation", "Give one of these"):
        DataSet(bert, "test")
    manifest = json.loads((data / "dataset.json").read_text())
    split = manifest["splits"]["validation"]
    split.update(rows=0, tokens=0, distributions={})
    split["shards"][0].update(rows=0, tokens=0)
    reseal(data, manifest)
    with pytest.raises(UserError, match=r"has train\. Give one of these"):
        DataSet(data, "validation")


def test_rows_longer_than_the_model_are_refused(bert: Path, gpt_stream: Path) -> None:
    assert DataSet(bert, max_length=64).longest == 64
    with refused("max_length=63", "has 64 tokens", "--max-seq-length"):
        DataSet(bert, max_length=63)
    with pytest.raises(UserError, match="TokenWindows or TokenPacks"):
        DataSet(gpt_stream, max_length=63)


# Data sets from anywhere: nothing of them is executed, written elsewhere or believed unseen.
# Manifests that must not be believed are in tests/pipeline/commands/test_hostile_manifests.py.


Manifest = dict[str, Any]


def change(data: Path, by: Callable[[Manifest], object]) -> None:
    manifest = json.loads((data / "dataset.json").read_text())
    by(manifest)
    reseal(data, manifest)


def first_shard(manifest: Manifest) -> Manifest:
    shard: Manifest = manifest["splits"]["train"]["shards"][0]
    return shard


def rewrite(data: Path, by: Callable[[dict[str, list[Any]]], object]) -> None:
    """Other rows in the first shard, with a manifest that vouches for them."""
    manifest = json.loads((data / "dataset.json").read_text())
    shard = first_shard(manifest)
    path = data / shard["file"]
    table = pq.read_table(path)
    rows = table.to_pydict()
    by(rows)
    pq.write_table(pa.table(rows, schema=table.schema), path)
    content = path.read_bytes()
    shard.update(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
    reseal(data, manifest)


@pytest.mark.usefixtures("usual_thresholds")
def test_rows_that_kernels_would_write_beside_their_arrays_for_are_refused(
    data: Path, cache_folder: Path
) -> None:
    """All that is refused is in cache/test_row_checks.py."""
    rewrite(data, lambda rows: rows["masked_lm_positions"][0].__setitem__(0, 100))
    opened = DataSet(data, cache_folder=cache_folder)
    with pytest.raises(UserError) as refused:
        opened.take(np.arange(len(opened)))
    assert "its rows are not what dataset.json says" in str(refused.value)
    assert "masked_lm_positions has a place that its row does not have" in str(refused.value)
    assert not opened.cache.place(0).exists()
    assert not list(cache_folder.glob("*.*/"))


def test_rows_of_other_types_or_numbers_are_refused(data: Path, cache_folder: Path) -> None:
    manifest = (data / "dataset.json").read_bytes()
    types = {"dtype": "int64", "type": "list<element: int64 not null>"}
    change(data, lambda entries: entries["columns"][0].update(types))
    with pytest.raises(UserError, match=r"its rows are not what dataset\.json says"):
        read_all(data, cache_folder)
    (data / "dataset.json").write_bytes(manifest)
    rewrite(data, lambda rows: [column.pop() for column in rows.values()])
    with pytest.raises(UserError, match=r"its rows are not what dataset\.json says.*rows"):
        read_all(data, cache_folder)


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch exploded",)


def test_nothing_in_a_folder_is_executed(
    data: Path, cache_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code, pickles and configurations that lie beside the shards stay unread."""

    def explode(*_: object, **__: object) -> None:
        raise AssertionError("it was executed")

    read_all(data, tmp_path / "warm")  # compiled kernels are loaded as pickles, once
    bomb = pickle.dumps(Bomb())
    (data / "out.py").write_text("raise SystemExit")
    (data / "__init__.py").write_text("raise SystemExit")
    for name in ("state.pkl", "dataset.npy", "data.pt", "index.pkl.gz"):
        (data / name).write_bytes(bomb)
    added = {"loader": "out.py", "trust_remote_code": True, "_target_": "os.system"}
    change(data, lambda manifest: manifest.update(added))
    for module, name in (
        (pickle, "load"), (pickle, "loads"), (pickle, "Unpickler"), (builtins, "eval"),
        (os, "system"), (subprocess, "Popen"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, explode)
    assert read_all(data, cache_folder) > 0


def test_a_shard_that_is_a_link_is_read_where_its_bytes_are_right(
    data: Path, tmp_path: Path, cache_folder: Path
) -> None:
    """The hub's own cache is made of links, so that links are followed; only bytes count."""
    shard = data / "train-00000-of-00003.parquet"
    shard.rename(tmp_path / "blob")
    shard.symlink_to(tmp_path / "blob")
    assert read_all(data, cache_folder) > 0
    secret = tmp_path / "secret"
    secret.write_bytes(b"s3cret" * 999)
    shard.unlink()
    shard.symlink_to(secret)
    with pytest.raises(UserError) as refused:
        read_all(data, tmp_path / "other cache")
    assert "s3cret" not in str(refused.value)


def test_numbers_of_examples_that_are_none_are_refused(bert: Path, cache_folder: Path) -> None:
    data = DataSet(bert, cache_folder=cache_folder)
    for number in (-1, len(data), 2**62):
        with pytest.raises(IndexError, match=f"it has {len(data)} examples"):
            data.take(np.array([0, number]))
