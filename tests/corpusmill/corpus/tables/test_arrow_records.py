"""What only Arrow has: files and streams, dictionaries, compressed buffers, footers."""

import io
import re
import struct
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.input_formats import check_start
from corpusmill.errors import UserError
from tests.tools.knobs import knobs
from tests.tools.lazily import LazyModule
from tests.tools.table_files import arrow_file, arrow_stream, read

datasets = LazyModule("datasets")

OPTIONS = DocumentOptions(input_format="arrow")
CONTENT = [b"a", b"", None, b"a\nb", "é".encode(), b"a", b"c" * 200]
both = pytest.mark.parametrize("write", [arrow_file, arrow_stream])


@both
@pytest.mark.parametrize(
    "kind",
    [
        pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(),
        pa.binary_view(), pa.dictionary(pa.int8(), pa.string()),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("codec", [None, "lz4", "zstd"])
def test_every_type_and_codec(write: object, kind: pa.DataType, codec: str | None) -> None:
    data = write(CONTENT, 2, kind, compression=codec)  # type: ignore[operator]
    for cuts in ([], [len(data) // 3, len(data) // 2]):
        result = read(data, OPTIONS, cuts)
        expected = [["a"], ["a", "b"], ["é"], ["a"], ["c" * 200]]
        assert result.texts == expected
        assert result.reasons == ["not-text"]


def _with_dictionaries(new: object, **options: bool) -> bytes:
    """Write batches whose dictionary grows or changes from one to the next."""
    sink = io.BytesIO()
    schema = pa.schema([("text", pa.dictionary(pa.int8(), pa.string()))])
    write_options = pa.ipc.IpcWriteOptions(**options)
    with new(sink, schema, options=write_options) as writer:  # type: ignore[operator]
        for values in (["a"], ["a", "b"], ["a", "b", "c"]):
            column = pa.DictionaryArray.from_arrays(pa.array([len(values) - 1, 0]), values)
            writer.write_batch(pa.record_batch([column.cast(schema[0].type)], schema=schema))
    return sink.getvalue()


@pytest.mark.parametrize(
    ("new", "options"),
    [
        (pa.ipc.new_stream, {}),
        (pa.ipc.new_stream, {"emit_dictionary_deltas": True}),
        (pa.ipc.new_file, {"emit_dictionary_deltas": True}),
        (pa.ipc.new_file, {"unify_dictionaries": True}),
    ],
)
def test_dictionaries_that_grow(new: object, options: dict[str, bool]) -> None:
    if "unify_dictionaries" in options:
        content = [b"a", b"a", b"b", b"a", b"c", b"a"]
        data = arrow_file(content, 2, pa.dictionary(pa.int8(), pa.string()), **options)
    else:
        data = _with_dictionaries(new, **options)
    for cut in (0, len(data) // 2, len(data) * 3 // 4):
        assert read(data, OPTIONS, [cut]).sentences == ["a", "a", "b", "a", "c", "a"]


@both
def test_streams_of_before_arrow_0_15(write: object) -> None:
    data = write(CONTENT, 2, use_legacy_format=True)  # type: ignore[operator]
    assert len(read(data, OPTIONS, [100, 500]).documents) == 5


def test_what_save_to_disk_writes(tmp_path: Path) -> None:
    texts = [f"text {number}\nline" for number in range(2500)]
    datasets.Dataset.from_dict({"n": range(2500), "text": texts}).save_to_disk(tmp_path / "saved")
    data = (tmp_path / "saved/data-00000-of-00001.arrow").read_bytes()
    loaded = datasets.load_from_disk(str(tmp_path / "saved"))["text"]
    result = read(data, OPTIONS, range(0, len(data), 9999))
    assert ["\n".join(lines) for lines in result.texts] == list(loaded)


def test_data_after_the_end_of_a_stream_is_reported() -> None:
    data = arrow_stream(CONTENT, 3)
    result = read(data + data, OPTIONS, [len(data) + 1])
    assert result.reasons == ["not-text", "damaged-block"]
    assert "more data after the end of the stream" in result.rejects[1].detail
    assert result.places[1] == (len(data), len(data), "damaged-block")


def test_a_file_without_its_footer_is_read_and_reported() -> None:
    data = arrow_file(CONTENT, 3)
    result = read(data[:-4], OPTIONS)
    assert result.reasons[:1] == ["not-text"]
    assert result.reasons[1:] in (["damaged-block"], ["damaged-file"])
    assert len(result.documents) == 5


@both
def test_offsets_that_point_outside_are_damage(write: object) -> None:
    data = write([b"abcd", b"ef"], 2)  # type: ignore[operator]
    offsets = struct.pack("<3i", 0, 4, 6)
    assert data.count(offsets) == 1
    for wrong in ((0, 4, 2**30), (0, 9, 6), (-5, 4, 6)):
        result = read(data.replace(offsets, struct.pack("<3i", *wrong)), OPTIONS)
        assert result.reasons == ["damaged-block"]
        assert result.counts.rejected_rows == 2


@both
def test_a_batch_that_misstates_its_rows_is_damaged(write: object) -> None:
    data = write([b"ab"] * 77, 77)  # type: ignore[operator]
    places = [match.start() for match in re.finditer(re.escape(struct.pack("<q", 77)), data)]
    assert len(places) == 4  # for the batch, and for each column
    wrong = struct.pack("<q", 2**28 + 1)
    results = [read(data[:place] + wrong + data[place + 8 :], OPTIONS) for place in places]
    # The numbers of columns that are not read do not matter.
    assert sorted(((*one.reasons, one.counts.rows) for one in results), key=str) == [
        ("damaged-block", 0), ("damaged-block", 0), (77,), (77,),
    ]  # fmt: skip


def test_feather_of_version_1_is_refused() -> None:
    with pytest.raises(UserError, match="Feather version 1"):
        check_start(io.BytesIO(b"FEA1" + bytes(100) + b"FEA1"), "f", OPTIONS)


@pytest.mark.parametrize(("limit", "reasons"), [(803, ["block-too-large"]), (804, [])])
def test_a_nested_value_that_is_too_large_does_not_become_objects(
    limit: int, reasons: list[str]
) -> None:
    sink = io.BytesIO()
    rows = pa.table({"text": ["a", "b"], "numbers": pa.array([[1], [1] * 100])})
    with pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=1)
    with knobs(nested_bytes=limit):
        result = read(sink.getvalue(), replace(OPTIONS, keep_fields=("numbers",)))
    assert (result.sentences[:1], result.reasons) == (["a"], reasons)


POLARS_TEXTS = ["some text that is long enough not to be inlined", "b", None, "", "a\nb", "é"] * 3
POLARS_WRITERS = ["write_ipc", "write_ipc_stream", "write_parquet"]


@pytest.mark.parametrize("write", POLARS_WRITERS)
@pytest.mark.parametrize("codec", ["uncompressed", "lz4", "zstd"])
@pytest.mark.parametrize("kind", ["String", "Categorical", "Enum", "Struct"])
def test_what_polars_writes(write: str, codec: str, kind: str) -> None:
    pl = pytest.importorskip("polars", reason="files of polars are written by polars itself")
    text = pl.Series("text", POLARS_TEXTS, dtype=pl.String)
    if kind == "Struct":
        text = pl.DataFrame([text, text.alias("other")]).to_struct("data")
    elif kind != "String":
        text = text.cast(pl.Enum(text.drop_nulls().unique()) if kind == "Enum" else pl.Categorical)
    frame = pl.DataFrame([pl.Series("id", range(len(text))), text])
    sink = io.BytesIO()
    # Several record batches, where polars lets one choose.
    size = {"write_ipc": {"record_batch_size": 4}, "write_parquet": {"row_group_size": 4}}
    getattr(frame, write)(sink, compression=codec, **size.get(write, {}))
    data = sink.getvalue()
    name = "data.text" if kind == "Struct" else "text"
    options = DocumentOptions(
        "parquet" if write == "write_parquet" else "arrow", text_field=name, keep_fields=("id",)
    )
    check_start(io.BytesIO(data), "f", options)
    expected = [(text.split("\n"), str(row)) for row, text in enumerate(POLARS_TEXTS) if text]
    for cuts in ([], [len(data) // 3, len(data) // 2], list(range(0, len(data), 100))):
        content = read(data, options, cuts)
        fields = [row["id"] for row in content.fields]
        assert list(zip(content.texts, fields, strict=True)) == expected
        assert content.reasons == ["not-text"] * 3


def test_what_polars_writes_of_no_rows() -> None:
    pl = pytest.importorskip("polars", reason="files of polars are written by polars itself")
    for write in POLARS_WRITERS[:2]:
        sink = io.BytesIO()
        getattr(pl.DataFrame({"text": pl.Series([], dtype=pl.String)}), write)(sink)
        check_start(sink, "f", OPTIONS)
        content = read(sink.getvalue(), OPTIONS)
        assert (content.texts, content.reasons) == ([], [])


def test_a_cut_file_of_polars_is_refused_and_costs_its_bytes() -> None:
    pl = pytest.importorskip("polars", reason="files of polars are written by polars itself")
    sink = io.BytesIO()
    pl.DataFrame({"text": POLARS_TEXTS}).write_ipc(sink)
    for end in (20, 300, len(sink.getvalue()) - 1):
        data = sink.getvalue()[:end]
        with pytest.raises(UserError, match="cannot be read as arrow"):
            check_start(io.BytesIO(data), "f", OPTIONS)
        content = read(data, OPTIONS)
        assert content.reasons == ["damaged-file"]
        assert content.counts.rejected_bytes == len(data)


@pytest.mark.parametrize("write", ["to_parquet", "to_feather"])
def test_what_pandas_writes(write: str, tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas", reason="files of pandas are written by pandas itself")
    frame = pd.DataFrame({"text": ["a", None, "b\nc"], "url": pd.Categorical(["u", "v", "u"])})
    getattr(frame, write)(tmp_path / "f")
    data = (tmp_path / "f").read_bytes()
    kind = "parquet" if write == "to_parquet" else "arrow"
    content = read(data, DocumentOptions(kind, keep_fields=("url",)), [len(data) // 2])
    assert (content.texts, content.reasons) == ([["a"], ["b", "c"]], ["not-text"])
    assert content.fields == [{"url": "u"}, {"url": "u"}]
