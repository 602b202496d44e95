"""Rows and documents that are found in a data set's provenance."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from corpusmill.errors import UserError
from tests.tools.damage import damage_file
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


def test_nothing_asked_for_is_nothing_found(data: Path) -> None:
    assert open_store(data).documents([]) == {}


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
