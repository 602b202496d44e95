"""The Hugging Face data set card `README.md`, by which `load_dataset("out")` finds the splits.

Without it, `load_dataset` would take the tables of provenance for the data. So it names the shards
of any format, also of those that `load_dataset` refuses, and a library that loads them.

Source: https://huggingface.co/docs/hub/datasets-manual-configuration
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

import pyarrow as pa

from corpusmill.arrays.columns import Role, column_of
from corpusmill.dataset.manifest import (
    CARD,
    MANIFEST,
    REJECTS,
    ROOT,
    SUCCESS,
    TOKENIZER,
    TOKENIZER_CONFIG,
    Manifest,
    Shard,
)
from corpusmill.dataset.manifest_entries import shorten_texts
from corpusmill.dataset.manifest_json import encode
from corpusmill.formats.shard_formats import FORMATS

# The hub's classes of size: of numbers with up to three digits, with four, and so on.
_SIZES = (
    *("n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M"),
    *("1M<n<10M", "10M<n<100M", "100M<n<1B", "1B<n<10B", "n>10B"),
)


def render_card(manifest: Manifest) -> bytes:
    """The card of a data set, a function of its manifest alone.

    Args:
        manifest: complete, except that its files need not include the card.

    Returns:
        YAML front matter and Markdown, in UTF-8.
    """
    sections = (
        _front_matter(manifest),
        _introduction(manifest),
        _splits(manifest),
        _columns(manifest),
        _loading(manifest),
        _options(manifest),
        _corpus(manifest),
        _removals(manifest),
        _files(manifest),
    )
    return "\n".join(line for section in sections for line in section).encode() + b"\n"


def describe(manifest: Manifest, files: Mapping[str, bytes], folder: str = "") -> dict[str, bytes]:
    """Describe a data set.

    Args:
        manifest: complete, but for the entries of these and the following files.
        files: small files, by name.
        folder: before the names of these and of the card in the manifest, such as "v1/root/".

    Returns:
        {name: content} of these, the card, the manifest, and `_SUCCESS`, which is empty.
    """
    manifest = manifest.with_files({f"{folder}{name}": files[name] for name in files})
    card = render_card(manifest)
    content = encode(manifest.with_files({f"{folder}{CARD}": card}))
    return {**files, CARD: card, MANIFEST: content, SUCCESS: b""}


def _front_matter(manifest: Manifest) -> Iterable[str]:
    digits = len(str(manifest.rows))
    size = _SIZES[min(max(digits - 3, 0), len(_SIZES) - 1)]
    yield from ("---", "configs:", "- config_name: default", "  data_files:")
    for name, split in manifest.splits.items():
        yield from _list_paths(name, [shard.file for shard in split.shards])
    yield from _source_configs(manifest)
    yield from ("size_categories:", f'- "{size}"', "tags:", "- corpusmill", "- pretraining")
    yield from (f"- {manifest.objective.name}", "---", "")


def _source_configs(manifest: Manifest) -> Iterable[str]:
    """A configuration for each source, so that it can be read by itself."""
    by_source: dict[tuple[str, str | None], list[Shard]] = {}
    for name, split in manifest.splits.items():
        for shard in split.shards:
            by_source.setdefault((name, shard.source), []).append(shard)
    for source in manifest.corpus.sources:
        yield from (f"- config_name: {source.name}", "  data_files:")
        for name in manifest.splits:
            shards = by_source.get((name, source.name), ())
            if any(shard.rows for shard in shards):
                yield from _list_paths(name, [shard.file for shard in shards])


def _list_paths(split: str, paths: Sequence[str]) -> Iterable[str]:
    yield from (f"  - split: {split}", "    path:")
    yield from (f'    - "{path}"' for path in paths)


def _introduction(manifest: Manifest) -> Iterable[str]:
    name, tokenizer = manifest.objective.name, manifest.tokenizer
    yield from (f"# Pretraining examples: {name}", "")
    yield (
        f"Examples for pretraining a language model with the objective `{name}`, built from text "
        f"by corpusmill {manifest.corpusmill_version}. The same input, options and seed "
        f"({manifest.seed}) give the same bytes."
    )
    yield (
        f"Tokens are ids of the tokenizer in `{TOKENIZER}` ({_code(tokenizer.name)}, "
        f"{tokenizer.vocab_size:,} ids)."
    )
    yield ""


def _splits(manifest: Manifest) -> Iterable[str]:
    yield from ("## Splits", "")
    rows = [
        (_code(name), split.rows, split.tokens, len(split.shards), split.bytes)
        for name, split in manifest.splits.items()
    ]
    yield from _table(("split", "examples", "tokens", "files", "bytes"), rows)


def _columns(manifest: Manifest) -> Iterable[str]:
    yield from ("## Columns", "")
    padded = manifest.output.options.is_padded
    columns = [
        (_code(field.name), describe_type(field.type), _cell(column.meaning))
        for column in manifest.columns
        for field in [column.arrow_field(padded)]
    ]
    yield from _table(("column", "type", "meaning"), columns)
    special = asdict(manifest.tokenizer.special)
    ids = ", ".join(
        f"{role.removesuffix('_id')} {token}"
        for role, token in special.items()
        if isinstance(token, int)
    )
    yield from (" ".join(filter(None, [f"Special ids: {ids}.", manifest.bounds_in_words])), "")
    mask = column_of(manifest.columns, Role.LEARNED)
    if mask is not None and mask.name != "labels":
        what = (
            f"Only what `{mask.name}` marks is to be learned. Trainers that do not know it, such "
        )
        what += "as TRL's `SFTTrainer`, learn every token and say nothing. Give them `labels`: the "
        yield from (f"{what}tokens where it is not {mask.pad}, and -100 elsewhere.", "")


def _loading(manifest: Manifest) -> Iterable[str]:
    padded = manifest.output.options.is_padded
    split, entry = next(iter(manifest.splits.items()))
    shard_format, files = FORMATS[manifest.output.format], [shard.file for shard in entry.shards]
    lines = shard_format.explain_loading(manifest.columns, manifest.output.options, split, files)
    if text := list(lines):
        yield from ("## How to load", "", "From the folder that holds this file:", "", *text)
    yield "Rows are padded to one width." if padded else "Rows have their own lengths."
    yield ""


def _options(manifest: Manifest) -> Iterable[str]:
    yield from ("## Options of the build", "")
    options = {
        "seed": manifest.seed,
        "validation_share": manifest.output.validation_share,
        **shorten_texts(manifest.objective.options),
        **manifest.corpus.options,
        **asdict(manifest.output.options),
        **{
            f"source: {each.name}": each.options for each in manifest.corpus.sources if each.options
        },
    }
    yield from _table(
        ("option", "value"),
        [(_code(name), _code(json.dumps(value))) for name, value in options.items()],
    )


def _corpus(manifest: Manifest) -> Iterable[str]:
    files = manifest.corpus.files
    size = f"Files: {len(files):,}; bytes: {manifest.corpus.bytes:,}."
    yield from ("## Source text", "", f"{size} `{MANIFEST}` lists them all.", "")
    counts = manifest.counts.items()
    yield from _table(("count", "number"), ((_code(name), number) for name, number in counts))


def _removals(manifest: Manifest) -> Iterable[str]:
    if not manifest.removals:
        return
    what = "The counts above include what is listed here."
    yield from ("## Removed after the build", "", what, "")
    head = ("documents for which", "documents", "rows that held their text", "tokens")
    rows = ((_code(one.reason), one.documents, one.rows, one.tokens) for one in manifest.removals)
    yield from _table(head, rows)


def _files(manifest: Manifest) -> Iterable[str]:
    yield from ("## Files", "")
    yield f"- `{MANIFEST}`: options, counts, and the size and sha256 of every file"
    yield f"- `{TOKENIZER}`: the tokenizer, which decodes the ids"
    if {TOKENIZER_CONFIG, f"{ROOT}{TOKENIZER_CONFIG}"} & manifest.paths.keys():
        yield f"- `{TOKENIZER_CONFIG}`: its special tokens, for `AutoTokenizer` of this folder"
    if REJECTS in manifest.paths:
        what = "input that could not be used, with file, offset and reason"
        yield f"- `{manifest.paths[REJECTS]}`: {what}"
    if manifest.provenance:
        what = "of which tokens of which documents each row is made"
        yield f"- `provenance/` of each version: {what}; `corpusmill trace` reads it"
    yield f"- `v1/` and so on: what each run has written; `{MANIFEST}` lists what is in use"
    yield f"- `{SUCCESS}`: empty; written after `{MANIFEST}`, for those who look for it"


def describe_type(kind: pa.DataType) -> str:
    """A column's type in words.

    Example:
        a list of int16 gives "list of int16", one of a fixed size "list of 512 int16", and int8
        "int8".
    """
    if pa.types.is_fixed_size_list(kind):
        return f"list of {kind.list_size} {kind.value_type}"
    return f"list of {kind.value_type}" if pa.types.is_list(kind) else str(kind)


def _code(text: str) -> str:
    """Code in a table's cell or a sentence, in a fence longer than any run of ` in the text."""
    plain = " ".join(text.split())
    longest = max((len(run) for run in re.findall("`+", plain)), default=0)
    fence, space = "`" * (longest + 1), " " if longest else ""
    return f"{fence}{space}{plain.replace('|', chr(92) + '|')}{space}{fence}"


def _cell(text: str) -> str:
    r"""Text in a table's cell, in which [CLS] must not become a link nor | a border."""
    return re.sub(r"([\\\[\]|*_`<])", r"\\\1", " ".join(text.split()))


def _table(head: Sequence[str], rows: Iterable[Sequence[str | int]]) -> Iterable[str]:
    for row in (head, ["---"] * len(head), *rows):
        cells = [f"{cell:,}" if isinstance(cell, int) else cell for cell in row]
        yield "| " + " | ".join(cells) + " |"
    yield ""
