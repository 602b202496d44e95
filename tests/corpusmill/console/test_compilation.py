import logging
from pathlib import Path

import pytest

from corpusmill.arrays.kernel_cache import FOLDER_NAME
from corpusmill.console import compilation
from corpusmill.console.compilation import say_that_kernels_are_compiled


def test_without_a_terminal_one_line_on_standard_error_or_in_the_log_says_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging.getLogger("pipeline"), "level", logging.INFO)
    kept, lost = FOLDER_NAME, "corpusmill-kernels-0-k3_x9q2z"
    for name, takes, has_handler in (
        (kept, True, True), (kept, True, False), (kept, False, True), (lost, True, True)
    ):  # fmt: skip
        records: list[logging.LogRecord] = []
        handler = logging.Handler()
        monkeypatch.setattr(handler, "emit", records.append)
        handler.addFilter(logging.Filter("pipeline" if takes else "another"))
        monkeypatch.setattr(logging.getLogger(), "handlers", [handler] * has_handler)
        monkeypatch.setattr(compilation, "kernel_folder", lambda name=name: Path("/caches", name))
        say_that_kernels_are_compiled()
        lines = capsys.readouterr().err.splitlines()
        [text] = [record.getMessage() for record in records] + lines
        assert bool(records) == (takes and has_handler)
        assert text.startswith("compiling kernels for this machine's processor, which takes up to ")
        end = f"this happens once, as they are kept in /caches/{kept}"
        assert text.endswith(end if name == kept else "name one with NUMBA_CACHE_DIR to keep them")
