"""The corpora, tokenizers and data sets of the benchmarks, kept in one folder."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.measure import Measurement, measure
from benchmarks.synthetic.corpus import write_corpus

CHECKOUT = Path(__file__).resolve().parents[1]
SAMPLE = CHECKOUT / "samples" / "wiki.sample.tokens"
FOLDER = Path("benchmark-data")
MEGABYTE = 10**6
WIKITEXT_2_BYTES, WIKITEXT_103_BYTES = 10_800_000, 540_000_000

_SENTINELS = tuple(f"<extra_id_{number}>" for number in range(128))
_FILL_IN = ("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>")
_TRAINING = {
    "wordpiece": (
        "--vocab-size", "30522", "--special-tokens", "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]",
        "</s>", "[R]", "[S]", "[X]", *_SENTINELS,
    ),
    "bpe": ("--vocab-size", "50257", "--special-tokens", "<|endoftext|>", *_FILL_IN),
}  # fmt: skip


def make_corpus(folder: Path, num_bytes: int) -> Path:
    """Return a synthetic corpus of this size, which is written if the folder lacks it."""
    path = folder / f"corpus-{num_bytes}.txt"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_corpus(path, num_bytes)
    return path


def make_tokenizer(folder: Path, corpus: Path, objective: str) -> Path:
    """Return a tokenizer for an objective, which is trained on the corpus if the folder lacks it.

    It is WordPiece with 30,522 tokens, and byte-level BPE with 50,257 for GPT, with the special
    tokens of all objectives.
    """
    model = "bpe" if objective == "gpt" else "wordpiece"
    path = folder / f"{corpus.stem}-{model}.json"
    if not path.exists():
        flags = ("--model", model, *_TRAINING[model])
        measure("pipeline", "train-tokenizer", "--input", corpus, "--output", path, *flags)
    return path


def build(
    command: tuple[str, ...], corpus: Path, tokenizer: Path, output: Path, *flags: object
) -> Measurement:
    """Build a data set and measure it; an output that exists is replaced.

    Args:
        command: a module and its first arguments, such as ("pipeline", "bert").
        corpus: a file or a folder.
        tokenizer: a tokenizer.json.
        output: a folder or file.
        flags: all further arguments.
    """
    remove(output)
    files = ("--input", corpus, "--tokenizer", tokenizer, "--output", output)
    measurement = measure(*command, *files, *flags)
    if not (output / "dataset.json").exists():
        return replace(measurement, examples=measurement.result["examples"])
    split = read_manifest(output)["splits"]["train"]
    targets = split["distributions"].get("target_length", [])
    tokens = split["tokens"] + sum(length * rows for length, rows in enumerate(targets))
    return replace(measurement, examples=split["rows"], tokens=tokens)


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a data set."""
    manifest: dict[str, Any] = json.loads((folder / "dataset.json").read_bytes())
    return manifest


def read_local(path: str) -> bytes | None:
    """Return the content of a local file, or None if there is no such file."""
    return Path(path).read_bytes() if Path(path).is_file() else None


def remove(path: Path) -> None:
    """Remove a file or a folder, if it exists."""
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
