"""Packed rows of token streams, compared with data sets that were built with `--mode pack`."""

import json
import os
import pickle
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pytest

from corpusmill.errors import UserError
from corpusmill.objectives.examples.packing import pack_stream
from corpusmill.objectives.gpt import GptOptions
from corpusmill.reading import token_packs
from corpusmill.reading.collate.collators import Layout, collator_for
from corpusmill.reading.collate.masked_diffusion import MaskedDiffusion
from corpusmill.reading.data_set import DataSet, Samples
from corpusmill.reading.load.loader import Loader, make_batches
from corpusmill.reading.mixture import JoinedSamples, mix
from corpusmill.reading.rows import Batch
from corpusmill.reading.token_packs import TokenPacks
from tests.tools.knobs import knobs
from tests.tools.lazily import LazyModule
from tests.tools.small_datasets import Recipe, write_dataset

# Packs of a token stream that other processes make, which import no more than they need.


Pieces = list[tuple[int, ...]]


def pieces_of(samples: Samples) -> Pieces:
    """The pieces of all rows, row after row."""
    rows = samples.take(np.arange(len(samples)))
    found = []
    for row in rows:
        bounds = row["cu_seqlens"].tolist()
        assert bounds[0] == 0 < len(row["input_ids"]) == bounds[-1]
        cut = np.split(row["input_ids"], bounds[1:-1])
        found += [tuple(piece.tolist()) for piece in cut]
    return found


def make(arguments: tuple[str, Path, Path]) -> tuple[str, Pieces]:
    folder, cache, file = arguments
    packs = TokenPacks(DataSet(folder, cache_folder=cache), 64, file)
    return packs.digest, pieces_of(packs)


def be_killed(arguments: tuple[str, Path, Path]) -> None:
    """Make a file of packs in a process that is killed within its second shard."""
    packed = []

    def stop(*pack: Any) -> Any:
        packed.append(pack)
        if len(packed) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return pack_stream(*pack)

    vars(token_packs)["pack_stream"] = stop
    make(arguments)


grain = LazyModule("grain")

# No document of the sample is longer than the first length, and many are longer than the others.
WHOLE, CUT = 1024, (2, 17, 64)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("packs")


@pytest.fixture(scope="module")
def built(folder: Path) -> Callable[[int], DataSet]:
    """Build the sample with `--mode pack` and some length."""

    def build(length: int) -> DataSet:
        target = folder / f"packs-{length}"
        if not target.exists():
            write_dataset(target, Recipe(GptOptions(mode="pack", max_seq_length=length)))
        return DataSet(target, cache_folder=folder / "cache")

    return build


@pytest.fixture
def stream(gpt_stream: Path, folder: Path) -> DataSet:
    return DataSet(gpt_stream, cache_folder=folder / "cache")


@pytest.fixture
def packs(stream: DataSet) -> TokenPacks:
    return TokenPacks(stream, WHOLE)


def test_rows_are_those_of_a_build_where_no_document_is_cut(
    packs: TokenPacks, built: Callable[[int], DataSet]
) -> None:
    expected = built(WHOLE)
    assert packs.shard_sizes == expected.shard_sizes
    assert packs.longest == expected.longest
    assert packs.parts == expected.parts
    assert [replace(column, pad=0) for column in packs.manifest.columns] == [
        replace(column, pad=0) for column in expected.columns
    ]
    samples = np.random.default_rng(5).permutation(len(packs))
    rows, others = packs.take(samples), expected.take(samples)
    for name in ("input_ids", "cu_seqlens"):
        assert rows.lists(name).values.dtype == others.lists(name).values.dtype
        assert rows.lists(name).values.tolist() == others.lists(name).values.tolist()
        assert rows.lists(name).offsets.tolist() == others.lists(name).offsets.tolist()
    assert packs.lengths(samples).tolist() == rows.lists("input_ids").lengths.tolist()
    assert packs[-1]["input_ids"].tolist() == expected[-1]["input_ids"].tolist()


@pytest.mark.parametrize("length", CUT)
@pytest.mark.parametrize("split", ["train", "validation"])
def test_rows_hold_the_pieces_of_a_build_where_documents_are_cut(
    length: int, split: str, stream: DataSet, built: Callable[[int], DataSet]
) -> None:
    """Its pieces stand in other places, as each has a random one: so they meet others in rows."""
    expected = built(length).load(split, cache_folder=stream.cache_folder)
    packs = TokenPacks(stream.load(split, cache_folder=stream.cache_folder), length)
    assert Counter(pieces_of(packs)) == Counter(pieces_of(expected))
    lengths = packs.lengths(np.arange(len(packs)))
    assert lengths.max() == packs.longest <= length
    # The share of padding: the tokens are the same ones.
    assert abs(len(packs) - len(expected)) <= 0.01 * len(expected) + 2


def test_batches_are_those_of_a_build_in_each_layout(
    packs: TokenPacks, built: Callable[[int], DataSet]
) -> None:
    kinds: list[dict[str, Any]] = [
        {"layout": layout, "predicted": predicted, "pad_to_multiple_of": 8, **diffusion}
        for layout in get_args(Layout)
        for predicted in ("labels", "targets")
        for diffusion in ({}, {"diffusion": MaskedDiffusion()})
    ]
    for options in (*kinds, {"by_length": True}):
        [read, expected] = (
            list(Loader(make_batches(samples, 3, seed=3, **options), prefetch_factor=0))
            for samples in (packs, built(WHOLE))
        )
        check_equal(read, expected)


def check_equal(read: list[Batch], expected: list[Batch]) -> None:
    assert len(read) == len(expected) > 0
    for batch, other in zip(read, expected, strict=True):
        assert batch.keys() == other.keys()
        for name, array in batch.items():
            assert array.dtype == other[name].dtype
            assert np.asarray(array).tolist() == np.asarray(other[name]).tolist()


def read_run(samples: Samples, rank: int, world_size: int) -> Iterator[Batch]:
    """What a rank reads in two epochs, if it is stopped after each batch and resumed."""
    state = None
    end = 2 * len(samples)
    while state is None or state["number"] < end:
        loader = Loader(make_batches(samples, 2, seed=7), rank, world_size, prefetch_factor=0)
        if state:
            loader.load_state_dict(json.loads(json.dumps(state)))
        for batch in loader:
            yield batch
            break
        state = loader.state_dict()


@pytest.mark.parametrize(("rank", "world_size"), [(0, 1), (0, 3), (2, 3)])
def test_a_resumed_run_of_any_ranks_reads_what_one_of_a_build_reads(
    rank: int, world_size: int, packs: TokenPacks, built: Callable[[int], DataSet]
) -> None:
    read = list(read_run(packs, rank, world_size))
    check_equal(read, list(read_run(built(WHOLE), rank, world_size)))
    loader = Loader(make_batches(packs, 2, seed=7), rank, world_size)
    check_equal(read, [batch for _ in range(2) for batch in loader])


def test_mixtures_take_them_with_data_sets_that_were_built(
    packs: TokenPacks, built: Callable[[int], DataSet]
) -> None:
    joined = JoinedSamples([packs, built(64)])
    numbers = np.array([0, len(packs), len(packs) - 1])
    rows = joined.take(numbers)
    expected = [packs[0], built(64)[0], packs[len(packs) - 1]]
    for row, other in zip(rows, expected, strict=True):
        assert row["input_ids"].tolist() == other["input_ids"].tolist()
        assert row["cu_seqlens"].tolist() == other["cu_seqlens"].tolist()
    mixed, order = mix([packs, built(64)], [1, 1], seed=1)
    assert next(iter(Loader(make_batches(mixed, 4, order=order))))["input_ids"].shape[0] == 4


def test_few_shards_are_mapped_at_a_time(stream: DataSet) -> None:
    for most in (1, 2, 3):
        packs = TokenPacks(stream, WHOLE)
        numbers = np.arange(len(packs))
        expected = TokenPacks(stream, WHOLE).take(numbers).lists("input_ids").values
        with knobs(most_mapped=most):
            for _ in range(2):
                assert packs.take(numbers).lists("input_ids").values.tolist() == expected.tolist()
        assert len(packs._packs) == most


def test_packs_can_be_sent_to_a_worker(packs: TokenPacks) -> None:
    packs[0]
    sent = pickle.dumps(packs)
    assert len(sent) < 10_000
    other = pickle.loads(sent)  # noqa: S301  our own
    assert other.digest == packs.digest
    assert pieces_of(other) == pieces_of(packs)
    assert repr(other) == repr(packs)


def test_digests_distinguish_packs(stream: DataSet) -> None:
    """So the state of one is not mistaken for that of another."""
    digests = [stream.digest, *(TokenPacks(stream, length).digest for length in (64, 65))]
    assert len({*digests}) == 3
    loader = Loader(make_batches(TokenPacks(stream, 64), 2))
    with pytest.raises(UserError, match="samples"):
        Loader(make_batches(TokenPacks(stream, 65), 2)).load_state_dict(loader.state_dict())


def test_the_file_is_small_and_made_once(stream: DataSet, tmp_path: Path) -> None:
    file = tmp_path / "new" / "packs"
    packs = TokenPacks(stream, WHOLE, file)
    written = file.stat()
    assert [path.name for path in file.parent.iterdir()] == ["packs"]
    again = TokenPacks(stream, WHOLE, str(file))
    assert file.stat().st_mtime_ns == written.st_mtime_ns
    assert pieces_of(again) == pieces_of(packs) == pieces_of(TokenPacks(stream, WHOLE))
    with pa.memory_map(str(file)) as source:
        batches = pa.ipc.open_file(source)
        lists = [batches.get_batch(shard).column(0) for shard in range(3)]
        assert [len(each) for each in lists] == list(packs.shard_sizes)
        assert sum(len(each.values) for each in lists) == len(stream)
        assert {each.type.value_type for each in lists} == {pa.int16()}


def test_processes_may_make_the_same_file_at_a_time(
    stream: DataSet, gpt_stream: Path, tmp_path: Path
) -> None:
    expected = TokenPacks(stream, 64)
    arguments = (str(gpt_stream), stream.cache_folder, tmp_path / "packs")
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes:
        made = list(processes.map(make, [arguments] * 2))
    assert made == [(expected.digest, pieces_of(expected))] * 2
    assert [path.name for path in tmp_path.iterdir()] == ["packs"]


def test_a_killed_process_leaves_nothing(stream: DataSet, gpt_stream: Path, tmp_path: Path) -> None:
    arguments = (str(gpt_stream), stream.cache_folder, tmp_path / "packs")
    process = get_context("spawn").Process(target=be_killed, args=(arguments,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_taken", [False, True])
def test_a_file_is_made_where_files_always_have_names(
    is_taken: bool, stream: DataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it is that of another process where that one was faster."""
    file, expected = tmp_path / "packs", pieces_of(TokenPacks(stream, 64))
    monkeypatch.delattr(os, "O_TMPFILE")
    if is_taken:
        made = TokenPacks(stream, 64, tmp_path / "made")._file
        monkeypatch.setattr(Path, "exists", lambda _: False)
        made.rename(file)
    written = file.stat().st_ino if is_taken else None
    assert pieces_of(TokenPacks(stream, 64, file)) == expected
    assert [path.name for path in tmp_path.iterdir()] == ["packs"]
    assert written in {None, file.stat().st_ino}


def test_any_byte_that_changes_is_noticed(stream: DataSet, tmp_path: Path) -> None:
    """Unless nothing reads it, such as what fills a buffer."""
    file = tmp_path / "packs"
    expected = pieces_of(TokenPacks(stream, 64, file))
    content = file.read_bytes()
    refused = kept = 0
    places = range(0, len(content), 29)
    for place in places:
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        other = tmp_path / str(place)
        other.write_bytes(damaged)
        try:
            read = pieces_of(TokenPacks(stream, 64, other))
        except UserError as error:
            refused += error.value == str(other) and "remove it" in error.cure
        else:
            assert read == expected
            kept += 1
    assert refused + kept == len(places)
    assert refused > len(places) / 3


Row = list[int]


def change_packs(
    change: Callable[..., list[Row]], file: Path, other: Path, shard: int = 1,
    keeps_checksums: bool = False,
) -> None:  # fmt: skip
    """Write other rows of a shard, as somebody's program may, or with the checksums there were."""
    with pa.memory_map(str(file)) as source:
        batches = pa.ipc.open_file(source)
        numbers = range(batches.num_record_batches)
        written = [batches.get_batch_with_custom_metadata(number) for number in numbers]
        shards = [batch.column(0).to_pylist() for batch, _ in written]
        shards[shard] = change(*shards[shard])
        with pa.OSFile(str(other), "wb") as sink, pa.ipc.new_file(sink, batches.schema) as writer:
            for rows, (_, metadata) in zip(shards, written, strict=True):
                column = pa.array(rows, batches.schema.field(0).type)
                batch = pa.record_batch([column], schema=batches.schema)
                own = metadata if keeps_checksums else {"crc32c": token_packs._checksum(batch)}
                writer.write_batch(batch, custom_metadata=own)


def test_rows_in_another_order_are_noticed(stream: DataSet, tmp_path: Path) -> None:
    """Though they hold each token once."""
    TokenPacks(stream, WHOLE, tmp_path / "packs")
    for name, keeps_checksums in (("other", False), ("damaged", True)):
        files = tmp_path / "packs", tmp_path / name
        change_packs(lambda *rows: [*rows[::-1]], *files, keeps_checksums=keeps_checksums)
    other = TokenPacks(stream, WHOLE, tmp_path / "other")
    assert Counter(pieces_of(other)) == Counter(pieces_of(TokenPacks(stream, WHOLE)))
    with pytest.raises(UserError, match="batch 1: its bytes have changed"):
        pieces_of(TokenPacks(stream, WHOLE, tmp_path / "damaged"))


OTHER_ROWS: dict[str, Callable[..., list[Row]]] = {
    "a piece is gone": lambda row, *others: [row[:-1], *others],
    "a piece is there twice": lambda row, *others: [[others[0][0], *row[1:]], *others],
    "a piece is of another shard": lambda row, *others: [[30_000, *row[1:]], *others],
    "a row is gone": lambda row, *others: [row + others[-1], *others[:-1]],
    "a row is too long": lambda row, other, *others: [row + other, [], *others],
}


def test_packs_that_do_not_hold_each_token_once_are_refused(
    stream: DataSet, tmp_path: Path
) -> None:
    files = tmp_path / "packs", tmp_path / "other"
    TokenPacks(stream, WHOLE, files[0])
    change_packs(lambda *rows: [*rows], *files)
    assert pieces_of(TokenPacks(stream, WHOLE, files[1]))
    for change in OTHER_ROWS.values():
        change_packs(change, *files)
        packs = TokenPacks(stream, WHOLE, files[1])
        packs[0]
        with pytest.raises(UserError, match="its rows are not those of train-00001-of-00003"):
            packs[packs.shard_sizes[0]]
    # Nor packs with other numbers of rows than of each shard.
    for counts in ([5, 5, 6], [5, 5, 6, 1024, 1], [5, -5, 6, 1024]):
        change_packs(lambda *_, counts=counts: [counts], *files, shard=-1)
        with pytest.raises(UserError, match="it does not say how many rows 3 shards have"):
            TokenPacks(stream, WHOLE, files[1])


def write_table(file: Path) -> None:
    table = pa.table({"pieces": [[1]]})
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def test_other_files_are_refused(stream: DataSet, tmp_path: Path) -> None:
    files: list[tuple[Callable[[Path], object], str]] = [
        (Path.touch, "it cannot be read"),
        (lambda file: file.write_bytes(b"some text\n" * 100), "it cannot be read"),
        (Path.mkdir, "it cannot be read"),
        (write_table, "it is not a file of packs"),
    ]
    for number, (write, cause) in enumerate(files):
        write(tmp_path / str(number))
        with pytest.raises(UserError, match=cause) as refusal:
            TokenPacks(stream, 64, tmp_path / str(number))
        assert refusal.value.value == str(tmp_path / str(number))


def test_packs_of_other_data_or_another_length_are_refused(stream: DataSet, tmp_path: Path) -> None:
    file = tmp_path / "packs"
    TokenPacks(stream, 64, file)
    with pytest.raises(UserError, match="it was made with max_seq_length=64, not 65"):
        TokenPacks(stream, 65, file)
    for changed in (stream.load("validation", cache_folder=stream.cache_folder), _shorten(stream)):
        with pytest.raises(UserError, match="of another data set, or of this one before it was"):
            TokenPacks(changed, 64, file)


def _shorten(data_set: DataSet) -> DataSet:
    """The data set as if a shard had been dropped."""
    changed = data_set.load(cache_folder=data_set.cache_folder)
    changed._hold(changed.shards[1:])
    return changed


def test_a_packed_file_needs_a_place_on_this_machine(stream: DataSet, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="it is not on this machine") as refusal:
        TokenPacks(stream, 64, "s3://bucket/packs")
    assert refusal.value.value == "file=s3://bucket/packs"
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="packs cannot be written there") as refusal:
        TokenPacks(stream, 64, tmp_path / "file" / "packs")
    assert refusal.value.value == f"file={tmp_path / 'file' / 'packs'}"


def test_the_longest_rows(stream: DataSet) -> None:
    packs = TokenPacks(stream, 2**20)
    assert len(packs) == len(stream.shards)
    assert packs.longest == max(shard.tokens for shard in stream.shards)
    collate = collator_for(packs)
    assert collate(packs.take(np.arange(2)))["position_ids"].shape[0] == 2


def test_other_lengths_data_and_numbers_are_refused(
    packs: TokenPacks, stream: DataSet, bert: Path, gpt_windows: Path, gpt_pack: Path
) -> None:
    for length in (-1, 0, 1, 2**20 + 1):
        with pytest.raises(UserError, match="Give 2 to 1048576") as refusal:
            TokenPacks(stream, length)
        assert refusal.value.value == f"max_seq_length={length}"
    for folder in (bert, gpt_windows, gpt_pack):
        with pytest.raises(UserError, match="not of a token stream"):
            TokenPacks(DataSet(folder), 64)
    for number in (-1, 10**6):
        for read in (packs.take, packs.lengths, packs.find_pieces):
            with pytest.raises(IndexError, match=f"it has {len(packs)} examples"):
                read(np.array([number]))
    assert packs.take(np.empty(0, np.int64)).lists("input_ids").lengths.tolist() == []


def test_packs_need_no_pandas(gpt_stream: Path, tmp_path: Path) -> None:
    """Some functions of Arrow do, which a trainer's environment may lack."""
    (tmp_path / "pandas.py").write_text("raise ModuleNotFoundError")
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r});"
        "from corpusmill import DataSet, TokenPacks;"
        f"data = DataSet({str(gpt_stream)!r});"
        f"print(TokenPacks(data, {WHOLE}, {str(tmp_path / 'packs')!r}).longest)"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert 2 <= int(done.stdout) <= WHOLE
