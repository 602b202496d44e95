"""Thresholds on which bytes depend: the manifest has them, and all that continues it obeys them."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from corpusmill.dataset.manifest import SUCCESS
from corpusmill.dataset.manifest_json import seal
from corpusmill.dataset.shards import read_manifest
from corpusmill.errors import UserError
from corpusmill.location import locate
from corpusmill.verification.check_data_set import verify
from tests.tools.data_files import find_files
from tests.tools.growing import Growing
from tests.tools.jobs import build_again, digests, read_manifest_json, run_here

RECORDED = {"files.group_rows": 7, "files.built_documents": 3}
LIMITS = ("--limits", *(f"{name}={value}" for name, value in RECORDED.items()), "stages.fan_in=5")


@pytest.fixture
def lowered(halves: tuple[Path, Path], wordpiece: Path, tmp_path: Path) -> Growing:
    """A data set that was built with lower thresholds."""
    growing = Growing(tmp_path / "out", wordpiece)
    growing.build(halves[0], flags=LIMITS)
    return growing


def largest_group(folder: Path) -> int:
    """Return the rows of the largest group of all shards."""
    files = [pq.ParquetFile(path).metadata for path in find_files(folder, "*.parquet")]
    groups = (file.row_group(number) for file in files for number in range(file.num_row_groups))
    return max(int(group.num_rows) for group in groups)


def test_the_manifest_has_those_alone_on_which_bytes_depend(
    lowered: Growing, first: Growing
) -> None:
    assert read_manifest_json(lowered.output)["output"]["limits"] == RECORDED
    assert "limits" not in read_manifest_json(first.output)["output"]
    assert largest_group(lowered.output) == 7 < largest_group(first.output)
    assert verify(lowered.output) == []


def test_a_data_set_is_built_again_with_its_own(
    lowered: Growing, halves: tuple[Path, Path], tmp_path: Path
) -> None:
    again = tmp_path / "again"
    build_again(lowered.output, lowered.tokenizer, again, "--input", halves[0])
    assert digests(again) == digests(lowered.output)


def test_a_generation_has_those_of_the_data_set(
    lowered: Growing, halves: tuple[Path, Path]
) -> None:
    lowered.append(halves[1], refused=("other options", "files.group_rows"))
    lowered.append(halves[1], flags=LIMITS)
    assert largest_group(lowered.output) == 7
    assert verify(lowered.output) == []


def test_what_is_left_of_a_data_set_keeps_them(lowered: Growing) -> None:
    documents = pq.read_table(find_files(lowered.output, "provenance/documents-train-*")[0])
    chosen = [str(number) for number in documents.column("document").to_pylist()[:2]]
    run_here("drop", lowered.output, "--document", *chosen)
    assert read_manifest_json(lowered.output)["output"]["limits"] == RECORDED
    assert largest_group(lowered.output) == 7
    assert verify(lowered.output) == []


@pytest.mark.parametrize(
    "limits",
    [
        {"files.group_rows": 2**40}, {"files.group_rows": 0}, {"files.none": 3}, {"none": 3},
        {"stages.fan_in": 5}, {"files.group_rows": 8192},
    ],
    ids=str,
)  # fmt: skip
def test_a_manifest_cannot_raise_them(
    limits: dict[str, int], first: Growing, tmp_path: Path
) -> None:
    folder = first.copy_to(tmp_path / "out").output
    manifest = read_manifest_json(folder)
    manifest["output"]["limits"] = limits
    content = json.dumps(manifest).encode()
    (folder / "dataset.json").write_bytes(content)
    (folder / SUCCESS).write_bytes(seal(content))
    with pytest.raises(UserError, match=r"dataset\.json"):
        read_manifest(locate(str(folder)))
