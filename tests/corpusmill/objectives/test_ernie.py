from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import arrow_schema
from corpusmill.formats.output_options import OutputOptions
from corpusmill.formats.shard_formats import resolve
from corpusmill.objectives.ernie import mask_sequences
from corpusmill.objectives.masking.tokens import row_keys
from corpusmill.objectives.masking.words import count_words
from tests.corpusmill.objectives import bert_examples
from tests.corpusmill.objectives.bert_examples import unmask
from tests.corpusmill.objectives.ernie_examples import (
    VOCAB_SIZE,
    build,
    continues_word,
    ernie,
    marked,
)
from tests.tools.builders import (
    SPECIAL,
    Corpus,
    assert_measured,
    build_pass,
    corpora,
    numbered_corpus,
    pool_of,
)

CORPUS = numbered_corpus([[3, 9, 1], [17], [5, 40, 2, 8], [1, 1, 1], [12, 12]])

modes = st.sampled_from(["dynamic", "static"])


@given(corpora, st.integers(5, 60), st.integers(0, 3), modes)
def test_labels_are_minus_one_at_special_tokens_and_tell_words_elsewhere(
    corpus: Corpus, max_seq_length: int, repeat: int, mode: str
) -> None:
    beginnings = {sentence[0] for document in corpus.values() for sentence in document}
    rows = build(corpus, repeat=repeat, max_seq_length=max_seq_length, mask=mode)
    for example in ernie(max_seq_length=max_seq_length, mask=mode).finish(rows, False).to_pylist():
        original, labels = unmask(example), example["seg_labels"]
        assert len(original) <= max_seq_length
        for place, (token, label) in enumerate(zip(original, labels, strict=True)):
            if token in {SPECIAL.cls_id, SPECIAL.sep_id}:
                assert label == -1
            elif original[place - 1] in {SPECIAL.cls_id, SPECIAL.sep_id} or token in beginnings:
                assert label == 0
            else:
                assert label == continues_word(token)
        assert original[0] == SPECIAL.cls_id
        assert labels.count(-1) == 3
        second = labels.index(-1, 1) + 1
        types = [0] * second + [1] * (len(labels) - second)
        assert example["token_type_ids"] == types


@given(corpora, st.integers(5, 60), st.integers(0, 3))
def test_pairs_are_those_of_bert(corpus: Corpus, max_seq_length: int, repeat: int) -> None:
    ours = build(corpus, repeat=repeat, max_seq_length=max_seq_length).to_pylist()
    berts = bert_examples.build(corpus, repeat=repeat, max_seq_length=max_seq_length).to_pylist()
    for one, other in zip(ours, berts, strict=True):
        assert one["input_ids"] == unmask(other)
        for name in ("document", "repeat", "index", "first_length", "next_sentence_label"):
            assert one[name] == other[name]


@given(corpora, st.floats(0, 1), st.integers(0, 3))
def test_static_masks_are_the_kernels(corpus: Corpus, share: float, repeat: int) -> None:
    options: dict[str, Any] = {"max_seq_length": 40, "mask_word_prob": share}
    plain = build(corpus, repeat=repeat, **options)
    static = build(corpus, repeat=repeat, mask="static", **options)
    ids, offsets = ragged.from_arrow(plain.column("input_ids"))
    seg_labels, _ = ragged.from_arrow(plain.column("seg_labels"))
    owners, indices = (plain.column(name).to_numpy() for name in ("document", "index"))
    keys = row_keys(np.uint64(1), owners, repeat, indices)
    masked, positions, labels, ends = mask_sequences(
        ids, seg_labels, offsets, keys, share, SPECIAL.mask_id or 0, VOCAB_SIZE
    )
    assert ragged.from_arrow(static.column("input_ids"))[0].tolist() == masked.tolist()
    places, place_ends = ragged.from_arrow(static.column("masked_lm_positions"))
    assert places.tolist() == positions.tolist()
    assert place_ends.tolist() == ends.tolist()
    assert ragged.from_arrow(static.column("masked_lm_ids"))[0].tolist() == labels.tolist()
    assert static.column("seg_labels") == plain.column("seg_labels")


@given(corpora, st.data())
def test_a_document_gives_the_same_examples_in_any_batch(
    corpus: Corpus, data: st.DataObject
) -> None:
    one = data.draw(st.sampled_from(sorted(corpus)))
    travelling = marked(corpus)
    objective = ernie(max_seq_length=40, mask="static", mask_word_prob=0.5)
    whole = build_pass(objective, travelling, 2, 7)
    alone = build_pass(objective, {one: travelling[one]}, 2, 7, pool_of(travelling))
    assert [row for row in whole.to_pylist() if row["document"] == one] == alone.to_pylist()


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("mode", ["dynamic", "static"])
def test_what_is_measured_is_what_the_rows_tell(mode: str, padded: bool) -> None:
    objective = ernie(max_seq_length=40, mask=mode)
    rows = build(CORPUS, max_seq_length=40, mask=mode).slice(3)
    finished = objective.finish(rows, padded)
    assert finished.schema == arrow_schema(objective.columns, padded)
    assert ("predictions" in assert_measured(objective, rows, finished)) == (mode == "static")


def test_words_are_counted_by_their_first_tokens() -> None:
    labels = np.array([-1, 0, 1, 1, -1, 0, -1, -1, -1, -1, -1, 0, 0, -1, 0, 1, -1], np.int8)
    assert count_words(labels, np.array([0, 7, 10, 17], np.int32)).tolist() == [2, 0, 3]
    assert count_words(labels, np.array([10, 17], np.int32)).tolist() == [3]


def test_special_tokens_that_are_written_in_the_text_are_in_no_word() -> None:
    # The ids 2 and 3 are [CLS] and [SEP]; the token after them begins a word.
    corpus = {0: [[10, 3, 10, 2, 11, 4, 13]], 1: [[12]]}
    for row in build(corpus, max_seq_length=40).to_pylist():
        if row["document"] == 0:
            assert row["seg_labels"][:9] == [-1, 0, -1, 0, -1, 0, 1, 1, -1]


def test_padding_is_no_word() -> None:
    objective = ernie(max_seq_length=40)
    built = build({0: [[10, 11]], 1: [[12]]}, max_seq_length=40)
    row = objective.finish(built, True).to_pylist()[0]
    length = row["input_ids"].index(SPECIAL.sep_id, 4) + 1
    assert row["input_ids"][length:] == [SPECIAL.pad_id] * (40 - length)
    assert row["seg_labels"][length:] == [-1] * (40 - length)


@pytest.mark.parametrize("output_format", ["parquet", "tfrecord"])
@pytest.mark.parametrize("mode", ["dynamic", "static"])
def test_rows_may_be_padded(mode: str, output_format: Literal["parquet", "tfrecord"]) -> None:
    options = OutputOptions(output_format, padding="max_length")
    assert resolve(options, ernie(mask=mode).columns).is_padded


def test_columns_take_the_smallest_types_and_an_unmasked_set_has_no_masks() -> None:
    plain = {column.name: column for column in ernie().columns}
    assert list(plain) == ["input_ids", "token_type_ids", "seg_labels", "next_sentence_label"]
    static = {column.name: column for column in ernie(mask="static").columns}
    assert static["masked_lm_positions"].dtype == "int16"
    assert static["masked_lm_positions"].width == 509  # without a cap
    assert [column.pad for column in static.values()] == [0, 0, -1, 0, 0, 0]
