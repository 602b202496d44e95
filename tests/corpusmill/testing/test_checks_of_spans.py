"""Spans that are not those of a row are found by `check_objective`."""

from dataclasses import replace

import pyarrow as pa
import pytest

from corpusmill.arrays import ragged
from corpusmill.objectives.bert import BertOptions
from corpusmill.objectives.columns import SPANS
from corpusmill.objectives.t5 import T5Options
from corpusmill.testing.objectives import check_spans
from tests.tools.builders import Corpus, batch_of, build_pass, numbered_corpus
from tests.tools.small_datasets import bert_tokenizer, t5_tokenizer

CORPUS: Corpus = {
    document: [[100 + token for token in sentence] for sentence in sentences]
    for document, sentences in numbered_corpus([[9, 3], [4]], 7).items()
}
TOKENIZER = replace(bert_tokenizer(), vocab_size=1000)


def check(spans: list[list[int]]) -> None:
    """Check two rows, [CLS] document 7 [SEP] and [CLS] document 8 [SEP], with other spans."""
    objective = BertOptions("doc-sentences", 20, masked_lm_prob=0.5).bind(TOKENIZER)
    rows = build_pass(objective, CORPUS)
    assert rows.column(SPANS.name).to_pylist() == [[7, 0, 12], [8, 0, 4]]
    lists = pa.array(spans, pa.list_(pa.uint64()))
    place = rows.schema.get_field_index(SPANS.name)
    changed = ragged.to_batch([*rows.columns[:place], lists], rows.schema)
    check_spans(objective.columns, changed, batch_of(CORPUS), TOKENIZER.special, False)


def test_other_spans_than_those_of_the_rows_are_found() -> None:
    check([[7, 0, 12], [8, 0, 4]])
    for spans, message in (
        ([7, 1, 11], "not those of its spans"),
        ([8, 0, 4], "not those of its spans"),
        ([], "not those of its spans"),
        ([7, 1, 12], "ends after it"),
        ([9, 0, 12], "which does not exist"),
        ([7, 0, 12, 7, 3, 0], "is empty"),
        ([7, 0, 9, 7, 9, 3], "is not joined"),
        ([7, 0], "not three numbers each"),
    ):
        with pytest.raises(AssertionError, match=message):
            check([spans, [8, 0, 4]])


def test_targets_are_tokens_of_the_row() -> None:
    tokenizer = t5_tokenizer()
    options = T5Options(max_seq_length=30)
    objective = options.bind(tokenizer.with_roles(options.special_tokens))
    built = build_pass(objective, CORPUS)
    keyed = built.append_column("key", pa.array([1, 2], pa.uint64()))
    [rows] = objective.pack(iter([keyed]))
    check_spans(objective.columns, rows, batch_of(CORPUS), tokenizer.special, False)
    lists = pa.array([[7, 0, 12]], pa.list_(pa.uint64()))
    changed = rows.set_column(rows.schema.get_field_index(SPANS.name), SPANS.name, lists)
    with pytest.raises(AssertionError, match="not those of its spans"):
        check_spans(objective.columns, changed, batch_of(CORPUS), tokenizer.special, False)
