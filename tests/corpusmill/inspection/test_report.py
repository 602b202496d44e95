"""Figures of a data set, and its examples as people read them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from corpusmill.arrays.columns import ANY_LENGTH, Column, Role
from corpusmill.dataset.manifest import Manifest, Split
from corpusmill.dataset.manifest_entries import as_mapping, recount
from corpusmill.dataset.shards import read_manifest, read_shard
from corpusmill.errors import UserError
from corpusmill.formats.output_options import OutputOptions, Padding
from corpusmill.inspection.decoded_examples import (
    DecodedExample,
    DrawnExample,
    Piece,
    decode_examples,
    draw_examples,
    name_segments,
    write_plainly,
)
from corpusmill.inspection.figures import Distribution, figures_of, summarize
from corpusmill.location import locate
from corpusmill.objectives.bert import Bert, BertOptions
from tests.tools.builders import SPECIAL
from tests.tools.corpus_files import split_documents
from tests.tools.knobs import knobs
from tests.tools.manifests import INPUT_IDS
from tests.tools.small_datasets import WITH_REJECT, Recipe, bert_tokenizer, write_dataset

VOCABULARY = "[PAD] [UNK] [CLS] [SEP] [MASK] the light ##house tree ##s stands \x1b[31m"
ID = {token: number for number, token in enumerate(VOCABULARY.split())}
COLUMNS = Bert(BertOptions(max_seq_length=64), SPECIAL, len(ID), "int16").columns


def word_pieces() -> str:
    return Tokenizer(models.WordPiece(ID, unk_token="[UNK]")).to_str()  # noqa: S106 - no password


def batch(
    tokens: str, types: list[int], predicted: dict[int, str], label: int = 0
) -> pa.RecordBatch:
    ids = [ID[token] for token in tokens.split()]
    rows = {
        "input_ids": [ids],
        "token_type_ids": [types],
        "next_sentence_label": [label],
        "masked_lm_positions": [list(predicted)],
        "masked_lm_ids": [[ID[token] for token in predicted.values()]],
    }
    return pa.RecordBatch.from_pydict(rows)


def decode(rows: pa.RecordBatch, columns: Sequence[Column] = COLUMNS) -> DecodedExample:
    (decoded,) = decode_examples(rows, columns, word_pieces(), SPECIAL)
    return decoded


def ids_of(*token_ids: int) -> pa.RecordBatch:
    """A row of a data set without other columns."""
    return pa.RecordBatch.from_pydict({"input_ids": [token_ids]})


def segments(decoded: DecodedExample) -> list[str]:
    return [write_plainly(segment) for segment in decoded.segments]


def test_an_example_reads_as_a_person_writes_it() -> None:
    tokens = "[CLS] the [MASK] ##house ##s [SEP] tree light [MASK] [SEP]"
    predicted = {2: "light", 6: "stands", 7: "light", 8: "##house"}
    decoded = decode(batch(tokens, [0] * 6 + [1] * 4, predicted, label=1))
    assert segments(decoded) == ["the [MASK->light]houses", "[tree->stands] [=light][MASK->house]"]
    assert (decoded.length, decoded.predictions) == (10, 4)
    assert decoded.classes == {"second segment": "random"}


def test_braces_are_text() -> None:
    assert write_plainly((Piece("a}", False, "replaced", "{"),)) == "[{->a}]"


def test_odd_values_are_shown_as_they_are() -> None:
    for label in (2, -1):
        row = batch("[CLS] the [SEP] [SEP]", [0, 0, 0, 1], {}, label)
        assert decode(row).classes == {"second segment": str(label)}
    decoded = decode(batch("[CLS] tree light [SEP] [SEP]", [0, 0, 0, 0, 1], {2: "##s"}))
    assert decoded.segments[0] == (
        Piece("tree", False, "plain", "tree"),
        Piece("s", True, "replaced", "light"),
    )
    assert segments(decoded) == ["tree[light->s]", ""]
    # Text cannot steer a terminal.
    row = batch("[CLS] \x1b[31m [SEP] [SEP]", [0, 0, 0, 1], {})
    assert segments(decode(row))[0] == "\\u001b[31m"
    assert segments(decode(ids_of(2, 5, 900, 3), [INPUT_IDS])) == ["the [id 900]"]
    plain = decode(ids_of(5, 6, 7), [INPUT_IDS])
    assert segments(plain) == ["the lighthouse"]
    assert (plain.classes, plain.predictions, name_segments(plain)) == ({}, None, ["A"])


def test_packed_documents_are_segments_with_numbers() -> None:
    boundaries = Column("cu_seqlens", "int8", "ends", 65, role=Role.BOUNDARIES)
    rows = pa.RecordBatch.from_pydict(
        {"input_ids": [[5, 6, 7, 5, 0]], "cu_seqlens": [[0, 1, 3, 4, 0]]}
    )
    decoded = decode(rows, [INPUT_IDS, boundaries])
    assert segments(decoded) == ["the", "lighthouse", "the"]
    assert name_segments(decoded) == ["1", "2", "3"]


def test_a_book_is_not_spelled_to_its_end() -> None:
    decoded = decode(ids_of(*[5] * 3000), [INPUT_IDS])
    assert decoded.length == 3000
    assert segments(decoded) == ["the " * 1024 + "... and 1,976 more tokens"]


def test_a_stream_has_examples_and_no_padding() -> None:
    lengths = Distribution("length", {3: 5, 7: 3})
    columns = [replace(INPUT_IDS, width=ANY_LENGTH)]
    shown = figures_of({"length": lengths}, {"max_seq_length": 8}, columns)
    figures = {figure.name: figure for figure in shown}
    assert figures["examples to cut"].value == (36 - 8 - 1) // 8 + 1
    assert figures["length"].value == 36 / 8
    assert "padding" not in figures


def test_tokens_that_hold_their_space_are_read() -> None:
    for vocabulary, token_ids, text in (
        ({"\u0120the": 0, "\u0120light": 1, "house": 2}, (0, 1, 2), "the lighthouse"),
        ({"\u0120": 0, "a": 1, "\u0120b": 2, "[PAD]": 3}, (1, 0, 1, 2), "a a b"),
    ):
        tokenizer = Tokenizer(models.BPE(vocabulary, []))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        [decoded] = decode_examples(ids_of(*token_ids), [INPUT_IDS], tokenizer.to_str(), SPECIAL)
        assert segments(decoded) == [text]


@pytest.mark.parametrize("padding", ["do_not_pad", "max_length"])
def test_every_built_example_reads_as_its_text(
    padding: Padding, sample: Path, tmp_path: Path
) -> None:
    """With the originals in place, each segment is a stretch of some document's words."""
    recipe = Recipe(output=OutputOptions(padding=padding), shards=1)
    manifest = write_dataset(tmp_path / "out", recipe)
    [shard] = manifest.splits["train"].shards
    folder = locate(str(tmp_path / "out"))
    rows = pa.concat_batches(read_shard(folder, manifest, shard.file))
    tokenizer_json = bert_tokenizer().json
    normalizer = Tokenizer.from_str(tokenizer_json).normalizer
    letters = [
        normalizer.normalize_str("".join(document)).replace(" ", "")
        for document in split_documents(sample)
    ]
    special = read_manifest(folder).tokenizer.special
    assert special == bert_tokenizer().special
    decoded = decode_examples(rows, manifest.columns, tokenizer_json, special)
    assert len(decoded) == shard.rows > 20
    for example in decoded:
        assert len(example.segments) == 2
        assert sum(len(segment) for segment in example.segments) == example.length - 3
        pieces = [piece for segment in example.segments for piece in segment]
        assert example.predictions == sum(piece.kind != "plain" for piece in pieces)
        for segment in example.segments:
            spelled = "".join(piece.text for piece in segment)
            assert any(spelled in document for document in letters)
    kinds = {piece.kind for example in decoded for segment in example.segments for piece in segment}
    assert kinds == {"plain", "masked", "replaced", "kept"}


def test_recounting_tells_a_missing_second_segment_from_an_empty_one() -> None:
    rows = [[2, 9, 9, 3], [2, 9, 3, 3], [2, 9, 3, 9, 3]]
    types = [[0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 1, 1]]
    lists = pa.list_(pa.int16())
    batch = pa.RecordBatch.from_arrays(
        [pa.array(column, lists) for column in (rows, types)], ["input_ids", "token_type_ids"]
    )
    counts = recount(batch, COLUMNS[:2])
    assert counts["first_segment_length"].tolist() == [0, 2, 1]
    assert counts["second_segment_length"].tolist() == [2, 1]
    assert recount(batch.slice(2, 1), COLUMNS[:2])["length"].tolist() == [0, 0, 0, 0, 0, 1]


@given(st.lists(st.integers(0, 40), min_size=1), st.integers(1, 100))
def test_a_distribution_is_that_of_its_values(values: list[int], percent: int) -> None:
    distribution = Distribution("length", as_mapping(np.bincount(values)))
    assert distribution.total == len(values)
    assert distribution.mean == pytest.approx(np.mean(values))
    assert distribution.largest == max(values)
    expected = np.percentile(values, percent, method="inverted_cdf")
    assert distribution.percentile(percent) == expected
    empty = Distribution("length", {})
    answers = (empty.total, empty.mean, empty.largest, empty.percentile(50), empty.share(3))
    assert answers == (0, 0.0, 0, 0, 0.0)


def figures(manifest: Manifest, split: str = "train") -> dict[str, float]:
    (summary,) = [entry for entry in summarize(manifest).splits if entry.name == split]
    return {figure.name: figure.value for figure in summary.figures}


@pytest.mark.parametrize("cap", [2, None], ids=["capped", "true share"])
@pytest.mark.parametrize("split", ["train", "validation"])
def test_the_figures_are_those_of_the_rows(cap: int | None, split: str, tmp_path: Path) -> None:
    options = BertOptions(max_seq_length=40, duplicates=2, max_predictions_per_seq=cap)
    manifest = write_dataset(tmp_path / "out", Recipe(options))
    rows = [
        row
        for path in sorted((tmp_path / "out").glob(f"{split}-*"))
        for row in pq.read_table(path).to_pylist()
    ]
    lengths = [len(row["input_ids"]) for row in rows]
    predictions = [len(row["masked_lm_ids"]) for row in rows]
    seconds = [sum(row["token_type_ids"]) - 1 for row in rows]
    values = figures(manifest, split)
    expected = {
        "at the full length": np.mean([length == 40 for length in lengths]),
        "padding": 1 - sum(lengths) / (40 * len(rows)),
        "masked": sum(predictions) / (sum(lengths) - 3 * len(rows)),
        "random second segment": np.mean([row["next_sentence_label"] for row in rows]),
        "empty second segment": np.mean([length == 0 for length in seconds]),
        "length": np.mean(lengths),
        "second segment length": np.mean(seconds),
    }
    if cap is not None:
        expected["at the most predictions"] = np.mean([number == cap for number in predictions])
    assert {name: values[name] for name in expected} == pytest.approx(expected)
    assert ("at the most predictions" in values) == (cap is not None)


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    return write_dataset(tmp_path_factory.mktemp("report") / "out")


def test_distributions_of_other_objectives_get_a_line(manifest: Manifest) -> None:
    train = replace(manifest.splits["train"], distributions={"words_masked": {0: 1, 2: 3}})
    (figure,) = summarize(replace(manifest, splits={"train": train})).splits[0].figures
    assert (figure.name, figure.value) == ("words masked", 1.5)
    assert "largest 2" in figure.meaning


def test_rejects_are_reported(manifest: Manifest, tmp_path: Path) -> None:
    assert summarize(write_dataset(tmp_path / "some", Recipe(text=WITH_REJECT))).rejects == 1
    assert summarize(manifest).rejects == 0


def test_a_split_without_rows_has_a_report(manifest: Manifest) -> None:
    train = replace(manifest.splits["train"], distributions={"length": {}, "predictions": {}})
    splits = {"train": train, "validation": Split.from_shards((), {})}
    manifest = replace(manifest, splits=splits)
    report = summarize(manifest)
    assert [split.name for split in report.splits] == ["train", "validation"]
    assert figures(manifest)["padding"] == 0


def draw(folder: Path, manifest: Manifest, number: int, split: str = "train") -> list[DrawnExample]:
    tokenizer_json = (folder / "tokenizer.json").read_text()
    return draw_examples(locate(str(folder)), manifest, tokenizer_json, split, number)


@pytest.mark.parametrize("output_format", ["parquet", "tfrecord", "avro"])
def test_examples_are_drawn_from_all_shards(
    output_format: Literal["parquet", "tfrecord", "avro"], tmp_path: Path
) -> None:
    recipe = Recipe(shards=3, output=OutputOptions(output_format=output_format))
    manifest = write_dataset(tmp_path / "out", recipe)
    drawn = draw(tmp_path / "out", manifest, 90)
    assert drawn[:40] == draw(tmp_path / "out", manifest, 40)
    places = [(one.shard, one.row) for one in drawn]
    assert len(set(places)) == 90
    shards = manifest.splits["train"].shards
    counts = Counter(one.shard for one in drawn)
    for shard in shards:
        expected = 90 * shard.rows / manifest.splits["train"].rows
        assert expected / 2 < counts[shard.file] < 2 * expected
        assert {row for name, row in places if name == shard.file} == set(range(counts[shard.file]))


def test_there_are_no_more_than_all(tmp_path: Path) -> None:
    manifest = write_dataset(tmp_path / "out", Recipe(shards=2, validation_share=0.1))
    rows = manifest.splits["validation"].rows
    assert len(draw(tmp_path / "out", manifest, 10 * rows, "validation")) == rows
    assert draw(tmp_path / "out", manifest, 0) == []


@pytest.mark.parametrize("output_format", ["parquet", "tfrecord"])
def test_shards_are_not_read_to_their_ends(
    output_format: Literal["parquet", "tfrecord", "avro"], tmp_path: Path
) -> None:
    """Damage after the rows that are shown goes unnoticed."""
    recipe = Recipe(shards=1, output=OutputOptions(output_format=output_format))
    folder = tmp_path / "out"
    with knobs(group_rows=200):
        manifest = write_dataset(folder, recipe)
    shard = folder / manifest.splits["train"].shards[0].file
    content, begin = bytearray(shard.read_bytes()), -100
    end = len(content)
    if output_format == "parquet":
        footer = pq.read_metadata(shard)
        last = footer.row_group(footer.num_row_groups - 1).column(0)
        begin = last.data_page_offset
        end = begin + last.total_compressed_size
    content[begin:end] = bytes(len(content[begin:end]))
    shard.write_bytes(content)
    assert len(draw(folder, manifest, 5)) == 5
    with pytest.raises(UserError, match="its rows cannot be shown"):
        draw(folder, manifest, 10**6)
