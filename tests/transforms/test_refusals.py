"""Why a run is refused once its stages are done."""

from pathlib import Path

import pytest

from corpusmill.dataset.manifest_entries import SourceFile
from corpusmill.errors import UserError
from transforms.elements import LinesFile
from transforms.refusals import check_rejects, explain_emptiness


@pytest.mark.parametrize(
    ("allowed", "rejects", "is_allowed"),
    [
        (None, 100, True), (0.0, 0, True), (0.0, 1, False), (1.0, 1, True), (1.0, 2, False),
        (0.05, 5, True), (0.05, 6, False), (100.0, 100, True),
    ],
)  # fmt: skip
def test_rejects_are_allowed_by_number_or_by_share(
    allowed: float | None, rejects: int, is_allowed: bool
) -> None:
    counts = {"read.rejects": rejects, "read.lines": 100}
    if is_allowed:
        check_rejects(counts, allowed)
        return
    are = "is a reject" if rejects == 1 else "are rejects"
    message = f"{rejects} of 100 input lines and rows {are}"
    with pytest.raises(UserError, match=message) as caught:
        check_rejects(counts, allowed)
    assert caught.value.value == f"--max-rejects {allowed:g}"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b'"offset": 7, "length": 1, "detail": "no"', "byte 7 of a: x (no)"),
        (b'"offset": 0, "length": 1, "detail": "no", "row": 9', "row 9 of a: x (no)"),
        (b'"number": 2, "bytes": 2, "offsets": [7, 3], "lengths": [1, 1]', "byte 7 of a: x"),
    ],
)  # fmt: skip
def test_the_first_reject_is_told(line: bytes, told: str, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("later", "first")]
    paths[1].write_bytes(b'{"file": "a", "reason": "x", ' + line + b"}\n")
    files = [LinesFile(2 - n, str(path), 1, 9, "") for n, path in enumerate(paths)]
    with pytest.raises(UserError) as caught:
        check_rejects({"read.rejects": 2, "read.lines": 100}, 0, rejects=files)
    assert caught.value.cause.endswith(f"; the first is at {told}")


@pytest.mark.parametrize(
    ("allowed", "message"),
    [
        (0.4, "49 of 100 input bytes are rejects"),
        (0.5, "2 of 3 input files could not be read to their end"),
        (0.7, "290 of 300 input stored bytes could not be read to their end"),
        (0.97, ""),
        (3.0, ""),
        (2.0, "3 of 1,000 input lines and rows are rejects"),
    ],
)
def test_a_share_of_rejects_is_one_of_records_bytes_and_files(allowed: float, message: str) -> None:
    counts = {
        "read.rejects": 3, "read.lines": 1000, "read.bytes": 100, "read.rejected_bytes": 49,
        "read.unfinished_files": 2,
    }  # fmt: skip
    unread = 150
    if message.startswith("49 of 100"):
        del counts["read.unfinished_files"]
        unread = 0
    if message.startswith("2 of 3"):
        unread = 90
    files = [SourceFile("a", 150, unread=unread or None), SourceFile("b", 140, unread=140)]
    if unread < 150:
        files[1] = SourceFile("b", 140)
    files.append(SourceFile("c", 10))
    if not message:
        check_rejects(counts, allowed, files)
        return
    with pytest.raises(UserError, match=message):
        check_rejects(counts, allowed, files)


@pytest.mark.parametrize(
    ("counts", "parts"),
    [
        ({"read.lines": 9}, ("9 lines", "only blank lines and titles")),
        ({"read.lines": 9, "read.rejects": 9}, ("9 are rejects", "--input-format")),
        ({"read.lines": 9, "read.documents": 2}, ("2 documents with 0 tokens", "a tokenizer for")),
        (
            {"read.documents": 2, "filter.dropped": 2, "filter.dropped.too-short": 2},
            ("All documents were dropped (too-short 2)", "check the filters"),
        ),
        (
            {"read.documents": 2, "tokenize.control_characters": 9},
            ("control characters", "UTF-8"),
        ),
        ({"read.documents": 2, "tokenize.tokens": 7}, ("7 tokens", "too short", "--sentence-rule")),
    ],
)
def test_a_data_set_without_an_example_is_explained(
    counts: dict[str, int], parts: tuple[str, ...]
) -> None:
    message = str(explain_emptiness("out", counts))
    assert all(part in message for part in ("--output out", "no example was built", *parts))
