"""ELECTRA's objective with merged documents: DeBERTa-v3's rows."""

from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmill.dataset.manifest_entries import recount
from corpusmill.errors import UserError
from corpusmill.layout.sorting import add_keys, keyed_schema, sort_rows
from corpusmill.objectives.electra import ElectraOptions
from tests.corpusmill.objectives.electra_examples import corpora, electra
from tests.corpusmill.objectives.reference_deberta import cut_corpus
from tests.tools.builders import SPECIAL, Corpus, build_pass, numbered_corpus, seeds
from tests.tools.knobs import knobs

# Pieces of 9 tokens, shuffled by 30.
SMALL = {"merged_piece_tokens": 9, "shuffled_tokens": 30}
lengths = st.integers(5, 40)
batch_sizes = st.sampled_from([1, 2, 1000])


def merged(length: int) -> ElectraOptions:
    return ElectraOptions(max_seq_length=length, merge_documents=True)


def shard_of(
    corpus: Corpus, length: int, seed: int, batch_rows: int
) -> tuple[list[list[int]], pa.RecordBatch]:
    """Return the pieces of a shard in their order, and the rows that are made of them."""
    objective = electra(merged(length))
    keyed = add_keys(build_pass(objective, corpus, seed=seed), seed)
    [sorted_rows] = sort_rows([keyed], 2**62)
    pieces: list[list[int]] = sorted_rows.column("input_ids").to_pylist()
    packed = list(objective.pack(iter(sort_rows([keyed], batch_rows))))
    rows = pa.concat_batches(packed)
    assert rows.schema == keyed_schema(objective.built_columns)
    return pieces, rows


@given(corpora, lengths, seeds, batch_sizes, st.sampled_from([{}, SMALL]))
@settings(deadline=None)
def test_rows_are_those_of_the_reference(
    corpus: Corpus, length: int, seed: int, batch_rows: int, values: dict[str, int]
) -> None:
    """The corpus numbers its tokens, so that a row shows where it stood before the shuffle."""
    with knobs(**values):
        pieces, rows = shard_of(corpus, length, seed, batch_rows)
    ids = rows.column("input_ids").to_pylist()
    assert all((row[0], row[-1]) == (SPECIAL.cls_id, SPECIAL.sep_id) for row in ids)
    places = {token: place for place, token in enumerate(chain(*pieces))}
    ours = sorted((row[1:-1] for row in ids), key=lambda row: places[row[0]])
    assert ours == list(cut_corpus(pieces, length))


@given(corpora, lengths, seeds, batch_sizes)
@settings(deadline=None)
def test_rows_do_not_depend_on_batches(
    corpus: Corpus, length: int, seed: int, batch_rows: int
) -> None:
    with knobs(**SMALL):
        _, together = shard_of(corpus, length, seed, 1000)
        assert shard_of(corpus, length, seed, batch_rows)[1].equals(together)


@given(corpora, lengths, seeds)
@settings(deadline=None)
def test_rows_are_measured_with_their_pieces(corpus: Corpus, length: int, seed: int) -> None:
    with knobs(**SMALL):
        pieces, rows = shard_of(corpus, length, seed, 1000)
    objective = electra(merged(length))
    assert rows.column("pieces").to_numpy().sum() == len(pieces)
    measured = objective.measure(rows)
    assert measured["pieces"] @ np.arange(len(measured["pieces"])) == len(pieces)
    for padded in (False, True):
        counted = recount(objective.finish(rows, padded), objective.columns)
        assert {*counted} == {*measured} - {"pieces", "documents"}
        assert all(counts.tolist() == measured[name].tolist() for name, counts in counted.items())


def test_rows_are_shuffled() -> None:
    _, rows = shard_of(numbered_corpus([[500]]), 12, 1, 1000)
    firsts = [row[1] for row in rows.column("input_ids").to_pylist()]
    assert firsts != sorted(firsts)


@pytest.mark.parametrize(
    "other", [{"short_seq_prob": 0.1}, {"single_segment_prob": 1.0}, {"overflow": "keep"}]
)
def test_options_without_effect_are_refused(other: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="it does not go with --merge-documents"):
        ElectraOptions(merge_documents=True, **other)
