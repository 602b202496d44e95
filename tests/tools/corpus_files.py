"""The documents of a text, files of every format with them, and what kernels make of them."""

import csv
import gzip
import io
import json
import tarfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from corpusmill.corpus.batches import FileRange
from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.corpus.text.text_documents import read_text
from corpusmill.inspection.corpus_measures import Measures, measure_text, measure_tokens
from corpusmill.tokenization.encoding import EncodedDocuments, encode_documents
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer
from corpusmill.tokenization.tokenizer_file import TokenizerFile

Documents = list[list[str]]


def split_documents(text: Path) -> Iterator[list[str]]:
    """The sentences of each document, by the rule of WikiText."""
    sentences: list[str] = []
    for line in text.read_text().split("\n"):
        stripped = line.strip()
        if stripped and not stripped.startswith("="):
            sentences.append(stripped)
        elif sentences:
            yield sentences
            sentences = []


def as_json_lines(documents: Documents) -> bytes:
    return "".join(
        json.dumps({"text": "\n".join(document)}) + "\n" for document in documents
    ).encode()


def as_table(documents: Documents, dialect: str) -> bytes:
    sink = io.StringIO()
    rows = ([number, "\n".join(document)] for number, document in enumerate(documents))
    csv.writer(sink, dialect).writerows([["id", "text"], *rows])
    return sink.getvalue().encode()


def as_tar(documents: Documents) -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        for number, document in enumerate(documents):
            content = "\n".join(document).encode()
            member = tarfile.TarInfo(f"texts/{number:04}.txt")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return sink.getvalue()


def as_wet(documents: Documents) -> bytes:
    records = [b"WARC/1.0\r\nWARC-Type: warcinfo\r\nContent-Length: 4\r\n\r\na: b\r\n\r\n"]
    for document in documents:
        content = "\n".join(document).encode()
        head = f"WARC/1.0\r\nWARC-Type: conversion\r\nContent-Length: {len(content)}\r\n\r\n"
        records.append(head.encode() + content + b"\r\n\r\n")
    return b"".join(records)


def zstd(content: bytes) -> bytes:
    packed: bytes = pa.compress(content, "zstd", asbytes=True)
    return packed


KINDS: dict[str, Callable[[Documents], bytes]] = {
    "csv": lambda documents: as_table(documents, "excel"),
    "tsv": lambda documents: as_table(documents, "excel-tab"),
    "csv.gz": lambda documents: gzip.compress(as_table(documents, "excel")),
    "tar": as_tar,
    "tgz": lambda documents: gzip.compress(as_tar(documents)),
    "tar.zst": lambda documents: zstd(as_tar(documents)),
    "warc.wet.gz": lambda documents: gzip.compress(as_wet(documents)),
}


def read_documents(text: Path) -> list[pa.RecordBatch]:
    with text.open("rb") as stream:
        read = read_text(stream, FileRange("", 0, DocumentOptions(input_format="text")))
        return [batch.documents for batch in read]


def encode(batches: Iterable[pa.RecordBatch], tokenizer: TokenizerFile) -> list[EncodedDocuments]:
    sentences = SentenceTokenizer(tokenizer.json, tokenizer.token_dtype)
    return [encode_documents(sentences, batch) for batch in batches]


def measure_corpus(batches: list[pa.RecordBatch], tokenizer: TokenizerFile) -> Measures:
    measures = Measures()
    for batch, encoded in zip(batches, encode(batches, tokenizer), strict=True):
        measures.add(measure_text(batch, encoded.documents))
        measures.add(measure_tokens(encoded.documents, tokenizer.special.unk_id))
    return measures
