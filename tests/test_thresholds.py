"""Each threshold says what changes beyond it, has a name of its own, and is crossed by a test."""

import re
from dataclasses import asdict
from multiprocessing import get_context

import pytest

from corpusmill.corpus.records import record_documents
from corpusmill.knobs import VARIABLE, knob
from tests.conftest import CHECKOUT
from tests.tools.knobs import PACKAGES, SMALL_SIZES, knobs, list_knobs
from transforms.task_sizes import TaskSizes


def read_all(folder: str) -> str:
    """Return the source of all modules in a folder."""
    return "\n".join(path.read_text("utf-8") for path in sorted((CHECKOUT / folder).rglob("*.py")))


def test_every_threshold_says_what_it_is_and_has_a_name_of_its_own() -> None:
    known, sources = list_knobs(), "\n".join(map(read_all, PACKAGES))
    assert [name for name, described in known.items() if not described.change.endswith(".")] == []
    constants = re.findall(r"^([A-Z][A-Z_]+)(?:: \w+)? = (?!knob\()", sources, re.MULTILINE)
    assert {name.lower() for name in constants} & known.keys() == set()


def test_every_threshold_is_crossed() -> None:
    """Small runs cross those with a test value, and all others are given by name."""
    known, tests = list_knobs(), read_all("tests")
    without = [name for name, described in known.items() if described.test is None]
    assert [name for name in without if not re.search(rf'\b{name}("\s*:|=)', tests)] == []
    small = {name: k.test for name, k in known.items() if k.test is not None}
    assert [name for name, value in small.items() if value >= known[name].usual] == []
    assert {f"--{name.replace('_', '-')}" for name in asdict(TaskSizes())} <= {*SMALL_SIZES}


def test_the_environment_gives_values(monkeypatch: pytest.MonkeyPatch) -> None:
    for words, values in (
        ("", (9, 9)),
        ("test", (4, 9)),
        ("some=7", (7, 9)),
        ("test other=6", (4, 6)),
        ("some=7 test some=8", (8, 9)),
    ):
        monkeypatch.setenv(VARIABLE, words)
        assert (knob("some", 9, test=4), knob("other", 9)) == values, words


def read_rows() -> int:
    return record_documents.BATCH_ROWS


def test_a_test_gives_values_to_this_process_and_those_that_it_starts() -> None:
    usual, context = record_documents.BATCH_ROWS, get_context("forkserver")
    with knobs(batch_rows=7):
        with context.Pool(1) as pool:
            assert (record_documents.BATCH_ROWS, pool.apply(read_rows)) == (7, 7)
        with knobs(small=True, batch_rows=8):
            assert record_documents.BATCH_ROWS == 8
        assert record_documents.BATCH_ROWS == 7
    with context.Pool(1) as pool:
        assert (record_documents.BATCH_ROWS, pool.apply(read_rows)) == (usual, usual)
