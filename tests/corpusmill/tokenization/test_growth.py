"""Tokenizers that make far more of a text than there is are refused before they do."""

import json
import resource
import struct
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models, normalizers

from corpusmill.errors import UserError
from corpusmill.tokenization.growth import load_tokenizer
from corpusmill.tokenization.sources.read import read_tokenizer

Step = dict[str, Any]


def replace(pattern: str | dict[str, str], content: str) -> Step:
    pattern = {"String": pattern} if isinstance(pattern, str) else pattern
    return {"type": "Replace", "pattern": pattern, "content": content}


def regex(pattern: str, content: str) -> Step:
    return replace({"Regex": pattern}, content)


def prepend(text: str) -> Step:
    return {"type": "Prepend", "prepend": text}


def form(name: str) -> Step:
    return {"type": name}


def charsmap(key: str, value: str) -> Step:
    """Return a map of one key of one byte, as a double array of darts-clone."""
    # The root's children begin at 0; the key's unit is at its byte, and its value's behind that.
    units = [0] * 256
    label = ord(key)
    units[label] = label | 0x100 | (label ^ 255) << 10  # its first child is unit 255
    units[255] = 0x80000000
    data = struct.pack("<I256I", 1024, *units) + value.encode() + b"\0"
    return {"type": "Precompiled", "precompiled_charsmap": b64encode(data).decode()}


def byte_level(**changes: Any) -> Step:
    plain = {"add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {"type": "ByteLevel", **plain, **changes}


def write(
    normalizer: list[Step], splits: list[Step] | None = None, added: str | None = None
) -> str:
    described = json.loads(Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, "[UNK]")).to_str())
    described["normalizer"] = {"type": "Sequence", "normalizers": normalizer}
    described["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": splits or []}
    if added:
        flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "special"), False)
        described["added_tokens"] = [{"id": 2, "content": added, "normalized": True, **flags}]
    return json.dumps(described)


def sequence(*steps: Step) -> Step:
    return {"type": "Sequence", "normalizers": [*steps]}


TEN = replace("a", "a" * 10)
BOMBS = {
    "one after the other": write([TEN] * 12),
    "in an added token, as it is read": write([TEN] * 12, added="aaa"),
    "in sequences": write([sequence(TEN, TEN), sequence(sequence(*[TEN] * 9), TEN)]),
    "put before": write([prepend("▁▁▁▁")] * 900),
    "put before and replaced": write([prepend("a"), TEN] * 9),
    "any letter": write([regex(".", "xxx")] * 30),
    "between letters": write([regex("(?=.)", "x")] * 40),
    "everywhere": write([replace("", "x")] * 40),
    "a script": write([regex(r"\p{Han}", "漢漢")] * 40),
    "a range": write([regex(r"[\u0d00-\u0d7f]", "\u0d05\u0d05")] * 40),
    "an escaped letter": write([regex(r"\x{4E01}", "qq"), *[replace("q", "qq")] * 40]),
    "behind others": write([regex("(?<=zz)z", "zz")] * 40),
    "forms again": write([replace("k", "\ufdfa"), form("NFKD"), replace("\u0644", "k")] * 20),
    "bytes of bytes": write([form("ByteLevel")] * 40),
    "splits": write([], [byte_level()] * 40),
    "words": write([replace("abcdef", "abcdef" * 3)] * 30),
    "a long text": write([replace("a", "b" * 10**6)]),
    "a map": write([charsmap("a", "b" * 10**5)]),
    "a map and more": write([charsmap("a", "q" * 60), replace("q", "r" * 60)]),
    "very many steps": write([replace("a", "b")] * 5000),
}
HONEST = {
    "BERT": write([{"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                    "strip_accents": None, "lowercase": True}]),
    "Llama 2": write([prepend("▁"), replace(" ", "▁")]),
    "ALBERT": write([replace("``", '"'), form("NFKD"), form("StripAccents"), form("Lowercase"),
                     regex(" {2,}", " "), charsmap("a", "\ufdfa")]),
    "CLIP": write([form("NFC"), regex(r"\s+", " "), form("Lowercase")], [byte_level()]),
    "names of pictures": write([replace("\n", "<newline>"), replace("\t", "    "),
                                replace("\U0001f600", ":grinning_face_with_smiling_eyes:")]),
    "a step without a type": write([{"pattern": {"String": "a"}, "content": "b"}]),
    "many small steps": write([replace(chr(code), "x") for code in range(200, 300)]),
    "all forms": write([form("NFKD"), byte_level()], [byte_level(add_prefix_space=True)]),
}  # fmt: skip


def test_bombs_are_refused_in_little_memory() -> None:
    before, passed = _peak(), []
    for name, bomb in BOMBS.items():
        try:
            load_tokenizer(bomb)
            passed.append(name)
        except UserError:
            continue
    assert passed == []
    assert _peak() - before < 100 * 2**10  # kilobytes


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def test_tokenizers_of_people_pass() -> None:
    refused = []
    for name, honest in HONEST.items():
        try:
            load_tokenizer(honest)
        except UserError as error:
            refused.append((name, str(error)))
    assert refused == []


def test_the_message_names_the_tokenizer_the_cause_and_the_cure(tmp_path: Path) -> None:
    path = str(tmp_path / "bomb.json")
    with pytest.raises(UserError) as caught:
        read_tokenizer(path, {path: BOMBS["in an added token, as it is read"].encode()}.get)
    assert "bomb.json" in str(caught.value)
    assert "would fill the memory" in str(caught.value)
    assert "Remove such steps" in str(caught.value)


def test_a_template_of_very_many_tokens_is_refused() -> None:
    described = json.loads(write([]))
    special = {"id": "a", "ids": [0] * 1000, "tokens": ["a"] * 1000}
    pieces = [{"SpecialToken": {"id": "a", "type_id": 0}}] * 1000
    template = [*pieces, {"Sequence": {"id": "A", "type_id": 0}}]
    pair = [*template, {"Sequence": {"id": "B", "type_id": 1}}]
    described["post_processor"] = {"type": "TemplateProcessing", "single": template,
                                   "pair": pair, "special_tokens": {"a": special}}  # fmt: skip
    with pytest.raises(UserError, match="1,000,000 tokens around each text"):
        read_tokenizer("t.json", {"t.json": json.dumps(described).encode()}.get)


def test_the_map_of_these_tests_is_one_that_the_library_reads() -> None:
    step = charsmap("a", "bc")
    tokenizer = Tokenizer.from_str(write([step]))
    assert isinstance(tokenizer.normalizer, normalizers.Sequence)
    assert tokenizer.normalizer.normalize_str("a") == "bc"
