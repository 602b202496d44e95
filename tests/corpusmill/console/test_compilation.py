import logging
from pathlib import Path

import pytest

from corpusmill.console import compilation
from corpusmill.console.compilation import say_that_kernels_are_compiled


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
        say_that_kernels_are_compiled()
    assert part in caplog.text


@pytest.mark.parametrize(
    ("level", "has_handler"), [(logging.INFO, True), (logging.INFO, False), (None, True)]
)
def test_without_a_terminal_one_line_on_standard_error_or_in_the_log_says_it(
    level: int | None, has_handler: bool, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    folder = Path("/caches", f"corpusmill-kernels-0-{'0a' * 32}")
    monkeypatch.setattr(compilation, "kernel_folder", lambda: folder)
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    monkeypatch.setattr(handler, "emit", records.append)
    handler.addFilter(lambda record: level is not None and record.levelno >= level)
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler] * has_handler)
    monkeypatch.setattr(logging.getLogger("pipeline"), "level", logging.INFO)
    say_that_kernels_are_compiled()
    lines = capsys.readouterr().err.splitlines()
    [text] = [record.getMessage() for record in records] + lines
    assert text.startswith(
        "compiling kernels for this machine's processor, which takes up to a min"
    )
    assert text.endswith(f"; this happens once, as they are kept in {folder}")
