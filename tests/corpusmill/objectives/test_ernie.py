"""The objective ernie, from documents to rows."""

import gzip
import io
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import Column
from corpusmill.formats.output_options import OutputOptions
from corpusmill.formats.shard_formats import FORMATS, resolve
from corpusmill.objectives.columns import measure_rows, word_column
from corpusmill.objectives.ernie import ErnieMasker
from corpusmill.objectives.masking.tokens import row_keys
from corpusmill.objectives.masking.words import label_words
from tests.conftest import CHECKOUT
from tests.corpusmill.objectives import bert_examples
from tests.corpusmill.objectives.bert_examples import unmask
from tests.corpusmill.objectives.ernie_examples import (
    VOCAB_SIZE,
    build,
    continues_word,
    ernie,
)
from tests.tools.builders import (
    SPECIAL,
    Corpus,
    corpora,
    numbered_corpus,
)
from tests.tools.lazily import LazyModule

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
    masked, masker = ids.copy(), ErnieMasker(share, SPECIAL.mask_id or 0, VOCAB_SIZE)
    positions, labels, ends = masker.mask(masked, seg_labels, offsets, keys)
    assert ragged.from_arrow(static.column("input_ids"))[0].tolist() == masked.tolist()
    places, place_ends = ragged.from_arrow(static.column("masked_lm_positions"))
    assert places.tolist() == positions.tolist()
    assert place_ends.tolist() == ends.tolist()
    assert ragged.from_arrow(static.column("masked_lm_ids"))[0].tolist() == labels.tolist()
    assert static.column("seg_labels") == plain.column("seg_labels")


def test_words_are_counted_by_their_first_tokens() -> None:
    labels = np.array([-1, 0, 1, 1, -1, 0, -1, -1, -1, -1, -1, 0, 0, -1, 0, 1, -1], np.int8)
    column = ragged.to_arrow(labels, np.array([0, 7, 10, 17], np.int32))
    rows = pa.RecordBatch.from_arrays([column], ["seg_labels"])
    for batch, numbers in ((rows, [2, 0, 3]), (rows.slice(2), [3])):
        assert measure_rows(batch, [word_column(7)])["words"].tolist() == numbers


def test_special_tokens_that_are_written_in_the_text_are_in_no_word() -> None:
    # The ids 2 and 3 are [CLS] and [SEP]; the token after them begins a word.
    corpus = {0: [[10, 3, 10, 2, 11, 4, 13]], 1: [[12]]}
    for row in build(corpus, max_seq_length=40).to_pylist():
        if row["document"] == 0:
            assert row["seg_labels"][:9] == [-1, 0, -1, 0, -1, 0, 1, 1, -1]


def test_columns_take_the_smallest_types_and_an_unmasked_set_has_no_masks() -> None:
    plain = {column.name: column for column in ernie().columns}
    assert list(plain) == ["input_ids", "token_type_ids", "seg_labels", "next_sentence_label"]
    static = {column.name: column for column in ernie(mask="static").columns}
    assert static["masked_lm_positions"].dtype == "int16"
    assert static["masked_lm_positions"].width == 509  # without a cap
    assert [column.pad for column in static.values()] == [0, 0, -1, 0, 0, 0]


stats = LazyModule("scipy.stats")

LINES = CHECKOUT.parent / "shared" / "data" / "ernie" / "demo_valid_set.gz"
COLUMNS = (
    Column("input_ids", "int32", "", 512, 0),
    Column("token_type_ids", "int8", "", 512, 0),
    Column("seg_labels", "int8", "", 512, -1),
    Column("next_sentence_label", "int8", ""),
)
OPTIONS = resolve(OutputOptions("ernie-text"), COLUMNS)
OF = FORMATS["ernie-text"]


@pytest.fixture(scope="module")
def rows() -> pa.RecordBatch:
    """The sequences that the original comes with, in one batch."""
    if not LINES.exists():
        pytest.skip(f"the sequences of the original are not in {LINES}")
    with LINES.open("rb") as stream:
        return pa.concat_batches(list(OF.read([stream], COLUMNS, OPTIONS, 1000)))


def test_every_line_of_the_original_is_read_and_written_as_it_was(rows: pa.RecordBatch) -> None:
    sink = io.BytesIO()
    writer = OF.open_writer([sink], COLUMNS, OPTIONS)
    writer.write(rows)
    writer.close()
    expected = gzip.decompress(LINES.read_bytes())
    assert rows.num_rows == expected.count(b"\n")
    assert gzip.decompress(sink.getvalue()) == expected


def test_their_words_are_labelled_as_ours_are(rows: pa.RecordBatch) -> None:
    input_ids, offsets = ragged.from_arrow(rows.column("input_ids"))
    expected, _ = ragged.from_arrow(rows.column("seg_labels"))
    in_words = np.ones(input_ids.max() + 1, np.bool_)
    in_words[[1, 2]] = False  # [CLS] and [SEP]
    continues = (expected == 1).astype(np.uint8)
    labels = label_words(input_ids, continues, offsets.astype(np.int64), in_words, False)
    np.testing.assert_array_equal(labels, expected)
