"""Why a run is refused once its stages are done."""

from collections.abc import Sequence
from pathlib import Path

from corpusmill.dataset.manifest_entries import SourceFile
from corpusmill.errors import UserError
from transforms.elements import LinesFile
from transforms.refusals import check_rejects, explain_emptiness


def refuse(
    counts: dict[str, int],
    allowed: float | None,
    files: Sequence[SourceFile] = (),
    rejects: Sequence[LinesFile] = (),
) -> str:
    """Return the cause for which rejects are refused; nothing if they are allowed."""
    try:
        check_rejects(counts, allowed, files, rejects)
    except UserError as error:
        refusal = error
    else:
        return ""
    assert refusal.value == f"--max-rejects {allowed:g}"
    return refusal.cause


def test_rejects_are_allowed_by_number_or_by_share() -> None:
    allowed_numbers = ((None, 100), (0.0, 0), (1.0, 1), (0.05, 5), (100.0, 100))
    for allowed, rejects in allowed_numbers:
        assert refuse({"read.rejects": rejects, "read.lines": 100}, allowed) == ""
    for allowed, rejects in ((0.0, 1), (1.0, 2), (0.05, 6)):
        are = "is a reject" if rejects == 1 else "are rejects"
        cause = f"{rejects} of 100 input lines and rows {are}"
        assert refuse({"read.rejects": rejects, "read.lines": 100}, allowed) == cause


def test_the_first_reject_is_told(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("later", "first")]
    files = [LinesFile(2 - n, str(path), 1, 9, "") for n, path in enumerate(paths)]
    for line, told in {
        b'"offset": 7, "length": 1, "detail": "no"': "byte 7 of a: x (no)",
        b'"offset": 0, "length": 1, "detail": "no", "row": 9': "row 9 of a: x (no)",
        b'"number": 2, "bytes": 2, "offsets": [7, 3], "lengths": [1, 1]': "byte 7 of a: x",
    }.items():
        paths[1].write_bytes(b'{"file": "a", "reason": "x", ' + line + b"}\n")
        cause = refuse({"read.rejects": 2, "read.lines": 100}, 0, rejects=files)
        assert cause.endswith(f"; the first is at {told}")


def test_a_share_of_rejects_is_one_of_records_bytes_and_files() -> None:
    counts = {
        "read.rejects": 3, "read.lines": 1000, "read.bytes": 100, "read.rejected_bytes": 49,
    }  # fmt: skip
    unfinished = counts | {"read.unfinished_files": 2}

    def files(first: int | None, second: int | None) -> list[SourceFile]:
        sizes = (("a", 150, first), ("b", 140, second), ("c", 10, None))
        return [SourceFile(name, size, unread=unread) for name, size, unread in sizes]

    cause = "49 of 100 input bytes are rejects"
    assert refuse(counts, 0.4, files(None, None)) == cause
    cause = "2 of 3 input files could not be read to their end"
    assert refuse(unfinished, 0.5, files(90, None)) == cause
    for allowed, cause in {
        0.7: "290 of 300 input stored bytes could not be read to their end", 0.97: "", 3.0: "",
        2.0: "3 of 1,000 input lines and rows are rejects",
    }.items():  # fmt: skip
        assert refuse(unfinished, allowed, files(150, 140)) == cause


def test_a_data_set_without_an_example_is_explained() -> None:
    cases: tuple[tuple[dict[str, int], tuple[str, ...]], ...] = (
        ({"read.lines": 9}, ("9 lines", "only blank lines and titles")),
        ({"read.lines": 9, "read.rejects": 9}, ("9 are rejects", "--input-format")),
        ({"read.lines": 9, "read.documents": 2}, ("2 documents with 0 tokens", "a tokenizer for")),
        (
            {"read.documents": 2, "filter.dropped": 2, "filter.dropped.too-short": 2},
            ("All documents were dropped (too-short 2)", "check the filters"),
        ),
        ({"read.documents": 2, "tokenize.control_characters": 9}, ("control characters", "UTF-8")),
        ({"read.documents": 2, "tokenize.tokens": 7}, ("7 tokens", "too short", "--sentence-rule")),
    )
    for counts, parts in cases:
        message = str(explain_emptiness("out", counts))
        for part in ("--output out", "no example was built", *parts):
            assert part in message
