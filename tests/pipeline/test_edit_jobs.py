"""Documents are removed from a data set."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpusmill.errors import UserError
from corpusmill.reading.data_set import DataSet
from corpusmill.reading.load.loader import Loader, make_batches
from corpusmill.verification.check_data_set import verify
from tests.tools.data_files import damage_file
from tests.tools.growing import Growing, choose
from tests.tools.jobs import WORKERS, run_here
from tests.tools.knobs import SMALL_SIZES, knobs
from tests.tools.origins import check_provenance, list_documents, list_origins

_SHARE = ("--validation-share", "0.2")


@pytest.fixture(scope="module")
def whole(sample: Path, wordpiece: Path, tmp_path_factory: pytest.TempPathFactory) -> Growing:
    """A data set."""
    growing = Growing(tmp_path_factory.mktemp("whole") / "out", wordpiece, _SHARE)
    growing.build(sample)
    return growing


@pytest.fixture
def copied(whole: Growing, tmp_path: Path) -> Growing:
    """A copy of it, which may be changed."""
    return whole.copy_to(tmp_path / "out")


def drop(output: Path, documents: list[int], *flags: str | Path, **end: Any) -> Any:
    return run_here("drop", output, "--document", *map(str, documents), *flags, **end)


@pytest.fixture(scope="module")
def articles(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first twenty articles of the sample."""
    file = tmp_path_factory.mktemp("articles") / "text"
    file.write_bytes(b"".join(sample.read_bytes().splitlines(keepends=True)[:326]))
    return file


def test_only_shards_with_such_rows_are_written_again(
    sample: Path, wordpiece: Path, tmp_path: Path
) -> None:
    growing = Growing(tmp_path / "out", wordpiece, ("--num-shards", "9"), "t5")
    growing.build(sample)
    document = choose(growing.output)[0]
    touched = {one.shard for one in list_origins(growing.output) if one.document == document}
    drop(growing.output, [document])
    changed = {path.name for path in growing.output.glob("v2/**/*.parquet")}
    shards = {name for name in changed if name.startswith("train")}
    touched = {name.removeprefix("v1/") for name in touched}
    assert shards == touched != {shard.file for shard in growing.manifest().splits["train"].shards}
    assert {name for name in changed if name.startswith("spans")} == {f"spans-{n}" for n in touched}
    # Those, the documents of the document's home, and the list of what was removed.
    assert len(changed) == 2 * len(touched) + 2


@pytest.mark.parametrize(
    "flags",
    [WORKERS, ("--temp-location", "TEMPORARY", *SMALL_SIZES)],
    ids=["workers", "temporary folder and thresholds"],
)
def test_neither_workers_nor_the_temporary_folder_change_a_byte(
    flags: tuple[str, ...], whole: Growing, copied: Growing, tmp_path: Path
) -> None:
    other, documents = whole.copy_to(tmp_path / "other"), choose(whole.output)
    given = (flag.replace("TEMPORARY", str(tmp_path / "temp")) for flag in flags)
    with knobs(small="--fan-in" in flags):
        drop(other.output, documents, *given)
    drop(copied.output, documents)
    assert other.files() == copied.files()


def test_what_was_removed_is_recorded_and_not_added_again(
    copied: Growing, sample: Path, whole: Growing
) -> None:
    first, second = choose(whole.output)[:2]
    drop(copied.output, [first])
    drop(copied.output, [second])
    one, two = copied.manifest().removals
    assert one.reason == f"document IN ({first})"
    assert two.is_listed
    entry, _ = json.loads((copied.output / "dataset.json").read_text())["removals"]
    assert entry.keys() == {"reason", "documents", "rows", "tokens", "segment_tokens", "is_listed"}
    card = (copied.output / "README.md").read_text()
    assert f"| `document IN ({second})` | 1 | {two.rows:,} | {two.tokens:,} |" in card
    shown = run_here("inspect", copied.output, "--examples", "0").output
    assert f"1 document (document IN ({second})), with {two.rows:,} rows of" in shown
    assert "provenance/removed-00001.parquet" in copied.manifest().paths
    outcome = copied.append(sample, flags=("--existing", "skip"))
    assert "holds all documents" in outcome.output
    copied.append(sample, flags=("--existing", "refuse"), refused=("holds the text of",))
    assert verify(copied.output) == []


def test_what_has_lost_documents_may_grow_again(
    growing: Growing, halves: tuple[Path, Path]
) -> None:
    growing.append(halves[1])
    drop(growing.output, choose(growing.output))
    growing.append(halves[1], flags=("--existing", "allow"))
    assert verify(growing.output) == []
    check_provenance(growing.output, *halves, halves[1])


def test_the_state_of_a_reader_is_refused_after_a_removal(whole: Growing, copied: Growing) -> None:
    loader = Loader(make_batches(DataSet(whole.output), 8, seed=3))
    next(iter(loader))
    drop(copied.output, choose(whole.output))
    with pytest.raises(UserError, match="Read the data of the earlier run"):
        Loader(make_batches(DataSet(copied.output), 8, seed=3)).load_state_dict(loader.state_dict())


def test_a_reader_that_is_open_is_told_of_a_removal(copied: Growing, tmp_path: Path) -> None:
    data = DataSet(copied.output, cache_folder=tmp_path / "cache")
    drop(copied.output, choose(copied.output))
    with pytest.raises(UserError, match="it was changed after it was opened here"):
        data.take(np.arange(len(data)))


def test_conditions_of_sql(copied: Growing) -> None:
    pytest.importorskip("duckdb")
    records = list_documents(copied.output)
    most = sorted(record.tokens for record in records)[-5]
    long = f"tokens > {most}"
    left = [record.document for record in records if record.tokens <= most]
    run_here("drop", copied.output, "--where", long)
    assert [record.document for record in list_documents(copied.output)] == left
    files = copied.files()
    none = run_here("drop", copied.output, "--where", long).output
    assert "no document matches" in none
    ended = run_here("drop", copied.output, "--where", long, "--must-match", status=1)
    assert f"{long}: no document matches" in ended.errors
    assert copied.files() == files
    run_here("drop", copied.output, "--where", "no condition", refused=("DuckDB refuses",))
    run_here("drop", copied.output, "--where", "true", refused=("no row would be left",))
    assert copied.files() == files


def test_mistakes_are_refused_before_any_work(
    whole: Growing, halves: tuple[Path, Path], wordpiece: Path, tmp_path: Path
) -> None:
    files = whole.files()
    run_here("drop", whole.output, refused=("--where --document", "Give one of them"))
    both = ("--where", "true", "--document", "1")
    run_here("drop", whole.output, *both, refused=("Give one of them",))
    drop(whole.output, [99], refused=("--document 99", "no such document", "corpusmill trace"))
    drop(whole.output, [2**64], refused=("a number has more than 64 bits",))
    drop(whole.output, [-1], refused=("no document has this id",))
    drop(tmp_path / "none", [1], refused=("there is no such folder",))
    drop(whole.output, [0], "--workers", "0", refused=("--workers",))
    assert whole.files() == files
    untraced = Growing(tmp_path / "untraced", wordpiece, ("--no-provenance",))
    untraced.build(halves[0])
    drop(untraced.output, [0], refused=("built without provenance",))
    joined = Growing(tmp_path / "joined", wordpiece, ("--output-format", "nanogpt"), "gpt")
    joined.build(halves[0])
    drop(joined.output, [0], refused=("all shards of a split are one file",))


def test_a_damaged_shard_is_not_rewritten(copied: Growing) -> None:
    for shard in copied.output.glob("v1/train*.parquet"):
        damage_file(shard, "flipped")
    files = copied.files()
    drop(copied.output, choose(copied.output), refused=("do not match dataset.json",))
    assert copied.files() == files


@pytest.fixture(scope="module")
def doubled(articles: Path, wordpiece: Path, tmp_path_factory: pytest.TempPathFactory) -> Growing:
    """A data set of two files with the same documents."""
    folder = tmp_path_factory.mktemp("doubled")
    (folder / "in").mkdir()
    for name in ("a", "b"):
        shutil.copy(articles, folder / "in" / name)
    growing = Growing(folder / "out", wordpiece, _SHARE)
    growing.build(folder / "in")
    return growing


def test_copies_of_a_document_are_named_and_removed_if_asked_for(
    doubled: Growing, tmp_path: Path
) -> None:
    copied, named = (doubled.copy_to(tmp_path / name) for name in ("out", "named"))
    first, *_ = list_documents(copied.output)
    [copy] = [
        one.document
        for one in list_documents(copied.output)
        if one.digest == first.digest and one.document != first.document
    ]
    printed = drop(named.output, [first.document]).output
    assert f"1 other document has the same digest, and stays: {copy}; --copies" in printed
    assert named.manifest().removals[-1].documents == 1
    drop(copied.output, [first.document], "--copies")
    assert copied.manifest().removals[-1].documents == 2
    left = [one.document for one in list_documents(copied.output)]
    assert {first.document, copy}.isdisjoint(left)
    assert verify(copied.output) == []


def test_what_readers_have_unpacked_of_replaced_shards_is_removed(
    copied: Growing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    cache = tmp_path / "cache/corpusmill/shards"
    for split in ("train", "validation"):
        with knobs(memory_tokens=0):
            data_set = DataSet(copied.output, split=split)
        for _ in Loader(make_batches(data_set, 8)):
            pass
    unpacked = {path.name for path in cache.iterdir() if path.is_dir()}
    before = {shard.sha256 for split in copied.manifest().splits.values() for shard in split.shards}
    printed = drop(copied.output, choose(copied.output)[:1]).output
    splits = copied.manifest().splits.values()
    replaced = before - {shard.sha256 for split in splits for shard in split.shards}
    left = {path.name for path in cache.iterdir() if path.is_dir()}
    assert left < unpacked
    assert len(unpacked - left) == len(replaced)
    assert f"removed {len(replaced)} unpacked pieces of replaced shards" in printed
    assert "the caches of other machines" in printed
