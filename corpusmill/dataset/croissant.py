"""Croissant metadata `croissant.json`: what catalogues of data sets and their loaders read.

It lists every file with its sha256, and describes the columns of formats that Croissant's loaders
can read; of the others it lists the files alone. Names of files are relative to its own folder.

Source: https://docs.mlcommons.org/croissant/docs/croissant-spec-1.1.html
"""

import json
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from corpusmill.arrays.columns import ANY_LENGTH, Column
from corpusmill.dataset.manifest import REJECTS, FileEntry, Manifest, Shard

# The media types whose rows Croissant can describe; among our formats, Parquet's alone.
_TABULAR = {"application/x-parquet"}
_MEDIA_TYPES = {".json": "application/json", ".md": "text/markdown", ".txt": "text/plain"}
_BINARY = "application/octet-stream"

# The standard context, which readers compare with their own.
_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    **{
        name: f"cr:{name}"
        for name in (
            *("arrayShape", "citeAs", "column", "containedIn", "equivalentProperty", "extract"),
            *("field", "fileObject", "fileProperty", "fileSet", "format", "includes", "isArray"),
            *("isLiveDataset", "jsonPath", "key", "md5", "parentField", "path", "recordSet"),
            *("references", "regex", "repeated", "replace", "samplingRate", "separator"),
            *("source", "subField", "transform"),
        )
    },
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "description": {"@container": "@language"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "name": {"@container": "@language"},
    "rai": "http://mlcommons.org/croissant/RAI/",
    "sc": "https://schema.org/",
}


def render_croissant(manifest: Manifest) -> bytes:
    """The Croissant metadata of a data set, a function of its manifest alone.

    Rejects are left out: they hold text, which need not be published with the data set.

    Args:
        manifest: complete, except that its files need not include the card and this one.

    Returns:
        JSON-LD in UTF-8.
    """
    objective = manifest.objective.name
    entries = [entry for entry in manifest.entries.values() if entry.file != REJECTS]
    is_tabular = manifest.output.shard_format.media_type in _TABULAR
    splits = list(manifest.splits) if is_tabular else []
    metadata = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.1",
        "name": f"Pretraining examples: {objective}",
        "description": (
            f"Examples for pretraining a language model with the objective {objective}, built "
            f"from text by corpusmill {manifest.corpusmill_version}. Tokens are ids of the "
            f"tokenizer in {manifest.tokenizer.file}."
        ),
        "keywords": ["corpusmill", "pretraining", objective],
        "distribution": [
            *(_file_object(manifest, entry) for entry in entries),
            *(_file_set(manifest, split) for split in splits),
        ],
        "recordSet": [_record_set(manifest, split) for split in splits],
    }
    filled = {name: value for name, value in metadata.items() if value}
    return (json.dumps(filled, indent=1, ensure_ascii=False) + "\n").encode()


def _file_object(manifest: Manifest, entry: FileEntry) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": entry.file,
        "name": entry.file,
        "contentUrl": entry.file,
        "contentSize": f"{entry.bytes} B",
        "encodingFormat": _media_type(manifest, entry),
        "sha256": entry.sha256,
    }


def _media_type(manifest: Manifest, entry: FileEntry) -> str:
    if isinstance(entry, Shard):
        return manifest.output.shard_format.media_type
    return _MEDIA_TYPES.get(PurePosixPath(entry.file).suffix, _BINARY)


def _file_set(manifest: Manifest, split: str) -> dict[str, Any]:
    return {
        "@type": "cr:FileSet",
        "@id": f"{split}-shards",
        "name": f"{split}-shards",
        "description": f"The shards of the split {split}.",
        "encodingFormat": manifest.output.shard_format.media_type,
        "includes": manifest.glob(split),
    }


def _record_set(manifest: Manifest, split: str) -> dict[str, Any]:
    entry = manifest.splits[split]
    return {
        "@type": "cr:RecordSet",
        "@id": split,
        "name": split,
        "description": f"The {entry.rows} examples of the split {split}.",
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"{split}/split",
                "name": "split",
                "description": "The split.",
                "dataType": ["sc:Text", "cr:Split"],
                "value": split,
            },
            *_fields(manifest, split),
        ],
    }


def _fields(manifest: Manifest, split: str) -> Iterator[dict[str, Any]]:
    padded = manifest.output.options.is_padded
    for column in manifest.columns:
        yield {
            "@type": "cr:Field",
            "@id": f"{split}/{column.name}",
            "name": column.name,
            "description": column.meaning,
            "dataType": _data_type(column.dtype),
            **({"isArray": True, "arrayShape": _shape(column, padded)} if column.width else {}),
            "source": {
                "fileSet": {"@id": f"{split}-shards"},
                "extract": {"column": column.name},
            },
        }


def _shape(column: Column, padded: bool) -> str:
    return str(column.width if padded and column.width != ANY_LENGTH else -1)


def _data_type(dtype: str) -> str:
    """Croissant's name of an integer type: int16 gives "cr:Int16", uint8 "cr:UInt8"."""
    return "cr:" + dtype.replace("uint", "UInt").replace("int", "Int")
