"""The folder of unpacked shards: shared, killed in the middle, full, damaged, and limited."""

import errno
import json
import os
import resource
import shutil
import signal
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from corpusmill.errors import UserError
from corpusmill.reading.cache import pieces, shard_cache
from corpusmill.reading.cache.pieces import Piece
from corpusmill.reading.cache.shard_cache import default_cache_folder
from corpusmill.reading.cache.unpacking import unpack_piece
from corpusmill.reading.data_set import DataSet
from corpusmill.reading.rows import Lists
from tests.tools.data_files import damage_file
from tests.tools.knobs import knobs
from tests.tools.moments import Disturbance
from tests.tools.small_datasets import Recipe, write_dataset, write_entries

FORK = get_context("fork")
pytestmark = pytest.mark.usefixtures("usual_thresholds")


def read_all(data: DataSet) -> np.ndarray:
    return data.take(np.arange(len(data))).lists("input_ids").values


def places(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir())


def in_a_process(run: Callable[[], object]) -> int:
    """Run a function in a fork of this process and return the exit code."""
    process = FORK.Process(target=run)
    process.start()
    process.join()
    assert process.exitcode is not None
    return process.exitcode


def open_data(folder: Path, **options: Any) -> DataSet:
    """Open a data set of which tiny shards are unpacked into files as well."""
    with knobs(memory_tokens=0):
        return DataSet(folder, **options)


@pytest.fixture
def expected(bert: Path, tmp_path: Path) -> np.ndarray:
    return read_all(open_data(bert, cache_folder=tmp_path / "expected"))


def count_unpacked(
    monkeypatch: pytest.MonkeyPatch, after: Callable[[], object] = lambda: None
) -> list[str]:
    """Return a list to which the shards that this process unpacks are added.

    Args:
        monkeypatch: the fixture; one of its own in a process that ends.
        after: called after each shard, before it gets its final place.
    """
    unpacked: list[str] = []

    def unpack(folder: Any, manifest: Any, piece: Piece, target: Path, *others: Any) -> None:
        unpacked.append(piece.shard.file)
        unpack_piece(folder, manifest, piece, target, *others)
        after()

    monkeypatch.setattr(shard_cache, "unpack_piece", unpack)
    return unpacked


def test_a_shard_is_unpacked_once_and_when_it_is_read(
    bert: Path, cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpacked = count_unpacked(monkeypatch)
    data = open_data(bert, cache_folder=cache_folder)
    assert not unpacked
    data.take(np.arange(3))
    assert unpacked == ["train-00000-of-00003.parquet"]
    for again in (data, open_data(bert, cache_folder=cache_folder)):
        read_all(again)
    assert len(unpacked) == 3
    # The same bytes in another folder are the same shards.
    shutil.copytree(bert, cache_folder.parent / "elsewhere")
    read_all(open_data(cache_folder.parent / "elsewhere", cache_folder=cache_folder))
    assert len(unpacked) == 3


def test_columns_are_mapped_and_not_loaded(bert: Path, cache_folder: Path) -> None:
    data = open_data(bert, cache_folder=cache_folder)
    read_all(data)
    mapped = Path("/proc/self/maps").read_text()
    for shard in range(3):
        columns = data.cache.columns(shard)
        for name, column in columns.items():
            assert f"{data.cache.place(shard)}/{name}.values" in mapped
            values = column.values if isinstance(column, Lists) else column
            assert not values.flags.writeable
            assert not values.flags.owndata


def test_a_data_set_built_again_is_not_mistaken_for_the_one_before(
    bert: Path, electra: Path, tmp_path: Path, cache_folder: Path
) -> None:
    place = Path(shutil.copytree(bert, tmp_path / "out"))
    before = read_all(open_data(place, cache_folder=cache_folder))
    shutil.rmtree(place)
    shutil.copytree(electra, place)
    after = read_all(open_data(place, cache_folder=cache_folder))
    assert np.array_equal(after, read_all(open_data(electra, cache_folder=tmp_path / "other")))
    assert not np.array_equal(before, after)


def _take_and_send(data: DataSet, start: Any, to: Connection) -> None:
    unpacked = count_unpacked(pytest.MonkeyPatch(), lambda: time.sleep(0.05))
    start.wait()
    to.send((unpacked, int(read_all(data).astype(np.int64).sum())))


def test_processes_that_begin_at_once_unpack_each_shard_once(
    bert: Path, cache_folder: Path, expected: np.ndarray
) -> None:
    data, start = open_data(bert, cache_folder=cache_folder), FORK.Barrier(4)
    pipes = [FORK.Pipe(duplex=False) for _ in range(4)]
    processes = [FORK.Process(target=_take_and_send, args=(data, start, to)) for _, to in pipes]
    for process, (_, to) in zip(processes, pipes, strict=True):
        process.start()
        to.close()
    results = [receive.recv() for receive, _ in pipes]
    for process in processes:
        process.join()
    assert {total for _, total in results} == {int(expected.astype(np.int64).sum())}
    assert sorted(shard for unpacked, _ in results for shard in unpacked) == sorted(
        shard.file for shard in data.shards
    )
    assert places(cache_folder) == sorted(data.cache.place(shard) for shard in range(3))


def test_a_process_killed_while_unpacking_does_no_harm(
    bert: Path, cache_folder: Path, expected: np.ndarray
) -> None:
    def die() -> None:
        count_unpacked(pytest.MonkeyPatch(), lambda: os.kill(os.getpid(), signal.SIGKILL))
        read_all(open_data(bert, cache_folder=cache_folder))

    assert in_a_process(die) == -signal.SIGKILL
    leftovers = [place for place in places(cache_folder) if "." in place.name]
    assert leftovers
    # Others may have been begun at the same time.
    assert any((leftover / "columns").is_dir() for leftover in leftovers)
    data = open_data(bert, cache_folder=cache_folder)
    assert np.array_equal(read_all(data), expected)
    assert places(cache_folder) == sorted(data.cache.place(shard) for shard in range(3))


def test_leftovers_of_killed_processes_are_removed(
    bert: Path, electra: Path, cache_folder: Path
) -> None:
    """Those of other shards are removed, too, but nothing else in the folder is."""
    other = open_data(electra, cache_folder=cache_folder)
    leftover = Path(f"{other.cache.place(0)}.abc123")
    (leftover / "columns").mkdir(parents=True)
    for name in ("notes", "x.tmp"):
        (cache_folder / name).mkdir()
    (cache_folder / "0.txt").write_text("mine")
    at_work = Path(f"{other.cache.place(1)}.def456")
    at_work.mkdir()
    data = open_data(bert, cache_folder=cache_folder)
    with shard_cache._lock(other.cache.place(1)):
        read_all(data)
    kept = {path.name for path in cache_folder.iterdir() if path.suffix != ".lock"}
    unpacked = {data.cache.place(shard).name for shard in range(3)}
    assert kept == {"notes", "x.tmp", "0.txt", at_work.name, *unpacked}


def test_others_may_remove_what_they_are_done_with_at_any_moment(
    bert: Path, cache_folder: Path, expected: np.ndarray
) -> None:
    """What they were unpacking, and what a small limit lets them remove."""

    def read(moment: int) -> int:
        shutil.rmtree(cache_folder, ignore_errors=True)
        read_all(open_data(bert, cache_folder=cache_folder))
        first, *_ = unpacked = places(cache_folder)
        others = [Path(f"{first.with_name('0' * 64 + '-2')}.{end}") for end in ("abc", "def")]
        for other in others:
            (other / "columns").mkdir(parents=True)
        shutil.rmtree(first)
        data = open_data(bert, cache_folder=cache_folder, cache_bytes=10**9)

        def remove() -> None:
            for place in others:
                shutil.rmtree(place, ignore_errors=True)
            for place in unpacked:
                shard_cache.remove_place(place)

        disturbance = Disturbance(cache_folder, moment, remove)
        with disturbance.awaited():
            assert np.array_equal(read_all(data), expected)
        assert not [place for place in places(cache_folder) if "." in place.name]
        return disturbance.moments

    moments = read(-1)
    assert moments > 20
    for moment in range(moments):
        read(moment)


def note_searches(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return a list to which the folders are added that are searched."""
    searched, search = list[Path](), Path.iterdir
    monkeypatch.setattr(Path, "iterdir", lambda path: searched.append(path) or search(path))  # type: ignore[func-returns-value]
    return searched


def test_the_folder_is_searched_for_leftovers_once(
    bert: Path, cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched = note_searches(monkeypatch)
    data = open_data(bert, cache_folder=cache_folder)
    for sample in np.cumsum([0, *data.shard_sizes])[:-1].tolist():
        data.take(np.array([sample]))
    assert data.cache.unpackings == len(data.shards) > 1
    assert searched.count(cache_folder) == 1


def replace_by_a_file(place: Path) -> None:
    shutil.rmtree(place)
    place.write_text("")


def rewrite(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    return lambda place: (place / name).write_bytes(change((place / name).read_bytes()))


SPOILT: dict[str, Callable[[Path], object]] = {
    "a file is gone": lambda place: (place / "input_ids.values").unlink(),
    "a file is cut": rewrite("input_ids.values", lambda content: content[:-2]),
    "a file is empty": rewrite("input_ids.offsets", lambda _: b""),
    "blocks were never written": rewrite("input_ids.offsets", lambda content: bytes(len(content))),
    "offsets are negative": rewrite("input_ids.offsets", lambda content: b"\xff" * len(content)),
    "values are zeroed": rewrite("input_ids.values", lambda content: bytes(len(content))),
    "a bit is flipped": lambda place: damage_file(place / "masked_lm_ids.values", "flipped"),
    "its checksums are gone": lambda place: (place / "checksums.json").unlink(),
    "a folder is gone": shutil.rmtree,
    "a folder is a file": replace_by_a_file,
}


@pytest.mark.parametrize("how", SPOILT)
def test_a_spoilt_cache_is_refilled(
    how: str, bert: Path, cache_folder: Path, expected: np.ndarray
) -> None:
    data = open_data(bert, cache_folder=cache_folder)
    read_all(data)
    SPOILT[how](data.cache.place(1))
    again = open_data(bert, cache_folder=cache_folder)
    assert np.array_equal(read_all(again), expected)
    assert places(cache_folder) == sorted(data.cache.place(shard) for shard in range(3))


def test_a_machine_that_starts_again_compares_every_byte(
    bert: Path, cache_folder: Path, expected: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes that a disk has lost change no time of the file."""
    data = open_data(bert, cache_folder=cache_folder)
    read_all(data)
    values = data.cache.place(1) / "input_ids.values"
    status, content = values.stat(), values.read_bytes()
    values.write_bytes(bytes(len(content)))
    os.utime(values, ns=(status.st_atime_ns, status.st_mtime_ns))
    boot = values.with_name("boot_id")
    boot.write_text("another start")
    monkeypatch.setattr(pieces, "_BOOT_ID", boot)
    assert np.array_equal(read_all(open_data(bert, cache_folder=cache_folder)), expected)


def test_data_sets_that_expect_other_rows_of_a_shard_do_not_share_it(
    bert: Path, tmp_path: Path, cache_folder: Path
) -> None:
    places = {open_data(bert, cache_folder=cache_folder).cache.place(0)}
    for name in ("vocab_size", "largest", "pad"):
        twin = Path(shutil.copytree(bert, tmp_path / name))
        entries = json.loads((twin / "dataset.json").read_bytes())
        entry = entries["tokenizer"] if name == "vocab_size" else entries["columns"][0]
        entry[name] = 601 if name == "vocab_size" else 7
        write_entries(twin, entries)
        places.add(open_data(twin, cache_folder=cache_folder).cache.place(0))
    assert len(places) == 4


def test_the_folder_may_be_removed_at_any_moment(
    bert: Path, cache_folder: Path, expected: np.ndarray
) -> None:
    def read(moment: int) -> int:
        def remove() -> None:
            shutil.rmtree(cache_folder, ignore_errors=True)

        remove()
        disturbance = Disturbance(cache_folder, moment, remove)
        with disturbance.awaited():
            data = open_data(bert, cache_folder=cache_folder, cache_bytes=10**9)
            assert np.array_equal(read_all(data), expected)
        return disturbance.moments

    for moment in range(read(-1)):
        read(moment)


@pytest.mark.parametrize("memory_tokens", [0, 10**9])
def test_rows_that_replace_those_of_a_shard_while_it_is_read_are_not_read(
    memory_tokens: int, bert: Path, cache_folder: Path, expected: np.ndarray, tmp_path: Path
) -> None:
    """Another build may replace the data set between two looks at a file."""
    [name] = [path.name for path in bert.glob("train-00000-*.parquet")]
    table = pq.read_table(bert / name)
    pq.write_table(table.take(np.arange(len(table))[::-1]), tmp_path / "reversed")
    content = (bert / name).read_bytes()
    folder = tmp_path / "out"
    shutil.copytree(bert, folder)

    def read(moment: int) -> int:
        shutil.rmtree(cache_folder, ignore_errors=True)
        (folder / name).write_bytes(content)
        with knobs(memory_tokens=memory_tokens):
            data = DataSet(folder, cache_folder=cache_folder)

        def replace() -> None:
            shutil.copy(tmp_path / "reversed", tmp_path / "new")
            (tmp_path / "new").replace(folder / name)

        disturbance = Disturbance(folder, moment, replace)
        with disturbance.awaited(), suppress(UserError):
            assert np.array_equal(read_all(data), expected)
        return disturbance.moments

    for moment in range(read(-1)):
        read(moment)


def test_a_shard_removed_right_after_its_renaming_is_still_read(
    bert: Path, cache_folder: Path, expected: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process with a small limit removes each shard as soon as it is renamed."""
    data = open_data(bert, cache_folder=cache_folder, cache_bytes=10**9)
    removed = []

    def remove(kept: set[Path]) -> None:
        removed.append(min(place for place in kept if place.exists()))
        shutil.rmtree(removed[-1])

    monkeypatch.setattr(data.cache, "_make_room", remove)
    for start in range(0, len(data), 10):
        data.take(np.arange(start, start + 10) % len(data))
    assert np.array_equal(read_all(data), expected)
    assert len(removed) >= 3


def test_a_full_disk_is_named_and_left_as_it_was(bert: Path, cache_folder: Path) -> None:
    def fill() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        with pytest.raises(UserError) as refused:
            read_all(open_data(bert, cache_folder=cache_folder))
        message = str(refused.value)
        assert f"cache_folder={cache_folder}: a shard cannot be unpacked there (" in message
        assert os.strerror(errno.EFBIG) in message
        assert "with room" in message

    assert in_a_process(fill) == 0
    assert places(cache_folder) == []


def test_a_folder_that_cannot_be_made_or_is_elsewhere_is_named(bert: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "cache"):
        with pytest.raises(UserError, match="can be written to") as refused:
            read_all(open_data(bert, cache_folder=folder))
        assert refused.value.value == f"cache_folder={folder}"
    for place, cause in (("s3://bucket/cache", "not on this machine"), ("~nobody-here/x", "home")):
        with pytest.raises(UserError, match=cause) as refused:
            DataSet(bert, cache_folder=place)
        assert place in refused.value.value


def test_a_read_only_cache_is_read(
    bert: Path, cache_folder: Path, expected: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_all(open_data(bert, cache_folder=cache_folder))

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EROFS, "Read-only file system")

    for module, name in ((os, "utime"), (Path, "mkdir"), (shard_cache, "mkdtemp")):
        monkeypatch.setattr(module, name, refuse)
    assert np.array_equal(read_all(open_data(bert, cache_folder=cache_folder)), expected)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data set of 12 shards."""
    folder = tmp_path_factory.mktemp("many") / "out"
    write_dataset(folder, Recipe(shards=12))
    return folder


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_a_limit_is_kept_by_removing_the_shards_read_longest_ago(
    many: Path, cache_folder: Path, tmp_path: Path
) -> None:
    whole = read_all(open_data(many, cache_folder=tmp_path / "whole"))
    limit = size_of(tmp_path / "whole") // 3
    data = open_data(many, cache_folder=cache_folder, cache_bytes=limit)
    parts = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for start in range(0, len(data), 16):
            parts.append(data.take(np.arange(start, min(start + 16, len(data)))))
            assert size_of(cache_folder) <= limit
            assert start < len(data) // 2 or size_of(cache_folder) > limit // 2
    assert np.array_equal(np.concatenate([part.lists("input_ids").values for part in parts]), whole)
    kept = [data.cache.place(shard) for shard in range(12) if data.cache.place(shard).exists()]
    assert kept[-1] == data.cache.place(11)
    assert len(kept) >= 2


def test_a_removed_shard_is_unmapped_and_its_files_were_measured_once(
    many: Path, cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With thousands of pieces, to measure all for each new one took longer than to unpack it."""
    data = open_data(many, cache_folder=cache_folder, cache_bytes=25_000)
    searched = note_searches(monkeypatch)
    for shard in range(12):
        data.cache.columns(shard)
    places = {data.cache.place(shard) for shard in range(12)}
    assert sorted(place for place in searched if place in places) == sorted(places)
    mapped = Path("/proc/self/maps").read_text()
    assert f"{cache_folder}" in mapped
    assert mapped.count("(deleted)") < 30


def test_shards_that_are_read_together_stay_and_a_warning_says_how_much_they_take(
    many: Path, cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpacked = count_unpacked(monkeypatch)
    data = open_data(many, cache_folder=cache_folder, cache_bytes=25_000)
    spread = np.linspace(0, len(data) - 1, 300).astype(np.int64)
    with pytest.warns(UserWarning, match="the 12 pieces that are read together take"):
        data.take(spread)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the warning comes once
        for _ in range(5):
            data.take(spread)
    assert len(unpacked) == 12


def test_a_limit_with_which_every_lookup_unpacks_a_shard_gives_a_warning(
    many: Path, cache_folder: Path
) -> None:
    data = open_data(many, cache_folder=cache_folder, cache_bytes=25_000)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        for turn in range(60):
            data.take(np.array([turn * 997 % len(data)]))
    assert [str(warning.message).partition(", as")[0] for warning in heard] == [
        "cache_bytes=25000: shards are unpacked again and again"
    ]


def test_the_users_cache_folder_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache_folder() == tmp_path / "corpusmill" / "shards"
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    # In the folder of temporary files, each user has a separate folder.
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    own = tmp_path / f"corpusmill-{os.getuid()}"
    assert default_cache_folder() == own / "shards"
    assert own.stat().st_mode & 0o777 == 0o700
    own.chmod(0o777)
    with pytest.raises(UserError, match=r"not this user's own.* Give a cache_folder"):
        default_cache_folder()
    own.rmdir()
    own.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="not this user's own"):
        default_cache_folder()


def test_a_long_wait_for_another_process_gives_a_warning(
    bert: Path, cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_cache, "_PATIENCE_SECONDS", 0.1)
    data = open_data(bert, cache_folder=cache_folder)
    cache_folder.mkdir()
    lock = shard_cache._lock(data.cache.place(0))
    lock.__enter__()
    release = Timer(0.5, lock.__exit__, (None, None, None))
    release.start()
    with pytest.warns(UserWarning, match=r"another process .*\.lock"):
        data.take(np.arange(3))
    release.join()
