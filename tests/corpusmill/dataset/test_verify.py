import copy
import hashlib
import io
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmill.dataset.manifest import CARD, MANIFEST, REJECTS, SUCCESS, TOKENIZER, decode
from corpusmill.dataset.verify import Problem, list_local, verify, verify_local
from corpusmill.errors import UserError
from corpusmill.formats.options import OutputOptions
from corpusmill.objectives.bert import BertOptions
from tests.tools.handmade_dataset import Recipe, seal, write_dataset

SHARDS = ("train-00000-of-00002.parquet", "train-00001-of-00002.parquet")
VALIDATION = "validation-00000-of-00001.parquet"
FILES = (*SHARDS, VALIDATION, TOKENIZER, CARD, REJECTS, MANIFEST, SUCCESS)

Manifest = dict[str, Any]


@pytest.fixture(scope="session")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verify") / "intact"
    write_dataset(folder)
    return folder


@pytest.fixture
def dataset(intact: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(intact, tmp_path / "dataset"))


def read(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in list_local(folder)}


def verify_bytes(contents: dict[str, bytes]) -> list[Problem]:
    sizes = {name: len(content) for name, content in contents.items()}
    return verify(sizes, lambda name: io.BytesIO(contents[name]), "out")


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe(),
        Recipe(parquet=OutputOptions(padding="max_length")),
        Recipe(validation_documents=0, rejects=False),
        Recipe(documents=1, train_shards=7, options=BertOptions(max_seq_length=64, duplicates=1)),
    ],
    ids=["ragged", "padded", "one split", "empty shards"],
)
def test_an_intact_data_set_has_no_problem(recipe: Recipe, tmp_path: Path) -> None:
    write_dataset(tmp_path / "out", recipe)
    assert verify_local(tmp_path / "out") == []


def test_the_fixture_holds_every_kind_of_file(intact: Path) -> None:
    assert sorted(list_local(intact)) == sorted(FILES)


@pytest.mark.parametrize("name", FILES)
@settings(max_examples=25)
@given(data=st.data())
def test_any_flipped_byte_is_found(intact: Path, name: str, data: st.DataObject) -> None:
    contents = read(intact)
    damaged = bytearray(contents[name])
    offset = data.draw(st.integers(0, len(damaged) - 1))
    damaged[offset] ^= data.draw(st.integers(1, 255))
    contents[name] = bytes(damaged)
    problems = verify_bytes(contents)
    # The manifest and its seal cannot be told apart as to which of the two was changed.
    expected = MANIFEST if name == SUCCESS else name
    assert [problem.file for problem in problems] == [expected]
    assert "sha256" in problems[0].what


@pytest.mark.parametrize("name", sorted({*FILES} - {MANIFEST, SUCCESS}))
@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda content: content[:-12], "12 bytes shorter than the manifest says"),
        (lambda content: content + b"x", "1 bytes longer than the manifest says"),
        (lambda _: b"", "bytes shorter than the manifest says"),
    ],
    ids=["truncated", "longer", "emptied"],
)
def test_another_size_is_found(
    intact: Path, name: str, change: Callable[[bytes], bytes], what: str
) -> None:
    contents = read(intact)
    contents[name] = change(contents[name])
    (problem,) = verify_bytes(contents)
    assert problem.file == name
    assert what in problem.what


@pytest.mark.parametrize("name", [MANIFEST, SUCCESS])
def test_a_truncated_manifest_or_seal_is_found(dataset: Path, name: str) -> None:
    (dataset / name).write_bytes((dataset / name).read_bytes()[:-1])
    assert [problem.file for problem in verify_local(dataset)] == [MANIFEST]


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_found(dataset: Path, name: str) -> None:
    (dataset / name).unlink()
    (problem,) = verify_local(dataset)
    assert problem.file == name
    assert problem.what.startswith("missing")


def test_a_data_set_without_success_says_that_the_build_did_not_finish(dataset: Path) -> None:
    (dataset / SUCCESS).unlink()
    (dataset / TOKENIZER).unlink()
    unfinished, tokenizer = verify_local(dataset)
    assert "did not finish" in str(unfinished)
    assert tokenizer == Problem(TOKENIZER, "missing")


@pytest.mark.parametrize(
    "name", ["train-00002-of-00003.parquet", "rejects/other.jsonl", "_temporary-1/shard", ".hidden"]
)
def test_an_extra_file_is_found(dataset: Path, name: str) -> None:
    (dataset / name).parent.mkdir(exist_ok=True)
    (dataset / name).write_bytes(b"x")
    assert [str(problem) for problem in verify_local(dataset)] == [
        f"{name}: extra: the manifest does not list it"
    ]


def test_swapped_shards_are_found(dataset: Path) -> None:
    first, second = (dataset / name for name in SHARDS)
    first.rename(dataset / "aside")
    second.rename(first)
    (dataset / "aside").rename(second)
    assert [problem.file for problem in verify_local(dataset)] == list(SHARDS)


def test_every_problem_of_several_is_reported(dataset: Path) -> None:
    (dataset / CARD).unlink()
    (dataset / "extra").write_bytes(b"")
    (dataset / VALIDATION).write_bytes(b"short")
    assert [problem.file for problem in verify_local(dataset)] == [CARD, "extra", VALIDATION]


def _first_shard(manifest: Manifest) -> dict[str, Any]:
    shard: dict[str, Any] = manifest["splits"]["train"]["shards"][0]
    return shard


def _more_rows(manifest: Manifest) -> None:
    _first_shard(manifest)["rows"] += 1
    manifest["splits"]["train"]["rows"] += 1


def _more_tokens(manifest: Manifest) -> None:
    _first_shard(manifest)["tokens"] += 1
    manifest["splits"]["train"]["tokens"] += 1


def _move_one(name: str) -> Callable[[Manifest], None]:
    """Let one example have another value, so that the total stays."""

    def change(manifest: Manifest) -> None:
        counts = manifest["splits"]["train"]["distributions"][name]
        value = next(value for value, number in enumerate(counts) if number)
        counts[value] -= 1
        counts[value - 1 if value else 1] += 1

    return change


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (_more_rows, "rows, the manifest says"),
        (_more_tokens, "tokens, the manifest says"),
        (lambda of: of["splits"]["train"].update(rows=9), "add up to"),
        (lambda of: of["splits"]["train"].update(tokens=9), "add up to"),
        (lambda of: _first_shard(of).update(sha256="0" * 64), "sha256 differs"),
        (lambda of: of["splits"]["train"]["distributions"]["length"].append(1), "rows"),
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
        (lambda of: of["splits"]["train"]["distributions"].update(other=[3]), "counts 3 of"),
        (lambda of: of["columns"][0].update(type="list<element: int32 not null>"), "columns"),
        (lambda of: of["columns"].pop(), "columns"),
        (lambda of: of["counts"].update({"write.rows": 9}), "write.rows is 9"),
        (lambda of: of["counts"].update({"read.lines": 9}), "lines and rows read"),
        (lambda of: of["counts"].update({"build.examples": 9}), "examples built"),
        (lambda of: of["counts"].update({"tokenize.documents": 9}), "documents"),
        (lambda of: of["tokenizer"].update(sha256="0" * 64), "lists another tokenizer.json"),
    ],
)
def test_a_manifest_that_lies_about_its_data_is_found(
    dataset: Path, change: Callable[[Manifest], None], what: str
) -> None:
    manifest = decode((dataset / MANIFEST).read_bytes(), "out")
    before = copy.deepcopy(manifest)
    change(manifest)
    assert manifest != before
    seal(dataset, manifest)
    assert any(what in str(problem) for problem in verify_local(dataset))


def test_the_padded_layout_is_counted_again_as_well(tmp_path: Path) -> None:
    recipe = replace(Recipe(), parquet=OutputOptions(padding="max_length"))
    manifest = write_dataset(tmp_path / "out", recipe)
    for name in ("length", "second_segment_length", "predictions"):
        changed = copy.deepcopy(manifest)
        _move_one(name)(changed)
        seal(tmp_path / "out", changed)
        (problem,) = verify_local(tmp_path / "out")
        assert f"the distribution {name} is not" in problem.what


def test_a_shard_that_is_no_parquet_file_is_found(dataset: Path) -> None:
    content = b"PAR1 but not really"
    manifest = decode((dataset / MANIFEST).read_bytes(), "out")
    sha256 = hashlib.sha256(content).hexdigest()
    _first_shard(manifest).update(bytes=len(content), sha256=sha256)
    (dataset / SHARDS[0]).write_bytes(content)
    seal(dataset, manifest)
    (problem,) = verify_local(dataset)
    assert problem.file == SHARDS[0]
    assert problem.what.startswith("is no readable parquet shard")


def test_an_unreadable_file_is_a_problem_and_not_an_end(intact: Path) -> None:
    def open_file(name: str) -> BinaryIO:
        if name == CARD:
            raise PermissionError(13, "Permission denied")
        return (intact / name).open("rb")

    (problem,) = verify(list_local(intact), open_file, "out")
    assert problem.file == CARD
    assert "Permission denied" in problem.what


def test_no_file_is_read_whole_but_the_manifest(intact: Path) -> None:
    """The bound on memory: everything else is read in blocks."""
    sizes: dict[str, int] = {}

    class Watched(io.FileIO):
        def read(self, size: int | None = -1) -> bytes | Any:
            name = Path(str(self.name)).name
            sizes[name] = min(sizes.get(name, 1), -1 if size is None else size)
            return super().read(-1 if size is None else size)

    assert verify(list_local(intact), lambda name: Watched(intact / name), "out") == []
    assert {name for name, size in sizes.items() if size < 0} == {MANIFEST, SUCCESS}


def _folders_that_are_no_data_set(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "absent"
    empty = tmp_path / "empty"
    empty.mkdir()
    yield empty
    other = tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").write_text("x")
    yield other
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / MANIFEST).write_text('{"format": "something else"}')
    yield foreign
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / MANIFEST).write_text('{"format": "corpusmill", "format_version": 1}')
    yield broken


def test_a_folder_that_is_no_data_set_is_the_users_mistake(tmp_path: Path) -> None:
    for folder in _folders_that_are_no_data_set(tmp_path):
        with pytest.raises(UserError) as caught:
            verify_local(folder)
        assert str(folder) in str(caught.value)
