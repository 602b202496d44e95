"""A run that is refused leaves everything as it was, and what its message advises works."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.tools.growing import Growing
from tests.tools.jobs import build, run_here
from tests.tools.moments import read_tree
from tests.tools.table_rows import check_rows, for_rows


@pytest.fixture
def texts(tmp_path: Path, halves: tuple[Path, Path]) -> dict[str, Path]:
    """Texts by what is wrong with them."""
    (tmp_path / "blank").write_text("\n\n\n")
    (tmp_path / "bad").write_bytes(halves[1].read_bytes() + b"\xff\n" * 9)
    return {
        "known": halves[0], "new": halves[1], "blank": tmp_path / "blank", "bad": tmp_path / "bad",
    }  # fmt: skip


def test_an_append_that_is_refused_leaves_the_data_set_as_it_was(
    growing: Growing, texts: dict[str, Path]
) -> None:
    before = read_tree(growing.output)

    def check(row: tuple[str, tuple[str, ...], str]) -> None:
        text, flags, part = row
        # It would be refused again, and nothing else is.
        for more in ((), ("--resume",)):
            outcome = growing.append(texts[text], flags=(*flags, *more), refused=(part,))
            assert more or "--resume" not in outcome.errors
            assert read_tree(growing.output) == before

    rows: list[tuple[str, tuple[str, ...], str]] = [
        ("known", (), "the data set holds the text of"),
        ("bad", ("--max-rejects", "0"), "are rejects"),
        ("blank", (), "no example was built"),
        ("new", ("--num-shards", "0"), "--num-shards 0"),
        ("new", ("--seed", "9"), "built with other options"),
    ]
    check_rows(rows, check)
    run_here("drop", growing.output, "--where", "document % 7 = 0")
    growing.append(texts["new"])


@for_rows(
    ("text", "flags", "part"),
    [
        ("blank", (), "no example was built"),
        ("new", ("--max-seq-length", "1"), "--max-seq-length"),
        ("new", ("--tokenizer", "missing.json"), "missing.json"),
    ],
)
@for_rows("replaces", [False, True])
def test_a_build_that_is_refused_leaves_the_folder_as_it_was(
    text: str, flags: Sequence[str], part: str, replaces: bool,
    growing: Growing, texts: dict[str, Path], tmp_path: Path,
) -> None:  # fmt: skip
    output = growing.output if replaces else tmp_path / "new" / "out"
    before = read_tree(tmp_path)
    replace = ("--replace",) * replaces
    refused = {"refused": (part,)}
    outcome = build([texts[text]], growing.tokenizer, output, *flags, *replace, **refused)
    assert "--resume" not in outcome.errors
    assert read_tree(tmp_path) == before


def test_a_build_with_too_many_rejects_goes_on_with_another_limit(
    growing: Growing, texts: dict[str, Path], tmp_path: Path
) -> None:
    output = tmp_path / "new"
    flags = ("--max-rejects", "0")
    part = "Once that is changed, the command with --resume continues from there"
    build([texts["bad"]], growing.tokenizer, output, *flags, refused=("are rejects", part))
    build([texts["bad"]], growing.tokenizer, output, "--max-rejects", "99", "--resume")
    assert not list(output.glob("_*-*"))


def test_a_removal_of_all_rows_leaves_the_data_set_as_it_was(growing: Growing) -> None:
    before = read_tree(growing.output)
    for _ in range(2):
        run_here("drop", growing.output, "--where", "document >= 0", refused=("no row would",))
        assert read_tree(growing.output) == before
