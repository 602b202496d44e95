import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from tokenizers import Tokenizer, models, processors

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


def bounds(
    single: str, pair: str, **config: Any
) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
    """What a template and a tokenizer_config.json say of the tokens around a text."""
    names = ["x", "<s>", "</s>", "[CLS]", "[SEP]", "<sop>", "<|endoftext|>"]
    tokenizer = Tokenizer(models.WordLevel({name: n for n, name in enumerate(names)}, "x"))
    tokenizer.add_special_tokens(names[1:])
    special = [(name, n) for n, name in enumerate(names) if n]
    tokenizer.post_processor = processors.Sequence(
        [
            processors.ByteLevel(),
            processors.TemplateProcessing(single=single, pair=pair, special_tokens=special),
        ]
    )
    beside = {"tokenizer_config.json": config} if config else {}
    found = find_special_tokens(json.loads(tokenizer.to_str()), beside)
    if not config and found.before is not None:
        assert tokenizer.encode("x").ids[: len(found.before)] == [*found.before]
    return found.before, found.after


@pytest.mark.parametrize(
    ("single", "pair", "before", "after"),
    [
        ("<s> $A", "<s> $A <s> $B", (1,), None),
        ("<s> $A", "$A $B", (1,), None),
        ("$A </s>", "$A </s> $B </s>", None, (2,)),
        ("<s> $A </s>", "$A $B", (1,), (2,)),
        ("<s> $A </s>", "<s> $A </s> <s> $B </s>", (1,), (2,)),
        ("<s> <sop> $A", "<s> <sop> $A $B", (1, 5), None),
        ("$A", "$A $B", None, None),
        # These mark what is classified.
        ("<s> $A </s>", "<s> $A </s> </s> $B </s>", None, None),
        ("[CLS] $A [SEP]", "[CLS] $A [SEP] $B [SEP]", None, None),
        ("$A [SEP] [CLS]", "$A [SEP] $B [SEP] [CLS]", None, None),
    ],
)
def test_a_template_says_what_is_put_around_a_text(
    single: str, pair: str, before: tuple[int, ...] | None, after: tuple[int, ...] | None
) -> None:
    assert bounds(single, pair) == (before, after)


@pytest.mark.parametrize(
    ("config", "before", "after"),
    [
        ({"add_bos_token": True, "bos_token": "<s>"}, (1,), None),
        ({"add_bos_token": True, "bos_token": {"content": "<sop>"}}, (5,), None),
        ({"add_bos_token": True}, (1,), None),  # by its usual name
        ({"add_bos_token": False, "add_eos_token": False}, (), ()),
        ({"add_eos_token": True, "eos_token": "</s>"}, None, (2,)),
        ({"add_eos_token": True}, None, (6,)),
        # No such special token: nothing is said.
        ({"bos_token": "<none>"}, None, None),
    ],
    ids=str,
)
def test_the_configuration_beside_it_says_so_without_a_template(
    config: dict[str, Any], before: tuple[int, ...] | None, after: tuple[int, ...] | None
) -> None:
    assert bounds("$A", "$A $B", **config) == (before, after)


def test_the_configuration_counts_for_more_than_the_template() -> None:
    assert bounds("<s> $A", "$A $B", add_bos_token=False) == ((), None)
    assert bounds("<sop> $A", "$A $B", add_bos_token=True, bos_token="<s>") == ((1,), None)  # noqa: S106


def test_only_a_special_token_begins_texts() -> None:
    beside = {"tokenizer_config.json": {"bos_token": "x", "add_bos_token": True}}
    special = find_special_tokens(described(["x", "y"]), beside)
    assert (special.bos_id, special.before) == (None, None)
    special = find_special_tokens(described(["<bos>", "x"], ["<bos>"]), {})
    assert (special.bos_id, special.begin_of_text, special.find("bos")) == (0, (0,), 0)
    assert find_special_tokens(described(["x"]), {}).begin_of_text == ()
