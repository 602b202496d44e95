import logging
from pathlib import Path

import pytest

from corpusmill.console import compilation


@pytest.mark.parametrize(
    ("name", "part"),
    [
        (f"corpusmill-kernels-0-{'0a' * 32}", "this happens once, as they are kept in "),
        ("corpusmill-kernels-0-k3_x9q2z", "name one with NUMBA_CACHE_DIR to keep them"),
    ],
)
def test_a_run_says_whether_its_kernels_are_kept(
    name: str, part: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(compilation, "kernel_folder", lambda: Path("/caches", name))
    with caplog.at_level(logging.INFO, "pipeline"):
        compilation.say_that_kernels_are_compiled()
    assert part in caplog.text
