import bz2
import gzip
import io
import json
import lzma
import os
import tarfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.input_formats import judge_name, resolve_format
from corpusmill.dataset.accounting import split_files
from corpusmill.errors import UserError
from tests.tools.corpus_files import read_documents
from tests.tools.knobs import knobs
from tests.tools.memory import memory_of
from transforms.corpus.plan import PlanTasks, read_task, write_plan
from transforms.corpus.read import TaskReader
from transforms.elements import PlannedRange, cut_ranges, group_ranges
from transforms.recovery import Workplace
from transforms.shuffle.trees import join_rejects
from transforms.tally import Tally
from transforms.testing import collect, local_pipeline


def read(
    files: list[Path], range_bytes: int, temp: Path, splittable: bool = True,
    task_bytes: int = 200_000, options: DocumentOptions | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Return the documents, rejects and counts of some files, read task by task."""
    sizes = [file.stat().st_size for file in files]
    parts = [
        PlannedRange(str(file), file.name, 0, 0, size if splittable else None, size)
        for file, size in zip(files, sizes, strict=True)
    ]
    tasks = group_ranges(cut_ranges(parts, range_bytes), sizes, task_bytes)
    plan = write_plan(str(temp / "plan"), tasks)
    with local_pipeline() as pipeline:
        planned = collect(pipeline | PlanTasks(plan, Workplace("")))
    tally = Tally()
    documents: list[Any] = []
    rejects: list[Any] = []
    for task in planned:
        reader = TaskReader(options or DocumentOptions(), Workplace(str(temp)), tally)
        documents += reader.read(read_task(task))
        rejects += reader.rejects(task.number)
    return {"documents": documents, "rejects": rejects, "counts": dict(tally.counts())}


def rows(batches: list[Any]) -> list[dict[str, Any]]:
    return sorted(
        (row for batch in batches for row in batch.to_pylist()), key=lambda row: row["document"]
    )


@pytest.mark.parametrize("range_bytes", [10**9, 7777, 500])
def test_ranges_of_any_size_give_the_documents_of_the_whole_file(
    sample: Path, tmp_path: Path, range_bytes: int
) -> None:
    whole = read_documents(sample)
    result = read([sample], range_bytes, tmp_path)
    assert rows(result["documents"]) == rows(whole)
    counts = result["counts"]
    assert counts["read.ranges"] == -(-sample.stat().st_size // range_bytes)
    assert counts["read.bytes"] == sample.stat().st_size
    assert counts["read.documents"] == len(rows(whole)) == 105
    assert result["rejects"] == []


def test_the_documents_of_a_file_carry_its_place_in_the_list(tmp_path: Path) -> None:
    files = [tmp_path / "a", tmp_path / "b"]
    for file in files:
        file.write_text("One .\n\nTwo .\n")
    result = rows(read(files, 4, tmp_path)["documents"])
    assert [row["document"] for row in result] == [0, 7, 1 << 40, (1 << 40) + 7]


def test_values_of_kept_fields_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    rows = [{"text": "a", "n": 0, "m": None}, {"text": "b", "n": None}, {"text": 3, "o": 1}]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = DocumentOptions("json-lines", keep_fields=("n", "m", "o"))
    tally = Tally()
    reader = TaskReader(options, Workplace(str(tmp_path)), tally)
    ranges = [PlannedRange(str(file), file.name, 0, 0, file.stat().st_size)]
    list(reader.read(ranges))
    values = {name: number for name, number in tally.counts() if "kept" in name}
    assert values == {f"read.kept_values.{n}": number for n, number in enumerate((1, 0, 0))}


def test_rejects_are_lines_of_json_in_a_file_of_the_task(tmp_path: Path) -> None:
    file = tmp_path / "text"
    file.write_bytes(b"Fine .\nNot \xff fine .\nFine again .\n")
    result = read([file], 10**9, tmp_path)
    [rejects] = result["rejects"]
    assert rejects.lines == result["counts"]["read.rejects"] == 1
    [line] = Path(rejects.path).read_text().splitlines()
    reject = json.loads(line)
    detail = reject.pop("detail")
    assert reject == {"file": "text", "offset": 7, "length": 12, "reason": "invalid-utf-8"}
    assert "0xff" in detail
    [document] = rows(result["documents"])
    assert document["sentences"] == ["Fine .", "Fine again ."]


@knobs(told_rejects=20, reject_window=600)
def test_joined_rejects_are_the_same_bytes_however_files_are_cut(tmp_path: Path) -> None:
    files = [tmp_path / "a", tmp_path / "b"]
    for file in files:
        file.write_bytes(b"".join(b"\xff%d words\n\n" % n for n in range(100, 300)))

    def join(range_bytes: int) -> bytes:
        result = read(files, range_bytes, tmp_path, task_bytes=1)
        [joined] = join_rejects(0, result["rejects"], Workplace(str(tmp_path)))
        assert joined.lines == result["counts"]["read.rejects"] == 2 * 200
        return Path(joined.path).read_bytes()

    whole = join(10**9)
    # A line takes 12 bytes, so that four windows of 50 lines are the file, and none is told whole.
    assert len(whole.splitlines()) == 2 * (20 + 4)
    assert join(101) == join(1000) == whole


@pytest.mark.parametrize(("step", "number"), [(599, 50), (600, 0)])
def test_damage_costs_the_text_that_is_decompressed_at_once(
    tmp_path: Path, step: int, number: int
) -> None:
    # 600 bytes, 12 of them a document.
    content = bytearray(gzip.compress(b"".join(b"%4d words\n\n" % n for n in range(50))))
    content[-8] ^= 1  # the checksum
    (tmp_path / "text.gz").write_bytes(content)
    with knobs(text_step=step):
        result = read([tmp_path / "text.gz"], 9, tmp_path, False)
    assert len(rows(result["documents"])) == number


def test_a_damaged_file_gives_what_stood_before_the_damage(tmp_path: Path) -> None:
    text = "".join(f"This is line {number} .\n\n" for number in range(20_000)).encode()
    file = tmp_path / "text.gz"
    file.write_bytes(gzip.compress(text)[:-5000])
    result = read([file], 10**9, tmp_path, splittable=False)
    documents = rows(result["documents"])
    assert 1000 < len(documents) < 20_000
    first = [row["sentences"] for row in documents[:2]]
    assert first == [["This is line 0 ."], ["This is line 1 ."]]
    [rejects] = result["rejects"]
    [line] = Path(rejects.path).read_text().splitlines()
    assert json.loads(line)["reason"] == "damaged-compression"
    assert result["counts"]["read.unfinished_files"] == 1


def _archive(content: bytes, mode: Literal["w:", "w:gz"] = "w:") -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode=mode) as archive:
        for number in range(10):
            member = tarfile.TarInfo(f"{number}.txt")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return sink.getvalue()


def _table(content: bytes) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": content.decode().split("\n\n")}), sink)
    return sink.getvalue()


# The header of the fourth member of 9,000 bytes.
_HEADER = 3 * (512 + 9216)
_WRITERS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": partial(pa.compress, codec="zstd", asbytes=True),
    "tgz": partial(_archive, mode="w:gz"),
    "tar": _archive,
    "parquet": _table,
}


@pytest.mark.parametrize("kind", _WRITERS)
def test_all_stored_bytes_of_a_file_that_ends_early_count_as_unread(
    tmp_path: Path, kind: str
) -> None:
    content = _WRITERS[kind]("".join(f"Line {number} .\n\n" for number in range(2000)).encode())
    files = [tmp_path / f"{number}.{kind}" for number in range(3)]
    for number, file in enumerate(files):
        file.write_bytes(content[: len(content) // 2] if number == 1 else content)
    options = resolve_format(
        DocumentOptions(), {file.name: judge_name(file.name) for file in files}
    )
    counts = read(files, 10**9, tmp_path, splittable=False, options=options)["counts"]
    assert counts["read.unfinished_files"] == 1
    assert split_files(counts)[1] == {1: len(content) // 2}


def test_only_what_follows_known_damage_counts_as_unread(tmp_path: Path) -> None:
    content = bytearray(_archive(b"A line .\n" * 1000))
    content[_HEADER : _HEADER + 512] = 512 * b"?"
    (tmp_path / "text.tar").write_bytes(content)
    options = resolve_format(DocumentOptions(), {"text.tar": judge_name("text.tar")})
    counts = read([tmp_path / "text.tar"], 10**9, tmp_path, False, options=options)["counts"]
    [unread] = split_files(counts)[1].values()
    assert len(content) - _HEADER - 512 <= unread <= len(content) - _HEADER
    member = gzip.compress(b"A line .\n" * 10**5)
    (tmp_path / "text.gz").write_bytes(member + b"no member" * 10**4)
    with knobs(compressed_step=1000):
        counts = read([tmp_path / "text.gz"], 10**9, tmp_path, False)["counts"]
    [unread] = split_files(counts)[1].values()
    assert 9 * 10**4 - 2000 <= unread <= 9 * 10**4


def test_a_plan_without_ranges_gives_nothing(tmp_path: Path) -> None:
    assert read([], 1, tmp_path) == {"documents": [], "rejects": [], "counts": {}}


# Reads a small compressed file as a task does, after another that compiles what it needs.
READ = """
import gzip, io, sys, tempfile
from pathlib import Path
from corpusmill.corpus.document_options import DocumentOptions
from transforms.corpus.read import TaskReader
from transforms.elements import PlannedRange
from transforms.recovery import Workplace
from transforms.tally import Tally

folder = Path(tempfile.mkdtemp())

def read(line, number, options):
    path, data = folder / "text.gz", io.BytesIO()
    with gzip.open(data, "wb", 1) as stream:
        for _ in range(number >> 10):
            stream.write(line * 2**10)
    path.write_bytes(data.getvalue())
    tally = Tally()
    reader = TaskReader(options, Workplace(str(folder)), tally)
    for batch in reader.read([PlannedRange(str(path), "text.gz", 0, 0, None)]):
        pass
    return dict(tally.counts()), list(reader.rejects(0))
"""


def options_of(input_format: str) -> str:
    return f'DocumentOptions(input_format="{input_format}", text_field="z")'


def test_any_number_of_blank_lines_takes_little_memory() -> None:
    before, measured = READ, ""
    for input_format, lines in (("text", 2**22), ("csv", 2**19)):
        options = options_of(input_format)
        before += f"read(b'a\\n', 2**10, {options})\n"
        measured += f"counts, _ = read(b'\\n', {lines}, {options})\n"
        measured += f"assert counts['read.blank_lines'] == {lines}, counts\n"
    assert memory_of(before, measured) < 150 * 2**20


def test_any_number_of_rejects_takes_little_memory() -> None:
    before, measured = READ, ""
    for input_format, line in (("text", b"\xff\n"), ("json-lines", b"{}\n")):
        options = options_of(input_format)
        before += f"read({line!r}, 2**10, {options})\n"
        measured += f"counts, [rejects] = read({line!r}, 2**17, {options})\n"
        measured += "assert rejects.lines == counts['read.rejects'] == 2**17, counts\n"
    assert memory_of(before, measured) < 60 * 2**20


def _plan(file: Path) -> PlannedRange:
    status = file.stat()
    return PlannedRange(str(file), file.name, 0, 0, None, status.st_size, status.st_mtime)


def _append(file: Path) -> None:
    with file.open("a") as stream:
        stream.write("c\n")


def _exchange_for(make: Callable[[Path], None]) -> Callable[[Path], None]:
    def exchange(file: Path) -> None:
        file.unlink()
        make(file)

    return exchange


def _exchange_folder(file: Path) -> None:
    file.unlink()
    file.parent.rmdir()
    file.parent.touch()


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (_append, ""),
        (lambda file: file.write_text("a\n"), "it ends before 4 bytes"),
        (lambda file: os.utime(file, (1, 1)), "it was written after its listing, with 4 bytes"),
        (Path.unlink, "it is not there any more; it had 4 bytes"),
        (_exchange_folder, "it is not there any more; it had 4 bytes"),
        (_exchange_for(Path.mkdir), "it is not a regular file any more; it had 4 bytes"),
        (_exchange_for(os.mkfifo), "it is not a regular file any more; it had 4 bytes"),
    ],
    ids=["grows", "shrinks", "replaced", "removed", "folder-removed", "a-folder", "a-pipe"],
)
def test_a_file_is_read_as_it_was_listed(
    change: Callable[[Path], None], cause: str, tmp_path: Path
) -> None:
    file = tmp_path / "texts" / "a.txt"
    file.parent.mkdir()
    file.write_text("a\nb\n")
    planned = _plan(file)
    change(file)
    reader = TaskReader(
        DocumentOptions(document_rule="blank-lines"), Workplace(str(tmp_path)), Tally()
    )
    if not cause:
        [batch] = reader.read([planned])
        assert batch.column("sentences").to_pylist() == [["a", "b"]]
        return
    with pytest.raises(UserError, match=cause) as error:
        list(reader.read([planned]))
    assert str(file) in str(error.value)
