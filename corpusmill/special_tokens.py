"""A tokenizer's special tokens, found by their role and never by their place in the vocabulary."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from corpusmill.faults import UserError

ROLES = ("cls", "sep", "mask", "pad", "unk")

# What tokens of each role are called where nothing else says so.
_CONVENTIONS = {
    "cls": ("[CLS]", "<cls>", "<s>"),
    "sep": ("[SEP]", "<sep>", "</s>"),
    "mask": ("[MASK]", "<mask>"),
    "pad": ("[PAD]", "<pad>"),
    "unk": ("[UNK]", "<unk>"),
}


@dataclass(frozen=True)
class SpecialTokens:
    """Ids by role; None where the tokenizer has no token of the role.

    Attributes:
        cls_id: begins an example.
        sep_id: ends a segment.
        mask_id: stands for a masked token.
        pad_id: fills a batch.
        unk_id: stands for what the vocabulary cannot spell.
        all_ids: every special id, sorted.
    """

    cls_id: int | None
    sep_id: int | None
    mask_id: int | None
    pad_id: int | None
    unk_id: int | None
    all_ids: tuple[int, ...]

    def require(self, tokenizer_name: str, *roles: str) -> None:
        """Make sure that tokens of the roles exist.

        Raises:
            UserError: some do not.
        """
        missing = [role for role in roles if getattr(self, f"{role}_id") is None]
        if missing:
            names = ", ".join(_CONVENTIONS[role][0] for role in missing)
            raise UserError(
                f"--tokenizer {tokenizer_name}", f"it has no {names} token",
                "Add the token to the tokenizer as a special token, name it in a tokenizer_config.json "
                f"beside it ({missing[0]}_token), or train one with `train-tokenizer`",
            )


def find_special_tokens(
    tokenizer_json: Mapping[str, Any], vocabulary: Mapping[str, int], companions: Mapping[str, Mapping[str, Any]]
) -> SpecialTokens:
    """The special tokens of a tokenizer.

    A role is looked up, in this order, in special_tokens_map.json and tokenizer_config.json beside the
    tokenizer, in its padding, model and post-processor, and among the usual names.

    Args:
        tokenizer_json: the parsed tokenizer.json.
        vocabulary: token to id, added tokens included.
        companions: parsed files beside it, by name.
    """
    ids: dict[str, int | None] = {}
    for role in ROLES:
        names = (name for name in _names(role, tokenizer_json, companions) if name in vocabulary)
        name = next(names, None)
        ids[role] = None if name is None else vocabulary[name]
    flagged = {
        int(token["id"]) for token in tokenizer_json.get("added_tokens") or () if token.get("special")
    }
    every = flagged | {found for found in ids.values() if found is not None}
    by_role = {f"{role}_id": found for role, found in ids.items()}
    return SpecialTokens(**by_role, all_ids=tuple(sorted(every)))  # type: ignore[arg-type]


def _names(
    role: str, tokenizer_json: Mapping[str, Any], companions: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    for companion in companions.values():
        token = companion.get(f"{role}_token")
        content = token.get("content") if isinstance(token, Mapping) else token
        if isinstance(content, str):
            yield content
    if role == "pad" and tokenizer_json.get("padding"):
        yield str(tokenizer_json["padding"]["pad_token"])
    if role == "unk" and isinstance(tokenizer_json["model"].get("unk_token"), str):
        yield tokenizer_json["model"]["unk_token"]
    if role in {"cls", "sep"}:
        yield from _post_processor_names(role, tokenizer_json.get("post_processor") or {})
    yield from _CONVENTIONS[role]


def _post_processor_names(role: str, processor: Mapping[str, Any]) -> Iterator[str]:
    for inner in processor.get("processors", ()):
        yield from _post_processor_names(role, inner)
    if role in processor:  # BertProcessing and RobertaProcessing: "cls": ["[CLS]", 2]
        yield str(processor[role][0])
    if processor.get("type") == "TemplateProcessing":
        tokens = [part["SpecialToken"]["id"] for part in processor["single"] if "SpecialToken" in part]
        # [CLS] $A [SEP]: the first and the last special token of the template.
        if len(tokens) >= 2:
            yield str(tokens[0 if role == "cls" else -1])
