"""A data set on the hub that is built again from its text."""

from pathlib import Path

import huggingface_hub.constants
import pytest

from corpusmill.publishing import push
from tests.tools.jobs import build, run_here
from tests.tools.loopback_hub import TOKEN, run_in_thread
from tests.tools.writable_hub import WritableHub


def test_a_data_set_on_the_hub_is_built_again(
    sample: Path, tokenizer_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build([sample], tokenizer_path, tmp_path / "out")
    with run_in_thread(WritableHub()) as server:
        template = server.address + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", server.address)
        monkeypatch.setattr(huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True, raising=False)
        monkeypatch.setenv("NO_PROXY", "*")
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        push(tmp_path / "out", "me/out")
        again = ("--input", sample, "--output", tmp_path / "again")
        outcome = run_here("rebuild", "hf://datasets/me/out", *again)
    assert "equal: all" in outcome.output
