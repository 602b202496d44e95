"""The commit, with shards and counts made by hand."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.runners.runner import PipelineResult

from corpusmill.corpus.batches import Reject
from corpusmill.corpus.reject_lines import to_line
from corpusmill.dataset.accounting import Expected
from corpusmill.dataset.manifest_entries import SourceFile
from corpusmill.dataset.manifest_json import is_sealed, to_json
from corpusmill.dataset.manifest_json import seal as seal_manifest
from corpusmill.dataset.ownership import OwnFolder, write_record
from corpusmill.errors import UserError
from corpusmill.layout.placement import Layout
from corpusmill.location import locate
from tests.tools.manifests import small_manifest
from transforms.commit.commit import CommitDataset
from transforms.commit.contents import CommitOptions, Decision
from transforms.commit.pointer import Committed, copy_beside, tidy
from transforms.commit.pointer import commit as commit_files
from transforms.elements import LinesFile, ReadRange, WrittenFile
from transforms.recovery import COMMITTED, FAILED, Run, Workplace, begin_run, read_run
from transforms.shard_files import FileNames
from transforms.storage.checksums import compute_checksum, seal
from transforms.testing import local_pipeline

LAYOUT = Layout(0, 2, 1)
SHARDS = {
    "train-00000-of-00002.parquet": (b"first", 4, 40),
    "train-00001-of-00002.parquet": (b"the second", 3, 30),
    "validation-00000-of-00001.parquet": (b"third", 2, 20),
}
COUNTS = {
    "read.ranges": 3, "read.bytes": 100, "read.lines": 9, "read.sentence_lines": 5,
    "read.blank_lines": 2, "read.title_lines": 1, "read.rejected_lines": 1, "read.rejects": 1,
    "read.documents": 3,
    "tokenize.documents": 2, "tokenize.empty_documents": 1, "tokenize.tokens": 50,
    "candidates.documents": 2, "pool.candidates": 2, "pool.documents": 2,
    "build.passes": 10, "build.examples": 9, "write.rows": 9,
    "write.train.length.10": 7, "write.validation.length.10": 2,
}  # fmt: skip
# Of the second file no byte after the third was read.
RANGES = [
    ReadRange(0, 4, 5, compute_checksum(b"56789")), ReadRange(1, 0, 3, compute_checksum(b"123")),
    ReadRange(0, 0, 4, compute_checksum(b"1234")),
]  # fmt: skip
TOKENIZER_JSON = b'{"model": {}}'
TOKENIZER_DIGEST = hashlib.sha256(TOKENIZER_JSON).hexdigest()
MANIFEST = small_manifest()
FILES = (SourceFile("a", 9), SourceFile("b", 4))
HEADER = to_json(
    replace(
        MANIFEST,
        tokenizer=replace(MANIFEST.tokenizer, sha256=TOKENIZER_DIGEST),
        corpus=replace(MANIFEST.corpus, files=FILES),
    )
)
CONTENTS = {f"v1/{name}": content for name, (content, _, _) in SHARDS.items()}
CONTENTS_OF_LATER = {f"v2/{name}": content for name, (content, _, _) in SHARDS.items()}
TEMPORARY_NAME = f"_temporary-{'0a' * 16}"


def refused(offset: int, reason: str) -> bytes:
    """The line of a reject."""
    return to_line(Reject("a.txt", offset, 1, reason, ""))


class Folders:
    """An output folder with shards under their final names, and all that a commit needs.

    Args:
        root: folder in which it is.
        shards: {name: (content, rows, tokens)} in the order of their numbers.
        version: number of the version.
        base: SHA-256 of the manifest from which the run began.
    """

    def __init__(
        self,
        root: Path,
        shards: dict[str, tuple[bytes, int, int]] = SHARDS,
        version: int = 1,
        base: str = "",
    ) -> None:
        self.output, self.version = root / "out", root / "out" / f"v{version}"
        self.temp = self.version / TEMPORARY_NAME
        self.place = Workplace(str(self.temp), str(self.output), version, "mine")
        self.version.mkdir(parents=True)
        run = Run("mine", str(self.temp), kind="build", base=base)
        assert begin_run(locate(str(self.version)), run)
        OwnFolder(locate(str(self.temp)), {"output": str(self.output)}).make()
        (self.temp / "tokenizer.json").write_bytes(TOKENIZER_JSON)
        self.shards = [
            self.write_part(name, number, 0, *shard)
            for number, (name, shard) in enumerate(shards.items())
        ]
        self.rejects = [self._write_rejects(2, "later"), self._write_rejects(0, "first")]
        (self.temp / "run.json").write_bytes(seal(json.dumps({"header": HEADER}).encode()))
        roots = ("root/README.md", "root/tokenizer.json", "root/tokenizer_config.json")
        write_record(self.place.folder, (*shards, "rejects/rejects.jsonl", *roots))
        self.names = FileNames(version, LAYOUT, (".parquet",), {}, None, ())
        self.options = CommitOptions(
            self.place, str(self.temp / "tokenizer.json"), str(self.temp / "run.json"),
            Expected(3, 100, len(shards), 5), None,
        )  # fmt: skip

    def write_part(
        self, name: str, shard: int, part: int, content: bytes, rows: int, tokens: int
    ) -> WrittenFile:
        path = self.version / name
        path.write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        return WrittenFile(shard, part, str(path), rows, tokens, len(content), digest)

    def _write_rejects(self, number: int, line: str) -> LinesFile:
        path = self.temp / f"rejects-{number}"
        content = refused(number, line)
        path.write_bytes(content)
        return LinesFile(number, str(path), 1, len(content), hashlib.sha256(content).hexdigest())

    def files(self) -> dict[str, bytes]:
        """Return all files but the temporary ones and what the run says of itself."""
        return {
            str(path.relative_to(self.output)): path.read_bytes()
            for path in self.output.rglob("*")
            if path.is_file() and path.name != "_run.json" and TEMPORARY_NAME not in path.parts
        }

    @property
    def has_data_set(self) -> bool:
        return (self.output / "dataset.json").exists()


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)


def commit(folders: Folders, names: FileNames | None = None, **changes: Any) -> PipelineResult:
    counts = {"read.rejects": 2, **changes.pop("counts", {})}
    shards, rejects = changes.pop("shards", folders.shards), changes.pop("rejects", folders.rejects)
    options = replace(folders.options, **changes)
    # Each count comes in two parts, as from two bundles.
    together = {**COUNTS, **counts}
    parts = [
        [(name, number - number // 2) for name, number in together.items()],
        [(name, number // 2) for name, number in together.items()],
    ]
    with local_pipeline() as pipeline:
        written = pipeline | "Shards" >> beam.Create(shards).with_output_types(WrittenFile)
        refused = pipeline | "Rejects" >> beam.Create(rejects).with_output_types(LinesFile)
        counted = [
            pipeline | f"Counts{place}" >> beam.Create(part).with_output_types(tuple[str, int])
            for place, part in enumerate(parts)
        ]
        ranges = pipeline | "Ranges" >> beam.Create(RANGES).with_output_types(ReadRange)
        decision = Decision(options, names or folders.names)
        _ = written | CommitDataset(decision, counted, refused, ranges)
    return pipeline.result


def test_shards_of_a_split_are_joined_where_the_format_asks_for_it(folders: Folders) -> None:
    parts = [
        folders.write_part(f"part-{number}-{part}", number, part, content, *numbers)
        for number, (content, *numbers) in enumerate(SHARDS.values())
        for part, content, numbers in ((0, content, numbers), (1, b"%d," % (number + 1), [0, 0]))
    ]
    joined = {"train": "train", "validation": "val"}
    names = FileNames(1, LAYOUT, (".bin", ".lengths"), joined, None, ())
    for _ in range(2):  # as after a failure at its end
        commit(folders, names, shards=[*reversed(parts)], is_awaited=True)
    files = folders.files()
    contents = {"v1/train.bin": b"firstthe second", "v1/val.bin": b"third"}
    contents |= {"v1/train.lengths": b"1,2,", "v1/val.lengths": b"3,"}
    assert contents.items() <= files.items()
    splits = json.loads(files["dataset.json"])["splits"]
    [train] = splits["train"]["shards"]
    assert (train["file"], train["rows"], train["tokens"]) == ("v1/train.bin", 7, 70)
    assert [shard["file"] for shard in splits["validation"]["shards"]] == ["v1/val.bin"]


def check_entries(files: dict[str, bytes]) -> dict[str, Any]:
    """Check that a manifest lists every file but copies and records, and return it."""
    manifest: dict[str, Any] = json.loads(files["dataset.json"])
    shards = [shard for split in manifest["splits"].values() for shard in split["shards"]]
    entries = {entry["file"]: entry for entry in [*manifest["files"], *shards]}
    copies = {"README.md", "tokenizer.json", "tokenizer_config.json"} & files.keys()
    assert all(files[name] == files[f"v1/root/{name}"] for name in copies)
    assert entries.keys() == files.keys() - {*copies, "dataset.json", "_SUCCESS", "v1/_files.json"}
    for name, entry in entries.items():
        assert entry["bytes"] == len(files[name])
        assert entry["sha256"] == hashlib.sha256(files[name]).hexdigest()
    return manifest


def test_a_commit_vouches_for_every_file(folders: Folders) -> None:
    commit(folders)
    files = folders.files()
    assert CONTENTS.items() <= files.items()
    assert files["v1/rejects/rejects.jsonl"] == refused(0, "first") + refused(2, "later")
    assert files["_SUCCESS"] == b""
    assert is_sealed(files["dataset.json"])
    manifest = check_entries(files)
    splits, counts = manifest["splits"], manifest["counts"]
    assert splits["train"]["rows"] == 7
    assert splits["validation"]["tokens"] == 20
    assert splits["train"]["distributions"]["length"][10] == 7
    assert counts["read.documents"] == 3
    # The manifest does not tell how the work was cut.
    assert not [name for name in counts if "ranges" in name]
    # The check value of CRC-32C in every catalogue: of the digits 1 to 9.
    whole, part = manifest["corpus"]["files"]
    assert whole == {"path": "a", "bytes": 9, "crc32c": "e3069283"}
    assert part == {"path": "b", "bytes": 4}


def test_a_commit_that_is_done_again_changes_nothing(folders: Folders) -> None:
    states = []
    for _ in range(2):
        commit(folders)
        states.append(folders.files())
        assert not folders.temp.exists()
        assert read_run(folders.place.folder) is None
    assert states[0] == states[1]


def test_a_run_whose_version_another_one_took_commits_nothing(folders: Folders) -> None:
    run = read_run(folders.place.folder)
    assert begin_run(folders.place.folder, Run("theirs"), run)
    commit(folders)
    assert not folders.has_data_set
    assert folders.temp.exists()


def test_a_commit_that_a_command_waits_for_leaves_its_folder_to_it(folders: Folders) -> None:
    commit(folders, is_awaited=True)
    before = folders.files()
    assert folders.temp.exists()
    run = read_run(folders.place.folder)
    assert run
    assert run.ended == COMMITTED
    commit(folders, is_awaited=True)
    assert folders.files() == before


def test_what_does_not_agree_stops_the_commit(folders: Folders) -> None:
    cases: dict[str, dict[str, Any]] = {
        "3 documents tokenized, but 4 documents read": {"counts": {"read.documents": 4}},
        "2 shards written, but 3 shards planned": {"shards": folders.shards[::2]},
        "1 rejects written, but 2 rejects found": {"rejects": folders.rejects[:1]},
        "No such file or directory": {},
    }
    for message, changes in cases.items():
        if not changes:
            Path(folders.shards[1].path).unlink()
        with pytest.raises(Exception, match=message):
            commit(folders, **changes)
        assert not folders.has_data_set, message


def test_too_many_rejects_stop_the_commit_and_no_engine_tries_it_again(folders: Folders) -> None:
    with pytest.raises(Exception, match="2 of 9 input lines and rows are rejects"):
        commit(folders, max_rejects=1.0)
    commit(folders, max_rejects=1.0)
    assert not folders.has_data_set
    run = read_run(folders.place.folder)
    assert run
    assert run.ended == FAILED
    assert run.mistake
    assert run.mistake[0] == "--max-rejects 1"


def test_no_rejects_make_no_folder(folders: Folders) -> None:
    commit(folders, rejects=[], counts={"read.rejects": 0})
    assert not (folders.version / "rejects").exists()


def read_committed(folders: Folders) -> Committed:
    """Return what a commit has made the data set."""
    names = ("README.md", "tokenizer.json", "tokenizer_config.json")
    copies = {
        name: (folders.output / name).read_bytes()
        for name in names
        if (folders.output / name).exists()
    }
    return Committed((folders.output / "dataset.json").read_bytes(), copies)


def test_a_commit_that_is_killed_after_any_step_is_finished_by_the_next_attempt_or_command(
    folders: Folders,
) -> None:
    commit(folders, is_awaited=True)
    committed, expected = read_committed(folders), folders.files()
    beside = ["dataset.json", *committed.copies, "_SUCCESS"]
    for done in range(len(beside) + 1):
        for name in beside:
            (folders.output / name).unlink(missing_ok=True)
        for name in beside[:done]:
            (folders.output / name).write_bytes(expected[name])
        if done % 2 or not done:
            commit_files(folders.place, committed)
        else:
            assert tidy(locate(str(folders.output))) == (done < len(beside) or done == 2)
        assert folders.files() == expected, done


def test_a_commit_that_another_run_has_overtaken_changes_nothing(folders: Folders) -> None:
    commit(folders, is_awaited=True)
    committed, pointer = read_committed(folders), folders.output / "dataset.json"
    theirs = seal_manifest(committed.manifest.replace(b'"version": 1', b'"version": 7'))
    pointer.write_bytes(theirs)
    (folders.output / "README.md").write_text("theirs")
    before = folders.files()
    with pytest.raises(UserError, match="finished a data set there, so that v1 is not taken"):
        commit_files(folders.place, committed)
    # It slept after its exchange.
    copy_beside(locate(str(folders.output)), 1, committed.copies, str(folders.temp))
    assert folders.files() == before


def test_what_records_list_and_the_manifest_does_not_is_removed_and_nothing_else(
    folders: Folders, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    commit(folders)
    base = hashlib.sha256((folders.output / "dataset.json").read_bytes()).hexdigest()
    later = Folders(tmp_path, version=2, base=base)
    mine, target = folders.version / "mine.txt", tmp_path / "target"
    mine.write_text("mine")
    target.write_text("mine, too")
    # A version of a run that is at work, or was stopped.
    unfinished = folders.output / "v3" / "_files.json"
    unfinished.parent.mkdir()
    unfinished.write_text("[]")
    commit(later)
    assert CONTENTS_OF_LATER.items() <= later.files().items()
    assert {name for name in later.files() if name.startswith("v1/")} == {"v1/mine.txt"}
    assert "mine.txt stays: it is not a file of ours" in caplog.text
    assert unfinished.exists()
    assert not tidy(locate(str(later.output)))
    # Not through a link, whatever a record lists.
    mine.unlink()
    write_record(locate(str(folders.version)), ["link/target"])
    (folders.version / "link").symlink_to(tmp_path)
    tidy(locate(str(later.output)))
    assert target.read_text() == "mine, too"
