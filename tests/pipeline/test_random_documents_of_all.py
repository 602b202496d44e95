"""Text is added to a data set, and random documents in its rows come from all text."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpusmill.corpus.batches import OFFSET_BITS
from corpusmill.layout.placement import TRAIN, assign_splits
from corpusmill.objectives import random_documents as pools
from corpusmill.objectives.random_documents import Pool
from corpusmill.reading.data_set import DataSet
from tests.pipeline.test_edit_jobs import drop, read_rows, subset
from tests.pipeline.test_merge_job import merge
from tests.tools.corpus_files import split_documents
from tests.tools.growing import DESCRIPTIONS, SHARE, Growing, without_descriptions
from tests.tools.jobs import TWO_WORKERS, run_here
from tests.tools.origins import check_provenance, list_documents, list_origins, open_store
from tests.tools.random_draws import (
    BUDGET,
    FLAGS,
    all_of,
    appended,
    draw_plainly,
    draws,
    first,
    growing,
    number_of,
    old_draw,
    problems,
)
from transforms.pool import map_pool

__all__ = ["appended", "first", "growing"]

WAYS: dict[str, tuple[str, tuple[str, ...]]] = {
    "bert": ("bert", ()),
    "bert of words, by Google's rule": ("bert", ("--whole-word-mask", "--pairs", "google")),
    "bert in the order of the corpus": ("bert", ("--order", "corpus", "--duplicates", "1")),
    "bert in bins": ("bert", ("--bin-size", "32")),
    "ernie": ("ernie", ()),
    "ernie for its trainer": ("ernie", ("--mask", "dynamic", "--output-format", "ernie-text")),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_rows_hold_documents_of_both_parts_and_all_of_them_are_traced(
    way: str, halves: tuple[Path, Path], wordpiece: Path, tmp_path: Path
) -> None:
    objective, flags = WAYS[way]
    growing = Growing(tmp_path / "out", wordpiece, (*FLAGS, *flags), objective)
    growing.build(halves[0])
    files = without_descriptions(growing.files())
    growing.append(halves[1], flags=all_of(halves[0]))
    assert problems(growing.output) == []
    kept = [name for name in files if not name.endswith("_filelist")]  # of ERNIE's trainer
    assert {name: growing.files()[name] for name in kept} == {name: files[name] for name in kept}
    origins = check_provenance(growing.output, *halves)
    assert {number_of(origin.document) for origin, _ in draws(origins, "more1")} == {1}
    assert {number_of(other) for _, other in draws(origins, "more1")} == {0, 1}
    first_part = [one for one in origins if "-more1-" not in one.shard]
    assert {number_of(one) for origin in first_part for one in origin.documents} == {0}
    provenance = growing.manifest().provenance
    assert provenance is not None
    assert [one.random_documents for one in provenance.generations] == [None, "all"]


@pytest.mark.parametrize("budget", [500, BUDGET, 10**6])
def test_the_pool_is_the_one_of_a_plain_loop_over_all_documents(
    budget: int,
    halves: tuple[Path, Path],
    wordpiece: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flags = (*SHARE, "--pool-tokens", str(budget), "--duplicates", "1")
    growing = Growing(tmp_path / "out", wordpiece, flags)
    growing.build(halves[0])
    drawn: dict[str, list[Any]] = {}

    def watch_pool(path: str) -> Pool:
        pool = map_pool(path)
        drawn.update({name: getattr(pool, name).tolist() for name in pools.ARRAYS})
        return pool

    monkeypatch.setattr("transforms.build.map_pool", watch_pool)
    growing.append(halves[1], flags=(*all_of(halves[0]), "--range-bytes", "3000"))
    (tmp_path / "plain").mkdir()
    expected = draw_plainly(growing, halves, budget, tmp_path / "plain")
    assert drawn == {name: getattr(expected, name).tolist() for name in pools.ARRAYS}
    numbers = {number_of(document) for document in drawn["documents"]}
    assert numbers == {0, 1}
    train = expected.documents[: expected.split_offsets[1]]
    assert (assign_splits(1, train, 0.2) == TRAIN).all()


def test_documents_of_the_data_set_come_in_proportion(
    halves: tuple[Path, Path], wordpiece: Path, tmp_path: Path
) -> None:
    growing = Growing(tmp_path / "out", wordpiece, (*FLAGS, "--duplicates", "40"))
    growing.build(halves[0])
    growing.append(halves[1], flags=all_of(halves[0]))
    origins = list_origins(growing.output)
    drawn = [number_of(other) for one, other in draws(origins, "more1") if one.split == "train"]
    records = list_documents(growing.output)
    ids = np.array([record.document for record in records], np.uint64)
    tokens = np.array([record.tokens for record in records])
    priorities = pools.priorities(1, ids)
    pool = ids[priorities <= np.uint64(pools.choose(priorities, ids, tokens, BUDGET))]
    in_train = pool[assign_splits(1, pool, 0.2) == TRAIN]
    expected = np.mean(in_train >> np.uint64(OFFSET_BITS) == 0)
    assert 0.2 < expected < 0.8
    assert len(drawn) > 300
    # Four standard deviations.
    assert abs(np.mean(np.array(drawn) == 0) - expected) < 4 * np.sqrt(0.25 / len(drawn))


def test_random_documents_stay_in_their_split(appended: Growing) -> None:
    splits = {
        document: split
        for split in ("train", "validation")
        for table in open_store(appended.output).tables(split)
        for document in table.column("document").to_pylist()
    }
    found = {
        (origin.split, splits[other])
        for origin, other in draws(list_origins(appended.output), "more1")
        if number_of(other) == 0
    }
    assert found == {("train", "train"), ("validation", "validation")}


@pytest.mark.parametrize("flags", [TWO_WORKERS, ("--range-bytes", "1000")])
def test_neither_workers_nor_ranges_change_a_byte(
    flags: tuple[str, ...], growing: Growing, appended: Growing, halves: tuple[Path, Path]
) -> None:
    growing.append(halves[1], flags=(*all_of(halves[0]), *flags))
    assert growing.files() == appended.files()


def test_a_tree_of_joins_changes_no_byte(
    growing: Growing, appended: Growing, halves: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transforms.trees.FAN_IN", 2)
    growing.append(halves[1], flags=(*all_of(halves[0]), "--range-bytes", "4000"))
    assert growing.files() == appended.files()


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "gz"])
def test_documents_of_every_format_are_read_again(
    kind: str, sample: Path, wordpiece: Path, tmp_path: Path
) -> None:
    growing, files = Growing(tmp_path / "out", wordpiece, FLAGS), list[Path]()
    texts = ["\n".join(lines) for lines in split_documents(sample)]
    for number, part in enumerate((texts[:60], texts[60:])):
        file = tmp_path / f"{number}.{kind}"
        if kind == "parquet":
            pq.write_table(pa.table({"text": part}), file, row_group_size=10)
        elif kind == "jsonl":
            file.write_text("".join(json.dumps({"text": text}) + "\n" for text in part))
        else:
            file.write_bytes(gzip.compress("".join(f" = A = \n{text}\n" for text in part).encode()))
        files.append(file)
    growing.build(files[0])
    growing.append(files[1], flags=all_of(files[0]))
    assert problems(growing.output) == []
    origins = check_provenance(growing.output, *files)
    assert {number_of(other) for _, other in draws(origins, "more1")} == {0, 1}


def test_counts_are_those_of_the_new_text(
    appended: Growing, growing: Growing, halves: tuple[Path, Path]
) -> None:
    growing.append(halves[1])
    alone, both = growing.manifest().counts, appended.manifest().counts
    of_pool = ("pool.", "candidates.", "recall.", "build.", "write.")
    assert {name: count for name, count in both.items() if not name.startswith(of_pool)} == {
        name: count for name, count in alone.items() if not name.startswith(of_pool)
    }
    assert both["recall.documents"] > 0
    assert both["pool.candidates"] == both["candidates.documents"]
    assert "recall.documents" not in alone


def test_a_document_is_found_in_the_rows_of_later_parts(
    appended: Growing, halves: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(halves[0].parent.parent)
    document = old_draw(appended.output)
    holding = [one for one in list_origins(appended.output) if document in one.documents]
    shards = {one.shard for one in holding}
    assert {"-more1-" in shard for shard in shards} == {True, False}
    asked = ("--json", "--limit", "0")
    by_id = run_here("trace", appended.output, "--document", str(document), *asked).output
    where = ("--where", f"document = {document}")
    by_condition = run_here("trace", appended.output, *where, *asked).output
    for printed in (by_id, by_condition):
        assert {shard for shard in shards if shard in printed} == shards
    data_set = DataSet(appended.output)
    in_train = [one.row for one in data_set.rows_of([document]) if one.split == "train"]
    assert in_train == [one.row for one in holding if one.split == "train"]


def test_a_document_is_removed_from_the_rows_of_all_parts(
    appended: Growing, halves: tuple[Path, Path], tmp_path: Path
) -> None:
    removed = appended.copy_to(tmp_path / "out")
    document, rows = old_draw(removed.output), read_rows(removed.output)
    origins, files = list_origins(removed.output), removed.files()
    held = [document in (one.document, *one.documents) for one in origins]
    drop(removed.output, [document])
    expected = [row for row, is_held in zip(rows, held, strict=True) if not is_held]
    assert read_rows(removed.output) == expected
    assert problems(removed.output) == []
    check_provenance(removed.output, *halves)
    touched = {one.shard for one, is_held in zip(origins, held, strict=True) if is_held}
    now = removed.files()
    changed = {name for name in files if "/" not in name and now[name] != files[name]}
    assert changed - {*DESCRIPTIONS} == touched
    others = [one.document for one in list_documents(appended.output) if one.document != document]
    subset(appended.output, others, tmp_path / "subset")
    assert read_rows(tmp_path / "subset") == expected
    assert problems(tmp_path / "subset") == []
    # What was removed is not drawn again.
    removed.append(halves[1], flags=("--existing", "allow", *all_of(*halves)))
    assert problems(removed.output) == []
    drawn = {other for _, other in draws(list_origins(removed.output), "more2")}
    assert {number_of(other) for other in drawn} == {0, 1, 2}
    assert document not in drawn
    check_provenance(removed.output, *halves, halves[1])


def test_parts_are_renumbered_by_merges_and_drawn_from_after_them(
    appended: Growing, first: Growing, halves: tuple[Path, Path], tmp_path: Path
) -> None:
    other = Growing(tmp_path / "other", first.tokenizer, FLAGS)
    other.build(halves[1])
    joined = Growing(tmp_path / "joined", first.tokenizer, FLAGS)
    merge(other, appended, output=joined.output, flags=("--existing", "allow"))
    assert problems(joined.output) == []
    origins = check_provenance(joined.output, halves[1], *halves)
    numbers = {number_of(one) for _, one in draws(origins, "more2")}
    assert numbers == {1, 2}
    joined.append(halves[0], flags=("--existing", "allow", *all_of(*halves)))
    assert problems(joined.output) == []
    origins = check_provenance(joined.output, halves[1], *halves, halves[0])
    drawn = {(one.split, other) for one, other in draws(origins, "more3")}
    assert {number_of(other) for _, other in drawn} == {0, 1, 2, 3}
    splits = {origin.document: origin.split for origin in origins}
    assert {split == splits[other] for split, other in drawn if other in splits} == {True}
    document = old_draw(joined.output, "more3")
    drop(joined.output, [document])
    assert problems(joined.output) == []
    assert not [one for one in list_origins(joined.output) if document in one.documents]


def test_chain_of_parts_draws_from_all_of_them(
    appended: Growing, halves: tuple[Path, Path], tmp_path: Path
) -> None:
    growing = appended.copy_to(tmp_path / "out")
    growing.append(*halves, flags=("--existing", "allow", *all_of(*halves)))
    assert problems(growing.output) == []
    origins = check_provenance(growing.output, *halves, *halves)
    drawn = {number_of(other) for _, other in draws(origins, "more2")}
    assert drawn == {0, 1, 2, 3}
    assert {number_of(other) for _, other in draws(origins, "more1")} == {0, 1}
    split = growing.manifest().splits["train"]
    before = DataSet(growing.output).first_generations(2)
    assert before.digest == DataSet(appended.output).digest
    assert len(before) < split.rows
