"""The Hugging Face data set card `README.md`, by which `load_dataset("out")` finds the splits.

For file formats that the hub does not load, it says what does.

Source: https://huggingface.co/docs/hub/datasets-manual-configuration
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from corpusmill.dataset.manifest import (
    MANIFEST,
    REJECTS,
    SUCCESS,
    TOKENIZER,
    columns_of,
    output_options_of,
)
from corpusmill.formats.shard_formats import FORMATS
from corpusmill.formats.shard_names import shard_glob

# The hub's classes of size: upper end, exclusive, and name.
_SIZES = (
    (10**3, "n<1K"),
    (10**4, "1K<n<10K"),
    (10**5, "10K<n<100K"),
    (10**6, "100K<n<1M"),
    (10**7, "1M<n<10M"),
    (10**8, "10M<n<100M"),
    (10**9, "100M<n<1B"),
    (10**10, "1B<n<10B"),
)
_LARGEST = "n>10B"


def render_card(manifest: Mapping[str, Any]) -> bytes:
    """The card of a data set, a function of its manifest alone.

    Args:
        manifest: as `corpusmill.dataset.manifest` describes it; its list of files need not hold the
            card.

    Returns:
        UTF-8 Markdown behind YAML front matter.
    """
    sections = (
        _front_matter(manifest),
        _introduction(manifest),
        _splits(manifest),
        _columns(manifest),
        _loading(manifest),
        _options(manifest),
        _corpus(manifest),
        _files(manifest),
    )
    return "\n".join(line for section in sections for line in section).encode() + b"\n"


def _front_matter(manifest: Mapping[str, Any]) -> Iterable[str]:
    rows = sum(split["rows"] for split in manifest["splits"].values())
    size = next((name for end, name in _SIZES if rows < end), _LARGEST)
    yield "---"
    if FORMATS[manifest["output"]["format"]].hub:
        yield from ("configs:", "- config_name: default", "  data_files:")
        pattern = output_options_of(manifest).shard_name
        for name, split in manifest["splits"].items():
            # Quoted, because a * begins an alias in YAML.
            glob = shard_glob(pattern, name, split["shards"][0]["file"])
            yield from (f"  - split: {name}", f'    path: "{glob}"')
        yield from _bin_configs(manifest)
    yield from ("size_categories:", f'- "{size}"', "tags:", "- corpusmill", "- pretraining")
    yield from (f"- {manifest['objective']['name']}", "---", "")


def _bins(manifest: Mapping[str, Any]) -> list[tuple[int, list[tuple[str, list[Any]]]]]:
    """The bins that hold a row, each with its shards by split; none where lengths are mixed."""
    found: dict[int, dict[str, list[Any]]] = {}
    for name, split in manifest["splits"].items():
        for shard in split["shards"]:
            if shard.get("bin") is not None:
                found.setdefault(shard["bin"], {}).setdefault(name, []).append(shard)
    sums = {
        number: [(name, of) for name, of in splits.items() if sum(shard["rows"] for shard in of)]
        for number, splits in sorted(found.items())
    }
    return [(number, splits) for number, splits in sums.items() if splits]


def _bin_configs(manifest: Mapping[str, Any]) -> Iterable[str]:
    """A configuration for each bin, so that a trainer reads one alone."""
    for number, splits in _bins(manifest):
        yield from (f"- config_name: bin-{number:02d}", "  data_files:")
        for name, shards in splits:
            first = PurePosixPath(shards[0]["file"])
            begin = first.name.rsplit("-", maxsplit=3)[0]
            yield from (f"  - split: {name}", f'    path: "{begin}-*{first.suffix}"')


def _introduction(manifest: Mapping[str, Any]) -> Iterable[str]:
    name = manifest["objective"]["name"]
    tokenizer = manifest["tokenizer"]
    yield f"# Pretraining examples: {name}"
    yield ""
    yield (
        f"Examples for pretraining a language model with the objective `{name}`, built from text "
        f"by corpusmill {manifest['corpusmill_version']}. The same input, options and seed "
        f"({manifest['seed']}) give the same bytes."
    )
    yield (
        f"Tokens are ids of the tokenizer in `{tokenizer['file']}` ({_code(tokenizer['name'])}, "
        f"{tokenizer['vocab_size']:,} ids)."
    )
    yield ""


def _splits(manifest: Mapping[str, Any]) -> Iterable[str]:
    yield from ("## Splits", "")
    rows = [
        (
            _code(name),
            f"{split['rows']:,}",
            f"{split['tokens']:,}",
            f"{len(split['shards']):,}",
            f"{sum(shard['bytes'] for shard in split['shards']):,}",
        )
        for name, split in manifest["splits"].items()
    ]
    yield from _table(("split", "examples", "tokens", "files", "bytes"), rows)
    bins = [
        (
            _code(f"bin-{number:02d}"),
            f"{shards[0]['min_length']} to {shards[0]['max_length']}",
            _code(name),
            f"{sum(shard['rows'] for shard in shards):,}",
            f"{sum(shard['tokens'] for shard in shards):,}",
        )
        for number, splits in _bins(manifest)
        for name, shards in splits
    ]
    if bins:
        yield from ("Examples are parted by length. Each bin that is not empty is", "")
        yield from _table(("configuration", "lengths", "split", "examples", "tokens"), bins)


def _columns(manifest: Mapping[str, Any]) -> Iterable[str]:
    yield from ("## Columns", "")
    columns = [
        (_code(of["name"]), describe_type(of["type"]), _cell(of["meaning"]))
        for of in manifest["columns"]
    ]
    yield from _table(("column", "type", "meaning"), columns)
    special = manifest["tokenizer"]["special"]
    ids = ", ".join(
        f"{role.removesuffix('_id')} {of}" for role, of in special.items() if isinstance(of, int)
    )
    yield from (f"Special ids: {ids}.", "")


def _loading(manifest: Mapping[str, Any]) -> Iterable[str]:
    options = output_options_of(manifest)
    split = next(iter(manifest["splits"]))
    file = manifest["splits"][split]["shards"][0]["file"]
    shard_format = FORMATS[options.output_format]
    lines = list(shard_format.explain_loading(columns_of(manifest), options, split, file))
    if lines:
        yield from ("## How to load", "", "From the folder that holds this file:", "", *lines)
    yield "Rows are padded to one width." if options.is_padded else "Rows have their own lengths."
    yield ""


def _options(manifest: Mapping[str, Any]) -> Iterable[str]:
    yield from ("## Options of the build", "")
    groups = (
        manifest["objective"]["options"],
        manifest["corpus"]["options"],
        manifest["output"]["options"],
    )
    options = {"seed": manifest["seed"], "validation_share": manifest["output"]["validation_share"]}
    for group in groups:
        options |= group
    yield from _table(
        ("option", "value"), [(_code(name), _code(json.dumps(of))) for name, of in options.items()]
    )


def _corpus(manifest: Mapping[str, Any]) -> Iterable[str]:
    files = manifest["corpus"]["files"]
    yield from ("## Source text", "")
    size = manifest["corpus"]["bytes"]
    yield f"Files: {len(files):,}; bytes: {size:,}. `{MANIFEST}` lists them all."
    yield ""
    counts = [(_code(name), f"{number:,}") for name, number in manifest["counts"].items()]
    yield from _table(("count", "number"), counts)


def _files(manifest: Mapping[str, Any]) -> Iterable[str]:
    yield from ("## Files", "")
    yield f"- `{MANIFEST}`: options, counts, and the size and sha256 of every file"
    yield f"- `{TOKENIZER}`: the tokenizer, with which ids become text again"
    if any(entry["file"] == REJECTS for entry in manifest["files"]):
        yield f"- `{REJECTS}`: input that became no example, with file, offset and reason"
    yield f"- `{SUCCESS}`: written last, by a finished build; it holds the sha256 of `{MANIFEST}`"


def describe_type(arrow_type: str) -> str:
    """A column's type in words.

    Example:
        "list<element: int16 not null>" gives "list of int16", "fixed_size_list<element: int16 not
        null>[512]" gives "list of 512 int16", and "int8" stays.
    """
    found = re.fullmatch(r"(?:fixed_size_)?list<element: (\w+)[^>]*>(?:\[(\d+)\])?", arrow_type)
    if not found:
        return arrow_type
    value, width = found.groups()
    return f"list of {width} {value}" if width else f"list of {value}"


def _code(text: str) -> str:
    """Code in a table's cell or a sentence; a fence longer than any run of ` in the text."""
    plain = " ".join(text.split())
    longest = max((len(run) for run in re.findall("`+", plain)), default=0)
    fence, space = "`" * (longest + 1), " " if longest else ""
    return f"{fence}{space}{plain.replace('|', chr(92) + '|')}{space}{fence}"


def _cell(text: str) -> str:
    r"""Text in a table's cell, in which [CLS] must not become a link nor | a border."""
    return re.sub(r"([\\\[\]|*_`<])", r"\\\1", " ".join(text.split()))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterable[str]:
    for row in (head, ["---"] * len(head), *rows):
        yield "| " + " | ".join(row) + " |"
    yield ""
