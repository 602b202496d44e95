"""The provenance of a data set compared with its rows, and with the text that was its input."""

from collections import defaultdict
from collections.abc import Mapping
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
from tokenizers import Tokenizer

from corpusmill.dataset.manifest import Manifest
from corpusmill.dataset.shards import read_manifest, read_shard, read_tokenizer
from corpusmill.location import locate
from corpusmill.objectives.columns import SPANS
from corpusmill.provenance.read_again import Inputs
from corpusmill.provenance.store import DocumentRecord, OriginStore, RowOrigin, Span, records_of
from corpusmill.provenance.texts import Texts
from corpusmill.testing.objectives import check_spans

# One of this many rows is looked up, and of documents by itself, which reads files anew.
_EVERY = 7
# The columns of text that `spell` returns are compared with the document's without white space.
Pieces = Mapping[int, list[str]]


def open_store(folder: Path) -> OriginStore:
    """Return the provenance of a data set."""
    files = locate(str(folder))
    return OriginStore(files, read_manifest(files))


def open_texts(folder: Path, *inputs: Path) -> Texts:
    """Return what reads the documents of a data set again."""
    files = locate(str(folder))
    manifest = read_manifest(files)
    tokenizer = manifest.tokenizer.to_tokenizer(read_tokenizer(files, manifest))
    return Texts(manifest, tokenizer, Inputs(tuple(map(str, inputs))))


def list_documents(folder: Path) -> list[DocumentRecord]:
    """Return all documents that a data set lists, by id."""
    store = open_store(folder)
    tables = chain.from_iterable(map(store.tables, store.manifest.splits))
    records = [record for table in tables for record in records_of(table)]
    return sorted(records, key=lambda record: record.document)


def list_origins(folder: Path) -> list[RowOrigin]:
    """Return the origins of all rows: each split's by number."""
    store = open_store(folder)
    ids = np.array([record.document for record in list_documents(folder)], np.uint64)
    return list(store.rows_of(ids))


def check_provenance(folder: Path, *inputs: Path) -> list[RowOrigin]:
    """Check that every row is made of the text that it is traced to, and every document's rows.

    Args:
        folder: of the data set.
        inputs: where its corpus is.

    Returns:
        The origins of all rows.
    """
    origins, store = list_origins(folder), open_store(folder)
    manifest = store.manifest
    expected = [(name, row) for name, split in manifest.splits.items() for row in range(split.rows)]
    assert [(origin.split, origin.row) for origin in origins] == expected
    for name in manifest.splits:
        some = [origin for origin in origins if origin.split == name][::_EVERY]
        assert list(store.origins(name, [origin.row for origin in some])) == some
    for origin in origins[::_EVERY]:
        shard = next(
            one for one in manifest.splits[origin.split].shards if one.file == origin.shard
        )
        assert 0 <= origin.shard_row < shard.rows
    records = list_documents(folder)
    removed = sum(removal.documents for removal in manifest.removals)
    assert len(records) + removed == manifest.counts["tokenize.documents"]
    texts = open_texts(folder, *inputs)
    read = {record.document: texts.read(record) for record in records}
    pieces = {document: texts.pieces(batch) for document, batch in read.items()}
    _check_rows(folder, manifest, origins, _tokenize(texts, pieces))
    spans = defaultdict[int, list[Span]](list)
    for span in chain.from_iterable(row.spans for row in origins):
        spans[span.document].append(span)
    for record in records:
        document = read[record.document]
        _check_spelled(texts.spell(document, spans[record.document]), document)
    for record in records[::_EVERY]:
        ids = np.array([record.document], np.uint64)
        holding = [row for row in origins if record.document in (row.document, *row.documents)]
        assert list(store.rows_of(ids)) == holding
        assert store.documents([record.document]) == {record.document: record}
    return origins


def _tokenize(texts: Texts, pieces: Pieces) -> pa.RecordBatch:
    """Tokenize the documents by the tokenizers library, {document, sentences}."""
    tokenizer = Tokenizer.from_str(texts.tokenizer.encoding_json)
    tokenizer.encode_special_tokens = not texts.tokenizer.options.special_tokens_in_text
    sentences = [
        [tokenizer.encode(piece, add_special_tokens=False).ids for piece in own]
        for own in pieces.values()
    ]
    columns = [
        pa.array(list(pieces), pa.uint64()),
        pa.array(sentences, pa.list_(pa.list_(pa.int32()))),
    ]
    return pa.record_batch(columns, ["document", "sentences"])


def _check_rows(
    folder: Path, manifest: Manifest, origins: list[RowOrigin], documents: pa.RecordBatch
) -> None:
    texts = open_texts(folder)
    files = locate(str(folder))
    for name, split in manifest.splits.items():
        shards = (read_shard(files, manifest, shard.file) for shard in split.shards)
        rows = pa.Table.from_batches(chain(*shards)).combine_chunks().to_batches()[0]
        spans = [
            [number for span in origin.spans
             for number in (span.document, span.first_token, span.tokens)]
            for origin in origins if origin.split == name
        ]  # fmt: skip
        rows = rows.append_column(SPANS.name, pa.array(spans, pa.list_(pa.uint64())))
        check_spans(manifest.columns, rows, documents, texts.tokenizer.special, is_marked=False)


def _check_spelled(spelled: list[str], document: pa.RecordBatch) -> None:
    """Check that texts are parts of a document, whose sentences a line break separates."""
    [sentences] = document.column("sentences").to_pylist()
    whole = "\n".join(sentences)
    for text in spelled:
        assert text in whole
