"""Data sets are joined to one."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from corpusmill.location import locate
from corpusmill.reading.data_set import DataSet
from corpusmill.reading.load.loader import Loader, make_batches
from corpusmill.verification.check_data_set import verify
from tests.pipeline.test_edit_jobs import WAYS, drop, read_rows, subset
from tests.tools.growing import Growing
from tests.tools.jobs import TWO_WORKERS, digests, run_here
from tests.tools.origins import check_provenance, list_documents
from tests.tools.small_limits import TINY, flags_of

_SHARE = ("--validation-share", "0.2")


@pytest.fixture(scope="module")
def parts(
    halves: tuple[Path, Path], wordpiece: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Growing, Growing]:
    """A data set of each half."""
    made = [
        Growing(tmp_path_factory.mktemp(name) / "out", wordpiece, _SHARE)
        for name in ("first", "second")
    ]
    for growing, half in zip(made, halves, strict=True):
        growing.build(half)
    return made[0], made[1]


def merge(*data_sets: Growing | Path, output: Path, flags: Any = (), **end: Any) -> Any:
    folders = [one if isinstance(one, Path) else one.output for one in data_sets]
    return run_here("merge", *folders, "--output", output, *flags, **end)


def problems(output: Path) -> list[Any]:
    return verify(locate(str(output)))


# Files are copied as they are, so that it matters how they are named and not what is in them.
_OF_FILES = (
    "bert in the order of the corpus", "bert in bins", "bert for Google's trainer",
    "ernie for its trainer", "gpt for Megatron",
)  # fmt: skip


@pytest.mark.parametrize("way", _OF_FILES)
def test_every_kind_of_files(
    way: str, halves: tuple[Path, Path], wordpiece: Path, tmp_path: Path
) -> None:
    objective, flags = WAYS[way]
    parts = []
    for number, half in enumerate(halves):
        part = Growing(tmp_path / str(number), wordpiece, (*_SHARE, *flags), objective)
        part.build(half)
        parts.append(part)
    files = [part.files() for part in parts]
    output = tmp_path / "out"
    merge(*parts, output=output)
    assert [part.files() for part in parts] == files
    assert problems(output) == []
    check_provenance(output, *halves)
    joined = Growing(output, wordpiece).manifest()
    for split in joined.splits:
        sizes = [part.manifest().splits[split].rows for part in parts]
        assert joined.splits[split].rows == sum(sizes)
    for name, count in joined.counts.items():
        assert count == sum(part.manifest().counts.get(name, 0) for part in parts)
    # Shards and provenance are those of the parts, byte for byte.
    copied = set(digests(output).values())
    kept = ("train", "validation", "provenance", "rejects")
    for own in files:
        lists = {name for name in own if name.endswith("_filelist")}  # of ERNIE's trainer
        assert copied >= {own[name] for name in own if name.startswith(kept) and name not in lists}


def test_parts_are_read_as_before(parts: tuple[Growing, Growing], tmp_path: Path) -> None:
    output = tmp_path / "out"
    merge(*parts, output=output)
    for split in ("train", "validation"):
        whole = DataSet(output, split)
        assert whole.first_generations(1).digest == DataSet(parts[0].output, split).digest
        assert len(whole) == sum(len(DataSet(part.output, split)) for part in parts)
    loader = Loader(make_batches(DataSet(parts[0].output), 8, seed=3))
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    resumed = Loader(make_batches(DataSet(output).first_generations(1), 8, seed=3))
    resumed.load_state_dict(state)
    rest = [batch["input_ids"].tolist() for batch in batches]
    assert [batch["input_ids"].tolist() for batch in resumed] == rest


def test_several_with_several_generations_and_removals(
    parts: tuple[Growing, Growing], halves: tuple[Path, Path], wordpiece: Path, tmp_path: Path
) -> None:
    grown = Growing(tmp_path / "grown", wordpiece, _SHARE)
    shutil.copytree(parts[0].output, grown.output)
    grown.append(halves[1])
    drop(grown.output, [one.document for one in list_documents(grown.output)][::9])
    output = tmp_path / "out"
    merge(parts[1], grown, parts[0], output=output, flags=("--existing", "allow"))
    assert problems(output) == []
    check_provenance(output, halves[1], *halves, halves[0])
    generations = Growing(output, wordpiece).manifest().provenance
    assert generations is not None
    assert [one.tag for one in generations.generations] == ["", "more1", "more2", "more3"]
    # The result can be changed as any other.
    documents = [one.document for one in list_documents(output)]
    drop(output, documents[::7])
    assert problems(output) == []
    left = [one.document for one in list_documents(output)]
    assert left == sorted({*documents} - {*documents[::7]})
    check_provenance(output, halves[1], *halves, halves[0])
    subset(output, left[::2], tmp_path / "half")
    assert problems(tmp_path / "half") == []
    assert [one.document for one in list_documents(tmp_path / "half")] == left[::2]
    Growing(output, wordpiece, _SHARE).append(*halves, flags=("--existing", "allow"))
    assert problems(output) == []
    check_provenance(output, halves[1], *halves, halves[0], *halves)
    merge(output, tmp_path / "half", output=tmp_path / "all", flags=("--existing", "allow"))
    assert problems(tmp_path / "all") == []
    check_provenance(tmp_path / "all", *halves)


def test_documents_that_an_earlier_part_holds(
    parts: tuple[Growing, Growing], halves: tuple[Path, Path], wordpiece: Path, tmp_path: Path
) -> None:
    both = Growing(tmp_path / "both", wordpiece, _SHARE)
    both.build(*halves)
    known = len(list_documents(parts[0].output))
    output = tmp_path / "out"
    refusal = (f"the text of {known} of its documents", "--existing skip", str(both.output))
    merge(parts[0], both, output=output, refused=refusal)
    assert not output.exists()
    printed = merge(parts[0], both, output=output, flags=("--existing", "skip")).output
    assert f"{known} documents were left out" in printed
    assert problems(output) == []
    check_provenance(output, halves[0], *halves)
    manifest = Growing(output, wordpiece).manifest()
    [removal] = manifest.removals
    assert (removal.documents, removal.is_listed) == (known, False)
    digest = [record.digest for record in list_documents(output)]
    assert len({*digest}) == len(digest)
    # What was removed from the first part does not come back either.
    removed = tmp_path / "removed"
    shutil.copytree(parts[0].output, removed)
    drop(removed, [list_documents(removed)[0].document])
    merge(removed, both, output=tmp_path / "again", flags=("--existing", "skip"))
    assert len(list_documents(tmp_path / "again")) == len(digest) - 1


def test_neither_workers_nor_thresholds_change_a_byte(
    parts: tuple[Growing, Growing], tmp_path: Path
) -> None:
    merge(*parts, output=tmp_path / "one")
    merge(*parts, output=tmp_path / "two", flags=TWO_WORKERS[:-2])
    merge(*parts, output=tmp_path / "two", flags=("--replace", *flags_of(TINY)))
    assert digests(tmp_path / "one") == digests(tmp_path / "two")
    assert read_rows(tmp_path / "one")


def test_mistakes_are_refused_before_any_work(
    parts: tuple[Growing, Growing], halves: tuple[Path, Path], wordpiece: Path, tmp_path: Path
) -> None:
    first, second = parts
    merge(first, output=tmp_path / "out", refused=("1 data set given", "two or more"))
    merge(first, second, output=second.output, refused=("it is the folder of a data set",))
    merge(first, tmp_path / "none", output=tmp_path / "out", refused=("no such folder",))
    other = Growing(tmp_path / "other", wordpiece, (*_SHARE, "--seed", "2"))
    other.build(halves[1])
    parts_of_message = ("built with other options than", "seed was 1 and is 2", "corpusmill.mix")
    merge(first, other, output=tmp_path / "out", refused=parts_of_message)
    untraced = Growing(tmp_path / "untraced", wordpiece, (*_SHARE, "--no-provenance"))
    untraced.build(halves[1])
    merge(first, untraced, output=tmp_path / "out", refused=("built without provenance",))
    assert not (tmp_path / "out").exists()
