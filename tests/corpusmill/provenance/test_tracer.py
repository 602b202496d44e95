"""Rows that are traced from Python."""

from pathlib import Path

import numpy as np
import pytest

from corpusmill.reading.data_set import DataSet
from tests.tools.origins import list_origins


def test_examples_are_traced_by_their_numbers(data: Path, corpus: Path) -> None:
    origins = [origin for origin in list_origins(data) if origin.split == "train"]
    examples = DataSet(data)
    traced = examples.trace([7, 0], [corpus])
    assert [row.origin for row in traced] == [origins[7], origins[0]]
    for row in traced:
        assert row.missing == ""
        assert all(span.text for span in row.spans)
        assert {document.record.document for document in row.documents} == {
            span.span.document for span in row.spans
        }
        for document in row.documents:
            assert document.source == document.file.partition("/")[0]
            assert document.record.fields["file"].startswith(f"{document.source}-")
    assert {span.text for row in examples.trace([7]) for span in row.spans} == {None}
    assert examples.trace([]) == []


@pytest.mark.parametrize("source", ["wiki", "notes"])
def test_the_numbers_of_a_source_are_those_of_its_rows_in_the_split(
    source: str, data: Path
) -> None:
    examples, every = DataSet(data).by_source()[source], DataSet(data)
    traced = examples.trace(range(len(examples)))
    for number, row in enumerate(traced):
        assert np.array_equal(examples[number]["input_ids"], every[row.origin.row]["input_ids"])
        assert row.documents[0].source == source


def test_a_number_that_does_not_exist_is_refused(data: Path) -> None:
    examples = DataSet(data)
    for number in (-1, len(examples)):
        with pytest.raises(IndexError, match="examples, numbered from 0"):
            examples.trace([number])


def test_documents_and_their_rows_are_found(data: Path) -> None:
    examples = DataSet(data)
    [record] = examples.find_documents("file = 'notes-3'")
    expected = [row for row in list_origins(data) if record.document in row.documents]
    assert examples.rows_of([record.document]) == expected
    assert examples.rows_of([]) == []
    own = next(row for row in expected if row.split == "train")
    [traced] = examples.trace([own.row])
    assert record in [document.record for document in traced.documents]
    described = traced.to_json()
    assert described["row"] == own.row
    assert described["documents"][0].keys() >= {"file", "place", "length", "source", "fields"}
