"""Compile every kernel that workers may call, when an image is built and not when they start.

    python deploy/compile_kernels.py

A kernel is compiled anew for each type of token ids, so each objective is built from the bundled
sample with vocabularies of the three types, in every format. Run it where the library is installed
and as the workers will run: with their NUMBA_CPU_NAME, NUMBA_CPU_FEATURES and NUMBA_CACHE_DIR.
"""

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

SAMPLE = Path(__file__).resolve().parent.parent / "samples" / "wiki.sample.tokens"
END_OF_TEXT = "<|endoftext|>"

# Entries that make ids int16, uint16 and int32; ids that say where words begin take twice as many.
VOCABULARIES = (1_000, 60_000, 140_000)

BUILDS = (
    ("bert", "wordpiece", "--max-seq-length", "64"),
    ("bert", "wordpiece", "--max-seq-length", "64", "--output-format", "tfrecord"),
    ("bert", "wordpiece", "--max-seq-length", "64", "--segments", "sentence-order",
     "--whole-word-mask", "--ngram", "3", "--output-format", "avro"),
    ("bert", "wordpiece", "--max-seq-length", "64", "--segments", "full-sentences"),
    ("electra", "wordpiece"),
    ("ernie", "wordpiece", "--max-seq-length", "64", "--output-format", "ernie-text"),
    ("ernie", "wordpiece", "--max-seq-length", "64", "--mask", "static"),
    ("gpt", "bpe"),
    ("gpt", "bpe", "--mode", "windows", "--max-seq-length", "64"),
    ("gpt", "bpe", "--mode", "pack", "--max-seq-length", "64"),
)  # fmt: skip
_TRAINING = {"wordpiece": (), "bpe": ("--model", "bpe", "--special-tokens", END_OF_TEXT)}


def compile_kernels(folder: Path) -> None:
    """Build small data sets until every kernel was called.

    Args:
        folder: for what is built.

    Raises:
        subprocess.CalledProcessError: a build failed, and has said why.
    """
    for model, flags in _TRAINING.items():
        trained = folder / f"{model}.json"
        _run("train-tokenizer", "--vocab-size", "600", "--output", str(trained), *flags)
        for entries in VOCABULARIES:
            _write_larger(trained, entries, folder / f"{model}-{entries}.json")
    for number, (objective, model, *flags) in enumerate(BUILDS):
        for entries in VOCABULARIES:
            places = (str(folder / f"{model}-{entries}.json"), str(folder / f"{number}-{entries}"))
            _run(objective, "--tokenizer", places[0], "--output", places[1], *flags)


def _write_larger(trained: Path, entries: int, path: Path) -> None:
    """A tokenizer with entries that no text has."""
    tokenizer = json.loads(trained.read_text(encoding="utf-8"))
    vocabulary = tokenizer["model"]["vocab"]
    for number in range(len(vocabulary), entries):
        vocabulary[f"[unused{number}]"] = number
    path.write_text(json.dumps(tokenizer), encoding="utf-8")


def _run(command: str, *arguments: str) -> None:
    subprocess.run(  # noqa: S603  all arguments are ours
        [sys.executable, "-m", "pipeline", command, "--input", str(SAMPLE), *arguments], check=True
    )


def main() -> None:
    """Compile them."""
    with TemporaryDirectory(prefix="corpusmill-kernels-") as folder:
        compile_kernels(Path(folder))


if __name__ == "__main__":
    main()
