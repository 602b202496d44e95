"""The commit, with shards and counts made by hand."""

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.metrics.metric import Lineage
from apache_beam.runners.runner import PipelineResult

from corpusmill.corpus.batches import Reject
from corpusmill.corpus.reject_lines import to_line
from corpusmill.dataset.accounting import Expected
from corpusmill.dataset.manifest_entries import SourceFile
from corpusmill.dataset.manifest_json import to_json
from corpusmill.layout.placement import Layout
from tests.tools.manifests import small_manifest
from transforms.commit.commit import CommitDataset
from transforms.commit.contents import CommitOptions, Decision
from transforms.commit.rename import Move, publish
from transforms.elements import DOCUMENTS, SPANS, LinesFile, ReadRange, WrittenFile
from transforms.recovery import CLAIM, COMMITTED, FAILED, Claim, Workplace, read_claim, take_claim
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
CONTENTS = {name: content for name, (content, _, _) in SHARDS.items()}
# How a format asks for shards of a split to be joined.
JOINED: dict[str, Any] = {
    "suffixes": (".bin", ".lengths"),
    "joined": {"train": "train", "validation": "val"},
}


def refused(offset: int, reason: str) -> bytes:
    """The line of a reject."""
    return to_line(Reject("a.txt", offset, 1, reason, ""))


class Folders:
    """An output folder, and a temporary one with everything that a commit needs.

    Args:
        root: folder of both.
        shards: {name: (content, rows, tokens)} in the order of their numbers.
    """

    def __init__(self, root: Path, shards: dict[str, tuple[bytes, int, int]] = SHARDS) -> None:
        self.output, self.temp = root / "out", root / "out" / "_temporary-1"
        self.temp.mkdir(parents=True)
        (self.temp / "tokenizer.json").write_bytes(TOKENIZER_JSON)
        self.shards = [
            self._write_part("shard", (number, 0), *shard)
            for number, shard in enumerate(shards.values())
        ]
        self.rejects = [self._write_rejects(2, "later"), self._write_rejects(0, "first")]
        self.set_stale()
        take_claim(str(self.output), Claim("mine", str(self.temp), "", 0, 0.0))
        self.options = CommitOptions(
            Workplace(str(self.temp), str(self.output), "mine"), str(self.temp / "tokenizer.json"),
            str(self.temp / "run.json"), (".parquet",), Expected(3, 100, len(shards), 5), None,
        )  # fmt: skip

    def set_stale(self, *names: str, **entries: Any) -> None:
        record = {"header": HEADER, "stale": names, **entries}
        (self.temp / "run.json").write_bytes(seal(json.dumps(record).encode()))

    def write_companions(self) -> list[WrittenFile]:
        """Write the second file of each shard."""
        return [
            self._write_part("companion", (number, 1), content, 0, 0)
            for number, content in enumerate((b"1,", b"2,", b"3,"))
        ]

    def write_provenance(self) -> list[WrittenFile]:
        """Write the spans and the documents of each shard."""
        return [
            self._write_part(name, (number, part), b"%d" % number, 0, 0)
            for name, part in (("spans", SPANS), ("documents", DOCUMENTS))
            for number in range(len(self.shards))
        ]

    def _write_part(
        self, name: str, place: tuple[int, int], content: bytes, rows: int, tokens: int
    ) -> WrittenFile:
        path = self.temp / f"{name}-{place[0]}"
        path.write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        return WrittenFile(*place, str(path), rows, tokens, len(content), digest)

    def _write_rejects(self, number: int, line: str) -> LinesFile:
        path = self.temp / f"rejects-{number}"
        content = refused(number, line)
        path.write_bytes(content)
        return LinesFile(number, str(path), 1, len(content), hashlib.sha256(content).hexdigest())

    def files(self) -> dict[str, bytes]:
        contents = {}
        for folder, folders, names in os.walk(self.output):  # many times as fast as `rglob`
            if self.temp.name in folders:
                folders.remove(self.temp.name)
            for path in (Path(folder, name) for name in names if name != CLAIM):
                contents[str(path.relative_to(self.output))] = path.read_bytes()
        return contents


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)


def commit(folders: Folders, *, layout: Layout = LAYOUT, **changes: Any) -> PipelineResult:
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
        _ = written | CommitDataset(Decision(options, layout), counted, refused, ranges)
    return pipeline.result


def test_shards_of_a_split_are_joined_where_the_format_asks_for_it(folders: Folders) -> None:
    shards = [*reversed(folders.shards), *folders.write_companions()]
    for _ in range(2):  # as after a failure at its end
        commit(folders, shards=shards, **JOINED)
    files = folders.files()
    contents = {"train.bin": b"firstthe second", "val.bin": b"third"}
    contents |= {"train.lengths": b"1,2,", "val.lengths": b"3,"}
    assert contents.items() <= files.items()
    splits = check_entries(files)["splits"]
    [train] = splits["train"]["shards"]
    assert (train["file"], train["rows"], train["tokens"]) == ("train.bin", 7, 70)
    assert [shard["file"] for shard in splits["validation"]["shards"]] == ["val.bin"]


def check_entries(files: dict[str, bytes]) -> dict[str, Any]:
    """Check that a manifest lists every file, and return it."""
    manifest: dict[str, Any] = json.loads(files["dataset.json"])
    shards = [shard for split in manifest["splits"].values() for shard in split["shards"]]
    entries = {entry["file"]: entry for entry in [*manifest["files"], *shards]}
    assert entries.keys() == files.keys() - {"dataset.json", "_SUCCESS"}
    for name, entry in entries.items():
        assert entry["bytes"] == len(files[name])
        assert entry["sha256"] == hashlib.sha256(files[name]).hexdigest()
    return manifest


def test_a_commit_gives_every_file_its_name_and_vouches_for_it(folders: Folders) -> None:
    commit(folders)
    files = folders.files()
    assert CONTENTS.items() <= files.items()
    assert files["rejects/rejects.jsonl"] == refused(0, "first") + refused(2, "later")
    assert files["_SUCCESS"].decode().strip() == hashlib.sha256(files["dataset.json"]).hexdigest()
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


def test_a_commit_that_is_done_again_changes_nothing_and_names_its_sink(folders: Folders) -> None:
    states = []
    for _ in range(2):
        [sink] = Lineage.query(commit(folders).metrics(), Lineage.SINK)
        assert sink == f"filesystem:localhost.{folders.output}"
        states.append(folders.files())
        assert not folders.temp.exists()
        assert not (folders.output / CLAIM).exists()
    assert states[0] == states[1]


def test_a_run_whose_folder_another_one_took_commits_nothing(folders: Folders) -> None:
    take_claim(str(folders.output), Claim("theirs", "", "host", 7, 0.0), over="mine")
    commit(folders)
    assert not folders.files()
    assert folders.temp.exists()


def test_a_commit_that_a_command_waits_for_leaves_folder_and_claim_to_it(folders: Folders) -> None:
    commit(folders, is_awaited=True)
    before = folders.files()
    assert folders.temp.exists()
    claim = read_claim(str(folders.output))
    assert claim
    assert claim.ended == COMMITTED
    commit(folders, is_awaited=True)
    assert folders.files() == before


def test_a_file_that_is_not_ours_stops_the_commit_and_stays(folders: Folders) -> None:
    name = next(iter(SHARDS))
    (folders.output / name).write_text("mine")
    with pytest.raises(Exception, match=f"it has a file {name} that is not ours"):
        commit(folders)
    assert folders.files() == {name: b"mine"}


def test_a_shard_that_is_at_neither_place_stops_the_commit(folders: Folders) -> None:
    Path(folders.shards[1].path).unlink()
    with pytest.raises(Exception, match="is gone, and"):
        commit(folders)
    assert "_SUCCESS" not in folders.files()


def test_a_count_that_does_not_agree_stops_the_commit(folders: Folders) -> None:
    with pytest.raises(Exception, match="3 documents tokenized, but 4 documents read"):
        commit(folders, counts={"read.documents": 4})
    assert not folders.files()


def test_a_lost_shard_stops_the_commit(folders: Folders) -> None:
    with pytest.raises(Exception, match="2 shards written, but 3 shards planned"):
        commit(folders, shards=[shard for shard in folders.shards if shard.shard != 1])
    assert not folders.files()


def test_lost_rejects_stop_the_commit(folders: Folders) -> None:
    with pytest.raises(Exception, match="1 rejects written, but 2 rejects found"):
        commit(folders, rejects=folders.rejects[:1])
    assert not folders.files()


def test_too_many_rejects_stop_the_commit_and_no_engine_tries_it_again(folders: Folders) -> None:
    with pytest.raises(Exception, match="2 of 9 input lines and rows are rejects"):
        commit(folders, max_rejects=1.0)
    commit(folders, max_rejects=1.0)
    assert not folders.files()
    claim = read_claim(str(folders.output))
    assert claim
    assert claim.ended == FAILED
    assert claim.mistake
    assert claim.mistake[0] == "--max-rejects 1"


def test_no_rejects_make_no_folder(folders: Folders) -> None:
    commit(folders, rejects=[], counts={"read.rejects": 0})
    assert not (folders.output / "rejects").exists()


def test_the_files_of_an_earlier_data_set_are_replaced(folders: Folders) -> None:
    shards = ("train-00000-of-00002.parquet", "train-00003-of-00004.parquet")
    stale = ("_SUCCESS", "dataset.json", *shards)
    for name in stale:
        (folders.output / name).write_text("old")
    folders.set_stale(*stale)
    commit(folders)
    files = folders.files()
    assert "train-00003-of-00004.parquet" not in files
    assert b"old" not in files.values()
    assert set(SHARDS) < set(files)


def test_a_file_is_moved_once(tmp_path: Path) -> None:
    source, destination = tmp_path / "source", tmp_path / "destination"
    source.write_text("new")
    destination.write_text("older")
    publish([Move(str(source), str(destination), 3)], "/nowhere")
    publish([Move(str(source), str(destination), 3)], "/nowhere")
    assert destination.read_text() == "new"
    with pytest.raises(RuntimeError, match="does not hold the same file"):
        publish([Move(str(source), str(destination), 4)], "/nowhere")
