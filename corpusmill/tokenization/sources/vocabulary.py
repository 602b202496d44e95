"""Plain vocabularies as tokenizers: BERT's vocab.txt; GPT-2's vocab.json and merges.txt."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

from corpusmill.tokenization.sources.source import Companions, Source, SourceFile
from corpusmill.tokenization.tokenizer_file import TokenizerOptions
from corpusmill.tokenization.training.wordpiece import SPECIAL_TOKENS, bert_tokenizer

VOCAB_TXT, VOCAB_JSON = "vocab.txt", "vocab.json with merges.txt"

# The special tokens of GPT-2 and RoBERTa, unless a file beside the vocabulary names others.
_USUAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>", "<|endoftext|>")
_TOKEN_KEYS = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
# The longest word that the tokenizer of google-research/bert divides into pieces, in characters.
_LONGEST_WORD = 200
_CURE = "Give its tokenizer.json"


def from_vocab_txt(file: SourceFile, options: TokenizerOptions) -> Source:
    """Convert a BERT vocab.txt: a token a line, whose number is its id.

    Raises:
        UserError: it is not one, or an option does not apply.
    """
    file.check_options(options, VOCAB_TXT, "lowercase", "strip_accents")
    try:
        lines = file.content.decode("utf-8-sig").rstrip("\r\n").split("\n")
    except UnicodeDecodeError as error:
        file.refuse(f"it is not UTF-8 ({error})")
    vocabulary = {line.removesuffix("\r"): number for number, line in enumerate(lines)}
    missing = [token for token in SPECIAL_TOKENS if token not in vocabulary]
    if missing:
        cause = f"it lacks the lines {', '.join(missing)}, so it is not a BERT vocabulary"
        file.refuse(cause)
    lowercase, strip_accents = options.lowercase, options.strip_accents
    if lowercase is None:
        guess = not any(map(_is_upper_case_word, vocabulary))
        lowercase = bool(file.config.get("do_lower_case", guess))
    if strip_accents is None:
        strip_accents = file.config.get("strip_accents")
    chinese = bool(file.config.get("tokenize_chinese_chars", True))
    tokenizer = bert_tokenizer(
        vocabulary, lowercase, strip_accents, chinese, longest_word=_LONGEST_WORD
    )
    chosen = replace(options, lowercase=lowercase, strip_accents=strip_accents)
    return Source(VOCAB_TXT, tokenizer, chosen)


def _is_upper_case_word(token: str) -> bool:
    # [unused0] and <S> are names; lower-cased vocabularies hold single upper-case letters, too.
    word = token.removeprefix("##")
    return len(word) > 1 and word[0] not in "[<" and any(character.isupper() for character in word)


def from_vocab_json(
    file: SourceFile, vocabulary: dict[str, int], options: TokenizerOptions
) -> Source:
    """Convert a vocab.json and a merges.txt, the byte-level BPE of GPT-2 and RoBERTa.

    Args:
        file: the vocab.json.
        vocabulary: its content: token to id.
        options: none that are for other kinds of files.

    Raises:
        UserError: they are not a byte-level BPE, or an option does not apply.
    """
    merges_path = f"{file.path.removesuffix('vocab.json')}merges.txt"
    merges = file.read_bytes(merges_path)
    if merges is None:
        file.refuse(f"it is a vocabulary, but there is no {merges_path} beside it")
    file.check_options(options, VOCAB_JSON)
    _check_byte_level(file, vocabulary)
    try:
        lines = merges.decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        file.refuse(f"the merges.txt beside it is not UTF-8 ({error})")
    # Only the first line is a version: a token may begin with #, too.
    lines = lines[1:] if lines and lines[0].startswith("#version") else lines
    pairs = [(left, right) for left, _, right in (line.partition(" ") for line in lines if line)]
    try:
        tokenizer = Tokenizer(models.BPE(vocabulary, pairs))
    except Exception as error:  # the library raises nothing narrower
        file.refuse(f"it does not fit the merges.txt beside it ({error})")
    spaced = bool(file.config.get("add_prefix_space", False))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=spaced)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    for token, token_id in _added_tokens(file.companions, vocabulary):
        tokenizer.add_tokens([token])
        if token_id not in {None, tokenizer.token_to_id(token.content)}:
            cause = f"the files beside it give {token.content!r} the id {token_id}, which is not "
            file.refuse(f"{cause}the next one after the tokens before it", _CURE)
    return Source(VOCAB_JSON, tokenizer, options)


def _check_byte_level(file: SourceFile, vocabulary: Mapping[str, int]) -> None:
    if any(token.endswith("</w>") for token in vocabulary):
        cause = "its vocabulary marks the ends of words with </w>, as CLIP and GPT-1 do, whose "
        file.refuse(cause + "rules for text do not follow from these files", _CURE)
    missing = [byte for byte in pre_tokenizers.ByteLevel.alphabet() if byte not in vocabulary]
    if missing:
        cause = f"its vocabulary lacks {len(missing)} of the 256 bytes, so it is not byte-level"
        file.refuse(f"{cause} and would drop text", _CURE)


def _added_tokens(
    companions: Companions, vocabulary: Mapping[str, int]
) -> list[tuple[AddedToken, int | None]]:
    """The tokens that are never split, in the order of their ids, each with its id if known."""
    config = companions.get("tokenizer_config.json", {})
    ids: dict[str, int | None] = dict(companions.get("added_tokens.json", {}))
    described: dict[str, Mapping[str, Any]] = {content: {"special": False} for content in ids}
    for token_id, token in (config.get("added_tokens_decoder") or {}).items():
        ids[token["content"]], described[token["content"]] = int(token_id), token
    for companion in (config, companions.get("special_tokens_map.json", {})):
        named = [companion.get(f"{key}_token") for key in _TOKEN_KEYS]
        for entry in named + list(companion.get("additional_special_tokens") or ()):
            token = {"content": entry} if isinstance(entry, str) else entry or {}
            content = token.get("content")
            if content:
                described[content] = {**described.get(content, token), "special": True}
    if not described:
        described = {content: {} for content in _USUAL if content in vocabulary}
    tokens = []
    for content, token in described.items():
        flags = {flag: bool(token.get(flag)) for flag in ("lstrip", "rstrip", "single_word")}
        flags["special"] = bool(token.get("special", True))
        added = AddedToken(content, normalized=False, **flags)
        tokens.append((added, vocabulary.get(content, ids.get(content))))
    return sorted(tokens, key=lambda token: (token[1] is None, token[1] or 0))
