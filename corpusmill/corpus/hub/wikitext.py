"""WikiText from the Hugging Face hub as one plain text file, as seed 000 reads it."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq

from corpusmill.errors import UserError
from corpusmill.hub import describe_error, fetch_files

# The names that users write, and the configurations of the data set that the article loads.
WIKITEXT = {"wikitext-2": "wikitext-2-raw-v1", "wikitext-103": "wikitext-103-raw-v1"}
SPLITS = ("train", "validation", "test")

REPOSITORY = "Salesforce/wikitext"
ROWS_AT_A_TIME = 8192


def fetch_wikitext(name: str, destination: str | Path, split: str = "train") -> Path:
    """Download a split of WikiText and write its rows as the lines of one text file.

    If the hub cannot be reached, its cache is used. Memory is bounded by a row group of the
    Parquet files.

    Args:
        name: "wikitext-2" or "wikitext-103".
        destination: folder for the text; made if it is missing.
        split: "train", "validation" or "test".

    Returns:
        The path of `wiki.<split>.tokens`, in which each row ends with one newline. It replaces an
        older file of that name once it is complete.

    Raises:
        UserError: for an unknown name or split, or if neither the hub nor its cache has the files.
    """
    if name not in WIKITEXT:
        cause = "it is not the name of a data set that can be downloaded"
        raise UserError(name, cause, f"Use {' or '.join(WIKITEXT)}, or the path of a file")
    if split not in SPLITS:
        raise UserError(f"{name}, split {split!r}", "no such split", f"Use {', '.join(SPLITS)}")
    files = _parquet_files(name, split)
    path = Path(destination) / f"wiki.{split}.tokens"
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    with partial.open("w", encoding="utf-8", newline="\n") as text:
        for file in files:
            text.writelines(_lines(file))
    return partial.replace(path)


def _lines(file: Path) -> Iterator[str]:
    """Read the column `text` of a Parquet file; each row ends with one newline."""
    with pq.ParquetFile(file, pre_buffer=False) as parquet:
        for batch in parquet.iter_batches(batch_size=ROWS_AT_A_TIME, columns=["text"]):
            for row in batch.column(0).to_pylist():
                yield f"{(row or '').rstrip(chr(10))}\n"


def _parquet_files(name: str, split: str) -> list[Path]:
    """Return the split's Parquet files in the hub's cache, in order."""
    pattern = f"{WIKITEXT[name]}/{split}-[0-9]*-of-[0-9]*.parquet"
    try:
        files = fetch_files(REPOSITORY, [pattern], "dataset")
        # "train-00000-of-00002.parquet" says how many files there are.
        if not files or len(files) != int(files[-1].stem.rpartition("-")[2]):
            names = ", ".join(file.name for file in files) or "none"
            raise FileNotFoundError(f"files matching {pattern} are incomplete, found: {names}")
    except Exception as error:  # the cure is the same for all of them
        raise UserError(
            f"{name} (split {split!r} of the data set {REPOSITORY} on the Hugging Face hub)",
            f"it cannot be downloaded ({describe_error(error)})",
            "Download it on a machine with access to the hub and pass the path of its text file",
        ) from error
    return files
