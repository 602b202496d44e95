"""How a data set's card tells to read its shards, by their file format."""

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from corpusmill.dataset.manifest import columns_of, output_options_of, shard_glob
from corpusmill.formats.tfrecord_features import features_of, shape_of


def load_parquet(manifest: Mapping[str, Any]) -> Iterator[str]:
    """By the library datasets, which finds the splits by the card's front matter; or by Arrow."""
    split = next(iter(manifest["splits"]))
    yield from ("```python", "from pathlib import Path", "", "from datasets import load_dataset")
    yield from ("", f'examples = load_dataset(str(Path.cwd()), split="{split}")', "```", "")
    yield from ("or, without `datasets`:", "", "```python", "from pathlib import Path", "")
    yield from ("import pyarrow.dataset", "")
    yield f'files = sorted(str(path) for path in Path(".").glob("{shard_glob(manifest, split)}"))'
    yield from ("examples = pyarrow.dataset.dataset(files)", "```", "")


def load_tfrecord(manifest: Mapping[str, Any]) -> Iterator[str]:
    """By tf.data."""
    options, split = output_options_of(manifest), next(iter(manifest["splits"]))
    compression = "GZIP" if options.compression == "gzip" else ""
    yield from ("```python", "from pathlib import Path", "", "import tensorflow as tf", "")
    yield "features = {"
    for feature in features_of(columns_of(manifest)):
        dtype, width = shape_of(feature, options.is_padded)
        shape = f"FixedLenFeature([{width}], tf.{dtype})" if width else f"RaggedFeature(tf.{dtype})"
        yield f'    "{feature.name}": tf.io.{shape},'
    yield "}"
    yield f'files = sorted(str(path) for path in Path(".").glob("{shard_glob(manifest, split)}"))'
    yield f'records = tf.data.TFRecordDataset(files, compression_type="{compression}")'
    yield "examples = records.map(lambda record: tf.io.parse_single_example(record, features))"
    yield from ("```", "")


def load_avro(manifest: Mapping[str, Any]) -> Iterator[str]:
    """By fastavro."""
    options, split = output_options_of(manifest), next(iter(manifest["splits"]))
    yield from ("```python", "from pathlib import Path", "", "import fastavro", "", "")
    yield from ("def read_examples(split):", '    for path in sorted(Path(".").glob(split)):')
    yield from (
        '        with path.open("rb") as file:',
        "            yield from fastavro.reader(file)",
    )
    yield from ("", "", f'examples = read_examples("{shard_glob(manifest, split)}")', "```", "")
    if options.compression == "zstd":
        yield from ("fastavro needs `backports.zstd` for the codec of these files.", "")


def load_megatron(manifest: Mapping[str, Any]) -> Iterator[str]:
    """By Megatron-LM's flag."""
    shards = [shard["file"] for split in manifest["splits"].values() for shard in split["shards"]]
    yield "Megatron-LM takes the names of shards without their endings, from any folder:"
    yield from ("", "```sh", f"--data-path path/to/{PurePosixPath(shards[0]).stem} ...", "```", "")
    yield "A document is one sequence of the index, and ends as the option `end_of_text` says."
    yield ""


def load_nanogpt(manifest: Mapping[str, Any]) -> Iterator[str]:
    """As nanoGPT does, by numpy."""
    file = next(iter(manifest["splits"].values()))["shards"][0]["file"]
    lengths = PurePosixPath(file).with_suffix(".lengths")
    yield from ("nanoGPT reads this folder as `data/<dataset>`.", "", "```python")
    yield from ("import numpy as np", "")
    yield f'tokens = np.memmap("{file}", dtype=np.uint16, mode="r")'
    yield f'lengths = np.fromfile("{lengths}", dtype=np.int32)  # of the documents'
    yield from ("```", "")
