"""A tokenizer's special tokens, found by their role and never by their place in the vocabulary."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from corpusmill.errors import UserError
from corpusmill.tokenization.tokenizer_json import added_tokens, list_steps

# The usual names of tokens of each role, for tokenizers whose files do not say.
_CONVENTIONS = {
    "cls": ("[CLS]", "<cls>", "<s>"),
    "sep": ("[SEP]", "<sep>", "</s>"),
    "mask": ("[MASK]", "<mask>"),
    "pad": ("[PAD]", "<pad>"),
    "unk": ("[UNK]", "<unk>"),
    "eos": ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "[EOS]"),
}
ROLES = tuple(_CONVENTIONS)
USUAL_NAMES = frozenset(name for names in _CONVENTIONS.values() for name in names)


@dataclass(frozen=True)
class SpecialTokens:
    """The ids of special tokens by role; None if the tokenizer has no token for the role.

    Attributes:
        cls_id: begins an example.
        sep_id: ends a segment.
        mask_id: replaces a masked token.
        pad_id: fills up the rows of a batch.
        unk_id: replaces what the vocabulary cannot spell.
        all_ids: the ids of all special tokens, sorted.
        eos_id: ends a text.
        roles: further roles, those of an objective, and their ids.
    """

    cls_id: int | None
    sep_id: int | None
    mask_id: int | None
    pad_id: int | None
    unk_id: int | None
    all_ids: tuple[int, ...]
    eos_id: int | None = None
    roles: tuple[tuple[str, int], ...] = ()

    def find(self, role: str) -> int | None:
        """Return the id of the token of a role; None if the tokenizer has none."""
        if role in _CONVENTIONS:
            token: int | None = getattr(self, f"{role}_id")
            return token
        return dict(self.roles).get(role)

    def require(self, tokenizer_name: str, *roles: str) -> None:
        """Make sure that the tokenizer has tokens for these roles.

        Raises:
            UserError: it lacks one.
        """
        missing = [role for role in roles if self.find(role) is None]
        if missing:
            names = ", ".join(_CONVENTIONS.get(role, (role,))[0] for role in missing)
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
    """Find the special tokens of a tokenizer.

    The token of a role is looked up in the files beside the tokenizer, then in its padding, model
    and post-processor, and then, by the usual names, among its added tokens.

    Args:
        tokenizer_json: the parsed tokenizer.json.
        companions: parsed files beside it, by name: special_tokens_map.json and
            tokenizer_config.json.

    Example:
        if the template is "[CLS] $A [SEP]", cls_id and sep_id are the ids of [CLS] and [SEP],
        wherever they are in the vocabulary.
    """
    added = added_tokens(tokenizer_json)
    added_ids = {token["content"]: token["id"] for token in added}
    vocabulary = _model_vocabulary(tokenizer_json["model"]) | added_ids
    ids: dict[str, Any] = {}
    for role in ROLES:
        named = [name for name in _names(role, tokenizer_json, companions) if name in vocabulary]
        usual = [name for name in _CONVENTIONS[role] if name in added_ids]
        ids[f"{role}_id"] = next((vocabulary[name] for name in named + usual), None)
    special_ids = {token["id"] for token in added if token.get("special")}
    special_ids |= {*ids.values()} - {None}
    return SpecialTokens(**ids, all_ids=tuple(sorted(special_ids)))


def add_roles(
    special: SpecialTokens, tokenizer_json: Mapping[str, Any], roles: Mapping[str, Sequence[str]]
) -> SpecialTokens:
    """Add the tokens of further roles, as far as a tokenizer has them.

    Args:
        special: the special tokens that are known.
        tokenizer_json: the parsed tokenizer.json.
        roles: for each role the names that its token may have, the first of which is preferred.
            Only added tokens count, as text never becomes any other token as a whole.

    Example:
        {"fim_prefix": ("<|fim_prefix|>", "<PRE>")} finds <PRE> in CodeLlama's tokenizer.
    """
    ids = {token["content"]: token["id"] for token in added_tokens(tokenizer_json)}
    found = [
        (role, next((ids[name] for name in names if name in ids), None))
        for role, names in roles.items()
    ]
    known = tuple((role, token) for role, token in found if token is not None)
    all_ids = {*special.all_ids, *(token for _, token in known)}
    return replace(special, roles=known, all_ids=tuple(sorted(all_ids)))


def _model_vocabulary(model: Mapping[str, Any]) -> dict[str, int]:
    vocabulary = model.get("vocab") or {}
    if isinstance(vocabulary, Mapping):
        return dict(vocabulary)
    return {token: number for number, (token, _) in enumerate(vocabulary)}  # Unigram: with scores


def _names(
    role: str, tokenizer_json: Mapping[str, Any], companions: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    """Names for the token of a role, the most reliable first."""
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
        for step in list_steps(tokenizer_json, "post_processor"):
            yield from _post_processor_names(role, step)


def _post_processor_names(role: str, step: Mapping[str, Any]) -> Iterator[str]:
    if role in step:  # BertProcessing and RobertaProcessing: "cls": ["[CLS]", 2]
        yield step[role][0]
    if step["type"] != "TemplateProcessing":
        return
    for template in (step["single"], step["pair"]):
        # [CLS] $A [SEP] $B [SEP]: cls is before the first sequence, sep is the first one after it.
        kinds = ["Sequence" in piece for piece in template]
        first = kinds.index(True) if True in kinds else len(kinds)
        for piece in template[:first] if role == "cls" else template[first + 1 :]:
            if "SpecialToken" in piece:
                yield from step["special_tokens"][piece["SpecialToken"]["id"]]["tokens"][:1]
