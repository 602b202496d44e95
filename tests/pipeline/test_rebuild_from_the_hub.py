"""A data set on the hub that is built again from its text."""

from pathlib import Path

import pytest

from corpusmill.publishing import push
from tests.tools.jobs import build, run_here
from tests.tools.writable_hub import hub_in_use


def test_a_data_set_on_the_hub_is_built_again(
    sample: Path, tokenizer_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build([sample], tokenizer_path, tmp_path / "out")
    with hub_in_use(monkeypatch):
        push(tmp_path / "out", "me/out")
        again = ("--input", sample, "--output", tmp_path / "again")
        outcome = run_here("rebuild", "hf://datasets/me/out", *again)
    assert "equal: all" in outcome.output
