"""Large shards are read piece by piece: the same rows, and only what is needed is unpacked."""

import os
import pickle
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import fsspec
import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.dataset.manifest import Manifest, Shard
from corpusmill.dataset.shards import read_manifest, read_rows, read_shard
from corpusmill.errors import UserError
from corpusmill.formats.output_options import OutputOptions
from corpusmill.location import locate
from corpusmill.reading.cache import shard_cache, unpacking
from corpusmill.reading.cache.pieces import Piece, Pieces, cut_shards
from corpusmill.reading.data_set import DataSet
from tests.tools.data_files import damage_file
from tests.tools.knobs import knobs
from tests.tools.small_datasets import OBJECTIVES, Recipe, write_dataset

SMALL = {"piece_tokens": 400, "piece_group_tokens": 200, "most_pieces": 100, "memory_tokens": 4096}


@pytest.fixture(scope="module")
def in_groups(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data set of one shard, in groups of 8 rows."""
    folder = tmp_path_factory.mktemp("groups") / "out"
    with knobs(group_rows=8):
        write_dataset(folder, Recipe(shards=1))
    return folder


def open_small(folder: Path | str, **options: Any) -> DataSet:
    """Open a data set all of whose shards are cut into small pieces."""
    with knobs(**SMALL):
        return DataSet(folder, **options)


def describe(manifest: Manifest, rows: int, tokens: int) -> Shard:
    return msgspec.structs.replace(manifest.splits["train"].shards[0], rows=rows, tokens=tokens)


def cut(shards: list[Shard], bert: Path, piece: int, group: int, most: int) -> Pieces:
    folder = locate(str(bert))
    values = {"piece_tokens": piece, "piece_group_tokens": group, "most_pieces": most}
    with knobs(**values, memory_tokens=100):
        return cut_shards(folder, read_manifest(folder), shards)


def test_how_a_shard_is_cut(bert: Path) -> None:
    manifest = read_manifest(locate(str(bert)))
    for rows, tokens, *sizes, expected in (
        # Up to twice the tokens of a piece stay together.
        (100_000, 1000, 500, 10**9, 512, [100_000]),
        # A group is not divided.
        (20_000, 1001, 500, 10**9, 512, [16_384, 3616]),
        (20_000, 20_000, 500, 10**9, 512, [8192, 8192, 3616]),
        # But groups are smaller where rows are long.
        (100, 10_000, 500, 2000, 512, [20] * 5),
        (100, 10_000, 2500, 2000, 512, [25] * 4),
        # There are not too many.
        (81_920, 81_920, 1, 10**9, 5, [16_384] * 5),
        (81_921, 81_921, 1, 10**9, 5, [24_576] * 3 + [8193]),
        (0, 0, 500, 10**9, 512, [0]),
    ):
        pieces = cut([describe(manifest, rows, tokens)], bert, *sizes)
        assert [piece.rows for piece in pieces] == expected, (rows, tokens, sizes)


@given(
    rows=st.integers(0, 10**8),
    width=st.integers(1, 10**5),
    sizes=st.tuples(st.integers(1, 2**40), st.integers(1, 2**40), st.integers(1, 99)),
)
def test_pieces_are_all_rows_in_order_and_not_too_many(
    rows: int, width: int, sizes: tuple[int, int, int], bert: Path
) -> None:
    manifest = read_manifest(locate(str(bert)))
    pieces = cut([describe(manifest, rows, rows * width)], bert, *sizes)
    assert len(pieces) <= sizes[2]
    assert pieces[0].begin == 0
    assert pieces[-1].end == rows
    assert all(one.end == other.begin for one, other in pairwise(pieces))
    assert len({piece.rows for piece in [*pieces][:-1]}) < 2


@given(rows=st.lists(st.integers(0, 40_000), max_size=9))
def test_pieces_of_several_shards_begin_one_after_the_other(rows: list[int], bert: Path) -> None:
    manifest = read_manifest(locate(str(bert)))
    shards = [describe(manifest, number, number) for number in rows]
    pieces = cut(shards, bert, 9000, 10**9, 512)
    assert len(pieces) == len([*pieces])
    assert pieces.starts.tolist() == [0, *np.cumsum([piece.rows for piece in pieces])]
    assert sum(piece.rows for piece in pieces) == sum(rows)
    assert {*map(id, shards)} >= {id(piece.shard) for piece in pieces}
    assert all(piece.is_tiny == (piece.shard.rows <= 100) for piece in pieces)


def test_some_rows_of_a_shard(in_groups: Path) -> None:
    folder = locate(str(in_groups))
    manifest = read_manifest(folder)
    [shard] = manifest.splits["train"].shards
    every = [row for rows in read_shard(folder, manifest, shard.file) for row in rows.to_pylist()]
    for begin, end in ((0, 8), (8, 16), (3, 5), (7, 9), (5, 30), (90, 95)):
        for most in (3, 8, 100):
            batches = list(read_rows(folder, manifest, shard.file, begin, end, most))
            assert [row for rows in batches for row in rows.to_pylist()] == every[begin:end]
            assert max(rows.num_rows for rows in batches) <= most


def test_only_the_groups_of_a_piece_are_decoded(
    in_groups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = locate(str(in_groups))
    manifest = read_manifest(folder)
    [shard] = manifest.splits["train"].shards
    content = (in_groups / shard.file).read_bytes()
    # All that lies before and after the third group is lost, but for the footer.
    group = pq.read_metadata(in_groups / shard.file).row_group(2)
    columns = [group.column(number) for number in range(group.num_columns)]
    begin = min(column.data_page_offset for column in columns)
    end = max(column.data_page_offset + column.total_compressed_size for column in columns)
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    spoilt = b"PAR1" + bytes(begin - 4) + content[begin:end] + bytes(footer - end)
    expected = list(read_rows(folder, manifest, shard.file, 16, 24))
    (in_groups / "spoilt.parquet").write_bytes(spoilt + content[footer:])
    monkeypatch.setattr(Manifest, "parts", lambda _, name: [name])
    assert list(read_rows(folder, manifest, "spoilt.parquet", 16, 24)) == expected


@pytest.mark.usefixtures("usual_thresholds")
@pytest.mark.parametrize(
    ("name", "padding"),
    [("bert", "max_length"), ("t5", "max_length")]
    + [(name, "do_not_pad") for name in OBJECTIVES if name != "gpt_stream"],
)
def test_pieces_hold_the_rows_of_the_whole(
    name: str, padding: Any, tmp_path: Path, cache_folder: Path, request: pytest.FixtureRequest
) -> None:
    if padding == "do_not_pad":
        folder = request.getfixturevalue(name)
    else:
        folder = tmp_path / "out"
        write_dataset(folder, Recipe(OBJECTIVES[name], OutputOptions(padding=padding)))
    data = open_small(folder, cache_folder=cache_folder)
    samples = np.random.default_rng(1).permutation(len(data))
    read = data.take(samples)
    stored = data.stored_in(samples)
    assert len(stored) > 2 * len(data.shards)
    assert np.array_equal(data.lengths(samples), read.lists("input_ids").lengths)
    whole = DataSet(folder, cache_folder=cache_folder)
    assert len(whole.stored_in(samples)) == len(whole.shards)
    assert whole.digest == data.digest
    assert whole.shard_sizes == data.shard_sizes
    for column, values in whole.take(samples).columns.items():
        for one, other in zip(_flat(values), _flat(read.columns[column]), strict=True):
            assert np.array_equal(one, other)


def _flat(values: Any) -> tuple[Any, ...]:
    return values if isinstance(values, tuple) else (values,)


def test_a_row_unpacks_its_piece_alone(
    bert: Path, cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpacked: list[Piece] = []
    unpack = unpacking.unpack_piece

    def note(folder: Any, manifest: Any, piece: Piece, *others: Any) -> None:
        unpacked.append(piece)
        unpack(folder, manifest, piece, *others)

    monkeypatch.setattr(shard_cache, "unpack_piece", note)
    data = open_small(bert, cache_folder=cache_folder)
    sample = data.shard_sizes[0] + 1
    data.take(np.array([sample, sample + 1]))
    [piece] = unpacked
    assert piece.shard == data.shards[1]
    assert piece.rows < data.shard_sizes[1]
    assert data.cache.unpackings == 1


def count_comparisons(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which the shards are added whose bytes are compared."""
    compared: list[str] = []
    fetch = unpacking.fetch_parts

    def note(folder: Any, manifest: Any, shard: str, *others: Any) -> Any:
        compared.append(shard)
        return fetch(folder, manifest, shard, *others)

    monkeypatch.setattr(shard_cache, "fetch_parts", note)
    return compared


def test_the_bytes_of_a_shard_are_compared_once_for_all_its_pieces(
    bert: Path, tmp_path: Path, cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = count_comparisons(monkeypatch)
    folder = Path(shutil.copytree(bert, tmp_path / "out"))
    for begin in (0, 40):  # as by processes that read at different times
        data = open_small(folder, cache_folder=cache_folder)
        data.take(np.arange(begin, data.shard_sizes[0]))
    file = data.shards[0].file
    assert compared == [file]
    data.take(np.arange(len(data)))
    assert sorted(compared) == [shard.file for shard in data.shards]
    # A file that was written since is compared again.
    shutil.rmtree(cache_folder / data.cache.place(0).name)
    os.utime(folder / file)
    assert open_small(folder, cache_folder=cache_folder)[0]
    assert compared[-1] == file
    assert len(compared) == 1 + len(data.shards)


def flip(path: Path) -> None:
    damage_file(path, "flipped")


@pytest.mark.parametrize("harm", [flip, os.unlink])
@pytest.mark.parametrize("is_late", [False, True])
def test_a_damaged_shard_is_refused_whichever_piece_is_read(
    harm: Callable[[Path], None], is_late: bool, bert: Path, tmp_path: Path, cache_folder: Path
) -> None:
    folder = Path(shutil.copytree(bert, tmp_path / "out"))
    data = open_small(folder, cache_folder=cache_folder)
    if is_late:
        data.take(np.arange(3))
    harm(folder / data.shards[0].file)
    for sample in (data.shard_sizes[0] - 1, data.shard_sizes[0] // 2):
        with pytest.raises(UserError, match=data.shards[0].file):
            data.take(np.array([sample]))


def test_what_cannot_be_read_from_the_middle_is_unpacked_whole(
    tmp_path: Path, cache_folder: Path
) -> None:
    for name, output in (
        ("bert", OutputOptions("tfrecord")),
        ("bert", OutputOptions("avro")),
        ("gpt_stream", OutputOptions("parquet")),
    ):
        folder = tmp_path / f"{name}-{output.output_format}"
        write_dataset(folder, Recipe(OBJECTIVES[name], output))
        data = open_small(folder, cache_folder=cache_folder)
        assert len(data.stored_in(np.arange(len(data)))) == len(data.shards)
    write_dataset(tmp_path / "out")
    fsspec.filesystem("memory").put(str(tmp_path / "out"), "/pieces", recursive=True)
    remote = open_small("memory://pieces", cache_folder=cache_folder)
    local = open_small(tmp_path / "out", cache_folder=cache_folder)
    samples = np.arange(len(local))
    assert len(remote.stored_in(samples)) == 3 < len(local.stored_in(samples))
    one, other = (data.take(samples).lists("input_ids") for data in (remote, local))
    assert np.array_equal(one.values, other.values)


@pytest.mark.parametrize("output_format", ["parquet", "tfrecord", "avro"])
def test_tiny_shards_stay_in_memory(output_format: Any, tmp_path: Path, cache_folder: Path) -> None:
    write_dataset(tmp_path / "out", Recipe(output=OutputOptions(output_format)))
    usual = DataSet(tmp_path / "out", cache_folder=tmp_path / "usual")
    sizes = sorted(shard.tokens for shard in usual.shards)
    # A shard that has exactly as many tokens as the limit is tiny.
    with knobs(memory_tokens=sizes[1], piece_tokens=2**22):
        data = DataSet(tmp_path / "out", cache_folder=cache_folder)
    samples = np.random.default_rng(1).permutation(len(data))
    for _ in range(2):
        assert plain_rows(data, samples) == plain_rows(usual, samples)
    assert len([path for path in cache_folder.iterdir() if path.is_dir()]) == 1
    assert data.cache.unpackings == 1
    again = pickle.loads(pickle.dumps(data))  # noqa: S301
    assert plain_rows(again, samples) == plain_rows(usual, samples)


def plain_rows(data: DataSet, samples: np.ndarray) -> list[dict[str, Any]]:
    return [
        {name: np.asarray(value).tolist() for name, value in row.items()}
        for row in data.take(samples)
    ]


@pytest.mark.parametrize("harm", [flip, os.unlink])
def test_a_damaged_tiny_shard_is_refused(
    harm: Callable[[Path], None],
    bert: Path,
    tmp_path: Path,
    cache_folder: Path,
) -> None:
    folder = Path(shutil.copytree(bert, tmp_path / "out"))
    with knobs(memory_tokens=2**40, piece_tokens=2**22):
        data = DataSet(folder, cache_folder=cache_folder)
    data.take(np.arange(3))
    harm(folder / data.shards[1].file)
    data.take(np.arange(3))
    with pytest.raises(UserError, match=data.shards[1].file):
        data.take(np.array([data.shard_sizes[0]]))
    assert not cache_folder.exists()


def test_tiny_shards_elsewhere_are_unpacked(tmp_path: Path) -> None:
    """To fetch them again for each process and epoch would take long."""
    write_dataset(tmp_path / "out")
    fsspec.filesystem("memory").put(str(tmp_path / "out"), "/tiny", recursive=True)
    for url, is_tiny in (("memory://tiny", False), (str(tmp_path / "out"), True)):
        folder = locate(url)
        manifest = read_manifest(folder)
        with knobs(memory_tokens=2**40, piece_tokens=2**22):
            pieces = cut_shards(folder, manifest, manifest.splits["train"].shards)
        assert {piece.is_tiny for piece in pieces} == {is_tiny}
