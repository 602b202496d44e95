"""The tokenizer_config.json of a data set, as transformers reads it."""

import json
from itertools import product
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from corpusmill.tokenization.sources.read import read_tokenizer
from corpusmill.tokenization.tokenizer_file import (
    ROLES,
    describe_tokenizer,
    divide_templates,
    find_special_tokens,
    vocabulary_of,
)
from tests.conftest import read_local
from tests.tools import tokenizer_samples
from tests.tools.small_datasets import SAMPLE, bert_tokenizer, gpt_tokenizer
from tests.tools.unigram_samples import converted

TEMPLATE = "{% for message in messages %}{{ message['content'] + eos_token }}{% endfor %}"


def test_a_token_that_is_there_for_padding_goes_before_the_end_of_text() -> None:
    cases = {
        # Special tokens, the end of text that a file beside the tokenizer names, and the padding.
        ("<s>", "<pad>", "</s>"): ("", "<pad>"),
        ("[PAD]", "<|endoftext|>"): ("", "[PAD]"),
        ("<|endoftext|>",): ("", "<|endoftext|>"),
        ("<|endoftext|>", "<|pad|>"): ("", "<|pad|>"),
        ("<|endoftext|>", "<|im_end|>"): ("<|im_end|>", "<|endoftext|>"),
        ("<|begin_of_text|>", "<|end_of_text|>", "<|finetune_right_pad_id|>"): (
            "", "<|finetune_right_pad_id|>",
        ),
        ("<unk>", "<mask>"): ("", None),
    }  # fmt: skip
    named = {}
    for tokens, (end, _) in cases.items():
        content = vocabulary_of(tokens).json
        beside = {"tokenizer_config.json": {"eos_token": end}}
        special = find_special_tokens(json.loads(content), beside)
        config = json.loads(describe_tokenizer(content, special, None))
        named[tokens] = (end, config.get("pad_token"))
        assert config.get("eos_token") == (end or config.get("eos_token"))
    assert named == cases


def test_transformers_gives_our_ids_and_our_special_tokens(tmp_path: Path) -> None:
    lines = [line for line in SAMPLE.decode().split("\n") if line][:200]
    contents = {
        "WordPiece": bert_tokenizer().json,
        "WordPiece with an end of text": gpt_tokenizer().json,
        "byte-level BPE": tokenizer_samples.byte_level(),
        "unigram": converted(),
    }
    for name, content in contents.items():
        ours = read_tokenizer("tokenizer.json", {"tokenizer.json": content.encode()}.get)
        config = describe_tokenizer(ours.json, ours.special, TEMPLATE)
        folder = tmp_path / name
        folder.mkdir()
        (folder / "tokenizer.json").write_text(ours.json)
        (folder / "tokenizer_config.json").write_bytes(config)
        theirs = AutoTokenizer.from_pretrained(folder)
        encode = tokenizer_samples.encode_with(ours)
        assert theirs(lines, add_special_tokens=False)["input_ids"] == encode(lines), name
        assert len(theirs) == ours.vocab_size, name
        special = {role: ours.special.find(role) for role in (*ROLES, "bos")}
        special["pad"] = theirs.pad_token_id if special["pad"] is None else special["pad"]
        assert {role: getattr(theirs, f"{role}_token_id") for role in special} == special, name
        assert theirs.chat_template == TEMPLATE
        again = read_tokenizer(str(folder), read_local)
        assert {role: again.special.find(role) for role in special} == special, name
        assert (again.chat_template, again.digest) == (TEMPLATE, ours.digest), name


def test_templates_with_names_stay_apart(tmp_path: Path) -> None:
    ours = gpt_tokenizer()
    named = {"default": TEMPLATE, "tool_use": "{{ tools }}"}
    text = json.dumps([{"name": name, "template": one} for name, one in named.items()])
    config = describe_tokenizer(ours.json, ours.special, text)
    (tmp_path / "tokenizer.json").write_text(ours.json)
    (tmp_path / "tokenizer_config.json").write_bytes(config)
    assert AutoTokenizer.from_pretrained(tmp_path).chat_template == named
    again = read_tokenizer(str(tmp_path), read_local).chat_template
    assert divide_templates(str(again)) == named


def test_what_begins_and_ends_texts_is_kept() -> None:
    plain = json.loads(vocabulary_of(("<s>", "</s>", "<unk>")).json)
    tokens = {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}
    single: list[Any] = [{"SpecialToken": {"id": "<s>", "type_id": 0}}]
    single += [{"Sequence": {"id": "A", "type_id": 0}}]
    template = {"type": "TemplateProcessing", "single": single, "pair": [*single, *single],
                "special_tokens": tokens}  # fmt: skip
    kept, expected = {}, {}
    for name, described in (("plain", plain), ("begun", plain | {"post_processor": template})):
        for added in product((None, False, True), repeat=2):
            roles = dict(zip(("add_bos_token", "add_eos_token"), added, strict=True))
            special = find_special_tokens(described, {"tokenizer_config.json": roles})
            config = json.loads(describe_tokenizer(json.dumps(described), special, None))
            again = find_special_tokens(described, {"tokenizer_config.json": config})
            expected[name, added] = (special.before, special.after)
            kept[name, added] = (again.before, again.after)
    assert kept == expected
    assert expected["plain", (True, None)] == ((0,), None)
