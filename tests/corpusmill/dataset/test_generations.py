"""Which documents belong to which generation, and which of them its rows may hold."""

import numpy as np

from corpusmill.corpus.batches import document_id
from corpusmill.dataset.manifest_entries import Generation, Provenance
from corpusmill.layout.placement import Layout

_LAYOUT = Layout(1, 1, 0)
# Three files, and then two, one and two that were added.
PARTS = (
    Generation(0, _LAYOUT),
    Generation(3, _LAYOUT, "more1"),
    Generation(5, _LAYOUT, "more2"),
    Generation(6, _LAYOUT, "more3"),
)
PROVENANCE = Provenance(1, PARTS)
DOCUMENTS = np.array([document_id(file, 7) for file in range(8)], np.uint64)


def files_of(documents: np.ndarray) -> list[int]:
    return [number >> 40 for number in documents.tolist()]


def test_each_document_has_a_generation() -> None:
    assert PROVENANCE.numbers_of(DOCUMENTS).tolist() == [0, 0, 0, 1, 1, 2, 3, 3]


def test_rows_hold_documents_of_their_part_alone() -> None:
    held = [files_of(PROVENANCE.select_held(part, DOCUMENTS)) for part in PARTS]
    assert held == [[0, 1, 2], [3, 4], [5], [6, 7]]
