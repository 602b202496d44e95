"""Rows and documents that are found in a data set's provenance."""

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from corpusmill.errors import UserError
from corpusmill.provenance.store import search_in_order
from tests.tools.data_files import damage_file
from tests.tools.origins import check_provenance, list_documents, list_origins, open_store


def test_the_data_set_is_what_its_provenance_tells(data: Path, corpus: Path) -> None:
    check_provenance(data, corpus / "wiki", corpus / "notes")


def test_a_document_holds_its_bytes_and_no_others(data: Path, corpus: Path) -> None:
    store = open_store(data)
    lines = (corpus / "notes" / "part.jsonl").read_bytes().splitlines(keepends=True)
    begin = 0
    for number, line in enumerate(lines[:5]):
        for place in (begin, begin + 7, begin + len(line) - 2):
            [found] = store.documents_at("notes/part.jsonl", place)
            assert json.loads(line)["n"] == number == int(found.fields["n"])
            assert found.place == begin
        begin += len(line)


def test_places_and_names_that_do_not_exist_are_refused(data: Path) -> None:
    store = open_store(data)
    assert store.documents([]) == {}
    with pytest.raises(UserError, match="no document of the data set holds it"):
        store.documents_at("notes/part.jsonl", 2**39)
    with pytest.raises(UserError, match=r"2 files of the corpus have this name; it has .*/part"):
        store.documents_at("part.jsonl", 0)
    with pytest.raises(UserError, match="0 files of the corpus have this name"):
        store.documents_at("art.jsonl", 0)
    with pytest.raises(UserError, match="the data set holds no document 1"):
        store.documents([1])
    for row in (-1, store.manifest.splits["train"].rows):
        with pytest.raises(IndexError, match="train has"):
            list(store.origins("train", [0, row]))


@pytest.mark.parametrize("kind", ["spans", "documents"])
def test_a_damaged_file_is_named(kind: str, data: Path, tmp_path: Path) -> None:
    ids = [record.document for record in list_documents(data)]
    origin = list_origins(data)[0]
    folder = tmp_path / "out"
    shutil.copytree(data, folder)
    for path in folder.glob(f"v1/provenance/{kind}-*"):
        damage_file(path, "cut")
    store = open_store(folder)
    look_up: dict[str, Callable[[], object]] = {
        "documents": lambda: store.documents(ids),
        "spans": lambda: list(store.origins(origin.split, [origin.row])),
    }
    with pytest.raises(UserError, match=rf"provenance/{kind}-.*its provenance cannot be read"):
        look_up[kind]()


def test_results_come_in_order_and_items_are_taken_as_results_are() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(1000):
            taken.append(number)
            yield number

    results = search_in_order(lambda number: -number, items())
    assert [next(results) for _ in range(5)] == [0, -1, -2, -3, -4]
    assert len(taken) < 100
    assert list(results) == [-number for number in range(5, 1000)]


def test_an_error_is_raised_when_it_is_its_turn_and_no_threads_are_left() -> None:
    def search(number: int) -> int:
        return 1 // (3 - number)

    results = search_in_order(search, range(1000))
    assert [next(results) for _ in range(3)] == [0, 0, 1]
    with pytest.raises(ZeroDivisionError):
        next(results)
    given_up = search_in_order(str, range(1000))
    assert next(given_up) == "0"
    given_up.close()  # type: ignore[attr-defined]
    assert not [thread for thread in threading.enumerate() if "ThreadPool" in thread.name]
