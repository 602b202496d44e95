"""Tokenizers in plain vocabularies: BERT's vocab.txt; GPT-2's vocab.json and merges.txt."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

from corpusmill.tokenization.sources.source import Source, TokenizerOptions, refuse
from corpusmill.tokenization.training import SPECIAL_TOKENS, bert_tokenizer

VOCAB_TXT, VOCAB_JSON = "vocab.txt", "vocab.json with merges.txt"

# The special tokens of GPT-2 and RoBERTa, where no file beside the vocabulary names them.
_USUAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>", "<|endoftext|>")
_TOKEN_KEYS = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")


def from_vocab_txt(
    path: str,
    content: bytes,
    companions: Mapping[str, Mapping[str, Any]],
    options: TokenizerOptions,
) -> Source:
    """The tokenizer of a BERT vocab.txt: a token a line, whose place is its id.

    Raises:
        UserError: it is none.
    """
    options.refuse_inapplicable(path, VOCAB_TXT, "lowercase", "strip_accents")
    try:
        lines = content.decode("utf-8-sig").rstrip("\r\n").split("\n")
    except UnicodeDecodeError as error:
        refuse(path, f"it is not UTF-8 ({error})")
    vocabulary = {line.removesuffix("\r"): place for place, line in enumerate(lines)}
    missing = [token for token in SPECIAL_TOKENS if token not in vocabulary]
    if missing:
        refuse(path, f"it lacks the lines {', '.join(missing)}, so it is no BERT vocabulary")
    config = companions.get("tokenizer_config.json", {})
    lowercase, strip_accents = options.lowercase, options.strip_accents
    if lowercase is None:
        guess = not any(map(_is_upper_case_word, vocabulary))
        lowercase = bool(config.get("do_lower_case", guess))
    if strip_accents is None:
        strip_accents = config.get("strip_accents")
    tokenizer = bert_tokenizer(
        vocabulary, lowercase, strip_accents, bool(config.get("tokenize_chinese_chars", True))
    )
    chosen = replace(options, lowercase=lowercase, strip_accents=strip_accents)
    return Source(VOCAB_TXT, tokenizer, chosen)


def _is_upper_case_word(token: str) -> bool:
    # [unused0] and <S> are names; single letters occur in lower-cased vocabularies, too.
    word = token.removeprefix("##")
    return len(word) > 1 and word[0] not in "[<" and any(character.isupper() for character in word)


def from_vocab_json(
    path: str,
    vocabulary: dict[str, int],
    merges: bytes,
    companions: Mapping[str, Mapping[str, Any]],
    options: TokenizerOptions,
) -> Source:
    """The byte-level BPE tokenizer of a vocab.json and a merges.txt, as of GPT-2 and RoBERTa.

    Args:
        path: the vocab.json.
        vocabulary: what it holds: token to id.
        merges: the merges.txt: a version line, then two tokens a line, by rank.
        companions: parsed special_tokens_map.json, tokenizer_config.json and added_tokens.json.
        options: none of those that are about other kinds.

    Raises:
        UserError: it is none, or no byte-level one.
    """
    options.refuse_inapplicable(path, VOCAB_JSON)
    _check_byte_level(path, vocabulary)
    try:
        lines = merges.decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        refuse(path, f"the merges.txt beside it is not UTF-8 ({error})")
    # The version stands before the first pair; a token may begin with #, too.
    lines = lines[1:] if lines and lines[0].startswith("#version") else lines
    pairs = [(left, right) for left, _, right in (line.partition(" ") for line in lines if line)]
    try:
        model = models.BPE(vocabulary, pairs)
    except Exception as error:  # the library raises nothing narrower
        refuse(path, f"it does not fit the merges.txt beside it ({error})")
    config = companions.get("tokenizer_config.json", {})
    spaced = bool(config.get("add_prefix_space", False))
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=spaced)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    for token, token_id in _added_tokens(companions, vocabulary):
        tokenizer.add_tokens([token])
        if token_id not in {None, tokenizer.token_to_id(token.content)}:
            refuse(
                path,
                f"the files beside it give {token.content!r} the id {token_id}, to which the "
                "tokens before it do not lead up",
                "Give its tokenizer.json",
            )
    return Source(VOCAB_JSON, tokenizer, options)


def _check_byte_level(path: str, vocabulary: Mapping[str, int]) -> None:
    cure = "Give its tokenizer.json"
    if any(token.endswith("</w>") for token in vocabulary):
        cause = "its vocabulary marks the ends of words with </w>, as CLIP and GPT-1 do, whose "
        refuse(path, cause + "rules for text do not follow from these files", cure)
    missing = [byte for byte in pre_tokenizers.ByteLevel.alphabet() if byte not in vocabulary]
    if missing:
        cause = f"its vocabulary lacks {len(missing)} of the 256 bytes, so it is not byte-level"
        refuse(path, f"{cause} and would drop text", cure)


def _added_tokens(
    companions: Mapping[str, Mapping[str, Any]], vocabulary: Mapping[str, int]
) -> list[tuple[AddedToken, int | None]]:
    """The tokens that are taken out of the text as a whole, by id, each with its id if known."""
    config = companions.get("tokenizer_config.json", {})
    special = companions.get("special_tokens_map.json", {})
    ids: dict[str, int | None] = dict(companions.get("added_tokens.json", {}))
    described: dict[str, Mapping[str, Any]] = {content: {"special": False} for content in ids}
    for token_id, token in (config.get("added_tokens_decoder") or {}).items():
        ids[token["content"]], described[token["content"]] = int(token_id), token
    for of in (config, special):
        named = [of.get(f"{key}_token") for key in _TOKEN_KEYS]
        for given in named + list(of.get("additional_special_tokens") or ()):
            token = {"content": given} if isinstance(given, str) else given
            if token and token["content"] not in {*described, ""}:
                described[token["content"]] = token
            if token:
                described[token["content"]] = {**described[token["content"]], "special": True}
    if not described:
        described = {content: {} for content in _USUAL if content in vocabulary}
    tokens = [
        (_added_token(content, token), vocabulary.get(content, ids.get(content)))
        for content, token in described.items()
    ]
    return sorted(tokens, key=lambda token: (token[1] is None, token[1] or 0))


def _added_token(content: str, described: Mapping[str, Any]) -> AddedToken:
    sides = {side: bool(described.get(side)) for side in ("lstrip", "rstrip", "single_word")}
    special = bool(described.get("special", True))
    return AddedToken(content, normalized=False, special=special, **sides)
