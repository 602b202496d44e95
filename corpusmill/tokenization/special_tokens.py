"""A tokenizer's special tokens, found by their role and never by their place in the vocabulary."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from corpusmill.errors import UserError

ROLES = ("cls", "sep", "mask", "pad", "unk", "eos")

# What tokens of each role are called where nothing else says so.
_CONVENTIONS = {
    "cls": ("[CLS]", "<cls>", "<s>"),
    "sep": ("[SEP]", "<sep>", "</s>"),
    "mask": ("[MASK]", "<mask>"),
    "pad": ("[PAD]", "<pad>"),
    "unk": ("[UNK]", "<unk>"),
    "eos": ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "[EOS]"),
}
USUAL_NAMES = frozenset(name for names in _CONVENTIONS.values() for name in names)


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
        eos_id: ends a text.
    """

    cls_id: int | None
    sep_id: int | None
    mask_id: int | None
    pad_id: int | None
    unk_id: int | None
    all_ids: tuple[int, ...]
    eos_id: int | None = None

    def require(self, tokenizer_name: str, *roles: str) -> None:
        """Make sure that tokens of the roles exist.

        Raises:
            UserError: some do not.
        """
        missing = [role for role in roles if getattr(self, f"{role}_id") is None]
        if missing:
            names = ", ".join(_CONVENTIONS[role][0] for role in missing)
            raise UserError(
                f"--tokenizer {tokenizer_name}",
                f"it has no {names} token",
                "Add the token to the tokenizer as a special token, name it in a "
                f"tokenizer_config.json beside it ({missing[0]}_token), or train one "
                "with `train-tokenizer`",
            )


def find_special_tokens(
    tokenizer_json: Mapping[str, Any], companions: Mapping[str, Mapping[str, Any]]
) -> SpecialTokens:
    """The special tokens of a tokenizer.

    A role is looked up, in this order, in the files beside the tokenizer, in its padding, model and
    post-processor, and, by the usual names, among its added tokens.

    Args:
        tokenizer_json: the parsed tokenizer.json.
        companions: parsed files beside it, by name: special_tokens_map.json and
            tokenizer_config.json.

    Example:
        with "[CLS] $A [SEP]" as its template, cls_id and sep_id are the ids of [CLS] and [SEP],
        whatever their place in the vocabulary is.
    """
    added = tokenizer_json.get("added_tokens") or ()
    added_ids = {token["content"]: token["id"] for token in added}
    vocabulary = _model_vocabulary(tokenizer_json["model"]) | added_ids
    ids: dict[str, int | None] = {}
    for role in ROLES:
        named = [name for name in _names(role, tokenizer_json, companions) if name in vocabulary]
        usual = [name for name in _CONVENTIONS[role] if name in added_ids]
        ids[f"{role}_id"] = next((vocabulary[name] for name in named + usual), None)
    every = {token["id"] for token in added if token.get("special")}
    every.update(found for found in ids.values() if found is not None)
    return SpecialTokens(
        cls_id=ids["cls_id"],
        sep_id=ids["sep_id"],
        mask_id=ids["mask_id"],
        pad_id=ids["pad_id"],
        unk_id=ids["unk_id"],
        all_ids=tuple(sorted(every)),
        eos_id=ids["eos_id"],
    )


def _model_vocabulary(model: Mapping[str, Any]) -> dict[str, int]:
    vocabulary = model.get("vocab") or {}
    if isinstance(vocabulary, Mapping):
        return dict(vocabulary)
    return {token: place for place, (token, _) in enumerate(vocabulary)}  # Unigram: (token, score)


def _names(
    role: str, tokenizer_json: Mapping[str, Any], companions: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    for companion in companions.values():
        token = companion.get(f"{role}_token")
        content = token.get("content") if isinstance(token, Mapping) else token
        if isinstance(content, str):
            yield content
    model = tokenizer_json["model"]
    if role == "pad" and tokenizer_json.get("padding"):
        yield tokenizer_json["padding"]["pad_token"]
    if role == "unk" and model.get("unk_token") is not None:
        yield model["unk_token"]
    if role == "unk" and model.get("unk_id") is not None:  # Unigram
        yield model["vocab"][model["unk_id"]][0]
    if role in {"cls", "sep"}:
        yield from _post_processor_names(role, tokenizer_json.get("post_processor") or {})


def _post_processor_names(role: str, processor: Mapping[str, Any]) -> Iterator[str]:
    for inner in processor.get("processors", ()):
        yield from _post_processor_names(role, inner)
    if role in processor:  # BertProcessing and RobertaProcessing: "cls": ["[CLS]", 2]
        yield processor[role][0]
    if processor.get("type") == "TemplateProcessing":
        for template in (processor["single"], processor["pair"]):
            yield from _template_names(role, template, processor["special_tokens"])


def _template_names(role: str, template: list[Any], special: Mapping[str, Any]) -> Iterator[str]:
    # [CLS] $A [SEP] $B [SEP]: cls is before the first sequence, sep the first one behind it.
    kinds = ["Sequence" in piece for piece in template]
    first = kinds.index(True) if True in kinds else len(kinds)
    for piece in template[:first] if role == "cls" else template[first + 1 :]:
        if "SpecialToken" in piece:
            yield from special[piece["SpecialToken"]["id"]]["tokens"][:1]
