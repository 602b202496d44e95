import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from corpusmill.errors import UserError
from corpusmill.tokenization.tokenizer_file import find_special_tokens
from tests.tools.tokenizer_samples import PLAIN_PATH


def described(vocabulary: list[str], added: Sequence[str] = (), **parts: Any) -> dict[str, Any]:
    vocab = {token: place for place, token in enumerate(vocabulary)}
    return {
        "model": {"type": "BPE", "vocab": vocab, "merges": [], "unk_token": None},
        "added_tokens": [
            {"id": vocab[token], "content": token, "special": True} for token in added
        ],
        **parts,
    }


def template(single: str, pair: str) -> dict[str, Any]:
    def pieces(text: str) -> list[dict[str, Any]]:
        return [
            {"Sequence": {"id": part[1], "type_id": 0}}
            if part[0] == "$"
            else {"SpecialToken": {"id": part}}
            for part in text.split()
        ]

    names = {part for part in (single + " " + pair).split() if part[0] != "$"}
    return {
        "type": "TemplateProcessing",
        "single": pieces(single),
        "pair": pieces(pair),
        "special_tokens": {name: {"id": name, "ids": [0], "tokens": [name]} for name in names},
    }


@pytest.mark.parametrize(
    "processor",
    [
        template("A $A B", "A $A B $B B"),
        template("A $A", "A $A B $B C"),
        {"type": "BertProcessing", "cls": ["A", 1], "sep": ["B", 2]},
        {"type": "RobertaProcessing", "cls": ["A", 1], "sep": ["B", 2]},
        {
            "type": "Sequence",
            "processors": [{"type": "ByteLevel"}, template("A $A B C", "A $A B $B B")],
        },
    ],
)
def test_the_post_processor_names_the_first_and_the_separating_token(
    processor: dict[str, Any],
) -> None:
    special = find_special_tokens(
        described(["x", "A", "B", "C"], ["A", "B"], post_processor=processor), {}
    )
    assert (special.cls_id, special.sep_id) == (1, 2)


def test_padding_model_and_companions_name_tokens() -> None:
    tokenizer = described(["x", "P", "U", "M", "M2"], padding={"pad_token": "P"})
    tokenizer["model"]["unk_token"] = "U"  # noqa: S105 - not a password
    beside: dict[str, Mapping[str, Any]] = {
        "special_tokens_map.json": {"mask_token": {"content": "M", "lstrip": True}},
        "tokenizer_config.json": {"mask_token": "M2", "cls_token": "not there"},
    }
    special = find_special_tokens(tokenizer, beside)
    assert (special.pad_id, special.unk_id, special.mask_id, special.cls_id) == (1, 2, 3, None)
    assert special.all_ids == (1, 2, 3)


def test_a_unigram_model_names_its_unknown_token_by_place() -> None:
    special = find_special_tokens(json.loads(PLAIN_PATH["Unigram"]), {})
    assert (special.pad_id, special.unk_id, special.mask_id) == (0, 3, 4)


def test_usual_names_count_among_added_tokens_alone() -> None:
    tokenizer = described(["<s>", "</s>", "<mask>", "<pad>", "x"], ["<s>", "<mask>"])
    special = find_special_tokens(tokenizer, {})
    assert (special.cls_id, special.sep_id, special.mask_id, special.pad_id) == (0, None, 2, None)


def test_the_template_goes_before_usual_names() -> None:
    names = ["[CLS]", "[SEP]", "A", "B"]
    special = find_special_tokens(
        described(names, names, post_processor=template("A $A B", "A $A B $B B")), {}
    )
    assert (special.cls_id, special.sep_id) == (2, 3)


def test_a_missing_role_is_named_with_its_cure() -> None:
    special = find_special_tokens(described(["[CLS]", "x"], ["[CLS]"]), {})
    special.require("t.json", "cls")
    with pytest.raises(UserError, match=r"t\.json.*no \[SEP\], \[MASK\] token.*train-tokenizer"):
        special.require("t.json", "cls", "sep", "mask")


def test_the_end_of_text_is_found_by_name_and_by_companion() -> None:
    tokenizer = described(["<|endoftext|>", "</s>", "x"], ["<|endoftext|>", "</s>"])
    assert find_special_tokens(tokenizer, {}).eos_id == 0
    beside = {"tokenizer_config.json": {"eos_token": "x"}}
    special = find_special_tokens(tokenizer, beside)
    assert (special.eos_id, special.sep_id, special.all_ids) == (2, 1, (0, 1, 2))
    assert find_special_tokens(described(["[SEP]"], ["[SEP]"]), {}).eos_id is None
