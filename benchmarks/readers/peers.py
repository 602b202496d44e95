"""Other libraries' readers over the same examples, each used as its documentation recommends.

All rows are padded by the compiled loops of our collators, so that the collate function does not
slow a peer down. A library that can yield whole batches as Arrow tables has two rows: one with
single examples, as it is mostly used, and one with batches.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler

from benchmarks.readers.data_sets import CONTEXT, Source
from corpusmill.arrays import ragged
from corpusmill.reading.rows import Collator, Lists, Rows, Values
from corpusmill.reading.token_windows import TokenWindows

TensorBatch = dict[str, torch.Tensor]

# The shuffle buffer of streaming readers, in examples.
_BUFFER = 10_000


@dataclass(frozen=True)
class PadExamples:
    """A collate function from dictionaries of arrays to padded tensors."""

    collator: Collator

    def __call__(self, examples: Sequence[Mapping[str, Any]]) -> TensorBatch:
        """Return the tensors of a batch."""
        columns = {name: _column([example[name] for example in examples]) for name in examples[0]}
        return _tensors(self.collator, columns, len(examples))


@dataclass(frozen=True)
class PadTable:
    """A collate function from an Arrow table to padded tensors.

    Attributes:
        collator: pads the rows.
        listed: the table has one row, with a list of the batch's values in each column.
    """

    collator: Collator
    listed: bool = False

    def __call__(self, table: pa.Table) -> TensorBatch:
        """Return the tensors of a batch."""
        arrays = [column.combine_chunks() for column in table.columns]
        if self.listed:
            arrays = [array.flatten() for array in arrays]
        columns = dict(zip(table.column_names, map(_from_arrow, arrays), strict=True))
        return _tensors(self.collator, columns, len(arrays[0]))


def _tensors(collator: Collator, columns: dict[str, Values], rows: int) -> TensorBatch:
    unknown = np.zeros(rows, np.int64)
    padded = collator(Rows(columns, unknown, unknown))
    return {name: torch.from_numpy(array) for name, array in padded.items()}


def _column(values: Sequence[Any]) -> Values:
    if np.ndim(values[0]) == 0:
        return np.array(values)
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum([len(row) for row in values], out=offsets[1:])
    return Lists(np.concatenate(values), offsets)


def _from_arrow(array: pa.Array) -> Values:
    if not pa.types.is_list(array.type):
        return np.asarray(array)
    values, offsets = ragged.from_arrow(array)
    return Lists(values, offsets.astype(np.int64))


def _parquet(source: Source) -> list[str]:
    """Return files with the examples: the data set's own, or of windows cut in advance."""
    if not isinstance(source.samples, TokenWindows):
        return sorted(map(str, source.folder.glob("v*/train-*.parquet")))
    target = source.work / "windows-parquet"
    if not target.exists():
        scratch = target.with_name("windows-parquet.scratch")
        scratch.mkdir()
        for number, rows in enumerate(source.parts(2**16)):
            table = pa.table({name: _to_arrow(column) for name, column in rows.columns.items()})
            pq.write_table(table, scratch / f"train-{number:05}.parquet", compression="zstd")
        scratch.rename(target)
    return sorted(map(str, target.glob("*.parquet")))


def _to_arrow(column: Values) -> pa.Array:
    if isinstance(column, Lists):
        return pa.ListArray.from_arrays(pa.array(column.offsets, pa.int32()), column.values)
    return pa.array(column)


def _hugging_face(source: Source, streaming: bool, layout: str | None) -> Any:
    datasets = import_module("datasets")
    datasets.disable_progress_bars()
    cache = str(source.work / "datasets")
    loaded = datasets.load_dataset(
        "parquet", data_files=_parquet(source), split="train", cache_dir=cache, streaming=streaming
    )
    if streaming:
        loaded = loaded.shuffle(seed=1, buffer_size=_BUFFER)
    return loaded.with_format(layout)


def datasets_rows(source: Source, workers: int) -> Iterable[TensorBatch]:
    """Hugging Face datasets, map style, single examples as NumPy arrays."""
    return DataLoader(
        _hugging_face(source, False, "numpy"),
        source.batch_size,
        shuffle=True,
        num_workers=workers,
        collate_fn=PadExamples(source.collator),
    )


def datasets_tables(source: Source, workers: int) -> Iterable[TensorBatch]:
    """Hugging Face datasets, map style, batches as Arrow tables."""
    loaded = _hugging_face(source, False, "arrow")
    return DataLoader(
        loaded,
        batch_size=None,
        sampler=BatchSampler(RandomSampler(loaded), source.batch_size, False),
        num_workers=workers,
        collate_fn=PadTable(source.collator),
    )


def datasets_streaming(source: Source, workers: int) -> Iterable[TensorBatch]:
    """Hugging Face datasets, streaming, single examples, which are Python lists."""
    return DataLoader(
        _hugging_face(source, True, None),
        source.batch_size,
        num_workers=workers,
        collate_fn=PadExamples(source.collator),
    )


def datasets_streaming_tables(source: Source, workers: int) -> Iterable[TensorBatch]:
    """Hugging Face datasets, streaming, batches as Arrow tables."""
    loaded = _hugging_face(source, True, "arrow").batch(source.batch_size)
    return DataLoader(
        loaded,
        batch_size=None,
        num_workers=workers,
        collate_fn=PadTable(source.collator, listed=True),
    )


def mosaic(source: Source, workers: int) -> Iterable[TensorBatch]:
    """MosaicML streaming over local MDS shards with ndarray columns, shuffled."""
    streaming = import_module("streaming")
    target = source.work / "mds"
    if not (target / "index.json").exists():
        shutil.rmtree(target, ignore_errors=True)
        first = next(source.examples())
        columns = {
            name: f"ndarray:{value.dtype}" if isinstance(value, np.ndarray) else "int"
            for name, value in first.items()
        }
        with streaming.MDSWriter(out=str(target), columns=columns) as out:
            for example in source.examples():
                out.write(example)
    loaded = streaming.StreamingDataset(
        local=str(target), shuffle=True, shuffle_seed=1, batch_size=source.batch_size
    )
    collate = PadExamples(source.collator)
    return DataLoader(loaded, source.batch_size, num_workers=workers, collate_fn=collate)


def lit_data(source: Source, workers: int) -> Iterable[TensorBatch]:
    """LitData over local chunks; the examples are arrays, or blocks of tokens for a stream."""
    litdata = import_module("litdata")
    is_stream = isinstance(source.samples, TokenWindows)
    target = source.work / "litdata"
    if not (target / "index.json").exists():
        shutil.rmtree(target, ignore_errors=True)
        _write_litdata(source, target, is_stream)
    loaded = litdata.StreamingDataset(
        str(target), shuffle=True, seed=1, item_loader=_item_loader(is_stream)
    )
    collate = PadBlocks() if is_stream else PadExamples(source.collator)
    loader: Iterable[dict[str, torch.Tensor]] = litdata.StreamingDataLoader(
        loaded, batch_size=source.batch_size, num_workers=workers, collate_fn=collate
    )
    return loader


def _item_loader(is_stream: bool) -> Any:
    return import_module("litdata").TokensLoader(block_size=CONTEXT + 1) if is_stream else None


def _write_litdata(source: Source, target: Path, is_stream: bool) -> None:
    target.mkdir(parents=True)
    write = import_module("litdata.streaming.writer").BinaryWriter
    writer = write(str(target), chunk_bytes="64MB", item_loader=_item_loader(is_stream))
    for number, example in enumerate(source.examples()):
        writer[number] = (
            torch.from_numpy(example["tokens"].astype(np.int32)) if is_stream else example
        )
    writer.done()
    writer.merge()


class PadBlocks:
    """A collate function from blocks of tokens to inputs and targets."""

    def __call__(self, blocks: Sequence[torch.Tensor]) -> TensorBatch:
        """Return the tensors of a batch."""
        tokens = torch.stack(list(blocks)).long()
        return {"input_ids": tokens[:, :-1], "targets": tokens[:, 1:]}


class NanoGptBlocks(IterableDataset[TensorBatch]):
    """nanoGPT's get_batch: windows at random places of a mapped token file."""

    def __init__(self, path: Path, batch_size: int) -> None:
        self._path, self._batch_size = path, batch_size

    def __iter__(self) -> Iterator[TensorBatch]:
        while True:
            data = np.memmap(self._path, dtype=np.uint16, mode="r")
            places = torch.randint(len(data) - CONTEXT, (self._batch_size,)).tolist()
            inputs = [torch.from_numpy(data[i : i + CONTEXT].astype(np.int64)) for i in places]
            targets = [
                torch.from_numpy(data[i + 1 : i + 1 + CONTEXT].astype(np.int64)) for i in places
            ]
            yield {"input_ids": torch.stack(inputs), "targets": torch.stack(targets)}


def nano_gpt(source: Source, workers: int) -> Iterable[TensorBatch]:
    """The loop of nanoGPT, inside a DataLoader if there are workers."""
    path = source.work / "train.bin"
    if not path.exists():
        with path.open("wb") as out:
            for rows in source.parts():
                tokens = rows.lists("tokens").values.reshape(len(rows), -1)
                out.write(tokens[:, :-1].astype(np.uint16).tobytes())
    blocks = NanoGptBlocks(path, source.batch_size)
    return DataLoader(blocks, batch_size=None, num_workers=workers) if workers else blocks


Reader = Callable[[Source, int], Iterable[TensorBatch]]

PEERS: Mapping[str, Reader] = {
    "datasets, map style, rows": datasets_rows,
    "datasets, map style, tables": datasets_tables,
    "datasets, streaming, rows": datasets_streaming,
    "datasets, streaming, tables": datasets_streaming_tables,
    "MosaicML streaming": mosaic,
    "LitData": lit_data,
}
# The names of those that are not in the environment of the tests, as in `rivals.toml`.
RIVALS = {"MosaicML streaming": "mosaicml-streaming", "LitData": "litdata"}
