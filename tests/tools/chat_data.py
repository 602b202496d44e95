"""Conversations, and tokenizers with chat templates, for tests."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from corpusmill.objectives.chat_records import Layout
from corpusmill.tokenization.sources.read import read_tokenizer
from corpusmill.tokenization.tokenizer_file import TokenizerFile
from tests.tools.chat_families import FAMILIES, Family

_WORDS = "the keeper saw a storm over sea and wrote it down every night while ships went by".split()  # noqa: SIM905


def draw_conversations(number: int, seed: int = 0, system: bool = True) -> list[dict[str, Any]]:
    """Draw conversations of one to four questions."""
    generator = np.random.default_rng(seed)

    def say(end: str) -> str:
        return " ".join(generator.choice(_WORDS, generator.integers(1, 12))) + end

    conversations = []
    for _ in range(number):
        messages = []
        if system and generator.random() < 0.3:
            messages.append({"role": "system", "content": say(".")})
        for _ in range(generator.integers(1, 5)):
            messages.append({"role": "user", "content": say("?")})
            messages.append({"role": "assistant", "content": say(" \u00fcber\U0001f600.")})
        conversations.append({"messages": messages})
    return conversations


def write_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> Path:
    """Write records as JSON lines."""
    lines = [json.dumps(record, ensure_ascii=False) for record in records]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_tokenizer(
    folder: Path, family: Family = FAMILIES["chatml"], texts: Sequence[str] = ()
) -> Path:
    """Write a byte-level tokenizer with a family's special tokens and template."""
    folder.mkdir(parents=True, exist_ok=True)
    special = [*dict.fromkeys(filter(None, family.special)), "<|pad|>"]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        show_progress=False,
        special_tokens=[AddedToken(token, special=True, normalized=False) for token in special],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator([" ".join(_WORDS), "user assistant system", *texts], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"chat_template": family.template, "pad_token": "<|pad|>"}
    names = ("bos_token", "eos_token")
    config |= {name: token for name, token in zip(names, family.special, strict=False) if token}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def load_tokenizer(folder: Path) -> TokenizerFile:
    """Read a tokenizer as a build does."""

    def read_bytes(path: str) -> bytes | None:
        return Path(path).read_bytes() if Path(path).is_file() else None

    return read_tokenizer(str(folder), read_bytes)


def renderer_settings(template: str, family: Family = FAMILIES["chatml"], **changes: Any) -> str:
    """What a `Renderer` is made of, in JSON."""
    names = zip(("bos_token", "eos_token"), family.special, strict=False)
    settings = {
        "templates": {"default": template},
        "date": "2024-07-26",
        "values": {name: token for name, token in names if token},
        "special": sorted({*filter(None, family.special)}, key=len, reverse=True),
        "layout": Layout(),
        "roles": ["assistant"],
        "last_alone": False,
        "end_of_turn": [],
    }
    return json.dumps(settings | changes)
