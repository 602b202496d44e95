"""Shards that threads unpack ahead: which, when, and how this ends."""

import re
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

from corpusmill.errors import UserError
from corpusmill.objectives.bert import BertOptions
from corpusmill.reading.cache import shard_cache
from corpusmill.reading.cache.pieces import Piece
from corpusmill.reading.cache.shard_cache import ShardCache
from corpusmill.reading.cache.unpacking import StoppedError, unpack_piece
from corpusmill.reading.data_set import DataSet, Samples
from corpusmill.reading.load.batches import Block, UnpackingAhead
from corpusmill.reading.load.loader import make_batches
from corpusmill.reading.mixture import mix
from corpusmill.reading.order.schedule import Position
from corpusmill.reading.token_windows import TokenWindows
from tests.tools.small_datasets import OBJECTIVES, Recipe, write_dataset

SHARDS, AHEAD = 8, 2


@pytest.fixture(scope="module")
def data_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ahead") / "out"
    # Its shards are so large that they are not kept in memory.
    options = BertOptions(max_seq_length=64, duplicates=5)
    write_dataset(folder, Recipe(options, shards=SHARDS, validation_share=0))
    return folder


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stream") / "out"
    write_dataset(folder, Recipe(OBJECTIVES["gpt_stream"], shards=SHARDS, validation_share=0))
    return folder


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> SimpleQueue[str]:
    """Return a queue of the shards that are unpacked, each put there when it is done."""
    names = SimpleQueue[str]()

    def unpack(folder: Any, manifest: Any, piece: Piece, target: Path, *others: Any) -> None:
        unpack_piece(folder, manifest, piece, target, *others)
        names.put(piece.shard.file)

    monkeypatch.setattr(shard_cache, "unpack_piece", unpack)
    return names


def in_order(data: DataSet) -> Generator[Block, None, None]:
    """Read the rows as they are stored, two at a time in the first blocks, then more."""
    return make_batches(data, 2, shuffle=False).blocks(Position(0))


def drain(names: SimpleQueue[str]) -> list[str]:
    return [names.get() for _ in range(names.qsize())]


def threads_ahead() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "unpack-ahead"]


@pytest.mark.usefixtures("usual_thresholds")
def test_two_shards_are_unpacked_ahead_and_no_more(
    data_set: Path, cache_folder: Path, unpacked: SimpleQueue[str]
) -> None:
    data = DataSet(data_set, cache_folder=cache_folder)
    names = [shard.file for shard in data.shards]
    blocks = in_order(data)
    next(blocks)
    assert len(threads_ahead()) == AHEAD
    assert {unpacked.get(timeout=60) for _ in range(1 + AHEAD)} == {*names[: 1 + AHEAD]}
    blocks.close()
    assert drain(unpacked) == []
    assert threads_ahead() == []


@pytest.mark.usefixtures("usual_thresholds")
def test_each_shard_is_unpacked_once_and_none_of_an_unpacked_data_set(
    data_set: Path, cache_folder: Path, unpacked: SimpleQueue[str]
) -> None:
    def read(_: int) -> int:
        data = DataSet(data_set, cache_folder=cache_folder)
        return sum(len(block.rows) for block in in_order(data))

    with ThreadPoolExecutor(3) as readers:
        rows = [*readers.map(read, range(3))]
    assert len({*rows}) == 1
    assert Counter(drain(unpacked)) == dict.fromkeys(
        (shard.file for shard in DataSet(data_set).shards), 1
    )
    assert read(0) == rows[0]
    assert drain(unpacked) == []


@pytest.mark.parametrize("name", ["data_set", "stream"])
@pytest.mark.parametrize("by_length", [False, True])
def test_batches_are_those_of_an_unpacked_data_set_which_starts_no_threads(
    name: str, by_length: bool, request: pytest.FixtureRequest, cache_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    started: list[UnpackingAhead] = []
    start = UnpackingAhead._start
    monkeypatch.setattr(UnpackingAhead, "_start", lambda one: started.append(one) or start(one))  # type: ignore[func-returns-value]

    def read() -> list[np.ndarray]:
        data = DataSet(request.getfixturevalue(name), cache_folder=cache_folder)
        samples: Samples = TokenWindows(data, 16) if name == "stream" else data
        blocks = make_batches(samples, 8, by_length=by_length, seed=3).blocks(Position(0))
        return [one.rows.lists(next(iter(one.rows.columns))).values for one in blocks]

    assert not cache_folder.exists()
    cold = read()
    assert started
    started.clear()
    for one, other in zip(cold, read(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert started == []


@pytest.mark.usefixtures("usual_thresholds")
def test_shards_of_a_mixture_are_unpacked_ahead(
    data_set: Path, cache_folder: Path, unpacked: SimpleQueue[str]
) -> None:
    data = DataSet(data_set, cache_folder=cache_folder)
    samples, order = mix([data, data], [0.5, 0.5], seed=1, shuffle=False)
    assert {cache for cache, _ in samples.stored_in(np.arange(len(samples)))} == {data.cache}
    blocks = make_batches(samples, 2, order=order).blocks(Position(0))
    next(blocks)
    assert {unpacked.get(timeout=60) for _ in range(1 + AHEAD)} == {
        shard.file for shard in data.shards[: 1 + AHEAD]
    }
    blocks.close()


@pytest.mark.usefixtures("usual_thresholds")
def test_a_damaged_shard_is_reported_where_it_is_needed(
    data_set: Path, tmp_path: Path, cache_folder: Path, unpacked: SimpleQueue[str]
) -> None:
    copy = Path(shutil.copytree(data_set, tmp_path / "copy"))
    data = DataSet(copy, cache_folder=cache_folder)
    damaged = copy / data.shards[1].file
    damaged.write_bytes(damaged.read_bytes()[::-1])
    blocks = in_order(data)
    next(blocks)
    # The threads meet it, go on with the shard after it, and the reader with the one before.
    assert {unpacked.get(timeout=60) for _ in range(2)} == {data.shards[n].file for n in (0, 2)}
    assert next(blocks).rows.samples[-1] < data.shard_sizes[0]
    with pytest.raises(UserError, match=re.escape(damaged.name)):
        list(blocks)
    assert threads_ahead() == []


@pytest.mark.usefixtures("usual_thresholds")
def test_closing_a_reader_stops_a_shard_that_is_being_unpacked(
    data_set: Path, cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, waits = SimpleQueue[str](), threading.Event()

    def unpack(
        folder: Any,
        manifest: Any,
        piece: Piece,
        target: Path,
        is_wanted: Callable[[], bool],
    ) -> None:
        if threading.current_thread().name == "unpack-ahead":
            begun.put(piece.shard.file)
            while is_wanted():
                waits.wait(0.01)
            raise StoppedError
        unpack_piece(folder, manifest, piece, target, is_wanted)

    monkeypatch.setattr(shard_cache, "unpack_piece", unpack)
    data = DataSet(data_set, cache_folder=cache_folder)
    blocks = in_order(data)
    next(blocks)
    names = {begun.get(timeout=60) for _ in range(AHEAD)}
    blocks.close()
    assert threads_ahead() == []
    assert names == {shard.file for shard in data.shards[1 : 1 + AHEAD]}
    # Nothing is left of them, and the next reader unpacks them.
    folders = [path for path in cache_folder.iterdir() if path.is_dir()]
    assert folders == [data.cache.place(0)]


def test_nothing_is_unpacked_ahead_into_a_cache_without_room(
    data_set: Path,
    cache_folder: Path,
    unpacked: SimpleQueue[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried, really_try = SimpleQueue[int](), ShardCache.unpack_ahead

    def note(cache: ShardCache, shard: int, *others: Any) -> None:
        really_try(cache, shard, *others)
        tried.put(shard)

    monkeypatch.setattr(ShardCache, "unpack_ahead", note)
    data = DataSet(data_set, cache_folder=cache_folder, cache_bytes=1)
    blocks = in_order(data)
    with pytest.warns(UserWarning, match="cache_bytes=1"):
        next(blocks)
    assert {tried.get(timeout=60) for _ in range(AHEAD)} == {1, 2}
    blocks.close()
    assert drain(unpacked) == [data.shards[0].file]
