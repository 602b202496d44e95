"""Every format keeps what the job, `verify` and the readers rely on."""

import pytest

from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.formats.shard_formats import FORMATS
from corpusmill.testing import check_input_format, check_output_format, small_text, small_tokenizer


@pytest.mark.parametrize("name", sorted({*FORMATS.names} - {"ernie-text"}))
def test_an_output_format_keeps_the_contract(name: str) -> None:
    check_output_format(name, small_tokenizer())


@pytest.mark.parametrize(
    ("name", "content", "documents"),
    [
        ("text", small_text(9), 9),
        ("lines", small_text(9), 20),
        ("json-lines", b'{"text": "a storm"}\n{"text": "the lamp"}\n{"other": 1}\n', 2),
        ("csv", b'text,number\n"a storm, came",1\nthe lamp,2\n', 2),
    ],
)
def test_an_input_format_keeps_the_contract(name: str, content: bytes, documents: int) -> None:
    check_input_format(name, content, DocumentOptions(), documents)
