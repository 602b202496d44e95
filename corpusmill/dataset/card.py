"""The Hugging Face data set card `README.md`, by which `load_dataset("out")` finds the splits.

Without it, `load_dataset` would take the tables of provenance for the data. So it names the shards
of any format, also of those that `load_dataset` refuses, and a library that loads them.

Source: https://huggingface.co/docs/hub/datasets-manual-configuration
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict

from corpusmill.arrays.columns import Column, Role, column_of
from corpusmill.dataset.manifest import CARD, MANIFEST, REJECTS, SUCCESS, Manifest, Shard
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
    # Imported here because readers need no card.
    import jinja2  # noqa: PLC0415

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("corpusmill.dataset", "."),
        autoescape=False,  # noqa: S701  it is Markdown, for which `_code` and `_cell` escape texts
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    padded = manifest.output.options.is_padded
    environment.filters |= {
        "cell": _cell,
        "code": _code,
        "json": json.dumps,
        "number": "{:,}".format,
        "type": lambda column: _describe_type(column, padded),
    }
    split, entry = next(iter(manifest.splits.items()))
    files = [shard.file for shard in entry.shards]
    explain = FORMATS[manifest.output.format].explain_loading
    special = asdict(manifest.tokenizer.special).items()
    card = environment.get_template("card.md.jinja").render(
        manifest=manifest,
        shards_of_sources=_group_by_source(manifest),
        size=_SIZES[min(max(len(str(manifest.rows)) - 3, 0), len(_SIZES) - 1)],
        special_ids=[
            f"{role.removesuffix('_id')} {token}"
            for role, token in special
            if isinstance(token, int)
        ],
        mask=column_of(manifest.columns, Role.LEARNED),
        loading=[*explain(manifest.columns, manifest.output.options, split, files)],
        is_padded=padded,
        options=_list_options(manifest),
        rejects=REJECTS,
    )
    return card.encode()


def _group_by_source(manifest: Manifest) -> Mapping[str, Mapping[str, list[Shard]]]:
    """The shards of each source by split, so that each source can be read by itself."""
    groups: dict[str, dict[str, list[Shard]]] = {each.name: {} for each in manifest.corpus.sources}
    for name, split in manifest.splits.items():
        for shard in split.shards:
            if shard.source in groups:
                groups[shard.source].setdefault(name, []).append(shard)
    return groups


def _list_options(manifest: Manifest) -> Mapping[str, object]:
    """The options of the build, by name; after them those in which sources differ."""
    sources = manifest.corpus.sources
    return {
        "seed": manifest.seed,
        "validation_share": manifest.output.validation_share,
        **shorten_texts(manifest.objective.options),
        **manifest.corpus.options,
        **asdict(manifest.output.options),
        **{f"source: {source.name}": source.options for source in sources if source.options},
    }


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


def _describe_type(column: Column, padded: bool) -> str:
    """A column's type in words.

    Example:
        a list of int16 gives "list of int16", padded ones "list of 512 int16", and int8 "int8".
    """
    kind, size = column.arrow_field(padded).type, f"{column.width} " if padded else ""
    return f"list of {size}{kind.value_type}" if column.width else str(kind)


def _code(text: str) -> str:
    """Code in a table's cell or a sentence, in a fence longer than any run of ` in the text."""
    plain = " ".join(text.split())
    longest = max((len(run) for run in re.findall("`+", plain)), default=0)
    fence, space = "`" * (longest + 1), " " if longest else ""
    return f"{fence}{space}{plain.replace('|', chr(92) + '|')}{space}{fence}"


def _cell(text: str) -> str:
    r"""Text in a table's cell, in which [CLS] must not become a link nor | a border."""
    return re.sub(r"([\\\[\]|*_`<])", r"\\\1", " ".join(text.split()))
