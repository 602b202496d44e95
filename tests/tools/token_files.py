"""Token files in small, as other tools write them, from rows of ids, and a tokenizer for them."""

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    pre_tokenizers,
    processors,
    trainers,
)

from corpusmill.formats.tfrecord import masked_checksum
from corpusmill.tokenization.compiled.byte_level_pieces import CL100K
from tests.conftest import CHECKOUT

Rows = Sequence[Sequence[int]]
Columns = Mapping[str, Rows]
NONE: Columns = MappingProxyType({})


@cache
def list_texts() -> tuple[str, ...]:
    """Paragraphs of the documents of this repository, each once."""
    pages = sorted((CHECKOUT / "docs").rglob("*.md"))
    paragraphs = (part.strip() for page in pages for part in page.read_text().split("\n\n"))
    return tuple(dict.fromkeys(part for part in paragraphs if 200 < len(part) < 2000))


@cache
def make_tokenizer() -> Tokenizer:
    """Train a tokenizer that is like that of Llama 3: it begins each text with a token."""
    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(CL100K), "isolated")
    whole = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, whole])
    tokenizer.decoder = decoders.ByteLevel()
    special = [
        AddedToken(f"<|{name}|>", special=True)
        for name in ("begin_of_text", "end_of_text", "pad", "im_start", "im_end")
    ]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=1500, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(list_texts(), trainer)
    begin = ("<|begin_of_text|>", 0)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|begin_of_text|> $A",
        pair="<|begin_of_text|> $A <|begin_of_text|> $B",
        special_tokens=[begin],
    )
    return tokenizer


BEGIN, END, PAD, TURN, TURN_END = range(5)


def save_tokenizer(folder: Path, **config: object) -> str:
    """Write the files of `make_tokenizer`, and return their folder."""
    folder.mkdir(parents=True)
    make_tokenizer().save(str(folder / "tokenizer.json"))
    names = {
        "bos_token": "<|begin_of_text|>",
        "eos_token": "<|end_of_text|>",
        "pad_token": "<|pad|>",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps({**names, **config}))
    return str(folder)


def encode_texts(number: int, tokenizer: Tokenizer | None = None) -> list[list[int]]:
    """Encode texts as documents, each with its begin and its end."""
    encoded = (tokenizer or make_tokenizer()).encode_batch(
        list_texts()[:number], add_special_tokens=False
    )
    return [[BEGIN, *encoding.ids, END] for encoding in encoded]


def _flatten(rows: Rows, dtype: str) -> np.ndarray:
    return np.array([token for row in rows for token in row], dtype)


def _ends(rows: Rows) -> np.ndarray:
    return np.cumsum([len(row) for row in rows])


def write_megatron(folder: Path, rows: Rows, _: Columns = NONE) -> None:
    """Write .bin and .idx, int32."""
    _flatten(rows, "<i4").tofile(folder / "part.bin")
    lengths = np.array([len(row) for row in rows], "<i4")
    begins = np.append(0, _ends(rows)[:-1]).astype("<i8") * 4
    head = (
        b"MMIDIDX\0\0"
        + np.uint64(1).tobytes()
        + b"\4"
        + np.array([len(rows), len(rows) + 1], "<u8").tobytes()
    )
    documents = np.arange(len(rows) + 1, dtype="<i8")
    content = head + lengths.tobytes() + begins.tobytes() + documents.tobytes()
    (folder / "part.idx").write_bytes(content)


def write_nanotron(folder: Path, rows: Rows, columns: Columns = NONE) -> None:
    """Write .ds with its index, and .loss from the column loss_mask."""
    _flatten(rows, "<u2").tofile(folder / "00000.ds")
    _ends(rows).astype("<u8").tofile(folder / "00000.ds.index")
    (folder / "00000.ds.metadata").write_text(f"llama|hf\n{_ends(rows)[-1]}\n1 T")
    if "loss_mask" in columns:
        _flatten(columns["loss_mask"], "u1").tofile(folder / "00000.ds.loss")


def write_olmo(folder: Path, rows: Rows, _: Columns = NONE) -> None:
    """Write ids alone as .npy, with a table of documents."""
    _flatten(rows, "<u4").tofile(folder / "part-0.npy")
    ends = _ends(rows).tolist()
    lines = (
        f"{begin},{end},{n},a,{n}\n"
        for n, (begin, end) in enumerate(zip([0, *ends], ends, strict=False))
    )
    (folder / "part-0.csv.gz").write_bytes(gzip.compress("".join(lines).encode()))


def write_nanogpt(folder: Path, rows: Rows, _: Columns = NONE) -> None:
    """Write ids alone."""
    _flatten(rows, "<u2").tofile(folder / "train.bin")


def write_numpy(folder: Path, rows: Rows, _: Columns = NONE) -> None:
    """Write an array of NumPy."""
    np.save(folder / "tokens.npy", _flatten(rows, "<u2"))


def write_llm_c(folder: Path, rows: Rows, _: Columns = NONE) -> None:
    """Write the .bin of llm.c, with its head."""
    ids = _flatten(rows, "<u2")
    head = np.zeros(256, "<i4")
    head[:3] = 20240520, 1, len(ids)
    (folder / "shard.bin").write_bytes(head.tobytes() + ids.tobytes())


def write_parquet(folder: Path, rows: Rows, columns: Columns = NONE) -> None:
    """Write a table with the column input_ids."""
    pq.write_table(
        pa.table({"input_ids": rows, **columns}), folder / "part.parquet", row_group_size=16
    )


def write_arrow(folder: Path, rows: Rows, columns: Columns = NONE) -> None:
    """Write a stream of Arrow."""
    table = pa.table({"input_ids": rows, **columns})
    with (
        pa.OSFile(str(folder / "part.arrow"), "wb") as sink,
        pa.ipc.new_stream(sink, table.schema) as writer,
    ):
        writer.write_table(table, max_chunksize=16)


def write_json_lines(folder: Path, rows: Rows, columns: Columns = NONE) -> None:
    """Write JSON lines."""
    names = ["input_ids", *columns]
    records = (
        dict(zip(names, values, strict=True))
        for values in zip(rows, *columns.values(), strict=True)
    )
    (folder / "part.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records))


def write_mds(folder: Path, rows: Rows, columns: Columns = NONE) -> None:
    """Write two shards of MosaicML's streaming, int64."""
    names = sorted(["input_ids", *columns])
    values = {"input_ids": rows, **columns}
    half, entries = len(rows) // 2, []
    for number, part in enumerate((slice(half), slice(half, None))):
        bodies = []
        for row in zip(*(values[name][part] for name in names), strict=True):
            arrays = [
                b"\5" + np.uint16(len(one)).tobytes() + np.array(one, "<i8").tobytes()
                for one in row
            ]
            bodies.append(np.array([*map(len, arrays)], "<u4").tobytes() + b"".join(arrays))
        begins = np.cumsum([4 * (len(bodies) + 2), *map(len, bodies)])
        head = np.array([len(bodies), *begins], "<u4").tobytes()
        (folder / f"shard.{number:05}.mds").write_bytes(head + b"".join(bodies))
        entries.append({
            "column_names": names, "column_encodings": ["ndarray:int64"] * len(names),
            "column_sizes": [None] * len(names), "samples": len(bodies), "zip_data": None,
            "raw_data": {"basename": f"shard.{number:05}.mds"},
        })  # fmt: skip
    (folder / "index.json").write_text(json.dumps({"shards": entries, "version": 2}))


def write_litdata(folder: Path, rows: Rows, _: Columns = NONE) -> None:
    """Write a chunk of LitData, int32, an item for each row."""
    begin = 4 * (len(rows) + 2)
    head = np.array([len(rows), begin, *(begin + 4 * _ends(rows))], "<u4")
    (folder / "chunk-0-0.bin").write_bytes(head.tobytes() + _flatten(rows, "<i4").tobytes())
    chunk = {"filename": "chunk-0-0.bin", "chunk_size": len(rows), "dim": int(_ends(rows)[-1])}
    config = {"data_format": ["no_header_tensor:16"], "compression": None}
    (folder / "index.json").write_text(json.dumps({"chunks": [chunk], "config": config}))


def _varint(number: int) -> bytes:
    more = b""
    while number > 127:
        more += bytes([number % 128 + 128])
        number //= 128
    return more + bytes([number])


def _field(tag: int, content: bytes) -> bytes:
    return bytes([tag]) + _varint(len(content)) + content


def write_tfrecord(folder: Path, rows: Rows, columns: Columns = NONE) -> None:
    """Write a tf.train.Example for each row."""
    records = []
    for row in zip(rows, *columns.values(), strict=True):
        features = b""
        for name, numbers in zip(["input_ids", *columns], row, strict=True):
            packed = b"".join(_varint(number % 2**64) for number in numbers)
            feature = _field(0x12, _field(0x1A, _field(0x0A, packed)))
            features += _field(0x0A, _field(0x0A, name.encode()) + feature)
        data = _field(0x0A, features)
        size = np.uint64(len(data)).tobytes()
        sums = [np.uint32(masked_checksum(part)).tobytes() for part in (size, data)]
        records.append(size + sums[0] + data + sums[1])
    (folder / "part.tfrecord").write_bytes(b"".join(records))


Writer = Callable[[Path, Rows, Columns], None]
# Formats that keep documents apart, that do not, and that have columns.
WITH_DOCUMENTS: dict[str, Writer] = {
    "megatron": write_megatron, "nanotron": write_nanotron, "olmo": write_olmo,
    "litdata": write_litdata, "mds": write_mds, "parquet": write_parquet, "arrow": write_arrow,
    "json-lines": write_json_lines, "tfrecord": write_tfrecord,
}  # fmt: skip
STREAMS: dict[str, Writer] = {"nanogpt": write_nanogpt, "numpy": write_numpy, "llm.c": write_llm_c}
WITH_COLUMNS = {
    name: WITH_DOCUMENTS[name] for name in ("mds", "parquet", "arrow", "json-lines", "tfrecord")
}
