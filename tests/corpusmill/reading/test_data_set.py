"""Examples by number, as pyarrow reads them from the same files; in this process and in others."""

import pickle
import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.errors import UserError
from corpusmill.reading.checks import check_present
from corpusmill.reading.data_set import DataSet
from tests.tools.knobs import knobs
from tests.tools.loopback_hub import DataSet as HubDataSet
from tests.tools.loopback_hub import serve
from tests.tools.small_datasets import OBJECTIVES, SEED

NAMES = tuple(OBJECTIVES)


@pytest.fixture(scope="session")
def opened(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[DataSet, pa.Table]]:
    """Return each data set with its rows as pyarrow reads them."""
    cache = tmp_path_factory.mktemp("cache")
    results = {}
    for name in NAMES:
        folder: Path = request.getfixturevalue(name)
        tables = [pq.read_table(shard) for shard in sorted(folder.glob("train-*"))]
        results[name] = DataSet(folder, cache_folder=cache), pa.concat_tables(tables)
    return results


def plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: cell if isinstance(cell, int) else cell.tolist() for name, cell in row.items()}


def rows_of(data: DataSet, samples: np.ndarray) -> list[dict[str, Any]]:
    return [plain(row) for row in data.take(samples)]


@given(name=st.sampled_from(NAMES), numbers=st.lists(st.integers(0, 10**6), max_size=40))
def test_any_examples_in_any_order_are_those_that_pyarrow_reads(
    name: str, numbers: list[int], opened: dict[str, tuple[DataSet, pa.Table]]
) -> None:
    data, table = opened[name]
    samples = np.array(numbers, np.int64) % len(data)
    rows = data.take(samples)
    assert [plain(row) for row in rows] == table.take(pa.array(samples)).to_pylist()
    assert np.array_equal(rows.samples, samples)
    lengths = [len(row["input_ids"]) for row in rows]
    assert data.lengths(samples).tolist() == lengths
    assert all(length <= data.longest for length in lengths)


@pytest.mark.parametrize("name", NAMES)
def test_a_data_set_has_the_rows_and_types_of_its_files(
    name: str, opened: dict[str, tuple[DataSet, pa.Table]]
) -> None:
    data, table = opened[name]
    assert len(data) == table.num_rows == sum(data.shard_sizes)
    assert plain(data[0]) == table.slice(0, 1).to_pylist()[0]
    assert plain(data[-1]) == table.slice(table.num_rows - 1).to_pylist()[0]
    assert data.longest == max(data.lengths(np.arange(len(data))))
    assert data.manifest.seed == SEED
    for column in data.columns:
        value = data[0][column.name]
        assert isinstance(value, int) if not column.width else value.dtype == column.dtype
    with pytest.raises(IndexError):
        data[len(data)]


def test_each_split_is_a_data_set(bert: Path, cache_folder: Path) -> None:
    data = DataSet(bert, "validation", cache_folder=cache_folder)
    table = pq.read_table(bert / "validation-00000-of-00001.parquet")
    assert rows_of(data, np.arange(len(data))) == table.to_pylist()
    assert data.digest != DataSet(bert).digest


def test_taking_no_examples_gives_no_rows(bert: Path, cache_folder: Path) -> None:
    rows = DataSet(bert, cache_folder=cache_folder).take(np.array([], np.int64))
    assert list(rows) == []
    assert rows.lists("input_ids").lengths.tolist() == []
    assert not cache_folder.exists()


def send_rows(data: DataSet, samples: np.ndarray, to: Connection) -> None:
    to.send(rows_of(data, samples))


@pytest.mark.parametrize(("method", "is_open"), [("fork", False), ("fork", True), ("spawn", True)])
def test_other_processes_read_the_same(
    method: str, is_open: bool, bert: Path, cache_folder: Path
) -> None:
    data, samples = DataSet(bert, cache_folder=cache_folder), np.array([200, 3, 3, 100])
    if is_open:
        data.take(samples)
    context = get_context(method)
    receive, to = context.Pipe(duplex=False)
    process = context.Process(target=send_rows, args=(data, samples, to))  # type: ignore[attr-defined]
    process.start()
    to.close()  # so that nothing is waited for where the process fails
    results = receive.recv()
    process.join()
    assert results == rows_of(data, samples)


def test_a_copy_that_is_sent_holds_no_rows(bert: Path, cache_folder: Path) -> None:
    data = DataSet(bert, cache_folder=cache_folder)
    before = pickle.dumps(data)
    data.take(np.arange(len(data)))
    assert len(pickle.dumps(data)) == len(before) < 20_000
    again = pickle.loads(before)  # noqa: S301
    assert plain(again[7]) == plain(data[7])
    assert again.digest == data.digest


@pytest.fixture
def in_memory(bert: Path) -> Iterator[str]:
    """Return the URL of a copy of a data set."""
    files = fsspec.filesystem("memory")
    files.put(f"{bert}/", "/data/out", recursive=True)
    yield "memory://data/out"
    files.rm("/data", recursive=True)


@pytest.mark.parametrize("block_bytes", [100, 2**22])
def test_a_remote_folder_is_read_and_each_shard_fetched_once(
    block_bytes: int,
    in_memory: str,
    bert: Path,
    cache_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fetched = []
    files = fsspec.filesystem("memory")
    really_open = type(files)._open

    def note(folder: object, path: str, *arguments: Any, **options: Any) -> Any:
        fetched.append(path.rpartition("/")[2])
        return really_open(folder, path, *arguments, **options)

    monkeypatch.setattr(type(files), "_open", note)
    local = DataSet(bert, cache_folder=cache_folder.with_name("local"))
    for _ in range(2):
        with knobs(compared_bytes=block_bytes):
            data = DataSet(in_memory, cache_folder=cache_folder)
            numbers = np.arange(len(data))[::-1]
            assert rows_of(data, numbers) == rows_of(local, numbers)
    shards = [name for name in fetched if name.startswith("train")]
    assert sorted(shards) == sorted(shard.file for shard in data.shards)
    assert data.digest == local.digest
    assert not list(cache_folder.rglob("copies"))


def test_a_damaged_remote_shard_is_refused(in_memory: str, cache_folder: Path) -> None:
    files = fsspec.filesystem("memory")
    name = "train-00001-of-00003.parquet"
    content = bytearray(files.cat(f"/data/out/{name}"))
    content[50] ^= 4
    files.pipe(f"/data/out/{name}", bytes(content))
    data = DataSet(in_memory, cache_folder=cache_folder)
    with pytest.raises(UserError, match=f"{in_memory}/{name}: its bytes differ from those"):
        data.take(np.arange(len(data)))
    assert list(DataSet(in_memory, damaged="skip").skipped) == [name]
    files.rm(f"/data/out/{name}")
    with pytest.raises(UserError, match="it is missing"):
        DataSet(in_memory)


def test_a_broken_connection_is_distinguished_from_a_damaged_shard(
    in_memory: str, cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients of object stores raise their own errors, which are not OSErrors."""
    data = DataSet(in_memory, cache_folder=cache_folder)

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("the server sent no response")

    monkeypatch.setattr(
        type(fsspec.filesystem("memory").open("/data/out/dataset.json")), "read", fail
    )
    with pytest.raises(UserError, match=r"cannot be read now \(the server sent .* Try again"):
        data[0]
    for damaged in ("refuse", "skip"):
        with pytest.raises(UserError, match=r"dataset\.json cannot be read \(the server sent"):
            DataSet(in_memory, damaged=damaged)


def test_a_data_set_on_the_hub_is_read(
    bert: Path, cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    files = {path.name: path.read_bytes() for path in bert.iterdir()}
    with serve({"me/out": HubDataSet(files)}) as hub:
        data = DataSet(
            "hf://datasets/me/out",
            cache_folder=cache_folder,
            storage_options={"endpoint": hub.address, "token": False},
        )
        local = DataSet(bert, cache_folder=cache_folder.with_name("local"))
        numbers = np.arange(0, len(data), 7)
        assert rows_of(data, numbers) == rows_of(local, numbers)
    assert data.digest == local.digest


@pytest.mark.parametrize(("listed_files", "is_looked_for"), [(2, False), (3, True), (4, True)])
def test_files_are_looked_for_up_to_a_number(
    listed_files: int, is_looked_for: bool, bert: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(bert, tmp_path / "out"))
    data = DataSet(folder)
    assert len(data.shards) == 3
    (folder / data.shards[2].file).unlink()
    refused = pytest.raises(UserError, match="it is missing")
    with knobs(listed_files=listed_files), refused if is_looked_for else nullcontext():
        check_present(data.folder, data.manifest, data.shards)


@pytest.mark.parametrize("most_mapped", [1, 2, 3, 4])
def test_pieces_are_mapped_again_if_too_many_were(
    most_mapped: int, bert: Path, cache_folder: Path
) -> None:
    data = DataSet(bert, cache_folder=cache_folder)
    expected = data.take(np.arange(len(data))).lists("input_ids").values
    with knobs(piece_tokens=2**22, memory_tokens=0, most_mapped=most_mapped):
        few = DataSet(bert, cache_folder=cache_folder)
        for _ in range(2):
            parts = np.array_split(np.arange(len(few)), 9)
            read = [few.take(part).lists("input_ids").values for part in parts]
            assert np.array_equal(np.concatenate(read), expected)
            assert len(few.cache._mapped) == min(3, most_mapped)
