"""Small data sets of every objective and format, by the library's kernels and without Beam."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from tokenizers import Tokenizer

from corpusmill.corpus.document_options import DocumentOptions
from corpusmill.dataset import manifest as manifests
from corpusmill.dataset.card import describe
from corpusmill.dataset.manifest import Manifest
from corpusmill.dataset.manifest_entries import base_name
from corpusmill.dataset.manifest_json import decode, seal
from corpusmill.dataset.ownership import write_record
from corpusmill.formats.output_options import OutputOptions
from corpusmill.location import locate
from corpusmill.objectives.bert import BertOptions
from corpusmill.objectives.electra import ElectraOptions
from corpusmill.objectives.ernie import ErnieOptions
from corpusmill.objectives.gpt import GptOptions
from corpusmill.objectives.objective_options import ObjectiveOptions
from corpusmill.objectives.t5 import T5Options
from corpusmill.testing import datasets
from corpusmill.tokenization.sources.read import read_tokenizer
from corpusmill.tokenization.tokenizer_file import TokenizerFile
from tests.conftest import CHECKOUT, read_local

_Entry = TypeVar("_Entry", bound=manifests.FileEntry)

SEED = 1
SAMPLE = (CHECKOUT / "samples" / "wiki.sample.tokens").read_bytes()
# The sample's last line is a reject.
WITH_REJECT = SAMPLE + b"Not \xff text .\n"
ONE_DOCUMENT = b"The lighthouse keeper .\nThe lamp .\n"
# Documents of a few sentences, of which the sample has a hundred.
_READ = DocumentOptions(document_rule="wikitext", sentence_rule="line")

# One of each objective, as its users build it; rows are short, so that all is quick.
OBJECTIVES: Mapping[str, ObjectiveOptions] = {
    "bert": BertOptions(max_seq_length=64, duplicates=3),
    "bert_dynamic": BertOptions(
        max_seq_length=64, duplicates=3, whole_word_mask=True, mask="dynamic"
    ),
    "bert_packed": BertOptions(
        "packed",
        max_seq_length=256,
        duplicates=1,
        masked_lm_prob=0.3,
        max_predictions_per_seq=None,
        mask="dynamic",
    ),
    "ernie": ErnieOptions(max_seq_length=64, duplicates=3),
    "electra": ElectraOptions(max_seq_length=64, duplicates=2),
    "gpt_stream": GptOptions(),
    "gpt_windows": GptOptions(mode="windows", max_seq_length=48, overlap=8),
    "gpt_pack": GptOptions(mode="pack", max_seq_length=64),
    "t5": T5Options(max_seq_length=64),
    "t5_dynamic": T5Options(max_seq_length=64, mask="dynamic"),
    "ul2_dynamic": T5Options.from_preset("ul2", max_seq_length=64, mask="dynamic"),
}


@dataclass(frozen=True)
class Recipe:
    """What a data set is to be like.

    Attributes:
        objective: options of its objective.
        output: how its shards are written.
        shards: of the train split; validation has one.
        validation_share: of the documents; 0 for no such split.
        text: its corpus.
    """

    objective: ObjectiveOptions = OBJECTIVES["bert"]
    output: OutputOptions = field(default_factory=OutputOptions)
    shards: int = 3
    validation_share: float = 0.2
    text: bytes = SAMPLE


def write_dataset(folder: Path, recipe: Recipe | None = None) -> Manifest:
    """Write a complete data set into a new folder, and return its manifest."""
    recipe = recipe or Recipe()
    build = datasets.SmallBuild(
        objective=recipe.objective, tokenizer=_tokenizer_of(recipe.objective), text=recipe.text,
        documents=_READ, output=recipe.output, shards=recipe.shards,
        validation_share=recipe.validation_share, seed=SEED,
    )  # fmt: skip
    return datasets.write_dataset(folder, build)


def write_version(folder: Path, recipe: Recipe | None = None, number: int = 1) -> Manifest:
    """Write a data set as a run does: its files in the folder of a version, the manifest at last.

    Args:
        folder: of the data set, which may hold other versions.
        recipe: what it is like.
        number: of the version.
    """
    begin = f"v{number}/"
    flat = write_dataset(folder / begin, recipe)
    tokenizer_json = (folder / begin / manifests.TOKENIZER).read_text()
    copied = {*flat.small_files(tokenizer_json), manifests.CARD}
    for name in (*copied, manifests.MANIFEST, manifests.SUCCESS):
        (folder / begin / name).unlink()
    manifest = _move(flat, begin, copied)
    root = f"{begin}{manifests.ROOT}"
    contents = describe(manifest, manifest.small_files(tokenizer_json), root)
    originals = {f"{root}{name}": contents[name] for name in copied}
    for name, content in {**originals, **contents}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    manifest = decode(contents[manifests.MANIFEST], str(folder))
    write_record(locate(str(folder / begin)), map(base_name, manifest.entries))
    return manifest


def _move(manifest: Manifest, begin: str, copied: Collection[str]) -> Manifest:
    """Return a manifest whose files are in a folder, without those that are copied from there."""
    files = [file for file in manifest.files if file.file not in copied]
    splits = {
        name: replace(split, shards=tuple(_move_entry(shard, begin) for shard in split.shards))
        for name, split in manifest.splits.items()
    }
    file = f"{begin}{manifests.ROOT}{manifests.TOKENIZER}"
    return replace(
        manifest,
        splits=splits,
        files=tuple(_move_entry(file, begin) for file in files),
        tokenizer=replace(manifest.tokenizer, file=file),
        version=int(begin[1:-1]),
    )


def _move_entry(entry: _Entry, begin: str) -> _Entry:
    return msgspec.structs.replace(entry, file=f"{begin}{entry.file}")


def write_entries(folder: Path, entries: Mapping[str, Any]) -> None:
    """Write a manifest whose entries need not be allowed, with its digest."""
    content = json.dumps(entries, ensure_ascii=False).encode()
    (folder / manifests.MANIFEST).write_bytes(seal(content))


@cache
def bert_tokenizer() -> TokenizerFile:
    """The fixed WordPiece tokenizer of 600 tokens."""
    return read_tokenizer(str(CHECKOUT / "tests" / "data" / "tokenizer.json"), read_local)


@cache
def gpt_tokenizer() -> TokenizerFile:
    """The same, with a token that ends texts."""
    tokenizer = Tokenizer.from_str(bert_tokenizer().json)
    tokenizer.add_special_tokens(["<|endoftext|>"])
    content = tokenizer.to_str().encode()
    return read_tokenizer("tokenizer.json", {"tokenizer.json": content}.get)


@cache
def t5_tokenizer() -> TokenizerFile:
    """The same, with a token that ends texts, sentinels, and UL2's modes by their later names."""
    tokenizer = Tokenizer.from_str(bert_tokenizer().json)
    sentinels = [f"<extra_id_{number}>" for number in range(150)]
    tokenizer.add_special_tokens(["</s>", *sentinels, "[NLU]", "[S2S]", "[NLG]"])
    content = tokenizer.to_str().encode()
    return read_tokenizer("tokenizer.json", {"tokenizer.json": content}.get)


def _tokenizer_of(options: ObjectiveOptions) -> TokenizerFile:
    match options:
        case GptOptions():
            return gpt_tokenizer()
        case T5Options():
            return t5_tokenizer()
    return bert_tokenizer()
