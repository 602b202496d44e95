"""Compile all kernels while an image is built, so that workers need not compile them.

    python deploy/compile_kernels.py

A kernel is compiled separately for each type of token ids; therefore each objective is built from
the bundled sample with vocabularies of all three types, and in every format. Run this with the
installed library and with the workers' NUMBA_CPU_NAME, NUMBA_CPU_FEATURES and NUMBA_CACHE_DIR.
"""

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

SAMPLE = Path(__file__).resolve().parent.parent / "samples" / "wiki.sample.tokens"
END_OF_TEXT = "<|endoftext|>"

# Vocabulary sizes whose ids are int16, uint16 and int32. Ids that also mark the beginning of a word
# need twice as many values.
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
    """Build small data sets that call every kernel.

    Args:
        folder: for the tokenizers and the data sets.

    Raises:
        subprocess.CalledProcessError: a build failed, and has printed the reason.
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
    """Write a tokenizer with additional entries, which do not occur in any text."""
    tokenizer = json.loads(trained.read_text(encoding="utf-8"))
    vocabulary = tokenizer["model"]["vocab"]
    for number in range(len(vocabulary), entries):
        vocabulary[f"[unused{number}]"] = number
    path.write_text(json.dumps(tokenizer), encoding="utf-8")


def _run(command: str, *arguments: str) -> None:
    subprocess.run(  # noqa: S603  the arguments are constants
        [sys.executable, "-m", "pipeline", command, "--input", str(SAMPLE), *arguments], check=True
    )


def main() -> None:
    """Compile the kernels of the installed library."""
    with TemporaryDirectory(prefix="corpusmill-kernels-") as folder:
        compile_kernels(Path(folder))


if __name__ == "__main__":
    main()
