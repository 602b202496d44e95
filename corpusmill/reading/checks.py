"""What is checked when a data set is opened: its split, its files, and whether it suits a model."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from corpusmill.arrays.columns import ANY_LENGTH
from corpusmill.dataset.manifest import MANIFEST, TOKENIZER, Manifest, Shard
from corpusmill.dataset.shards import read_tokenizer
from corpusmill.errors import UserError, count_things, option, suggest
from corpusmill.knobs import knob
from corpusmill.location import Location, refuse_special
from corpusmill.reading.cache.unpacking import DamagedError, damaged, fetch_parts
from corpusmill.tokenization.tokenizer_file import ROLES, SpecialTokens


def check_split(folder: Location, manifest: Manifest, split: str) -> None:
    """Refuse a split that does not exist or has no rows."""
    if split not in manifest.splits or not manifest.splits[split].rows:
        filled = [name for name, entry in manifest.splits.items() if entry.rows]
        cause = f"{folder} has {', '.join(filled) or 'no examples'}"
        cure = f"{suggest(split, filled)}Give one of these"
        raise UserError(f'split="{split}"', cause, cure)


def check_length(manifest: Manifest, url: str, longest: int, max_length: int) -> None:
    """Refuse rows that are longer than a model allows."""
    if longest <= max_length:
        return
    cause = f"the longest example of {url} has {count_things(longest, 'token')}"
    cure = f"Use a model with a larger limit, or build with a smaller {option('max_seq_length')}"
    if manifest.columns[0].width == ANY_LENGTH:
        cure = "Its rows are whole documents: read them with TokenWindows or TokenPacks"
    raise UserError(f"max_length={max_length}", cause, cure)


LISTED_FILES = knob("listed_files", 1000)
"""Of more files none is looked for when a data set is opened: a list of 1,000 takes one request to
an object store, and each is looked for again when it is needed."""


def check_present(folder: Location, manifest: Manifest, shards: Sequence[Shard]) -> None:
    """Refuse a data set that lacks a file of a shard, or has one with another size."""
    entries = manifest.entries
    if len(shards) * len(manifest.suffixes) > LISTED_FILES:
        return
    present = folder.list()
    for shard in shards:
        for name in manifest.parts(shard.file):
            if name not in present:
                raise damaged(folder, name, f"{MANIFEST} lists it, but it is missing")
            if present[name] != entries[name].bytes:
                expected = f"{MANIFEST} says {entries[name].bytes:,}"
                raise damaged(
                    folder, name, f"it has {count_things(present[name], 'byte')}, {expected}"
                )


def find_damaged(folder: Location, manifest: Manifest, shards: Sequence[Shard]) -> dict[str, str]:
    """Return the shards that are missing or differ from what was written, each with the cause.

    Raises:
        UserError: all of them are damaged, or a file exists but cannot be read now.
    """
    causes = {}
    for shard in shards:
        try:
            fetch_parts(folder, manifest, shard.file)
        except DamagedError as error:
            file = error.value.rpartition("/")[2]
            causes[shard.file] = f"{'' if file == shard.file else f'{file}: '}{error.cause}"
    if len(causes) == len(shards):
        first, cause = next(iter(causes.items()))
        cause = f"all of its {len(shards)} shards are damaged, such as {first} ({cause})"
        raise UserError(str(folder), cause, "Copy or build the data set again")
    return causes


class Vocabulary(Protocol):
    """A tokenizer of `transformers` or `tokenizers`, as far as it is compared."""

    def get_vocab(self) -> dict[str, int]:
        """Return the id of each token, including added tokens."""


def check_tokenizer(
    folder: Location, manifest: Manifest, tokenizer: str | Path | Vocabulary
) -> None:
    """Refuse a tokenizer that gives tokens other ids than those of the data.

    Args:
        folder: the folder of the data set.
        manifest: its manifest.
        tokenizer: a tokenizer.json, a folder with one, or a tokenizer of `transformers` or
            `tokenizers`. It may have further tokens.

    Raises:
        UserError: it is not a tokenizer, or does not fit the data.
    """
    if isinstance(tokenizer, str | Path):
        value, content = f"tokenizer={tokenizer}", _read_tokenizer(Path(tokenizer))
        if hashlib.sha256(content).hexdigest() == manifest.tokenizer.sha256:
            return
        vocabulary = _decode_vocabulary(content, value)
    else:
        value = f"tokenizer={type(tokenizer).__name__}"
        if not hasattr(tokenizer, "get_vocab"):
            cause = "it has no get_vocab(), which is needed for comparing tokenizers"
            raise UserError(value, cause, "Give a tokenizer of transformers, or a tokenizer.json")
        vocabulary = tokenizer.get_vocab()
    own = read_tokenizer(folder, manifest).encode()
    difference = _compare(_decode_vocabulary(own, f"{folder}/{TOKENIZER}"), vocabulary)
    difference = difference or _compare_special(manifest.tokenizer.special, tokenizer)
    if difference:
        cause = f"the data was built with another tokenizer: {difference}"
        raise UserError(value, cause, f"Give the {TOKENIZER} of {folder}")


def _read_tokenizer(path: Path) -> bytes:
    file = path / TOKENIZER if path.is_dir() else path
    try:
        refuse_special(file)
        return file.read_bytes()
    except OSError as error:
        cause = f"it cannot be read ({error.strerror})"
        raise UserError(f"tokenizer={path}", cause, f"Give a {TOKENIZER}") from None


def _decode_vocabulary(content: bytes, value: str) -> dict[str, int]:
    # Slow to import, and rarely needed.
    from corpusmill.tokenization.growth import load_tokenizer  # noqa: PLC0415

    try:
        vocabulary: dict[str, int] = load_tokenizer(content.decode(), value).get_vocab()
    except UserError:
        raise
    except Exception as error:  # the library raises plain Exception
        cause = f"it is not a {TOKENIZER} ({error})"
        raise UserError(value, cause, f"Give the {TOKENIZER} of the data set") from None
    return vocabulary


def _compare(expected: Mapping[str, int], vocabulary: Mapping[str, int]) -> str:
    """Return a clause on the first token with another id; empty if all ids are as expected."""
    for token, number in sorted(expected.items(), key=lambda item: item[1]):
        if vocabulary.get(token) != number:
            other = f"is {vocabulary[token]} in it" if token in vocabulary else "is not in it"
            return f"{token!r}, which is {number} in the data, {other}"
    return ""


def _compare_special(special: SpecialTokens, tokenizer: object) -> str:
    for role in ROLES:
        name = f"{role}_token_id"
        expected, number = getattr(special, f"{role}_id"), getattr(tokenizer, name, None)
        if expected is not None and number is not None and expected != number:
            return f"its {name} is {number}, that of the data is {expected}"
    return ""
