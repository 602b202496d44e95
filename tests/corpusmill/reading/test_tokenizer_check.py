"""A data set is refused with a tokenizer that gives its tokens other ids."""

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from corpusmill.errors import UserError
from corpusmill.reading.data_set import DataSet
from tests.tools.lazily import LazyModule
from tests.tools.small_datasets import bert_tokenizer

transformers = LazyModule("transformers")


def test_the_tokenizer_of_the_data_is_accepted_in_any_form(bert: Path, tmp_path: Path) -> None:
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(bert / "tokenizer.json"),
        mask_token="[MASK]",  # noqa: S106
        pad_token="[PAD]",  # noqa: S106
    )
    fast.save_pretrained(tmp_path / "saved")
    further = transformers.PreTrainedTokenizerFast(tokenizer_file=str(bert / "tokenizer.json"))
    further.add_tokens(["<new>"])
    forms = [
        bert / "tokenizer.json", bert, str(bert), fast, tmp_path / "saved", further,
        Tokenizer.from_file(str(bert / "tokenizer.json")),
        transformers.BertTokenizerFast(tokenizer_file=str(bert / "tokenizer.json")),
    ]  # fmt: skip
    for form in forms:
        DataSet(bert, tokenizer=form)


def test_another_tokenizer_than_the_datas_is_refused(bert: Path, tmp_path: Path) -> None:
    described = json.loads(bert_tokenizer().json)
    vocabulary = described["model"]["vocab"]
    by_id = sorted(vocabulary, key=vocabulary.get)
    vocabulary[by_id[100]], vocabulary[by_id[101]] = 101, 100
    swapped = json.dumps(described)
    (tmp_path / "swapped.json").write_text(swapped)
    masked = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(bert / "tokenizer.json"), mask_token=by_id[300]
    )
    cases: list[tuple[Any, str]] = [
        (tmp_path / "swapped.json", "which is 100 in the data, is 101 in it"),
        (Tokenizer.from_str(swapped), "which is 100 in the data, is 101 in it"),
        (masked, "its mask_token_id is 300, that of the data is"),
        (tmp_path / "none.json", "cannot be read (No such file"),
        (bert / "README.md", "it is not a tokenizer.json"),
        (7, "it has no get_vocab()"),
    ]
    for tokenizer, cause in cases:
        with pytest.raises(UserError) as refused:
            DataSet(bert, tokenizer=tokenizer)
        assert str(refused.value).startswith("tokenizer=")
        assert cause in str(refused.value)


def test_a_tokenizer_that_lacks_tokens_of_the_data_is_refused(gpt_stream: Path) -> None:
    with pytest.raises(UserError, match=r"'<\|endoftext\|>', which is 600 in the data, is not in"):
        DataSet(gpt_stream, tokenizer=Tokenizer.from_str(bert_tokenizer().json))
