import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from corpusmill.arrays.text_hashes import text_facts
from corpusmill.corpus.batches import TEXT_SCHEMA
from corpusmill.corpus.filters.duplicates import hash_documents
from corpusmill.tokenization.encoding import (
    count_characters,
    encode_documents,
    tokenized_schema,
)
from corpusmill.tokenization.sentence_tokenizer import SentenceTokenizer
from tests.tools.lazily import Lazily
from tests.tools.token_rows import plain_rows
from tests.tools.tokenizer_samples import MEMOIZING, TEXT

# Sentences without tokens: empty, spaces, and characters that BERT's normalizer drops
EMPTY = ["", "   ", "\u200b", "\x00 \x01"]
SAMPLES = {"WordPiece, lower-cased": "WordPiece, lower-cased", "BPE, NFKC": "BPE, NFKC"}
SAMPLES["plain path"] = "GPT-2"
TOKENIZERS = Lazily(
    SAMPLES, lambda name: SentenceTokenizer(MEMOIZING[SAMPLES[name]], np.dtype(np.int16))
)
PLAIN = Lazily(SAMPLES, lambda name: Tokenizer.from_str(MEMOIZING[SAMPLES[name]]))

documents_of_text = st.lists(
    st.lists(
        st.one_of(st.sampled_from(TEXT), st.sampled_from(EMPTY), st.text(max_size=5)), max_size=5
    ),
    max_size=6,
)


def as_batch(documents: list[list[str]]) -> pa.RecordBatch:
    columns = {"document": range(0, 10 * len(documents), 10), "sentences": documents}
    return pa.RecordBatch.from_pydict(columns, schema=TEXT_SCHEMA)


@settings(max_examples=30, deadline=None)
@given(documents=documents_of_text, skipped=st.integers(0, 6), length=st.integers(0, 6))
def test_documents_hold_the_ids_of_their_sentences(
    documents: list[list[str]], skipped: int, length: int
) -> None:
    batch = as_batch(documents).slice(min(skipped, len(documents)), length)
    for name in SAMPLES:
        check_documents(name, batch)


def check_documents(name: str, batch: pa.RecordBatch) -> None:
    encoded = encode_documents(TOKENIZERS[name], batch)
    rows = {
        row["document"]: list(filter(None, plain_rows(PLAIN[name], row["sentences"])))
        for row in batch.to_pylist()
    }
    kept = {document: sentences for document, sentences in rows.items() if sentences}
    assert {row["document"]: row["sentences"] for row in encoded.documents.to_pylist()} == kept
    assert encoded.documents.schema.field("sentences").type == pa.list_(pa.list_(pa.int16()))
    assert encoded.tokens == sum(len(ids) for sentences in kept.values() for ids in sentences)
    assert encoded.empty_documents == len(rows) - len(kept)
    given_sentences = sum(len(row["sentences"]) for row in batch.to_pylist())
    assert encoded.empty_sentences == given_sentences - sum(map(len, kept.values()))


def test_empty_sentences_and_documents_are_counted() -> None:
    batch = as_batch([["The film", *EMPTY], EMPTY, [], ["film"]])
    encoded = encode_documents(TOKENIZERS["WordPiece, lower-cased"], batch)
    assert (encoded.empty_sentences, encoded.empty_documents) == (8, 2)
    assert encoded.documents.column("document").to_pylist() == [0, 30]


def cut_in_two(
    documents: np.ndarray, text: np.ndarray, offsets: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Cut each text after its first byte, and an empty one into two empty ones."""
    assert len(documents) == len(offsets) - 1
    assert offsets[-1] <= len(text)
    pieces = np.stack([offsets[:-1], np.minimum(offsets[:-1] + 1, offsets[1:])], axis=1)
    return np.append(pieces.ravel(), offsets[-1]), np.arange(0, 2 * len(offsets) - 1, 2)


def test_pieces_of_texts_that_are_cut_are_tokenized_alone_and_kept() -> None:
    batch = as_batch([["film"], ["a film"], ["   "], [" film"], [""], ["x"]]).slice(1)
    encoded = encode_documents(TOKENIZERS["plain path"], batch, cut_in_two)
    pieces = {10: ["a", " film"], 30: [" ", "film"], 50: ["x", ""]}
    spaces = {20: [" ", "  "]}  # text, for a byte-level tokenizer
    assert {row["document"]: row["sentences"] for row in encoded.documents.to_pylist()} == {
        document: plain_rows(PLAIN["plain path"], texts)
        for document, texts in sorted((pieces | spaces).items())
    }
    assert (encoded.empty_sentences, encoded.empty_documents, encoded.text_bytes) == (1, 1, 15)
    with pytest.raises(ValueError, match="one sentence each"):
        encode_documents(TOKENIZERS["plain path"], as_batch([["a", "b"]]), cut_in_two)


def test_facts_go_with_their_documents() -> None:
    documents = as_batch([["a", "b"], ["\u200b"], ["c"]])
    facts = [pa.array([7, 8, 9], pa.uint64()), pa.array(["u", "v", None])]
    schema = pa.schema([*documents.schema, *text_facts(("url",))])
    batch = pa.RecordBatch.from_arrays([*documents.columns, *facts], schema=schema)
    tokenizer = TOKENIZERS["WordPiece, lower-cased"]
    for part, rows in ((batch, [0, 2]), (batch.slice(1), [2])):
        encoded = encode_documents(tokenizer, part, None, ("url", "date"), True).documents
        dtype = encoded.schema.field("sentences").type.value_type.value_type.to_pandas_dtype()
        assert encoded.schema == tokenized_schema(np.dtype(dtype).name, ("url", "date"), True)
        assert encoded.column("length").to_pylist() == [7 + row for row in rows]
        assert encoded.column("field:url").to_pylist() == [["u", "v", None][row] for row in rows]
        assert encoded.column("field:date").null_count == len(rows)
        # The digest is half of the hash by which duplicates are found.
        hashed = hash_documents(documents, 0).take(rows).to_pylist()
        assert encoded.column("digest").to_pylist() == [row["first"] for row in hashed]
    plain = encode_documents(tokenizer, documents, None, ("url",), True).documents
    assert plain.column("length").to_pylist() == [0, 0]
    assert plain.column("field:url").to_pylist() == [None, None]
    without = encode_documents(tokenizer, batch).documents
    assert without.equals(encode_documents(tokenizer, documents).documents)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", (0, 0)),
        ("na\u00efve", (0, 0)),
        ("\u0390\u07ff", (2, 0)),
        ("\u0e01\u1fff", (4, 0)),
        ("\u2013\u4e2d\U0001f600", (0, 0)),
        ("\0\x08\t", (0, 2)),
        ("", (0, 0)),
    ],
)
def test_letters_of_other_alphabets_and_control_characters_are_counted(
    text: str, expected: tuple[int, int]
) -> None:
    assert count_characters(np.frombuffer(text.encode(), np.uint8)) == expected
