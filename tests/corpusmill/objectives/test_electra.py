"""The objective electra, from documents to rows, and DeBERTa-v3's merged documents."""

from dataclasses import astuple
from itertools import chain
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusmill.arrays.columns import IDENTITY_SCHEMA, arrow_schema
from corpusmill.errors import UserError
from corpusmill.layout.sorting import add_keys, keyed_schema, sort_rows
from corpusmill.objectives.electra import ElectraOptions
from tests.corpusmill.objectives.electra_examples import corpora, electra, kernel_packs, options
from tests.corpusmill.objectives.reference_deberta import cut_corpus
from tests.tools.builders import SPECIAL, Corpus, batch_of, build_pass, numbered_corpus, seeds
from tests.tools.knobs import knobs
from tests.tools.small_datasets import bert_tokenizer


def build(
    corpus: Corpus, given_options: ElectraOptions, seed: int = 1, repeat: int = 0
) -> pa.RecordBatch:
    """Build one pass over a corpus."""
    return build_pass(electra(given_options), corpus, repeat, seed)


def test_as_many_predictions_as_the_trainer_of_the_original_has_room_for() -> None:
    """`int((mask_prob + 0.005) * max_seq_length)` in its configure_pretraining.py."""
    vocabulary = bert_tokenizer()
    rules = [ElectraOptions(max_seq_length=size).masker(vocabulary).rule for size in (128, 512)]
    assert [rule.max_predictions for rule in rules] == [19, 79]


@given(corpora, options, seeds, st.integers(0, 3))
def test_rows_are_the_packs_with_special_tokens(
    corpus: Corpus, given_options: ElectraOptions, seed: int, repeat: int
) -> None:
    built = build(corpus, given_options, seed, repeat)
    assert built.schema == pa.schema(
        [*IDENTITY_SCHEMA, *arrow_schema(electra(given_options).built_columns)]
    )
    ids = list(corpus)
    expected = [
        {
            "document": ids[pack.document],
            "repeat": repeat,
            "index": pack.index,
            "input_ids": [SPECIAL.cls_id, *pack.first, SPECIAL.sep_id]
            + ([*pack.second, SPECIAL.sep_id] if pack.second else []),
            "first_length": len(pack.first),
            "first_trimmed": pack.trimmed[0],
            "second_trimmed": pack.trimmed[1],
        }
        for pack in kernel_packs(corpus, given_options, seed, repeat)
    ]
    assert built.drop_columns("spans").to_pylist() == expected


def test_the_defaults_are_the_originals() -> None:
    assert astuple(ElectraOptions()) == (128, 1, 0.05, 0.1, True, "drop", False)


def test_trimmed_tokens_are_counted_by_segment() -> None:
    given_options = ElectraOptions(max_seq_length=16, short_seq_prob=0, single_segment_prob=0)
    corpus = numbered_corpus([[6, 14], [20]])
    examples = build(corpus, given_options)
    assert electra(given_options).count(batch_of(corpus), examples) == {
        "trimmed_tokens": 7 + 6,
        "trimmed_tokens.first_segment": 6,
        "trimmed_tokens.second_segment": 7,
        "long_sentences": 1,
    }


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
