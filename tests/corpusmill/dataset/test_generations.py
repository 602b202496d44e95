"""Which documents belong to which generation, and which of them its rows may hold."""

import numpy as np

from corpusmill.corpus.batches import document_id
from corpusmill.dataset.manifest_entries import Generation, Provenance
from corpusmill.layout.placement import Layout

_LAYOUT = Layout(1, 1, 0)
# Three files of one data set; then two parts of another one that was merged with it; then one more.
PARTS = (
    Generation(0, _LAYOUT),
    Generation(3, _LAYOUT, "more1", moved_by=3),
    Generation(5, _LAYOUT, "more2", moved_by=3),
    Generation(6, _LAYOUT, "more3"),
)
PROVENANCE = Provenance(1, PARTS)
DOCUMENTS = np.array([document_id(file, 7) for file in range(8)], np.uint64)


def files_of(documents: np.ndarray) -> list[int]:
    return [number >> 40 for number in documents.tolist()]


def test_each_document_has_a_generation_and_the_id_of_its_build() -> None:
    assert PROVENANCE.numbers_of(DOCUMENTS).tolist() == [0, 0, 0, 1, 1, 2, 3, 3]
    own = PROVENANCE.own_ids(DOCUMENTS)
    assert files_of(own) == [0, 1, 2, 0, 1, 2, 6, 7]
    assert (own & np.uint64(2**40 - 1) == 7).all()


def test_rows_hold_documents_of_their_part_alone() -> None:
    held = [files_of(PROVENANCE.select_held(part, DOCUMENTS)) for part in PARTS]
    assert held == [[0, 1, 2], [3, 4], [5], [6, 7]]
