from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from corpusmill.corpus.batches import TEXT_SCHEMA
from corpusmill.tokenization.tokenizer_file import TokenizerFile
from tests.tools.builders import from_rows
from tests.tools.corpus_files import encode
from tests.tools.knobs import knobs
from transforms.corpus.prepare import Tokenizing, tokenize_batch
from transforms.tally import Tally


@pytest.fixture
def tokenizing(tokenizer: TokenizerFile, tmp_path: Path) -> Tokenizing:
    path = tmp_path / "complete.json"
    path.write_text(tokenizer.json)
    return Tokenizing(str(path), tokenizer.digest, "int16")


def batch(*documents: tuple[int, list[str]]) -> pa.RecordBatch:
    return from_rows(documents, TEXT_SCHEMA)


def tokenize(
    batches: list[pa.RecordBatch], tokenizing: Tokenizing
) -> tuple[list[pa.RecordBatch], dict[str, int]]:
    """Return the tokenized batches and the counts."""
    tokenizer, tally = tokenizing.load(), Tally()
    tokens = [tokenize_batch(tokenizer, batch, tally, tokenizing) for batch in batches]
    return tokens, dict(tally.counts())


def test_batches_are_encoded_as_the_library_does(
    tokenizer: TokenizerFile, tokenizing: Tokenizing
) -> None:
    batches = [
        batch((3, ["The lamp .", "A light ."]), (9, ["Sea ."])),
        batch((2**60, ["Rocks and shoals ."])),
    ]
    tokens, counts = tokenize(batches, tokenizing)
    expected = encode(batches, tokenizer)
    assert [batch.to_pylist() for batch in tokens] == [
        batch.documents.to_pylist() for batch in expected
    ]
    assert tokens[0].column("sentences").type.value_type.value_type == pa.int16()
    assert counts == {
        "tokenize.documents": 3,
        "tokenize.tokens": sum(batch.tokens for batch in expected),
        "tokenize.unknown_tokens": sum(batch.unknown_tokens for batch in expected),
        "tokenize.text_bytes": len("The lamp .A light .Sea .Rocks and shoals ."),
        "tokenize.empty_sentences": 0,
        "tokenize.empty_documents": 0,
        "tokenize.passages": 3,
    }


@pytest.mark.parametrize(("memoize", "cut"), [(True, 1), (False, 2)])
def test_texts_that_are_tokenized_in_parts_are_counted(
    memoize: bool, cut: int, tokenizing: Tokenizing
) -> None:
    # The compiled tokenizer leaves a word with a letter that it does not know to the library.
    batches = [batch((1, ["\U00010400" * 250, "Sea ."]), (2, ["a word " * 20]))]
    with knobs(most_characters=100):
        _, counts = tokenize(batches, replace(tokenizing, memoize=memoize))
    assert counts["tokenize.cut_texts"] == cut


@pytest.mark.parametrize("in_text", [True, False])
def test_special_tokens_in_text_are_counted(
    in_text: bool, tokenizer: TokenizerFile, tokenizing: Tokenizing
) -> None:
    batches = [batch((1, ["[SEP] a [SE P] [", "b[MASK][UNK]"]), (2, ["[[SEP]", "Sea ."]))]
    tokens, counts = tokenize(batches, replace(tokenizing, special_tokens_in_text=in_text))
    assert counts["tokenize.special_tokens_in_text"] == 4
    ids = tokens[0].column("sentences").flatten().flatten().to_pylist()
    special = {*tokenizer.special.all_ids} - {tokenizer.special.unk_id}
    assert sum(token in special for token in ids) == (3 if in_text else 0)
    # Part of a batch is counted alone.
    _, counts = tokenize([batches[0].slice(1)], tokenizing)
    assert counts["tokenize.special_tokens_in_text"] == 1


def test_text_without_tokens_is_counted_and_left_out(tokenizing: Tokenizing) -> None:
    batches = [batch((1, ["\u200b", "Sea ."]), (2, ["\u200b"])), batch((3, ["\u200b"]))]
    tokens, counts = tokenize(batches, tokenizing)
    left, empty = tokens
    assert empty.num_rows == 0
    assert left.column("document").to_pylist() == [1]
    assert len(left.column("sentences")[0]) == 1
    assert counts["tokenize.documents"] == 1
    assert counts["tokenize.empty_documents"] == 2
    assert counts["tokenize.empty_sentences"] == 3


@pytest.mark.parametrize(("tokens", "passages"), [(31, 1), (32, 1), (33, 2)])
def test_a_document_counts_by_its_passages_of_32_tokens(
    tokens: int, passages: int, tokenizing: Tokenizing
) -> None:
    [documents], counts = tokenize([batch((1, [" ".join(["."] * tokens)]))], tokenizing)
    assert len(documents.column("sentences")[0][0]) == tokens
    assert counts["tokenize.passages"] == passages
