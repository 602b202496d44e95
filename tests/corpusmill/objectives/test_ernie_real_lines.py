"""The 6,000 sequences that come with ERNIE's own code, or ones that were made like them."""

import gzip
import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from corpusmill.arrays import ragged
from corpusmill.arrays.columns import Column
from corpusmill.formats.output_options import OutputOptions
from corpusmill.formats.shard_formats import FORMATS, resolve
from corpusmill.objectives.ernie import mask_sequences
from corpusmill.objectives.masking.tokens import row_keys
from corpusmill.objectives.masking.words import label_words
from tests.conftest import CHECKOUT
from tests.tools.lazily import LazyModule

stats = LazyModule("scipy.stats")

LINES = CHECKOUT.parent / "shared" / "data" / "ernie" / "demo_valid_set.gz"
CLS, SEP, MASK, VOCAB_SIZE = 1, 2, 3, 18000
COLUMNS = (
    Column("input_ids", "int32", "", 512, 0),
    Column("token_type_ids", "int8", "", 512, 0),
    Column("seg_labels", "int8", "", 512, -1),
    Column("next_sentence_label", "int8", ""),
)
OPTIONS = resolve(OutputOptions("ernie-text"), COLUMNS)
OF = FORMATS["ernie-text"]


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the sequences."""
    if LINES.exists():
        return LINES
    path = tmp_path_factory.mktemp("ernie") / "lines.gz"
    rng = np.random.default_rng(0)
    with gzip.open(path, "wt") as stream:
        stream.writelines(make_line(rng) for _ in range(1000))
    return path


def make_line(rng: np.random.Generator) -> str:
    """A pair of segments, of words of one token or more."""
    first, second = rng.integers(1, 250, 2)
    ids = [CLS, *rng.integers(4, VOCAB_SIZE, first), SEP, *rng.integers(4, VOCAB_SIZE, second), SEP]
    words = [
        label
        for size in (first, second)
        for label in (0, *(rng.random(size - 1) < 0.4).astype(int), -1)
    ]
    types = [0] * (first + 2) + [1] * (second + 1)
    fields = (ids, types, range(len(ids)), [-1, *words])
    parts = [" ".join(map(str, field)) for field in fields]
    return ";".join([*parts, str(rng.integers(2))]) + "\n"


@pytest.fixture(scope="module")
def rows(lines: Path) -> pa.RecordBatch:
    """Return all sequences in one batch."""
    with lines.open("rb") as stream:
        return pa.concat_batches(list(OF.read([stream], COLUMNS, OPTIONS, 1000)))


def test_every_line_is_read_and_written_as_it_was(lines: Path, rows: pa.RecordBatch) -> None:
    sink = io.BytesIO()
    writer = OF.open_writer([sink], COLUMNS, OPTIONS)
    writer.write(rows)
    writer.close()
    expected = gzip.decompress(lines.read_bytes())
    assert rows.num_rows == expected.count(b"\n")
    assert gzip.decompress(sink.getvalue()) == expected


def test_their_words_are_labelled_as_ours_are(rows: pa.RecordBatch) -> None:
    input_ids, offsets = ragged.from_arrow(rows.column("input_ids"))
    expected, _ = ragged.from_arrow(rows.column("seg_labels"))
    in_words = np.ones(VOCAB_SIZE, np.bool_)
    in_words[[CLS, SEP]] = False
    continues = (expected == 1).astype(np.uint8)
    labels = label_words(input_ids, continues, offsets.astype(np.int64), in_words, False)
    np.testing.assert_array_equal(labels, expected)


@pytest.mark.parametrize("mask_word_prob", [0.0, 1.0])
def test_masking_them_gives_the_originals_shares(
    mask_word_prob: float, rows: pa.RecordBatch
) -> None:
    input_ids, offsets = ragged.from_arrow(rows.column("input_ids"))
    labels, _ = ragged.from_arrow(rows.column("seg_labels"))
    numbers = np.arange(rows.num_rows)
    keys = row_keys(np.uint64(3), np.zeros(rows.num_rows, np.uint64), 0, numbers.astype(np.uint32))
    masked, positions, originals, ends = mask_sequences(
        input_ids, labels, offsets.astype(np.int64), keys, mask_word_prob, MASK, VOCAB_SIZE
    )
    places = positions + np.repeat(offsets[:-1], np.diff(ends))
    np.testing.assert_array_equal(input_ids[places], originals)
    assert (labels[places] != -1).all()
    maskable = int((labels != -1).sum())
    # The tokens of a word are chosen together; words of one token are independent.
    alone = (labels == 0) & np.append(labels[1:] != 1, True)
    chosen = np.zeros(len(labels), np.bool_)
    chosen[places] = True
    is_open = alone if mask_word_prob else labels != -1
    assert stats.binomtest(int(chosen[is_open].sum()), int(is_open.sum()), 0.15).pvalue > 1e-4
    assert abs(len(places) / maskable - 0.15) < 0.005
    to_mask = int((masked[places] == MASK).sum())
    kept = int((masked[places] == originals).sum())
    counts = [to_mask, kept, len(places) - to_mask - kept]
    expected = np.array([0.8, 0.1, 0.1]) * len(places)
    assert stats.chisquare(counts, expected).pvalue > 1e-4
