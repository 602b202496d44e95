"""Data sets and reports at URLs that fsspec knows, without the job."""

import io
from collections.abc import Iterator

import fsspec
import pytest

from corpusmill.commands.command import Call
from corpusmill.commands.inspect import Inspect
from corpusmill.commands.inspection import inspect
from corpusmill.commands.verification import verify
from corpusmill.commands.verify import Verify
from corpusmill.console.terminal import Terminal
from tests.conftest import CHECKOUT

DATA_SET = CHECKOUT / "tests" / "data" / "small_data_set"


@pytest.fixture
def url() -> Iterator[str]:
    files = fsspec.filesystem("memory")
    for path in DATA_SET.rglob("*.*"):
        files.pipe(f"/data/{path.relative_to(DATA_SET)}", path.read_bytes())
    files.pipe("/data/_SUCCESS", b"")
    yield "memory://data"
    files.rm("/", recursive=True)


def test_a_data_set_in_a_store_is_verified_and_shown(url: str) -> None:
    printed = io.StringIO()
    call = Call(Terminal(file=printed))
    assert verify(Verify(url), call) == 0
    assert inspect(Inspect(url, examples=1, html="memory://page.html"), call) == 0
    assert f"in        {url}, 20" in printed.getvalue()  # and the time of _SUCCESS
    assert b'class="bar' in fsspec.filesystem("memory").cat("/page.html")
