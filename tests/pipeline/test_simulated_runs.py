"""Runs of any shape with any thresholds: the same bytes, nothing lost, every row traced.

Each seed draws a corpus, options, thresholds and workers. `CORPUSMILL_SEEDS=1000:2000 pytest
tests/pipeline/test_simulated_runs.py` tries others.
"""

import os
from pathlib import Path

import numpy as np
import pytest

from corpusmill import DataSet, make_batches
from corpusmill.arrays.columns import tokens_of
from corpusmill.verification.check_data_set import verify
from tests.tools.data_files import manifest_of
from tests.tools.jobs import Outcome, digests, run_any
from tests.tools.knobs import knobs
from tests.tools.origins import check_provenance
from tests.tools.simulated_runs import describe, draw_run

_FIRST, _LAST = map(int, os.environ.get("CORPUSMILL_SEEDS", "0:8").split(":"))


def run_all(commands: list[list[str]]) -> Outcome:
    """Run commands until one is refused."""
    for command in commands:
        outcome = run_any(*command)
        if outcome.status:
            break
    return outcome


@pytest.mark.parametrize("seed", range(_FIRST, _LAST))
def test_a_run_of_any_shape_keeps_all_promises(
    seed: int, any_tokenizer: Path, tmp_path: Path
) -> None:
    (tmp_path / "corpus").mkdir()
    run = draw_run(seed, tmp_path / "corpus")
    plain, drawn = tmp_path / "plain", tmp_path / "drawn"
    with knobs(**run.of_files):
        expected = run_all(run.commands(any_tokenizer, plain, "--workers", "1"))
    with knobs(**run.of_files, **run.others):
        outcome = run_all(run.commands(any_tokenizer, drawn, *run.way))
    assert outcome.status == expected.status, (describe(run), outcome.errors, expected.errors)
    if outcome.status:
        assert outcome.errors.replace(str(drawn), str(plain)) == expected.errors
        return
    assert digests(drawn) == digests(plain), describe(run)
    with knobs(**run.of_files, **run.others):
        assert verify(drawn) == []
        check_epoch(drawn, tmp_path / "cache", seed)
    assert check_provenance(drawn, tmp_path / "corpus", *([run.added] if run.added else []))


def check_epoch(folder: Path, cache: Path, seed: int) -> None:
    """Check that an epoch has every row once, whatever its order is, and can be read."""
    for split, entry in manifest_of(folder).splits.items():
        data_set = DataSet(folder, split, cache_folder=cache)
        order = make_batches(data_set, 4, seed=seed).order
        for epoch in range(2):
            samples = order.locate(np.arange(epoch * len(order), (epoch + 1) * len(order)))
            assert np.array_equal(np.sort(samples), np.arange(entry.rows))
        read = (data_set[number] for number in samples.tolist())
        first = tokens_of(data_set.columns).name
        assert sum(len(row[first]) for row in read) == entry.tokens
