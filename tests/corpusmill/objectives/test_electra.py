import dataclasses

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays.columns import IDENTITY_SCHEMA, arrow_schema
from corpusmill.objectives.electra import ElectraOptions
from tests.corpusmill.objectives.electra_examples import corpora, electra, kernel_packs, options
from tests.tools.builders import SPECIAL, Corpus, batch_of, build_pass, numbered_corpus, seeds


def build(
    corpus: Corpus, given_options: ElectraOptions, seed: int = 1, repeat: int = 0
) -> pa.RecordBatch:
    """Build one pass over a corpus."""
    return build_pass(electra(given_options), corpus, repeat, seed)


# Options


def test_the_defaults_are_the_originals() -> None:
    assert dataclasses.asdict(ElectraOptions()) == {
        "max_seq_length": 128,
        "duplicates": 1,
        "short_seq_prob": 0.05,
        "single_segment_prob": 0.1,
        "blanks_separate_docs": True,
        "overflow": "drop",
        "merge_documents": False,
    }


# Rows


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


@given(corpora, options, seeds, st.data())
def test_finished_rows_ragged_and_padded(
    corpus: Corpus, given_options: ElectraOptions, seed: int, data: st.DataObject
) -> None:
    objective, examples = electra(given_options), build(corpus, given_options, seed)
    start = data.draw(st.integers(0, examples.num_rows - 1))
    examples = examples.slice(start, data.draw(st.integers(1, examples.num_rows)))
    plain, padded = (objective.finish(examples, padded) for padded in (False, True))
    assert plain.schema == arrow_schema(objective.columns)
    assert padded.schema == arrow_schema(objective.columns, padded=True)
    rows = zip(examples.to_pylist(), plain.to_pylist(), padded.to_pylist(), strict=True)
    for example, row, full in rows:
        length, first = len(example["input_ids"]), example["first_length"] + 2
        assert row["input_ids"] == example["input_ids"]
        assert row["token_type_ids"] == [0] * first + [1] * (length - first)
        filling = [0] * (given_options.max_seq_length - length)
        assert full == {name: values + filling for name, values in row.items()}


@given(corpora, options, seeds, st.data())
def test_measures_are_those_of_the_rows(
    corpus: Corpus, given_options: ElectraOptions, seed: int, data: st.DataObject
) -> None:
    objective, examples = electra(given_options), build(corpus, given_options, seed)
    examples = examples.slice(data.draw(st.integers(0, examples.num_rows - 1)))
    lengths, firsts, seconds = [], [], []
    for row in objective.finish(examples, False).to_pylist():
        lengths.append(len(row["input_ids"]))
        seconds.append(max(0, sum(row["token_type_ids"]) - 1))
        firsts.append(lengths[-1] - seconds[-1] - (3 if seconds[-1] else 2))
    measured = objective.measure(examples)
    assert {name: counts.tolist() for name, counts in measured.items()} == {
        "length": np.bincount(lengths).tolist(),
        "first_segment_length": np.bincount(firsts).tolist(),
        "second_segment_length": np.bincount(seconds).tolist(),
    }


@given(corpora, options, seeds)
def test_every_token_is_in_a_row_or_counted(
    corpus: Corpus, given_options: ElectraOptions, seed: int
) -> None:
    objective, examples = electra(given_options), build(corpus, given_options, seed)
    measured, counts = objective.measure(examples), objective.count(batch_of(corpus), examples)
    lengths = [measured[f"{segment}_segment_length"] for segment in ("first", "second")]
    written = sum(int(numbers @ np.arange(len(numbers))) for numbers in lengths)
    tokens = sum(len(sentence) for document in corpus.values() for sentence in document)
    assert written + counts["trimmed_tokens"] == tokens
    if given_options.overflow == "keep":
        assert written == tokens


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
