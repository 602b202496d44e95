"""The parts of a parsed tokenizer.json: its steps, one by one, and its added tokens."""

from collections.abc import Mapping
from typing import Any

Part = Mapping[str, Any]

# The keys under which a sequence of steps holds them.
_INNER_STEPS = {
    "normalizer": "normalizers",
    "pre_tokenizer": "pretokenizers",
    "post_processor": "processors",
}


def list_steps(tokenizer_json: Part, part: str) -> list[Part]:
    """List the steps of a part, with those of sequences in their place.

    Args:
        tokenizer_json: the parsed tokenizer.json.
        part: "normalizer", "pre_tokenizer" or "post_processor".
    """

    def flatten(step: Part) -> list[Part]:
        if step["type"] != "Sequence":
            return [step]
        return [inner for one in step[_INNER_STEPS[part]] for inner in flatten(one)]

    return flatten(tokenizer_json[part]) if tokenizer_json.get(part) else []


def list_patterns(tokenizer_json: Part) -> set[str]:
    """The regular expressions by which a tokenizer rewrites or splits a text."""
    steps = (
        step
        for part in ("normalizer", "pre_tokenizer")
        for step in list_steps(tokenizer_json, part)
    )
    patterns = (step.get("pattern") for step in steps)
    return {
        pattern["Regex"] for pattern in patterns if isinstance(pattern, dict) and "Regex" in pattern
    }


def added_tokens(tokenizer_json: Part) -> list[Part]:
    """The added tokens: text that is one of them is never split."""
    return tokenizer_json.get("added_tokens") or []
