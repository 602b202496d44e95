import copy
import hashlib
import io
import json
import re
import shutil
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmill.arrays.columns import Column, Role
from corpusmill.dataset.file_checks import Problem
from corpusmill.dataset.manifest import (
    CARD,
    MANIFEST,
    REJECTS,
    SUCCESS,
    TOKENIZER,
    TOKENIZER_CONFIG,
)
from corpusmill.dataset.manifest_entries import recount
from corpusmill.dataset.ownership import MARK, RECORD
from corpusmill.dataset.shards import RUN
from corpusmill.errors import UserError
from corpusmill.formats.output_options import OutputOptions
from corpusmill.location import TEMPORARY, LocalPath, Location, locate
from corpusmill.reading.data_set import DataSet
from corpusmill.verification.check_data_set import Listed, Totals, compare_list, conclude, verify
from tests.tools.small_datasets import (
    OBJECTIVES,
    ONE_DOCUMENT,
    WITH_REJECT,
    Recipe,
    write_dataset,
    write_entries,
    write_version,
)

SHARDS = ("train-00000-of-00002.parquet", "train-00001-of-00002.parquet")
VALIDATION = "validation-00000-of-00001.parquet"
FILES = (
    *SHARDS, VALIDATION, TOKENIZER, TOKENIZER_CONFIG, CARD, REJECTS, MANIFEST, SUCCESS,
)  # fmt: skip

# The bytes of a manifest up to the end of its own digest.
HEADER = len('{\n "format": "corpusmill",\n "format_version": 2,\n "sha256": ""') + 64

Entries = dict[str, Any]
Change = Callable[[Entries], object]


@pytest.fixture(scope="session")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verify") / "intact"
    write_dataset(folder, Recipe(shards=2, text=WITH_REJECT))
    return folder


@pytest.fixture
def dataset(intact: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(intact, tmp_path / "dataset"))


@dataclass(frozen=True)
class MemoryFolder(Location):
    """A folder whose files are bytes in memory."""

    contents: dict[str, bytes]
    url: str = "out"

    def list(self) -> dict[str, int]:
        return {name: len(content) for name, content in self.contents.items()}

    def open(self, name: str = "") -> BinaryIO:
        return io.BytesIO(self.read(name))

    def read(self, name: str = "") -> bytes:
        if name not in self.contents:
            raise FileNotFoundError(name)
        return self.contents[name]

    def __truediv__(self, name: str) -> "MemoryFolder":
        begin = f"{name}/"
        contents = {
            path.removeprefix(begin): content
            for path, content in self.contents.items()
            if path.startswith(begin)
        }
        return MemoryFolder(contents, f"{self.url}/{name}")


def read(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in locate(str(folder)).list()}


def read_entries(folder: Path) -> Entries:
    entries: Entries = json.loads((folder / MANIFEST).read_bytes())
    return entries


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe(text=WITH_REJECT),
        Recipe(output=OutputOptions(padding="max_length")),
        Recipe(validation_share=0),
        Recipe(shards=7, validation_share=0, text=ONE_DOCUMENT),
    ],
    ids=["ragged", "padded", "one split", "empty shards"],
)
def test_an_intact_data_set_has_no_problem(recipe: Recipe, tmp_path: Path) -> None:
    write_dataset(tmp_path / "out", recipe)
    assert verify(tmp_path / "out") == []


@pytest.mark.parametrize("name", sorted({*FILES} - {SUCCESS}))  # which is empty
@settings(max_examples=6)
@given(data=st.data())
def test_any_flipped_byte_is_found(intact: Path, name: str, data: st.DataObject) -> None:
    contents = read(intact)
    damaged = bytearray(contents[name])
    offset = data.draw(st.integers(0, len(damaged) - 1))
    damaged[offset] ^= data.draw(st.integers(1, 255))
    contents[name] = bytes(damaged)
    says_what_it_is = name != MANIFEST or offset >= HEADER
    with nullcontext() if says_what_it_is else suppress(UserError):
        (problem,) = verify(MemoryFolder(contents))
        assert problem.file == name
        assert "sha256" in problem.what


def test_a_file_of_another_size_or_missing_is_found(intact: Path) -> None:
    contents = read(intact)
    assert sorted(contents) == sorted(FILES)
    changes: dict[str, Callable[[bytes], bytes]] = {
        "12 bytes shorter than the manifest says": lambda content: content[:-12],
        "1 byte longer than the manifest says": lambda content: content + b"x",
        "bytes shorter than the manifest says": lambda _: b"",
    }
    for name in {*FILES} - {SUCCESS}:  # which is empty, and nothing reads
        others = {other: contents[other] for other in FILES if other != name}
        (problem,) = verify(MemoryFolder(others))
        assert (problem.file, problem.what[:7]) == (name, "missing")
        for what, change in changes.items() if name != MANIFEST else ():
            (problem,) = verify(MemoryFolder({**others, name: change(contents[name])}))
            assert problem.file == name
            assert what in problem.what
    truncated = {**contents, MANIFEST: contents[MANIFEST][:-1]}
    assert [problem.file for problem in verify(MemoryFolder(truncated))] == [MANIFEST]


def test_readers_and_verify_notice_a_flipped_bit_in_a_manifest(dataset: Path) -> None:
    content = (dataset / MANIFEST).read_bytes()
    for offset in (*range(HEADER), *range(HEADER, len(content), 997), len(content) - 1):
        damaged = bytearray(content)
        damaged[offset] ^= 4
        (dataset / MANIFEST).write_bytes(damaged)
        with pytest.raises(UserError, match=MANIFEST):
            DataSet(dataset)
        with suppress(UserError):
            assert [problem.file for problem in verify(dataset)] == [MANIFEST]


def test_an_extra_file_is_found(intact: Path) -> None:
    hidden = ("_temporary-1/shard", ".hidden")
    for name in ("train-00002-of-00003.parquet", "rejects/other.jsonl", *hidden):
        assert [str(problem) for problem in verify(MemoryFolder({**read(intact), name: b"x"}))] == [
            f"{name}: extra: the manifest does not list it"
        ]


def test_what_a_stopped_run_has_left_is_no_damage(dataset: Path) -> None:
    temporary = f"v2/{TEMPORARY}{'0' * 32}"
    contents = {
        f"v2/{RUN}": {},
        f"v2/{RECORD}": ["train-00000-of-00001.parquet"],
        "v2/train-00000-of-00001.parquet": "x",
        f"{temporary}/{MARK}": {"output": "dataset"},
        f"{temporary}/shard": "x",
    }
    for name, content in contents.items():
        (dataset / name).parent.mkdir(parents=True, exist_ok=True)
        (dataset / name).write_text(json.dumps(content))
    assert verify(dataset) == []


def test_a_copy_beside_the_manifest_that_differs_or_is_missing_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    manifest = write_version(folder, Recipe(OBJECTIVES["gpt_stream"], OutputOptions("mds")))
    names = {TOKENIZER, TOKENIZER_CONFIG, CARD, "index.json", "validation/index.json"}
    assert manifest.copies.keys() == names
    assert verify(folder) == []
    for name in names:
        content = (folder / name).read_bytes()
        (folder / name).unlink()
        assert verify(folder) == [Problem(name, f"missing: it is a copy of v1/root/{name}")]
        for other in (content[:-1], content + b"x", content.swapcase()):
            (folder / name).write_bytes(other)
            cause = f"it is not the copy of v1/root/{name} that it should be"
            assert verify(folder) == [Problem(name, cause)]
        (folder / name).write_bytes(content)
        original = folder / "v1" / "root" / name
        original.write_bytes(content.swapcase())
        assert [problem.file for problem in verify(folder)] == [f"v1/root/{name}"]
        original.write_bytes(content)


def test_files_of_an_older_version_are_no_damage_and_those_of_a_stranger_are_named(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "out"
    old = write_version(folder, number=1)
    write_version(folder, Recipe(shards=2), number=2)
    assert verify(folder) == []
    (folder / "v1" / "notes.txt").write_text("mine")
    assert [problem.file for problem in verify(folder)] == ["v1/notes.txt"]
    for damaged in ("[", '{"file": 1}', '["../v2/train-00000-of-00002.parquet"]'):
        (folder / "v1" / RECORD).write_text(damaged)
        strange = sorted([*old.entries, "v1/notes.txt"])
        assert [problem.file for problem in verify(folder)] == strange


def _train(entries: Entries) -> Entries:
    split: Entries = entries["splits"]["train"]
    return split


def _first_shard(entries: Entries) -> Entries:
    shard: Entries = _train(entries)["shards"][0]
    return shard


def _add_row(entries: Entries) -> None:
    """Let the first shard, its split and all distributions state an empty row more."""
    _first_shard(entries)["rows"] += 1
    _train(entries)["rows"] += 1
    for counts in _train(entries)["distributions"].values():
        counts[0] += 1


def _add_token(entries: Entries) -> None:
    """Let the first shard, its split and the lengths state a token more."""
    _first_shard(entries)["tokens"] += 1
    _train(entries)["tokens"] += 1
    _train(entries)["distributions"]["length"][-1] -= 1
    _train(entries)["distributions"]["length"].append(1)


def _move_one(name: str) -> Change:
    """Let one example have another value, so that the total stays."""

    def change(entries: Entries) -> None:
        counts = _train(entries)["distributions"][name]
        value = next(value for value, number in enumerate(counts) if number)
        counts[value] -= 1
        counts[value - 1 if value else 1] += 1
        if name == "length":  # another example is longer, so that the tokens stay
            counts[-1] -= 1
            counts.append(1)

    return change


LIES: list[tuple[Change, str]] = [
    (_add_row, "rows, the manifest says"),
    (_add_token, "tokens, the manifest says"),
    (lambda entries: _first_shard(entries).update(sha256="0" * 64), "sha256 differs"),
    *[
        (_move_one(name), f"the distribution {name} is not that of the rows")
        for name in (
            "length",
            "first_segment_length",
            "second_segment_length",
            "predictions",
            "next_sentence_label",
        )
    ],
    (lambda entries: entries.update(columns=entries["columns"][:3]), "columns"),
    (lambda entries: entries["counts"].update({"write.rows": 9}), "write.rows is 9"),
    (lambda entries: entries["counts"].update({"read.lines": 9}), "lines and rows read"),
    (lambda entries: entries["counts"].update({"write.segment_tokens": 9}), "segment_tokens"),
    (lambda entries: entries["counts"].update({"build.trimmed_tokens": 9}), "cut off"),
    (lambda entries: entries["counts"].update({"build.examples": 9}), "examples built"),
    (lambda entries: entries["counts"].update({"tokenize.documents": 9}), "documents"),
    (lambda entries: entries["tokenizer"].update(sha256="0" * 64), "another tokenizer.json"),
]


def test_a_manifest_that_lies_about_its_data_is_found(dataset: Path) -> None:
    manifest = (dataset / MANIFEST).read_bytes()
    unseen = []
    for change, what in LIES:
        (dataset / MANIFEST).write_bytes(manifest)
        write_changed(dataset, change)
        if not any(what in str(problem) for problem in verify(dataset)):
            unseen.append(what)
    assert unseen == []


def write_changed(dataset: Path, change: Change) -> None:
    """Write the manifest with a change, and its digest."""
    entries = read_entries(dataset)
    before = copy.deepcopy(entries)
    change(entries)
    assert entries != before
    write_entries(dataset, entries)


def test_the_padded_layout_is_counted_again_as_well(tmp_path: Path) -> None:
    write_dataset(tmp_path / "out", Recipe(output=OutputOptions(padding="max_length")))
    entries = read_entries(tmp_path / "out")
    for name in ("length", "second_segment_length", "predictions"):
        changed = copy.deepcopy(entries)
        _move_one(name)(changed)
        write_entries(tmp_path / "out", changed)
        problems = [problem.what for problem in verify(tmp_path / "out")]
        # Segments must also balance with the tokens of the documents.
        assert [what for what in problems if "segment_tokens" not in what] == problems[:1]
        assert f"the distribution {name} is not" in problems[0]


def test_a_shard_that_is_no_parquet_file_is_found(dataset: Path) -> None:
    content = b"PAR1 but not really"
    sha256 = hashlib.sha256(content).hexdigest()
    write_changed(
        dataset, lambda entries: _first_shard(entries).update(bytes=len(content), sha256=sha256)
    )
    (dataset / SHARDS[0]).write_bytes(content)
    (problem,) = verify(dataset)
    assert problem.file == SHARDS[0]
    assert problem.what.startswith("is not a readable parquet shard")


def test_an_unreadable_file_is_a_problem_and_not_an_end(intact: Path) -> None:
    class Forbidden(LocalPath):
        def open(self, name: str = "") -> BinaryIO:
            if name == CARD:
                raise PermissionError(13, "Permission denied")
            return super().open(name)

    (problem,) = verify(Forbidden(str(intact)))
    assert problem.file == CARD
    assert "Permission denied" in problem.what


def test_problems_are_the_same_for_any_number_of_workers(dataset: Path) -> None:
    write_changed(dataset, _add_row)
    (dataset / SHARDS[1]).write_bytes((dataset / SHARDS[1]).read_bytes()[::-1])
    (dataset / CARD).write_bytes(b"x")
    (dataset / REJECTS).unlink()
    problems = verify(dataset, workers=1)
    files = [problem.file for problem in problems]
    assert files[:4] == [REJECTS, CARD, SHARDS[1], SHARDS[0]]
    assert "rows, the manifest says" in problems[3].what
    for workers in (2, 5):
        assert verify(dataset, workers) == problems


def test_problems_stand_in_the_order_of_shards_in_whatever_order_they_are_found(
    intact: Path,
) -> None:
    listed = compare_list(locate(str(intact)))
    assert isinstance(listed, Listed)
    first, second = (Problem(name, "holds other rows") for name in SHARDS)
    other = Problem(CARD, "sha256 differs")
    for faults in ([(0, first), (1, second)], [(1, second), (0, first)]):
        totals = Totals([other], faults, uncounted={"train", "validation"})
        assert conclude(listed, totals) == [other, first, second]


def test_two_workers_read_two_shards_at_a_time(intact: Path) -> None:
    """Each shard waits until the other one is opened, too."""
    both = Barrier(2, timeout=60)

    class Together(LocalPath):
        def open(self, name: str = "") -> BinaryIO:
            if name in SHARDS and opened.count(name) == 0:
                opened.append(name)
                both.wait()
            return super().open(name)

    opened: list[str] = []
    assert verify(Together(str(intact)), workers=2) == []
    assert sorted(opened) == sorted(SHARDS)


def test_no_file_is_read_whole_but_the_manifest(intact: Path) -> None:
    """The bound on memory: everything else is read in blocks."""
    sizes: dict[str, int] = {}

    class Watched(io.FileIO):
        def read(self, size: int | None = -1) -> bytes | Any:
            name = Path(str(self.name)).name
            sizes[name] = min(sizes.get(name, 1), -1 if size is None else size)
            return super().read(-1 if size is None else size)

    class WatchedFolder(LocalPath):
        def open(self, name: str = "") -> BinaryIO:
            return cast(BinaryIO, Watched(intact / name))

    assert verify(WatchedFolder(str(intact))) == []
    assert {name for name, size in sizes.items() if size < 0} == {MANIFEST}


def test_a_folder_that_is_no_data_set_is_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=re.escape(str(tmp_path / "absent"))):
        verify(tmp_path / "absent")
    for contents in (
        {},
        {"notes.txt": b"x"},
        {MANIFEST: b'{"format": "something else"}'},
        {MANIFEST: b'{"format": "corpusmill", "format_version": 0}'},
    ):
        with pytest.raises(UserError, match=r"\Aout"):
            verify(MemoryFolder(contents))


def test_a_value_beyond_the_longest_row_is_refused_before_memory_is_taken_for_it() -> None:
    label = Column("label", "uint32", "a class", 0, role=Role.CLASS)
    rows = pa.RecordBatch.from_pydict({"label": pa.array([1, 2**32 - 1], pa.uint32())})
    with pytest.raises(ValueError, match=r"the label 4,294,967,295, above 65,536"):
        recount(rows, [label], longest=64)
