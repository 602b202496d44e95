"""A build foreseen from a sample: exact where the sample is all, and near elsewhere."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays.distinct import estimate_distinct
from corpusmill.formats.output_options import OutputOptions
from corpusmill.formats.shard_formats import resolve
from corpusmill.inspection.build_estimate import Estimate, compare, estimate_build, stratify
from corpusmill.inspection.corpus_measures import Bin, count_values, read_bins
from corpusmill.inspection.sample_build import build_sample, spread_sample
from corpusmill.layout.placement import Layout
from corpusmill.objectives.bert import Bert, BertOptions
from corpusmill.objectives.objective import Repeat
from corpusmill.objectives.random_documents import Pool
from tests.tools.builders import SPECIAL, batch_of, numbered_corpus, pool_of, split_corpus

SEED = 5


def pool_of_lengths(documents: np.ndarray, lengths: np.ndarray) -> Pool:
    """A sample of documents that have one sentence each; what stands there does not matter."""
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    ends = np.array([0, len(lengths), len(lengths)])
    tokens = np.zeros(offsets[-1], np.int16)
    return Pool(documents.astype(np.uint64), np.arange(len(lengths) + 1), offsets, tokens, ends)


def lengths_of(lengths: np.ndarray) -> list[Bin]:
    return read_bins("tokens_per_document", count_values("tokens_per_document", lengths).counts)


@given(st.lists(st.integers(0, 60), max_size=60))
def test_strata_are_neighbours_with_enough_documents(documents: list[int]) -> None:
    strata = stratify(np.array(documents, np.int64))
    assert (np.diff(strata) >= 0).all()
    assert (np.diff(strata) <= 1).all()
    sums = np.bincount(strata, documents)
    assert len(sums) <= 1 or sums.min() >= 30


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=200))
def test_a_sample_of_everything_has_no_error(lengths: list[int]) -> None:
    token_counts = np.array(lengths)
    scale = compare(
        pool_of_lengths(np.arange(len(token_counts)), token_counts), SEED, lengths_of(token_counts)
    )
    values = token_counts // 7 + 1
    total = int(values.sum())
    assert scale.estimate(values) == Estimate(total, total, total)
    assert scale.share == 1


def test_intervals_hold_the_truth_and_strata_narrow_them() -> None:
    draws = np.random.default_rng(0)
    lengths = np.ceil(draws.lognormal(5, 1.2, 4000)).astype(np.int64)
    # As examples of documents: one even for the shortest, and some luck.
    rows = 10 * np.ceil(lengths / 128).astype(np.int64) + draws.integers(0, 5, len(lengths))
    hits, errors, plain_errors = 0, [], []
    for _ in range(100):
        chosen = np.sort(draws.choice(len(lengths), 400, replace=False))
        sample = pool_of_lengths(chosen, lengths[chosen])
        scale = compare(sample, SEED, lengths_of(lengths))
        estimate = scale.estimate(rows[chosen])
        assert estimate.low is not None
        assert estimate.high is not None
        hits += estimate.low <= rows.sum() <= estimate.high
        errors.append(estimate.value / rows.sum() - 1)
        plain_errors.append(rows[chosen].sum() / scale.share / rows.sum() - 1)
    assert hits >= 88
    assert np.std(errors) < np.std(plain_errors) / 2
    assert abs(np.mean(errors)) < np.std(errors)


def test_a_few_documents_give_no_interval() -> None:
    lengths = np.array([5, 6, 7, 8, 100])
    scale = compare(pool_of_lengths(np.arange(3), lengths[:3]), SEED, lengths_of(lengths))
    assert scale.estimate(np.array([1, 1, 1])) == Estimate(21, None, None)
    nothing = compare(pool_of_lengths(np.arange(0), lengths[:0]), SEED, lengths_of(lengths))
    assert nothing.estimate(np.zeros(0, np.int64)) == Estimate(0, None, None)
    assert nothing.share == 0


@pytest.mark.parametrize("shards", [1, 3])
def test_a_sample_is_built_as_the_objective_builds_it(shards: int) -> None:
    draws = np.random.default_rng(1)
    corpus = numbered_corpus(
        [draws.integers(1, 30, draws.integers(1, 9)).tolist() for _ in range(60)]
    )
    train, validation = split_corpus(corpus, SEED, 0.3)
    pool = pool_of(train, validation)
    objective = Bert(BertOptions(max_seq_length=32, duplicates=4), SPECIAL, 20_000, "int16")
    built = build_sample(
        objective,
        pool,
        Layout(SEED, shards, 1),
        resolve(OutputOptions(), objective.columns),
    )
    for number, (name, part) in enumerate({"train": train, "validation": validation}.items()):
        documents, marks = batch_of(part), np.full(len(part), number, np.uint8)
        examples = [
            objective.build(documents, Repeat(repeat, pool, marks, SEED)) for repeat in range(4)
        ]
        rows, tokens = dict.fromkeys(corpus, 0), dict.fromkeys(corpus, 0)
        for batch in examples:
            for row in batch.to_pylist():
                rows[row["document"]] += 1
                tokens[row["document"]] += len(row["input_ids"])
        order = pool.documents.tolist()
        assert built[name].rows.tolist() == [rows[document] for document in order]
        assert built[name].tokens.tolist() == [tokens[document] for document in order]
        assert built[name].distributions["length"].sum() == sum(rows.values())
        assert built[name].bytes > 0
        rows_of_ids = {tuple(row["input_ids"]) for batch in examples for row in batch.to_pylist()}
        assert estimate_distinct(built[name].sketch) == len(rows_of_ids)


def test_an_estimate_says_what_it_stands_on() -> None:
    corpus = numbered_corpus([[3, 4], [5]] * 20)
    pool = pool_of(dict(list(corpus.items())[:20]))
    objective = Bert(BertOptions(max_seq_length=16, duplicates=2), SPECIAL, 20_000, "int16")
    layout = Layout(SEED, 7, 0)
    lengths = lengths_of(np.array([sum(map(len, sentences)) for sentences in corpus.values()]))
    scale = compare(pool, SEED, lengths)
    options = resolve(OutputOptions(), objective.columns)
    built = build_sample(objective, pool, spread_sample(layout, 2), options)
    estimate = estimate_build(objective, pool, scale, layout, options)
    assert not estimate["exact"]
    assert estimate["sample"] == {
        "documents": 20, "tokens": 120, "share": 0.5, "rows": 53, "distinct_rows": 52,
        "used_ids": len(np.unique(pool.token_ids)),
    }  # fmt: skip
    assert set(estimate["splits"]) == {"train"}
    train = estimate["splits"]["train"]
    assert train["shards"] == 7
    assert train["rows"]["value"] == 2 * built["train"].rows.sum()
    assert train["bytes"]["low"] < train["bytes"]["value"] < train["bytes"]["high"]
    assert estimate["processor_seconds"] > 0
