"""A tokenizer read from what a user names: a file of any kind, a folder, a name on the hub."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any

import orjson
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

from corpusmill.errors import UserError, catch_panics, option, suggest
from corpusmill.hub import describe_error, fetch_files
from corpusmill.tokenization.growth import load_tokenizer
from corpusmill.tokenization.sources import byte_vocabulary, sentencepiece, tiktoken
from corpusmill.tokenization.sources.source import (
    Companions,
    ReadBytes,
    Source,
    SourceFile,
    refuse,
)
from corpusmill.tokenization.tokenizer_file import (
    BYTES_FORM,
    MOST_TOKENS,
    TOKENIZER_JSON,
    TokenizerFile,
    TokenizerOptions,
    find_special_tokens,
)

VOCAB_TXT, VOCAB_JSON = "vocab.txt", "vocab.json with merges.txt"

# The special tokens of GPT-2 and RoBERTa, unless a file beside the vocabulary names others.
_USUAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>", "<|endoftext|>")
_TOKEN_KEYS = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
# The longest word that the tokenizer of google-research/bert divides into pieces, in characters.
_LONGEST_WORD = 200
_CURE = "Give its tokenizer.json"


def from_vocab_txt(file: SourceFile) -> Source:
    """Convert a BERT vocab.txt: a token a line, whose number is its id.

    Raises:
        UserError: it is not one, or an option does not apply.
    """
    # The room of training, which other tokenizers do not need.
    from corpusmill.tokenization.training.parts import (  # noqa: PLC0415
        SPECIAL_TOKENS,
        bert_tokenizer,
    )

    try:
        lines = file.content.decode("utf-8-sig").rstrip("\r\n").split("\n")
    except UnicodeDecodeError as error:
        file.refuse(f"it is not UTF-8 ({error})")
    vocabulary = {line.removesuffix("\r"): number for number, line in enumerate(lines)}
    missing = [token for token in SPECIAL_TOKENS if token not in vocabulary]
    if missing:
        cause = f"it lacks the lines {', '.join(missing)}, so it is not a BERT vocabulary"
        file.refuse(cause)
    lowercase, strip_accents = file.options.lowercase, file.options.strip_accents
    if lowercase is None:
        # [unused0] and <S> are names; lower-cased vocabularies hold upper-case letters alone, too.
        words = (token.removeprefix("##") for token in vocabulary)
        long_words = (word for word in words if len(word) > 1 and word[0] not in "[<")
        guess = not any(map(str.isupper, chain.from_iterable(long_words)))
        lowercase = bool(file.config.get("do_lower_case", guess))
    if strip_accents is None:
        strip_accents = file.config.get("strip_accents")
    chinese = bool(file.config.get("tokenize_chinese_chars", True))
    tokenizer = bert_tokenizer(
        vocabulary, lowercase, strip_accents, chinese, longest_word=_LONGEST_WORD
    )
    chosen = replace(file.options, lowercase=lowercase, strip_accents=strip_accents)
    return Source(VOCAB_TXT, tokenizer, chosen)


def from_vocab_json(file: SourceFile, vocabulary: dict[str, int]) -> Source:
    """Convert a vocab.json and a merges.txt, the byte-level BPE of GPT-2 and RoBERTa.

    Args:
        file: the vocab.json.
        vocabulary: its content: token to id.

    Raises:
        UserError: they are not a byte-level BPE, or an option does not apply.
    """
    merges_path = f"{file.path.removesuffix('vocab.json')}merges.txt"
    merges = file.read_bytes(merges_path)
    if merges is None:
        file.refuse(f"it is a vocabulary, but there is no {merges_path} beside it")
    file.check_options(VOCAB_JSON)
    if any(token.endswith("</w>") for token in vocabulary):
        cause = "its vocabulary marks the ends of words with </w>, as CLIP and GPT-1 do, whose "
        file.refuse(cause + "rules for text do not follow from these files", _CURE)
    missing = [byte for byte in pre_tokenizers.ByteLevel.alphabet() if byte not in vocabulary]
    if missing:
        cause = f"its vocabulary lacks {len(missing)} of the 256 bytes, so it is not byte-level"
        file.refuse(f"{cause} and would drop text", _CURE)
    try:
        lines = merges.decode("utf-8-sig").splitlines()
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
    return Source(VOCAB_JSON, tokenizer, file.options)


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


# The files that hold a tokenizer, best first, and those that say more about it.
MAIN_FILES = (
    "tokenizer.json", "vocab.txt", "vocab.json", "tokenizer.model", "spiece.model",
    "sentencepiece.bpe.model", "spm.model",
)  # fmt: skip
COMPANIONS = ("special_tokens_map.json", "tokenizer_config.json", "added_tokens.json")
CHAT_TEMPLATE = "chat_template.jinja"
_TEMPLATE_WITH_TOOLS = "additional_chat_templates/tool_use.jinja"

_NAME = re.compile(r"(?:[\w-][\w.-]*/)?[\w-][\w.-]*(?:@[\w./-]+)?")
_FILE = re.compile(r"\.(json|txt|model|tiktoken|bpe|gz|zst|bz2|xz)$")


def is_hub_name(name: str) -> bool:
    """Whether a name, such as bert-base-uncased or org/name@revision, can exist on the hub."""
    return _NAME.fullmatch(name) is not None and _FILE.search(name) is None


def fetch_tokenizer(name: str) -> Path:
    """Fetch a tokenizer's files from the hub.

    The hub's cache, endpoint, token and offline mode are those of huggingface_hub (HF_HOME,
    HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE); if the hub cannot be reached, its cache is used.

    Args:
        name: a name that `is_hub_name`; the part after an @ is a branch, a tag or a commit.

    Returns:
        The folder of the files, which is named after their commit.

    Raises:
        UserError: the hub has no such tokenizer, or neither it nor its cache can be read.
    """

    def choose(names: list[str]) -> list[str]:
        """Choose the best main file, and those that say more about it."""
        main = next((file for file in MAIN_FILES if file in names), None)
        merges = ["merges.txt"] if main == "vocab.json" else []
        return [one for one in names if one in {main, *COMPANIONS, CHAT_TEMPLATE, *merges}]

    repository, _, revision = name.partition("@")
    patterns = [*MAIN_FILES, *COMPANIONS, CHAT_TEMPLATE, "merges.txt"]
    try:
        files = fetch_files(repository, patterns, "model", revision or None, choose)
    except Exception as error:  # of any kind; the cure is the same
        refuse(
            name,
            "there is no such file or folder here, and the Hugging Face hub does not provide "
            f"it ({describe_error(error)})",
            f"{suggest(name, [byte_vocabulary.BYTES])}Check the path or the name; a private one "
            "needs HF_TOKEN; without a network, download its tokenizer.json and give its path",
        )
    if not any(file.name in MAIN_FILES for file in files):
        refuse(
            name,
            f"on the Hugging Face hub it holds no tokenizer ({', '.join(MAIN_FILES)})",
            "Give the name of a model that has one",
        )
    return files[0].parent


def read_tokenizer(
    name: str, read_bytes: ReadBytes, options: TokenizerOptions | None = None
) -> TokenizerFile:
    """Read a tokenizer of any kind.

    Args:
        name: the path of a tokenizer.json, of a BERT vocab.txt, of a vocab.json with a merges.txt
            beside it, of a tiktoken or SentencePiece file, or of a folder with one of them;
            tiktoken:NAME; bytes; or, if there is no such file, a name on the Hugging Face hub.
        read_bytes: returns the bytes of a path, or None if there is no such file.
        options: for the kinds of files that do not say everything.

    Raises:
        UserError: there is no such file, it is not a tokenizer, or an option does not apply.
    """
    file, revision = _open_source(name, read_bytes, options or TokenizerOptions())
    try:
        with catch_panics("its library"):
            return _complete(file, _convert(file), revision)
    except UserError:
        raise
    except Exception as error:  # what entries of wrong kinds raise, and what libraries do
        beside = "it, or a file beside it," if file.companions else "it"
        file.refuse(f"{beside} is not what its name says ({type(error).__name__}: {error})")


def _open_source(
    name: str, read_bytes: ReadBytes, options: TokenizerOptions
) -> tuple[SourceFile, str | None]:
    """Find a tokenizer's files; return them with their commit if they are from the hub."""
    if name.startswith(tiktoken.PREFIX) or name == byte_vocabulary.BYTES:
        return SourceFile(name, name, b"", {}, read_bytes, options), None
    revision = None
    main_file = _find_main_file(name, read_bytes)
    if main_file is None and is_hub_name(name) and not Path(name).exists():
        folder = fetch_tokenizer(name)
        revision, read_bytes = folder.name, _read_local
        main_file = _find_main_file(str(folder), read_bytes)
    if main_file is None:
        is_folder = Path(name).is_dir()
        missing = "there is no such file, or it cannot be read"
        refuse(name, "it is a folder without a tokenizer" if is_folder else missing)
    path, content = main_file
    if not content.strip():
        refuse(name, "the file is empty")
    if path.endswith("merges.txt"):
        path = f"{path.removesuffix('merges.txt')}vocab.json"
        content = read_bytes(path) or refuse(name, f"there is no {path} beside it")
    folder_name = path[: path.rfind("/") + 1]
    companions = {
        companion: _parse_companion(folder_name + companion, found)
        for companion in COMPANIONS
        if (found := read_bytes(folder_name + companion))
    }
    return SourceFile(name, path, content, companions, read_bytes, options), revision


def _read_local(path: str) -> bytes | None:
    file = Path(path)
    return file.read_bytes() if file.is_file() else None


def _find_main_file(path: str, read_bytes: ReadBytes) -> tuple[str, bytes] | None:
    """The file at a path, or the best one in the folder, with its bytes."""
    for name in (path, *(f"{path.rstrip('/')}/{name}" for name in MAIN_FILES)):
        with suppress(IsADirectoryError):
            if (content := read_bytes(name)) is not None:
                return name, content
    return None


def _parse_companion(path: str, content: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UserError(
            path, f"this file beside the tokenizer is not JSON ({error})", "Repair or remove it"
        ) from None
    return parsed if isinstance(parsed, dict) else {}


# For a name, the prefix of one, or the suffix of a file's: what it is, the options that mean
# something for it, and what reads it.
_READERS: dict[str, tuple[str, tuple[str, ...], Callable[[SourceFile], Source]]] = {
    tiktoken.PREFIX: (tiktoken.ENCODING, (), tiktoken.from_encoding),
    byte_vocabulary.BYTES: (BYTES_FORM, (), byte_vocabulary.from_name),
    ".txt": (VOCAB_TXT, ("lowercase", "strip_accents"), from_vocab_txt),
    ".tiktoken": (tiktoken.FILE, ("tiktoken_pattern",), tiktoken.from_tiktoken_file),
    ".model": (sentencepiece.FORM, ("lowercase", "strip_accents"), sentencepiece.from_model),
}


def _convert(file: SourceFile) -> Source:
    is_named = file.name.startswith(tiktoken.PREFIX)
    kind = tiktoken.PREFIX if is_named else PurePosixPath(file.path).suffix
    kind = file.name if file.name == byte_vocabulary.BYTES else kind
    # A token in base64 and its rank: Llama 3 has them in a tokenizer.model.
    if kind != ".txt" and re.match(rb"[A-Za-z0-9+/]+=* \d+\r?\n", file.content[:4096]):
        kind = ".tiktoken"
    if kind in _READERS:
        form, applicable, read = _READERS[kind]
        file.check_options(form, *applicable)
        return read(file)
    try:
        parsed = json.loads(file.content)
    except (ValueError, RecursionError) as error:
        file.refuse(f"it is not JSON ({error})")
    if isinstance(parsed, dict) and isinstance(parsed.get("model"), dict):
        file.check_options(TOKENIZER_JSON)
        try:
            tokenizer = load_tokenizer(
                orjson.dumps(parsed).decode(), option("tokenizer", file.name)
            )
        except UserError:
            raise
        except Exception as error:  # the library raises nothing narrower
            file.refuse(f"the tokenizers library cannot read it ({error})")
        return Source(TOKENIZER_JSON, tokenizer, file.options)
    numbered = isinstance(parsed, dict) and all(isinstance(one, int) for one in parsed.values())
    if not parsed or not numbered or not file.path.endswith("vocab.json"):
        file.refuse("it is JSON, but does not describe a tokenizer")
    return from_vocab_json(file, parsed)


def _complete(file: SourceFile, source: Source, revision: str | None) -> TokenizerFile:
    vocabulary = source.tokenizer.get_vocab(with_added_tokens=True)
    if not vocabulary:
        file.refuse("its vocabulary is empty")
    # The library writes a tokenizer in time linear in the largest id: half a minute for 2**31.
    if (largest := max(vocabulary.values())) >= MOST_TOKENS:
        file.refuse(f"its largest id is {largest:,}, and ids may be up to {MOST_TOKENS - 1:,}")
    described: dict[str, Any] = orjson.loads(source.tokenizer.to_str())
    model = described["model"]
    if model["type"] in {"WordPiece", "WordLevel"} and model["unk_token"] not in model["vocab"]:
        # Otherwise the library fails only at the first unknown word.
        file.refuse(
            f"its vocabulary lacks the token for unknown words, {model['unk_token']!r}",
            "Add the token to the vocabulary, or name the right one as the model's unk_token",
        )
    special = find_special_tokens(described, file.companions)
    described["padding"] = described["truncation"] = None
    if model.get("dropout"):
        # It draws from a global generator: the same input would not give the same ids.
        model["dropout"] = None
    text = json.dumps(described, ensure_ascii=False)
    digest = hashlib.sha256(text.encode()).hexdigest()
    name = file.name.encode(errors="backslashreplace").decode()  # for the manifest, which is UTF-8
    return TokenizerFile(
        name, text, largest + 1, special, digest,
        source.form, source.options, revision, source.reference, _find_chat_template(file),
    )  # fmt: skip


def _find_chat_template(file: SourceFile) -> str | None:
    """Return the template beside a tokenizer; several with names as a list in JSON.

    Source: `_from_pretrained` of transformers' tokenization_utils_base.py.
    """
    folder = file.path[: file.path.rfind("/") + 1]
    if content := file.read_bytes(folder + CHAT_TEMPLATE):
        template: Any = content.decode(errors="replace")
        if with_tools := file.read_bytes(folder + _TEMPLATE_WITH_TOOLS):
            template = [
                {"name": "default", "template": template},
                {"name": "tool_use", "template": with_tools.decode(errors="replace")},
            ]
    else:
        template = file.config.get("chat_template")
    if isinstance(template, list):
        return json.dumps(template, ensure_ascii=False)
    return template if isinstance(template, str) else None
