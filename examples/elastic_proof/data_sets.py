"""Small data sets of the bundled sample: packed rows, and rows that are masked when read."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import corpusmill

SAMPLE = Path(__file__).parents[2] / "samples" / "wiki.sample.tokens"

_SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<|endoftext|>")
_BERT = {"mask": "dynamic", "duplicates": 1, "sentence_rule": "split", "language": "en"}
# The objective, and its options.
_RECIPES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "gpt-packed": ("gpt", {"mode": "pack", "max_seq_length": 56}),
    "bert-dynamic": ("bert", {**_BERT, "max_seq_length": 64}),
    "bert-packed-dynamic": ("bert", {**_BERT, "segments": "packed", "max_seq_length": 72}),
}
NAMES = list(_RECIPES)


def build_data_sets(folder: Path, names: list[str]) -> list[Path]:
    """Return the folders of data sets, which are built if they are missing."""
    folders = [folder / name for name in names]
    missing = [path for path in folders if not (path / "dataset.json").exists()]
    if missing:
        folder.mkdir(parents=True, exist_ok=True)
        tokenizer = corpusmill.train_tokenizer(
            SAMPLE, folder / "tokenizer.json", vocab_size=1000, special_tokens=_SPECIAL_TOKENS,
            replace=True, progress=False,
        )  # fmt: skip
    for path in missing:
        objective, options = _RECIPES[path.name]
        corpusmill.build(
            objective, SAMPLE, tokenizer, path, num_shards=3, seed=1, replace=True,
            progress=False, **options,
        )  # fmt: skip
    return folders
