"""How a data set's card tells to read its shards, by their file format."""

from collections.abc import Iterator, Mapping
from typing import Any

from corpusmill.dataset.manifest import columns_of, output_options_of, shard_glob
from corpusmill.formats.tfrecord_features import features_of, shape_of


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
