"""The pool that the stage draws, compared with the pool that the library's rules define."""

from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest

from corpusmill.layout.placement import TRAIN, assign_splits
from corpusmill.objectives import random_documents as pools
from corpusmill.objectives.random_documents import Pool
from tests.tools.builders import Corpus, batch_of, numbered_corpus
from tests.tools.knobs import knobs
from transforms.corpus.pool import POOL, PoolOptions, WritePool, map_pool
from transforms.elements import Segment
from transforms.recovery import Workplace
from transforms.shuffle.spill import load_segment, write_segments
from transforms.tally import COUNTS
from transforms.task_sizes import TaskSizes
from transforms.testing import collect, local_pipeline, sums

SEED = 7
# Sixty documents with ids far apart; no token occurs twice, so that a token tells where it is from.
SMALL = numbered_corpus([[1 + place % 3, 2, 4][: 1 + place % 3] for place in range(60)])
CORPUS: Corpus = {document * 1009: sentences for document, sentences in SMALL.items()}
TOKENS = sum(len(sentence) for sentences in CORPUS.values() for sentence in sentences)


def batches(size: int) -> list[pa.RecordBatch]:
    whole = batch_of(CORPUS)
    return [whole.slice(start, size) for start in range(0, whole.num_rows, size)]


def draw(
    documents: list[pa.RecordBatch], budget: int, share: float, temp: Path, limit: int = 2**64 - 1,
    fan_in: int = 1000, joined_bytes: int = 2**20,
) -> tuple[Pool, dict[str, int]]:  # fmt: skip
    """Draw the pool from batches, each in a file of candidates of a task, in reverse order."""
    references, tasks = list[Segment](), len(documents)
    place = Workplace(str(temp), sizes=TaskSizes(fan_in))
    for number, batch in reversed([*enumerate(documents)]):
        kept = pools.keep_candidates(SEED, batch, limit)
        if kept.num_rows:
            [segment] = write_segments([(number, kept)], str(temp))
            references.append(segment._replace(place=number << 32))
    with knobs(joined_bytes=joined_bytes), local_pipeline() as pipeline:
        candidates = pipeline | beam.Create(references).with_output_types(Segment)
        drawn = candidates | WritePool(PoolOptions(SEED, budget, share, "int16", place, tasks))
        paths, counts = collect(drawn[POOL]), collect(drawn[COUNTS])
    [path] = paths
    return map_pool(path), sums(counts)


def contents(pool: Pool) -> dict[int, list[list[int]]]:
    """Return {document: its sentences} in the pool's order."""
    sentences = np.split(pool.token_ids, pool.sentence_offsets[1:-1])
    edges = pool.document_offsets.tolist()
    return {
        document: [sentence.tolist() for sentence in sentences[start:stop]]
        for document, start, stop in zip(
            pool.documents.tolist(), edges[:-1], edges[1:], strict=True
        )
    }


def test_a_corpus_that_fits_is_the_pool(tmp_path: Path) -> None:
    pool, counts = draw(batches(7), TOKENS, 0.0, tmp_path)
    assert contents(pool) == CORPUS
    assert list(contents(pool)) == sorted(CORPUS)
    assert pool.split_offsets.tolist() == [0, 60, 60]
    assert counts["pool.documents"] == 60
    assert counts["pool.tokens"] == TOKENS


@pytest.mark.parametrize("size", [1, 7, 60])
def test_a_budget_takes_the_first_documents_by_priority_however_they_are_batched(
    tmp_path: Path, size: int
) -> None:
    budget = TOKENS // 3
    expected, spent = [], 0
    ids = np.array(list(CORPUS), np.uint64)
    for place in np.argsort(pools.priorities(SEED, ids)):
        spent += sum(map(len, CORPUS[int(ids[place])]))
        if spent > budget:
            break
        expected.append(int(ids[place]))
    pool, counts = draw(batches(size), budget, 0.0, tmp_path)
    assert list(contents(pool)) == sorted(expected)
    assert contents(pool) == {document: CORPUS[document] for document in expected}
    assert counts["pool.tokens"] == len(pool.token_ids) <= budget
    # By it the commit sees that no candidate was lost on its way into the pool.
    assert counts["pool.candidates"] == 60


def test_each_split_has_its_own_stretch(tmp_path: Path) -> None:
    pool, _ = draw(batches(7), TOKENS, 0.4, tmp_path)
    train, validation = (
        pool.documents[start:stop]
        for start, stop in zip(pool.split_offsets, pool.split_offsets[1:], strict=False)
    )
    ids = np.array(list(CORPUS), np.uint64)
    in_train = assign_splits(SEED, ids, 0.4) == TRAIN
    assert train.tolist() == ids[in_train].tolist()
    assert validation.tolist() == ids[~in_train].tolist()
    assert contents(pool) == CORPUS


def test_without_candidates_or_with_a_budget_below_the_first_the_pool_is_empty(
    tmp_path: Path,
) -> None:
    for number, documents in enumerate(([], [batch_of({5: [[1] * 50]})])):
        (tmp_path / str(number)).mkdir()
        pool, counts = draw(documents, 49, 0.5, tmp_path / str(number))
        assert contents(pool) == {}
        assert pool.split_offsets.tolist() == [0, 0, 0]
        assert counts["pool.documents"] == counts["pool.tokens"] == 0


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_no_document_above_the_limit_is_kept(share: float, tmp_path: Path) -> None:
    limit = int(share * 2**64)
    ids = np.array(list(CORPUS), np.uint64)
    expected = ids[pools.priorities(SEED, ids) <= np.uint64(limit)].tolist()
    pool, counts = draw(batches(5), TOKENS, 0.0, tmp_path, limit)
    assert list(contents(pool)) == expected
    assert counts["pool.candidates"] == len(expected)
    assert len(expected) in {0.0: [0], 0.3: range(8, 30)}[share]


def test_a_tree_of_joins_gives_the_same_pool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = set[str]()

    def watch_load(segment: Segment, schema: pa.Schema) -> pa.RecordBatch:
        loaded.add(segment.path)
        return load_segment(segment, schema)

    monkeypatch.setattr("transforms.corpus.pool.load_segment", watch_load)
    drawn = []
    for folder, fan_in in (("at once", 1000), ("in a tree", 2)):
        (tmp_path / folder).mkdir()
        # With 200 bytes a join leaves several batches.
        part = (TOKENS // 3, 0.3, tmp_path / folder)
        drawn.append(draw(batches(2), *part, fan_in=fan_in, joined_bytes=200))
    (pool, counts), (other, other_counts) = drawn
    for name in pools.ARRAYS:
        assert getattr(pool, name).tolist() == getattr(other, name).tolist()
    assert counts == other_counts
    # The files of 30 tasks were loaded at once; or joined to 15, 8, 4 and 2, which were loaded.
    assert len(loaded) == 30 + 30 + 15 + 8 + 4 + 2
