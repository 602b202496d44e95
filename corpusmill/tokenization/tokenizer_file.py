"""A tokenizer as it travels: its tokenizer.json, its special tokens, and how it was read.

Code that names these types need not import the tokenizers library.

Token ids may be marked by whether they continue a word. Between tokenizing and building, the
boundaries of words (`corpusmill.tokenization.words.words`) travel in the ids themselves, as 2 * id
+ continues, so that all stages in between handle one list of integers, with boundaries as without.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from corpusmill.arrays.columns import smallest_integer
from corpusmill.errors import UserError, option, suggest


def marked_dtype(vocab_size: int) -> np.dtype:
    """Return the smallest of int16, uint16 and int32 that holds every marked id.

    Args:
        vocab_size: upper bound of the ids; at most 2**30.

    Raises:
        OverflowError: the vocabulary is larger.
    """
    if vocab_size > 2**30:
        raise OverflowError(f"marked ids of {vocab_size:,} tokens take more than 31 bits")
    return smallest_integer(max(2 * vocab_size - 1, np.iinfo(np.int16).max))


def mark(ids: np.ndarray, continues: npt.NDArray[np.bool_]) -> np.ndarray:
    """Mark token ids.

    Args:
        ids: [n], of an integer type that also holds the marked ids.
        continues: bool[n], whether a token continues the word of the token before it in its
            sentence.

    Returns:
        2 * ids + continues, [n], of the same type as ids.

    Example:
        "un ##cut ##s , word" with ids [7, 8, 9, 4, 6] gives [14, 17, 19, 8, 12].
    """
    marked: np.ndarray = (ids << 1) | continues.astype(ids.dtype)
    return marked


def ids_of(marked: np.ndarray) -> np.ndarray:
    """Return the token ids of marked ones, of the same type."""
    ids: np.ndarray = marked >> 1
    return ids


def continues_of(marked: np.ndarray) -> npt.NDArray[np.bool_]:
    """Return bool[n]: whether each marked id continues the word before it."""
    return (marked & 1).astype(np.bool_)


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


def special_names(tokenizer_json: Part) -> list[str]:
    """The special tokens among the added ones, the longest first."""
    added = added_tokens(tokenizer_json)
    names = {token["content"] for token in added if token.get("special") and token["content"]}
    return sorted(names, key=lambda name: (-len(name), name))


# A noncharacter, which no text needs.
_HIDDEN = "\ufdd0"


@lru_cache(maxsize=1)  # it is asked for more than once as a tokenizer is loaded
def hide_special_tokens(tokenizer_json: str) -> str:
    """Rename the special tokens in a tokenizer's vocabulary, so that no text becomes one of them.

    By the library's `encode_special_tokens` alone they are not taken out of the text, but unigram
    and word-level models then find them in their vocabulary all the same.

    Args:
        tokenizer_json: a complete tokenizer.json; one of BPE, whose pieces follow from merges, and
            the token for unknown words stay as they are.

    Returns:
        The tokenizer.json by which texts are encoded, with the same ids.
    """
    described = json.loads(tokenizer_json)
    model = described["model"]
    names = {*special_names(described)} - {model.get("unk_token")}
    if isinstance(model["vocab"], list):
        # Unigram: control pieces score 0, and SentencePiece itself takes its user-defined symbols
        # out of each text.
        names &= {name for name, score in model["vocab"] if score == 0}
    if model.get("type") == "BPE" or not names:
        return tokenizer_json

    rename_tokens(described, names, _HIDDEN)
    return json.dumps(described, ensure_ascii=False)


def rename_tokens(described: dict[str, Any], names: Collection[str], prefix: str) -> None:
    """Put a prefix before the names of tokens, in the vocabulary and among added tokens.

    Args:
        described: the parsed tokenizer.json, changed in place.
        names: the tokens.
        prefix: the prefix.
    """

    def rename(name: str) -> str:
        return prefix + name if name in names else name

    for token in described["added_tokens"]:
        token["content"] = rename(token["content"])
    vocabulary = described["model"]["vocab"]
    pairs = vocabulary.items() if isinstance(vocabulary, dict) else vocabulary
    # Unigram's is a list, with scores.
    described["model"]["vocab"] = type(vocabulary)((rename(name), one) for name, one in pairs)


def show_special_token(name: str) -> str:
    """Return the name of a token before `hide_special_tokens`."""
    return name.removeprefix(_HIDDEN)


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
# Of a template that puts tokens around a text; each of its names may stand for many.
_MOST_AROUND = 1000
_BOS_NAMES = ("<|begin_of_text|>", "<bos>", "<s>", "[BOS]")
# A template with one of them is that of a classifier's input, and not of a document.
_CLASSIFYING = frozenset({"[CLS]", "<cls>", "[SEP]", "<sep>"})
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
        bos_id: begins a text.
        before: what the tokenizer's own `encode` puts before each text; empty if its files say that
            nothing does, and None if they say nothing of it.
        after: what it puts after each text; empty and None mean the same as for `before`.
    """

    cls_id: int | None
    sep_id: int | None
    mask_id: int | None
    pad_id: int | None
    unk_id: int | None
    all_ids: tuple[int, ...]
    eos_id: int | None = None
    roles: tuple[tuple[str, int], ...] = ()
    bos_id: int | None = None
    before: tuple[int, ...] | None = None
    after: tuple[int, ...] | None = None

    @property
    def begin_of_text(self) -> tuple[int, ...]:
        """What begins a text, if something is to: its own tokens for that, or else its bos."""
        return self.before or (() if self.bos_id is None else (self.bos_id,))

    @property
    def end_of_text(self) -> tuple[int, ...]:
        """What ends a text, if something is to: its own tokens for that, or else its eos."""
        return self.after or (() if self.eos_id is None else (self.eos_id,))

    def find(self, role: str) -> int | None:
        """Return the id of the token of a role; None if the tokenizer has none."""
        if role in _CONVENTIONS or role == "bos":
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
                option("tokenizer", tokenizer_name),
                f"it has no {names} token",
                "Train one that has it (`train-tokenizer`), add it to this one as a special token, "
                f"or name it in a tokenizer_config.json beside it ({missing[0]}_token)",
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
    added, vocabulary = added_tokens(tokenizer_json), _vocabulary(tokenizer_json)
    added_names, ids = {token["content"] for token in added}, dict[str, Any]()
    for role in ROLES:
        named = [name for name in _names(role, tokenizer_json, companions) if name in vocabulary]
        usual = [name for name in _CONVENTIONS[role] if name in added_names]
        ids[f"{role}_id"] = next((vocabulary[name] for name in named + usual), None)
    special_ids = {token["id"] for token in added if token.get("special")}
    special_ids |= {*ids.values()} - {None}
    # What begins and ends a text. What `tokenizer_config.json` says counts for more than the
    # post-processor, as for transformers. Only special tokens count, as text never becomes one.
    names = [*_names("bos", tokenizer_json, companions), *_BOS_NAMES]
    bos_ids = (vocabulary.get(name) for name in names)
    bos_id = next((token for token in bos_ids if token in special_ids), None)
    config = companions.get("tokenizer_config.json", {})
    sides = list[tuple[int, ...] | None]()
    for around, role, token in zip(
        _list_around(tokenizer_json), ("bos", "eos"), (bos_id, ids["eos_id"]), strict=True
    ):
        adds = config.get(f"add_{role}_token")
        if adds is False:
            sides.append(())
        elif adds is True and token is not None:
            sides.append((token,))
        else:
            sides.append(tuple(around) if around and special_ids.issuperset(around) else None)
    return SpecialTokens(
        **ids, all_ids=tuple(sorted(special_ids)), bos_id=bos_id, before=sides[0], after=sides[1]
    )


def _list_around(tokenizer_json: Mapping[str, Any]) -> tuple[list[int], list[int]]:
    """List what templates put before a text, and what they put after it.

    "[CLS] $A [SEP]", or a template by which only the first of two texts is begun and a token of the
    end divides them ("<s> $A </s> </s> $B </s>"), marks what is classified, and not documents.
    """
    before, after = list[int](), list[int]()
    for step in list_steps(tokenizer_json, "post_processor"):
        if len(parts := _cut_template(step.get("single", ()))) != 2:
            continue
        (begin, end), between = parts, _cut_template(step["pair"])[1]
        divides = begin and end and end[0] in between and begin[-1] not in between
        if not divides and _CLASSIFYING.isdisjoint(begin + end):
            ids = {name: token["ids"] for name, token in step["special_tokens"].items()}
            if (size := sum(len(ids[name]) for name in begin + end)) > _MOST_AROUND:
                raise ValueError(f"it puts {size:,} tokens around each text")
            before = [token for name in begin for token in ids[name]] + before
            after += [token for name in end for token in ids[name]]
    return before, after


def _cut_template(template: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """List the names of the special tokens before, between and after the texts of a template."""
    parts: list[list[str]] = [[]]
    for piece in template:
        if "Sequence" in piece:
            parts.append([])
        else:
            parts[-1].append(piece["SpecialToken"]["id"])
    return parts


def vocabulary_of(special_tokens: Sequence[str]) -> "TokenizerFile":
    """Return a tokenizer that has nothing but special tokens, to try what they suffice for."""
    added = [
        {"id": number, "content": token, "special": True}
        for number, token in enumerate(special_tokens)
    ]
    described = {"added_tokens": added, "model": {}}
    special, content = find_special_tokens(described, {}), json.dumps(described)
    return TokenizerFile("", content, len(added), special, digest="")


# Tokens that fill rows by their names, beside another one that ends a text.
_FILLERS = ("<|pad|>", "<|finetune_right_pad_id|>", "<|endoftext|>")


def describe_tokenizer(tokenizer_json: str, special: SpecialTokens, chat_template: Any) -> bytes:
    """Return the tokenizer_config.json by which transformers' `AutoTokenizer` knows the roles.

    One without a token for padding gets one that is named for it, or else its end, as in TRL.

    Args:
        tokenizer_json: a complete tokenizer.json.
        special: its special tokens.
        chat_template: as `divide_templates` takes it; None for none.
    """
    described = json.loads(tokenizer_json)
    vocabulary, plain = _vocabulary(described), find_special_tokens(described, {})
    ids = {role: special.find(role) for role in (*ROLES, "bos")}
    if ids["pad"] is None:
        fillers = {*special.all_ids} - {ids["bos"], ids["eos"]}
        named = map(vocabulary.get, _FILLERS)
        ids["pad"] = next((token for token in named if token in fillers), ids["eos"])
    names = {token: name for name, token in vocabulary.items()}
    config: dict[str, Any] = {f"{role}_token": names[n] for role, n in ids.items() if n in names}
    config |= {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    sides = (("bos", special.before, plain.before), ("eos", special.after, plain.after))
    told = ((role, added) for role, added, by_json in sides if added not in (None, by_json))
    config |= {f"add_{role}_token": bool(added) for role, added in told}
    if chat_template:
        templates = divide_templates(chat_template).items()
        several = [{"name": name, "template": text} for name, text in templates]
        config["chat_template"] = several if len(several) > 1 else chat_template
    return json.dumps(config, ensure_ascii=False, indent=2).encode() + b"\n"


def divide_templates(text: str) -> dict[str, str]:
    """Return chat templates by their names; a text in JSON holds several, as transformers has them.

    Example:
        '[{"name": "rag", "template": "a"}]' gives {"rag": "a"}, and "a" gives {"default": "a"}.
    """
    with suppress(KeyError, TypeError, ValueError):
        if text.startswith("[{"):
            return {template["name"]: template["template"] for template in json.loads(text)}
    return {"default": text}


def _vocabulary(tokenizer_json: Mapping[str, Any]) -> dict[str, int]:
    """Return the ids of all tokens, the added ones at last."""
    vocabulary = tokenizer_json["model"].get("vocab") or {}
    if not isinstance(vocabulary, Mapping):  # Unigram: with scores
        vocabulary = {token: number for number, (token, _) in enumerate(vocabulary)}
    added = {token["content"]: token["id"] for token in added_tokens(tokenizer_json)}
    return {**vocabulary, **added}


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


TOKENIZER_JSON = "tokenizer.json"
BYTES_FORM = "tokenizer of bytes"
PATTERN_CHOICES = "gpt2, r50k, p50k, cl100k, o200k or a regular expression"

# The largest vocabulary: kernels and libraries keep a table of all ids up to the largest.
MOST_TOKENS = 2**24

Encode = Callable[[list[str]], list[list[int]]]


@dataclass(frozen=True)
class TokenizerOptions:
    """How to read a tokenizer whose file does not say everything."""

    lowercase: bool | None = None
    """For a vocab.txt or a .model: lower-case the text, like do_lower_case of BERT and ALBERT. By
    default the tokenizer_config.json beside it decides; without one, text is lower-cased if no word
    of a vocab.txt has an upper-case letter."""
    strip_accents: bool | None = None
    """For a vocab.txt or a .model: strip accents. By default the tokenizer_config.json beside it
    decides; without one, accents are stripped if the text is lower-cased."""
    special_tokens_in_text: bool = False
    """Turn a special token that occurs in the text, such as <|endoftext|> or [SEP], into its id, by
    which a text can end its own document; if not, tokenize it as ordinary text."""
    tiktoken_pattern: str | None = None
    """For a tiktoken file: what breaks text into pieces; gpt2, r50k, p50k, cl100k, o200k, or a
    regular expression. By default the file's name decides."""

    role_tokens: tuple[str, ...] = ()
    """Special tokens of the roles that an objective needs, as role=token, where the tokenizer has
    none of the usual names: fim_prefix=<PRE> fim_suffix=<SUF> fim_middle=<MID>."""

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: the pattern is empty, or a role or its token is.
        """
        for pair in self.role_tokens:
            if not all(pair.partition("=")):
                cause = "it is not of the form role=token"
                raise UserError(option("role_tokens", pair), cause, "Give fim_prefix=<PRE>, say")
        if self.tiktoken_pattern is not None and not self.tiktoken_pattern.strip():
            raise UserError(
                f"{option('tiktoken_pattern')} ''", "it is empty", f"Give {PATTERN_CHOICES}"
            )


@dataclass(frozen=True)
class TokenizerFile:
    """A tokenizer, ready to be sent to workers.

    Attributes:
        name: as the user gave it.
        json: a complete tokenizer.json, without padding, truncation and dropout.
        vocab_size: largest id + 1, added tokens included.
        special: the special tokens.
        digest: hexadecimal sha256 of `json`.
        form: the kind of file, in words.
        options: the options it was read with, guessed values included.
        revision: the commit on the Hugging Face hub; None for a file.
        reference: encodes texts with the library that the file was made for; None if that is the
            tokenizers library itself. It stays in the process that read the file.
        chat_template: the template of conversations that its files have; None if they have none.
    """

    name: str
    json: str
    vocab_size: int
    special: SpecialTokens
    digest: str
    form: str = TOKENIZER_JSON
    options: TokenizerOptions = field(default_factory=TokenizerOptions)
    revision: str | None = None
    reference: Encode | None = field(default=None, compare=False, repr=False)
    chat_template: str | None = field(default=None, compare=False, repr=False)

    @property
    def public_name(self) -> str:
        """The name without the folders of this machine or of a store.

        Example:
            /home/me/bert/ is bert; org/bert, fetched from the hub, and tiktoken:gpt2 stay.
        """
        if self.revision is not None:
            return self.name
        return PurePosixPath(self.name).name or TOKENIZER_JSON

    @property
    def encoding_json(self) -> str:
        """The tokenizer.json by which texts are encoded, with special tokens in them or without."""
        return self.json if self.options.special_tokens_in_text else hide_special_tokens(self.json)

    @property
    def token_dtype(self) -> np.dtype:
        """The smallest of int16, uint16 and int32 that holds every id."""
        return token_dtype(self.vocab_size)

    def choose_dtype(self, words: str) -> np.dtype:
        """Return the type of token ids that a rule of words marks; of plain ones without a rule.

        Args:
            words: name of the rule, or empty.
        """
        return marked_dtype(self.vocab_size) if words else self.token_dtype

    def with_roles(self, roles: Mapping[str, Sequence[str]]) -> Self:
        """Return the tokenizer with the special tokens of further roles, as far as it has them.

        Args:
            roles: for each role the usual names of its token (`ObjectiveOptions.special_tokens`),
                the preferred one first. Only added tokens count, as text never becomes any other
                token as a whole.

        Raises:
            UserError: the option `role_tokens` names another role, or a token that does not exist.
        """
        named = dict(pair.split("=", 1) for pair in self.options.role_tokens)
        if unknown := sorted(named.keys() - roles.keys()):
            cause = "the objective does not ask for this role"
            cure = f"{suggest(unknown[0], roles)}Give one of {', '.join(roles)}"
            cure = cure if roles else "Leave it out"
            raise UserError(f"{option('role_tokens', unknown[0])}={named[unknown[0]]}", cause, cure)
        added = added_tokens(json.loads(self.json)) if roles else []
        ids = {token["content"]: token["id"] for token in added}
        known: list[tuple[str, int]] = []
        for role, names in roles.items():
            wanted = [named[role]] if role in named else names
            token = next((ids[name] for name in wanted if name in ids), None)
            if token is not None:
                known.append((role, token))
            elif role in named:
                cause = f"the tokenizer {self.name} has no special token of this name"
                value = f"{option('role_tokens', role)}={named[role]}"
                raise UserError(value, cause, "Correct the name")
        all_ids = tuple(sorted({*self.special.all_ids, *(token for _, token in known)}))
        return replace(self, special=replace(self.special, roles=tuple(known), all_ids=all_ids))


class Vocabulary(Protocol):
    """What an objective needs to know of a tokenizer, or of the data that it made."""

    @property
    def name(self) -> str:
        """The tokenizer's name, for messages."""

    @property
    def vocab_size(self) -> int:
        """The largest id + 1."""

    @property
    def special(self) -> SpecialTokens:
        """The special tokens."""

    @property
    def token_dtype(self) -> np.dtype:
        """The type of token ids."""


def token_dtype(vocab_size: int) -> np.dtype:
    """The smallest of int16, uint16 and int32 that holds every id."""
    return smallest_integer(max(vocab_size - 1, np.iinfo(np.int16).max))
